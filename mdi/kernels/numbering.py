"""Rows of integers, numbered as they are found: states of products (rescore, expected_counts), n-grams."""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def empty_table(room):
    """A hash table for so many rows, at most half full."""
    return np.full(1 << (int(math.log2(room)) + 2), -1, np.int32)


@njit(cache=True, nogil=True, inline="always")
def number_of(row, rows, n, table):
    """The number of a row among the first n of `rows`, which are in the table: n where it is new, and put there; -1
    where there is no room for it."""
    mask = np.uint64(table.shape[0] - 1)
    code = np.uint64(0x9E3779B97F4A7C15)
    for i in range(row.shape[0]):
        code = (code ^ np.uint64(np.int64(row[i]) + 3)) * np.uint64(0xC2B2AE3D27D4EB4F)
        code ^= code >> np.uint64(29)
    at = code & mask
    while table[at] >= 0:
        x = np.int64(table[at])
        same = True
        for i in range(row.shape[0]):
            same &= rows[x, i] == row[i]
        if same:
            return x
        at = (at + np.uint64(1)) & mask
    if n == rows.shape[0]:
        return np.int64(-1)
    table[at] = n
    for i in range(row.shape[0]):
        rows[n, i] = row[i]
    return np.int64(n)
