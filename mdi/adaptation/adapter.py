"""From a background model and in-domain counts to the adapted model.

p_ad(w|h)  = p(w|h) c(hw) / Z(h)        for every row            (the paper's Eq. 5)
bow_ad(h)  = bow(h) Z(h') / Z(h)                                 (section 3.4)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.constraints import Dropped
from mdi.adaptation.dual import Constraints, Dual, Within
from mdi.adaptation.history import ml_history, move_mass, smoothed_history
from mdi.adaptation.solver import Solution, solve
from mdi.errors import MdiError, examples
from mdi.lm.counts import Counts, count_text
from mdi.lm.estimate import estimate
from mdi.lm.model import NgramModel, close, extend, rescaled, without
from mdi.lm.relabel import join_vocabularies, relabel
from mdi.lm.trie import NONE, Array, Trie, closed, locate
from mdi.lm.vocabulary import Vocabulary


@dataclass(frozen=True)
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
        trie, words = self.background.trie, self.background.vocab.words
        lines = (ids for k in range(1, self.constraints.order + 1) for ids in trie.ngrams(k, self.constraints.row[k]).tolist())
        return [" ".join([words[w] for w in ids]) for ids in lines]

    def lam_from(self, known: dict[str, float]) -> Array:
        """Parameters by n-gram as an array; 0 for constraints that are not among them."""
        return np.array([known.get(ngram, 0.0) for ngram in self.ngrams()])


@dataclass(frozen=True)
class Adapted:
    """A solved problem. The model is made when it is first asked for."""

    problem: Problem
    solution: Solution
    spend: bool = False  # the background's arrays become the model's

    @cached_property
    def lam(self) -> Array:
        return self.problem.dual.lam_of(self.solution.mu)

    @cached_property
    def whole(self) -> NgramModel:
        """The model on all rows of the problem's background, also those that are not to be written."""
        return adapted_model(self.problem.background, self.problem.constraints, self.solution.mu, spend=self.spend)

    @cached_property
    def model(self) -> NgramModel:
        return self.whole if self.problem.keep is None else without(self.whole, self.problem.keep)

    @property
    def counts(self) -> list[int]:
        """Number of n-grams of the model, by order."""
        keep = self.problem.keep
        return self.problem.background.trie.counts if keep is None else [int(part.sum()) for part in keep[1:]]

    @property
    def kl(self) -> float:
        """KL(p_ad || background) under p~: sum_i lam_i marginal_i - sum_h p~(h) log Z(h)."""
        return float(self.lam @ self.solution.marginal) - self.solution.evaluation.log_z

    @property
    def dual_value(self) -> float:
        return float(self.lam @ self.problem.target) - self.solution.evaluation.log_z


class History:
    """p~(h): of the in-domain text, or of a back-off model; asked for its mass on the histories of any trie."""

    def __init__(self, counts: Counts, model: NgramModel | None = None) -> None:
        self.counts, self.model = counts, model
        self.ml, self.events = ml_history(counts)
        if not self.events > 0:
            raise MdiError("the in-domain counts have no events; expected text with words of the background's vocabulary")

    def on(self, trie: Trie) -> list[Array]:
        if self.model is not None:
            return move_mass(*smoothed_history(self.model, trie, self.counts.order - 1), trie)
        return [part / self.events for part in move_mass(self.counts.trie, self.ml, trie)]


def rows_in(trie: Trie, source: Trie, constraints: Constraints) -> list[Array]:
    """The same n-grams as rows of another trie. Tries over the same words sort alike, so rows stay ascending."""
    return [NONE, *(trie.find(source.ngrams(k, constraints.row[k])) for k in range(1, constraints.order + 1))]


class Ground:
    """A background with a row for every constraint, and p~ on its histories: what sets of constraints can share if `chosen` has
    them all."""

    def __init__(
        self, background: NgramModel, counts: Trie, chosen: Constraints, history: History, threads: int, *, spend: bool = False
    ) -> None:
        self.counts, self.chosen = counts, chosen
        self.ngrams = closed(selecting.as_trie(counts, chosen))
        self.known = locate(self.ngrams, background.trie)
        self.model = extend(background, self.ngrams, spend=spend)
        self.mass = history.on(self.model.trie)
        self.dual = Dual(self.model, self.mass, Constraints(rows_in(self.model.trie, counts, chosen)), threads)

    def dual_of(self, chosen: Constraints) -> Dual:
        """The dual of the given constraints alone."""
        return self.dual if chosen.total == self.chosen.total else Within(self.dual, self.chosen.flags_of(chosen))

    def needed(self, chosen: Constraints) -> list[Array] | None:
        """Flags of the rows that the background had before or the given constraints need; None if those are all rows."""
        trie = self.ngrams
        needed = trie.flags(rows_in(trie, self.counts, chosen))
        for k in range(trie.order, 1, -1):
            rows = np.flatnonzero(needed[k])
            needed[k - 1][trie.suffix[k][rows]] = True
            needed[k - 1][trie.row_of_hist[k - 1][trie.hist_of_rows(k, rows)]] = True
        spare = [~part & (known < 0) for part, known in zip(needed, self.known, strict=True)]
        if not any(part.any() for part in spare):
            return None
        dropped = [rows[part] for rows, part in zip(locate(trie, self.model.trie), spare, strict=True)]
        return [~part for part in self.model.trie.flags(dropped)]


