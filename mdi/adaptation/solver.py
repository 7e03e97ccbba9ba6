"""Maximises a concave dual whose features are disjoint cells, by partition scaling. Knows nothing of n-grams.

Full iterative scaling on the cells, mu_i += log(r_i / R_i): the features are disjoint, so GIS' constant is 1 and the
full step is monotone. The slack cell is scaled too (subtracting its step from all others, which changes nothing else)
and Anderson acceleration extrapolates over the last steps; a step that lowers D is taken back. What other updates do on
the same dual, the paper's among them, utils/bench/solvers.py shows.

With a Gaussian prior on lambda, variances sigma2_i, it maximises D(mu) - sum_i lam_i^2 / (2 sigma2_i N) (N: number of
in-domain events).
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mdi.adaptation.dual import Dual, Evaluation
from mdi.errors import MdiError, OptionError, check_positive
from mdi.kernels.solver import penalised_step
from mdi.lm.trie import Array

MEMORY = 8  # steps that Anderson acceleration looks back on
# Of the inner Newton iteration under a prior.
STEP_PRECISION, STEP_ROUNDS = 1e-3, 8


@dataclass(frozen=True)
class Step:
    """One evaluation: the objective and the L1 distance between targets and marginals."""

    iteration: int
    objective: float
    l1: float
    seconds: float


@dataclass(frozen=True)
class Solution:
    mu: Array
    converged: bool
    message: str
    evaluation: Evaluation
    marginal: Array
    steps: list[Step] = field(default_factory=list)
    rounding_error: float = 0.0  # what the marginals may be off by

    @property
    def iterations(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the solver; what the problem is (thresholds, prior, targets) is not among them.

    Parameters
    ----------
    tolerance
        L1 distance between targets and marginals, less the pull of a prior, to stop at.
    max_iters
        A solver that does not get there in so many iterations gives a `ConvergenceWarning` and a valid model.
    report
        Called with every iteration's `Step`: its number, the dual, the distance, seconds.
    """

    tolerance: float = 1e-3
    max_iters: int = 200
    report: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)
        check_positive("max_iters", self.max_iters)


USUAL = SolverSettings()


def as_settings(settings: SolverSettings | None) -> SolverSettings:
    """These, or the usual ones where there are none."""
    if not isinstance(settings, SolverSettings | None):
        raise OptionError("settings", settings, "SolverSettings, such as SolverSettings(tolerance=1e-4)")
    return settings or USUAL


class _Stop(Exception):
    pass


class Objective:
    """The dual with its targets; counts evaluations and remembers the best one. `penalty`: 1 / (sigma2_i N)."""

    def __init__(self, dual: Dual, target: Array, settings: SolverSettings, penalty: Array | None) -> None:
        self.dual, self.target, self.settings, self.penalty = dual, target, settings, penalty
        self.r = dual.cell_targets(target)
        self.slack = 1.0 - float(self.r.sum())
        self.steps: list[Step] = []
        self.start = time.perf_counter()
        self.best: tuple[float, Array, Evaluation, Array] | None = None
        self.converged = False

    def __call__(self, mu: Array) -> tuple[float, Evaluation, Array, Array]:
        """(D, evaluation, marginals, gradient in lam) at mu. Stops when the tolerance is met or the iterations are
        used up."""
        if len(self.steps) >= self.settings.max_iters:
            raise _Stop
        found = self.dual.evaluate(mu)
        # plain sums: BLAS would add in another order with another number of threads
        value = float((mu * self.r).sum()) - found.log_z
        marginal = self.dual.marginals(found.cells)
        gradient = self.target - marginal
        if self.penalty is not None:
            lam = self.dual.lam_of(mu)
            value -= 0.5 * float((self.penalty * lam * lam).sum())
            gradient -= self.penalty * lam
        l1 = float(np.abs(gradient).sum())
        step = Step(len(self.steps) + 1, value, l1, time.perf_counter() - self.start)
        self.steps.append(step)
        if self.settings.report:
            self.settings.report(step)
        self.converged = l1 <= self.settings.tolerance
        if self.converged or (np.isfinite(value + l1) and (self.best is None or value >= self.best[0])):
            self.best = (value, mu, found, marginal)
        if self.converged:
            raise _Stop
        return value, found, marginal, gradient


# Improves mu until the objective stops it, or says why it stops itself.
Update = Callable[[Objective, Array], str]


