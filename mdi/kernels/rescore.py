"""Walking through a lattice and a back-off model at once: their product, a state for each history that a state of the
lattice is reached with."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.arpa import COST_ZERO, cost_of
from mdi.kernels.memory import pick
from mdi.kernels.numbering import empty_table, number_of
from mdi.kernels.trie import find_row
from mdi.kernels.types import Array

# Residual costs of the cheapest-path walk that differ by less are the same state.
RESIDUAL_STEP = 1e-5
# What a label of the lattice is to the model, beside a word.
NO_WORD, SILENT = -1, -2


class Composed(NamedTuple):
    """The product as a lattice, states in topological order."""

    begin: Array  # int64[states + 1]: the arcs of x are begin[x] .. begin[x + 1]
    arc: Array  # int64[arcs]: the arc of the lattice
    cost: Array  # float64[arcs]: by the model
    dest: Array  # int32[arcs]
    state: Array  # int32[states]: the state of the lattice
    final: Array  # float64[states]: cost of </s>, infinity where the lattice's state is not final
    dropped: int  # arcs left out because the model lacks their word; -1 where there was no room


@njit(cache=True, nogil=True)
def _after(model, k, row):
    """(length, history) after the given row of order k: its last order - 1 words."""
    if k < model.order:
        return k, np.int64(pick(model.trie.as_hist, k)[row])
    if k == 1:
        return 0, np.int64(0)
    return k - 1, np.int64(pick(model.trie.as_hist, k - 1)[pick(model.trie.suffix, k)[row]])


@njit(cache=True, nogil=True)
def _row(model, j, h, w):
    return find_row(pick(model.trie.begin, j + 1), pick(model.trie.word, j + 1), h, w)


@njit(cache=True, nogil=True)
def _is_leaf(model, j, h):
    """Whether nothing follows the history."""
    return pick(model.trie.begin, j + 1)[h] == pick(model.trie.begin, j + 1)[h + 1]


@njit(cache=True, nogil=True)
def _shorten(model, j, h):
    """A history that nothing follows only backs off: (cost of that, length, history)."""
    cost = 0.0
    while j > 0 and _is_leaf(model, j, h):
        cost += cost_of(pick(model.bow, j)[h])
        h = np.int64(pick(model.trie.back, j)[h])
        j -= 1
    return cost, j, h


@njit(cache=True, nogil=True)
def _step(model, j, h, w):
    """(cost of w after the history, length and history after it): the model's own score, Eq. 1 of the paper."""
    cost = 0.0
    row = _row(model, j, h, w)
    while row < 0 and j > 0:
        cost += cost_of(pick(model.bow, j)[h])
        h = np.int64(pick(model.trie.back, j)[h])
        j -= 1
        row = _row(model, j, h, w)
    if row < 0:
        return COST_ZERO, 0, np.int64(0)
    cost += cost_of(pick(model.p, j + 1)[row])
    j, h = _after(model, j + 1, row)
    shift, j, h = _shorten(model, j, h)
    return cost + shift, j, h


@njit(cache=True, nogil=True)
def _cheapest_step(model, j, h, w, residual, after):
    """The same when backing off is allowed everywhere, as on the epsilon arcs of a decoding graph: before w by the
    history's `residual`, afterwards by `_back_off_everywhere`. Fills `after` with what it costs to be in each suffix of
    the next history right after w; returns (the least of that, length, history)."""
    after[:] = np.inf
    best, best_j, best_h = np.inf, -1, np.int64(0)
    while True:
        row = _row(model, j, h, w)
        if row >= 0:
            cost = residual[j] + cost_of(pick(model.p, j + 1)[row])
            to, history = _after(model, j + 1, row)
            if to > best_j:
                best_j, best_h = to, history
            if cost < after[to]:
                after[to] = cost
            if cost < best:
                best = cost
        if j == 0:
            break
        h = np.int64(pick(model.trie.back, j)[h])
        j -= 1
    if best_j < 0:  # not even a 1-gram
        after[0] = COST_ZERO
        return COST_ZERO, 0, np.int64(0)
    return best, best_j, best_h


@njit(cache=True, nogil=True)
def _back_off_everywhere(model, length, history, residual):
    """Every history may back off: lowers `residual` to what that makes of it and takes out the common part. A history
    that nothing follows is left. Returns (common part, length, history)."""
    j, h = length, history
    while j > 0:
        down = residual[j] + cost_of(pick(model.bow, j)[h])
        if down < residual[j - 1]:
            residual[j - 1] = down
        leaf = _is_leaf(model, j, h)
        h = np.int64(pick(model.trie.back, j)[h])
        if leaf and j == length:
            residual[j] = np.inf
            length, history = j - 1, h
        j -= 1
    best = residual.min()
    for i in range(residual.shape[0]):
        residual[i] -= best
    return best, length, history


