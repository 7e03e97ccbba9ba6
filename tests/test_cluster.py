"""Shards on the workers of a real Dask cluster: processes of this machine, some of which get killed."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from cluster_kills import workers_of
from random_models import random_model, random_text, write_model, write_text

import mdi
from mdi import cluster
from mdi.cli import main
from mdi.cluster import OnDask, connected
from mdi.errors import MdiError, OptionError
from mdi.lm import counts as counting
from mdi.lm.estimate import estimate
from mdi.lm.shards import Job, at_work, job_folder
from mdi.lm.text import SPECIAL
from mdi.lm.vocabulary import GrowingVocabulary

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with connected("local:2") as runner:
        # who is to join by its address needs its key
        tls = runner.client.security.get_tls_config_for_role("client")
        names = {"ca-file": "ca_file", "client.cert": "cert", "client.key": "key"}
        with dask.config.set({f"distributed.comm.tls.{setting}": tls[name] for setting, name in names.items()}):
            yield runner.client


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, str, str]:
    """A folder with a model and a text, and the adapted model that one process makes of them."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(8)
    path = write_model(random_model(rng, 3, 12, closed=False), folder / "bg.arpa")
    text = write_text(random_text(rng, 12, 60), folder / "text")
    mdi.write_arpa(mdi.adapt(path, text, 1, sigma2=1), folder / "one.arpa")
    return folder, path, text


class Killing(OnDask):
    """Kills a worker while a function is at work, once."""

    def __init__(self, client, function: str) -> None:
        client.wait_for_workers(2, timeout=60)
        super().__init__(client)
        self.function = function

    def each(self, function, calls, folder, label=""):
        if self.function in (function.__name__, *(getattr(call[0], "__name__", "") for call in calls)):
            self.function = ""
            os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
        return super().each(function, calls, folder, label)


@pytest.mark.slow
def test_adapting_with_a_client(client, files, tmp_path: Path) -> None:
    folder, path, text = files
    for i, background in enumerate((path, mdi.read_arpa(path, quiet=True))):
        adapted = mdi.adapt(background, text, 1, sigma2=1, cluster=client, shards=tmp_path / f"job{i}")
        mdi.write_arpa(adapted, tmp_path / "many.arpa")
        assert (tmp_path / "many.arpa").read_bytes() == (folder / "one.arpa").read_bytes()
    with pytest.raises(MdiError, match="shards="):
        mdi.adapt(path, text, cluster=client)


@pytest.mark.slow
def test_verbs_on_a_scheduler(client, files, tmp_path: Path, capsys) -> None:
    """--cluster tcp://..., as for a cluster that is there already."""
    folder, path, text = files
    where = ["--cluster", client.scheduler.address]
    out = tmp_path / "many.arpa"
    assert main(["adapt", "--min-counts", "1", "--sigma2", "1", *where, "--ppl", text, path, text, str(out)]) == 0
    assert out.read_bytes() == (folder / "one.arpa").read_bytes()
    assert (tmp_path / "many.arpa.workers.log").exists()
    assert not (tmp_path / "many.arpa.shards").exists()
    said = capsys.readouterr()
    assert "Dask: 2 workers at tls://127.0.0.1:" in said.err
    assert main(["ppl", str(out), text]) == 0
    one = capsys.readouterr().out
    assert f"ppl= {said.out.split()[2]} " in one
    assert main(["ppl", *where, "--shards-dir", str(tmp_path / "ppl"), str(out), text]) == 0
    assert capsys.readouterr().out == one


