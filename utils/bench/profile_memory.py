#!/usr/bin/env python3
"""Where a verb needs its memory: the peak, the moment of it, and how high each step came.

    utils/bench/profile_memory.py [--every 0.005] VERB [OPTION...] FILE...          # as after `mdi`

Runs the verb in this process beside a thread that looks again and again at how much memory is resident, and at what
mdi is doing: the functions of mdi that the main thread is in. Steps are listed in the order in which they were first
seen, with the highest figure during each; the arrays that are alive at the peak are not known, but the step is.
"""

import argparse
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from mdi.cli import main as mdi

PACKAGE = str(Path(sys.modules["mdi"].__file__ or "").parent)


def resident() -> tuple[int, int]:
    """Bytes in memory: (all, those that are of no file)."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096, (int(fields[1]) - int(fields[2])) * 4096


def step(frame: FrameType | None, depth: int = 3) -> str:
    """The innermost functions of mdi, the outer ones first, with lines."""
    found: list[str] = []
    while frame is not None and len(found) < depth:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            found.append(f"{Path(code.co_filename).stem}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(reversed(found)) or "start"


class Watch(threading.Thread):
    def __init__(self, every: float) -> None:
        super().__init__(daemon=True)
        self.every, self.main, self.stop = every, threading.get_ident(), threading.Event()
        self.steps: dict[str, tuple[int, int, int]] = {}  # looks, highest, highest of no file

    def run(self) -> None:
        while not self.stop.wait(self.every):
            where, (total, anonymous) = step(sys._current_frames().get(self.main)), resident()
            looks, high, high_anonymous = self.steps.get(where, (0, 0, 0))
            self.steps[where] = looks + 1, max(high, total), max(high_anonymous, anonymous)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=0.005, metavar="SECONDS")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a verb and all that belongs to it")
    args = parser.parse_args()
    watch = Watch(args.every)
    watch.start()
    begun = time.perf_counter()
    code = mdi(args.command)
    seconds = time.perf_counter() - begun
    watch.stop.set()
    watch.join()
    print(f"{'MB':>7} {'no file':>7} {'looks':>6}  step")
    for where, (looks, high, anonymous) in watch.steps.items():
        print(f"{high / 2**20:7.0f} {anonymous / 2**20:7.0f} {looks:6}  {where}")
    where = max(watch.steps, key=lambda name: watch.steps[name][1])
    print(f"peak {watch.steps[where][1] / 2**20:.0f} MB in {where}; {seconds:.1f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
