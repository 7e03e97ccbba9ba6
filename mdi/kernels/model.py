"""Passes over a whole model, order by order. The layout is explained in mdi/lm/trie.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.trie import Level, TrieArrays, find_row, gallop
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


# Of a sum that is computed as a difference, relative to its parts: some roundings of 2^-53 each.
ROUNDING = 16 * 2.0**-53


@njit(cache=True, nogil=True)
def history_sums(level, lower_sum, lower_doubt):
    """sum_w p(w|h) = bow(h) (sum_w p(w|h') - sum p(w|h')) + sum p(w|h), the latter sums over the rows of h.

    Returns (sums, doubt): a large bow(h) multiplies what rounding has left of the difference, so a sum may be off by
    bow(h) (doubt(h') + rounding)."""
    begin, suffix, back = level.trie.begin, level.trie.suffix, level.trie.back
    p, bow, lower_p = level.p, level.bow, level.lower_p
    total = np.empty(bow.shape[0])
    doubt = np.empty(bow.shape[0])
    for h in range(bow.shape[0]):
        doubt[h] = bow[h] * (lower_doubt[back[h]] + ROUNDING) + ROUNDING
        seen = 0.0
        covered = 0.0
        for r in range(begin[h], begin[h + 1]):
            covered += lower_p[suffix[r]]
            seen += p[r]
        total[h] = bow[h] * (lower_sum[back[h]] - covered) + seen
    return total, doubt


@njit(cache=True, nogil=True, error_model="numpy")
def rescale(level, lower, own, new, new_bow):
    """One order of a model with p(w|h) times c(hw), c being own.scale[i] for the row own.row[i] and c(h'w) elsewhere:

        Z(h) = bow(h) (Z(h') - sum p(w|h') c(h'w)) + sum p(w|h) c(hw), sums over the rows of h,

    p(w|h') c(h'w) = Z(h') times the new p(w|h'), `lower`. Fills `new`, p = p c / Z and, unless they are empty, Z and c;
    and new_bow = bow Z(h') / Z. Both may be the level's own arrays."""
    begin, suffix, back = level.trie.begin, level.trie.suffix, level.trie.back
    p, bow = level.p, level.bow
    new_p, scale, z = new
    top = z.shape[0] == 0
    at = 0
    for h in range(bow.shape[0]):
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


# More rows for a model, put into the arrays that it has. Tries over the same words sort alike, so rows and histories
# keep their order and only move towards the end: all there is to know is which places are new ("fresh").


@njit(cache=True, nogil=True)
def place_rows(new, hist, fresh_hist, old):
    """Where the rows of the branches `new` come to lie among those of `old`, once those that `old` lacks are put in.

    hist[h]: what history h of `new` is in the result; fresh_hist: those in the result that `old` lacks. Returns
    (place, whether it is fresh)."""
    place = np.empty(new.word.shape[0], np.int32)
    fresh = np.empty(new.word.shape[0], np.bool_)
    before = np.int64(0)  # fresh histories
    added = np.int64(0)  # fresh rows
    for h in range(hist.shape[0]):
        if new.begin[h] == new.begin[h + 1]:
            continue
        while before < fresh_hist.shape[0] and fresh_hist[before] < hist[h]:
            before += 1
        known = before == fresh_hist.shape[0] or fresh_hist[before] > hist[h]
        lo = np.int64(old.begin[hist[h] - before])
        end = np.int64(old.begin[hist[h] - before + 1]) if known else lo
        for r in range(new.begin[h], new.begin[h + 1]):
            lo = gallop(old.word, lo, end, new.word[r])
            place[r] = lo + added
            fresh[r] = lo == end or old.word[lo] != new.word[r]
            added += fresh[r]
    return place, fresh


@njit(cache=True, nogil=True)
def widened_begin(begin, fresh_hist, row_hist):
    """begin[h] .. begin[h + 1] with the fresh histories, and with the fresh rows, whose histories are row_hist."""
    out = np.empty(begin.shape[0] + fresh_hist.shape[0], np.int32)
    before = np.int64(0)
    added = np.int64(0)
    for h in range(out.shape[0]):
        while before < fresh_hist.shape[0] and fresh_hist[before] < h:
            before += 1
        while added < row_hist.shape[0] and row_hist[added] < h:
            added += 1
        out[h] = begin[h - before] + added
    return out


@njit(cache=True, nogil=True)
def insert(array, at, value):
    """Makes place for value[i] at array[at[i]], at ascending. What the array had is in front, and moves backwards."""
    to = array.shape[0]
    for i in range(at.shape[0] - 1, -1, -1):
        while to > at[i] + 1:
            to -= 1
            array[to] = array[to - i - 1]
        to -= 1
        array[to] = value[i]


@njit(cache=True, nogil=True)
def renumber(links, rows, fresh):
    """Links to `rows` rows, or -1, become links to the same ones after the fresh ones have been put in."""
    number = np.empty(rows, np.int32)
    to = np.int64(0)
    added = np.int64(0)
    for r in range(rows):
        while added < fresh.shape[0] and fresh[added] == to:
            added += 1
            to += 1
        number[r] = to
        to += 1
    for i in range(links.shape[0]):
        if links[i] >= 0:
            links[i] = number[links[i]]


@njit(cache=True, nogil=True)
def link_missing(branches, back, lower, suffix):
    """Searches the suffixes that are -1: row h'w among the branches `lower`; back[h] = h'."""
    begin, word = branches.begin, branches.word
    for h in range(begin.shape[0] - 1):
        for r in range(begin[h], begin[h + 1]):
            if suffix[r] < 0 and back[h] >= 0:
                suffix[r] = find_row(lower.begin, lower.word, np.int64(back[h]), word[r])


@njit(cache=True, nogil=True)
def back_off(rows, hist, suffix, bow, lower_p, p):
    """p(w|h) = bow(h) p(w|h') for the given rows; hist[i] is the history of rows[i]."""
    for i in range(rows.shape[0]):
        p[rows[i]] = bow[hist[i]] * lower_p[suffix[rows[i]]]
