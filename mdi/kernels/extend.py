"""More rows for a model, put into the arrays that it has. The layout is explained in mdi/lm/trie.py.

Tries over the same words sort alike, so rows and histories that a model had before keep their order, and only move
towards the end: what there is to know about them is which places are new ("fresh").
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mdi.kernels.trie import find_row, gallop


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
