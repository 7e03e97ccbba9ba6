"""Turns a back-off model into another form: ARPA, Kaldi's G.fst and G.carpa, Vosk's Gr.fst, OpenGrm's FSTs.

    mdi convert [--words words.txt] IN OUT

IN is recognised by its content, whatever its name, plain or gzipped. OUT gets the form that its name says: *.carpa,
Gr.fst or *.ngram.fst (OpenFst's ngram FST, as Vosk has it), *.fst (Kaldi's G.fst), *.mod or *.opengrm.fst, and ARPA
otherwise; or the one of --format. Words get the numbers of --words, which may also be an FST that holds its table (such
as the Gr.fst that OUT shall replace), or else those of IN if it has such a table.
"""

from __future__ import annotations

import argparse
import logging

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lm", metavar="IN", help="model in any form")
    parser.add_argument("out", metavar="OUT", help="file to write (.gz by suffix, - for standard output)")
    parser.add_argument("--words", metavar="words.txt", help="Kaldi's symbol table, or an FST that holds one")
    parser.add_argument(
        "--format", choices=("arpa", "fst", "opengrm", "ngram", "carpa"), help="form of OUT (as its name says)"
    )
    parser.add_argument("--max-dropped", type=float, default=0.2, metavar="SHARE",
                        help="refuse a model that loses more than this share of its n-grams (0.2)")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    from mdi.commands.options import check_outputs
    from mdi.fst.formats import read_lm, words_for, write_lm

    check_outputs(args, args.out)
    words = words_for(args.words, args.lm)
    model = read_lm(args.lm, args.words, closed=False)
    write_lm(model, args.out, args.format, words, max_dropped=args.max_dropped)
    logger.info(f"{args.out}: {' / '.join(f'{n:,}' for n in model.trie.counts)} n-grams of order 1 to {model.order}")