@pytest.mark.slow
@pytest.mark.parametrize("where", ["_gaps_of_shard", "_extract_shard", "_rescale_shard", "_format_blocks"])
def test_a_killed_worker_changes_nothing(where: str, client, files, tmp_path: Path) -> None:
    """Those that are left do its work, until there is another one in its place."""
    folder, path, text = files
    runner = Killing(client, where)
    with job_folder(str(tmp_path / "job"), {}) as place, at_work(Job(place, runner, n_shards=3)):
        adapted = mdi.adapt(path, text, 1, sigma2=1)
        adapted.worst_sum()
        mdi.write_arpa(adapted, tmp_path / "many.arpa")
        assert runner.function == ""
    assert (tmp_path / "many.arpa").read_bytes() == (folder / "one.arpa").read_bytes()


@pytest.mark.slow
def test_a_worker_killed_while_counting_changes_nothing(client, files, tmp_path: Path, monkeypatch) -> None:
    _, _, text = files
    monkeypatch.setattr(counting, "TOKENS", 50)
    mdi.write_arpa(mdi.train(text), tmp_path / "one.arpa")
    runner, vocab = Killing(client, "count_part"), GrowingVocabulary(SPECIAL)
    with job_folder(str(tmp_path / "job"), {}) as place:
        job = Job(place, runner, n_shards=3)
        with at_work(job), counting.stream_blocks(text, vocab, 3, "map", 1 << 24, job) as counts:
            mdi.write_arpa(estimate(counts).model, tmp_path / "many.arpa")
        assert runner.function == ""
    assert (tmp_path / "many.arpa").read_bytes() == (tmp_path / "one.arpa").read_bytes()


def _no_second_try(dask_scheduler) -> None:
    dask_scheduler.allowed_failures = 0


@pytest.mark.slow
def test_a_worker_that_fails_says_why(client, files, tmp_path: Path) -> None:
    runner, place = OnDask(client), str(tmp_path)
    with pytest.raises(MdiError, match=r"/nowhere/a\.arpa: No such file"):
        list(runner.each(mdi.read_arpa, [("/nowhere/a.arpa",)], place))
    client.wait_for_workers(1, timeout=60)
    client.run_on_scheduler(_no_second_try)
    with pytest.raises(MdiError, match=r"exit: its worker died, and so did those.*give the same command again"):
        list(runner.each(os._exit, [(3,)], place, "exit"))


def _eat(size: int) -> float:
    eaten = np.ones(size, np.uint8)
    time.sleep(30)  # until whoever looks after the worker has seen it
    return float(eaten[-1])


@pytest.mark.slow
def test_a_worker_that_runs_out_of_memory_says_so(client, tmp_path: Path) -> None:
    client.wait_for_workers(1, timeout=60)
    with pytest.raises(MdiError, match=r"too much: a worker is out of memory.*--shards.*give the same command again"):
        list(OnDask(client).each(np.zeros, [(1 << 55,)], str(tmp_path), "too much"))
    with connected("local:1", 400 << 20) as runner:
        runner.client.run_on_scheduler(_no_second_try)
        with pytest.raises(MdiError, match=r"eating: its worker died.*out of memory.*give the same command again"):
            list(runner.each(_eat, [(500 << 20,)], str(tmp_path), "eating"))


def _dask(name: str, *args: str) -> subprocess.Popen:
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *args, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_scheduler_that_goes_away(files, tmp_path: Path, capsys, monkeypatch) -> None:
    """A clear error, no half file, nobody left at work; the next one does it all."""
    folder, path, text = files
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scheduler = _dask("scheduler", "--host", "127.0.0.1", "--port", str(port))
    worker = _dask(
        "worker",
        f"tcp://127.0.0.1:{port}",
        "--nthreads",
        "1",
        "--death-timeout",
        "3",
        "--local-directory",
        str(tmp_path),
    )
    each_of = OnDask.each

    def each(self, function, calls, folder, label=""):
        if function.__name__ == "_rescale_shard":
            scheduler.kill()
        return each_of(self, function, calls, folder, label)

    monkeypatch.setattr(OnDask, "each", each)
    monkeypatch.setitem(dask.config.config["distributed"]["comm"]["timeouts"], "connect", "2s")
    out = tmp_path / "many.arpa"
    command = ["adapt", "--min-counts", "1", "--sigma2", "1", "--shards", "2", path, text, str(out)]
    try:
        assert main([*command[:1], "--cluster", f"tcp://127.0.0.1:{port}", *command[1:]]) == 1
        said = capsys.readouterr().err
        assert "the scheduler has gone" in said
        assert "give the same command again" in said
        assert not list(tmp_path.glob("many*"))
        assert worker.wait(60) is not None
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert main(command) == 0
    assert out.read_bytes() == (folder / "one.arpa").read_bytes()


