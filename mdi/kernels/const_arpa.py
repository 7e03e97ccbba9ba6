"""Kaldi's ConstArpaLm, order by order: the loops of mdi/fst/const_arpa.py, where the layout is explained."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.backoff_fst import COST_ZERO

OK, BAD_ADDRESS, BAD_WORD, BAD_PROB, TOO_MANY, TOO_DEEP = range(6)


class Rows(NamedTuple):
    """The n-grams of one order as they are read or written, r counting rows and h histories of one word less."""

    begin: np.ndarray  # int32[h + 1]: the rows of history h
    word: np.ndarray  # int32[r]: the last word
    log_p: np.ndarray  # float32[r]: ln p
    log_bow: np.ndarray  # float32[r]: ln bow, 0 without one
    address: np.ndarray  # int64[r]: where the row's entry begins, -1 without one


class Entries(NamedTuple):
    """Where the entries of one order go, and those of the next."""

    own: np.ndarray  # int32[r]: size of each row's own entry, in words of 4 bytes
    as_hist: np.ndarray  # int32[r]: the row as a history of the next order
    longer_total: np.ndarray  # int64[]: by row of the next order, the size of its entry with all below it; or empty
    label: np.ndarray  # int32[]: by word


class FarChildren(NamedTuple):
    """Children too far away for an offset: where their address is wanted, and the address."""

    place: np.ndarray  # int64[]
    child: np.ndarray  # int64[]


@njit(cache=True, nogil=True)
def entry_sizes(unigrams, written, log_bow, as_hist, longer_begin, longer_total):
    """(size of each row's own entry, size with all that lie below it), in words of 4 bytes. Rows of the next order up
    follow by history; longer_total is empty where that is the highest, whose rows have no entries. An n-gram of two
    words and more that nothing follows and whose weight is 1 has none either."""
    own = np.zeros(as_hist.shape[0], np.int32)
    total = np.zeros(as_hist.shape[0], np.int64)
    for r in range(as_hist.shape[0]):
        h = as_hist[r]
        n = longer_begin[h + 1] - longer_begin[h]
        if not written[r] or (n == 0 and log_bow[r] == 0 and not unigrams):
            continue
        own[r] = 3 + 2 * n
        total[r] = own[r]
        if longer_total.shape[0] > 0:
            for i in range(longer_begin[h], longer_begin[h + 1]):
                total[r] += longer_total[i]
    return own, total


@njit(cache=True, nogil=True)
def put_entries(rows, longer, entries, states, most_offset, far):
    """Writes the entries of one order into `states`, and where those of the next order begin into longer.address (-1
    without one). Children further away than `most_offset` are listed in `far`. Returns how many, which may be more than
    there is room for."""
    own, as_hist, longer_total, label = entries
    far_place, far_child = far
    real = states.view(np.float32)
    n_far = 0
    for r in range(as_hist.shape[0]):
        at = rows.address[r]
        if at < 0:
            continue
        h = as_hist[r]
        real[at] = rows.log_p[r]
        real[at + 1] = rows.log_bow[r]
        states[at + 2] = longer.begin[h + 1] - longer.begin[h]
        child = at + own[r]
        place = at + 3
        for i in range(longer.begin[h], longer.begin[h + 1]):
            states[place] = label[longer.word[i]]
            if longer_total.shape[0] > 0 and longer_total[i] > 0:
                longer.address[i] = child
                if child - at <= most_offset:
                    states[place + 1] = np.int32(2 * (child - at) + 1)
                else:
                    if n_far < far_place.shape[0]:
                        far_place[n_far] = place + 1
                        far_child[n_far] = child
                    n_far += 1
                child += longer_total[i]
            else:
                longer.address[i] = -1
                real[place + 1] = longer.log_p[i]
                states[place + 1] &= ~np.int32(1)  # an odd number would be an address
            place += 2
    return n_far


@njit(cache=True, nogil=True)
def count_children(address, states, most):
    """(begin of the rows that follow each history, what is wrong, the history where it is). No more than `most`."""
    begin = np.zeros(address.shape[0] + 1, np.int32)
    for h in range(address.shape[0]):
        n = np.int64(0)
        at = address[h]
        if at >= 0:
            if at > states.shape[0] - 3:
                return begin, BAD_ADDRESS, h
            n = np.int64(states[at + 2])
            if n < 0 or at + 3 + 2 * n > states.shape[0]:
                return begin, BAD_ADDRESS, h
        if begin[h] + n > most:
            return begin, TOO_MANY, h
        begin[h + 1] = begin[h] + n
    return begin, OK, 0


@njit(cache=True, nogil=True)
def get_children(address, states, overflow, id_of_label, top, out):
    """Fills the rows that follow each history. Returns (OK or what is wrong, the history where it is)."""
    real = states.view(np.float32)
    for h in range(address.shape[0]):
        at = address[h]
        place = at + 3
        for i in range(out.begin[h], out.begin[h + 1]):
            label = states[place]
            if label < 0 or label >= id_of_label.shape[0] or id_of_label[label] < 0:
                return BAD_WORD, h
            out.word[i] = id_of_label[label]
            if i > out.begin[h] and out.word[i] <= out.word[i - 1]:
                return BAD_WORD, h
            info = states[place + 1]
            child = np.int64(-1)
            if info & 1:
                if info > 0:
                    child = at + (info >> 1)
                else:
                    index = -np.int64(info) >> 1
                    if index >= overflow.shape[0]:
                        return BAD_ADDRESS, h
                    child = overflow[index] - 1
                # entries lie behind their parents, which keeps hostile files from running in circles
                if child <= at or child > states.shape[0] - 3:
                    return BAD_ADDRESS, h
                if top:
                    return TOO_DEEP, h
                out.log_p[i] = real[child]
                out.log_bow[i] = real[child + 1]
            else:
                out.log_p[i] = real[place + 1]
                out.log_bow[i] = 0.0
            out.address[i] = child
            place += 2
    return OK, 0


@njit(cache=True, nogil=True)
def exponentials(log_values, least_excess):
    """(e to these, whether none exceeds `least_excess` or is no number). Zero where an ARPA file has -99."""
    out = np.empty(log_values.shape[0])
    fine = True
    for i in range(out.shape[0]):
        value = np.float64(log_values[i])
        fine &= value <= least_excess
        out[i] = 0.0 if value <= -COST_ZERO else np.exp(value)
    return out, fine
