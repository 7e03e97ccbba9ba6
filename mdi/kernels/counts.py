"""Counting: n-grams of a token stream to sorted rows, and sorted runs to one. The layout is explained in
mdi/lm/trie.py."""

from __future__ import annotations

import numpy as np
from numba import njit

from mdi.kernels.text import (
    DONE,
    FULL,
    LINE_ROOM,
    NEWLINE,
    SPACE,
    TAB,
    add_word,
    field_end,
    find_word,
    line_bounds,
    parse_number,
    skip_blanks,
)

# What parse_counts stops for, beside DONE and FULL.
BAD_COUNT = -1


@njit(cache=True, nogil=True)
def ngram_keys(ids, bos, as_hist, row_before, n_words, key, position):
    """Keys (history of length k - 1, word) of the k-grams of a token stream. row_before[i] is the row of the
    (k-1)-gram that ends at token i, or -1; as_hist ranks these rows as histories. Nothing crosses <s>, and a token -1
    belongs to no n-gram. Returns how many there are."""
    n = 0
    for i in range(1, ids.shape[0]):
        if ids[i] >= 0 and ids[i] != bos and row_before[i - 1] >= 0:
            key[n] = np.int64(as_hist[row_before[i - 1]]) * n_words + ids[i]
            position[n] = i
            n += 1
    return n


@njit(cache=True, nogil=True)
def group_keys(key, position, n_words, n_hist, row_at):
    """Sorted keys to rows: (begin, word, count). row_at[i] becomes the row of the k-gram that ends at token i, -1
    elsewhere."""
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


@njit(cache=True, nogil=True)
def parse_counts(buf, begin, end, order, grow, unk, table, blob, offset, n_words, ids, size, number, unknown):
    """Reads lines 'w1 .. wk count': ids[i, 0 .. k-1], size[i] = k, number[i]. Longer n-grams are passed over. With
    `grow` new words join the vocabulary; otherwise they are `unk` (which may be -1), and unknown[0 .. 4] is where the
    first begin.

    Returns (why it stopped, byte of the line, n-grams, words, lines passed, unknown words, sum of unknown 1-grams)."""
    i = begin
    n = 0
    lines = 0
    n_unknown = 0
    lost = 0.0
    while i < end:
        stop, nxt = line_bounds(buf, i, end)
        a = skip_blanks(buf, i, stop)
        if a == stop:
            i = nxt
            lines += 1
            continue
        if n == size.shape[0] or (
            grow
            and (
                n_words + order + 2 > offset.shape[0]
                or 2 * (n_words + order + 1) > table.shape[0]
                or offset[n_words] + stop - a > blob.shape[0]
            )
        ):
            return FULL, i, n, n_words, lines, n_unknown, lost
        # the last field is the count: look for it from the end
        c = stop
        while c > a and buf[c - 1] != SPACE and buf[c - 1] != TAB:
            c -= 1
        value, ok = parse_number(buf, c, stop)
        if not ok or value < 0.0 or c == a:
            return BAD_COUNT, i, n, n_words, lines, n_unknown, lost
        k = 0
        b = a
        while b < c:
            b = skip_blanks(buf, field_end(buf, b, c), c)
            k += 1
        if k <= order:
            for j in range(k):
                b = field_end(buf, a, c)
                if grow:
                    w, n_words = add_word(buf, a, b, table, blob, offset, n_words)
                else:
                    w = find_word(buf, a, b, table, blob, offset)
                    if w < 0:
                        if n_unknown < unknown.shape[0]:
                            unknown[n_unknown] = a
                        n_unknown += 1
                        if k == 1:
                            lost += value
                        w = np.int64(unk)
                ids[n, j] = w
                a = skip_blanks(buf, b, c)
            size[n] = k
            number[n] = value
            n += 1
        i = nxt
        lines += 1
    return DONE, i, n, n_words, lines, n_unknown, lost


@njit(cache=True, nogil=True)
def format_counts(
    order, row, hist, first, begin, word, count, prefix_hists, prefix_rows, prefix_words, blob, offset, ids, out
):
    """Writes lines 'w1 .. wk<tab>count' of the rows from `row` on, whose history is first + hist or a later one, until
    `out` is full; rows that were not seen are left out. prefix_rows[j][h] is the row of history h of length j + 1 in
    its order, prefix_hists[j] the history of that row and prefix_words[j] its word. Returns (row, hist, bytes)."""
    n = np.int64(0)
    spelled = np.int64(-1)
    room = np.int64(LINE_ROOM)
    while row < word.shape[0]:
        if count[row] <= 0.0:
            row += 1
            continue
        while begin[hist + 1] <= row:
            hist += 1
        if spelled != hist:
            h = np.int64(first + hist)
            room = np.int64(LINE_ROOM)
            for j in range(order - 2, -1, -1):
                r = prefix_rows[j][h]
                ids[j] = prefix_words[j][r]
                room += offset[ids[j] + 1] - offset[ids[j]] + 1
                h = np.int64(prefix_hists[j][r])
            spelled = hist
        ids[order - 1] = word[row]
        if n + room + offset[word[row] + 1] - offset[word[row]] > out.shape[0]:
            break
        for j in range(order):
            for i in range(offset[ids[j]], offset[ids[j] + 1]):
                out[n] = blob[i]
                n += 1
            out[n] = SPACE if j < order - 1 else TAB
            n += 1
        n = _put_count(out, n, count[row])
        out[n] = NEWLINE
        n += 1
        row += 1
    return row, hist, n


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
