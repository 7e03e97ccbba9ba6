"""Work in other processes of this program: what a library of native code breaks there, it breaks alone, and what it
keeps in mind there, it forgets."""

import ctypes
import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from mdi.errors import MdiError

Task = TypeVar("Task")
_ROOT = str(Path(__file__).resolve().parent.parent)
# `python -m mdi` would look for every module in the current folder first, and what lies there is data. (Python's own
# option against that, -P, is not in 3.10.)
_START = (
    f"import sys; sys.path[:] = [path for path in sys.path if path] + [{_ROOT!r}]; "
    f"from mdi.process import serve; serve()"
)
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def call_apart(function: str, what: str, **arguments: Any) -> Any:
    """Calls 'module:function' with these arguments in a process of its own, and returns what it returns: both as JSON.
    `what` is done there, for messages. The process ends with this one, however that ends."""
    asked = json.dumps({"function": function, "arguments": arguments, "parent": os.getpid()})
    command = [sys.executable, "-c", _START]
    done = subprocess.run(command, input=asked.encode(), stdout=subprocess.PIPE)  # noqa: S603 - a list of arguments, no shell
    if done.returncode < 0:
        raise _ended(done.returncode, what)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise _ended(done.returncode, what) from None
    if "error" in answer:
        raise MdiError(answer["error"])
    return answer["result"]


def serve() -> None:
    """The other side of `call_apart`."""
    asked = json.load(sys.stdin)
    _end_with(asked["parent"])
    module, _, name = asked["function"].partition(":")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is for people
    try:
        answer = {"result": getattr(importlib.import_module(module), name)(**asked["arguments"])}
    except MdiError as error:
        answer = {"error": str(error)}
    except ModuleNotFoundError as error:
        answer = {"error": f"the package {error.name} is not installed; run: pip install 'mdi-lm[vosk]'"}
    except KeyboardInterrupt:
        os._exit(130)
    with out:
        json.dump(answer, out)
    sys.stderr.flush()
    os._exit(0)  # nothing is left to do, and a library may crash as it is taken apart


def in_copies(
    work: Callable[[Task], Iterable[Any]], tasks: Iterable[tuple[str, Task]], n: int
) -> Iterator[tuple[str, Any]]:
    """(name of the task, what `work` yields of it), as it comes, from copies of this process, `n` at a time. Each task
    finds the state that is here now, whatever was done for the others. Tasks have names for messages."""
    fork = multiprocessing.get_context("fork")
    at_work: dict[Any, tuple[str, Any]] = {}  # by the pipe that it sends through
    todo = iter(tasks)
    try:
        while True:
            while len(at_work) < n and (task := next(todo, None)) is not None:
                receiver, sender = fork.Pipe(duplex=False)
                process = fork.Process(target=_copy, args=(sender, work, task[1], os.getpid()), daemon=True)
                process.start()
                sender.close()
                at_work[receiver] = task[0], process
            if not at_work:
                return
            for ready in multiprocessing.connection.wait(list(at_work)):
                name, process = at_work[ready]
                try:
                    found = json.loads(ready.recv_bytes())  # type: ignore[union-attr]
                except EOFError:
                    process.join()
                    del at_work[ready]
                    if process.exitcode:
                        raise _ended(process.exitcode, name) from None
                    continue
                if "error" in found:
                    raise MdiError(found["error"])
                yield name, found["result"]
    finally:
        for _, process in at_work.values():
            process.kill()
            process.join()


def _copy(sender: Any, work: Callable[[Task], Iterable[Any]], task: Task, parent: int) -> None:
    _end_with(parent)
    try:
        for result in work(task):
            sender.send_bytes(json.dumps({"result": result}).encode())
    except MdiError as error:
        sender.send_bytes(json.dumps({"error": str(error)}).encode())
    except KeyboardInterrupt:
        os._exit(130)
    os._exit(0)


def _end_with(parent: int) -> None:
    """However that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has gone already
        os._exit(1)


def _ended(code: int, what: str) -> MdiError:
    if code >= 0:
        return MdiError(f"{what}: the process ended with code {code}; see above")
    return MdiError(
        f"{what}: the process was ended by {signal.Signals(-code).name}: it was killed, ran out of memory, or met a "
        f"file that the library cannot read. Check the files, then repeat the command: it continues from here"
    )
