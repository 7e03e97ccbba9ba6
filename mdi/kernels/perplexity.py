"""Walking through text with a back-off model."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def score_tokens(ids, bos, order, begins, words, suffixes, as_hists, ps, bows, prob, used):
    """prob[i] = p(token i | what came before it in its sentence), used[i] = the order of the n-gram that gave it.

    used[i] = 0 and prob[i] = 0 where token i is not predicted: <s>, or -1 for a word that the model does not know,
    after which the history begins anew. Tuples are indexed from 0 for order 1; bows[0] belongs to histories of length
    1.
    """
    state = np.full(order, -1, np.int64)  # state[j]: the history of length j, or -1 where it is not in the model
    state[0] = 0
    for i in range(ids.shape[0]):
        w = ids[i]
        if w < 0 or w == bos:
            prob[i] = 0.0
            used[i] = 0
            state[1:] = -1
            if w == bos and order > 1:
                state[1] = as_hists[0][bos]
            continue
        weight = 1.0
        row = np.int64(-1)
        k = 0
        for j in range(order - 1, -1, -1):
            h = state[j]
            if h < 0:
                continue
            lo = np.int64(begins[j][h])
            end = np.int64(begins[j][h + 1])
            hi = end
            while lo < hi:
                mid = (lo + hi) >> 1
                if words[j][mid] < w:
                    lo = mid + 1
                else:
                    hi = mid
            if lo < end and words[j][lo] == w:
                row = lo
                k = j + 1
                break
            weight *= bows[j - 1][h]
        prob[i] = weight * ps[k - 1][row]
        used[i] = k
        # The rows of the suffixes are the next histories.
        state[1:] = -1
        while k > 0:
            if k < order:
                state[k] = as_hists[k - 1][row]
            if k > 1:
                row = np.int64(suffixes[k - 1][row])
            k -= 1
