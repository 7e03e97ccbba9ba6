"""Another process of this program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parent.parent)
# `python -m mdi` would look for every module in the current folder first, and what lies there is data. (Python's own
# option against that, -P, is not in 3.10.)
_START = (
    f"import sys; sys.path[:] = [path for path in sys.path if path] + [{_ROOT!r}]; "
    f"from mdi.cli import entry_point; entry_point()"
)


def run_mdi(arguments: list[str]) -> int:
    """Runs `mdi` with these arguments; its exit code, which is negative where a signal has ended it."""
    return subprocess.run([sys.executable, "-c", _START, *arguments]).returncode
