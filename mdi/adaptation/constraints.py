"""Which n-grams are constrained, to what, and which of them cannot be."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mdi.kernels.model import add_at
from mdi.lm.counts import Counts
from mdi.lm.trie import NONE, Array, Trie

# Residual targets below this share of their constraint's target are zero up to rounding.
ROUNDING = 1e-9

IMPLIED = "which longer constraints imply: their targets add up to its own (this is harmless)"
NO_MASS_LEFT = "those of the rarest words, so that words without a constraint keep some probability"
IMPOSSIBLE = "which cannot change the model: longer n-grams cover them, or their probability is 0 (this is harmless)"
NO_TARGET = "without a target: the model that gives the targets has no probability for them"


@dataclass(frozen=True)
class Constraints:
    """Constrained rows, ascending, by order ([0] is a filler). Constraint number first[k] + i is row[k][i]."""

    row: list[Array]

    @cached_property
    def first(self) -> list[int]:
        return [0, *np.cumsum([0, *(len(rows) for rows in self.row[1:])]).tolist()]

    @property
    def total(self) -> int:
        return self.first[-1]

    @property
    def order(self) -> int:
        return len(self.row) - 1

    @cached_property
    def order_of(self) -> Array:
        return np.repeat(np.arange(1, self.order + 1), [len(rows) for rows in self.row[1:]])

    def by_order(self, values: Array) -> list[Array]:
        """A value for each constraint, cut as `row` is."""
        return [NONE, *np.split(values, self.first[2:-1])]

    def keep(self, kept: Array) -> "Constraints":
        """The constraints whose flag is set."""
        parts = self.by_order(kept)
        return Constraints([NONE, *(rows[part] for rows, part in zip(self.row[1:], parts[1:], strict=True))])

    def ngrams(self, trie: Trie) -> list[Array]:
        """The words of each, by order from 1 on, one per line."""
        return [trie.ngrams(k, rows) for k, rows in enumerate(self.row[1:], 1)]

    def relocated(self, source: Trie, target: Trie) -> "Constraints":
        """The same n-grams as rows of another trie. Tries over the same words sort alike, so rows stay ascending."""
        return Constraints([NONE, *map(target.find, self.ngrams(source))])

    def flags_of(self, some: "Constraints") -> Array:
        """Which of these constraints are among `some`, all of which are among these."""
        by_order = zip(self.row[1:], some.row[1:], strict=True)
        return np.concatenate([np.isin(mine, theirs, assume_unique=True) for mine, theirs in by_order])

    def nearest(self, trie: Trie, k: int, rows: Array) -> Array:
        """The longest constraint that is a suffix of each of the given rows of order k (the row itself included), or
        -1."""
        found = np.full(len(rows), -1, np.int32)
        left = np.arange(len(rows))
        for below in range(k, 0, -1):
            if below <= self.order:
                at = np.searchsorted(self.row[below], rows)
                here = at < len(self.row[below])
                here[here] = self.row[below][at[here]] == rows[here]
                found[left[here]] = self.first[below] + at[here]
                left, rows = left[~here], rows[~here]
            rows = trie.suffix[below][rows]
        return found

    def parents(self, trie: Trie) -> Array:
        """The longest constraint among the proper suffixes of each, or -1."""
        parts = [np.full(len(self.row[1]), -1, np.int32)]
        for k in range(2, self.order + 1):
            parts.append(self.nearest(trie, k - 1, trie.suffix[k][self.row[k]]))
        return np.concatenate(parts)


def select(counts: Counts, thresholds: list[int | float]) -> Constraints:
    """Rows of the counts that reach the threshold of their order. <s> is never predicted, so never constrained."""
    rows = [NONE]
    for k, threshold in enumerate(thresholds, 1):
        enough = counts.count[k] >= threshold
        if k == 1:
            enough[counts.vocab.bos] = False
        rows.append(np.flatnonzero(enough).astype(np.int32))
    return Constraints(rows)


def values(counts: Counts, constraints: Constraints) -> Array:
    """The count of each constraint."""
    return np.concatenate([count[rows] for count, rows in zip(counts.count[1:], constraints.row[1:], strict=False)])


@dataclass
class Dropped:
    """How many constraints were given up, and why."""

    reasons: dict[str, int] = field(default_factory=dict)

    def note(self, reason: str, flags: Array) -> bool:
        number = int(flags.sum())
        if number:
            self.reasons[reason] = self.reasons.get(reason, 0) + number
        return number > 0


def drop_degenerate(
    trie: Trie, constraints: Constraints, target: Array, events_elsewhere: bool, dropped: Dropped
) -> Array:
    """Flags of the constraints to keep.

    A constraint whose longer constraints use up its whole target has a cell with target 0: the optimum would lie at
    infinity and give every other event of the cell probability 0. It is implied by them, so nothing is lost by
    dropping it. If nothing is left for the words without a constraint (and there are such words), the unigram
    constraints with the smallest target are dropped: Good and Turing would give unseen words the mass of the rarest.
    """
    keep = np.ones(constraints.total, bool)
    while True:
        kept = constraints.keep(keep)
        parent = kept.parents(trie)
        t = target[keep]
        r = t.copy()
        np.subtract.at(r, parent[parent >= 0], t[parent >= 0])
        has_children = np.zeros(kept.total, bool)
        has_children[parent[parent >= 0]] = True
        lost = has_children & (r <= ROUNDING * t)
        reason = IMPLIED
        if not lost.any() and events_elsewhere and 1.0 - t[parent < 0].sum() <= ROUNDING:
            words = kept.order_of == 1
            lost = words & (t <= t[words].min(initial=np.inf) * (1 + ROUNDING))
            reason = NO_MASS_LEFT
        if not dropped.note(reason, lost):
            return keep
        keep[np.flatnonzero(keep)[lost]] = False


def reaches(constraints: Constraints, trie: Trie, mass: list[Array]) -> Array:
    """After how many histories that carry mass each constraint has events: those that end in its history."""
    carrying = [*((part > 0).astype(float) for part in mass[:-1]), mass[-1] > 0]
    for j in range(len(mass) - 1, 0, -1):
        add_at(trie.back[j], carrying[j], carrying[j - 1])
    rows = enumerate(constraints.row[1:], 1)
    return np.concatenate([carrying[k - 1][trie.hist_of_rows(k, some)] for k, some in rows])


def impossible(parent: Array, reach: Array, cells: Array) -> Array:
    """Flags of constraints with no event of their own that has a probability: no scaling can raise them.

    Events of a constraint hw lie after the histories that end in h and carry mass, unless a longer constraint covers
    them; counting those (`reaches`) is exact where `cells`, the background's marginals, would only be zero
    up to rounding.
    """
    nested = parent >= 0
    own = reach - np.bincount(parent[nested], weights=reach[nested], minlength=len(reach))
    return (own <= 0) | (cells <= 0)
