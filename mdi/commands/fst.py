"""G.fst from a model: what Kaldi's `arpa2fst --disambig-symbol=#0 --read-symbol-table=words.txt` makes.

n-grams with a word outside words.txt are dropped, counted and reported; a model that loses too many is refused. With
--format k2 it is the text that kaldilm makes for k2 and icefall: k2.Fsa.from_openfst(open("G.fst.txt").read(),
acceptor=False). --max-order N cuts the model down to its n-grams of up to N words first, and it is a model still:
kaldilm, which keeps the back-off weights of the longest ones that it reads, makes something that does not sum to one.
"""

from __future__ import annotations

import argparse
import logging

from mdi.commands.options import add_delta, check_outputs, read_adapted

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lm", metavar="LM", help="model in any form, plain or gzipped")
    parser.add_argument("out", metavar="G.fst", help="file to write")
    parser.add_argument("--words", required=True, metavar="words.txt", help="Kaldi's symbol table; must have #0")
    parser.add_argument("--format", choices=("fst", "k2"), default="fst", help="OpenFst's binary file or text (fst)")
    parser.add_argument("--max-order", type=int, metavar="N", help="leave longer n-grams out (none)")
    parser.add_argument("--disambig-symbol", default="#0", metavar="SYMBOL", help="what back-off arcs read (#0)")
    add_delta(parser, "LM")
    parser.add_argument("--max-dropped", type=float, default=0.2, metavar="SHARE",
                        help="refuse a model that loses more than this share of its n-grams (0.2)")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    from mdi.certificate import discard_certificate
    from mdi.errors import MdiError
    from mdi.files import together
    from mdi.fst.grammar import grammar, write_text
    from mdi.fst.symbols import check_dropped, read_symbols
    from mdi.lm.model import first_orders

    check_outputs(args, args.out)
    if args.max_order is not None and args.max_order < 1:
        raise MdiError(f"--max-order {args.max_order}; expected 1 or more")
    symbols = read_symbols(args.words)
    model = read_adapted(args.lm, args, closed=False)
    result = grammar(first_orders(model, args.max_order or model.order), symbols, args.disambig_symbol)
    if result.dropped:
        logger.info(f"mdi fst: {check_dropped(result, args.lm, symbols, args.max_dropped)}; dropped")
    with together():
        discard_certificate(args.out)
        if args.format == "k2":
            write_text(result.arcs, args.out)
        else:
            result.write(args.out)
    logger.info(f"mdi fst: {result.fst.n_states:,} states, {result.n_arcs:,} arcs in {args.out}")
