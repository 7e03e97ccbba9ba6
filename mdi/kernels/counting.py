"""Counting: n-grams of a token stream to sorted rows, and sorted runs to one. The layout is explained in mdi/trie.py."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def ngram_keys(ids, bos, as_hist, row_before, n_words, key, position):
    """Keys (history of length k - 1, word) of the k-grams of a token stream. row_before[i] is the row of the (k-1)-gram that
    ends at token i, or -1; as_hist ranks these rows as histories. Nothing crosses <s>, and a token -1 belongs to no n-gram.
    Returns how many there are."""
    n = 0
    for i in range(1, ids.shape[0]):
        if ids[i] >= 0 and ids[i] != bos and row_before[i - 1] >= 0:
            key[n] = np.int64(as_hist[row_before[i - 1]]) * n_words + ids[i]
            position[n] = i
            n += 1
    return n


@njit(cache=True, nogil=True)
def group_keys(key, position, n_words, n_hist, row_at):
    """Sorted keys to rows: (begin, word, count). row_at[i] becomes the row of the k-gram that ends at token i, -1 elsewhere."""
    n = key.shape[0]
    rows = 0
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            rows += 1
    begin = np.zeros(n_hist + 1, np.int32)
    word = np.empty(rows, np.int32)
    count = np.zeros(rows, np.int32)
    row_at[:] = -1
    r = -1
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            r += 1
            h = key[i] // n_words
            word[r] = key[i] - h * n_words
            begin[h + 1] += 1
        count[r] += 1
        row_at[position[i]] = r
    for h in range(n_hist):
        begin[h + 1] += begin[h]
    return begin, word, count


@njit(cache=True, nogil=True)
def add_sizes(begin, union_hist, size):
    """size[u] += the number of rows of the histories that are u in the union."""
    for h in range(union_hist.shape[0]):
        size[union_hist[h]] += begin[h + 1] - begin[h]


@njit(cache=True, nogil=True)
def cut_points(size, most):
    """Histories at which to cut the union, so that the pieces have at most so many rows (or one history each)."""
    cuts = [0]
    rows = np.int64(0)
    for u in range(size.shape[0]):
        if rows > 0 and rows + size[u] > most:
            cuts.append(u)
            rows = 0
        rows += size[u]
    cuts.append(size.shape[0])
    return np.array(cuts)


@njit(cache=True, nogil=True)
def fill_keys(begin, union_hist, first, word, n_words, key, at):
    """Keys (history of the union counted from `first`, word) of the rows of one run."""
    for h in range(union_hist.shape[0]):
        base = np.int64(union_hist[h] - first) * n_words
        for r in range(begin[h] - begin[0], begin[h + 1] - begin[0]):
            key[at + r] = base + word[r]


@njit(cache=True, nogil=True)
def merge_keys(key, index, count, n_words, n_hist):
    """Sorted keys, each with the index of its row, to rows: (begin, word, summed count, new number of each old row)."""
    n = key.shape[0]
    rows = 0
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            rows += 1
    begin = np.zeros(n_hist + 1, np.int32)
    word = np.empty(rows, np.int32)
    total = np.zeros(rows, np.int32)
    number = np.empty(n, np.int32)
    r = -1
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            r += 1
            h = key[i] // n_words
            word[r] = key[i] - h * n_words
            begin[h + 1] += 1
        total[r] += count[index[i]]
        number[index[i]] = r
    for h in range(n_hist):
        begin[h + 1] += begin[h]
    return begin, word, total, number