def solve(
    dual: Dual,
    target: Array,
    settings: SolverSettings = USUAL,
    *,
    sigma2: float | Array | None = None,
    events: float = 1.0,
    start: Array | None = None,
    update: Update | None = None,
) -> Solution:
    """Finds the parameters at which the marginals meet the targets. An iteration is one evaluation of the dual.

    `sigma2`: variance of the prior, one for all constraints or one for each. `start`: mu to begin with. `update`:
    another one than partition scaling, to compare it with.
    """
    penalty = None
    if sigma2 is not None:
        penalty = np.broadcast_to(1.0 / (np.asarray(sigma2, float) * events), target.shape)
    objective = Objective(dual, target, settings, penalty)
    if penalty is None and (objective.r <= 0).any():
        raise ValueError("a cell's target is not positive: its optimum lies at infinity; drop the constraint first")
    mu = np.zeros(len(target)) if start is None else start.copy()
    stopped = ""
    with contextlib.suppress(_Stop), np.errstate(all="ignore"):  # what is not finite is judged below
        stopped = (update or _partition)(objective, mu)
    if objective.best is None:
        raise MdiError(
            "the dual is not finite: after some history of the text the background has no probability left for any "
            "word; expected a model that sums to one. Check it with mdi check"
        )
    _, mu, found, marginal = objective.best
    last, tolerance = objective.steps[-1], settings.tolerance
    if objective.converged:
        message = f"L1 {last.l1:.3g} <= {tolerance:g} after {len(objective.steps)} iterations"
    else:
        message = stopped or f"stopped after {len(objective.steps)} iterations with L1 {last.l1:.3g} > {tolerance:g}"
    # here and not when it is asked for: another problem may use the same arrays by then, in another thread
    error = dual.rounding_error(mu)
    return Solution(mu, objective.converged, message, found, marginal, objective.steps, error)


def _partition(objective: Objective, mu: Array) -> str:
    weight = np.sqrt(np.maximum(objective.r, 1e-300))
    value, found, _, _ = objective(mu)
    memory = _Anderson(weight)
    step = _cell_step(objective, mu, found)
    while True:
        plain = mu + step
        mixed = memory.extrapolated(plain, step)
        new_value, new_found, _, _ = objective(mixed)
        if memory and not new_value >= value:  # also when it is not a number
            memory = _Anderson(weight)
            mixed = plain
            new_value, new_found, _, _ = objective(plain)
        if not np.isfinite(new_value):
            return "the dual is no longer finite: the constraints contradict each other"
        new_step = _cell_step(objective, mixed, new_found)
        memory.add(mixed - mu, new_step - step)
        mu, step, value = mixed, new_step, new_value


def _cell_step(objective: Objective, mu: Array, found: Evaluation) -> Array:
    """log(r/R) for every cell, the slack included; with a prior the maximum of the same bound and the penalty."""
    cells = np.maximum(found.cells, 1e-300)
    if objective.penalty is None:
        step = np.log(objective.r / cells)
        if objective.slack > 1e-15 and found.slack > 0:
            step -= np.log(objective.slack / found.slack)
        return step
    dual = objective.dual
    newton: Array = penalised_step(
        dual.parent, objective.r, cells, objective.penalty, dual.lam_of(mu), STEP_PRECISION, STEP_ROUNDS
    )
    return newton


class _Anderson:
    """Anderson acceleration: x + f - (dX + dF) gamma with gamma = argmin |W (f - dF gamma)| over the last steps.

    Sums by einsum: BLAS would add in another order with another number of threads."""

    def __init__(self, weight: Array) -> None:
        self.weight = weight
        self.moves = np.empty((MEMORY, len(weight)))  # dX + dF
        self.changes = np.empty((MEMORY, len(weight)))  # W dF
        self.gram = np.zeros((MEMORY, MEMORY))
        self.steps = 0

    def __len__(self) -> int:
        return min(self.steps, MEMORY)

    def add(self, dx: Array, df: Array) -> None:
        if not MEMORY:
            return
        at = self.steps % MEMORY
        self.steps += 1
        np.add(dx, df, out=self.moves[at])
        np.multiply(self.weight, df, out=self.changes[at])
        n = len(self)
        self.gram[at, :n] = self.gram[:n, at] = np.einsum("ij,j->i", self.changes[:n], self.changes[at])

    def extrapolated(self, plain: Array, step: Array) -> Array:
        n = len(self)
        if not n:
            return plain
        gram = self.gram[:n, :n].copy()
        gram[np.diag_indices(n)] += 1e-10 * np.trace(gram) / n + 1e-300
        try:
            gamma = np.linalg.solve(gram, np.einsum("ij,j->i", self.changes[:n], self.weight * step))
        except np.linalg.LinAlgError:  # steps that are all the same, or not finite
            return plain
        moved: Array = np.einsum("i,ij->j", gamma, self.moves[:n])
        return plain - moved
