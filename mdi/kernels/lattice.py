"""Loops over one lattice: its bytes, the order of its states, its best path, its oracle.

Unless a kernel says otherwise, states are numbered so that every arc leads to a higher one, and 0 is the start.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.types import Array

INFINITY = np.inf


class LatticeArcs(NamedTuple):
    """The A arcs of a lattice. Costs are -ln p, acoustic ones unscaled."""

    label: Array  # int32[A]: the word, 0 for none
    dest: Array  # int32[A]: the state that it leads to
    graph: Array  # float64[A]: cost of language model, pronunciation and transitions
    acoustic: Array  # float64[A]
    first: Array  # int64[A]: its frames are frames[first : stop]
    stop: Array  # int64[A]


class LatticeFinals(NamedTuple):
    """What it costs to end in each of the S states of a lattice, and the frames that this reads."""

    graph: Array  # float64[S]: infinity where a state is not final
    acoustic: Array  # float64[S]
    first: Array  # int64[S]: the frames are frames[first : stop]
    stop: Array  # int64[S]


class LatticeArrays(NamedTuple):
    """A lattice of S states."""

    begin: Array  # int64[S + 1]: the arcs of state s are begin[s] .. begin[s + 1]
    arcs: LatticeArcs
    finals: LatticeFinals
    frames: Array  # int32[]: labels of frames, which arcs and finals point into


@njit(cache=True, nogil=True)
def parse_bytes(body, n_states, compact, fill, lattice):
    """(4-byte words, arcs, frames) of a binary lattice; (-1, ..) where the buffer ends before it does, -2 where it is
    damaged. With `fill`, when all that is known, into arrays of the right sizes."""
    begin, arcs, finals, frames = lattice
    real, size = body.view(np.float32), body.shape[0]
    at, arc, n = np.int64(0), np.int64(0), np.int64(0)
    for s in range(n_states):
        if at + 3 > size:
            return -1, arc, n
        held = np.int64(body[at + 2]) if compact else np.int64(0)
        if held < 0:
            return -2, arc, n
        if fill:
            begin[s], finals.first[s], finals.stop[s] = arc, n, n + held
            finals.graph[s], finals.acoustic[s] = real[at], real[at + 1]
            for i in range(held):
                frames[n + i] = body[at + 3 + i]
        n += held
        at += 3 + held if compact else 2
        if at + 2 > size:
            return -1, arc, n
        many = body[at]
        at += 2
        if many < 0:
            return -2, arc, n
        for _ in range(many):
            if at + 5 > size:
                return -1, arc, n
            # a plain lattice has a frame, or none, in the place of its input label
            held = np.int64(body[at + 4]) if compact else np.int64(body[at] > 0)
            if held < 0:
                return -2, arc, n
            if fill:
                arcs.label[arc], arcs.first[arc], arcs.stop[arc] = body[at + 1], n, n + held
                arcs.graph[arc], arcs.acoustic[arc] = real[at + 2], real[at + 3]
                for i in range(held):
                    frames[n + i] = body[(at + 5 if compact else at) + i]
            n += held
            at += 5 + held if compact else 4
            if fill:
                arcs.dest[arc] = body[at]
            at += 1
            arc += 1
    if fill:
        begin[n_states] = arc
    return (at if at <= size else -1), arc, n


@njit(cache=True, nogil=True)
def format_bytes(lattice, body, real):
    """The inverse of parse_bytes for a CompactLattice. Returns the number of words written."""
    begin, arcs, finals, frames = lattice
    at = 0
    for s in range(begin.shape[0] - 1):
        real[at], real[at + 1] = finals.graph[s], finals.acoustic[s]
        body[at + 2] = finals.stop[s] - finals.first[s]
        at += 3
        for i in range(finals.first[s], finals.stop[s]):
            body[at] = frames[i]
            at += 1
        body[at], body[at + 1] = begin[s + 1] - begin[s], 0
        at += 2
        for arc in range(begin[s], begin[s + 1]):
            body[at] = body[at + 1] = arcs.label[arc]
            real[at + 2], real[at + 3] = arcs.graph[arc], arcs.acoustic[arc]
            body[at + 4] = arcs.stop[arc] - arcs.first[arc]
            at += 5
            for i in range(arcs.first[arc], arcs.stop[arc]):
                body[at] = frames[i]
                at += 1
            body[at] = arcs.dest[arc]
            at += 1
    return at


@njit(cache=True, nogil=True)
def number_states(lattice, start):
    """Of any lattice: (each state's number in a topological order, -1 off all paths; how many, or -1 for a cycle)."""
    begin, dest = lattice.begin, lattice.arcs.dest
    n = begin.shape[0] - 1
    number = np.full(n, -1, np.int32)
    colour = np.zeros(n, np.int8)  # 0 new, 1 on the way down, 2 done
    useful = np.zeros(n, np.bool_)
    stack = np.empty(n + 1, np.int32)
    cursor = np.empty(n + 1, np.int64)
    post = np.empty(n, np.int32)
    depth, done = 0, 0
    if start < 0 or start >= n:
        return number, 0
    stack[0], cursor[0], colour[start] = start, begin[start], 1
    while depth >= 0:
        s = stack[depth]
        if cursor[depth] < begin[s + 1]:
            t = dest[cursor[depth]]
            cursor[depth] += 1
            if colour[t] == 1:
                return number, -1
            if colour[t] == 0:
                depth += 1
                stack[depth], cursor[depth], colour[t] = t, begin[t], 1
            continue
        useful[s] = lattice.finals.graph[s] < INFINITY
        for arc in range(begin[s], begin[s + 1]):
            useful[s] |= useful[dest[arc]]
        colour[s] = 2
        post[done] = s
        done += 1
        depth -= 1
    kept = 0
    for i in range(done - 1, -1, -1):
        if useful[post[i]]:
            number[post[i]] = kept
            kept += 1
    return number, kept


@njit(cache=True, nogil=True)
def costs_to_end(lattice, acoustic_scale, penalty):
    """(beta, best): beta[s] = cost of the best path from s to the end, best[s] = its first arc, -1 where it ends in s.

    An arc costs graph + acoustic * acoustic_scale, and `penalty` more where it has a word."""
    begin, arcs, finals = lattice.begin, lattice.arcs, lattice.finals
    n = begin.shape[0] - 1
    beta, best = np.empty(n), np.empty(n, np.int64)
    for s in range(n - 1, -1, -1):
        beta[s], best[s] = INFINITY, -1
        if finals.graph[s] < INFINITY:
            beta[s] = finals.graph[s] + finals.acoustic[s] * acoustic_scale
        for arc in range(begin[s], begin[s + 1]):
            cost = arcs.graph[arc] + arcs.acoustic[arc] * acoustic_scale + beta[arcs.dest[arc]]
            if arcs.label[arc] != 0:
                cost += penalty
            if cost < beta[s]:
                beta[s], best[s] = cost, arc
    return beta, best


@njit(cache=True, nogil=True)
def follow(best, dest):
    """The arcs of the best path."""
    path = np.empty(best.shape[0], np.int64)
    s, n = 0, 0
    while best[s] >= 0:
        path[n] = best[s]
        s = dest[best[s]]
        n += 1
    return path[:n]


@njit(cache=True, nogil=True)
def oracle(lattice, reference):
    """Fewest errors against the reference over all paths, a dynamic programme over (state, words of the reference used
    up)."""
    begin, label, dest = lattice.begin, lattice.arcs.label, lattice.arcs.dest
    n, size = begin.shape[0] - 1, reference.shape[0] + 1
    far = np.int32(1 << 30)
    cost = np.full((n, size), far, np.int32)
    cost[0, 0] = 0
    least = far
    for s in range(n):
        for i in range(1, size):
            cost[s, i] = min(cost[s, i], cost[s, i - 1] + 1)
        if lattice.finals.graph[s] < INFINITY:
            least = min(least, cost[s, size - 1])
        for arc in range(begin[s], begin[s + 1]):
            t, word = dest[arc], label[arc]
            for i in range(size):
                cost[t, i] = min(cost[t, i], cost[s, i] + (word != 0))  # a word too many, or no word
                if word != 0 and i + 1 < size:
                    cost[t, i + 1] = min(cost[t, i + 1], cost[s, i] + (word != reference[i]))
    return least
