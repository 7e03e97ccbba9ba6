"""Cutting the part out of a model that an adaptation looks at: see mdi/adaptation/active.py."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sources(rows, part_rows, model_rows, size, part_as_hist, model_as_hist):
    """source[g]: what the part's history g is in the model, -1 where none of its rows is wanted. `rows[i]` are the rows
    wanted, and the n-gram i is part_rows[i] in the part and model_rows[i] in the model, or -1."""
    source = np.full(size, -1, np.int32)
    for i in range(rows.shape[0]):
        r = rows[i]
        if model_rows[r] >= 0:
            source[part_as_hist[part_rows[r]]] = model_as_hist[model_rows[r]]
    return source


@njit(cache=True, nogil=True)
def cut_level(source, whole, lower_begin, part_back, part_lower_begin):
    """All rows of the histories that source[g] names in the model's order `whole` (ModelLevel in mdi/kernels/model.py):
    (begin, word, suffix, p, bow). A history without a source gets the weight 1: it is its shorter self. lower_begin is
    the order below of the model, part_back and part_lower_begin belong to the part."""
    begin, word, suffix, back = whole.trie
    p, bow = whole.p, whole.bow
    n = source.shape[0]
    new_begin = np.zeros(n + 1, np.int32)
    for g in range(n):
        h = source[g]
        new_begin[g + 1] = new_begin[g] + (begin[h + 1] - begin[h] if h >= 0 else 0)
    rows = new_begin[n]
    new_word, new_suffix, new_p = np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows)
    new_bow = np.ones(n)
    for g in range(n):
        h = source[g]
        if h < 0:
            continue
        new_bow[g] = bow[h]
        shift = np.int64(part_lower_begin[part_back[g]]) - np.int64(lower_begin[back[h]])
        to = new_begin[g]
        for r in range(begin[h], begin[h + 1]):
            new_word[to], new_suffix[to], new_p[to] = word[r], suffix[r] + shift, p[r]
            to += 1
    return new_begin, new_word, new_suffix, new_p, new_bow


@njit(cache=True, nogil=True)
def place_rows(begin, model_rows, part_hist, model_hist, part_begin, model_begin):
    """The part's row of each n-gram from the model's, -1 where it has none."""
    out = np.empty(model_rows.shape[0], np.int32)
    for h in range(begin.shape[0] - 1):
        for r in range(begin[h], begin[h + 1]):
            out[r] = -1
            if model_rows[r] >= 0:
                out[r] = part_begin[part_hist[h]] + model_rows[r] - model_begin[model_hist[h]]
    return out
