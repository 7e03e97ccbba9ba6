"""Walking through a lattice and a back-off model at once: their product, a state for each history that a state of the
lattice is reached with."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.arpa import COST_ZERO, cost_of
from mdi.kernels.memory import pick
from mdi.kernels.trie import find_row
from mdi.kernels.types import Array

# Residual costs of the cheapest-path walk that differ by less are the same state.
RESIDUAL_STEP = 1e-5
# What a label of the lattice is to the model, beside a word.
NO_WORD, SILENT = -1, -2


class Position(NamedTuple):
    """Where a walk is: in a state of the lattice, after a history of the model."""

    state: int
    length: int  # j
    history: int  # h


class Costs(NamedTuple):
    """Of the cheapest-path walk: what it costs, beyond the common part, to be in the suffix of length i of the
    history. All 0 in the exact walk."""

    residual: Array  # float64[order]: infinity where the walk cannot be there
    steps: Array  # int64[order]: the same in steps of RESIDUAL_STEP, -1 for infinity


class Product(NamedTuple):
    """States x of the product, numbered as they are found, with room for N of them."""

    state: Array  # int32[N]: x is at this state of the lattice
    length: Array  # int8[N]: after a history of this length,
    history: Array  # int64[N]: this one,
    residual: Array  # float64[N, order]: with these `Costs`
    steps: Array  # int64[N, order]
    hashed: Array  # uint64[N]: of state, history and steps
    following: Array  # int32[N]: the one found before it at the same state of the lattice, -1 for none
    number: Array  # int32[N]: its number in the result
    table: Array  # int32[2^b]: x in open addressing by its hash, at most half full, -1 where empty
    newest: Array  # int32[states of the lattice]: the one found last at each, -1 for none
    size: Array  # int64[1]: how many there are


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
def _round(costs):
    for i in range(costs.residual.shape[0]):
        r = costs.residual[i]
        costs.steps[i] = np.int64(round(r / RESIDUAL_STEP)) if r < np.inf else -1


@njit(cache=True, nogil=True)
def _slot(product, at, steps):
    """(where the state is in the table, or the empty place where it belongs; its hash)."""
    mask = product.table.shape[0] - 1
    key = np.uint64(at.state) * np.uint64(0x9E3779B97F4A7C15)
    key += np.uint64(at.history) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(at.length)
    for i in range(steps.shape[0]):
        key = (key ^ np.uint64(steps[i])) * np.uint64(0x100000001B3)
    key ^= key >> np.uint64(29)
    place = np.int64(key & np.uint64(mask))
    while product.table[place] >= 0:
        x = product.table[place]
        if (
            product.hashed[x] == key
            and product.state[x] == at.state
            and product.length[x] == at.length
            and product.history[x] == at.history
        ):
            same = True
            for i in range(steps.shape[0]):
                same = same and product.steps[x, i] == steps[i]
            if same:
                return place, key
        place = (place + 1) & mask
    return place, key


@njit(cache=True, nogil=True)
def _reach(product, at, costs):
    """The state of the product at this position with these costs, a new one where there is none yet; -1 where there is
    no room for it."""
    place, key = _slot(product, at, costs.steps)
    if product.table[place] >= 0:
        return np.int64(product.table[place])
    x = product.size[0]
    if x == product.state.shape[0]:
        return np.int64(-1)
    product.size[0] = x + 1
    product.table[place] = x
    product.state[x], product.length[x], product.history[x], product.hashed[x] = at.state, at.length, at.history, key
    for i in range(costs.steps.shape[0]):
        product.residual[x, i], product.steps[x, i] = costs.residual[i], costs.steps[i]
    product.following[x] = product.newest[at.state]
    product.newest[at.state] = x
    return x


@njit(cache=True, nogil=True)
def _empty_product(n_states, order, room):
    return Product(
        np.empty(room, np.int32),
        np.empty(room, np.int8),
        np.empty(room, np.int64),
        np.empty((room, order)),
        np.empty((room, order), np.int64),
        np.empty(room, np.uint64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.full(1 << (int(math.log2(room)) + 2), -1, np.int32),
        np.full(n_states, -1, np.int32),
        np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def compose(lattice, word_of, model, cheapest, room, arc_room):
    """The product of a lattice, its states in topological order, with a model (`ModelArrays`), in room for so many
    states and arcs.

    word_of[label] is the model's word, NO_WORD where it has none: such arcs are dropped. Label 0 passes without a word.
    Returns `Composed`."""
    begin, arcs = lattice.begin, lattice.arcs
    n_states, order = begin.shape[0] - 1, model.order
    product = _empty_product(n_states, order, room)
    out_begin, out_state, out_final = np.empty(room + 1, np.int64), np.empty(room, np.int32), np.empty(room)
    out_arc, out_cost, out_dest = np.empty(arc_room, np.int64), np.empty(arc_room), np.empty(arc_room, np.int32)
    after = Costs(np.zeros(order), np.zeros(order, np.int64))
    first_cost, j, h = _start(model, cheapest, after.residual)
    if cheapest:
        _round(after)
    _reach(product, Position(0, j, h), after)
    done, n_arcs, dropped = 0, 0, 0
    full = False
    for s in range(n_states):
        x = np.int64(product.newest[s])
        while x >= 0 and not full:
            product.number[x] = done
            out_begin[done], out_state[done], out_final[done] = n_arcs, s, np.inf
            residual = product.residual[x]
            # The arcs of the state, and at the place of one more its </s>.
            for arc in range(begin[s], begin[s + 1] + np.isfinite(lattice.finals.graph[s])):
                last = arc == begin[s + 1]
                w = model.eos if last else SILENT if arcs.label[arc] == 0 else np.int64(word_of[arcs.label[arc]])
                cost, j, h = 0.0, np.int64(product.length[x]), product.history[x]
                if w == NO_WORD:
                    dropped += 1
                    continue
                if w == SILENT:
                    after.residual[:] = residual
                elif cheapest:
                    cost, j, h = _cheapest_step(model, j, h, w, residual, after.residual)
                    if not last:
                        cost, j, h = _back_off_everywhere(model, j, h, after.residual)
                else:
                    cost, j, h = _step(model, j, h, w)
                if s == 0:
                    cost += first_cost
                if last:
                    out_final[done] = cost
                    continue
                if cheapest:
                    _round(after)
                to = Position(np.int64(arcs.dest[arc]), j, h)
                y = _reach(product, to, after) if n_arcs < arc_room else np.int64(-1)
                full = y < 0
                if full:
                    break
                out_arc[n_arcs], out_cost[n_arcs], out_dest[n_arcs] = arc, cost, y
                n_arcs += 1
            done += 1
            x = np.int64(product.following[x])
    out_begin[done] = n_arcs
    for arc in range(n_arcs):
        out_dest[arc] = product.number[out_dest[arc]]
    return Composed(
        out_begin[: done + 1],
        out_arc[:n_arcs],
        out_cost[:n_arcs],
        out_dest[:n_arcs],
        out_state[:done],
        out_final[:done],
        -1 if full else dropped,
    )
