"""Maximises a concave dual whose features are disjoint cells. Knows nothing of n-grams.

    partition  full iterative scaling on the cells, mu_i += log(r_i / R_i): the features are disjoint, so GIS' constant
               is 1 and the full step is monotone. The slack cell is scaled too (subtracting its step from all others,
               which changes nothing else) and Anderson acceleration extrapolates over the last steps; a step that
               lowers D is taken back.
    gis        the paper's update in lam, divided by the constant that it needs: the number of constraints that fire at
               once.
    paper      the paper's update as printed, without the constant. Diverges; kept so that this can be shown.
    lbfgs      SciPy's L-BFGS-B in lam, variables scaled by sqrt(target).

All maximise D(mu) - sum_i lam_i^2 / (2 sigma2_i N) if there is a Gaussian prior with variances sigma2_i on lambda (N:
number of in-domain events).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mdi.adaptation.dual import Dual, Evaluation
from mdi.errors import MdiError, check_choice, check_positive
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


class _Stop(Exception):
    pass


class _Objective:
    """The dual with its targets; counts evaluations and remembers the last one."""

    def __init__(
        self,
        dual: Dual,
        target: Array,
        tolerance: float,
        max_iters: int,
        penalty: Array | None,  # 1 / (sigma2_i N)
        report: Callable[[Step], None] | None,
    ) -> None:
        self.dual, self.target = dual, target
        self.r = dual.cell_targets(target)
        self.slack = 1.0 - float(self.r.sum())
        self.tolerance, self.max_iters, self.penalty, self.report = tolerance, max_iters, penalty, report
        self.steps: list[Step] = []
        self.start = time.perf_counter()
        self.best: tuple[float, Array, Evaluation, Array] | None = None
        self.converged = False

    def __call__(self, mu: Array) -> tuple[float, Evaluation, Array, Array]:
        """(D, evaluation, marginals, gradient in lam) at mu. Stops when the tolerance is met or the iterations are
        used up."""
        if len(self.steps) >= self.max_iters:
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
        if self.report:
            self.report(step)
        if np.isfinite(value + l1) and (self.best is None or value >= self.best[0]):
            self.best = (value, mu, found, marginal)
        if l1 <= self.tolerance:
            self.best = (value, mu, found, marginal)
            self.converged = True
            raise _Stop
        return value, found, marginal, gradient


def solve(
    dual: Dual,
    target: Array,
    *,
    solver: str = "partition",
    tolerance: float = 1e-3,
    max_iters: int = 200,
    sigma2: float | Array | None = None,
    events: float = 1.0,
    start: Array | None = None,
    report: Callable[[Step], None] | None = None,
) -> Solution:
    """Finds the parameters at which the marginals meet the targets. An iteration is one evaluation of the dual.

    `tolerance`: L1 distance between targets and marginals (less the pull of the prior) to stop at. `sigma2`: variance
    of the prior, one for all constraints or one for each. `start`: mu to begin with. `report` is called each iteration.
    """
    check_choice("solver", solver, tuple(SOLVERS))
    check_positive("tolerance", tolerance)
    check_positive("max_iters", max_iters)
    penalty = None
    if sigma2 is not None:
        penalty = np.broadcast_to(1.0 / (np.asarray(sigma2, float) * events), target.shape)
    objective = _Objective(dual, target, tolerance, max_iters, penalty, report)
    if penalty is None and (objective.r <= 0).any():
        raise ValueError("a cell's target is not positive: its optimum lies at infinity; drop the constraint first")
    mu = np.zeros(len(target)) if start is None else start.copy()
    stopped = ""
    with contextlib.suppress(_Stop), np.errstate(all="ignore"):  # what is not finite is judged below
        stopped = SOLVERS[solver](objective, mu)
    if objective.best is None:
        raise MdiError(
            "the dual is not finite: after some history of the text the background has no probability left for any "
            "word; expected a model that sums to one. Look it over with mdi check"
        )
    _, mu, found, marginal = objective.best
    last = objective.steps[-1]
    if objective.converged:
        message = f"L1 {last.l1:.3g} <= {tolerance:g} after {len(objective.steps)} iterations"
    else:
        message = stopped or f"stopped after {len(objective.steps)} iterations with L1 {last.l1:.3g} > {tolerance:g}"
    # here and not when it is asked for: another problem may use the same arrays by then, in another thread
    error = dual.rounding_error(mu)
    return Solution(mu, objective.converged, message, found, marginal, objective.steps, error)


def _partition(objective: _Objective, mu: Array) -> str:
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


def _cell_step(objective: _Objective, mu: Array, found: Evaluation) -> Array:
    """log(r/R) for every cell, the slack included; with a prior the maximum of the same bound and the penalty."""
    cells = np.maximum(found.cells, 1e-300)
    if objective.penalty is None:
        step = np.log(objective.r / cells)
        if objective.slack > 1e-15 and found.slack > 0:
            step -= np.log(objective.slack / found.slack)
        return step
    dual = objective.dual
    return penalised_step(
        dual.parent, objective.r, cells, objective.penalty, dual.lam_of(mu), STEP_PRECISION, STEP_ROUNDS
    )


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
        return plain - np.einsum("i,ij->j", gamma, self.moves[:n])


def _gis(objective: _Objective, mu: Array, constant: float | None = None) -> str:
    dual = objective.dual
    if constant is None:
        constant = float(dual.mu_of(np.ones(len(mu))).max(initial=1.0))  # depth of the nesting
    lam = dual.lam_of(mu)
    while True:
        value, _, marginal, _ = objective(dual.mu_of(lam))
        if not np.isfinite(value):
            return "the dual is no longer finite: the step is too long"
        marginal = np.maximum(marginal, 1e-300)
        if objective.penalty is not None:  # solve M e^(C t) + a (lam + t) = target by Newton
            t = np.zeros_like(lam)
            for _ in range(50):
                growth = marginal * np.exp(constant * t)
                change = (growth + objective.penalty * (lam + t) - objective.target) / (
                    constant * growth + objective.penalty
                )
                t -= np.clip(change, -1.0, 1.0)
                if np.abs(change).max(initial=0.0) < 1e-12:
                    break
        else:
            t = np.log(objective.target / marginal) / constant
        lam = lam + t


def _lbfgs(objective: _Objective, mu: Array) -> str:
    from scipy.optimize import minimize

    dual = objective.dual
    unit = np.sqrt(objective.target)

    def negative(y: Array) -> tuple[float, Array]:
        value, _, _, gradient = objective(dual.mu_of(y / unit))
        return (-value if np.isfinite(value) else 1e300), -gradient / unit

    options = {
        "maxiter": objective.max_iters,
        "maxcor": 10,
        "maxfun": 10 * objective.max_iters,
        "ftol": 0.0,
        "gtol": 0.0,
    }
    y, last = dual.lam_of(mu) * unit, -np.inf
    while True:  # a line search that gives up is begun again without the old curvature, for as long as that helps
        result = minimize(negative, y, jac=True, method="L-BFGS-B", options=options)
        if -result.fun <= last:
            return f"L-BFGS stopped: {result.message}"
        y, last = result.x, -result.fun


def _paper(objective: _Objective, mu: Array) -> str:
    return _gis(objective, mu, constant=1.0)


SOLVERS: dict[str, Callable[[_Objective, Array], str]] = {
    "partition": _partition,
    "gis": _gis,
    "lbfgs": _lbfgs,
    "paper": _paper,
}
