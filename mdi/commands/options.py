"""Not a verb: what the verbs that adapt a model to in-domain text share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mdi.cli import boolean
from mdi.errors import MdiError, examples
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.adaptation.adapted import Adapted
    from mdi.adaptation.solver import Step
    from mdi.lm.counts import Counts
    from mdi.lm.model import NgramModel
    from mdi.lm.vocabulary import Vocabulary

MAX_INPUT_GAP, MAX_OUTPUT_GAP = 1e-3, 1e-6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--counts", metavar="FILE", help="SRILM count file instead of text; fractional counts are fine")
    add("--oov", choices=("map", "drop", "error"), default="map", help="words outside the model's vocabulary (map)")
    add(
        "--history",
        default="ml",
        metavar="ml|LM",
        help="history distribution: of the text, or of a back-off model (ml)",
    )
    add(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="L1",
        help="L1 distance of targets and marginals to stop at (1e-3)",
    )
    add("--max-iters", type=int, default=200, metavar="N", help="(200)")
    add(
        "--renormalize",
        type=boolean,
        default=False,
        metavar="true|false",
        help="accept a model that does not sum to one",
    )
    add("--threads", type=int, default=2, metavar="N", help="results do not depend on it (2)")


def check_options(args: argparse.Namespace) -> None:
    for name in ("tolerance", "max_iters", "threads"):
        if not getattr(args, name) > 0:
            raise MdiError(f"--{name.replace('_', '-')} {getattr(args, name)}; expected a positive number")


def check_normalised(path: str, model: NgramModel, renormalize: bool) -> None:
    """A model to adapt is refused on the way in if it is not a probability model."""
    from mdi.lm.normalise import worst_sum

    gap, where = worst_sum(model)
    if gap > MAX_INPUT_GAP and not renormalize:
        raise MdiError(
            f"{path}: p(.|h) sums to one only within {gap:.2g} (after {where}); expected {MAX_INPUT_GAP:g}. "
            f"Build the model again, or take it as it is with --renormalize true"
        )


def read_history(args: argparse.Namespace) -> NgramModel | None:
    from mdi.lm.arpa import read_arpa

    return None if args.history == "ml" else read_arpa(args.history)


def read_in_domain(args: argparse.Namespace, texts: list[str], vocab: Vocabulary, order: int) -> Counts:
    """Counts of the texts or of --counts, and a line about them."""
    from mdi.lm.counts import count_text, read_counts

    counts = (
        read_counts(args.counts, vocab, order, args.oov) if args.counts else count_text(texts, vocab, order, args.oov)
    )
    stats = counts.stats
    if not args.counts and stats.oov > 0.5 * stats.words:
        raise MdiError(
            f"{stats.oov:,} of {stats.words:,} in-domain words are outside the vocabulary, such as "
            f"{examples(stats.oov_examples)}; expected most of them in it. Are text and model in the same letter "
            f"case, and are "
            f"there no utterance names in the text?"
        )
    note = ""
    if stats.oov:
        done = "mapped to <unk>" if args.oov == "map" and vocab.unk >= 0 else "left out with the n-grams around them"
        note = f"; {stats.oov:,} words outside the vocabulary, such as {examples(stats.oov_examples)}: {done}"
    say(f"in-domain: {stats.sentences:,} sentences, {stats.words:,} words{note}")
    return counts


def say_step(step: Step) -> None:
    say(f"iteration {step.iteration}: D {step.objective:.6f}, L1 {step.l1:.3g}, {step.seconds:.1f} s")


def text_fields(counts: Counts) -> dict[str, int]:
    return {"sentences": counts.stats.sentences, "words": counts.stats.words, "oov": counts.stats.oov}


def options_of(args: argparse.Namespace) -> dict:
    """The options for the certificate; the number of threads changes nothing."""
    return {name: value for name, value in vars(args).items() if name not in ("files", "threads")}


def checked_fields(adapted: Adapted) -> dict:
    """The certificate's fields; an error instead of a model that is not one."""
    from mdi.adaptation.table import certificate

    for reason, number in adapted.problem.dropped.reasons.items():
        say(f"dropped {number:,} constraints, {reason}")
    fields = certificate(adapted)
    if not fields["worst_sum_gap"] <= MAX_OUTPUT_GAP:
        raise MdiError(
            f"the adapted model sums to one only within {fields['worst_sum_gap']:.2g} (after "
            f"{fields['worst_sum_history']}): "
            f"{adapted.solution.message}. Nothing was written; raise --min-counts, or use --targets smoothed or "
            f"--sigma2"
        )
    return fields


def say_result(adapted: Adapted, out: str) -> bool:
    """A line about the model; whether it converged."""
    say(
        f"{adapted.solution.message}; {adapted.problem.constraints.total:,} constraints, KL to the background "
        f"{adapted.kl:.4f} "
        f"nats a word, {sum(adapted.counts):,} n-grams -> {out}"
    )
    if not adapted.solution.converged:
        say(f"{out}: the solver did not converge; the model is valid, but some marginals are off (see the certificate)")
    return adapted.solution.converged
