"""Sorting, linking, searching and merging rows of n-grams. The layout is explained in mdi/lm/trie.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.types import Array

RADIX_BITS = 11


class Branches(NamedTuple):
    """The rows hw of one order k, r = 0 .. R-1, by the histories h = 0 .. H-1 of length k - 1."""

    begin: Array  # int32[H + 1]: the rows of h are begin[h] .. begin[h + 1]
    word: Array  # int32[R]: w, ascending within each h


class Level(NamedTuple):
    """One order k of a trie: its rows and how they hang on order k - 1."""

    begin: Array  # int32[H + 1]: the rows of h are begin[h] .. begin[h + 1]
    word: Array  # int32[R]: w, ascending within each h
    suffix: Array  # int32[R]: the row of h'w in order k - 1, -1 where it is missing
    back: Array  # int32[H]: h' as a history of length k - 2, -1 where it is missing


class TrieArrays(NamedTuple):
    """A whole trie: the lists of mdi/lm/trie.py as tuples, indexed like them and padded to one length. All int32."""

    begin: tuple[Array, ...]  # begin[k][h]
    word: tuple[Array, ...]  # word[k][r]
    suffix: tuple[Array, ...]  # suffix[k][r]
    as_hist: tuple[Array, ...]  # as_hist[k][r]
    back: tuple[Array, ...]  # back[j][h]


class Spelling(NamedTuple):
    """The words of all histories of two words and more, one length after the other: g = first[j - 2] + h stands for
    history h of length j."""

    first: Array  # int64[lengths + 1]
    prefix: Array  # int32[g]: the history of length j - 1 before the last word
    last: Array  # int32[g]: the last word


@njit(cache=True, nogil=True)
def radix_sort(key, value, key_bits):
    """Sorts pairs by key, stably. Returns new arrays; what was passed in serves as scratch space."""
    n = key.shape[0]
    other_key = np.empty_like(key)
    other_value = np.empty_like(value)
    count = np.empty(1 << RADIX_BITS, np.int64)
    mask = (np.int64(1) << RADIX_BITS) - 1
    for shift in range(0, key_bits, RADIX_BITS):
        count[:] = 0
        for i in range(n):
            count[(key[i] >> shift) & mask] += 1
        total = np.int64(0)
        for d in range(count.shape[0]):
            total, count[d] = total + count[d], total
        for i in range(n):
            d = (key[i] >> shift) & mask
            j = count[d]
            count[d] = j + 1
            other_key[j] = key[i]
            other_value[j] = value[i]
        key, other_key = other_key, key
        value, other_value = other_value, value
    return key, value


@njit(cache=True, nogil=True)
def is_sorted(row_hist, row_word):
    """Whether the rows come strictly ascending by (history, word)."""
    for r in range(1, row_hist.shape[0]):
        if row_hist[r] < row_hist[r - 1] or (row_hist[r] == row_hist[r - 1] and row_word[r] <= row_word[r - 1]):
            return False
    return True


@njit(cache=True, nogil=True)
def count_rows(row_hist, n_hist):
    """begin[h] .. begin[h + 1] = the rows of history h, once they are sorted."""
    begin = np.zeros(n_hist + 1, np.int32)
    for r in range(row_hist.shape[0]):
        begin[row_hist[r] + 1] += 1
    for h in range(n_hist):
        begin[h + 1] += begin[h]
    return begin


@njit(cache=True, nogil=True)
def order_rows(row_hist, row_word, begin):
    """Permutation that sorts rows by (history, word): a counting sort by history, then a sort within each."""
    n = row_hist.shape[0]
    fill = begin[:-1].copy()
    perm = np.empty(n, np.int32)
    for r in range(n):
        h = row_hist[r]
        perm[fill[h]] = r
        fill[h] += 1
    for h in range(begin.shape[0] - 1):
        a, b = begin[h], begin[h + 1]
        if b - a > 16:
            part = perm[a:b].copy()
            perm[a:b] = part[np.argsort(row_word[part], kind="mergesort")]
        else:
            for i in range(a + 1, b):
                r = perm[i]
                j = i
                while j > a and row_word[perm[j - 1]] > row_word[r]:
                    perm[j] = perm[j - 1]
                    j -= 1
                perm[j] = r
    return perm


@njit(cache=True, nogil=True)
def first_duplicate(begin, word):
    """Index of the first row that repeats the row before it, or -1."""
    for h in range(begin.shape[0] - 1):
        for r in range(begin[h] + 1, begin[h + 1]):
            if word[r] == word[r - 1]:
                return r
    return -1


@njit(cache=True, nogil=True)
def rank_as_histories(word, n_words, as_hist):
    """Fills as_hist[r]: rank of row r when the rows are sorted by their last word first; ties keep their order."""
    start = count_rows(word, n_words)
    for r in range(word.shape[0]):
        as_hist[r] = start[word[r]]
        start[word[r]] += 1


@njit(cache=True, nogil=True)
def spell_histories(branches, as_hist, prefix, last):
    """Fills prefix[h] and last[h] of a `Spelling` for the rows of one order, as_hist[r] = h."""
    for g in range(branches.begin.shape[0] - 1):
        for r in range(branches.begin[g], branches.begin[g + 1]):
            prefix[as_hist[r]] = g
            last[as_hist[r]] = branches.word[r]


@njit(cache=True, nogil=True)
def spell(spelling, length, h, ids):
    """ids[0 .. length - 1] = the words of history h."""
    for j in range(length, 1, -1):
        g = spelling.first[j - 2] + h
        ids[j - 1] = spelling.last[g]
        h = np.int64(spelling.prefix[g])
    if length > 0:
        ids[0] = h


@njit(cache=True, nogil=True)
def scatter(value, place, out):
    """out[place[i]] = value[i]"""
    for i in range(value.shape[0]):
        out[place[i]] = value[i]


@njit(cache=True, nogil=True)
def bisect(values, lo, hi, least):
    """The first place in lo .. hi of ascending values that is not below `least`, by halves; hi where all are."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if values[mid] < least:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True, nogil=True, inline="always")
