"""Adapts a small model so that it keeps the marginals of a large one: a better first-pass model of the same size.

    mdi match [options] SMALL.arpa[.gz] LARGE.arpa[.gz] TEXT[.gz]... OUT.arpa[.gz]

The constraints are all n-grams of the small model, the targets their marginals in the large one over the histories of
the in-domain text. The output has exactly the n-grams of the small model.
"""

from __future__ import annotations

import argparse
import time

from mdi.commands import options as shared
from mdi.errors import MdiError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="small model, large model, in-domain text(s), output")
    shared.add_model_arguments(parser)
    shared.add_cluster_arguments(parser)
    shared.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    files = args.files
    if len(files) < 3 or (len(files) == 3) != bool(args.counts):
        raise MdiError("expected SMALL LARGE TEXT OUT, or --counts COUNTS SMALL LARGE OUT")
    small_path, large_path, *texts, out = files
    shared.check_options(args)
    shared.check_model_output(out, args, [small_path, large_path])
    if args.estimate:
        from mdi.cost import adapt_cost

        (small_ngrams, words), (large_ngrams, _) = shared.sizes(small_path, texts), shared.sizes(large_path, [])
        ngrams = small_ngrams + large_ngrams
        print(f"{ngrams:,.0f} n-grams, {words:,.0f} words: {adapt_cost(ngrams, words)}")
        return 0
    with shared.sharding(args, out, [*files[:-1], *filter(None, [args.counts])], args.memory):
        return _match(args, started)


def _match(args: argparse.Namespace, started: float) -> int:
    from mdi.adaptation.match import match
    from mdi.adaptation.settings import SolverSettings
    from mdi.lm.model import with_suffixes
    from mdi.lm.normalise import check_normalised

    small_path, large_path, *texts, out = args.files
    small = shared.read_model(small_path, args, closed=False)
    check_normalised(small_path, with_suffixes(small), args.renormalize)
    large = shared.read_model(large_path, args)
    counts = shared.read_in_domain(args, texts, small.vocab, max(small.order, large.order))
    with shared.watched(args) as report:
        adapted = match(
            small, large, counts, history=shared.read_history(args), threads=args.threads,
            settings=SolverSettings(args.tolerance, args.max_iters, report=report),
        )  # fmt: skip
    inputs = {"small": small_path, "large": large_path, "in_domain": args.counts or texts}
    about = {"command": "match", **inputs, **shared.text_fields(counts), "options": shared.options_of(args)}
    shared.save_model(adapted, out, args, [small_path, large_path], about, started)
    return 0 if shared.say_result(adapted, out) else 1
