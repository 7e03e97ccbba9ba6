#!/usr/bin/env python3
"""Times reading and writing a model in every form, beside Kaldi's and OpenFst's own programs where they are on PATH.

    utils/bench/formats.py [--words words.txt] [--repeat 3] [--tmp DIR] LM

LM is a model in any form. Seconds are the fastest of the repeats, wall clock and processor time of this process, with
kernels compiled before; the model is in memory before it is written. The programs' times include their start, and
reading what they convert: arpa2fst and arpa-to-const-arpa an ARPA file, fstconvert an OpenGrm-like FST.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mdi.errors import exit_code
from mdi.fst.formats import load, words_for, write_lm
from mdi.fst.symbols import SymbolTable, read_symbols
from mdi.lm.model import NgramModel
from mdi.lm.vocabulary import BOS, EOS

_NAMES = {"arpa": "lm.arpa", "fst": "G.fst", "opengrm": "lm.mod", "ngram": "Gr.fst", "carpa": "G.carpa"}


def fastest(repeat: int, work: Callable[[], object]) -> tuple[float, float]:
    """(wall clock, processor time) of the quickest of so many."""
    times = []
    for _ in range(repeat):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - processor))
    return min(times)


def numbered_arpa(source: Path, ids: dict[str, int], to: Path) -> None:
    """The ARPA file with numbers for words, as utils/map_arpa_lm.pl makes it for arpa-to-const-arpa."""
    with open(source, "rb") as lines, open(to, "wb") as out:
        order = 0
        for line in lines:
            if line.startswith(b"\\"):
                order = int(line[1:].split(b"-")[0]) if line.endswith(b"-grams:\n") else 0
            elif order and line.strip():
                fields = line.split(b"\t")
                words = fields[1].split()
                fields[1] = b" ".join(str(ids[word.decode("utf-8", "surrogateescape")]).encode() for word in words)
                line = b"\t".join(fields).rstrip(b"\n") + b"\n"
            out.write(line)


def peers(folder: Path, symbols: SymbolTable, model: NgramModel) -> dict[str, tuple[str, list[str]]]:
    """form: (what is run, the command), for programs that are there."""
    ids = dict(symbols.ids)
    if BOS not in ids or EOS not in ids or ids[BOS] == ids[EOS]:
        ids[BOS] = max(ids.values()) + 1
        ids[EOS] = ids[BOS] + 1
    (folder / "words.txt").write_text("".join(f"{word} {i}\n" for word, i in ids.items()), errors="surrogateescape")
    numbered_arpa(folder / "lm.arpa", ids, folder / "numbers.arpa")
    unknown = model.vocab.word(model.vocab.unk) if model.vocab.unk >= 0 else None
    labels = [f"--bos-symbol={ids[BOS]}", f"--eos-symbol={ids[EOS]}", f"--unk-symbol={ids.get(unknown, -1)}"]
    commands = {
        "fst": [
            "arpa2fst",
            "--disambig-symbol=#0",
            f"--read-symbol-table={folder / 'words.txt'}",
            str(folder / "lm.arpa"),
            str(folder / "peer"),
        ],
        "carpa": ["arpa-to-const-arpa", *labels, str(folder / "numbers.arpa"), str(folder / "peer")],
        "ngram": ["fstconvert", "--fst_type=ngram", str(folder / "lm.mod"), str(folder / "peer")],
    }
    return {form: (command[0], command) for form, command in commands.items() if shutil.which(command[0])}


def bench(args: argparse.Namespace, folder: Path) -> None:
    words = words_for(args.words, args.lm)
    model = load(args.lm, args.words, closed=False)
    print(
        f"{args.lm}: {sum(model.trie.counts):,} n-grams, order {model.order}, {len(model.vocab):,} words; "
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    )
    table = folder / "table.fst"
    write_lm(model, str(table), "opengrm", words)  # numbers for every form, words given or not
    print(f"{'':9}{'MB':>6}{'write':>8}{'(cpu)':>8}{'read':>8}{'(cpu)':>8}")
    for form, name in _NAMES.items():
        path = str(folder / name)
        write_lm(model, path, form, str(table))
        load(path, str(table), closed=False)
        put = fastest(args.repeat, lambda f=form, p=path: write_lm(model, p, f, str(table)))
        got = fastest(args.repeat, lambda p=path: load(p, str(table), closed=False))
        size = os.path.getsize(path) / 1e6
        print(f"{form:9}{size:6.0f}{put[0]:8.2f}{put[1]:8.2f}{got[0]:8.2f}{got[1]:8.2f}")
    for form, (name, command) in peers(folder, read_symbols(str(table)), model).items():
        run = lambda c=command: subprocess.run(c, check=True, stderr=subprocess.DEVNULL)  # noqa: E731
        print(f"{form}: {name} {fastest(args.repeat, run)[0]:.2f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lm", metavar="LM")
    parser.add_argument("--words", metavar="words.txt", help="its table, where it holds none")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tmp", metavar="DIR", help="directory for the models (the system's)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_formats.", dir=args.tmp) as folder:
        return exit_code("utils/bench/formats.py", lambda: bench(args, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