@pytest.mark.slow
def test_a_full_disk(client, files, tmp_path: Path, capsys) -> None:
    """Under the shards: an error that says so, and with more room the job is done."""
    folder, path, text = files
    place = tmp_path / "small"
    place.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=24k", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(small, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    out = tmp_path / "many.arpa"
    command = ["adapt", "--min-counts", "1", "--sigma2", "1", "--cluster", client.scheduler.address]
    command += ["--shards-dir", str(place / "shards"), path, text, str(out)]
    try:
        assert main(command) == 1
        said = capsys.readouterr().err
        assert "No space left on device" in said
        assert str(place / "shards") in said
        assert not list(tmp_path.glob("many.arpa*[!g]"))
        assert not list((place / "shards").glob(".*.tmp"))
        subprocess.run(["mount", "-o", "remount,size=16m", str(place)], check=True)
        assert main(command) == 0
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert out.read_bytes() == (folder / "one.arpa").read_bytes()


def test_places_that_are_none(tmp_path: Path) -> None:
    for spec in (
        "locale:2",
        "local:0",
        "local",
        "local:many",
        "tcp:foo",
        "tcp://",
        "tcp://here",
        "tcp://here:0",
        "tcp://:8786",
        "tcp://here:99999",
        "tls://here:port",
        "tcp://a@here:8786",
        "tcp://here:8786/path",
        "http://here:8786",
        "",
    ):
        with pytest.raises(OptionError), connected(spec):
            pass
    with (
        dask.config.set({"distributed.comm.tls.ca-file": None}),
        pytest.raises(MdiError, match="no certificates; expected them in Dask's settings"),
        connected("tls://here:1"),
    ):
        pass
    with pytest.raises(MdiError, match=r"as in local/conf/slurm\.yaml"), connected("slurm:/nowhere.yaml"):
        pass
    (tmp_path / "odd.yaml").write_text("queue: main\n")
    with pytest.raises(MdiError, match="no 'workers: N'"), connected(f"sge:{tmp_path}/odd.yaml"):
        pass