@njit(cache=True, nogil=True)
def _start(model, cheapest, residual):
    """(cost, length, history) where every sentence begins, after <s>; fills `residual` for the cheapest-path walk."""
    j, h = (1, np.int64(pick(model.trie.as_hist, 1)[model.bos])) if model.order > 1 else (0, np.int64(0))
    if not cheapest:
        return _shorten(model, j, h)
    residual[:] = np.inf
    residual[j] = 0.0
    return _back_off_everywhere(model, j, h, residual)


@njit(cache=True, nogil=True)
def _put_steps(residual, steps):
    """Residual costs in steps of RESIDUAL_STEP, -1 for infinity."""
    for i in range(residual.shape[0]):
        steps[i] = np.int64(round(residual[i] / RESIDUAL_STEP)) if residual[i] < np.inf else -1


@njit(cache=True, nogil=True)
def compose(lattice, word_of, model, cheapest, room, arc_room):
    """The product of a lattice, its states in topological order, with a model (`ModelArrays`), in room for so many
    states and arcs.

    word_of[label] is the model's word, NO_WORD where it has none: such arcs are dropped. Label 0 passes without a word.
    Returns `Composed`."""
    begin, arcs, order = lattice.begin, lattice.arcs, model.order
    # States x of the product, as they are found: (state of the lattice, length and history in the model, the residual
    # costs in steps). residuals[x, i], of the cheapest-path walk: what it costs, beyond the common part, to be in the
    # suffix of length i of the history, infinity where it cannot be. newest[s]: the x found last at the lattice's state
    # s; following[x]: the one before it, -1 for none; number[x]: its number in the result.
    found, residuals, table = np.empty((room, 3 + order), np.int64), np.empty((room, order)), empty_table(room)
    following, number = np.empty(room, np.int32), np.empty(room, np.int32)
    newest = np.full(begin.shape[0], -1, np.int32)
    out_begin, out_state, out_final = np.empty(room + 1, np.int64), np.empty(room, np.int32), np.empty(room)
    out_arc, out_cost, out_dest = np.empty(arc_room, np.int64), np.empty(arc_room), np.empty(arc_room, np.int32)
    to, after = np.zeros(3 + order, np.int64), np.zeros(order)
    first_cost, to[1], to[2] = _start(model, cheapest, after)
    if cheapest:
        _put_steps(after, to[3:])
    n = 1 + number_of(to, found, 0, table)
    residuals[0], following[0], newest[0] = after, -1, 0
    done, n_arcs, dropped, full = 0, 0, 0, False
    for s in range(begin.shape[0] - 1):
        x = np.int64(newest[s])
        while x >= 0 and not full:
            number[x] = done
            out_begin[done], out_state[done], out_final[done] = n_arcs, s, np.inf
            # The arcs of the state, and at the place of one more its </s>.
            for arc in range(begin[s], begin[s + 1] + np.isfinite(lattice.finals.graph[s])):
                last = arc == begin[s + 1]
                w = model.eos if last else SILENT if arcs.label[arc] == 0 else np.int64(word_of[arcs.label[arc]])
                cost, j, h = 0.0, found[x, 1], found[x, 2]
                if w == NO_WORD:
                    dropped += 1
                    continue
                if w == SILENT:
                    after[:] = residuals[x]
                elif cheapest:
                    cost, j, h = _cheapest_step(model, j, h, w, residuals[x], after)
                    if not last:
                        cost, j, h = _back_off_everywhere(model, j, h, after)
                else:
                    cost, j, h = _step(model, j, h, w)
                if s == 0:
                    cost += first_cost
                if last:
                    out_final[done] = cost
                    continue
                to[0], to[1], to[2] = arcs.dest[arc], j, h
                if cheapest:
                    _put_steps(after, to[3:])
                y = number_of(to, found, n, table) if n_arcs < arc_room else np.int64(-1)
                full = y < 0
                if full:
                    break
                if y == n:
                    residuals[y], following[y] = after, newest[arcs.dest[arc]]
                    newest[arcs.dest[arc]] = y
                    n += 1
                out_arc[n_arcs], out_cost[n_arcs], out_dest[n_arcs] = arc, cost, y
                n_arcs += 1
            done += 1
            x = np.int64(following[x])
    out_begin[done] = n_arcs
    for arc in range(n_arcs):
        out_dest[arc] = number[out_dest[arc]]
    return Composed(
        out_begin[: done + 1],
        out_arc[:n_arcs],
        out_cost[:n_arcs],
        out_dest[:n_arcs],
        out_state[:done],
        out_final[:done],
        -1 if full else dropped,
    )
