"""The step of iterative scaling under a Gaussian prior: see mdi/adaptation/solver.py."""

import math

import numpy as np
from numba import njit

# Newton's steps are cut to this: far from the optimum the exponential is no parabola.
LONGEST_STEP = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def penalised_step(parent, r, cells, a, lam, precision, most):
    """The t that maximises the lower bound of D(mu + t) less the penalty, both exact at t = 0:

        sum_i r_i t_i - R_i (exp(t_i) - 1) - sum_i a_i/2 (lam_i + t_i - t_parent(i))^2

    The penalty couples a constraint with its parent only, so the Hessian is that of a forest, and Newton's equations

        (R_i exp(t_i) + a_i + sum_children a_c) d_i - a_i d_parent - sum_children a_c d_c = g_i

    are solved exactly by eliminating children before parents (parents come first) and going back: linear time.
    `cells` are R; ends when no t_i moves by more than `precision`, after `most` rounds at the latest.
    """
    n = parent.shape[0]
    t = np.zeros(n)
    diagonal = np.empty(n)
    gradient = np.empty(n)
    for _ in range(most):
        for i in range(n):
            growth = cells[i] * math.exp(t[i])
            above = t[parent[i]] if parent[i] >= 0 else 0.0
            pull = a[i] * (lam[i] + t[i] - above)
            gradient[i] = r[i] - growth - pull
            diagonal[i] = growth + a[i]
            if parent[i] >= 0:
                gradient[parent[i]] += pull
                diagonal[parent[i]] += a[i]
        for i in range(n - 1, -1, -1):
            if parent[i] >= 0:
                share = a[i] / diagonal[i]
                gradient[parent[i]] += share * gradient[i]
                diagonal[parent[i]] -= share * a[i]
        largest = 0.0
        for i in range(n):
            # `gradient` becomes the step, parents first
            above = gradient[parent[i]] if parent[i] >= 0 else 0.0
            step = (gradient[i] + a[i] * above) / diagonal[i]
            gradient[i] = step
            step = min(max(step, -LONGEST_STEP), LONGEST_STEP)
            t[i] += step
            largest = max(largest, abs(step))
        if largest <= precision:
            break
    return t
