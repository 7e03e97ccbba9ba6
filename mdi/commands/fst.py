"""G.fst from an ARPA model: what Kaldi's `arpa2fst --disambig-symbol=#0 --read-symbol-table=words.txt` makes.

n-grams with a word outside words.txt are dropped, counted and reported; a model that loses too many is refused.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lm", metavar="LM", help="ARPA model, plain or gzipped")
    parser.add_argument("out", metavar="G.fst", help="OpenFst file to write")
    parser.add_argument("--words", required=True, metavar="words.txt", help="Kaldi's symbol table; must have #0")
    parser.add_argument("--max-dropped", type=float, default=0.2, metavar="SHARE",
                        help="refuse a model that loses more than this share of its n-grams (0.2)")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    from mdi.files import check_output
    from mdi.fst.grammar import grammar, write_fst
    from mdi.fst.symbols import check_dropped, read_symbols
    from mdi.lm.arpa import read_arpa
    from mdi.progress import say

    check_output(args.out, [args.lm, args.words])
    symbols = read_symbols(args.words)
    result = grammar(read_arpa(args.lm, closed=False), symbols)
    if result.dropped:
        say(f"mdi fst: {check_dropped(result, args.lm, symbols, args.max_dropped)}; dropped")
    write_fst(result.arcs, args.out)
    say(f"mdi fst: {result.arcs.n_states:,} states, {result.arcs.n_arcs:,} arcs in {args.out}")