def gallop(values, lo, end, least):
    """The same where the place is expected near lo: in longer and longer steps, then by halves."""
    step = np.int64(1)
    hi = lo
    while hi < end and values[hi] < least:
        lo = hi + 1
        hi += step
        step <<= 1
    return bisect(values, lo, min(hi, end), least)


@njit(cache=True, nogil=True)
def find_row(begin, word, h, w):
    """The row of hw, or -1. `begin` and `word` are those of one order."""
    end = np.int64(begin[h + 1])
    row = bisect(word, np.int64(begin[h]), end, w)
    return row if row < end and word[row] == w else np.int64(-1)


@njit(cache=True, nogil=True)
def link_suffixes(branches, back, lower, suffix):
    """Fills suffix[r] = the row of h'w among the branches `lower` for row r = hw, -1 where there is none; back[h] = h'.
    Histories with the same h' lie side by side, so the rows searched are in cache; words ascend, so each search begins
    where the last one ended."""
    begin, word = branches.begin, branches.word
    for h in range(begin.shape[0] - 1):
        b = back[h]
        if b < 0:
            for r in range(begin[h], begin[h + 1]):
                suffix[r] = -1
            continue
        lo = np.int64(lower.begin[b])
        end = np.int64(lower.begin[b + 1])
        for r in range(begin[h], begin[h + 1]):
            w = word[r]
            lo = gallop(lower.word, lo, end, w)
            if lo < end and lower.word[lo] == w:
                suffix[r] = lo
            else:
                suffix[r] = -1


@njit(cache=True, nogil=True)
def map_histories(rows, as_hist, other_as_hist, out):
    """Fills out[h] = what history h is in another trie, or, for suffixes, what it backs off to: row r of this trie,
    which is a history, is the other's row rows[r], or -1 where that has none."""
    for r in range(rows.shape[0]):
        out[as_hist[r]] = other_as_hist[rows[r]] if rows[r] >= 0 else -1
    return out


@njit(cache=True, nogil=True)
def find_rows(ids, trie, out):
    """out[i] = the row of the n-gram ids[i], or -1: prefix by prefix."""
    begin, word, as_hist = trie.begin, trie.word, trie.as_hist
    for i in range(ids.shape[0]):
        row = np.int64(ids[i, 0])
        for k in range(2, ids.shape[1] + 1):
            row = find_row(begin[k], word[k], as_hist[k - 1][row], ids[i, k - 1])
            if row < 0:
                break
        out[i] = row


@njit(cache=True, nogil=True)
def keep_level(level, keep, lower, row_of_hist):
    """The rows marked in `keep`: (begin, word, suffix, new number of each row, -1 where it goes). `lower` are the new
    numbers of the order below, whose rows are the histories (row_of_hist[h] is h) and the suffixes."""
    begin, word, suffix = level.begin, level.word, level.suffix
    n = 0
    for r in range(word.shape[0]):
        n += keep[r]
    n_hist = 0
    for h in range(begin.shape[0] - 1):
        n_hist += lower[row_of_hist[h]] >= 0
    new_begin = np.zeros(n_hist + 1, np.int32)
    new_word = np.empty(n, np.int32)
    new_suffix = np.empty(n, np.int32)
    number = np.full(word.shape[0], -1, np.int32)
    at = 0
    to = 0
    for h in range(begin.shape[0] - 1):
        if lower[row_of_hist[h]] < 0:
            continue
        for r in range(begin[h], begin[h + 1]):
            if keep[r]:
                number[r] = to
                new_word[to] = word[r]
                new_suffix[to] = lower[suffix[r]] if suffix[r] >= 0 else -1
                to += 1
        at += 1
        new_begin[at] = to
    return new_begin, new_word, new_suffix, number
