"""States of a back-off model, numbered and laid out as OpenFst's VectorFst has them: see mdi/fst/vector_fst.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.arpa import cost_of
from mdi.kernels.memory import pick
from mdi.kernels.types import Array

MAX_LENGTH = 32


class Words(NamedTuple):
    """What the table says of the model's words."""

    label: Array  # int32[V]: ascending; -1 for a word that is not in the table
    bos: int
    eos: int


@njit(cache=True, nogil=True, inline="always")
def _is_followed_by(w, words):
    """<s> follows nothing."""
    return w != words.bos and (words.label[w] > 0 or w == words.eos)


@njit(cache=True, nogil=True)
def mark_histories(rows, own, words, state, as_hist, out):
    """Fills out[as_hist[r]] = 0 for the rows r that are histories with words of the table only, -1 elsewhere; `state`
    is that of the histories before them."""
    out[:] = -1
    for h in range(state.shape[0]):
        if state[h] < 0:
            continue
        for r in range(rows.begin[h], rows.begin[h + 1]):
            w = rows.word[r]
            first = w == words.bos and state.shape[0] == 1
            if (own.shape[0] == 0 or own[r]) and w != words.eos and (first or _is_followed_by(w, words)):
                out[as_hist[r]] = 0


@njit(cache=True, nogil=True)
def number_states(rows, own, words, bow, first, start, state):
    """Numbers the marked histories that something follows from `first` on, and the history `start` in any case; the
    others become -1. Returns (the next number, rows that have words of the table only, arcs among them, weights other
    than 1 of histories that are no states)."""
    n, kept, arcs, merged = first, 0, 0, 0
    for h in range(state.shape[0]):
        if state[h] < 0:
            continue
        follow = 0
        for r in range(rows.begin[h], rows.begin[h + 1]):
            w = rows.word[r]
            if (own.shape[0] == 0 or own[r]) and _is_followed_by(w, words):
                follow += 1
                arcs += w != words.eos
        kept += follow
        if follow > 0 or h == start:
            state[h] = n
            n += 1
        else:
            merged += bow[h] != 1.0
            state[h] = -1
    return n, kept, arcs, merged


@njit(cache=True, nogil=True)
def _stands_for(model, states, j, h, passed):
    """(the state that stands for history h of length j: its own, or that of the longest one it backs off to; the cost
    of getting there)."""
    n = 0
    while pick(states, j)[h] < 0:
        passed[n] = cost_of(pick(model.bow, j)[h])
        n += 1
        h = np.int64(pick(model.trie.back, j)[h])
        j -= 1
    cost = 0.0
    while n > 0:
        n -= 1
        cost += passed[n]
    return pick(states, j)[h], cost


@njit(cache=True, nogil=True)
def vector_states(block, model, states, own, words, back_off, out):
    """Lays out the states among the histories of `block` (length, first, end): the final weight, the number of arcs
    in 64 bits, and of each arc both labels, weight and next state. The arc that backs off, which the empty history has
    not, is where its label, back_off[0], belongs; it reads that, or nothing from the state back_off[1].

    `model`: ModelArrays. states[j][h]: the number of a history as a state, -1 for one that is none. `own`: flags of the
    rows that follow which the model had before it was closed, none for all. `out` are words of 4 bytes, as integers and
    as floats. Returns how many were used."""
    length, first, stop = block
    ints, floats = out
    passed = np.empty(MAX_LENGTH)
    begin, word, p = pick(model.trie.begin, length + 1), pick(model.trie.word, length + 1), pick(model.p, length + 1)
    state, back, bow = pick(states, length), pick(model.trie.back, length), pick(model.bow, length)
    # where a row leads: to itself as a history, in the highest order to its suffix
    top, suffix = length + 1 == model.order, pick(model.trie.suffix, length + 1)
    after = length if top else length + 1
    as_hist = pick(model.trie.as_hist, after)
    n = np.int64(0)
    for h in range(first, stop):
        if state[h] < 0:
            continue
        head = n
        n += 3
        final = np.inf
        waiting = length > 0
        for r in range(begin[h], begin[h + 1] + 1):
            end = r == begin[h + 1]
            w = np.int64(-1) if end else np.int64(word[r])
            if not end and ((own.shape[0] > 0 and not own[r]) or not _is_followed_by(w, words)):
                continue
            if w == words.eos:
                final = cost_of(p[r])
                continue
            if waiting and (end or words.label[w] >= back_off[0]):
                to, extra = _stands_for(model, states, length - 1, np.int64(back[h]), passed)
                ints[n] = 0 if state[h] == back_off[1] else back_off[0]
                ints[n + 1] = 0
                floats[n + 2] = cost_of(bow[h]) + extra
                ints[n + 3] = to
                n += 4
                waiting = False
            if not end:
                to, extra = np.int32(0), 0.0
                if after > 0:
                    next_row = np.int64(suffix[r]) if top else np.int64(r)
                    to, extra = _stands_for(model, states, after, np.int64(as_hist[next_row]), passed)
                ints[n] = words.label[w]
                ints[n + 1] = words.label[w]
                floats[n + 2] = cost_of(p[r]) + extra
                ints[n + 3] = to
                n += 4
        floats[head] = final
        ints[head + 1] = (n - head - 3) // 4
        ints[head + 2] = 0
    return n
