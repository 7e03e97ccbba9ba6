"""Text as a recogniser with a given word error rate might have heard it, for simulations: random substitutions by words
as frequent as they are in the text, deletions and insertions, 6 : 2 : 2.

    utils/corrupt_text.py --wer 0.2 IN.txt OUT.txt
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from mdi.errors import exit_code
from mdi.files import read_lines, writing


def corrupted(lines: list[list[bytes]], wer: float, rng: np.random.Generator) -> list[list[bytes]]:
    """Each word is replaced or left out, or another one put before it, at random; lines that lose all words go."""
    pool = np.array([word for line in lines for word in line], object)
    made = []
    for line in lines:
        new: list[bytes] = []
        for word, fate in zip(line, rng.random(len(line)) / wer, strict=True):
            if fate < 0.6:
                new.append(pool[rng.integers(len(pool))])
            elif fate >= 0.8:
                new += [pool[rng.integers(len(pool))], word] if fate < 1.0 else [word]
        if new:
            made.append(new)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="IN")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--wer", type=float, required=True, metavar="SHARE", help="errors per word, such as 0.2")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(1)")
    args = parser.parse_args()
    lines = [line.split() for line in read_lines(args.source)]
    with writing(args.out) as stream:
        for line in corrupted([line for line in lines if line], args.wer, np.random.default_rng(args.seed)):
            stream.write(b" ".join(line) + b"\n")


if __name__ == "__main__":
    sys.exit(exit_code("utils/corrupt_text.py", main))
