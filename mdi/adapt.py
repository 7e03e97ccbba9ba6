"""From a background model and in-domain counts to the adapted model.

    p_ad(w|h)  = p(w|h) c(hw) / Z(h)        for every row            (the paper's Eq. 5)
    bow_ad(h)  = bow(h) Z(h') / Z(h)                                 (section 3.4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mdi import constraints as selecting
from mdi.constraints import Dropped
from mdi.counts import Counts
from mdi.dual import Constraints, Dual
from mdi.errors import MdiError
from mdi.history import ml_history, move_mass, smoothed_history
from mdi.kernels import sweeps
from mdi.model import NgramModel, extend, sigma_l
from mdi.solver import Solution, Step, solve
from mdi.trie import NONE, Array, Trie


@dataclass(frozen=True)
class Problem:
    """Background (extended by the constraints), history mass on its histories, constraints and targets."""

    background: NgramModel
    mass: list[Array]
    constraints: Constraints
    target: Array
    count: Array
    dual: Dual
    events: float
    dropped: Dropped = field(default_factory=Dropped)


@dataclass(frozen=True)
class Adapted:
    """The adapted model and how it came about. `before` are the background's marginals of the constraints."""

    model: NgramModel
    problem: Problem
    solution: Solution
    lam: Array
    before: Array

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


def pose(
    background: NgramModel,
    counts: Counts,
    thresholds: list[int | float],
    *,
    targets: NgramModel | None = None,
    history: NgramModel | None = None,
    threads: int = 2,
) -> Problem:
    """Constraints with counts >= thresholds; targets by the counts, or by another model. What cannot be met is dropped and counted."""
    p_tilde = History(counts, history)
    dropped = Dropped()
    chosen = selecting.select(counts, thresholds)
    if targets is None:
        target = selecting.values(counts, chosen) / p_tilde.events
    else:
        target = model_marginals(targets, counts.trie, chosen, p_tilde, threads)
        kept = target > 0
        dropped.note(selecting.NO_TARGET, ~kept)
        chosen, target = chosen.keep(kept), target[kept]
    # Words that are left to the slack cell: has the background a probability for any?
    elsewhere = np.ones(background.trie.n_words, bool)
    elsewhere[chosen.row[1]] = False
    kept = selecting.drop_degenerate(counts.trie, chosen, target, bool((background.p[1][elsewhere] > 0).any()), dropped)
    chosen, target = chosen.keep(kept), target[kept]
    wide, where = extend(background, selecting.as_trie(counts.trie, chosen))
    mass = p_tilde.on(wide.trie)
    rows = Constraints(rows_in(wide.trie, counts.trie, chosen))
    while True:
        count = selecting.values(counts, chosen)
        dual = Dual(wide, mass, rows, threads)
        impossible = selecting.drop_impossible(dual, target)
        if not dropped.note(selecting.IMPOSSIBLE, impossible):
            return Problem(wide, mass, rows, target, count, dual, p_tilde.events, dropped)
        chosen, rows, target = chosen.keep(~impossible), rows.keep(~impossible), target[~impossible]


def rows_in(trie: Trie, source: Trie, constraints: Constraints) -> list[Array]:
    """The same n-grams as rows of another trie. Tries over the same words sort alike, so rows stay ascending."""
    return [NONE, *(trie.find(source.ngrams(k, constraints.row[k])) for k in range(1, constraints.order + 1))]


def model_marginals(model: NgramModel, source: Trie, constraints: Constraints, history: History, threads: int) -> Array:
    """sum_h p~(h) p(w|h) over each constraint's events: Sigma_R of another model, with no scaling."""
    wide = extend(model, selecting.as_trie(source, constraints))[0]
    rows = Constraints(rows_in(wide.trie, source, constraints))
    dual = Dual(wide, history.on(wide.trie), rows, threads)
    return dual.marginals(np.maximum(dual.evaluate(np.zeros(rows.total)).cells, 0.0))


def adapted_model(background: NgramModel, constraints: Constraints, mu: Array) -> NgramModel:
    """The exact, normalised model with scale exp(mu) on the constraints' cells. With mu = 0 it is the background."""
    trie = background.trie
    scale = [NONE]
    for k in range(1, trie.order + 1):
        c = scale[k - 1][trie.suffix[k]] if k > 1 else np.ones(trie.n_words)
        if k <= constraints.order:
            c[constraints.row[k]] = np.exp(mu[constraints.first[k] : constraints.first[k + 1]])
        scale.append(c)
    z = sigma_l(background, scale)
    p = [NONE, background.p[1] * scale[1] / z[0]]
    bow = [background.bow[0]]
    for j in range(1, trie.order):
        bow.append(background.bow[j] * z[j - 1][trie.back[j]] / z[j])
        p.append(sweeps.scaled(trie.begin[j + 1], background.p[j + 1], scale[j + 1], z[j]))
    return NgramModel(background.vocab, trie, p, bow)


def adapt(
    background: NgramModel,
    counts: Counts,
    thresholds: list[int | float],
    *,
    targets: NgramModel | None = None,
    history: NgramModel | None = None,
    solver: str = "partition",
    tolerance: float = 1e-3,
    max_iters: int = 200,
    sigma2: float | None = None,
    threads: int = 2,
    report: Callable[[Step], None] | None = None,
) -> Adapted:
    """Adapts `background` so that its marginals meet those of the in-domain `counts` (counted over the same vocabulary)."""
    problem = pose(background, counts, thresholds, targets=targets, history=history, threads=threads)
    before = problem.dual.marginals(problem.dual.evaluate(np.zeros(problem.constraints.total)).cells)
    solution = solve(
        problem.dual,
        problem.target,
        solver=solver,
        tolerance=tolerance,
        max_iters=max_iters,
        sigma2=sigma2,
        events=problem.events,
        report=report,
    )
    model = adapted_model(problem.background, problem.constraints, solution.mu)
    return Adapted(model, problem, solution, problem.dual.lam_of(solution.mu), before)
