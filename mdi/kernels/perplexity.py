"""Walking through text with a back-off model."""

import numpy as np
from numba import njit

from mdi.kernels.trie import find_row


@njit(cache=True, nogil=True)
def score_tokens(ids, model, prob, used):
    """prob[i] = p(token i | what came before it in its sentence), used[i] = the order of the n-gram that gave it.

    used[i] = 0 and prob[i] = 0 where token i is not predicted: <s>, or -1 for a word that the model does not know,
    after which the history begins again. `model` is `ModelArrays`.
    """
    begin, word, suffix, as_hist, _ = model.trie
    p, bow, order, bos = model.p, model.bow, model.order, model.bos
    state = np.full(order, -1, np.int64)  # state[j]: the history of length j, or -1 where it is not in the model
    state[0] = 0
    for i in range(ids.shape[0]):
        w = ids[i]
        if w < 0 or w == bos:
            prob[i] = 0.0
            used[i] = 0
            state[1:] = -1
            if w == bos and order > 1:
                state[1] = as_hist[1][bos]
            continue
        weight = 1.0
        row = np.int64(-1)
        k = 0
        for j in range(order - 1, -1, -1):
            h = state[j]
            if h < 0:
                continue
            row = find_row(begin[j + 1], word[j + 1], h, w)
            if row >= 0:
                k = j + 1
                break
            weight *= bow[j][h]
        prob[i] = weight * p[k][row]
        used[i] = k
        # The rows of the suffixes are the next histories.
        state[1:] = -1
        while k > 0:
            if k < order:
                state[k] = as_hist[k][row]
            if k > 1:
                row = np.int64(suffix[k][row])
            k -= 1
