#!/usr/bin/env python3
"""How soon an adaptation is there, and what of that is not ours.

    utils/bench/latency.py BACKGROUND.arpa.gz TEXT [--words 1000,10000]

For the first so many words of TEXT: a process that adapts and writes a delta, from its start to its end, and the same
in a Python process that holds the background. All beside reading the background once from its text, and beside the
floor: Python, numba and one kernel, which every process pays. Least of --repeat runs, wall seconds and processor
seconds: on a busy machine only the latter mean something.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mdi.errors import MdiError, exit_code
from mdi.files import read_lines

# What the command runs on before any of its own work.
FLOOR = """
from mdi.kernels import start_lightly
start_lightly()
import numpy as np
from mdi.kernels.model import add_at
add_at(np.zeros(1, np.int32), np.ones(1), np.zeros(1))
"""
SETTING = {"min_counts": "1", "sigma2": 1.0}


def timed(work: Callable[[], object], repeat: int, who: int) -> tuple[float, float]:
    """(least wall seconds, least processor seconds)"""
    found = []
    for _ in range(repeat):
        before, begun = resource.getrusage(who), time.perf_counter()
        work()
        wall, after = time.perf_counter() - begun, resource.getrusage(who)
        found.append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def first_words(path: str, n: int) -> list[str]:
    """Whole lines of about n words."""
    lines, words = [], 0
    for line in read_lines(path):
        if words >= n:
            return lines
        lines.append(line.decode("utf-8", "surrogateescape"))
        words += len(line.split())
    raise MdiError(f"{path}: {words:,} words; expected at least {n:,}. Give more text or fewer --words")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("background")
    parser.add_argument("text")
    parser.add_argument("--words", default="1000,10000", metavar="N,...")
    parser.add_argument("--repeat", type=int, default=7, metavar="N")
    args = parser.parse_args()
    sizes = [int(part) for part in args.words.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        texts = {}
        for n in sizes:
            texts[n] = str(Path(folder) / f"{n}.txt")
            Path(texts[n]).write_text("\n".join(first_words(args.text, n)) + "\n", errors="surrogateescape")
        measure(args.background, texts, folder, args.repeat)


def measure(background: str, texts: dict[int, str], folder: str, repeat: int) -> None:
    from mdi.adaptation.adapter import Adapter
    from mdi.adaptation.delta import encode
    from mdi.lm.arpa import read_arpa

    model = read_arpa(background)  # the kernels are loaded
    reading = timed(lambda: read_arpa(background), 2, resource.RUSAGE_SELF)

    def row(name: str, found: tuple[float, float], note: str = "") -> None:
        print(
            f"{name}\t{found[0]:.3f}\t{found[1]:.3f}\t{found[0] / reading[0]:.3f}\t{found[1] / reading[1]:.3f}\t{note}"
        )

    print("what\twall\tcpu\twall / reading\tcpu / reading\tnote")
    row("reading the background's text", reading)
    row("floor: Python, numba, one kernel", processes([sys.executable, "-c", FLOOR], repeat))
    for n, text in texts.items():
        out = str(Path(folder) / "x.delta")
        options = ["--min-counts", SETTING["min_counts"], "--sigma2", f"{SETTING['sigma2']:g}"]
        command = [str(Path(sys.executable).parent / "mdi"), "adapt", *options, "--delta", out, background, text]
        note = f"{os.path.getsize(out):,} bytes" if (found := processes(command, repeat)) else ""
        row(f"mdi adapt --delta, {n:,} words", found, note)

        def one(text: str = text) -> bytes:
            return encode(Adapter(model, text).delta(**SETTING))

        one()
        row(f"Adapter(..).delta(..), {n:,} words", timed(one, repeat, resource.RUSAGE_SELF))


def processes(command: list[str], repeat: int) -> tuple[float, float]:
    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    run()  # what is compiled is cached
    return timed(run, repeat, resource.RUSAGE_CHILDREN)


if __name__ == "__main__":
    sys.exit(exit_code("utils/bench/latency.py", main))
