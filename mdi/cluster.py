"""Who does the work on shards: this process, one shard after the other, or the workers of a Dask cluster.

Work comes as calls of one function, one for each shard; what is large lies in files that everybody sees (mdi/room.py),
and a call leaves what it was given as it is, so one whose worker has died is simply made again by another one.

Whoever can talk to a Dask scheduler or to a worker can run code there. Those that are started here speak TLS with a key
that is made for the job and that nobody else has, and show nothing by HTTP.
"""

import contextlib
import importlib
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, TypeAlias

from mdi import room
from mdi.errors import MdiError, OptionError
from mdi.files import read_plain, scratch_folder, writing
from mdi.progress import detail, say

if TYPE_CHECKING:
    from distributed import Client, Future

# What is called for each shard, and one call: its arguments.
Work: TypeAlias = Callable[..., Any]
Call: TypeAlias = tuple[Any, ...]
KINDS = "local:N, tcp://host:port, tls://host:port, slurm:CONF or sge:CONF"
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.%]+\]|[^\s/:@\[\]]+):([0-9]{1,5})")
# How long a batch system may take to start the first worker, and how long nobody may be left to work.
PATIENCE = 600
LOOK = 5  # seconds after which somebody looks whether they are
FETCH = 60  # seconds for a result, which is small, to get here
ANSWER = 10  # seconds for a scheduler to answer
AGAIN = "Then give the same command again"


class Runner:
    """This process, which makes one call after the other and sends nothing anywhere. `workers`: how many calls go on at
    a time. `exchanged`: bytes of arguments and results so far."""

    workers = 1
    exchanged = 0

    def each(self, function: Work, calls: Sequence[Call], folder: str, label: str = "") -> Iterator[Any]:
        """function(*call) for every call, in their order. Large arrays are in files of `folder`: see mdi/room.py."""
        for call in calls:
            yield function(*call)


