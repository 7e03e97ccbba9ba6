"""A decoder's state lattice to a lattice of words: for each word sequence within the beam its best path, once.

Subsets of states, each with the cost it lags behind the best of them, as in Kaldi's lattice-determinize-pruned. The
frames read since the subset's common beginning are a chain of nodes in one tree for the whole utterance: their common
beginning is a lowest common ancestor. Subsets are the same if they begin at the same frame with the same states and
costs. The best subset that is left is expanded first, so that where the room ends only the worst paths are missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.lattice import INFINITY, LatticeArrays, costs_to_end
from mdi.kernels.types import Array

# Costs within this are the same. Kaldi's delta.
DELTA = 1.0 / 1024.0


class Tree(NamedTuple):
    """The frames read on all ways, as nodes; 0 is the root, where the utterance begins."""

    parent: Array  # int32[room]: the node of the frame before, -1 for the root
    frame: Array  # int32[room]: label of the frame
    depth: Array  # int32[room]: frames from the root
    size: Array  # int64[1]


class Elements(NamedTuple):
    """The elements of all subsets, end to end."""

    state: Array  # int32[room]: of the state lattice, ascending within a subset
    graph: Array  # float64[room]: cost beyond that of the subset's best element
    acoustic: Array  # float64[room]
    node: Array  # int32[room]: the frames read so far
    size: Array  # int64[1]


class Subsets(NamedTuple):
    """The subsets, which are the states of the result; 0 is the start."""

    begin: Array  # int64[room]: the elements of k are begin[k] .. end[k]
    end: Array  # int64[room]
    root: Array  # int32[room]: the node down to which its elements have read the same frames
    cost: Array  # float64[room]: of the best path to its best element
    hashed: Array  # uint64[room]: of root's depth and states
    done: Array  # bool[room]: it has been expanded
    table: Array  # int32[2^b]: k in open addressing by its hash, at most half full, -1 where empty
    size: Array  # int64[1]


class Heap(NamedTuple):
    """A binary heap: the least cost comes first."""

    cost: Array  # float64[room]
    item: Array  # int64[room]
    size: Array  # int64[1]


class Closure(NamedTuple):
    """The subset being expanded and all that is reached from it without a word: by state s of the state lattice."""

    graph: Array  # float64[s]: cost beyond the subset's best element
    acoustic: Array  # float64[s]
    node: Array  # int32[s]
    stamp: Array  # int64[s]: the last subset that reached s
    queue: Heap  # states to be looked at, in topological order


class Steps(NamedTuple):
    """The arcs with a word that leave the closure."""

    key: Array  # int64[room]: word * 2^32 + state that the arc leads to
    graph: Array  # float64[room]: cost with that of the arc
    acoustic: Array  # float64[room]
    node: Array  # int32[room]
    size: Array  # int64[1]


class End(NamedTuple):
    """How a path ends."""

    cost: float
    graph: float
    acoustic: float
    node: int


class WordArcs(NamedTuple):
    """The arcs of the result, as they are found."""

    source: Array  # int32[room]
    word: Array  # int32[room]
    dest: Array  # int32[room]
    graph: Array  # float64[room]
    acoustic: Array  # float64[room]
    above: Array  # int32[room]: its frames are those below this node of the tree,
    node: Array  # int32[room]: down to this one
    size: Array  # int64[1]


class WordFinals(NamedTuple):
    """The final states of the result."""

    state: Array  # int32[room]
    graph: Array  # float64[room]
    acoustic: Array  # float64[room]
    above: Array  # int32[room]: as in `WordArcs`
    node: Array  # int32[room]
    size: Array  # int64[1]


class Search(NamedTuple):
    """What is determinised, and how far from the best path."""

    lattice: LatticeArrays
    frame: Array  # int32[arc]: label of the frame that it reads, 0 for none
    beta: Array  # float64[s]: cost of the best path from state s to the end
    limit: float  # no path may cost more


class Work(NamedTuple):
    """All that grows on the way. Nodes, elements, arcs and what waits have the same room each."""

    tree: Tree
    elements: Elements
    subsets: Subsets
    waiting: Heap  # subsets, by the cost of the best path through them
    closure: Closure
    steps: Steps
    arcs: WordArcs
    finals: WordFinals


class Determinized(NamedTuple):
    """The result: the arrays of its parts are as long as `size` says."""

    arcs: WordArcs
    finals: WordFinals
    tree: Tree
    n_states: int
    whole: bool  # False where room was lacking: the worst paths are left out


@njit(cache=True, nogil=True)
def _push(heap, cost, item):
    costs, items, size = heap
    i = size[0]
    size[0] = i + 1
    while i > 0:
        up = (i - 1) >> 1
        if costs[up] <= cost:
            break
        costs[i], items[i] = costs[up], items[up]
        i = up
    costs[i], items[i] = cost, item


@njit(cache=True, nogil=True)
def _pop(heap):
    """The item of the least cost."""
    costs, items, size = heap
    item = items[0]
    n = size[0] - 1
    size[0] = n
    last_cost, last_item = costs[n], items[n]
    i = 0
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and costs[down + 1] < costs[down]:
            down += 1
        if costs[down] >= last_cost:
            break
        costs[i], items[i] = costs[down], items[down]
        i = down
    costs[i], items[i] = last_cost, last_item
    return item


@njit(cache=True, nogil=True)
def _read_frame(tree, node, frame):
    """The node one frame further down; a node of its own each time."""
    leaf = tree.size[0]
    tree.size[0] = leaf + 1
    tree.parent[leaf], tree.frame[leaf], tree.depth[leaf] = node, frame, tree.depth[node] + 1
    return leaf


@njit(cache=True, nogil=True)
def _ancestor(tree, a, b):
    """The lowest node above both."""
    while a != b:
        if tree.depth[a] >= tree.depth[b]:
            a = tree.parent[a]
        else:
            b = tree.parent[b]
    return a


@njit(cache=True, nogil=True)
def _open(closure, k, subsets, elements):
    """Begins with the elements of subset k."""
    for i in range(subsets.begin[k], subsets.end[k]):
        s = np.int64(elements.state[i])
        closure.graph[s], closure.acoustic[s] = elements.graph[i], elements.acoustic[i]
        closure.node[s], closure.stamp[s] = elements.node[i], k
        _push(closure.queue, float(s), s)


@njit(cache=True, nogil=True)
def _close(search, k, ahead, closure, steps, tree):
    """Follows the arcs without a word from subset k, whose best path costs `ahead`, and collects those with one in
    `steps`, leaving out what cannot end within the limit. States come in topological order: each is complete when its
    turn comes. Returns the best `End` without a further word."""
    begin, arcs, finals, _ = search.lattice
    beta, frames, limit, queue = search.beta, search.frame, search.limit, closure.queue
    best = End(INFINITY, 0.0, 0.0, np.int32(0))
    n = 0
    while queue.size[0] > 0:
        s = _pop(queue)
        g, a, node = closure.graph[s], closure.acoustic[s], closure.node[s]
        if finals.graph[s] < INFINITY:
            cost = g + a + finals.graph[s] + finals.acoustic[s]
            if cost < best.cost:
                best = End(cost, g + finals.graph[s], a + finals.acoustic[s], node)
        for arc in range(begin[s], begin[s + 1]):
            t, word = np.int64(arcs.dest[arc]), arcs.label[arc]
            graph, acoustic = g + arcs.graph[arc], a + arcs.acoustic[arc]
            if ahead + graph + acoustic + beta[t] > limit:
                continue
            seen = closure.stamp[t] == k
            if word == 0 and seen and closure.graph[t] + closure.acoustic[t] <= graph + acoustic:
                continue
            frame = frames[arc]
            leaf = _read_frame(tree, node, frame) if frame != 0 else np.int64(node)
            if word == 0:
                if not seen:
                    closure.stamp[t] = k
                    _push(queue, float(t), t)
                closure.graph[t], closure.acoustic[t], closure.node[t] = graph, acoustic, leaf
            else:
                steps.key[n] = (np.int64(word) << 32) | t
                steps.graph[n], steps.acoustic[n], steps.node[n] = graph, acoustic, leaf
                n += 1
    steps.size[0] = n
    return best


@njit(cache=True, nogil=True)
def _gather(steps, order, i, elements):
    """Appends an element for each state that the word of the i-th step leads to: the best way there. Returns the first
    step, in this order by key, of another word."""
    word = steps.key[order[i]] >> 32
    while i < order.shape[0] and (steps.key[order[i]] >> 32) == word:
        key, pick = steps.key[order[i]], order[i]
        while i < order.shape[0] and steps.key[order[i]] == key:
            x = order[i]
            if steps.graph[x] + steps.acoustic[x] < steps.graph[pick] + steps.acoustic[pick]:
                pick = x
            i += 1
        e = elements.size[0]
        elements.size[0] = e + 1
        elements.state[e], elements.node[e] = np.int32(key & 0xFFFFFFFF), steps.node[pick]
        elements.graph[e], elements.acoustic[e] = steps.graph[pick], steps.acoustic[pick]
    return i


@njit(cache=True, nogil=True)
def _take_out_best(elements, first):
    """Makes the costs of the elements from `first` on relative to those of the best, which are returned."""
    best, graph, acoustic = INFINITY, 0.0, 0.0
    for e in range(first, elements.size[0]):
        if elements.graph[e] + elements.acoustic[e] < best:
            graph, acoustic = elements.graph[e], elements.acoustic[e]
            best = graph + acoustic
    for e in range(first, elements.size[0]):
        elements.graph[e] -= graph
        elements.acoustic[e] -= acoustic
    return graph, acoustic


@njit(cache=True, nogil=True)
def _hash(elements, first, depth):
    key = np.uint64(depth) + np.uint64(0x9E3779B97F4A7C15)
    for e in range(first, elements.size[0]):
        key = (key ^ np.uint64(elements.state[e])) * np.uint64(0x100000001B3)
    return key ^ (key >> np.uint64(31))


@njit(cache=True, nogil=True)
def _same(elements, x, y, n):
    """Whether the n elements from x on are those from y on, up to rounding."""
    for d in range(n):
        if (
            elements.state[x + d] != elements.state[y + d]
            or not abs(elements.graph[x + d] - elements.graph[y + d]) < DELTA
            or not abs(elements.acoustic[x + d] - elements.acoustic[y + d]) < DELTA
        ):
            return False
    return True


@njit(cache=True, nogil=True)
def _find(subsets, elements, tree, first, root):
    """(the subset with the elements from `first` on, -1 where there is none; its place in the table; its hash)."""
    n, depth = elements.size[0] - first, tree.depth[root]
    key = _hash(elements, first, depth)
    mask = subsets.table.shape[0] - 1
    place = np.int64(key & np.uint64(mask))
    while subsets.table[place] >= 0:
        k = np.int64(subsets.table[place])
        if (
            subsets.hashed[k] == key
            and subsets.end[k] - subsets.begin[k] == n
            and tree.depth[subsets.root[k]] == depth
            and _same(elements, subsets.begin[k], first, n)
        ):
            return k, place, key
        place = (place + 1) & mask
    return np.int64(-1), place, key


@njit(cache=True, nogil=True)
def _reach(elements, subsets, tree, first, root):
    """The subset with the elements from `first` on: one that is there, or a new one."""
    k, place, key = _find(subsets, elements, tree, first, root)
    if k < 0:
        k = subsets.size[0]
        subsets.size[0] = k + 1
        subsets.begin[k], subsets.end[k], subsets.root[k] = first, elements.size[0], root
        subsets.hashed[k], subsets.done[k], subsets.cost[k] = key, False, INFINITY
        subsets.table[place] = k
    else:
        elements.size[0] = first
    return k


@njit(cache=True, nogil=True)
def _common_root(tree, elements, first):
    """The node down to which the elements from `first` on have read the same frames."""
    root = elements.node[first]
    for e in range(first, elements.size[0]):
        root = _ancestor(tree, root, elements.node[e])
    return root


@njit(cache=True, nogil=True)
def _cost_to_end(elements, first, beta):
    """Of the best path from the elements from `first` on."""
    rest = INFINITY
    for e in range(first, elements.size[0]):
        rest = min(rest, elements.graph[e] + elements.acoustic[e] + beta[elements.state[e]])
    return rest


@njit(cache=True, nogil=True)
def _add_final(finals, state, root, end):
    n = finals.size[0]
    finals.size[0] = n + 1
    finals.state[n], finals.graph[n], finals.acoustic[n] = state, end.graph, end.acoustic
    finals.above[n], finals.node[n] = root, end.node


@njit(cache=True, nogil=True)
def _add_arc(arcs, source, word, dest, weight, root, node):
    n = arcs.size[0]
    arcs.size[0] = n + 1
    arcs.source[n], arcs.word[n], arcs.dest[n] = source, word, dest
    arcs.graph[n], arcs.acoustic[n] = weight
    arcs.above[n], arcs.node[n] = root, node


@njit(cache=True, nogil=True)
def _frames_of_arcs(lattice):
    arcs, frames = lattice.arcs, lattice.frames
    frame = np.zeros(arcs.first.shape[0], np.int32)
    for arc in range(frame.shape[0]):
        if arcs.stop[arc] > arcs.first[arc]:
            frame[arc] = frames[arcs.first[arc]]
    return frame


@njit(cache=True, nogil=True)
def _heap(room):
    return Heap(np.empty(room), np.empty(room, np.int64), np.zeros(1, np.int64))


@njit(cache=True, nogil=True)
def _begin(n_states, room):
    """The first subset: the start state at no cost, before any frame."""
    int32 = np.int32
    tree = Tree(np.empty(room, int32), np.empty(room, int32), np.empty(room, int32), np.ones(1, np.int64))
    tree.parent[0], tree.frame[0], tree.depth[0] = -1, 0, 0
    elements = Elements(
        np.empty(room, int32), np.empty(room), np.empty(room), np.empty(room, int32), np.ones(1, np.int64)
    )
    elements.state[0], elements.graph[0], elements.acoustic[0], elements.node[0] = 0, 0.0, 0.0, 0
    subsets = Subsets(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, int32), np.empty(room),
        np.empty(room, np.uint64), np.zeros(room, np.bool_), np.full(1 << (int(np.log2(room)) + 2), -1, int32),
        np.ones(1, np.int64),
    )  # fmt: skip
    subsets.begin[0], subsets.end[0], subsets.root[0], subsets.cost[0], subsets.hashed[0] = 0, 1, 0, 0.0, 0
    waiting = _heap(room)
    _push(waiting, 0.0, 0)
    closure = Closure(
        np.empty(n_states), np.empty(n_states), np.empty(n_states, int32), np.full(n_states, -1, np.int64),
        _heap(n_states),
    )  # fmt: skip
    steps = Steps(
        np.empty(room, np.int64), np.empty(room), np.empty(room), np.empty(room, int32), np.zeros(1, np.int64)
    )
    arcs = WordArcs(
        np.empty(room, int32), np.empty(room, int32), np.empty(room, int32), np.empty(room), np.empty(room),
        np.empty(room, int32), np.empty(room, int32), np.zeros(1, np.int64),
    )  # fmt: skip
    finals = WordFinals(
        np.empty(room, int32), np.empty(room), np.empty(room), np.empty(room, int32), np.empty(room, int32),
        np.zeros(1, np.int64),
    )  # fmt: skip
    return Work(tree, elements, subsets, waiting, closure, steps, arcs, finals)


@njit(cache=True, nogil=True)
def _finish(work, whole):
    """The result without the room that was not used."""
    tree, arcs, finals = work.tree, work.arcs, work.finals
    t, a, f = tree.size[0], arcs.size[0], finals.size[0]
    return Determinized(
        WordArcs(
            arcs.source[:a], arcs.word[:a], arcs.dest[:a], arcs.graph[:a], arcs.acoustic[:a], arcs.above[:a],
            arcs.node[:a], arcs.size,
        ),
        WordFinals(
            finals.state[:f], finals.graph[:f], finals.acoustic[:f], finals.above[:f], finals.node[:f], finals.size
        ),
        Tree(tree.parent[:t], tree.frame[:t], tree.depth[:t], tree.size),
        work.subsets.size[0],
        whole,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def determinize(lattice, beam, room):
    """The paths within `beam` of the best of a state lattice, its states in topological order, each arc with at most
    one frame. `room` is for so many nodes, elements, arcs and subsets that wait. Returns `Determinized`."""
    beta, _ = costs_to_end(lattice, 1.0, 0.0)
    search = Search(lattice, _frames_of_arcs(lattice), beta, beta[0] + beam)
    work = _begin(beta.shape[0], room)
    tree, elements, subsets, waiting, closure, steps, arcs, finals = work
    spare = lattice.arcs.dest.shape[0] + 1  # nodes, or elements, that one subset can need
    whole = True
    while waiting.size[0] > 0:
        k = _pop(waiting)
        if subsets.done[k]:
            continue
        subsets.done[k] = True
        if max(tree.size[0], elements.size[0], arcs.size[0], waiting.size[0]) + spare > room:
            whole = False
            break
        ahead, root = subsets.cost[k], subsets.root[k]
        _open(closure, k, subsets, elements)
        end = _close(search, k, ahead, closure, steps, tree)
        if ahead + end.cost <= search.limit:
            _add_final(finals, k, root, end)
        order = np.argsort(steps.key[: steps.size[0]], kind="mergesort")
        i = 0
        while i < order.shape[0]:
            word, first = steps.key[order[i]] >> 32, elements.size[0]
            i = _gather(steps, order, i, elements)
            graph, acoustic = _take_out_best(elements, first)
            node, rest = _common_root(tree, elements, first), _cost_to_end(elements, first, beta)
            dest = _reach(elements, subsets, tree, first, node)
            cost = ahead + graph + acoustic
            if cost < subsets.cost[dest] and not subsets.done[dest]:
                subsets.cost[dest] = cost
                _push(waiting, cost + rest, dest)
            _add_arc(arcs, k, word, dest, (graph, acoustic), root, node)
    return _finish(work, whole)


@njit(cache=True, nogil=True)
def collect_frames(tree, above, node):
    """(begin, frames): frames[begin[i] .. begin[i + 1]] are the labels from below node above[i] down to node[i]."""
    begin = np.zeros(node.shape[0] + 1, np.int64)
    for i in range(node.shape[0]):
        begin[i + 1] = begin[i] + tree.depth[node[i]] - tree.depth[above[i]]
    frames = np.empty(begin[-1], np.int32)
    for i in range(node.shape[0]):
        here = node[i]
        for at in range(begin[i + 1] - 1, begin[i] - 1, -1):
            frames[at] = tree.frame[here]
            here = tree.parent[here]
    return begin, frames
