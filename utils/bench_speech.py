#!/usr/bin/env python3
"""Times the speech side from a language model to a WER: graph, decoding, rescoring, scoring, with peak memory.

    utils/bench_speech.py [--new-lm ARPA] [--lexicon FILE] [--beam 12] [--lattice-beam 6] [--nj 1] LM DATA

LM is the first-pass ARPA model, DATA a Kaldi data folder with speech; --new-lm rescores (LM itself without it).
Seconds are wall-clock and of the processor; memory is the largest process. Kernels are compiled before anything is
timed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def timed(name: str, *arguments: str) -> str:
    """Runs mdi, prints a row of the table and returns what was said."""
    with tempfile.TemporaryFile("w+") as said:
        start = time.monotonic()
        process = subprocess.Popen([sys.executable, "-m", "mdi", *arguments], stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode:
        sys.exit(f"utils/bench_speech.py: mdi {' '.join(arguments)} failed:\n{text[-2000:]}")
    print(f"{name:<12} {wall:>9.1f} {usage.ru_utime + usage.ru_stime:>9.1f} {usage.ru_maxrss / 1024:>9.0f}", flush=True)
    return text


def arcs_per_word(folder: str, text: Path) -> float:
    from mdi.speech.data import read_text
    from mdi.speech.lattice_files import archives, read_lattices

    arcs = sum(lattice.n_arcs for path in archives(folder) for lattice in read_lattices(path))
    return arcs / sum(len(words) for words in read_text(str(text)).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lm", metavar="LM")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--new-lm", metavar="ARPA")
    parser.add_argument("--lexicon", metavar="FILE")
    parser.add_argument("--beam", default="12")
    parser.add_argument("--lattice-beam", default="6")
    parser.add_argument("--nj", default="1")
    args = parser.parse_args()
    text = Path(args.data) / "text"
    with tempfile.TemporaryDirectory(prefix="mdi-bench-") as folder:
        graph, first, second = (os.path.join(folder, name) for name in ("graph", "first", "second"))
        words = os.path.join(graph, "words.txt")
        print(f"{'step':<12} {'seconds':>9} {'processor':>9} {'peak MB':>9}")
        timed("graph", "graph", *(["--lexicon", args.lexicon] if args.lexicon else []), args.lm, graph)
        beams = ["--beam", args.beam, "--lattice-beam", args.lattice_beam]
        decoded = timed("decode", "decode", *beams, "--nj", args.nj, graph, args.data, first)
        exchange = ["--words", words, "--old-lm", args.lm, "--new-lm", args.new_lm or args.lm]
        timed("(compile)", "rescore", *exchange, first, second)
        rescored = timed("rescore", "rescore", *exchange, first, second)
        scored = timed("score", "score", "--words", words, args.data, second)
        print(re.findall(r"mdi decode: (.* real time .*)", decoded)[0])
        per_lattice = float(re.findall(r"([\d.]+) ms a lattice", rescored)[0])
        print(
            f"rescoring {per_lattice / 2:.2f} ms an utterance and model, at {arcs_per_word(first, text):.1f} arcs a "
            f"word"
        )
        print(re.findall(r"%WER .*\]", scored)[0])


if __name__ == "__main__":
    main()
