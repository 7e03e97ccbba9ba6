"""Sets of labels by state, as intervals: where they lie in a file, and which labels can come first from a state."""

import numpy as np
from numba import njit

CUT_OFF, DAMAGED = -1, -2


@njit(cache=True, nogil=True)
def set_places(words, begin):
    """begin[s] .. begin[s + 1] = the intervals of state s, for as many states as `begin` has room for. `words` are the
    sets as they lie in a file, in words of 4 bytes: of each the number of intervals in 8 bytes, first and end of each,
    the number of labels. Returns the words used, CUT_OFF or DAMAGED: out of order, empty, or the number is wrong."""
    begin[0] = 0
    at = np.int64(0)
    for s in range(begin.shape[0] - 1):
        if at + 2 > words.shape[0]:
            return CUT_OFF
        k = np.int64(words[at])
        if k < 0 or words[at + 1] != 0:  # over 2^31 intervals
            return DAMAGED
        at += 2
        if at + 2 * k + 1 > words.shape[0]:
            return CUT_OFF
        labels, last = np.int64(0), np.int64(0)
        for i in range(at, at + 2 * k, 2):
            if words[i] <= last or words[i + 1] <= words[i]:
                return DAMAGED
            last = np.int64(words[i + 1])
            labels += last - words[i]
        at += 2 * k
        if words[at] != labels:
            return DAMAGED
        at += 1
        begin[s + 1] = begin[s] + k
    return at


@njit(cache=True, nogil=True)
def components(begin, olabel, dest):
    """(component of each state, number of components): states that reach each other by arcs without output are one.
    A component has a larger number than those that it leads to (Tarjan's algorithm)."""
    n = begin.shape[0] - 1
    component, index, low = np.full(n, -1, np.int32), np.full(n, -1, np.int32), np.empty(n, np.int32)
    waiting, path, cursor = np.empty(n, np.int32), np.empty(n, np.int32), begin[:-1].copy()
    n_waiting, met, found = 0, 0, 0
    for root in range(n):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            s = path[depth]
            if index[s] < 0:
                index[s] = low[s] = met
                met += 1
                waiting[n_waiting] = s
                n_waiting += 1
            down = False
            while cursor[s] < begin[s + 1]:
                d = dest[cursor[s]]
                if olabel[cursor[s]] == 0 and component[d] < 0:
                    if index[d] < 0:
                        depth += 1
                        path[depth] = d
                        down = True
                        break
                    low[s] = min(low[s], low[d])
                cursor[s] += 1
            if down:
                continue
            if low[s] == index[s]:
                while True:
                    n_waiting -= 1
                    d = waiting[n_waiting]
                    component[d] = found
                    if d == s:
                        break
                found += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[s])
    return component, found


@njit(cache=True, nogil=True)
def _room(array, need):
    if need <= array.shape[0]:
        return array
    larger = np.empty(max(need, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True, nogil=True)
def label_sets(begin, olabel, dest, final, final_label, component, n_components):
    """(begin by component, intervals): the labels that can come first from a state of each component,

        reach(s) = {olabel of its arcs} + reach(d) of its arcs to d without output + {final_label} if s is final.

    An interval is first << 32 | end."""
    n = begin.shape[0] - 1
    member = np.argsort(component, kind="mergesort")
    own = np.zeros(n_components + 1, np.int64)
    sets = np.empty(n + 16, np.int64)
    mine = np.empty(1024, np.int64)
    one = np.int64(1)
    at = 0
    for c in range(n_components):
        k = 0
        while at < n and component[member[at]] == c:
            s = member[at]
            at += 1
            if final[s]:
                mine = _room(mine, k + 1)
                mine[k] = (np.int64(final_label) << 32) | (final_label + one)
                k += 1
            for a in range(begin[s], begin[s + 1]):
                if olabel[a] > 0:
                    mine = _room(mine, k + 1)
                    mine[k] = (np.int64(olabel[a]) << 32) | (olabel[a] + one)
                    k += 1
                elif component[dest[a]] != c:
                    d = component[dest[a]]
                    mine = _room(mine, k + own[d + 1] - own[d])
                    for i in range(own[d], own[d + 1]):
                        mine[k] = sets[i]
                        k += 1
        if k > 1:
            mine[:k].sort()
        end = own[c]
        sets = _room(sets, end + k)
        for i in range(k):
            if end > own[c] and (mine[i] >> 32) <= (sets[end - 1] & 0xFFFFFFFF):  # they overlap or touch
                last = max(mine[i] & 0xFFFFFFFF, sets[end - 1] & 0xFFFFFFFF)
                sets[end - 1] = ((sets[end - 1] >> 32) << 32) | last
            else:
                sets[end] = mine[i]
                end += 1
        own[c + 1] = end
    return own, sets[: own[n_components]]
