"""A decoder's state lattice to a lattice of words: for each word sequence within the beam its best path, once.

Subsets of states, each with the cost it lags behind the best of them, as in Kaldi's lattice-determinize-pruned. The
frames read since the subset's common beginning are a chain of nodes in one tree for the whole utterance (`parent`,
`frame`, `depth`): their common beginning is a lowest common ancestor. Subsets are the same if they begin at the same
frame with the same states and costs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Costs within this are the same. Kaldi's delta.
DELTA = 1.0 / 1024.0


@njit(cache=True, nogil=True)
def _push(cost, item, heap_cost, heap_item, size):
    """Adds to a binary heap, which has one item more then."""
    i = size
    while i > 0:
        up = (i - 1) >> 1
        if heap_cost[up] <= cost:
            break
        heap_cost[i], heap_item[i] = heap_cost[up], heap_item[up]
        i = up
    heap_cost[i], heap_item[i] = cost, item


@njit(cache=True, nogil=True)
def _pop(heap_cost, heap_item, size):
    """Takes the least; the heap has one item less then."""
    cost, item = heap_cost[0], heap_item[0]
    last_cost, last_item = heap_cost[size - 1], heap_item[size - 1]
    n, i = size - 1, 0
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and heap_cost[down + 1] < heap_cost[down]:
            down += 1
        if heap_cost[down] >= last_cost:
            break
        heap_cost[i], heap_item[i] = heap_cost[down], heap_item[down]
        i = down
    heap_cost[i], heap_item[i] = last_cost, last_item
    return cost, item


@njit(cache=True, nogil=True)
def _ancestor(a, b, parent, depth):
    while a != b:
        if depth[a] >= depth[b]:
            a = parent[a]
        else:
            b = parent[b]
    return a


@njit(cache=True, nogil=True)
def determinize(begin, frame_label, word, dest, graph, acoustic, final_graph, final_acoustic, beam, room):
    """States of the input are in topological order, 0 is the start; frame_label 0 and word 0 are epsilon.

    Returns the arcs (source, word, graph, acoustic, destination, node of the tree where their frames begin, node where
    these end), the finals (state, graph, acoustic, first and last node), the tree, the number of states, and whether
    `room`, for nodes, elements and arcs each, was enough: where it was not, the worst paths are left out."""
    n = begin.shape[0] - 1
    inf = np.inf
    beta = np.empty(n)
    for s in range(n - 1, -1, -1):
        best = final_graph[s] + final_acoustic[s] if final_graph[s] < inf else inf
        for arc in range(begin[s], begin[s + 1]):
            cost = graph[arc] + acoustic[arc] + beta[dest[arc]]
            if cost < best:
                best = cost
        beta[s] = best
    limit = beta[0] + beam

    parent, frame, depth = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)  # the tree
    parent[0], frame[0], depth[0] = -1, 0, 0
    nodes = 1
    e_state, e_graph, e_acoustic, e_node = (
        np.empty(room, np.int32),
        np.empty(room),
        np.empty(room),
        np.empty(room, np.int32),
    )
    elements = 1  # of all subsets, end to end
    e_state[0], e_graph[0], e_acoustic[0], e_node[0] = 0, 0.0, 0.0, 0
    s_begin, s_end, s_root = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32)
    s_cost, s_hash, s_done = np.empty(room), np.empty(room, np.uint64), np.zeros(room, np.bool_)
    s_begin[0], s_end[0], s_root[0], s_cost[0], s_hash[0] = 0, 1, 0, 0.0, 0
    subsets = 1
    table = np.full(1 << (int(np.log2(room)) + 2), -1, np.int32)
    mask = table.shape[0] - 1
    a_source, a_word, a_dest = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    a_graph, a_acoustic = np.empty(room), np.empty(room)
    a_first, a_last = np.empty(room, np.int32), np.empty(room, np.int32)
    arcs = 0
    f_state, f_first, f_last = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    f_graph, f_acoustic = np.empty(room), np.empty(room)
    finals = 0
    heap_cost, heap_item = np.empty(room), np.empty(room, np.int64)
    heap_cost[0], heap_item[0] = beta[0], 0
    heaped = 1
    # of the subset that is being worked on
    c_graph, c_acoustic, c_node, stamp = np.empty(n), np.empty(n), np.empty(n, np.int32), np.full(n, -1, np.int64)
    queue_cost, queue_item = np.empty(n), np.empty(n, np.int64)
    w_key, w_graph, w_acoustic, w_node = (
        np.empty(room, np.int64),
        np.empty(room),
        np.empty(room),
        np.empty(room, np.int32),
    )
    spare = begin[n] + 1  # nodes, or elements, that one subset can need

    whole = True
    while heaped > 0:
        _, k = _pop(heap_cost, heap_item, heaped)
        heaped -= 1
        if s_done[k]:
            continue
        s_done[k] = True
        if max(nodes, elements, arcs, heaped) + spare > room:
            whole = False
            break
        ahead, root = s_cost[k], s_root[k]
        queued, found = 0, 0
        for i in range(s_begin[k], s_end[k]):
            s = e_state[i]
            c_graph[s], c_acoustic[s], c_node[s], stamp[s] = e_graph[i], e_acoustic[i], e_node[i], k
            _push(float(s), s, queue_cost, queue_item, queued)
            queued += 1
        end_cost, end_graph, end_acoustic, end_node = inf, 0.0, 0.0, 0
        while queued > 0:  # states in topological order: each is complete when its turn comes
            _, s = _pop(queue_cost, queue_item, queued)
            queued -= 1
            g, a, node = c_graph[s], c_acoustic[s], c_node[s]
            if final_graph[s] < inf:
                cost = g + a + final_graph[s] + final_acoustic[s]
                if cost < end_cost:
                    end_cost, end_graph, end_acoustic, end_node = cost, g + final_graph[s], a + final_acoustic[s], node
            for arc in range(begin[s], begin[s + 1]):
                t = dest[arc]
                to_graph, to_acoustic = g + graph[arc], a + acoustic[arc]
                if ahead + to_graph + to_acoustic + beta[t] > limit:
                    continue
                if word[arc] == 0 and stamp[t] == k and c_graph[t] + c_acoustic[t] <= to_graph + to_acoustic:
                    continue
                leaf = node
                if frame_label[arc] != 0:
                    leaf = nodes
                    parent[leaf], frame[leaf], depth[leaf] = node, frame_label[arc], depth[node] + 1
                    nodes += 1
                if word[arc] == 0:
                    if stamp[t] != k:
                        stamp[t] = k
                        _push(float(t), t, queue_cost, queue_item, queued)
                        queued += 1
                    c_graph[t], c_acoustic[t], c_node[t] = to_graph, to_acoustic, leaf
                else:
                    w_key[found] = (np.int64(word[arc]) << 32) | np.int64(t)
                    w_graph[found], w_acoustic[found], w_node[found] = to_graph, to_acoustic, leaf
                    found += 1
        if ahead + end_cost <= limit:
            f_state[finals], f_graph[finals], f_acoustic[finals] = k, end_graph, end_acoustic
            f_first[finals], f_last[finals] = root, end_node
            finals += 1
        order = np.argsort(w_key[:found], kind="mergesort")
        i = 0
        while i < found:  # each word
            label = w_key[order[i]] >> 32
            first_element = elements
            best, best_i = inf, -1
            while i < found and (w_key[order[i]] >> 32) == label:  # each state that it leads to
                key = w_key[order[i]]
                pick = order[i]
                while i < found and w_key[order[i]] == key:
                    x = order[i]
                    if w_graph[x] + w_acoustic[x] < w_graph[pick] + w_acoustic[pick]:
                        pick = x
                    i += 1
                e_state[elements], e_graph[elements] = np.int32(key & 0xFFFFFFFF), w_graph[pick]
                e_acoustic[elements], e_node[elements] = w_acoustic[pick], w_node[pick]
                if w_graph[pick] + w_acoustic[pick] < best:
                    best, best_i = w_graph[pick] + w_acoustic[pick], elements
                elements += 1
            best_graph, best_acoustic = e_graph[best_i], e_acoustic[best_i]
            top = e_node[first_element]
            rest = inf
            for e in range(first_element, elements):
                e_graph[e] -= best_graph
                e_acoustic[e] -= best_acoustic
                top = _ancestor(top, e_node[e], parent, depth)
                rest = min(rest, e_graph[e] + e_acoustic[e] + beta[e_state[e]])
            key_hash = np.uint64(depth[top]) + np.uint64(0x9E3779B97F4A7C15)
            for e in range(first_element, elements):
                key_hash = (key_hash ^ np.uint64(e_state[e])) * np.uint64(0x100000001B3)
            key_hash ^= key_hash >> np.uint64(31)
            place = np.int64(key_hash & np.uint64(mask))
            target = -1
            while table[place] >= 0:
                other = table[place]
                if s_hash[other] == key_hash and s_end[other] - s_begin[other] == elements - first_element:
                    same = depth[s_root[other]] == depth[top]
                    for d in range(elements - first_element):
                        x, y = s_begin[other] + d, first_element + d
                        same = same and e_state[x] == e_state[y]
                        same = (
                            same and abs(e_graph[x] - e_graph[y]) < DELTA and abs(e_acoustic[x] - e_acoustic[y]) < DELTA
                        )
                    if same:
                        target = other
                        break
                place = (place + 1) & mask
            cost = ahead + best_graph + best_acoustic
            if target >= 0:
                elements = first_element  # it was there already
                if cost < s_cost[target] and not s_done[target]:
                    s_cost[target] = cost
                    _push(cost + rest, target, heap_cost, heap_item, heaped)
                    heaped += 1
            else:
                target = subsets
                subsets += 1
                s_begin[target], s_end[target], s_root[target] = first_element, elements, top
                s_cost[target], s_hash[target], s_done[target] = cost, key_hash, False
                table[place] = target
                _push(cost + rest, target, heap_cost, heap_item, heaped)
                heaped += 1
            a_source[arcs], a_word[arcs], a_dest[arcs] = k, label, target
            a_graph[arcs], a_acoustic[arcs] = best_graph, best_acoustic
            a_first[arcs], a_last[arcs] = root, top
            arcs += 1
    return (
        (
            a_source[:arcs],
            a_word[:arcs],
            a_graph[:arcs],
            a_acoustic[:arcs],
            a_dest[:arcs],
            a_first[:arcs],
            a_last[:arcs],
        ),
        (f_state[:finals], f_graph[:finals], f_acoustic[:finals], f_first[:finals], f_last[:finals]),
        (parent[:nodes], frame[:nodes], depth[:nodes]),
        subsets,
        whole,
    )


@njit(cache=True, nogil=True)
def collect_frames(first, last, parent, frame, depth, begin, frames):
    """frames[begin[i] .. begin[i+1]] = the labels on the way from node first[i] down to node last[i]."""
    for i in range(first.shape[0]):
        node = last[i]
        for at in range(begin[i + 1] - 1, begin[i] - 1, -1):
            frames[at] = frame[node]
            node = parent[node]
