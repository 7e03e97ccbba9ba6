"""An adaptation on paper: the certificate's fields and the table of constraints."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from mdi.adaptation.adapted import Adapted
from mdi.files import writing
from mdi.lm.new_words import NewWords
from mdi.lm.text import TextLike, rereadable

if TYPE_CHECKING:
    import pandas

COLUMNS = ("ngram", "order", "count", "target", "marginal_before", "marginal_after", "lambda")


def certificate(adapted: Adapted) -> dict[str, Any]:
    """What was asked, what came out, and how far it is from what was asked."""
    problem, solution = adapted.problem, adapted.solution
    gap = np.abs(problem.target - solution.marginal)
    order = problem.constraints.order_of
    per_order = [
        {
            "order": k,
            "constraints": int((order == k).sum()),
            "distance": float(gap[order == k].sum()),
            "max": float(gap[order == k].max(initial=0.0)),
        }
        for k in range(1, problem.constraints.order + 1)
    ]
    return {
        **new_word_fields(adapted.new_words),
        "converged": solution.converged,
        "message": solution.message,
        "iterations": solution.iterations,
        "distance_to_targets": float(gap.sum()),  # L1; with a prior its pull is a part of it
        "residuals": per_order,
        "dual": adapted.dual_value,
        "kl_to_background": adapted.kl,
        "events": problem.events,
        "constraints": problem.constraints.total,
        "constraints_dropped": problem.dropped.reasons,
        "ngrams": adapted.counts,
        "active_rows": problem.dual.active_rows,
        "rounding_error": solution.rounding_error,  # what the distances may be off by
        "steps": [
            asdict(step) | {"seconds": round(step.seconds, 3)} for step in solution.steps if np.isfinite(step.objective)
        ],
    }


def new_word_fields(new: NewWords | None) -> dict[str, Any]:
    """Words that were added to the background, with their probabilities in it."""
    if new is None:
        return {}
    words = dict(zip(new.words, new.p.tolist(), strict=True))
    return {"new_words": {"added": len(words), "mass": new.mass, "words": words}}


def sweep_table(results: Iterable[Adapted], texts: Mapping[str, TextLike] | None = None) -> "pandas.DataFrame":
    """Adaptations side by side.

    Parameters
    ----------
    results
        What `adapt` or `Adapter.sweep` gives.
    texts
        Texts by name, whose perplexities are wanted.

    Returns
    -------
    pandas.DataFrame
        A row for each: thresholds, constraints, iterations, L1, KL to the background, n-grams, perplexities.
    """
    import pandas

    from mdi.lm.perplexity import perplexity

    kept = {name: rereadable(text) for name, text in (texts or {}).items()}
    rows = []
    for adapted in results:
        row = {
            "min_counts": adapted.problem.min_counts,
            "constraints": adapted.problem.constraints.total,
            "iterations": adapted.solution.iterations,
            "converged": adapted.solution.converged,
            "l1": adapted.solution.steps[-1].l1,
            "kl_to_background": adapted.kl,
            "ngrams": sum(adapted.counts),
        }
        row |= {name: perplexity(adapted.whole, text).ppl for name, text in kept.items()}
        rows.append(row)
    return pandas.DataFrame(rows)


def write_constraints(adapted: Adapted, path: str) -> None:
    """One line per constraint, those that moved most first."""
    problem, solution = adapted.problem, adapted.solution
    order_of = problem.constraints.order_of
    columns = [order_of, problem.count, problem.target, problem.before, solution.marginal, adapted.lam]
    ngrams = problem.ngrams()
    moved = np.argsort(-np.abs(solution.marginal - problem.before), kind="stable")
    with writing(path) as stream:
        stream.write(("\t".join(COLUMNS) + "\n").encode())
        rows = zip(*(column[moved].tolist() for column in columns), strict=True)
        for i, (order, count, target, before, after, lam) in zip(moved.tolist(), rows, strict=True):
            line = f"{ngrams[i]}\t{order}\t{count:.10g}\t{target:.9g}\t{before:.9g}\t{after:.9g}\t{lam:.17g}\n"
            stream.write(line.encode("utf-8", "surrogateescape"))
