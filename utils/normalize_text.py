#!/usr/bin/env python3
"""Written text to the words that people say, as for LibriSpeech's language models: numbers and abbreviations in words,
no punctuation, one sentence per line.

    utils/normalize_text.py [--case upper|lower] [--sentences true|false] [--nj N] TEXT[.gz]... OUT[.gz]

A TEXT may be a folder (One Billion Word's training-monolingual...shuffled): its files are read in the order of their
names.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from mdi.arguments import boolean
from mdi.errors import MdiError, exit_code
from mdi.files import check_output, read_chunks, writing
from mdi.progress import Progress, say
from mdi.spoken.english import sentences


def _normalize(job: tuple[bytes, str, bool]) -> tuple[bytes, int]:
    """(normalised lines, words) of some lines"""
    raw, case, split = job
    lines, n = [], 0
    for line in raw.decode("utf-8", "replace").splitlines():
        for sentence in sentences(line, split):
            lines.append(" ".join(sentence))
            n += len(sentence)
    text = "".join(f"{line}\n" for line in lines)
    return (text.upper() if case == "upper" else text).encode(), n


def _blocks(paths: Iterable[str], size: int = 1 << 21) -> Iterator[bytes]:
    """Whole lines, some two megabytes at a time."""
    for path in paths:
        rest = b""
        for chunk in read_chunks(path, size):
            whole, newline, tail = (rest + chunk).rpartition(b"\n")
            if newline:
                yield whole
            rest = tail
        if rest:
            yield rest


def normalize_files(paths: list[str], out: str, case: str = "lower", split: bool = True, nj: int = 1) -> int:
    """Normalises files into one, blocks of lines in parallel; the number of words."""
    progress, done, total = Progress("normalising", None, "million words"), 0, 0
    jobs = ((block, case, split) for block in _blocks(paths))
    with writing(out) as stream, ProcessPoolExecutor(nj) as pool:
        pending = []
        for job in jobs:
            pending.append(pool.submit(_normalize, job))
            if len(pending) > 4 * nj:  # as many blocks in memory, whatever the size of the text
                text, n = pending.pop(0).result()
                stream.write(text)
                done, total = done + len(text), total + n
                progress.update(total // 1_000_000)
        for future in pending:
            text, n = future.result()
            stream.write(text)
            total += n
    progress.close()
    return total


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", metavar="TEXT", nargs="+", help="plain or gzipped, or a directory of such files")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument(
        "--case", choices=("upper", "lower"), default="lower", help="as in the corpus to adapt to (lower)"
    )
    parser.add_argument(
        "--sentences", type=boolean, default=True, metavar="true|false", help="split lines into sentences (true)"
    )
    parser.add_argument("--nj", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    args = parser.parse_args(argv)

    def work() -> None:
        files = [
            str(path)
            for text in args.texts
            for path in (sorted(Path(text).glob("*")) if Path(text).is_dir() else [text])
        ]
        check_output(args.out, files)
        total = normalize_files(files, args.out, args.case, args.sentences, args.nj)
        if not total:
            raise MdiError(f"{', '.join(args.texts)}: no words in it; expected text in English")
        say(f"utils/normalize_text.py: {total:,} words -> {args.out}")

    return exit_code("utils/normalize_text.py", work)


if __name__ == "__main__":
    sys.exit(main())
