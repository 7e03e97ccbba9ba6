#!/usr/bin/env python3
"""The sweep of three thresholds as one job against its most expensive member run alone, both as commands, in one run.

    utils/bench/sweep.py BACKGROUND.arpa.gz TEXT.gz [--min-counts 2-2-2,5-3-2,6-4-3] [--runs 3]

Prints the wall times (the best of the runs: machines are shared) and their ratio; the goal is at most 1.5.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(*command: str) -> float:
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "mdi", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"mdi {' '.join(command)}:\n{done.stderr}")
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("background")
    parser.add_argument("text")
    parser.add_argument("--min-counts", default="2-2-2,5-3-2,6-4-3")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    sets = args.min_counts.split(",")
    inputs = ["--sigma2", "none", args.background, args.text]
    times: dict[str, list[float]] = {name: [] for name in [*sets, "sweep"]}
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "{}.arpa.gz")
        seconds("adapt", "--min-counts", sets[-1], *inputs, out)  # compiles, warms the file cache
        for _ in range(args.runs):
            for name in sets:
                times[name].append(seconds("adapt", "--min-counts", name, *inputs, out))
            times["sweep"].append(seconds("adapt", "--min-counts", args.min_counts, *inputs, out))
    best = {name: min(values) for name, values in times.items()}
    for name, value in best.items():
        print(f"{name:>10} {value:7.2f} s   (runs: {', '.join(f'{t:.2f}' for t in times[name])})")
    dearest = max(sets, key=lambda name: best[name])
    print(f"sweep / {dearest} alone = {best['sweep'] / best[dearest]:.2f}   (goal: at most 1.5)")
    print(f"sweep / all alone = {best['sweep'] / sum(best[name] for name in sets):.2f}")


if __name__ == "__main__":
    main()
