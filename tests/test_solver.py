"""Partition scaling reaches the optimum, and so do other updates, but for the paper's."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from test_dual import Case
from updates import UPDATES, gis, lbfgs, mu_of, paper

from mdi.adaptation.dual import Dual
from mdi.adaptation.solver import SolverSettings, solve
from mdi.kernels.solver import penalised_step


def feasible(case: Case, seed: int) -> np.ndarray:
    """Targets that some model of the family meets: its marginals at random parameters."""
    lam = np.random.default_rng(seed).normal(0, 1.0, case.rows.total)
    return case.dual.marginals(case.dual.evaluate(mu_of(case.dual, lam)).cells)


def usable(case: Case) -> Case:
    """Without the constraints that have no event of their own."""
    while (empty := case.dual.evaluate(np.zeros(case.rows.total)).cells < 1e-9).any():
        case.rows = case.rows.keep(~empty)
        case.ngrams = [ngram for ngram, lost in zip(case.ngrams, empty, strict=True) if not lost]
        case.dual = Dual(case.wide, case.history.on(case.wide.trie), case.rows)
    return case


nonempty = st.builds(
    lambda seed, order, closed, smoothed: usable(Case(seed, order, closed, smoothed)),
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(1, 3),
    closed=st.booleans(),
    smoothed=st.booleans(),
).filter(lambda case: case.rows.total > 0)
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # a case takes long to build


@settings(max_examples=25, deadline=None, phases=NO_SHRINKING)
@given(nonempty, st.integers(0, 2**32 - 1))
def test_partition_scaling_meets_feasible_targets_and_never_goes_down(case: Case, seed: int) -> None:
    target = feasible(case, seed)
    solution = solve(case.dual, target, SolverSettings(1e-7, 2000))
    assert solution.converged, solution.message
    np.testing.assert_allclose(solution.marginal, target, rtol=0, atol=1e-7)
    lam = case.dual.lam_of(solution.mu)
    dual = float(lam @ target) - solution.evaluation.log_z
    assert dual == pytest.approx(case.dense(lam).kl(), abs=1e-5)  # at the optimum D = KL(p_ad || background)


@settings(max_examples=10, deadline=None, phases=NO_SHRINKING)
@given(nonempty, st.integers(0, 2**32 - 1))
def test_all_solvers_agree(case: Case, seed: int) -> None:
    target = feasible(case, seed)
    best = solve(case.dual, target, SolverSettings(1e-9, 3000)).steps[-1].objective
    for update in (gis, lbfgs):
        found = solve(case.dual, target, SolverSettings(1e-5, 3000), update=update)
        assert max(step.objective for step in found.steps) == pytest.approx(best, abs=1e-4), update.__name__


@settings(max_examples=10, deadline=None, phases=NO_SHRINKING)
@given(nonempty, st.integers(0, 2**32 - 1), st.sampled_from(["partition", "gis", "lbfgs"]))
def test_a_prior_is_met_by_its_gradient(case: Case, seed: int, solver: str) -> None:
    """With variance sigma2 the optimum has target - marginal = lambda / (sigma2 N), even for targets nobody can
    meet."""
    target = np.random.default_rng(seed).dirichlet(np.ones(case.rows.total + 1))[:-1]
    solution = solve(case.dual, target, SolverSettings(1e-6, 5000), update=UPDATES[solver], sigma2=2.0, events=20.0)
    lam = case.dual.lam_of(solution.mu)
    tolerance = 1e-5 if solver == "partition" else 1e-3
    np.testing.assert_allclose(target - solution.marginal, lam / 40.0, rtol=0, atol=tolerance)


@settings(max_examples=10, deadline=None, phases=NO_SHRINKING)
@given(nonempty, st.integers(0, 2**32 - 1))
def test_every_constraint_may_have_its_own_variance(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.ones(case.rows.total + 1))[:-1]
    sigma2 = 10 ** rng.uniform(-1, 1, case.rows.total)
    solution = solve(case.dual, target, SolverSettings(1e-6, 5000), sigma2=sigma2, events=20.0)
    lam = case.dual.lam_of(solution.mu)
    np.testing.assert_allclose(target - solution.marginal, lam / (20.0 * sigma2), rtol=0, atol=1e-5)


@settings(max_examples=25, phases=NO_SHRINKING)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_the_step_under_a_prior_is_the_maximum_of_its_bound(seed: int, n: int) -> None:
    """Against SciPy on random forests: parents come before their children."""
    rng = np.random.default_rng(seed)
    parent = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
    r, cells, a = rng.exponential(size=(3, n))
    r, lam = r - 0.1, rng.normal(size=n)

    def bound(t: np.ndarray) -> float:
        above = np.where(parent >= 0, t[parent], 0.0)
        return float((r * t - cells * np.expm1(t) - 0.5 * a * (lam + t - above) ** 2).sum())

    t = penalised_step(parent, r, cells, a, lam, 1e-10, 200)
    best = minimize(lambda t: -bound(t), np.zeros(n), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    assert bound(t) >= -best.fun - 1e-9
    for i in range(n):  # and no coordinate can do better
        for change in (1e-4, -1e-4):
            assert bound(t + change * (np.arange(n) == i)) <= bound(t) + 1e-12


def test_steps_under_a_prior_are_monotone(monkeypatch: pytest.MonkeyPatch) -> None:
    import mdi.adaptation.solver

    case = usable(Case(11, 3, True, False, thresholds=[1, 1, 1]))
    monkeypatch.setattr(mdi.adaptation.solver, "MEMORY", 0)
    monkeypatch.setattr(mdi.adaptation.solver, "STEP_ROUNDS", 100)
    target = np.random.default_rng(5).dirichlet(np.ones(case.rows.total + 1))[:-1]
    values = [s.objective for s in solve(case.dual, target, SolverSettings(1e-9, 40), sigma2=1.0, events=50.0).steps]
    assert all(b >= a - 1e-9 for a, b in pairwise(values))


def test_plain_steps_are_monotone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without acceleration every step of partition scaling raises D; the paper's own update does not."""
    import mdi.adaptation.solver

    case = usable(Case(11, 3, True, False, thresholds=[1, 1, 1]))
    target = feasible(case, 3)
    monkeypatch.setattr(mdi.adaptation.solver, "MEMORY", 0)
    plain = [step.objective for step in solve(case.dual, target, SolverSettings(1e-9, 40)).steps]
    assert all(b >= a - 1e-13 for a, b in pairwise(plain))
    divided = [step.objective for step in solve(case.dual, target, SolverSettings(1e-9, 40), update=gis).steps]
    assert all(b >= a - 1e-13 for a, b in pairwise(divided))
    printed = [step.objective for step in solve(case.dual, target, SolverSettings(1e-9, 40), update=paper).steps]
    assert any(b < a for a, b in pairwise(printed))


def test_acceleration_saves_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    import mdi.adaptation.solver

    case = usable(Case(11, 3, True, False, thresholds=[1, 1, 1]))
    target = feasible(case, 3)
    fast = solve(case.dual, target, SolverSettings(1e-8, 3000)).iterations
    monkeypatch.setattr(mdi.adaptation.solver, "MEMORY", 0)
    slow = solve(case.dual, target, SolverSettings(1e-8, 3000)).iterations
    assert fast < slow / 2


def test_running_out_of_iterations_is_said() -> None:
    case = usable(Case(11, 3, True, False, thresholds=[1, 1, 1]))
    solution = solve(case.dual, feasible(case, 3), SolverSettings(1e-12, 3))
    assert not solution.converged
    assert solution.iterations == 3
    assert "stopped after 3 iterations" in solution.message
