"""Loops over the rows of active histories, which give their entries: see mdi/adaptation/entries.py."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.model import ModelLevel
from mdi.kernels.types import Array


class RowCells(NamedTuple):
    """The cells of the rows of the active histories of one length, B of them."""

    begin: Array  # int64[B + 1]: the rows of the b-th are begin[b] .. begin[b + 1]
    cell: Array  # int32[rows of the B]: the longest constraint that is a suffix of the row, -1 for the slack


class ActiveLevel(NamedTuple):
    """The active histories of one length j, B of them, in the background model."""

    model: ModelLevel  # of order k = j + 1: the rows of these histories
    hists: Array  # int32[B]: which they are, ascending
    place: Array  # int64[B]: the number of each in `Histories`
    shift: Array  # int64[B]: the cell of (h', w) is lower_cell[row of h'w + shift]
    lower_cell: Array  # int32[]: of the rows of the active histories of length j - 1
    own: Array  # int32[]: the constrained rows of order k, ascending
    own_first: int  # number of the first of these constraints


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
    hists, place, shift, own, lower_cell = active.hists, active.place, active.shift, active.own, active.lower_cell
    begin, suffix = active.model.trie.begin, active.model.trie.suffix
    new_begin = np.zeros(hists.shape[0] + 1, np.int64)
    for i in range(hists.shape[0]):
        new_begin[i + 1] = new_begin[i] + begin[hists[i] + 1] - begin[hists[i]]
    cells = np.empty(new_begin[-1] if wanted else 0, np.int32)
    at = 0
    n = 0
    for i in range(hists.shape[0]):
        h = hists[i]
        while at < own.shape[0] and own[at] < begin[h]:
            at += 1
        for r in range(begin[h], begin[h + 1]):
            below = lower_cell[suffix[r] + shift[i]]
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
    hists, place, shift, own, lower_cell = active.hists, active.place, active.shift, active.own, active.lower_cell
    begin, suffix = active.model.trie.begin, active.model.trie.suffix
    p, bow, lower_p = active.model.p, active.model.bow, active.model.lower_p
    at = 0
    for i in range(hists.shape[0]):
        h = hists[i]
        n = into.begin[place[i]]
        slack = 0.0
        while at < own.shape[0] and own[at] < begin[h]:
            at += 1
        for r in range(begin[h], begin[h + 1]):
            below = lower_cell[suffix[r] + shift[i]]
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