def work(data: bytes, folder: str) -> bytes:
    """What a worker does with a call that was sent to it."""
    from distributed import get_worker

    function, call = room.loads(data)
    limit = get_worker().memory_manager.memory_limit  # pages of files count, and whoever has more is killed
    with room.arrays_in(folder, limit // 4 if limit else None):
        found = room.dumps(function(*call), {}, give=True)
    room.let_go()
    return found


@dataclass(frozen=True)
class _Sent:
    """A call that is under way, and for which worker it was meant."""

    future: "Future[bytes]"
    place: str


class OnDask(Runner):
    """The workers of a Dask client."""

    def __init__(self, client: "Client") -> None:
        self.client = client
        self.addresses = sorted(client.nthreads())
        if not self.addresses:
            raise MdiError("the Dask cluster has no workers; start some first")
        self.workers, self.exchanged = len(self.addresses), 0

    def each(self, function: Work, calls: Sequence[Call], folder: str, label: str = "") -> Iterator[Any]:
        from dask.config import set as configured

        if label:  # some may have died, or come late
            self.addresses = self._alive(label) or self.addresses
        copies: dict[int, tuple[room.Array, room.Array]] = {}
        sent = [(room.dumps((function, call), copies), folder) for call in calls]
        self.exchanged += sum(len(data) for data, _ in sent)
        with _explained(label), configured({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            asked = [self._submit(i, function, call) for i, call in enumerate(sent)]
        try:
            for i in range(len(asked)):
                with _explained(label), self.client.as_current():
                    found = self._result(asked, i, function, sent, label)
                self.exchanged += len(found)
                detail(f"{label}: part {i} done")
                yield room.loads(found)
        finally:
            with contextlib.suppress(Exception):  # of a scheduler that has gone
                self.client.cancel([one.future for one in asked if not one.future.done()])

    def _result(self, asked: list[_Sent], at: int, function: Work, calls: Sequence[Call], label: str) -> Any:
        """That of one call, unless any fails before; an error if nobody has been there to work for long. Dask may
        forget a call whose worker has died, or a result that was still there: these calls are made again."""
        from distributed import wait

        alone = 0.0
        while True:
            if asked[at].future.status == "finished":
                try:
                    return asked[at].future.result(timeout=FETCH)
                except TimeoutError:
                    self._again(asked, [at], function, calls)
            left = [i for i in range(at, len(asked)) if asked[i].future.status != "finished"]
            for i in left:
                if asked[i].future.status in ("error", "cancelled"):
                    asked[i].future.result()  # raises it
            try:
                wait([asked[i].future for i in left], timeout=LOOK, return_when="FIRST_COMPLETED")
            except TimeoutError:
                alive = self._alive(label)
                alone = 0.0 if alive else alone + LOOK
                if alone >= PATIENCE:
                    raise MdiError(f"{label or 'a step'}: no worker is left; start some. {AGAIN}") from None
                if alive:
                    self.addresses = alive
                    self._again(asked, [i for i in left if asked[i].place not in alive], function, calls)

    def _again(self, asked: list[_Sent], lost: list[int], function: Work, calls: Sequence[Call]) -> None:
        self.client.cancel([asked[i].future for i in lost])
        for i in lost:
            asked[i] = self._submit(i, function, calls[i])

    def _alive(self, label: str) -> list[str]:
        try:
            return sorted(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise _gone(label, error) from error

    def _submit(self, i: int, function: Work, call: Call) -> _Sent:
        key, at = f"{function.__name__}-{i}-{os.urandom(6).hex()}", self.addresses[i % len(self.addresses)]
        return _Sent(self.client.submit(work, *call, key=key, pure=False, workers=[at], allow_other_workers=True), at)


def _gone(label: str, error: BaseException) -> MdiError:
    why = f"{type(error).__name__}: {error}".splitlines()[0]
    return MdiError(f"{label or 'a step'}: the scheduler has gone, or lost the job ({why}). Start it. {AGAIN}")


@contextlib.contextmanager
def _explained(label: str) -> Iterator[None]:
    """What may happen to a cluster, in our words."""
    from distributed import CancelledError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker, NoValidWorkerError

    what = label or "a step"
    try:
        yield
    except KilledWorker as error:
        raise MdiError(
            f"{what}: its worker died, and so did those that tried again ({error.last_worker.address}): killed, or out "
            f"of memory. Give each more (--memory, or the queue's settings), or cut finer (--shards). {AGAIN}"
        ) from error
    except MemoryError as error:
        raise MdiError(
            f"{what}: a worker is out of memory; give each more, or cut finer (--shards). {AGAIN}"
        ) from error
    except NoValidWorkerError as error:
        raise MdiError(f"{what}: no worker is left; start some. {AGAIN}") from error
    except (CancelledError, CommClosedError, TimeoutError) as error:
        raise _gone(label, error) from error


@contextlib.contextmanager
def connected(spec: str | None, memory: int | None = None, log: str | None = None) -> Iterator[Runner]:
    """Workers as --cluster names them, `KINDS`; None is this process. Those that are started here are stopped at the
    end. `memory`: bytes for each worker of local:N. `log`: file for what the workers have to say, in a folder that all
    of them see."""
    if spec is None:
        yield Runner()
        return
    kind, _, rest = spec.partition(":")
    if kind not in ("local", "tcp", "tls", "slurm", "sge"):
        raise OptionError("cluster", spec, KINDS)
    if kind == "local" and not re.fullmatch(r"[1-9][0-9]{0,3}", rest):
        raise OptionError("cluster", spec, "a number of worker processes, such as local:4")
    if kind in ("tcp", "tls"):
        found = _ADDRESS.fullmatch(spec)
        if not found or not 0 < int(found[3]) < 1 << 16:
            raise OptionError("cluster", spec, f"the address of a scheduler, such as {kind}://node7:8786")
    from distributed import Client

    with contextlib.ExitStack() as stack:
        if kind == "local":
            place: Any = stack.enter_context(_local(int(rest), memory))
        elif kind in ("tcp", "tls"):
            _check_scheduler(spec)
            place = spec
        else:
            place = stack.enter_context(_queue(kind, rest, os.path.dirname(os.path.abspath(log or "log"))))
        try:
            client = stack.enter_context(
                Client(place, timeout=2 * ANSWER, set_as_default=False, direct_to_workers=True)
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise _no_scheduler(spec, error) from error
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError) as error:
            raise MdiError(
                f"--cluster {spec}: no worker after {PATIENCE} s ({error}); expected at least one. See the queue and "
                f"the logs of its jobs"
            ) from error
        if kind in ("slurm", "sge"):
            with contextlib.suppress(TimeoutError):  # some may have to wait for long: begin with those that are there
                client.wait_for_workers(len(place.worker_spec), timeout=60)
        runner = OnDask(client)
        say(f"Dask: {runner.workers} workers at {client.scheduler.address}")
        try:
            yield runner
        finally:
            if log is not None:
                _keep_logs(client, log)


def _no_scheduler(spec: str, error: BaseException) -> MdiError:
    why = (str(error) or type(error).__name__).splitlines()[0]
    return MdiError(
        f"--cluster {spec}: no Dask scheduler answers there ({why}); expected a running one. Start it (dask "
        f"scheduler), and give the address that it prints"
    )


def _check_scheduler(address: str) -> None:
    """Refuses what does not answer as Dask does: a client would try for a long time, or choke on the answer."""
    import asyncio

    from distributed import Security
    from distributed.comm.core import connect

    async def greet() -> None:
        comm = await connect(address, timeout=ANSWER, **security.get_connection_args("client"))
        comm.abort()

    security = Security()
    if address.startswith("tls:") and not security.get_tls_config_for_role("client")["ca_file"]:
        raise MdiError(
            f"--cluster {address}: no certificates; expected them in Dask's settings (distributed.comm.tls, or "
            f"DASK_DISTRIBUTED__COMM__TLS__CA_FILE and its like)"
        )
    try:
        asyncio.run(asyncio.wait_for(greet(), 2 * ANSWER))
    except Exception as error:  # bytes of another protocol fail in any way
        raise _no_scheduler(address, error) from error


# A dashboard would show everybody what is computed, and from which files.
_NOTHING_BY_HTTP: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}


@contextlib.contextmanager
def _local(workers: int, memory: int | None) -> Iterator[Any]:
    import logging

    from dask.config import set as configured
    from distributed import LocalCluster, Security

    settings = {
        **_NOTHING_BY_HTTP,
        # a worker that was killed is started again, however long that takes on a busy machine
        "distributed.deploy.lost-worker-timeout": "1h",
        "distributed.nanny.pre-spawn-environ": {
            # Dask has the C library give back every 64 KB at once, and take them again for the next array
            "MALLOC_TRIM_THRESHOLD_": 1 << 26,
            "MALLOC_MMAP_THRESHOLD_": 1 << 22,
            # a new Python looks for modules in the current folder first, and what lies there is data (not in 3.10)
            "PYTHONSAFEPATH": 1,
        },
        # what a shard needs is known beforehand, and files in memory are no reason to stop: only too much is too much
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        # nobody looks at how busy workers are, which Dask would find out a hundred times a second
        "distributed.worker.profile.enabled": False,
        "distributed.admin.system-monitor.gil.enabled": False,
        "distributed.admin.system-monitor.interval": "10s",
        "distributed.admin.tick.interval": "1s",
        "distributed.scheduler.work-stealing": False,
    }
    # a folder of its own: Dask's would be in the folder for everybody's temporary files, under a name that is known
    with (
        configured(settings),
        _own_environment(),
        scratch_folder("mdi-dask-") as scratch,
        contextlib.ExitStack() as stack,
    ):
        with _interrupted_later():
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit=memory or 0,
                silence_logs=logging.ERROR,
                host="127.0.0.1",
                security=Security.temporary(),
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                local_directory=scratch,
            )
            stack.enter_context(cluster)
        yield cluster


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Ctrl-C, which a terminal sends to every process, waits until the workers that are being started are there to be
    stopped in order. They and those that replace them never see it: blocked signals are inherited."""
    resource_tracker.ensure_running()  # whoever starts it has the signal unblocked afterwards
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """What Dask sets for its workers it leaves in this process's environment, too; afterwards that is as it was."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _queue(kind: str, conf: str, shared: str) -> Iterator[Any]:
    """Workers that a batch system starts. The file has the settings of dask-jobqueue's SLURMCluster or SGECluster, and
    `workers`, how many jobs. The key of the job lies in `shared` while it runs, for its owner alone to read."""
    from dask.config import set as configured

    queues: Any = importlib.import_module("dask_jobqueue")

    settings = queue_settings(conf, kind)
    workers = settings.pop("workers")
    prologue = ["export PYTHONSAFEPATH=1", *(settings.get("job_script_prologue") or [])]
    scheduler = {"dashboard": False, "dashboard_address": "127.0.0.1:0"} | (settings.get("scheduler_options") or {})
    settings |= {"job_script_prologue": prologue, "scheduler_options": scheduler}
    with configured(_NOTHING_BY_HTTP), scratch_folder(".mdi-key-", shared) as keys:
        try:
            mine = {"security": True, "shared_temp_directory": keys}
            cluster = getattr(queues, f"{kind.upper()}Cluster")(**mine | settings)
        except (TypeError, ValueError) as error:
            raise MdiError(
                f"{conf}: {error}; expected settings of dask-jobqueue, as in local/conf/{kind}.yaml"
            ) from error
        with cluster:
            try:
                cluster.scale(jobs=workers)
                cluster.sync(cluster._correct_state)  # submits them now, so that an error of the queue is one here
            except (RuntimeError, OSError) as error:
                raise MdiError(f"{conf}: the queue took no job: {error}") from error
            yield cluster
        for value in vars(cluster).values():  # its files with parts of the key; it forgets to close them
            if hasattr(value, "delete") and hasattr(value, "close"):
                value.close()


def queue_settings(conf: str, kind: str) -> dict[str, Any]:
    import yaml

    try:
        settings = yaml.safe_load(read_plain(conf))
    except MdiError as error:  # there is no such file
        raise MdiError(f"{error}; expected the settings of the queue, as in local/conf/{kind}.yaml") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise MdiError(f"{conf}: {error}; expected the settings of the queue, as in local/conf/{kind}.yaml") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("workers"), int):
        raise MdiError(f"{conf}: no 'workers: N'; expected the settings of the queue, as in local/conf/{kind}.yaml")
    return settings


def _keep_logs(client: "Client", path: str) -> None:
    if client.status != "running":  # the scheduler has gone
        return
    with contextlib.suppress(Exception):  # nobody may be there any more
        logs = client.get_worker_logs()
        lines = [f"{address} {level} {text}\n" for address, log in logs.items() for level, text in reversed(log)]
        if lines:
            with writing(path) as stream:
                stream.write("".join(lines).encode(errors="replace"))