def model_marginals(model: NgramModel, source: Trie, constraints: Constraints, history: History, threads: int) -> Array:
    """sum_h p~(h) p(w|h) over each constraint's events: Sigma_R of another model, with no scaling."""
    wide = extend(model, selecting.as_trie(source, constraints))
    rows = Constraints(rows_in(wide.trie, source, constraints))
    dual = Dual(wide, history.on(wide.trie), rows, threads)
    return dual.marginals(np.maximum(dual.evaluate(np.zeros(rows.total)).cells, 0.0))


def adapted_model(background: NgramModel, constraints: Constraints, mu: Array, *, spend: bool = False) -> NgramModel:
    """The exact, normalised model with scale exp(mu) on the constraints' cells. With mu = 0 it is the background."""
    scales = [NONE, *np.split(np.exp(mu), constraints.first[2:-1])]
    return rescaled(background, constraints.row, scales, spend=spend)


def onto(model: NgramModel, vocab: Vocabulary, role: str) -> NgramModel:
    """The model over the background's vocabulary. Words that it lacks have probability 0 in it; words of its own are refused."""
    joined, ids = join_vocabularies([vocab, model.vocab])
    if len(joined) > len(vocab):
        more = [joined.word(i) for i in range(len(vocab), min(len(joined), len(vocab) + 5))]
        raise MdiError(
            f"{role} has {len(joined) - len(vocab):,} words that the background lacks, such as {examples(more)}; "
            f"build it over the background's vocabulary (mdi train --vocab)"
        )
    return relabel(model, vocab, ids[1])


class Adapter:
    """One background and one in-domain text, ready to be adapted with any thresholds.

    `text`: a file or files, one sentence a line, or ready counts over the background's vocabulary. `targets`: "ml" (relative
    frequencies), "smoothed" (marginals of an interpolated Kneser-Ney model of the same text) or those of any model. `history`:
    p~(h) by this back-off model instead of by the text. `spend`: one adaptation only, in which the background's arrays are used
    up and its extension becomes the result: less than half the memory.
    """

    def __init__(
        self,
        background: NgramModel,
        text: str | list[str] | Counts,
        *,
        oov: str = "map",
        targets: str | NgramModel = "ml",
        history: NgramModel | None = None,
        threads: int = 2,
        spend: bool = False,
    ) -> None:
        self.background, self.threads, self.spend = background, threads, spend
        if isinstance(targets, NgramModel):
            targets = onto(targets, background.vocab, "the model that gives the targets")
        if history is not None:
            history = onto(history, background.vocab, "the model that gives the histories")
        if not isinstance(text, Counts):
            order = max(background.order, targets.order if isinstance(targets, NgramModel) else 1)
            text = count_text([text] if isinstance(text, str) else text, background.vocab, order, oov)
        if targets == "smoothed":
            targets = estimate(text, "kn-interpolated", [1] * text.order).model
        self.counts = text
        self.targets = None if isinstance(targets, str) else targets
        self.history = History(text, history)

    def ground(self, chosen: Constraints) -> Ground:
        return Ground(self.background, self.counts.trie, chosen, self.history, self.threads, spend=self.spend)

    def pose(self, min_counts: str, regularised: bool = False, ground: Ground | None = None) -> Problem:
        """Constraints for n-grams seen so often. What cannot be met is dropped and counted; a prior on lambda keeps the optimum
        finite, so then nothing need be dropped for lying at infinity. `ground` may be shared with larger sets."""
        counts, background, history = self.counts, self.background, self.history
        dropped = Dropped()
        chosen = selecting.select(counts, self._thresholds(min_counts))
        if not chosen.total:
            raise MdiError(f"no n-gram reaches the thresholds {min_counts}; lower them or give more text")
        if self.targets is None:
            target = selecting.values(counts, chosen) / history.events
        else:
            target = model_marginals(self.targets, counts.trie, chosen, history, self.threads)
            kept = target > 0
            dropped.note(selecting.NO_TARGET, ~kept)
            chosen, target = chosen.keep(kept), target[kept]
        if not regularised:
            # Words that are left to the slack cell: has the background a probability for any?
            elsewhere = np.ones(background.trie.n_words, bool)
            elsewhere[chosen.row[1]] = False
            kept = selecting.drop_degenerate(counts.trie, chosen, target, bool((background.p[1][elsewhere] > 0).any()), dropped)
            chosen, target = chosen.keep(kept), target[kept]
        own = ground is None
        ground = self.ground(chosen) if own else ground
        while True:
            dual = ground.dual_of(chosen)
            cells = dual.evaluate(np.zeros(chosen.total)).cells
            impossible = selecting.impossible(dual, ground.model.trie, ground.mass, cells)
            if not dropped.note(selecting.IMPOSSIBLE, impossible):
                break
            chosen, target = chosen.keep(~impossible), target[~impossible]
        count, before = selecting.values(counts, chosen), dual.marginals(cells)
        keep = None if own else ground.needed(chosen)
        rows = dual.constraints
        return Problem(min_counts, ground.model, rows, chosen, target, count, dual, before, history.events, dropped, keep)

    def adapt(
        self,
        min_counts: str = "2",
        *,
        start: dict[str, float] | Adapted | None = None,
        ground: Ground | None = None,
        **options,
    ) -> Adapted:
        """`start`: lambda by n-gram, or an adaptation of the same text whose solution to start from. Options: see `solve`."""
        problem = self.pose(min_counts, options.get("sigma2") is not None, ground)
        mu = None
        if isinstance(start, Adapted):
            mu = self._carried(start, problem)
        elif start is not None:
            mu = problem.dual.mu_of(problem.lam_from(start))
        return Adapted(problem, solve_problem(problem, start=mu, **options), self.spend)

    def _carried(self, old: Adapted, problem: Problem) -> Array:
        """mu of the new constraints such that every event keeps the scale that the old solution gives it."""
        trie, known = self.counts.trie, old.problem.chosen
        nearest = [known.nearest(trie, k, rows) for k, rows in enumerate(problem.chosen.row[1:], 1)]
        at = np.concatenate([NONE, *nearest])
        return np.where(at >= 0, old.solution.mu[at], 0.0)

    def path(self, sets: list[str], **options) -> Iterator[Adapted]:
        """Adapts with several sets of thresholds, from the fewest constraints to the most, each from the last one's solution and
        all on one ground."""
        size = {text: selecting.select(self.counts, self._thresholds(text)).total for text in dict.fromkeys(sets)}
        lowest = [min(values) for values in zip(*map(self._thresholds, sets), strict=True)]
        ground = self.ground(selecting.select(self.counts, lowest)) if len(size) > 1 else None
        last = None
        for text in sorted(size, key=lambda text: (size[text], text)):
            last = self.adapt(text, start=last, ground=ground, **options)
            yield last

    def _thresholds(self, text: str) -> list[int | float]:
        return selecting.parse_thresholds(text, self.background.order)


