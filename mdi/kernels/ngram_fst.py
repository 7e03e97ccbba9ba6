"""Bit vectors of ngram FSTs: the loops of mdi/fst/ngram_fst.py, where the layout is explained."""

from __future__ import annotations

import numpy as np
from numba import njit

from mdi.kernels.trie import gallop

OK, BAD_TREE, UNSORTED, NO_PREFIX = range(4)


@njit(cache=True, nogil=True)
def put_groups(bits, at, sizes):
    """A 1 for each member and then a 0, group after group, from bit `at` on. `bits` (uint64) are zero before."""
    for i in range(sizes.shape[0]):
        for _ in range(sizes[i]):
            bits[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
            at += 1
        at += 1
    return at


@njit(cache=True, nogil=True)
def get_groups(bits, at, n_bits, begin):
    """The inverse: begin[i] .. begin[i + 1] are the members of group i. Whether bits and groups end together."""
    i = np.int64(0)
    total = np.int64(0)
    begin[0] = 0
    while at < n_bits and i < begin.shape[0] - 1:
        if (bits[at >> 6] >> np.uint64(at & 63)) & np.uint64(1):
            total += 1
        else:
            i += 1
            begin[i] = total
        at += 1
    return i == begin.shape[0] - 1 and at == n_bits


@njit(cache=True, nogil=True)
def put_flags(bits, flags):
    for i in range(flags.shape[0]):
        if flags[i]:
            bits[i >> 6] |= np.uint64(1) << np.uint64(i & 63)


@njit(cache=True, nogil=True)
def get_finals(bits, costs, final):
    """Final costs by state, infinity where its bit is 0. Whether there is a cost for each bit."""
    n = 0
    for s in range(final.shape[0]):
        final[s] = np.inf
        if (bits[s >> 6] >> np.uint64(s & 63)) & np.uint64(1):
            if n >= costs.shape[0]:
                return False
            final[s] = costs[n]
            n += 1
    return n == costs.shape[0]


@njit(cache=True, nogil=True)
def ascending(begin, word):
    """Whether the words of each state are positive and ascend."""
    for s in range(begin.shape[0] - 1):
        last = 0
        for a in range(begin[s], begin[s + 1]):
            if word[a] <= last:
                return False
            last = word[a]
    return True


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
