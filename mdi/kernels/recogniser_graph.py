"""What leads through a recogniser's graph from a word boundary to the next: its words."""

import numpy as np
from numba import njit

TOO_LONG, TOO_MANY, TWO_WORDS, NO_WORD = -1, -2, -3, -4


@njit(cache=True, nogil=True)
def read_out(graph, start, ends, most, out):
    """All paths from a word boundary, `start`, to where a word ends that say a word: (how many, how many phones in
    all), or (what is wrong, the state). `graph`: begin, phone, olabel, weight, dest; the phone is 0 for what is none
    and -1 for loops, which are left out. Fills `out`, where it has room: word, cost, end state, begin of
    its phones and the phones."""
    begin, phone, olabel, weight, dest = graph
    words, costs, last, first, phones = out
    depth_of = np.int64(most)
    state, cursor = np.empty(depth_of, np.int64), np.empty(depth_of, np.int64)
    said, word, cost = np.empty(depth_of, np.int32), np.empty(depth_of, np.int32), np.empty(depth_of, np.float64)
    n_phones = np.empty(depth_of, np.int64)
    n, total, depth, steps = np.int64(0), np.int64(0), 0, np.int64(0)
    state[0], cursor[0], word[0], cost[0], n_phones[0], said[0] = start, begin[start], 0, 0.0, 0, 0
    while depth >= 0:
        s = state[depth]
        if cursor[depth] >= begin[s + 1]:
            depth -= 1
            continue
        a = cursor[depth]
        cursor[depth] += 1
        p = phone[a]
        # #0 is between words; before the first phone only what has no label may be passed
        if p < 0 or (p == 0 and n_phones[depth] == 0 and (olabel[a] > 0 or dest[a] == s)):
            continue
        steps += 1
        if depth + 1 >= depth_of:
            return TOO_LONG, s
        if steps > 64 * dest.shape[0] + 1000:
            return TOO_MANY, s
        w = word[depth]
        if olabel[a] > 0:
            if w > 0:
                return TWO_WORDS, s
            w = olabel[a]
        d = dest[a]
        c = cost[depth] + weight[a]
        k = n_phones[depth] + (p > 0)
        if ends[d] and k > 0:
            if w > 0:
                if n < words.shape[0] and total + k <= phones.shape[0]:
                    words[n], costs[n], last[n], first[n] = w, c, d, total
                    at = total + k
                    if p > 0:
                        at -= 1
                        phones[at] = p
                    for i in range(depth, 0, -1):
                        if said[i] > 0:
                            at -= 1
                            phones[at] = said[i]
                n += 1
                total += k
            elif k > 1:
                return NO_WORD, s
            continue
        depth += 1
        state[depth], cursor[depth], word[depth], cost[depth] = d, begin[d], w, c
        n_phones[depth], said[depth] = k, p if p > 0 else 0
    return n, total
