"""Text without blanks, cut into words: the loop behind mdi/spoken/segment.py."""

import numpy as np
from numba import njit

from mdi.kernels.text import find_word


@njit(cache=True, nogil=True)
def best_words(buf, begin, words, cost, longest, unknown):
    """Where the words of the cheapest path through buf begin, as indices of `begin`, the bytes at which its letters do
    and the end: sum of cost[w], and `unknown` for each letter that is no word. Words have at most `longest` letters;
    those of infinite cost are none."""
    n = begin.shape[0] - 1
    least = np.full(n + 1, np.inf)
    least[0] = 0.0
    came_from = np.zeros(n + 1, np.int64)
    for i in range(n):
        for j in range(i + 1, min(n, i + longest) + 1):
            w = find_word(buf, begin[i], begin[j], words)
            here = cost[w] if w >= 0 else np.inf
            if j == i + 1 and here > unknown:
                here = unknown
            if least[i] + here < least[j]:
                least[j] = least[i] + here
                came_from[j] = i
    found = np.empty(n, np.int64)
    k = j = n
    while j > 0:
        j = came_from[j]
        k -= 1
        found[k] = j
    return found[k:]
