"""Sweeps over a whole model, order by order. The layout is explained in mdi/trie.py."""

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
def normalisers(begin, suffix, back, bow, lower_z, lower_p, lower_scale, p, scale):
    """Z(h) = bow(h) (Z(h') - sum p(w|h') c(h'w)) + sum p(w|h) c(hw), sums over the rows of h."""
    z = np.empty(bow.shape[0])
    for h in range(bow.shape[0]):
        seen = 0.0
        covered = 0.0
        for r in range(begin[h], begin[h + 1]):
            s = suffix[r]
            covered += lower_p[s] * lower_scale[s]
            seen += p[r] * scale[r]
        z[h] = bow[h] * (lower_z[back[h]] - covered) + seen
    return z


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


@njit(cache=True, nogil=True)
def scaled(begin, p, scale, z):
    """p(w|h) c(hw) / Z(h)"""
    out = np.empty_like(p)
    for h in range(z.shape[0]):
        for r in range(begin[h], begin[h + 1]):
            out[r] = p[r] * scale[r] / z[h]
    return out
