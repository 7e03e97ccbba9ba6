"""The two sweeps of an iteration: Z upwards through the orders, marginals downwards. Formulas are in mdi/dual.py.

Every function works on the histories lo .. hi of one length, so that threads can share a level. `cons[r]` is the constraint that
row r is, or -1; `scale[i]` = exp(mu_i) is c(hw) of constraint i and `p_con[i]` its p(w|h). For a row r = hw

    d[r] = p(w|h) - bow(h) p(w|h'),

so that an unconstrained row, whose c(hw) is c(h'w), adds d c(h'w) to Z(h); a constrained one adds p c(hw) - (p - d) c(h'w).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def active_level(hists, begin, suffix, p, bow, back, lower_p, lower_begin, new_hist, new_lower_begin, con_rows, con_first):
    """Copies the rows of the given histories: (begin, index of the suffix among the copied rows below, d, cons).

    new_hist[b] is the new index of history b of the level below; con_rows are the constrained rows, ascending."""
    n_hist = hists.shape[0]
    new_begin = np.zeros(n_hist + 1, np.int64)
    for i in range(n_hist):
        new_begin[i + 1] = new_begin[i] + begin[hists[i] + 1] - begin[hists[i]]
    n = new_begin[n_hist]
    sfx = np.empty(n, np.int32)
    d = np.empty(n)
    cons = np.full(n, -1, np.int32)
    at = 0
    for i in range(n_hist):
        h = hists[i]
        b = back[h]
        shift = new_lower_begin[new_hist[b]] - lower_begin[b]
        r_new = new_begin[i]
        while at < con_rows.shape[0] and con_rows[at] < begin[h]:
            at += 1
        for r in range(begin[h], begin[h + 1]):
            s = suffix[r]
            sfx[r_new] = s + shift
            d[r_new] = p[r] - bow[h] * lower_p[s]
            if at < con_rows.shape[0] and con_rows[at] == r:
                cons[r_new] = con_first + at
                at += 1
            r_new += 1
    return new_begin, sfx, d, cons


@njit(cache=True, nogil=True, error_model="numpy")
def forward_words(p, cons, scale, c):
    """c(w), and Z of the empty history."""
    z = 0.0
    for w in range(p.shape[0]):
        c[w] = scale[cons[w]] if cons[w] >= 0 else 1.0
        z += p[w] * c[w]
    return z


@njit(cache=True, nogil=True, error_model="numpy")
def forward(lo, hi, begin, sfx, d, cons, back, bow, mass, p_con, scale, lower_c, lower_z, c, z):
    """Sigma_L: c(hw) and Z(h). Returns sum of p~(h) log Z(h)."""
    log_z = 0.0
    for h in range(lo, hi):
        total = bow[h] * lower_z[back[h]]
        for r in range(begin[h], begin[h + 1]):
            i = cons[r]
            below = lower_c[sfx[r]]
            if i < 0:
                c[r] = below
                total += d[r] * below
            else:
                c[r] = scale[i]
                total += p_con[i] * scale[i] - (p_con[i] - d[r]) * below
        z[h] = total
        if mass[h] > 0.0:
            log_z += mass[h] * math.log(total)
    return log_z


@njit(cache=True, nogil=True, error_model="numpy")
def backward(lo, hi, begin, sfx, d, cons, back, bow, mass, p_con, scale, z, g, above, lower_above, lower_g, cells):
    """Sigma_R: g[h] holds what longer histories back off with on entry, and G(h) on return."""
    for h in range(lo, hi):
        g[h] += mass[h] / z[h]
        weight = g[h]
        lower_g[back[h]] += weight * bow[h]
        for r in range(begin[h], begin[h + 1]):
            i = cons[r]
            if i < 0:
                lower_above[sfx[r]] += weight * d[r] + above[r]
            else:
                cells[i] = scale[i] * (weight * p_con[i] + above[r])
                lower_above[sfx[r]] -= weight * (p_con[i] - d[r])


@njit(cache=True, nogil=True, error_model="numpy")
def forward_backward(lo, hi, begin, sfx, d, cons, back, bow, mass, p_con, scale, lower_c, lower_z, lower_above, lower_g, cells):
    """Both sweeps at once for the longest histories, the largest arrays: G(h) = p~(h) / Z(h) is known as soon as Z(h) is."""
    log_z = 0.0
    for h in range(lo, hi):
        total = bow[h] * lower_z[back[h]]
        for r in range(begin[h], begin[h + 1]):
            i = cons[r]
            below = lower_c[sfx[r]]
            if i < 0:
                total += d[r] * below
            else:
                total += p_con[i] * scale[i] - (p_con[i] - d[r]) * below
        log_z += mass[h] * math.log(total)
        weight = mass[h] / total
        lower_g[back[h]] += weight * bow[h]
        for r in range(begin[h], begin[h + 1]):
            i = cons[r]
            if i < 0:
                lower_above[sfx[r]] += weight * d[r]
            else:
                cells[i] = weight * p_con[i] * scale[i]
                lower_above[sfx[r]] -= weight * (p_con[i] - d[r])
    return log_z


@njit(cache=True, nogil=True, error_model="numpy")
def backward_words(p, cons, scale, weight, above, cells):
    """Marginals of the constrained words; returns that of all events without a constraint."""
    slack = 0.0
    for w in range(p.shape[0]):
        if cons[w] >= 0:
            cells[cons[w]] = scale[cons[w]] * (weight * p[w] + above[w])
        else:
            slack += weight * p[w] + above[w]
    return slack


@njit(cache=True, nogil=True, error_model="numpy")
def add_to_parents(parent, value):
    """value[parent[i]] += value[i], from the longest n-grams to the shortest (parents come first)."""
    for i in range(parent.shape[0] - 1, -1, -1):
        if parent[i] >= 0:
            value[parent[i]] += value[i]


@njit(cache=True, nogil=True, error_model="numpy")
def add_from_parents(parent, value):
    """value[i] += value[parent[i]], from the shortest n-grams to the longest."""
    for i in range(parent.shape[0]):
        if parent[i] >= 0:
            value[i] += value[parent[i]]
