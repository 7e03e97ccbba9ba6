"""The passes of an iteration, up for Z and down for the marginals, and what they run over: see
mdi/adaptation/dual.py."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.model import ROUNDING
from mdi.kernels.types import Array


class Histories(NamedTuple):
    """The A active histories h, by last word, then length, then as in the trie; number 0 is the empty one. V words v
    end them; E entries e."""

    first: Array  # int64[V + 1]: those that end in v are first[v] .. first[v + 1]
    top: Array  # int64[V]: where the longest among them begin
    back: Array  # int32[A]: h', the history that h backs off to
    bow: Array  # float64[A]: bow(h)
    mass: Array  # float64[A]: p~(h)
    fixed: Array  # float64[A]: sum of a over the rows of h in the slack cell, whose scale is 1
    begin: Array  # int64[A + 1]: the entries of h are begin[h] .. begin[h + 1]
    cell: Array  # int32[E]: the constraint i
    a: Array  # float64[E]: what exp(mu_i) is multiplied with in Z(h)


class Sums(NamedTuple):
    """What a block of words adds to: total[i + shift] += G(h) a(h, i), with a shift of its own for the cells of order
    1, i < n_words, which histories of all blocks share."""

    z: Array  # float64[A]: Z(h); z[0] is given
    G: Array  # float64[A]: G(h); 0 before
    total: Array  # float64[blocks * n_words + other cells]
    n_words: int
    word_shift: int
    other_shift: int


@njit(cache=True, nogil=True, error_model="numpy")
def up_and_down(lo, hi, hist, scale, sums):
    """Both passes over the histories of the words lo .. hi; scale[i] = exp(mu_i). For the longest histories G(h) =
    p~(h) / Z(h) is known as soon as Z(h) is: up and down at once.

    Returns (sum of p~(h) log Z(h), G that goes to the empty history, marginal of the slack cell)."""
    first, top, back, bow, mass, fixed = hist.first, hist.top, hist.back, hist.bow, hist.mass, hist.fixed
    begin, cell, a = hist.begin, hist.cell, hist.a
    z, G, total, n_words, word_shift, other_shift = sums
    log_z = 0.0
    to_empty = 0.0
    slack = 0.0
    for v in range(lo, hi):
        for h in range(first[v], first[v + 1]):
            here = bow[h] * z[back[h]] + fixed[h]
            for e in range(begin[h], begin[h + 1]):
                here += a[e] * scale[cell[e]]
            z[h] = here
            if mass[h] > 0.0:
                log_z += mass[h] * math.log(here)
            if h >= top[v]:
                g = G[h] = mass[h] / here
                slack += g * fixed[h]
                if back[h] == 0:
                    to_empty += g * bow[h]
                else:
                    G[back[h]] += g * bow[h]
                for e in range(begin[h], begin[h + 1]):
                    i = cell[e]
                    total[i + (word_shift if i < n_words else other_shift)] += g * a[e]
        for h in range(top[v] - 1, first[v] - 1, -1):
            g = G[h] = G[h] + mass[h] / z[h]
            slack += g * fixed[h]
            if back[h] == 0:
                to_empty += g * bow[h]
            else:
                G[back[h]] += g * bow[h]
            for e in range(begin[h], begin[h + 1]):
                i = cell[e]
                total[i + (word_shift if i < n_words else other_shift)] += g * a[e]
    return log_z, to_empty, slack


@njit(cache=True, nogil=True, error_model="numpy")
def up_and_down_all(bounds, hist, scale, sums, totals):
    """All blocks, one after the other: totals[b] becomes what `up_and_down` returns."""
    for b in range(totals.shape[0]):
        shifted = Sums(sums.z, sums.G, sums.total, sums.n_words, b * sums.n_words, sums.other_shift)
        found = up_and_down(bounds[b], bounds[b + 1], hist, scale, shifted)
        totals[b, 0], totals[b, 1], totals[b, 2] = found


@njit(cache=True, nogil=True)
def add_exactly(value, high, low):
    """high + low += value[b] for every b: what rounding takes from `high` goes to `low`, so the sum of both does not
    depend on who has added what first."""
    for b in range(value.shape[0]):
        for i in range(value.shape[1]):
            total = high[i] + value[b, i]
            added = total - high[i]
            low[i] += (high[i] - (total - added)) + (value[b, i] - added)
            high[i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def rounding_error(hist, z):
    """About how far rounding moves the marginals, in all: Z(h) is a difference of parts as large as bow(h) Z(h'), so
    its relative error is

        e(h) = bow(h) Z(h') / Z(h) (e(h') + rounding) + rounding,

    and a history with mass p~(h) adds p~(h) e(h)."""
    error = np.zeros(z.shape[0])
    total = 0.0
    for h in range(1, z.shape[0]):
        weight = abs(hist.bow[h] * z[hist.back[h]] / z[h])
        error[h] = weight * (error[hist.back[h]] + ROUNDING) + ROUNDING
        total += hist.mass[h] * error[h]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def add_to_parents(parent, value):
    """value[parent[i]] += value[i], from the longest n-grams to the shortest (parents come first)."""
    for i in range(parent.shape[0] - 1, -1, -1):
        if parent[i] >= 0:
            value[parent[i]] += value[i]


@njit(cache=True, nogil=True)
def inherit(parent, owner):
    """owner[i] = owner[parent[i]] where it is -1, from the shortest n-grams to the longest."""
    for i in range(parent.shape[0]):
        if owner[i] < 0 and parent[i] >= 0:
            owner[i] = owner[parent[i]]
