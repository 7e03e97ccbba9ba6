"""Adapts a small model so that it keeps the marginals of a large one: a better first-pass model of the same size.

    mdi match [options] SMALL.arpa[.gz] LARGE.arpa[.gz] TEXT[.gz]... OUT.arpa[.gz]

The constraints are all n-grams of the small model; their targets are their marginals in the large one over the
histories of the in-domain text. The output has exactly the n-grams of the small model.
"""

import argparse
from pathlib import Path

from mdi.commands import options
from mdi.commands.inputs import read_history, read_in_domain, read_model, text_fields
from mdi.commands.outputs import check_model_output, report_result, save_model, watched
from mdi.errors import MdiError

OPTIONS = f"""
files FILE+  small model, large model, in-domain text(s), output
{options.MODELS}
{options.IN_SHARDS}
{options.adaptation("map")}
"""


def run(args: argparse.Namespace) -> int:
    from mdi.adaptation.match import match
    from mdi.lm.model import with_suffixes
    from mdi.lm.normalise import check_normalised

    if len(args.files) < 3 or (len(args.files) == 3) != bool(args.counts):
        raise MdiError("expected SMALL LARGE TEXT OUT, or --counts COUNTS SMALL LARGE OUT")
    small_path, large_path, *texts, out = args.files
    options.check_options(args)
    check_model_output(out, args, [small_path, large_path])
    with options.sharding(args, out, [*args.files[:-1], *filter(None, [args.counts])], args.memory):
        small = read_model(small_path, args, closed=False)
        check_normalised(small_path, with_suffixes(small), args.allow_unnormalized)
        large = read_model(large_path, args)
        counts = read_in_domain(args, list(map(Path, texts)), small.vocab, max(small.order, large.order))
        asked = {"new_words": args.new_words, "history": read_history(args), "threads": args.threads}
        with watched(args) as settings:
            adapted = match(small, large, counts, settings=settings, **asked)
        inputs = {"small": small_path, "large": large_path, "in_domain": args.counts or texts}
        about = {"command": "match", **inputs, **text_fields(counts.stats), "options": options.options_of(args)}
        save_model(adapted, out, args, [small_path, large_path], about)
        return 0 if report_result(adapted, out) else 1
