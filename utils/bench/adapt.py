#!/usr/bin/env python3
"""Times `mdi adapt` and `mdi mix`, everything included, on a synthetic background against loading the same ARPA file
with KenLM; and `mdi adapt` with a delta as its result.

    utils/bench/adapt.py [--ngrams 14.2e6] [--order 3] [--repeat 3] [--gzip] [--kenlm-python PYTHON]
                         [--results utils/bench/RESULTS.md] FOLDER

FOLDER keeps the generated model (as text and, with --gzip, packed) and text between runs. KenLM is its PyPI module,
taken from this Python or from the one given; without it the ratio is left out. Runs alternate and the fastest of each
counts; processor time is printed too, since it is what a busy machine leaves comparable. Memory beyond the interpreter
is the peak less that of the same command on a model of 2,000 n-grams.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from results_section import replace_section  # noqa: E402

LOAD_KENLM = "import kenlm, sys; kenlm.Model(sys.argv[1])"
READ = "import sys; from mdi import read_arpa; read_arpa(sys.argv[1])"


@dataclass
class Run:
    seconds: float
    cpu: float
    peak_mb: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({self.cpu:.1f} s of processor time), {self.peak_mb:,.0f} MB"


def run(command: list[str], out: Path | None = None, **environment: str) -> Run:
    """Runs a command to its end. Peak memory is the child's own: wait4 gives it for one process. What it wrote before
    is removed first, which would otherwise take its time."""
    if out is not None:
        out.unlink(missing_ok=True)
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    ) as process:
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{said.decode(errors='replace')}")
    return Run(
        seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    )


def fastest(runs: list[Run]) -> Run:
    return Run(min(r.seconds for r in runs), min(r.cpu for r in runs), max(r.peak_mb for r in runs))


def make(folder: Path, name: str, ngrams: float, order: int, text_words: float, suffix: str) -> tuple[Path, Path]:
    arpa, text = folder / f"{name}.arpa{suffix}", folder / f"{name}.txt"
    if not arpa.exists() or not text.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--ngrams", str(ngrams), "--order", str(order), "--text", str(text), "--text-words", str(text_words)]
        subprocess.run([sys.executable, str(HERE / "make_synthetic_lm.py"), *options, str(arpa)], check=True)
    return arpa, text


def has_kenlm(python: str) -> bool:
    return subprocess.run([python, "-c", "import kenlm"], capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ngrams", type=float, default=14.2e6)
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--text-words", type=float, default=8e5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--kenlm-python", default=sys.executable)
    parser.add_argument("--results", metavar="RESULTS.md")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    suffix = ".gz" if args.gzip else ""
    name = f"synthetic-{args.ngrams / 1e6:g}M-{args.order}"
    arpa, text = make(args.folder, name, args.ngrams, args.order, args.text_words, suffix)
    small = make(args.folder, "synthetic-tiny", 5000, args.order, 2000, suffix)
    out, delta = args.folder / f"adapted.arpa{suffix}", args.folder / "adapted.delta"
    mdi = [sys.executable, "-m", "mdi"]
    adapt = [*mdi, "adapt", "--min-counts", "2-2-2", "--sigma2", "none"]
    run([*adapt, *map(str, small), str(out)])  # compiles the kernels, if they are not yet
    base = run([*adapt, *map(str, small), str(out)])
    in_domain = args.folder / f"{name}.in.arpa{suffix}"
    if not in_domain.exists():
        run([*mdi, "train", "--order", str(args.order), "--min-counts", "1", str(text), str(in_domain)])
    jobs = {
        "adapt": lambda: run([*adapt, str(arpa), str(text), str(out)], out),
        "mix": lambda: run([*mdi, "mix", "--weights", "0.5,0.5", str(arpa), str(in_domain), str(out)], out),
        "read": lambda: run([sys.executable, "-c", READ, str(arpa)]),
        "delta": lambda: run([*adapt, "--delta", str(delta), str(arpa), str(text)], delta),
    }
    kenlm = has_kenlm(args.kenlm_python)
    if kenlm:
        jobs["kenlm"] = lambda: run([args.kenlm_python, "-c", LOAD_KENLM, str(arpa)])
    runs: dict[str, list[Run]] = {kind: [] for kind in jobs}
    for _ in range(args.repeat):
        for kind, job in jobs.items():
            runs[kind].append(job())
    best = {kind: fastest(found) for kind, found in runs.items() if found}
    ngrams = args.ngrams
    beyond = (best["adapt"].peak_mb - base.peak_mb) * 2**20 / ngrams
    plain = (best["adapt"].peak_mb - interpreter()) * 2**20 / ngrams
    lines = [
        f"Background: {arpa.name}, {ngrams / 1e6:.1f}M n-grams, {arpa.stat().st_size / 1e6:.0f} MB; in-domain text: "
        f"{args.text_words:,.0f} tokens; constraints 2-2-2, L1 <= 1e-3; {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}; "
        f"fastest of {args.repeat} runs.",
        "",
        "| | seconds | processor seconds | peak MB |",
        "|---|---|---|---|",
    ]
    titles = {
        "adapt": "`mdi adapt`: read, solve, write",
        "mix": "`mdi mix` with a model of the text: read, mix, write",
        "delta": "`mdi adapt --delta`",
        "read": "`read_arpa` alone, start of Python included",
        "kenlm": "KenLM's load",
    }
    for kind, found in best.items():
        lines.append(f"| {titles[kind]} | {found.seconds:.1f} | {found.cpu:.1f} | {found.peak_mb:,.0f} |")
    lines += [
        "",
        f"Memory: {beyond:.0f} bytes per n-gram beyond the same command on a tiny model ({base.peak_mb:.0f} MB), "
        f"{plain:.0f} "
        f"beyond the interpreter with NumPy and Numba ({interpreter():.0f} MB).",
    ]
    if kenlm:
        load = best["kenlm"]
        ratios = [
            f"`mdi {kind}` {best[kind].seconds / load.seconds:.2f} in seconds, "
            f"{best[kind].cpu / load.cpu:.2f} in processor time"
            for kind in ("adapt", "mix")
        ]
        read = best["read"]
        lines.append(
            f"Ratio to KenLM's load: {'; '.join(ratios)} (goal: at most 1 in seconds); reading alone "
            f"{read.seconds / load.seconds:.2f} and {read.cpu / load.cpu:.2f}."
        )
    print("\n".join(lines))
    if args.results:
        command = (
            f"utils/bench/adapt.py --ngrams {args.ngrams:g} --order {args.order}{' --gzip' if args.gzip else ''} FOLDER"
        )
        name = f"adapt-{args.ngrams:g}-{args.order}{suffix}"
        title = f"Adapting {ngrams / 1e6:.1f}M n-grams end to end{', gzipped' if args.gzip else ''}"
        replace_section(args.results, name, title, f"`{command}`", "\n".join(lines))
    return 0


def interpreter() -> float:
    """Peak MB of Python with the libraries that the kernels need."""
    return run([sys.executable, "-c", "import numpy, numba, isal.igzip"]).peak_mb


if __name__ == "__main__":
    sys.exit(main())
