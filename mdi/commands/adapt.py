"""Adapts a background model to in-domain text by minimum discrimination information.

    mdi adapt [options] BACKGROUND.arpa[.gz] TEXT[.gz]... OUT.arpa[.gz]
    mdi adapt [options] --counts COUNTS BACKGROUND.arpa[.gz] OUT.arpa[.gz]

Among all models that have the in-domain marginals of the chosen n-grams, the result is the closest to the background. It is
written with a certificate, OUT.json.
"""

from __future__ import annotations

import argparse

from mdi.certificate import write_certificate
from mdi.cli import boolean
from mdi.errors import MdiError, examples
from mdi.progress import say

MAX_INPUT_GAP, MAX_OUTPUT_GAP = 1e-3, 1e-6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="background, in-domain text(s), output")
    add = parser.add_argument
    add(
        "--min-counts",
        default="2",
        metavar="N-N-N",
        help="constrain n-grams seen so often, by order, such as 5-3-2; the last repeats (2)",
    )
    add("--counts", metavar="FILE", help="SRILM count file instead of text; fractional counts are fine")
    add("--oov", choices=("map", "drop", "error"), default="map", help="words outside the background's vocabulary (map)")
    add("--targets", choices=("ml", "smoothed"), default="ml", help="marginals: relative frequencies or Kneser-Ney's (ml)")
    add("--targets-lm", metavar="LM", help="marginals of this model instead")
    add("--history", default="ml", metavar="ml|LM", help="history distribution: of the text, or of a back-off model (ml)")
    add("--solver", choices=("partition", "gis", "lbfgs", "paper"), default="partition", help="(partition)")
    add("--tolerance", type=float, default=1e-3, metavar="L1", help="L1 distance of targets and marginals to stop at (1e-3)")
    add("--max-iters", type=int, default=200, metavar="N", help="(200)")
    add("--sigma2", type=float, metavar="V", help="variance of a Gaussian prior on lambda (none)")
    add("--init", metavar="TSV", help="start from the lambdas of an earlier --constraints-out")
    add("--constraints-out", metavar="TSV", help="write n-gram, order, count, target, marginals before and after, lambda")
    add("--renormalize", type=boolean, default=False, metavar="true|false", help="accept a background that does not sum to one")
    add("--threads", type=int, default=2, metavar="N", help="results do not depend on it (2)")


def run(args: argparse.Namespace) -> int:
    from mdi.adaptation import adapt
    from mdi.arpa import read_arpa, write_arpa
    from mdi.counts import count_text, read_counts
    from mdi.files import check_output
    from mdi.model import worst_sum
    from mdi.report import certificate, read_lambda, write_constraints

    background_path, *texts, out = args.files if len(args.files) > 1 else (*args.files, "")
    if not out or bool(texts) == bool(args.counts):
        raise MdiError("expected BACKGROUND TEXT OUT, or --counts COUNTS BACKGROUND OUT")
    if not args.tolerance > 0 or args.max_iters < 1 or args.threads < 1 or (args.sigma2 is not None and not args.sigma2 > 0):
        raise MdiError("--tolerance, --max-iters, --threads and --sigma2 must be positive")
    for path in filter(None, (out, args.constraints_out)):
        check_output(path, [background_path, *texts])

    background = read_arpa(background_path)
    gap, where = worst_sum(background)
    if gap > MAX_INPUT_GAP and not args.renormalize:
        raise MdiError(
            f"{background_path}: p(.|h) sums to one only within {gap:.2g} (after {where}); expected {MAX_INPUT_GAP:g}. "
            f"Build the model again, or take it as it is with --renormalize true"
        )
    targets = read_arpa(args.targets_lm) if args.targets_lm else args.targets
    history = None if args.history == "ml" else read_arpa(args.history)
    order = max(background.order, targets.order if args.targets_lm else 1)
    if args.counts:
        counts = read_counts(args.counts, background.vocab, order, args.oov)
    else:
        counts = count_text(texts, background.vocab, order, args.oov)
    stats = counts.stats
    say(
        f"in-domain: {stats.sentences:,} sentences, {stats.words:,} words" + _oov_note(stats, background.vocab.unk >= 0, args.oov)
    )

    adapted = adapt(
        background,
        counts,
        args.min_counts,
        targets=targets,
        history=history,
        solver=args.solver,
        tolerance=args.tolerance,
        max_iters=args.max_iters,
        sigma2=args.sigma2,
        start=read_lambda(args.init) if args.init else None,
        threads=args.threads,
        report=lambda s: say(f"iteration {s.iteration}: D {s.objective:.6f}, L1 {s.l1:.3g}, {s.seconds:.1f} s"),
    )
    for reason, number in adapted.problem.dropped.reasons.items():
        say(f"dropped {number:,} constraints, {reason}")
    fields = certificate(adapted)
    if not fields["worst_sum_gap"] <= MAX_OUTPUT_GAP:
        raise MdiError(
            f"the adapted model sums to one only within {fields['worst_sum_gap']:.2g} (after {fields['worst_sum_history']}): "
            f"{adapted.solution.message}. Nothing was written; raise --min-counts, or use --targets smoothed or --sigma2"
        )
    write_arpa(adapted.model, out)
    options = {name: value for name, value in vars(args).items() if name not in ("files", "threads")}
    inputs = {"background": background_path, "in_domain": args.counts or texts}
    text = {"sentences": stats.sentences, "words": stats.words, "oov": stats.oov}
    write_certificate(out, {"command": "adapt", **inputs, **text, "options": options, **fields})
    if args.constraints_out:
        write_constraints(adapted, args.constraints_out)
    say(
        f"{adapted.solution.message}; {fields['constraints']:,} constraints, KL to the background {adapted.kl:.4f} nats a word, "
        f"{sum(adapted.model.trie.counts):,} n-grams -> {out}"
    )
    if not adapted.solution.converged:
        say("mdi adapt: the solver did not converge; the model is valid, but some marginals are off (see the certificate)")
        return 1
    return 0


def _oov_note(stats, has_unk: bool, oov: str) -> str:
    if not stats.oov:
        return ""
    done = "mapped to <unk>" if oov == "map" and has_unk else "left out with the n-grams around them"
    return f"; {stats.oov:,} words outside the vocabulary, such as {examples(stats.oov_examples)}: {done}"
