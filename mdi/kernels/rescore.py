"""Walking through a lattice and a back-off model at once.

Tuples are those of mdi/lm/trie.py without their filler: [0] belongs to order 1, and for bows and backs to histories of
length 1.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# What an ARPA file writes for a probability of zero, -99, in natural logarithms.
COST_ZERO = 99.0 * math.log(10.0)
# Residual costs of the cheapest-path walk that differ by less are the same state.
RESIDUAL_STEP = 1e-5


@njit(cache=True, nogil=True, inline="always")
def _cost(p):
    return min(-math.log(p), COST_ZERO) if p > 0.0 else COST_ZERO


@njit(cache=True, nogil=True)
def _row(begin, word, h, w):
    """The row of hw, or -1."""
    lo, end = np.int64(begin[h]), np.int64(begin[h + 1])
    hi = end
    while lo < hi:
        mid = (lo + hi) >> 1
        if word[mid] < w:
            lo = mid + 1
        else:
            hi = mid
    return lo if lo < end and word[lo] == w else np.int64(-1)


@njit(cache=True, nogil=True)
def _after(j, row, order, suffixes, as_hists):
    """(length, history) after the row of order j + 1: its last order - 1 words."""
    if j + 1 < order:
        return j + 1, np.int64(as_hists[j][row])
    if order == 1:
        return 0, np.int64(0)
    return order - 1, np.int64(as_hists[order - 2][suffixes[order - 1][row]])


@njit(cache=True, nogil=True)
def _shorten(j, h, begins, bows, backs):
    """A history that nothing follows only backs off: (cost of that, length, history)."""
    cost = 0.0
    while j > 0 and begins[j][h] == begins[j][h + 1]:
        cost += _cost(bows[j - 1][h])
        h = np.int64(backs[j - 1][h])
        j -= 1
    return cost, j, h


@njit(cache=True, nogil=True)
def _step(w, order, j, h, begins, words, suffixes, as_hists, backs, ps, bows):
    """(cost of w after the history, length and history after it): the model's own score, Eq. 1 of the paper."""
    cost = 0.0
    while True:
        row = _row(begins[j], words[j], h, w)
        if row >= 0:
            cost += _cost(ps[j][row])
            j, h = _after(j, row, order, suffixes, as_hists)
            shift, j, h = _shorten(j, h, begins, bows, backs)
            return cost + shift, j, h
        if j == 0:
            return COST_ZERO, 0, np.int64(0)
        cost += _cost(bows[j - 1][h])
        h = np.int64(backs[j - 1][h])
        j -= 1


@njit(cache=True, nogil=True)
def _cheapest_step(w, last, order, j, h, residual, begins, words, suffixes, as_hists, backs, ps, bows, after):
    """The same when backing off is allowed everywhere, as on the epsilon arcs of a decoding graph.

    residual[i] is the least cost, beyond the common part, of standing in the suffix of length i of the history. Fills
    `after` with that of the next history (nothing where `last`, for </s>) and returns (common part, length,
    history)."""
    after[:] = np.inf
    best, best_j, best_h = np.inf, -1, np.int64(0)
    while True:
        row = _row(begins[j], words[j], h, w)
        if row >= 0:
            cost = residual[j] + _cost(ps[j][row])
            to, history = _after(j, row, order, suffixes, as_hists)
            if to > best_j:
                best_j, best_h = to, history
            if cost < after[to]:
                after[to] = cost
            if cost < best:
                best = cost
        if j == 0:
            break
        h = np.int64(backs[j - 1][h])
        j -= 1
    if best_j < 0:  # not even a 1-gram
        after[0] = 0.0
        return COST_ZERO, 0, np.int64(0)
    if last:
        return best, best_j, best_h
    j, h = best_j, best_h
    while j > 0:  # every history may back off
        down = after[j] + _cost(bows[j - 1][h])
        if down < after[j - 1]:
            after[j - 1] = down
        nothing = begins[j][h] == begins[j][h + 1]
        h = np.int64(backs[j - 1][h])
        if nothing and j == best_j:
            after[j] = np.inf
            best_j, best_h = j - 1, h
        j -= 1
    best = after.min()
    for i in range(order):
        after[i] -= best
    return best, best_j, best_h


@njit(cache=True, nogil=True)
def _round(residual, steps):
    for i in range(residual.shape[0]):
        steps[i] = np.int64(round(residual[i] / RESIDUAL_STEP)) if residual[i] < np.inf else -1


@njit(cache=True, nogil=True)
def _slot(table, s, j, h, steps, state_of, length_of, history_of, steps_of, hashes):
    """Where the product state is in the table, or the empty place where it belongs; and its hash."""
    mask = table.shape[0] - 1
    key = np.uint64(s) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(h) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(j)
    for i in range(steps.shape[0]):
        key = (key ^ np.uint64(steps[i])) * np.uint64(0x100000001B3)
    key ^= key >> np.uint64(29)
    place = np.int64(key & np.uint64(mask))
    while table[place] >= 0:
        x = table[place]
        if hashes[x] == key and state_of[x] == s and length_of[x] == j and history_of[x] == h:
            same = True
            for i in range(steps.shape[0]):
                same = same and steps_of[x, i] == steps[i]
            if same:
                return place, key
        place = (place + 1) & mask
    return place, key


