"""Loops over the rows of a shard that come from several places: see mdi/lm/shards.py."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def put_keys(hist, word, n_words, key, at):
    """Fills key[at:] with one number for each row, by which rows sort as in a trie."""
    for i in range(hist.shape[0]):
        key[at + i] = np.int64(hist[i]) * n_words + word[i]


@njit(cache=True, nogil=True)
def number_rows(key, index, n_words, begin, word, place):
    """Numbers different rows. `key`: sorted; index[i]: which row that is. Fills begin, word and place[row], the number
    of each row; returns how many there are."""
    n = np.int32(0)
    last = np.int64(-1)
    for i in range(key.shape[0]):
        if key[i] != last:
            last = key[i]
            h = last // n_words
            word[n] = last - h * n_words
            begin[h + 1] += 1
            n += 1
        place[index[i]] = n - 1
    for h in range(begin.shape[0] - 1):
        begin[h + 1] += begin[h]
    return n
