"""Back-off models as automata: the loops of mdi/fst/backoff_fst.py, where the arrays are explained."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.trie import find_row, gallop

# Costs from here on stand for a probability of zero: 99 ln 10, as -99 does in an ARPA file, less a rounding error.
COST_ZERO = 227.9
OK, BAD_TREE, UNSORTED, NO_PREFIX = range(4)


class Machine(NamedTuple):
    """Arcs with words, by state, and how each state backs off: see mdi/fst/backoff_fst.py."""

    begin: np.ndarray
    word: np.ndarray
    cost: np.ndarray
    dest: np.ndarray
    final: np.ndarray
    back: np.ndarray
    back_cost: np.ndarray


class Contexts(NamedTuple):
    """The history that each state stands for: `prefix` is the state of all its words but the last (-1 for the state of
    no words and where nothing is known), `last` that word, `length` the number of words (-1 where nothing is
    known)."""

    prefix: np.ndarray  # int32
    last: np.ndarray  # int32
    length: np.ndarray  # int32


@njit(cache=True, nogil=True)
def follow_words(fst, root, start, bos, out):
    """Fills the Contexts `out` of all states that words lead to, shortest first: the state of no words is `root`, that
    of <s> is `start`. A state that is met for the first time has one word more than where the arc comes from."""
    n_states = fst.begin.shape[0] - 1
    queue = np.empty(n_states, np.int32)
    out.length[root] = 0
    queue[0] = root
    head, tail = 0, 1
    if start != root:
        out.length[start] = 1
        out.prefix[start] = root
        out.last[start] = bos
        queue[1] = start
        tail = 2
    while head < tail:
        s = queue[head]
        head += 1
        for a in range(fst.begin[s], fst.begin[s + 1]):
            t = fst.dest[a]
            if out.length[t] < 0:
                out.length[t] = out.length[s] + 1
                out.prefix[t] = s
                out.last[t] = fst.word[a]
                queue[tail] = t
                tail += 1
    return tail


@njit(cache=True, nogil=True)
def place_states(states, contexts, hist, begin, word, as_hist, state_of_hist):
    """hist[t], the history that each of these states is, and the inverse: the row of its last word after its prefix.
    Returns the first state without such a row, or -1."""
    for i in range(states.shape[0]):
        t = states[i]
        row = find_row(begin, word, hist[contexts.prefix[t]], contexts.last[t])
        if row < 0:
            return t
        hist[t] = as_hist[row]
        state_of_hist[as_hist[row]] = t
    return -1


@njit(cache=True, nogil=True)
def level_rows(state_of_hist, fst, eos):
    """The rows that follow the histories of one length: (begin, word, p). A state's final weight is its row of </s>,
    which is the lowest id but that of <s>."""
    n_hist = state_of_hist.shape[0]
    begin = np.zeros(n_hist + 1, np.int32)
    for h in range(n_hist):
        s = state_of_hist[h]
        n = 0
        if s >= 0:
            n = fst.begin[s + 1] - fst.begin[s] + (fst.final[s] != np.inf)
        begin[h + 1] = begin[h] + n
    word = np.empty(begin[n_hist], np.int32)
    p = np.empty(begin[n_hist])
    for h in range(n_hist):
        s = state_of_hist[h]
        if s < 0:
            continue
        r = begin[h]
        if fst.final[s] != np.inf:
            word[r] = eos
            p[r] = probability(fst.final[s])
            r += 1
        for a in range(fst.begin[s], fst.begin[s + 1]):
            word[r] = fst.word[a]
            p[r] = probability(fst.cost[a])
            r += 1
    return begin, word, p


@njit(cache=True, nogil=True)
def probability(cost):
    """exp(-cost); a cost below 0 is a rounding error, see LEAST_COST in mdi/fst/backoff_fst.py."""
    value = np.float64(cost)
    return 0.0 if value >= COST_ZERO else np.exp(-max(value, 0.0))


@njit(cache=True, nogil=True)
def exponentials(costs):
    """exp(-cost) of each, 0 from COST_ZERO on."""
    out = np.empty(costs.shape[0])
    for i in range(out.shape[0]):
        value = np.float64(costs[i])
        out[i] = 0.0 if value >= COST_ZERO else np.exp(-value)
    return out


@njit(cache=True, nogil=True)
def longest(fst, q, w, root, child):
    """The state of the longest history that ends in w after the words of q or of what q backs off to; child[a] is the
    state that has the word of arc a after its source's words, or -1."""
    while True:
        arc = find_row(fst.begin, fst.word, q, w)
        if arc >= 0 and child[arc] >= 0:
            return child[arc]
        if q == root:
            return root
        q = fst.back[q]


@njit(cache=True, nogil=True)
def children(fst, contexts):
    """child[a]: the state whose words are those of arc a's source and its own word, -1 where there is none."""
    child = np.full(fst.word.shape[0], -1, np.int32)
    for s in range(fst.begin.shape[0] - 1):
        for a in range(fst.begin[s], fst.begin[s + 1]):
            t = fst.dest[a]
            if contexts.prefix[t] == s and contexts.last[t] == fst.word[a]:
                child[a] = t
    return child


@njit(cache=True, nogil=True)
def wrong_arc(fst, contexts, root, child, state_order):
    """The first state whose words or whose back-off do not lead where a back-off model's do, to the longest history
    that there is; or -1. `state_order`: the states by length."""
    for i in range(state_order.shape[0]):
        s = state_order[i]
        if s == root:
            for a in range(fst.begin[s], fst.begin[s + 1]):
                if fst.dest[a] != (child[a] if child[a] >= 0 else root):
                    return s
            continue
        before = contexts.prefix[s]
        expected = root if before == root else longest(fst, fst.back[before], contexts.last[s], root, child)
        if fst.back[s] != expected:
            return s
        for a in range(fst.begin[s], fst.begin[s + 1]):
            if child[a] < 0 and fst.dest[a] != longest(fst, fst.back[s], fst.word[a], root, child):
                return s
    return -1


@njit(cache=True, nogil=True)
def spell_contexts(child, front, back, contexts):
    """Fills back and the Contexts (with labels for words) of the tree whose node s has the children child[s] + 1 ..
    child[s + 1], each one word longer at the front. Returns (OK or what is wrong, the state where it is).

    prefix(v1 .. vj) is the child of prefix(v2 .. vj), which comes before, whose first word is v1."""
    n_states = front.shape[0]
    back[0] = -1
    contexts.prefix[0] = -1
    contexts.last[0] = -1
    contexts.length[0] = 0
    for s in range(n_states):
        lo = np.int64(0)
        for c in range(child[s] + 1, child[s + 1] + 1):
            if c <= s:
                return BAD_TREE, s
            if front[c] < 0 or (c > child[s] + 1 and front[c] <= front[c - 1]):
                return UNSORTED, c
            back[c] = s
            contexts.length[c] = contexts.length[s] + 1
            if s == 0:
                contexts.last[c] = front[c]
                contexts.prefix[c] = 0
                continue
            contexts.last[c] = contexts.last[s]
            parent = contexts.prefix[s]
            if c == child[s] + 1:
                lo = child[parent] + 1
            end = child[parent + 1] + 1
            lo = gallop(front, lo, end, front[c])
            if lo >= end or front[lo] != front[c]:
                return NO_PREFIX, c
            contexts.prefix[c] = lo
    return OK, 0
