"""Counting: n-grams of a token stream to sorted rows, and sorted runs to one. The layout is explained in
mdi/lm/trie.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.text import (
    DONE,
    FULL,
    LINE_ROOM,
    NEWLINE,
    SPACE,
    TAB,
    append_word,
    find_word,
    has_room,
    line_bounds,
    next_field,
    parse_number,
    put_words,
    size_of,
)
from mdi.kernels.trie import bisect, spell
from mdi.kernels.types import Array

# What parse_counts stops for, beside DONE and FULL.
BAD_COUNT = -1


class CountLines(NamedTuple):
    """Lines of a count file, i = 0, 1, ..., and the first words that the vocabulary lacks."""

    ids: Array  # int32[i, order]: the words, from 0 on
    length: Array  # int8[i]: how many
    number: Array  # float64[i]: the count
    unknown: Array  # int64[5]: byte where each of the first unknown words begins


class ParsedCounts(NamedTuple):
    """How far reading counts came."""

    why: int  # it stopped
    line: int  # byte of the line where it stopped
    n: int  # n-grams read
    lines: int  # lines passed
    unknown: int  # words outside the vocabulary
    lost: float  # sum of the counts of unknown 1-grams


class CountedRows(NamedTuple):
    """Rows of one order, those of the histories first .. first + H - 1, with their counts."""

    first: int
    begin: Array  # int32[H + 1]: counts from 0
    word: Array  # int32[R]
    number: Array  # [R]: float64 for kernels


@njit(cache=True, nogil=True)
def ngram_keys(ids, bos, as_hist, row_before, n_words):
    """(keys, positions) of the k-grams of a token stream: history of length k - 1 times n_words plus word, and the
    token where it ends. row_before[i] is the row of the (k-1)-gram that ends at token i, or -1; as_hist ranks these
    rows as histories. Nothing crosses <s>, and a token -1 belongs to no n-gram."""
    key, position = np.empty(ids.shape[0], np.int64), np.empty(ids.shape[0], np.int32)
    n = 0
    for i in range(1, ids.shape[0]):
        if ids[i] >= 0 and ids[i] != bos and row_before[i - 1] >= 0:
            key[n] = np.int64(as_hist[row_before[i - 1]]) * n_words + ids[i]
            position[n] = i
            n += 1
    return key[:n], position[:n]


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
def fill_keys(branches, union_hist, first, n_words, key):
    """Keys (history of the union counted from `first`, word) of the rows of one run: a part of its branches, whose
    `begin` need not count from 0."""
    begin, word = branches.begin, branches.word
    for h in range(union_hist.shape[0]):
        base = np.int64(union_hist[h] - first) * n_words
        for r in range(begin[h] - begin[0], begin[h + 1] - begin[0]):
            key[r] = base + word[r]


@njit(cache=True, nogil=True)
def group_keys(key, index, count, n_words, n_hist, number):
    """Sorted keys to rows: (begin, word, summed count). count[index[i]] is that of key i, 1 where there are no counts;
    number[index[i]] becomes its row."""
    n = key.shape[0]
    every = count.shape[0] == 0
    rows = 0
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            rows += 1
    begin = np.zeros(n_hist + 1, np.int32)
    word = np.empty(rows, np.int32)
    total = np.zeros(rows, count.dtype)
    r = -1
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            r += 1
            h = key[i] // n_words
            word[r] = key[i] - h * n_words
            begin[h + 1] += 1
        total[r] += 1 if every else count[index[i]]
        number[index[i]] = r
    for h in range(n_hist):
        begin[h + 1] += begin[h]
    return begin, word, total


@njit(cache=True, nogil=True)
def parse_counts(buf, begin, end, words, unk, out):
    """Reads lines 'w1 .. wk count' into `out`; n-grams that are too long for it are passed over. A word outside a
    vocabulary that does not grow is `unk`, which may be -1. Returns `ParsedCounts`."""
    order = out.ids.shape[1]
    i = begin
    n = 0
    lines = 0
    unknown = 0
    lost = 0.0
    while i < end:
        stop, nxt = line_bounds(buf, i, end)
        a, b = next_field(buf, i, stop)
        if a == stop:
            i = nxt
            lines += 1
            continue
        if n == out.length.shape[0] or (words.grows and not has_room(words, order + 1, stop - a)):
            return ParsedCounts(FULL, i, n, lines, unknown, lost)
        # the last field is the count: look for it from the end
        c = stop
        while c > a and buf[c - 1] != SPACE and buf[c - 1] != TAB:
            c -= 1
        value, ok = parse_number(buf, c, stop)
        if not ok or value < 0.0 or c == a:
            return ParsedCounts(BAD_COUNT, i, n, lines, unknown, lost)
        k = 0
        at, after = a, b
        while at < after:
            at, after = next_field(buf, after, c)
            k += 1
        if k <= order:
            for j in range(k):
                w = find_word(buf, a, b, words)
                if w < 0 and words.grows:
                    w = append_word(buf, a, b, words, w)
                elif w < 0:
                    if unknown < out.unknown.shape[0]:
                        out.unknown[unknown] = a
                    unknown += 1
                    if k == 1:
                        lost += value
                    w = np.int64(unk)
                out.ids[n, j] = w
                a, b = next_field(buf, b, c)
            out.length[n] = k
            out.number[n] = value
            n += 1
        i = nxt
        lines += 1
    return ParsedCounts(DONE, i, n, lines, unknown, lost)


@njit(cache=True, nogil=True)
def format_counts(rows, order, row, spelling, words, out):
    """Writes lines 'w1 .. wk<tab>count' of the rows from `row` on until `out` is full; rows that were not seen are
    left out. Returns (row, bytes)."""
    begin = rows.begin
    n = np.int64(0)
    hist = bisect(begin, np.int64(0), np.int64(begin.shape[0]), row + 1) - 1
    spelled = np.int64(-1)
    ids = np.empty(order, np.int64)
    while row < rows.word.shape[0]:
        if rows.number[row] <= 0.0:
            row += 1
            continue
        while begin[hist + 1] <= row:
            hist += 1
        if spelled != hist:
            spell(spelling, order - 1, rows.first + hist, ids)
            spelled = hist
        ids[order - 1] = rows.word[row]
        if n + LINE_ROOM + size_of(words, ids, order) > out.shape[0]:
            break
        n = put_words(out, n, words, ids, order)
        out[n - 1] = TAB
        n = _put_count(out, n, rows.number[row])
        out[n] = NEWLINE
        n += 1
        row += 1
    return row, n


@njit(cache=True, nogil=True)
def _put_count(out, n, value):
    """Up to twelve decimals: what is left of a count when those of its longer n-grams are taken away must stay zero."""
    rest = np.int64(np.floor(value))
    part = np.int64(np.rint((value - rest) * 1e12))
    if part == 1_000_000_000_000:
        rest += 1
        part = 0
    divisor = np.int64(1)
    while rest // divisor >= 10:
        divisor *= 10
    while divisor > 0:
        out[n] = 48 + (rest // divisor) % 10
        n += 1
        divisor //= 10
    if part:
        out[n] = 46
        n += 1
        divisor = np.int64(100_000_000_000)
        while part:
            out[n] = 48 + part // divisor
            n += 1
            part %= divisor
            divisor //= 10
    return n
