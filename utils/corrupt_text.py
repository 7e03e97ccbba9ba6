"""Text as a recogniser with a given word error rate might have heard it, for simulations: random substitutions by words
as frequent as they are in the text, deletions and insertions, 6 : 2 : 2.

    utils/corrupt_text.py --wer 0.2 IN.txt OUT.txt
    utils/corrupt_text.py --wer 0.2 IN.txt OUT.ctm

A ctm gets confidences, which are right: a word has one at random, SHARE less than 1 on average and mostly near 0 or 1,
and is replaced with the chance that is left. Nothing is deleted or inserted then.
"""

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


def with_confidences(lines: list[list[bytes]], wer: float, rng: np.random.Generator) -> list[bytes]:
    """Lines of a ctm, one utterance per line of the text."""
    pool = np.array([word for line in lines for word in line], object)
    made = []
    for i, line in enumerate(lines):
        sure = rng.beta(2 * (1 - wer), 2 * wer, len(line))
        right = rng.random(len(line)) < sure
        for at, (word, ok, value) in enumerate(zip(line, right, sure, strict=True)):
            heard = word if ok else pool[rng.integers(len(pool))]
            made.append(b"u%d 1 %.1f 0.1 %s %.4f\n" % (i, at / 10, heard, value))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="IN")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--wer", type=float, required=True, metavar="SHARE", help="errors per word, such as 0.2")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(1)")
    args = parser.parse_args()
    lines, rng = [line.split() for line in read_lines(args.source) if line.split()], np.random.default_rng(args.seed)
    with writing(args.out) as stream:
        if args.out.removesuffix(".gz").endswith(".ctm"):
            stream.writelines(with_confidences(lines, args.wer, rng))
        else:
            stream.writelines(b" ".join(line) + b"\n" for line in corrupted(lines, args.wer, rng))


if __name__ == "__main__":
    sys.exit(exit_code("utils/corrupt_text.py", main))
