"""Perplexity of each text under a model, SRILM's and KenLM's ways of counting side by side.

ppl counts </s>, ppl1 does not; words outside the vocabulary are scored as <unk> where the model has one and skipped
otherwise; 'without OOVs' leaves them out in any case.
"""

from __future__ import annotations

import argparse
import json

from mdi.cli import boolean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lm", metavar="LM", help="ARPA model, plain or gzipped")
    parser.add_argument("texts", metavar="TEXT", nargs="+", help="one sentence a line, plain or gzipped")
    parser.add_argument("--json", type=boolean, default=False, metavar="true|false", help="one JSON object a text (false)")


def run(args: argparse.Namespace) -> None:
    from mdi.arpa import read_arpa
    from mdi.evaluate import perplexity

    model = read_arpa(args.lm)
    for path in args.texts:
        result = perplexity(model, [path])
        if args.json:
            print(json.dumps({"text": path, **result.as_dict()}))
            continue
        oov = f"{result.oov} OOVs" + (" (scored as <unk>)" if result.unk_scored and result.oov else "")
        print(f"file {path}: {result.sentences} sentences, {result.words} words, {oov}")
        print(
            f"{result.zero} zeroprobs, logprob= {result.log10_prob:.7g} ppl= {result.ppl:.7g} ppl1= {result.ppl1:.7g}"
            f" ppl without OOVs= {result.ppl_without_oov:.7g}"
        )
