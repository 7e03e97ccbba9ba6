"""The passes of an iteration, up for Z and down for the marginals, and what they run over: see
mdi/adaptation/dual.py."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.model import ROUNDING, ModelLevel
from mdi.kernels.types import Array


class Histories(NamedTuple):
    """The A active histories h, by last word, then length, then as in the trie; number 0 is the empty one. G words v
    end them; E entries e."""

    first: Array  # int64[G + 1]: those of the g-th word are first[g] .. first[g + 1]
    top: Array  # int64[G]: where the longest among them begin
    back: Array  # int32[A]: h', the history that h backs off to
    bow: Array  # float64[A]: bow(h)
    mass: Array  # float64[A]: p~(h)
    fixed: Array  # float64[A]: sum of a over the rows of h in the slack cell, whose scale is 1
    begin: Array  # int64[A + 1]: the entries of h are begin[h] .. begin[h + 1]
    cell: Array  # int32[E]: the constraint i
    a: Array  # float64[E]: what exp(mu_i) is multiplied with in Z(h)


class RowCells(NamedTuple):
    """The cells of the rows of the active histories of one length, B of them."""

    number: Array  # int32[histories of this length]: which of the B a history is, -1 for none
    begin: Array  # int64[B + 1]: the rows of the b-th are begin[b] .. begin[b + 1]
    cell: Array  # int32[rows of the B]: the longest constraint that is a suffix of the row, -1 for the slack


class ActiveLevel(NamedTuple):
    """The active histories of one length j, B of them, in the background model."""

    model: ModelLevel  # of order k = j + 1: the rows of these histories
    hists: Array  # int32[B]: which they are, ascending
    shorter: Array  # int32[B]: what they back off to
    place: Array  # int64[B]: the number of each in `Histories`
    lower_begin: Array  # int32[]: `begin` of order j
    lower: RowCells  # of order j: those of the rows h'w
    own: Array  # int32[]: the constrained rows of order k, ascending
    own_first: int  # number of the first of these constraints


class Sums(NamedTuple):
    """What a block of words adds to: total[i + shift] += G(h) a(h, i), with a shift of its own for the cells of order
    1, i < n_words, which histories of all blocks share."""

    z: Array  # float64[A]: Z(h); z[0] is given
    g: Array  # float64[A]: G(h) without the part of p~(h); 0 before
    total: Array  # float64[blocks * n_words + other cells]
    n_words: int
    word_shift: int
    other_shift: int


@njit(cache=True, nogil=True)
def fold_mass(level, bow, mass, lower_mass):
    """Adds the mass of histories without rows to those they back off to. Returns the sum of mass log bow(h)."""
    begin, back = level.begin, level.back
    total = 0.0
    for h in range(mass.shape[0]):
        if mass[h] > 0.0 and begin[h + 1] == begin[h]:
            lower_mass[back[h]] += mass[h]
            total += mass[h] * math.log(bow[h]) if bow[h] > 0.0 else -np.inf
    return total


@njit(cache=True, nogil=True)
def row_cells(active, count, wanted):
    """(begin, cell) of the `RowCells` of these histories; count[h] += the number of entries of history h. Cells are
    left out unless they are wanted."""
    hists, place, own, lower = active.hists, active.place, active.own, active.lower
    begin, suffix = active.model.trie.begin, active.model.trie.suffix
    new_begin = np.zeros(hists.shape[0] + 1, np.int64)
    for i in range(hists.shape[0]):
        new_begin[i + 1] = new_begin[i] + begin[hists[i] + 1] - begin[hists[i]]
    cells = np.empty(new_begin[-1] if wanted else 0, np.int32)
    at = 0
    n = 0
    for i in range(hists.shape[0]):
        h = hists[i]
        shorter = active.shorter[i]
        shift = lower.begin[lower.number[shorter]] - active.lower_begin[shorter]
        while at < own.shape[0] and own[at] < begin[h]:
            at += 1
        for r in range(begin[h], begin[h + 1]):
            below = lower.cell[suffix[r] + shift]
            count[place[i]] += below >= 0
            if at < own.shape[0] and own[at] == r:
                below = active.own_first + at
                count[place[i]] += 1
                at += 1
            if wanted:
                cells[n] = below
                n += 1
    return new_begin, cells


@njit(cache=True, nogil=True)
def fill_entries(active, into):
    """The entries (cell, a) and `fixed` of these histories, into `Histories` whose `begin` is known."""
    hists, place, own, lower = active.hists, active.place, active.own, active.lower
    begin, suffix = active.model.trie.begin, active.model.trie.suffix
    p, bow, lower_p = active.model.p, active.model.bow, active.model.lower_p
    at = 0
    for i in range(hists.shape[0]):
        h = hists[i]
        n = into.begin[place[i]]
        slack = 0.0
        shorter = active.shorter[i]
        shift = lower.begin[lower.number[shorter]] - active.lower_begin[shorter]
        while at < own.shape[0] and own[at] < begin[h]:
            at += 1
        for r in range(begin[h], begin[h + 1]):
            below = lower.cell[suffix[r] + shift]
            backed_off = bow[h] * lower_p[suffix[r]]
            share = p[r] - backed_off
            if at < own.shape[0] and own[at] == r:
                into.cell[n] = active.own_first + at
                into.a[n] = p[r]
                n += 1
                at += 1
                share = -backed_off
            if below >= 0:
                into.cell[n] = below
                into.a[n] = share
                n += 1
            else:
                slack += share
        into.fixed[place[i]] = slack


@njit(cache=True, nogil=True, error_model="numpy")
def up_and_down(lo, hi, hist, scale, sums):
    """Both passes over the histories of the words lo .. hi; scale[i] = exp(mu_i). For the longest histories G(h) =
    p~(h) / Z(h) is known as soon as Z(h) is: up and down at once.

    Returns (sum of p~(h) log Z(h), G that goes to the empty history, marginal of the slack cell)."""
    first, top, back, bow, mass, fixed = hist.first, hist.top, hist.back, hist.bow, hist.mass, hist.fixed
    begin, cell, a = hist.begin, hist.cell, hist.a
    z, g, total, n_words, word_shift, other_shift = sums
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
                weight = mass[h] / here
                slack += weight * fixed[h]
                if back[h] == 0:
                    to_empty += weight * bow[h]
                else:
                    g[back[h]] += weight * bow[h]
                for e in range(begin[h], begin[h + 1]):
                    i = cell[e]
                    total[i + (word_shift if i < n_words else other_shift)] += weight * a[e]
        for h in range(top[v] - 1, first[v] - 1, -1):
            weight = g[h] + mass[h] / z[h]
            slack += weight * fixed[h]
            if back[h] == 0:
                to_empty += weight * bow[h]
            else:
                g[back[h]] += weight * bow[h]
            for e in range(begin[h], begin[h + 1]):
                i = cell[e]
                total[i + (word_shift if i < n_words else other_shift)] += weight * a[e]
    return log_z, to_empty, slack


@njit(cache=True, nogil=True, error_model="numpy")
def up_and_down_all(bounds, hist, scale, sums, totals):
    """All blocks of a part, one after the other: totals[b] becomes what `up_and_down` returns."""
    for b in range(totals.shape[0]):
        shifted = Sums(sums.z, sums.g, sums.total, sums.n_words, b * sums.n_words, sums.other_shift)
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


@njit(cache=True, nogil=True, error_model="numpy")
def add_from_parents(parent, value):
    """value[i] += value[parent[i]], from the shortest n-grams to the longest."""
    for i in range(parent.shape[0]):
        if parent[i] >= 0:
            value[i] += value[parent[i]]


@njit(cache=True, nogil=True)
def inherit(parent, owner):
    """owner[i] = owner[parent[i]] where it is -1, from the shortest n-grams to the longest."""
    for i in range(parent.shape[0]):
        if owner[i] < 0 and parent[i] >= 0:
            owner[i] = owner[parent[i]]
