"""Passes over a whole model, order by order. The layout is explained in mdi/lm/trie.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.trie import Level, TrieArrays
from mdi.kernels.types import Array


class ModelLevel(NamedTuple):
    """One order k of a model with a closed trie: H histories h of length k - 1, R rows r."""

    trie: Level
    p: Array  # float64[R]: p(w|h)
    bow: Array  # float64[H]: bow(h)
    lower_p: Array  # float64[rows of order k - 1]: p(w|h') is lower_p[suffix[r]]


class ModelArrays(NamedTuple):
    """A whole model for look-ups: the lists of mdi/lm/model.py as tuples, indexed like them."""

    trie: TrieArrays
    p: tuple[Array, ...]  # float64: p[k][r]
    bow: tuple[Array, ...]  # float64: bow[j][h]
    order: int
    bos: int
    eos: int


class Scaled(NamedTuple):
    """One order of a model after scaling: what the next order needs of it. Empty in the highest order."""

    p: Array  # float64[R]: p(w|h) c(hw) / Z(h)
    scale: Array  # float64[R]: c(hw)
    z: Array  # float64[H]: Z(h)


class OwnScales(NamedTuple):
    """The rows of one order that have a c of their own, i = 0, 1, ..."""

    row: Array  # int32[i], ascending
    scale: Array  # float64[i]


@njit(cache=True, nogil=True)
def backed_off(level, bow, lower_p, known, known_p):
    """p of each row: known_p[known[r]], or bow(h) p(w|h') for a new one."""
    begin, suffix = level.begin, level.suffix
    p = np.empty(suffix.shape[0])
    for h in range(begin.shape[0] - 1):
        for r in range(begin[h], begin[h + 1]):
            p[r] = known_p[known[r]] if known[r] >= 0 else bow[h] * lower_p[suffix[r]]
    return p


@njit(cache=True, nogil=True)
def history_sums(level, lower_sum):
    """sum_w p(w|h) = bow(h) (sum_w p(w|h') - sum p(w|h')) + sum p(w|h), the latter sums over the rows of h."""
    begin, suffix, back = level.trie.begin, level.trie.suffix, level.trie.back
    p, bow, lower_p = level.p, level.bow, level.lower_p
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
def rescaled(level, lower, own, top, new_p, new_bow):
    """One order of a model with p(w|h) times c(hw), c being own.scale[i] for the row own.row[i] and c(h'w) elsewhere:

        Z(h) = bow(h) (Z(h') - sum p(w|h') c(h'w)) + sum p(w|h) c(hw), sums over the rows of h,

    p(w|h') c(h'w) = Z(h') times the new p(w|h'), `lower`. Fills new_p = p c / Z and new_bow = bow Z(h') / Z, which may
    be p and bow themselves; returns `Scaled`, without Z and c at the top."""
    begin, suffix, back = level.trie.begin, level.trie.suffix, level.trie.back
    p, bow = level.p, level.bow
    n_hist = bow.shape[0]
    z = np.empty(0 if top else n_hist)
    scale = np.empty(0 if top else p.shape[0])
    at = 0
    for h in range(n_hist):
        seen = 0.0
        covered = 0.0
        for r in range(begin[h], begin[h + 1]):
            s = suffix[r]
            c = lower.scale[s]
            covered += lower.p[s]
            if at < own.row.shape[0] and own.row[at] == r:
                c = own.scale[at]
                at += 1
            new_p[r] = p[r] * c
            seen += new_p[r]
            if not top:
                scale[r] = c
        backed_off = bow[h] * lower.z[back[h]]
        total = backed_off * (1.0 - covered) + seen
        if not top:
            z[h] = total
        share = 1.0 / total
        new_bow[h] = backed_off * share
        for r in range(begin[h], begin[h + 1]):
            new_p[r] *= share
    return Scaled(new_p, scale, z)


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
