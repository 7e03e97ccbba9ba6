"""One adaptation problem: the background with a row for every constraint, what is constrained, and to what."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.constraints import Constraints, Dropped
from mdi.adaptation.dual import Dual, SubsetDual
from mdi.adaptation.entries import carried
from mdi.adaptation.history import History
from mdi.adaptation.solver import USUAL, Solution, SolverSettings, as_settings, solve
from mdi.errors import ConvergenceWarning, MdiError, OptionError, examples
from mdi.lm.model import NgramModel, extend, extended, over_vocabulary
from mdi.lm.thresholds import numbers_by_order
from mdi.lm.trie import MAX_ORDER, Array, Trie, from_ngrams, locate
from mdi.lm.vocabulary import Vocabulary, join_vocabularies

# Marginals that rounding may have moved by more than this, as an L1 distance, are not certified.
MAX_ROUNDING = 1e-6
# Of the Gaussian prior on lambda: one for all, one per order (the last repeats), or no prior.
Variances = str | float | Sequence[float] | None
# 1 / (sigma2 * events) must be a number.
LEAST_VARIANCE = 1e-100


def variances(sigma2: Variances, order: int = MAX_ORDER) -> list[float] | None:
    """Those of lambda by order, or no prior."""
    if sigma2 is None or (isinstance(sigma2, str) and sigma2 == "none"):
        return None
    values = numbers_by_order("sigma2", sigma2, order, "a positive number, one per order such as 2-1-0.5, or none")
    if min(values) < LEAST_VARIANCE:
        raise OptionError("sigma2", sigma2, f"at least {LEAST_VARIANCE:g}: so narrow a prior leaves the model as it is")
    return values


@dataclass(frozen=True, repr=False, eq=False)
class Problem:
    """Background (extended by the constraints), constraints and targets.

    `constraints` are rows of the background, `chosen` the same n-grams as rows of the in-domain counts.
    """

    min_counts: str
    background: NgramModel
    constraints: Constraints
    chosen: Constraints
    target: Array
    count: Array
    dual: Dual
    before: Array  # the background's marginals of the constraints
    events: float
    dropped: Dropped = field(default_factory=Dropped)
    keep: list[Array] | None = None  # rows to write, where `background` has more than this problem needs

    def ngrams(self) -> list[str]:
        """The constraints spelled out."""
        words = self.background.vocab.words
        listed = self.constraints.ngrams(self.background.trie)
        return [" ".join([words[w] for w in ids]) for part in listed for ids in part.tolist()]

    def solve(
        self, settings: SolverSettings | None = USUAL, *, sigma2: Variances = None, start: Array | None = None
    ) -> Solution:
        """Parameters at which the marginals meet their targets: see `mdi.adaptation.solver.solve`. `start` is mu."""
        by_order = variances(sigma2, self.constraints.order)
        prior = None if by_order is None else np.array(by_order)[self.constraints.order_of - 1]
        found = solve(self.dual, self.target, as_settings(settings), sigma2=prior, events=self.events, start=start)
        if not found.converged:
            warnings.warn(ConvergenceWarning(found.message), stacklevel=3)
        return found


class ExtendedBackground:
    """A background with a row for every constraint, in place, and p~ on its histories: what sets of constraints can
    share if `chosen` has them all."""

    def __init__(
        self, background: NgramModel, counts: Trie, chosen: Constraints, history: History, threads: int
    ) -> None:
        self.chosen, self.model, self.threads, self.cuts = chosen, background, threads, history.cuts
        self.ngrams = from_ngrams(counts.n_words, chosen.ngrams(counts))
        self.chosen_rows = chosen.relocated(counts, self.ngrams)
        self.known = locate(self.ngrams, background.trie)
        extend(background, self.ngrams)
        mass = history.on(background.trie)
        self.rows = chosen.relocated(counts, background.trie)
        self.reached = selecting.reaches(self.rows, background.trie, mass)
        self.mass = carried(background, mass)

    @cached_property
    def dual(self) -> Dual:
        return Dual(self.model, self.mass, self.rows, self.threads, self.cuts)

    def dual_of(self, chosen: Constraints) -> tuple[Dual, Array]:
        """The dual of the given constraints alone, and after how many histories with mass each of them has events."""
        if chosen.total == self.chosen.total:
            return self.dual, self.reached
        kept = self.chosen.flags_of(chosen)
        return SubsetDual(self.dual, kept), self.reached[kept]

    def needed(self, chosen: Constraints) -> list[Array] | None:
        """Flags of the rows that the background had before or the given constraints need; None if those are all
        rows."""
        trie = self.ngrams
        needed = trie.flags(self.chosen_rows.keep(self.chosen.flags_of(chosen)).row)
        for k in range(trie.order, 1, -1):
            rows = np.flatnonzero(needed[k])
            needed[k - 1][trie.suffix[k][rows]] = True
            needed[k - 1][trie.row_of_hist[k - 1][trie.hist_of_rows(k, rows)]] = True
        spare = [~part & (before < 0) for part, before in zip(needed, self.known, strict=True)]
        if not any(part.any() for part in spare):
            return None
        dropped = [rows[part] for rows, part in zip(locate(trie, self.model.trie), spare, strict=True)]
        return [~part for part in self.model.trie.flags(dropped)]


def model_marginals(model: NgramModel, source: Trie, constraints: Constraints, history: History, threads: int) -> Array:
    """sum_h p~(h) p(w|h) over each constraint's events: Sigma_R of another model, with no scaling."""
    wide = extended(model, from_ngrams(source.n_words, constraints.ngrams(source)))
    rows = constraints.relocated(source, wide.trie)
    dual = Dual(wide, history.on(wide.trie), rows, threads, history.cuts)
    cells = np.maximum(dual.evaluate(np.zeros(rows.total)).cells, 0.0)
    error = dual.rounding_error(np.zeros(rows.total))
    if not error <= MAX_ROUNDING:
        raise MdiError(
            f"the targets, marginals of another model, are known only within {error:.2g}: its back-off weights are so "
            f"large that rounding leaves no digits; expected weights below a million. Prune it (mdi prune), or build "
            f"it again"
        )
    return dual.marginals(cells)


def onto(model: NgramModel, vocab: Vocabulary, role: str, otherwise: str = "") -> NgramModel:
    """The model over the background's vocabulary. Words that it lacks have probability 0 in it; words of its own are
    refused. `otherwise`: what else its user can do."""
    joined, ids = join_vocabularies([vocab, model.vocab])
    if len(joined) > len(vocab):
        more = [joined.word(i) for i in range(len(vocab), min(len(joined), len(vocab) + 5))]
        raise MdiError(
            f"{role} has {len(joined) - len(vocab):,} words that the model to be adapted lacks, such as "
            f"{examples(more)}; build it over that one's vocabulary (mdi train --vocab){otherwise}"
        )
    return over_vocabulary(model, vocab, ids[1])
