"""Makes an adapted model from its background and a delta: byte for byte what mdi adapt would have written.

    mdi adapt --delta A.delta BACKGROUND TEXT
    mdi apply BACKGROUND A.delta OUT

A background other than the delta's own is refused. OUT.json has the delta's certificate.
"""

import argparse

from mdi.commands import options
from mdi.commands.inputs import read_model
from mdi.commands.outputs import check_model_output, check_numbered, save_model
from mdi.progress import say

OPTIONS = f"""
background BACKGROUND  the model that was adapted
delta DELTA  file of mdi adapt --delta
out OUT  model (.gz by suffix, - for standard output)
{options.MODELS}
{options.IN_SHARDS}
"""


def run(args: argparse.Namespace) -> None:
    from mdi.adaptation.delta import read_delta
    from mdi.adaptation.table import new_word_fields

    check_model_output(args.out, args, [args.background])
    with options.sharding(args, args.out, [args.background, args.delta], args.memory):
        delta = read_delta(args.delta)
        background = read_model(args.background, args)
        new_words = delta.new_words.words if delta.new_words else []
        check_numbered(args.out, args, [args.background], background.vocab, new_words)
        model = delta.apply(background, args.background)
        made = {"ngrams": model.trie.counts, "min_counts": delta.min_counts, "made": delta.made}
        about = {"command": "apply", "background": args.background, "delta": args.delta, **delta.certificate, **made}
        about |= new_word_fields(delta.new_words)
        save_model(model, args.out, args, [args.background], about)
    say(f"{args.delta}: {delta.constraints.total:,} constraints, {sum(model.trie.counts):,} n-grams -> {args.out}")