@njit(cache=True, nogil=True)
def compose(
    begin, label, dest, is_final, word_of, cheapest, bos, eos, order,
    begins, words, suffixes, as_hists, backs, ps, bows, room, arc_room,
):  # fmt: skip
    """The product of a lattice, its states in topological order, with a model: a state for each history it is reached
    with.

    word_of[label] is the model's word, -1 where it has none: such arcs are dropped. Label 0 passes without a word.
    Returns (begin, arc of the lattice, cost by the model, destination) of the arcs, (state of the lattice, cost of
    </s>) of the states, and how many arcs were dropped, -1 where there was no room. States are in topological order
    again."""
    state_of, length_of = np.empty(room, np.int32), np.empty(room, np.int8)
    history_of, hashes = np.empty(room, np.int64), np.empty(room, np.uint64)
    residual_of, steps_of = np.empty((room, order)), np.empty((room, order), np.int64)
    following, number = np.empty(room, np.int32), np.empty(room, np.int32)
    table = np.full(1 << (int(math.log2(room)) + 2), -1, np.int32)
    newest = np.full(begin.shape[0], -1, np.int32)
    out_begin, out_state, out_final = np.empty(room + 1, np.int64), np.empty(room, np.int32), np.empty(room)
    out_arc, out_cost, out_dest = np.empty(arc_room, np.int64), np.empty(arc_room), np.empty(arc_room, np.int32)
    residual, after = np.zeros(order), np.zeros(order)
    steps = np.zeros(order, np.int64)

    j, h = (1, np.int64(as_hists[0][bos])) if order > 1 else (0, np.int64(0))
    first_cost = 0.0
    if cheapest:
        residual[:] = np.inf
        residual[j] = 0.0
        if j == 1:
            residual[0] = _cost(bows[0][h])
            if begins[1][h] == begins[1][h + 1]:  # nothing follows <s>
                first_cost, j, h = residual[0], 0, np.int64(0)
                residual[0], residual[1] = 0.0, np.inf
        _round(residual, steps)
    else:
        first_cost, j, h = _shorten(j, h, begins, bows, backs)
    place, key = _slot(table, 0, j, h, steps, state_of, length_of, history_of, steps_of, hashes)
    table[place] = 0
    state_of[0], length_of[0], history_of[0], hashes[0], following[0] = 0, j, h, key, -1
    residual_of[0], steps_of[0] = residual, steps
    newest[0] = 0
    n, processed, arcs, dropped = 1, 0, 0, 0
    full = False
    for s in range(begin.shape[0] - 1):
        x = newest[s]
        while x >= 0 and not full:
            number[x] = processed
            out_begin[processed], out_state[processed], out_final[processed] = arcs, s, np.inf
            j, h = np.int64(length_of[x]), history_of[x]
            # The arcs of the state, and at the place of one more its </s>.
            for arc in range(begin[s], begin[s + 1] + is_final[s]):
                last = arc == begin[s + 1]
                w = eos if last else (np.int32(-2) if label[arc] == 0 else word_of[label[arc]])
                cost, to_j, to_h = 0.0, j, h
                if w == -1:
                    dropped += 1
                    continue
                if w == -2:
                    after[:] = residual_of[x]
                elif cheapest:
                    cost, to_j, to_h = _cheapest_step(
                        w, last, order, j, h, residual_of[x], begins, words, suffixes, as_hists, backs, ps, bows, after
                    )
                else:
                    cost, to_j, to_h = _step(w, order, j, h, begins, words, suffixes, as_hists, backs, ps, bows)
                if s == 0:
                    cost += first_cost
                if last:
                    out_final[processed] = cost
                    continue
                if cheapest:
                    _round(after, steps)
                t = dest[arc]
                place, key = _slot(table, t, to_j, to_h, steps, state_of, length_of, history_of, steps_of, hashes)
                y = table[place]
                full = arcs == arc_room or (y < 0 and n == room)
                if full:
                    break
                if y < 0:
                    y = n
                    n += 1
                    table[place] = y
                    state_of[y], length_of[y], history_of[y], hashes[y] = t, to_j, to_h, key
                    residual_of[y], steps_of[y] = after, steps
                    following[y] = newest[t]
                    newest[t] = y
                out_arc[arcs], out_cost[arcs], out_dest[arcs] = arc, cost, y
                arcs += 1
            processed += 1
            x = following[x]
    out_begin[processed] = arcs
    for arc in range(arcs):
        out_dest[arc] = number[out_dest[arc]]
    return (
        out_begin[: processed + 1], out_arc[:arcs], out_cost[:arcs], out_dest[:arcs],
        out_state[:processed], out_final[:processed], -1 if full else dropped,
    )  # fmt: skip
