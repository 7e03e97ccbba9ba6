#!/usr/bin/env python3
"""What shards and Dask cost: the same adaptation in one process, in shards one after the other, and on Dask workers.

    utils/bench/cluster.py [--shards 2,4,8] [--workers 2,2-8] [--memory 800M] BACKGROUND.arpa TEXT

2-8 is 2 workers and 8 shards. Prints for each the seconds of an iteration (median), what all messages carry, the
seconds of `mdi adapt --min-counts 2 --sigma2 none` from reading to the certificate, those of the processor over all
processes, and the peak memory of each, the client first. Start-up is not in the seconds. The ARPA files are compared by
their digests.
"""

import argparse
import hashlib
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()[:12]


def measure(args: argparse.Namespace) -> str:
    """One way, in a process of its own, with workers that are there already; a line of the table."""
    from mdi.cli import main as mdi
    from mdi.cluster import OnDask, connected
    from mdi.commands.options import parse_size

    out = Path(args.folder) / f"{args.one}.arpa"
    how, *numbers = args.one.split("-")
    workers, shards = numbers[0], numbers[-1]
    memory = None if args.memory is None else parse_size("memory", args.memory)
    sent: list[int] = []
    each = OnDask.each

    def counting(self, *call):
        before = self.exchanged
        yield from each(self, *call)
        sent.append(self.exchanged - before)

    OnDask.each = counting  # type: ignore[method-assign]
    with connected(f"local:{workers}" if how == "dask" else None, memory) as runner:
        options = [] if how == "one" else ["--memory", args.memory] if args.memory else ["--shards", shards]
        if isinstance(runner, OnDask):
            options += ["--cluster", runner.client.scheduler.address]
            join(runner.client)
        warm_up(Path(args.folder), mdi, options)
        sent.clear()
        begun, busy = time.perf_counter(), cpu(runner)
        settings = ["--min-counts", "2", "--sigma2", "none"]
        assert mdi(["adapt", *settings, *options, args.background, args.text, str(out)]) == 0
        total, busy = time.perf_counter() - begun, cpu(runner) - busy
        peaks = [f"{peak_mb():.0f}"]
        if isinstance(runner, OnDask):
            peaks += [f"{peak:.0f}" for peak in runner.client.run(peak_mb).values()]
    at = [step["seconds"] for step in json.loads(Path(f"{out}.json").read_text())["steps"]]
    steps = [end - begin for begin, end in itertools.pairwise(at)]
    megabytes = sum(sent) / 1e6
    return (
        f"| {args.one} | {statistics.median(steps):.3f} | {megabytes:.2f} | {total:.1f} | {busy:.1f} | "
        f"{' / '.join(peaks)} | {digest(out)} |"
    )


TINY = "\\data\\\nngram 1=4\nngram 2=4\nngram 3=1\n\n\\1-grams:\n-1 <s> -0.3\n-0.3 </s>\n-0.3 a -0.3\n-0.3 b -0.3\n\n"
TINY += "\\2-grams:\n-0.1 <s> a -0.2\n-0.1 <s> b\n-0.1 a b\n-0.1 b a\n\n\\3-grams:\n-0.1 <s> a </s>\n\n\\end\\\n"


def cpu(runner: Any) -> float:
    """Seconds of the processor that this process and the workers have had."""
    client = getattr(runner, "client", None)
    return time.process_time() + (sum(client.run(time.process_time).values()) if client else 0.0)


def join(client: Any) -> None:
    """Lets others of this process talk to the workers, too, who know whom by a key."""
    import dask

    tls = client.security.get_tls_config_for_role("client")
    names = {"ca-file": "ca_file", "client.cert": "cert", "client.key": "key"}
    dask.config.set({f"distributed.comm.tls.{setting}": tls[name] for setting, name in names.items()})


def warm_up(folder: Path, run: Callable[[list[str]], int], options: list[str]) -> None:
    """A job of a few n-grams, so that modules and kernels are loaded everywhere."""
    (folder / "tiny.arpa").write_text(TINY)
    (folder / "tiny.txt").write_text("a b\nb a\n" * 9)
    options = ["--min-counts", "1", "--sigma2", "1", "--allow-unnormalized", "true", *options]
    assert run(["adapt", *options, *(str(folder / name) for name in ("tiny.arpa", "tiny.txt", "tiny-out.arpa"))]) == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("background")
    parser.add_argument("text")
    parser.add_argument("--shards", default="2,4,8")
    parser.add_argument("--workers", default="2")
    parser.add_argument("--memory", help="of each process, which then decides about the number of shards (--memory)")
    parser.add_argument("--ways", default="one,shards,dask")
    parser.add_argument("--folder", help="for shards and results (a temporary one)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(measure(args), flush=True)
        return 0
    print("| | s per iteration | MB of messages | s in all | CPU s | peak MB | bytes |")
    print("|---|---|---|---|---|---|---|", flush=True)
    numbers = {"one": "1", "shards": args.shards, "dask": args.workers}
    ways = [f"{way}-{n}" for way in args.ways.split(",") for n in numbers[way].split(",")]
    memory = [] if args.memory is None else ["--memory", args.memory]
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for way in ways:
            call = [sys.executable, __file__, args.background, args.text, "--folder", folder, *memory, "--one", way]
            subprocess.run(call, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
