"""Other updates than partition scaling, for the same dual: what they are worth is measured (solvers.py) and tested.

gis     the paper's update in lam, divided by the constant that it needs: the number of constraints that fire at once
paper   the paper's update as printed, without the constant: it diverges
lbfgs   SciPy's L-BFGS-B in lam, variables scaled by sqrt(target)
"""

import numpy as np
from scipy.optimize import minimize

from mdi.adaptation.dual import Dual
from mdi.adaptation.solver import Objective, Update
from mdi.lm.trie import Array


def mu_of(dual: Dual, lam: Array) -> Array:
    """The inverse of `lam_of`: mu_i = lam_i + mu_parent(i), from the shortest n-grams to the longest."""
    mu = lam.copy()
    for part in np.split(np.arange(len(mu)), dual.constraints.first[2:-1]):
        mu[part] += np.where(dual.parent[part] >= 0, mu[dual.parent[part]], 0.0)
    return mu


def gis(objective: Objective, mu: Array, constant: float | None = None) -> str:
    dual = objective.dual
    if constant is None:
        constant = float(mu_of(dual, np.ones(len(mu))).max(initial=1.0))  # depth of the nesting
    lam = dual.lam_of(mu)
    while True:
        value, _, marginal, _ = objective(mu_of(dual, lam))
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


def lbfgs(objective: Objective, mu: Array) -> str:
    dual = objective.dual
    unit = np.sqrt(objective.target)

    def negative(y: Array) -> tuple[float, Array]:
        value, _, _, gradient = objective(mu_of(dual, y / unit))
        return (-value if np.isfinite(value) else 1e300), -gradient / unit

    options = {
        "maxiter": objective.settings.max_iters,
        "maxcor": 10,
        "maxfun": 10 * objective.settings.max_iters,
        "ftol": 0.0,
        "gtol": 0.0,
    }
    y, last = dual.lam_of(mu) * unit, -np.inf
    while True:  # a line search that gives up is begun again without the old curvature, for as long as that helps
        result = minimize(negative, y, jac=True, method="L-BFGS-B", options=options)
        if -result.fun <= last:
            return f"L-BFGS stopped: {result.message}"
        y, last = result.x, -result.fun


def paper(objective: Objective, mu: Array) -> str:
    return gis(objective, mu, constant=1.0)


UPDATES: dict[str, Update | None] = {"partition": None, "gis": gis, "lbfgs": lbfgs, "paper": paper}