def adapt(
    background: NgramModel,
    text: str | list[str] | Counts,
    min_counts: str = "2",
    *,
    oov: str = "map",
    targets: str | NgramModel = "ml",
    history: NgramModel | None = None,
    threads: int = 2,
    **options,
) -> Adapted:
    """Adapts a background model so that it meets the marginals of in-domain text and stays closest to itself in KL.

    See `Adapter` for the arguments and `mdi.adaptation.solver.solve` for the options.
    """
    adapter = Adapter(background, text, oov=oov, targets=targets, history=history, threads=threads)
    return adapter.adapt(min_counts, **options)


def solve_problem(problem: Problem, **options) -> Solution:
    return solve(problem.dual, problem.target, events=problem.events, **options)


def match(
    small: NgramModel,
    large: NgramModel,
    text: str | list[str] | Counts,
    *,
    oov: str = "map",
    history: NgramModel | None = None,
    threads: int = 2,
    **options,
) -> Adapted:
    """Adapts a small model so that all its n-grams keep the marginals that they have in a large one: better at the same size.

    The targets are Sigma_R of the large model over the history distribution of the text (or of the model `history`). The result
    has exactly the rows of `small`; if that is a pruned model, what closes its trie meanwhile is no constraint, so it stays what
    backing off gives and can go again.
    """
    large = onto(large, small.vocab, "the large model")
    if history is not None:
        history = onto(history, small.vocab, "the model that gives the histories")
    if not isinstance(text, Counts):
        text = count_text([text] if isinstance(text, str) else text, small.vocab, max(small.order, large.order), oov)
    p_tilde = History(text, history)
    whole = close(small)
    trie, mass = whole.trie, p_tilde.on(whole.trie)
    own = locate(small.trie, trie)
    rows = Constraints([NONE, *(own[k][small.p[k] > 0] for k in range(1, small.order + 1))])
    dropped = Dropped()
    while True:
        dual = Dual(whole, mass, rows, threads)
        cells = dual.evaluate(np.zeros(rows.total)).cells
        lost = selecting.impossible(dual, trie, mass, cells)
        if not dropped.note(selecting.IMPOSSIBLE, lost):
            target = model_marginals(large, trie, rows, p_tilde, threads)
            lost = dual.cell_targets(target) <= selecting.ROUNDING * target
            if not dropped.note(selecting.NO_TARGET, lost):
                break
        rows = rows.keep(~lost)
    keep = None if whole is small else trie.flags(own)
    count = p_tilde.events * target
    problem = Problem("all", whole, rows, rows, target, count, dual, dual.marginals(cells), p_tilde.events, dropped, keep)
    return Adapted(problem, solve_problem(problem, **options))
