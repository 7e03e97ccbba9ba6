#!/usr/bin/env python3
"""Times mdi beside SRILM's ngram-count, KenLM's lmplz and the kenlm module of Python, whichever it finds, in one run.

    utils/bench/lm.py [--order 3] [--vocab WORDS] [--repeat 3] [--kenlm-python PYTHON] TEXT[.gz]

Training: wall-clock seconds and peak memory of each program from plain text to a plain ARPA file, the fastest of the
repeats; mdi's kernels are compiled before. Loading: the model just trained, read by mdi and by kenlm. A ratio is ours
over theirs.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_MDI = [sys.executable, "-m", "mdi"]
# Prints the seconds of the loading alone; the memory is that of the whole process.
_LOAD = {
    name: f"import sys, time, {module}; t = time.monotonic(); {call}(sys.argv[1]); print(time.monotonic() - t)"
    for name, module, call in (("mdi", "mdi.lm.arpa", "mdi.lm.arpa.read_arpa"), ("kenlm", "kenlm", "kenlm.Model"))
}


@dataclass(frozen=True)
class Measured:
    seconds: float
    megabytes: float
    said: str


def measure(command: list[str], stdin: Path | None = None, stdout: Path | None = None) -> Measured:
    """Runs a program to its end. Its memory is the largest resident size that the kernel saw."""
    with tempfile.TemporaryFile() as said, open(stdin or os.devnull, "rb") as source:
        target = open(stdout, "wb") if stdout else subprocess.PIPE  # noqa: SIM115
        start = time.monotonic()
        process = subprocess.Popen(command, stdin=source, stdout=target, stderr=said)
        printed = process.stdout.read().decode() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if stdout:
            target.close()
        if process.returncode:
            said.seek(0)
            sys.exit(f"utils/bench/lm.py: {' '.join(command)} failed:\n{said.read().decode(errors='replace')[-2000:]}")
    return Measured(seconds, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10), printed)


def best(repeat: int, run: Callable[[], Measured]) -> Measured:
    return min((run() for _ in range(repeat)), key=lambda m: m.seconds)


def ngrams(arpa: Path) -> str:
    with open(arpa, errors="replace") as lines:
        head = "".join(next(lines, "") for _ in range(30))
    return " / ".join(f"{int(n):,}" for n in re.findall(r"^ngram \d+=(\d+)", head, re.MULTILINE))


def show(what: str, ours: tuple[str, Measured], others: list[tuple[str, Measured]], arpa: Path) -> None:
    print(f"\n{what}\n{'':28}{'seconds':>9}{'peak MB':>9}{'time ratio':>12}{'memory ratio':>14}")
    print(f"{ours[0]:28}{ours[1].seconds:9.2f}{ours[1].megabytes:9.0f}   {ngrams(arpa)} n-grams")
    for name, m in others:
        ratios = f"{ours[1].seconds / m.seconds:12.2f}{ours[1].megabytes / m.megabytes:14.2f}"
        print(f"{name:28}{m.seconds:9.2f}{m.megabytes:9.0f}{ratios}")
    if not others:
        print("  (nothing to compare with was found)")


def training(args: argparse.Namespace, work: Path, text: Path) -> Path:
    vocab = ["--vocab", args.vocab] if args.vocab else []
    order = str(args.order)
    tiny = work / "tiny.txt"
    tiny.write_text("a b a b\nb a\n")
    compared = [
        (
            "kn",
            [],
            "ngram-count",
            "SRILM ngram-count",
            [
                "-text",
                str(text),
                "-order",
                order,
                "-unk",
                "-kndiscount",
                *(["-vocab", args.vocab] if args.vocab else []),
                "-lm",
                str(work / "srilm.arpa"),
            ],
        ),
        (
            "kn-interpolated",
            ["--min-counts", "1"],
            "lmplz",
            "KenLM lmplz",
            [
                "-o",
                order,
                "-S",
                "2G",
                "-T",
                str(work / "lmplz"),
                "--discount_fallback",
                *(["--limit_vocab_file", args.vocab] if args.vocab else []),
            ],
        ),
    ]
    for smoothing, options, tool, name, tool_args in compared:
        out = work / f"{smoothing}.arpa"
        command = [*_MDI, "train", "--order", order, "--smoothing", smoothing, *options]
        measure([*command, str(tiny), str(work / "tiny.arpa")])
        ours = best(args.repeat, lambda c=command, o=out: measure([*c, *vocab, str(text), str(o)]))
        others = []
        if shutil.which(tool):
            reads = text if tool == "lmplz" else None
            writes = work / "lmplz.arpa" if tool == "lmplz" else None
            others.append((name, best(args.repeat, lambda a=[tool, *tool_args], r=reads, w=writes: measure(a, r, w))))
        show(f"training, {smoothing}, order {order}", (f"mdi train ({smoothing})", ours), others, out)
    return work / "kn.arpa"


def loading(args: argparse.Namespace, arpa: Path) -> None:
    def load(name: str, python: str) -> Measured:
        m = measure([python, "-c", _LOAD[name], str(arpa)])
        return Measured(float(m.said), m.megabytes, m.said)

    python = args.kenlm_python or sys.executable
    has_kenlm = subprocess.run([python, "-c", "import kenlm"], capture_output=True, check=False).returncode == 0
    load("mdi", sys.executable)
    ours = best(args.repeat, lambda: load("mdi", sys.executable))
    others = [("kenlm (Python module)", best(args.repeat, lambda: load("kenlm", python)))] if has_kenlm else []
    show("loading that ARPA file", ("mdi read_arpa", ours), others, arpa)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", metavar="TEXT", help="one sentence per line, plain or gzipped")
    parser.add_argument("--order", type=int, default=3, metavar="N", help="(3)")
    parser.add_argument("--vocab", metavar="WORDS", help="one word per line (every word of the text)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="(3)")
    parser.add_argument("--kenlm-python", metavar="PYTHON", help="a Python that has the kenlm module (this one)")
    parser.add_argument("--tmp", metavar="DIR", help="directory for the text and the models (the system's)")
    args = parser.parse_args()
    if not os.access(args.text, os.R_OK):
        sys.exit(f"utils/bench/lm.py: {args.text}: no such file, or it cannot be read")
    with tempfile.TemporaryDirectory(prefix="bench_lm.", dir=args.tmp) as folder:
        text = Path(folder) / "text"
        with open(text, "wb") as plain:
            subprocess.run(["gzip", "-cdf", "--", args.text], stdout=plain, check=True)
        print(f"{args.text}: {text.stat().st_size / 1e6:,.0f} MB of text; {os.cpu_count()} processors")
        loading(args, training(args, Path(folder), text))


if __name__ == "__main__":
    main()
