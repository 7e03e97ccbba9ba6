"""Converts a back-off model to another format: ARPA, Kaldi's G.fst and G.carpa, Vosk's Gr.fst, OpenGrm's FSTs.

    mdi convert [--words words.txt] IN OUT

IN is recognised by its content, whatever its name, plain or gzipped. The name of OUT decides its format: *.carpa,
Gr.fst or *.ngram.fst (OpenFst's ngram FST, as Vosk has it), *.fst (Kaldi's G.fst), *.mod or *.opengrm.fst (OpenGrm),
and otherwise ARPA. --format overrides it. Words get their word IDs from --words, which may also be an FST that holds a
table (such as the Gr.fst that OUT will replace), or else from IN, if it has such a table. n-grams with a word outside
the table are dropped, counted and reported; if too many would be lost, the model is refused.

G.fst is what `arpa2fst --disambig-symbol=#0 --read-symbol-table=words.txt` makes. If pynini is installed, OpenFst
itself reads the file back and counts its states and arcs. k2 is the text that kaldilm makes for k2 and icefall:
k2.Fsa.from_openfst(open("G.fst.txt").read(), acceptor=False). --max-order N leaves longer n-grams out, and the result
still sums to one; kaldilm, which keeps the back-off weights of the longest n-grams that it reads, makes a model that
does not.
"""

import argparse

from mdi.commands import options
from mdi.commands.inputs import read_adapted
from mdi.commands.outputs import check_outputs
from mdi.errors import UsageError
from mdi.progress import say


def options_for(form: str | None) -> str:
    """`form`: of OUT, unless --format says another one; otherwise its name does."""
    return f"""
lm IN  model in any form
out OUT  file to write (.gz by suffix, - for standard output)
--words words.txt{"!" if form else ""}  Kaldi's symbol table, or an FST that holds one
--format arpa|fst|opengrm|ngram|carpa|k2{f" = {form}  form of OUT" if form else "  form of OUT (as its name says)"}
--max-order N  leave longer n-grams out (none)
--disambig-symbol SYMBOL = #0  what back-off arcs of G.fst read
{options.WORDS_OUT}
{options.delta("IN")}
--max-dropped SHARE = 0.2  refuse a model that loses more than this share of its n-grams
"""


OPTIONS = options_for(None)


def run(args: argparse.Namespace) -> None:
    from mdi.fst.formats import format_of
    from mdi.fst.verify import verify

    size = _convert(args)  # by now the model has left memory, where OpenFst will have one as large
    if size and (args.format or format_of(args.out)) in ("fst", "opengrm") and verify(args.out, size):
        say(f"{args.out}: OpenFst reads it, with as many states and arcs")


def _convert(args: argparse.Namespace) -> tuple[int, int] | None:
    """How many states and arcs were written, if any were."""
    from mdi.adaptation.delta import read_delta
    from mdi.fst.formats import check_form, words_for, write_lm
    from mdi.lm.model import first_orders

    check_outputs(args, args.out, *filter(None, [args.words_out]))
    if args.max_order is not None and args.max_order < 1:
        raise UsageError(f"--max-order {args.max_order}; expected 1 or more")
    words = words_for(args.words, args.lm)
    check_form(args.out, args.format, words, args.words_out, args.disambig_symbol)
    model = read_adapted(args.lm, args, closed=False)
    if args.max_order is not None:
        model = first_orders(model, args.max_order)
    new = read_delta(args.delta).new_words if args.delta else None
    written = write_lm(
        model,
        args.out,
        args.format,
        words,
        max_dropped=args.max_dropped,
        back_off=args.disambig_symbol,
        new_words=new.words if new else (),
        words_out=args.words_out,
    )
    say(f"{args.out}: {' / '.join(f'{n:,}' for n in model.trie.counts)} n-grams of order 1 to {model.order}")
    return written.size if written else None
