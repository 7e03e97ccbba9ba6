"""Sweeps over a whole model, order by order. The layout is explained in mdi/lm/trie.py."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def backed_off(begin, suffix, bow, lower_p, known, known_p):
    """p of each row: known_p[known[r]], or bow(h) p(w|h') for a new one."""
    p = np.empty(suffix.shape[0])
    for h in range(begin.shape[0] - 1):
        for r in range(begin[h], begin[h + 1]):
            p[r] = known_p[known[r]] if known[r] >= 0 else bow[h] * lower_p[suffix[r]]
    return p


@njit(cache=True, nogil=True)
def moved_weights(known, as_hist, old_as_hist, old_bow):
    """The weight of each history: its own where row r was row known[r], 1 for a new one."""
    bow = np.empty(known.shape[0])
    for r in range(known.shape[0]):
        bow[as_hist[r]] = old_bow[old_as_hist[known[r]]] if known[r] >= 0 else 1.0
    return bow


@njit(cache=True, nogil=True)
def history_sums(begin, suffix, back, bow, lower_sum, lower_p, p):
    """sum_w p(w|h) = bow(h) (sum_w p(w|h') - sum p(w|h')) + sum p(w|h), the latter sums over the rows of h."""
    total = np.empty(bow.shape[0])
    for h in range(bow.shape[0]):
        seen = 0.0
        covered = 0.0
        for r in range(begin[h], begin[h + 1]):
            covered += lower_p[suffix[r]]
            seen += p[r]
        total[h] = bow[h] * (lower_sum[back[h]] - covered) + seen
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def rescaled(begin, suffix, back, bow, p, new_lower_p, lower_scale, lower_z, rows, scales, top, new_p, new_bow):
    """One order of a model with p(w|h) times c(hw), c being scales[i] for the row rows[i] (ascending) and c(h'w)
    elsewhere:

        Z(h) = bow(h) (Z(h') - sum p(w|h') c(h'w)) + sum p(w|h) c(hw), sums over the rows of h,

    p(w|h') c(h'w) = Z(h') times the new p(w|h'). Fills new_p = p c / Z and new_bow = bow Z(h') / Z, which may be p and
    bow themselves; returns (Z, c) for the next order, nothing at the top."""
    n_hist = bow.shape[0]
    z = np.empty(0 if top else n_hist)
    scale = np.empty(0 if top else p.shape[0])
    at = 0
    for h in range(n_hist):
        seen = 0.0
        covered = 0.0
        for r in range(begin[h], begin[h + 1]):
            s = suffix[r]
            c = lower_scale[s]
            covered += new_lower_p[s]
            if at < rows.shape[0] and rows[at] == r:
                c = scales[at]
                at += 1
            new_p[r] = p[r] * c
            seen += new_p[r]
            if not top:
                scale[r] = c
        backed_off = bow[h] * lower_z[back[h]]
        total = backed_off * (1.0 - covered) + seen
        if not top:
            z[h] = total
        share = 1.0 / total
        new_bow[h] = backed_off * share
        for r in range(begin[h], begin[h + 1]):
            new_p[r] *= share
    return z, scale


@njit(cache=True, nogil=True)
def subtract_at(index, value, total):
    """total[index[i]] -= value[i]"""
    for i in range(index.shape[0]):
        total[index[i]] -= value[i]


@njit(cache=True, nogil=True)
def add_at(index, value, total):
    """total[index[i]] += value[i]"""
    for i in range(index.shape[0]):
        total[index[i]] += value[i]


@njit(cache=True, nogil=True)
def row_sums(begin, value):
    """Sum of the values of each history's rows."""
    total = np.zeros(begin.shape[0] - 1)
    for h in range(total.shape[0]):
        for r in range(begin[h], begin[h + 1]):
            total[h] += value[r]
    return total
