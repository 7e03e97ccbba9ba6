"""Drops the n-grams that matter least, by relative entropy, as SRILM's ngram -prune does.

An n-gram is dropped if the perplexity of the model rises by less than the threshold (relatively) without it, and if no
longer n-gram that is kept begins with it. Back-off weights are recomputed, so every history still sums to one.
"""

import argparse

from mdi.commands import options
from mdi.commands.inputs import read_model
from mdi.commands.outputs import check_model_output, check_numbered, save_model
from mdi.progress import say

OPTIONS = f"""
[at most one of]
--threshold THRESHOLD = 1e-8  smallest relative rise in perplexity that keeps an n-gram
--max-ngrams N  the smallest threshold that leaves at most N n-grams instead
[]
lm LM  model in any form, plain or gzipped
out OUT  the pruned model (.gz by suffix, - for standard output); OUT.json says how it was made
{options.MODELS}
"""


def run(args: argparse.Namespace) -> None:
    from mdi.lm.normalise import warn_unless_normalised
    from mdi.lm.prune import mark_pruned, needs, threshold_for

    check_model_output(args.out, args, [args.lm])
    model = read_model(args.lm, args, closed=False)
    check_numbered(args.out, args, [args.lm], model.vocab)
    warn_unless_normalised(args.lm, model)
    need, threshold, before = None, args.threshold, model.trie.counts
    if args.max_ngrams is not None:
        need = needs(model)
        threshold = threshold_for(need, args.max_ngrams)
    pruned, keep = mark_pruned(model, threshold, need=need)
    del model, need
    about = {"command": "prune", "model": args.lm, "threshold": threshold, "max_ngrams": args.max_ngrams}
    about["ngrams_before"] = before
    fields = save_model(pruned, args.out, args, [args.lm], about, keep=keep)
    whole, left = (" / ".join(f"{n:,}" for n in numbers) for numbers in (before, fields["ngrams"]))
    say(f"{args.out}: {left} n-grams of {whole}, threshold {threshold:.6g}")
    if pruned.order < len(before):
        say(f"{args.out}: of order {pruned.order}, no longer n-gram is left")
