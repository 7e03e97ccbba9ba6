"""Adapts a small model so that it keeps the marginals of a large one: a better first-pass model of the same size.

    mdi match [options] SMALL.arpa[.gz] LARGE.arpa[.gz] TEXT[.gz]... OUT.arpa[.gz]

The constraints are all n-grams of the small model; their targets are their marginals in the large one over the
histories of the in-domain text. The output has exactly the n-grams of the small model. With --new-words add it also
has the words that only the large model has; other words of the text are mapped to <unk>.
"""

import argparse
from pathlib import Path
from typing import Any

from mdi.commands import options
from mdi.commands.inputs import read_history, read_in_domain, read_model, text_fields
from mdi.commands.outputs import check_model_output, check_numbered, report_result, save_model, watched
from mdi.errors import UsageError, check_choice, examples
from mdi.progress import say

WORDS = """words that the small model lacks: add those of the large one, or of the text: map (to <unk>), drop (with
  the n-grams around them) or error"""
OPTIONS = f"""
files FILE+  small model, large model, in-domain text(s), output
{options.MODELS}
{options.IN_SHARDS}
{options.adaptation("map", WORDS)}
"""


def run(args: argparse.Namespace) -> int:
    from mdi.adaptation.match import match, words_of_large
    from mdi.lm.new_words import CHOICES
    from mdi.lm.normalise import check_normalised

    if len(args.files) < 3 or (len(args.files) == 3) != bool(args.counts):
        raise UsageError("expected SMALL LARGE TEXT OUT, or --counts COUNTS SMALL LARGE OUT")
    small_path, large_path, *texts, out = args.files
    options.check_options(args)
    check_choice("new_words", args.new_words, CHOICES)
    check_model_output(out, args, [small_path, large_path])
    with options.sharding(args, out, [*args.files[:-1], *filter(None, [args.counts])], args.memory):
        small = read_model(small_path, args, closed=False)
        check_normalised(small_path, small, args.allow_unnormalized)
        large = read_model(large_path, args)
        added = words_of_large(small, large) if args.new_words == "add" else None
        vocab = small.vocab.extended(added.words) if added else small.vocab
        if added:
            say(f"{large_path}: {len(added.words):,} words that {small_path} lacks are added: {examples(added.words)}")
        check_numbered(out, args, [small_path, large_path], vocab)
        of_text = argparse.Namespace(**vars(args))
        of_text.new_words = "map" if args.new_words == "add" else args.new_words
        counts = read_in_domain(of_text, list(map(Path, texts)), vocab, max(small.order, large.order))
        how: dict[str, Any] = {"new_words": args.new_words, "history": read_history(args), "threads": args.threads}
        how["allow_unnormalized"] = True  # it has been checked
        with watched(args) as settings:
            adapted = match(small, large, counts, settings=settings, **how)
        inputs = {"small": small_path, "large": large_path, "in_domain": args.counts or texts}
        about = {"command": "match", **inputs, **text_fields(counts.stats), "options": options.options_of(args)}
        save_model(adapted, out, args, [small_path, large_path], about)
        return 0 if report_result(adapted, out) else 1
