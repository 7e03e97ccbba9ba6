#!/usr/bin/env python3
"""What shards and Dask cost: the same adaptation in one process, in shards one after the other, and on Dask workers.

    bench_cluster.py [--shards 2,4,8] [--workers 2] BACKGROUND.arpa TEXT

Prints for each the seconds of an iteration (median), the processor's seconds of the solver, what an iteration sends and
receives, the seconds of everything, and the peak memory of each process. Start-up of workers is not counted. The ARPA
files are compared byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()[:12]


def measure(args: argparse.Namespace) -> str:
    """One way, in a process of its own; a line of the table."""
    from mdi.adaptation.adapter import Adapter
    from mdi.adaptation.history import History
    from mdi.cluster import OnDask, connected
    from mdi.lm.arpa import read_arpa, write_arpa
    from mdi.lm.counts import count_text
    from mdi.lm.sharded import Job, build_shards, cut_files

    out = Path(args.folder) / f"{args.one}.arpa"
    times: list[float] = []
    how, number = args.one.split("-")[0], int(args.one.split("-")[1])
    with connected(f"local:{number}" if how == "dask" else None) as runner:
        begun = time.perf_counter()
        if how == "one":
            background = read_arpa(args.background)
            adapter = Adapter(background, [args.text], threads=2)
        else:
            folder = Path(args.folder) / args.one
            folder.mkdir()
            job = Job(str(folder), runner, n_shards=number)
            words = cut_files([args.background], job)
            counts = count_text([args.text], words[0].vocab, len(words[0].counts))
            adapter = Adapter(build_shards([args.background], job, words, History(counts).cuts)[0], counts, threads=2)
        ready = time.perf_counter()
        problem = adapter.pose("2")
        posed, before, busy = time.perf_counter(), runner.exchanged, time.process_time()
        last = posed

        def report(step) -> None:
            nonlocal last
            times.append(time.perf_counter() - last)
            last = time.perf_counter()

        adapted = adapter.adapt("2", report=report)
        iterations = adapted.solution.iterations
        sent = (runner.exchanged - before) / (iterations + 1) / 1e6
        busy = time.process_time() - busy
        write_arpa(adapted, out)
        total = time.perf_counter() - begun - (last - posed) + sum(times)
        memory = [f"{peak_mb():.0f}"]
        if isinstance(runner, OnDask):
            memory += [f"{peak:.0f}" for peak in runner.client.run(peak_mb).values()]
    del problem
    return (
        f"| {how} | {number} | {statistics.median(times[1:]):.3f} | {busy:.1f} | {sent:.2f} | {ready - begun:.0f} | "
        f"{total:.0f} | {' / '.join(memory)} | {digest(out)} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("background")
    parser.add_argument("text")
    parser.add_argument("--shards", default="2,4,8")
    parser.add_argument("--workers", default="2")
    parser.add_argument("--folder", help="for shards and results (a temporary one)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(measure(args), flush=True)
        return 0
    print("| | shards | s per iteration | CPU s, solver | MB per iteration | s to read | s in all | peak MB | bytes |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    ways = ["one-1", *(f"shards-{n}" for n in args.shards.split(",")), *(f"dask-{n}" for n in args.workers.split(","))]
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for way in ways:
            call = [sys.executable, __file__, args.background, args.text, "--folder", folder, "--one", way]
            subprocess.run(call, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
