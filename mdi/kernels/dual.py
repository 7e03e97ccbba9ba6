"""The sweeps of an iteration, up for Z and down for the marginals, and what they run over: see
mdi/adaptation/dual.py."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def fold_mass(begin, back, bow, mass, lower_mass):
    """Adds the mass of histories without rows to those they back off to. Returns the sum of mass log bow(h)."""
    total = 0.0
    for h in range(mass.shape[0]):
        if mass[h] > 0.0 and begin[h + 1] == begin[h]:
            lower_mass[back[h]] += mass[h]
            total += mass[h] * math.log(bow[h]) if bow[h] > 0.0 else -np.inf
    return total


@njit(cache=True, nogil=True)
def row_cells(
    hists, place, begin, suffix, back, lower_begin, new_hist, new_lower_begin, lower_cells, con_rows, con_first, count
):
    """The cell of each row of the given histories, -1 for the slack; count[place[i]] = number of entries of history i.

    new_hist[b] numbers the given histories of the level below, whose rows' cells are
    lower_cells[new_lower_begin[..]..]; con_rows are the constrained rows, ascending. Returns (begin of each history's
    rows, cells)."""
    new_begin = np.zeros(hists.shape[0] + 1, np.int64)
    for i in range(hists.shape[0]):
        new_begin[i + 1] = new_begin[i] + begin[hists[i] + 1] - begin[hists[i]]
    cells = np.empty(new_begin[-1], np.int32)
    at = 0
    n = 0
    for i in range(hists.shape[0]):
        h = hists[i]
        shift = new_lower_begin[new_hist[back[h]]] - lower_begin[back[h]]
        while at < con_rows.shape[0] and con_rows[at] < begin[h]:
            at += 1
        for r in range(begin[h], begin[h + 1]):
            below = lower_cells[suffix[r] + shift]
            count[place[i]] += below >= 0
            if at < con_rows.shape[0] and con_rows[at] == r:
                below = con_first + at
                count[place[i]] += 1
                at += 1
            cells[n] = below
            n += 1
    return new_begin, cells


@njit(cache=True, nogil=True)
def fill_entries(
    hists, place, begin, suffix, back, lower_begin, new_hist, new_lower_begin, lower_cells, con_rows, con_first,
    bow, p, lower_p, entry_begin, cell, a, fixed,
):  # fmt: skip
    """The entries (cell, a) of the given histories, and the sum of those of the slack cell, `fixed`."""
    at = 0
    for i in range(hists.shape[0]):
        h = hists[i]
        n = entry_begin[place[i]]
        slack = 0.0
        shift = new_lower_begin[new_hist[back[h]]] - lower_begin[back[h]]
        while at < con_rows.shape[0] and con_rows[at] < begin[h]:
            at += 1
        for r in range(begin[h], begin[h + 1]):
            below = lower_cells[suffix[r] + shift]
            backed_off = bow[h] * lower_p[suffix[r]]
            share = p[r] - backed_off
            if at < con_rows.shape[0] and con_rows[at] == r:
                cell[n] = con_first + at
                a[n] = p[r]
                n += 1
                at += 1
                share = -backed_off
            if below >= 0:
                cell[n] = below
                a[n] = share
                n += 1
            else:
                slack += share
        fixed[place[i]] = slack


@njit(cache=True, nogil=True, error_model="numpy")
def up_and_down(
    lo, hi, first, top, back, bow, mass, fixed, begin, cell, a, scale, n_words, word_shift, other_shift, z, g, total
):  # fmt: skip
    """Both sweeps over the histories of the words lo .. hi. z[0] is Z of the empty history; total[i + shift] += G(h) a
    for the entries, with word_shift for the cells of order 1, i < n_words. For the longest histories G(h) = p~(h) /
    Z(h) is known as soon as Z(h) is: up and down at once.

    Returns (sum of p~(h) log Z(h), G that goes to the empty history, marginal of the slack cell)."""
    log_z = 0.0
    to_empty = 0.0
    slack = 0.0
    for v in range(lo, hi):
        for h in range(first[v], first[v + 1]):
            sums = bow[h] * z[back[h]] + fixed[h]
            for e in range(begin[h], begin[h + 1]):
                sums += a[e] * scale[cell[e]]
            z[h] = sums
            if mass[h] > 0.0:
                log_z += mass[h] * math.log(sums)
            if h >= top[v]:
                weight = mass[h] / sums
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
