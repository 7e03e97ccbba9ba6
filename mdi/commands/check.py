"""Checks a model: reads it, sums every history, and reports what other tools would stumble on.

The exit code is 0 if nothing is wrong (apart from warnings), and otherwise 1.
"""

import argparse
import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mdi.commands.inputs import read_model

if TYPE_CHECKING:
    from mdi.lm.check import Finding

OPTIONS = """
lm LM  model in any form, plain or gzipped
--words WORDS.TXT  Kaldi's word table: check the model against it
"""


def _certificate(lm: str) -> "Iterator[Finding]":
    """Whether the certificate beside the model is about this file."""
    from mdi.files import read_json, read_plain
    from mdi.lm.check import Finding

    if lm == "-" or not os.path.exists(f"{lm}.json"):
        return
    said = read_json(f"{lm}.json").get("file")
    if isinstance(said, dict) and "sha256" in said:
        if said["sha256"] == hashlib.sha256(read_plain(lm, 1 << 62)).hexdigest():
            yield Finding("ok", f"{lm}.json is its certificate")
        else:
            other = f"{lm}.json is the certificate of another file: the SHA-256 is not this one's"
            yield Finding(
                "error", f"{other}; one of them was replaced: remove the certificate, or make the model again"
            )


def run(args: argparse.Namespace) -> int:
    from mdi.fst.formats import weight_of
    from mdi.fst.symbols import read_symbols
    from mdi.lm.check import check

    words = list(read_symbols(args.words).ids) if args.words else None
    weight = weight_of(args.lm) if args.lm != "-" else None
    model = read_model(args.lm, args, closed=False)
    counts = " / ".join(f"{n:,}" for n in model.trie.counts)
    print(f"{args.lm}: order {model.order}, {counts} n-grams of order 1 to {model.order}")
    if weight:
        print(
            f"warning: a graph to decode with, not a distribution: {weight} are in its costs. What follows is about "
            f"the model without them, which mdi convert writes"
        )
    wrong = 0
    for finding in [*_certificate(args.lm), *check(model, words)]:
        print(f"{finding.level}: {finding.text}")
        wrong += finding.level == "error"
    print("nothing is wrong" if not wrong else f"{wrong} error{'s' if wrong > 1 else ''}")
    return 1 if wrong else 0
