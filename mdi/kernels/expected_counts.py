"""Forward and backward over a graph of words: see mdi/speech/expected_counts.py."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.numbering import empty_table, number_of
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
    found, alpha, following = np.empty((room, order), np.int32), np.empty(room), np.empty(room, np.int32)
    newest, table = np.full(begin.shape[0], -1, np.int32), empty_table(room)
    events, count, event_table = np.empty((event_room, order), np.int32), np.zeros(event_room), empty_table(event_room)
    failed = events[:0], np.full(1, -1.0)
    # where a way through the graph is: its last words, and the state
    at, event = np.full(order, UNKNOWN, np.int32), np.empty(order, np.int32)
    at[size] = 0
    if size:
        at[size - 1] = wanted.bos
    number_of(at, found, 0, table)
    alpha[0], following[0], newest[0] = 0.0, -1, 0
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
                for i in range(size):
                    at[i] = event[i] = UNKNOWN if w == UNKNOWN else found[x, i]
                if w >= 0:
                    event[size] = w
                    e = number_of(event, events, n_events, event_table)
                    if e < 0:
                        return failed
                    n_events += e == n_events
                    count[e] += math.exp(share)
                    for i in range(size):
                        at[i] = event[i + 1]
                if last:
                    continue
                t = dest[arc]
                at[size] = t
                y = number_of(at, found, n, table)
                if y < 0:
                    return failed
                if y == n:
                    n += 1
                    alpha[y], following[y] = -np.inf, newest[t]
                    newest[t] = y
                alpha[y] = log_add(alpha[y], so_far)
            x = following[x]
    return events[:n_events], count[:n_events]
