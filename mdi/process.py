"""Work in another process of this program: what a library of native code breaks there, it breaks alone."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mdi.errors import MdiError

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
        name = signal.Signals(-done.returncode).name
        raise MdiError(
            f"{what}: the process was ended by {name}: killed, out of memory, or by a file that the library cannot "
            f"take. Look the files over; started again, the same command goes on from here"
        )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise MdiError(f"{what}: the process ended with code {done.returncode}; see above") from None
    if "error" in answer:
        raise MdiError(answer["error"])
    return answer["result"]


def serve() -> None:
    """The other side of `call_apart`."""
    asked = json.load(sys.stdin)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != asked["parent"]:  # it has gone already
        os._exit(1)
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
