"""Perplexity of each text under a model, SRILM's and KenLM's ways of counting side by side.

ppl counts </s>, ppl1 does not; words outside the vocabulary are scored as <unk> where the model has one (SRILM, whose
two lines come first, does not call them OOVs then) and skipped otherwise; 'without OOVs' leaves them out in any case.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mdi.cli import boolean

if TYPE_CHECKING:
    from mdi.lm.model import NgramModel
    from mdi.lm.perplexity import Sentence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("lm", metavar="LM", help="ARPA model, plain or gzipped")
    add("texts", metavar="TEXT", nargs="+", help="one sentence per line, plain or gzipped")
    add("--oov", choices=("map", "drop", "error"), default="map",
        help="words outside the vocabulary: as <unk> where the model has one, skipped, an error (map)")  # fmt: skip
    add("--json", type=boolean, default=False, metavar="true|false", help="one JSON object per text (false)")
    add("--debug", type=int, choices=(0, 1, 2), default=0,
        help="1: each sentence, 2: each word, in SRILM's layout (0)")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    from mdi.errors import MdiError
    from mdi.lm.arpa import read_arpa
    from mdi.lm.perplexity import perplexity

    if args.debug and (args.json or "-" in args.texts):
        raise MdiError("--debug shows sentences as text and reads each file twice; expected no --json and no '-'")
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # words are bytes, whatever their encoding
    model = read_arpa(args.lm)
    for path in args.texts:
        each = _printer(model, path, args.debug) if args.debug else None
        result = perplexity(model, path, oov=args.oov, each=each)
        if args.json:
            print(json.dumps({"text": path, **result.as_dict()}))
            continue
        first, second = result.srilm_lines()
        print(f"file {path}: {first}\n{second}")
        how = f"scored as {model.vocab.word(model.vocab.unk)}" if result.unk_scored else "skipped"
        print(f"{result.oov} words outside the vocabulary, {how}; ppl without OOVs= {result.ppl_without_oov:.7g}")


def _printer(model: NgramModel, path: str, debug: int) -> Callable[[Sentence], None]:
    """Prints a sentence as it stands in the file, its words' probabilities, its perplexity and a blank line."""
    lines = _sentences(path)

    def show(sentence: Sentence) -> None:
        print(next(lines))
        if debug == 2:
            for line in sentence.srilm_words(model):
                print(line)
        print(*sentence.perplexity(model).srilm_lines(), "", sep="\n")

    return show


def _sentences(path: str) -> Iterator[str]:
    """The lines that are not blank, their words separated by single blanks, without <s> and </s>."""
    import re

    from mdi.files import read_lines
    from mdi.lm.vocabulary import BOS, EOS, to_str

    for number, line in enumerate(read_lines(path)):
        if number == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        words = [word for word in re.split(r"[ \t]+", to_str(line.rstrip(b"\r \t"))) if word]
        if words:
            yield " ".join(word for word in words if word not in (BOS, EOS))