def _serve(answer: bytes | None) -> tuple[socket.socket, str]:
    """A port that answers whoever comes with these bytes, and then no more; None: never."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listening.accept()
                kept.append(one)
                if answer is not None:
                    one.sendall(answer)

    kept: list[socket.socket] = []
    threading.Thread(target=serve, daemon=True).start()
    return listening, f"tcp://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    "answer", [None, b"HTTP/1.0 400 Bad request\r\n\r\n", b"\0" * 64, b"\xff" * 64, b"SSH-2.0-OpenSSH_9.2\r\n"]
)
def test_what_is_no_scheduler_is_named_soon(answer, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "ANSWER", 2)
    listening, address = _serve(answer)
    begun = time.monotonic()
    (tmp_path / "text").write_text("a b\n")
    with listening:
        assert main(["train", "--cluster", address, str(tmp_path / "text"), str(tmp_path / "out.arpa")]) == 1
    assert time.monotonic() - begun < 15
    assert f"--cluster {address}: no Dask scheduler answers there" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_a_port_that_nobody_listens_on(tmp_path: Path, capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begun = time.monotonic()
    (tmp_path / "text").write_text("a b\n")
    address = f"tcp://127.0.0.1:{port}"
    assert main(["train", "--cluster", address, str(tmp_path / "text"), str(tmp_path / "out.arpa")]) == 1
    assert time.monotonic() - begun < 30
    assert "no Dask scheduler answers there" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_nobody_else_can_talk_to_the_workers(client, tmp_path: Path) -> None:
    """Whoever can reach a scheduler or a worker, without the key of the job or with another, runs nothing there."""
    from distributed import Client, Security

    places = [client.scheduler.address, *client.nthreads()]
    assert all(place.startswith("tls://127.0.0.1:") for place in places)
    for security in (None, Security.temporary()):
        for place in places:
            address = place if security else place.replace("tls:", "tcp:")
            with pytest.raises(OSError), Client(address, security=security, timeout=3) as other:
                other.submit(os.mkdir, str(tmp_path / "ran")).result()
    assert not (tmp_path / "ran").exists()


def test_nothing_is_shown_by_http(client) -> None:
    import urllib.error
    import urllib.request

    port = client.scheduler_info()["services"]["dashboard"]
    for page in ("", "status", "info/main/workers.html", "json/counts.json", "metrics", "api/v1"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)


def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no way to say so")
    here = tmp_path / "here"
    here.mkdir()
    for name in ("multiprocessing", "numpy", "json", "distributed", "mdi", "struct", "runpy"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write({name!r})\n")
    (tmp_path / "text").write_text("a b\nb a\n")
    command = ["train", "--cluster", "local:1", "../text", "../out.arpa"]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "mdi"), *command], cwd=here, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.arpa").exists()
    assert not (tmp_path / "ran").exists()


SBATCH = """#!/bin/sh
# a queue of one machine: the job runs at once, and its number is that of its process group
cp "$1" {folder}/job.sh
stat -c %a $(grep -oE '[^ ]*\\.dask-jobqueue[^ ]*' "$1") > {folder}/modes
setsid bash {folder}/job.sh > {folder}/job.log 2>&1 &
echo "Submitted batch job $!"
"""


def test_workers_of_a_queue_speak_tls(files, tmp_path: Path, monkeypatch) -> None:
    """dask-jobqueue's own way: the key lies in files that only their owner reads, and that go with the job."""
    folder, path, text = files
    programs, work = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    for name, script in (("sbatch", SBATCH.format(folder=tmp_path)), ("scancel", "#!/bin/sh\nkill -- -$1\n")):
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    conf = tmp_path / "slurm.yaml"
    conf.write_text(
        f"workers: 1\ncores: 1\nprocesses: 1\nmemory: 2GB\npython: {sys.executable}\ninterface: lo\n"
        f"local_directory: {tmp_path}\n"
    )
    out = work / "many.arpa"
    command = ["adapt", "--min-counts", "1", "--sigma2", "1", "--cluster", f"slurm:{conf}", path, text, str(out)]
    assert main(command) == 0
    assert out.read_bytes() == (folder / "one.arpa").read_bytes()
    job = (tmp_path / "job.sh").read_text()
    assert "tls://127.0.0.1:" in job
    assert "tcp://" not in job
    assert "PRIVATE KEY" not in job
    assert (tmp_path / "modes").read_text().split() == ["600", "600", "600"]
    assert sorted(one.name for one in work.iterdir() if not one.name.endswith(".log")) == [
        "many.arpa",
        "many.arpa.json",
    ]


def test_ctrl_c_while_workers_start_is_one_line(files, tmp_path: Path) -> None:
    """A terminal sends it to every process."""
    os.mkfifo(tmp_path / "text")  # which nobody writes: it is not done before it is interrupted
    arguments = ["--cluster", "local:2", files[1], str(tmp_path / "text"), str(tmp_path / "out")]
    command = [sys.executable, "-m", "mdi", "adapt", *arguments]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not workers_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.6)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert "mdi adapt: interrupted; nothing is left half-written" in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_the_environment_is_as_it_was() -> None:
    before = dict(os.environ)
    with connected("local:1"):
        pass
    assert dict(os.environ) == before
