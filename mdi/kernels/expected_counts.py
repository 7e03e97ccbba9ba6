"""Forward and backward over a graph of words: see mdi/speech/expected_counts.py."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.types import Array

UNKNOWN, SILENT = -1, -2
# What is less likely than this (log) is lost in the rounding of everything else.
NEGLIGIBLE = -60.0


class GraphArrays(NamedTuple):
    """A graph of words of S states and A arcs: every arc leads to a higher state, 0 is the start. Weights are natural
    logarithms."""

    begin: Array  # int64[S + 1]: the arcs of state s are begin[s] .. begin[s + 1]
    word: Array  # int32[A]: id, SILENT for an arc without a word, UNKNOWN for one that belongs to no n-gram
    dest: Array  # int32[A]
    weight: Array  # float64[A]
    final: Array  # float64[S]: of ending there, -infinity where a state is not final


class Events(NamedTuple):
    """What is to be counted: words after their last order - 1 words, in sentences that begin with `bos`."""

    order: int
    bos: int
    eos: int


@njit(cache=True, nogil=True, inline="always")
def log_add(a, b):
    if a < b:
        a, b = b, a
    return a + math.log1p(math.exp(b - a)) if b > -np.inf else a


@njit(cache=True, nogil=True)
def _place(table, key, state, keys, states):
    """Where (key, state) is in the hash table, or the empty place where it belongs."""
    mask = np.uint64(table.shape[0] - 1)
    code = np.uint64(state + 1) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(key.shape[0]):
        code = (code ^ np.uint64(np.int64(key[i]) + 3)) * np.uint64(0xC2B2AE3D27D4EB4F)
        code ^= code >> np.uint64(29)
    at = np.int64(code & mask)
    while table[at] >= 0:
        x = table[at]
        same = states[x] == state
        for i in range(key.shape[0]):
            same = same and keys[x, i] == key[i]
        if same:
            return at
        at = np.int64((np.uint64(at) + np.uint64(1)) & mask)
    return at


@njit(cache=True, nogil=True)
def backward(graph):
    """beta[s] = log of the summed weights of all ways from s to an end."""
    begin, dest, weight, final = graph.begin, graph.dest, graph.weight, graph.final
    n = begin.shape[0] - 1
    beta = np.empty(n)
    for s in range(n - 1, -1, -1):
        beta[s] = final[s]
        for arc in range(begin[s], begin[s + 1]):
            beta[s] = log_add(beta[s], weight[arc] + beta[dest[arc]])
    return beta


@njit(cache=True, nogil=True)
def expected_events(graph, beta, wanted, room, event_room):
    """The expected number of each event, a word after its last order - 1 words, over all paths.

    A state becomes one for each history that it is reached with (the last words, fewer after <s> or an unknown word);
    what is to come does not depend on the history, so beta is that of the state itself:

        E[count of hw] = sum over arcs w of states (s, h):  alpha(s, h) weight(arc) beta(dest) / beta(start)

    Returns (events, a line each, on the right, with UNKNOWN before them where there is no history; expected numbers),
    the latter with one number -1 where there was no room."""
    begin, dest = graph.begin, graph.dest
    order, size = wanted.order, wanted.order - 1
    hist, state_of = np.empty((room, size), np.int32), np.empty(room, np.int32)
    alpha, following = np.empty(room), np.empty(room, np.int32)
    newest = np.full(begin.shape[0], -1, np.int32)
    table = np.full(1 << (int(math.log2(room)) + 2), -1, np.int32)
    events, count = np.empty((event_room, order), np.int32), np.zeros(event_room)
    same = np.zeros(event_room, np.int32)
    event_table = np.full(1 << (int(math.log2(event_room)) + 2), -1, np.int32)
    key, event = np.full(size, UNKNOWN, np.int32), np.empty(order, np.int32)
    failed = events[:0], np.full(1, -1.0)

    if size:
        key[size - 1] = wanted.bos
    hist[0], state_of[0], alpha[0], following[0], newest[0] = key, 0, 0.0, -1, 0
    table[_place(table, key, 0, hist, state_of)] = 0
    n, n_events = 1, 0
    for s in range(begin.shape[0] - 1):
        x = newest[s]
        while x >= 0:
            if alpha[x] + beta[s] - beta[0] < NEGLIGIBLE:
                x = following[x]
                continue
            # the arcs of the state, and in the place of one more its </s>
            for arc in range(begin[s], begin[s + 1] + 1):
                last = arc == begin[s + 1]
                w = wanted.eos if last else graph.word[arc]
                so_far = alpha[x] + (graph.final[s] if last else graph.weight[arc])
                share = so_far + (0.0 if last else beta[dest[arc]]) - beta[0]
                if share < NEGLIGIBLE:
                    continue
                key[:] = hist[x]
                if w == UNKNOWN:
                    key[:] = UNKNOWN
                elif w != SILENT:
                    event[:size] = key
                    event[size] = w
                    at = _place(event_table, event, 0, events, same)
                    e = event_table[at]
                    if e < 0:
                        if n_events == event_room:
                            return failed
                        e = n_events
                        n_events += 1
                        event_table[at] = e
                        events[e] = event
                    count[e] += math.exp(share)
                    key[:] = event[1:]
                if last:
                    continue
                t = dest[arc]
                at = _place(table, key, t, hist, state_of)
                y = table[at]
                if y < 0:
                    if n == room:
                        return failed
                    y = n
                    n += 1
                    table[at] = y
                    hist[y], state_of[y], alpha[y], following[y] = key, t, -np.inf, newest[t]
                    newest[t] = y
                alpha[y] = log_add(alpha[y], so_far)
            x = following[x]
    return events[:n_events], count[:n_events]
