"""Lines of ARPA files to arrays, and back."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mdi.kernels.memory import copy_bytes
from mdi.kernels.text import (
    DIRECTIVE,
    DONE,
    FULL,
    HASH_FACTOR,
    HASH_START,
    LINE_ROOM,
    NEWLINE,
    POW10,
    RETURN,
    SPACE,
    TAB,
    add_word,
    field_end,
    find_hashed,
    find_word,
    line_bounds,
    parse_number,
    put_number,
    skip_blanks,
    slot_of,
)  # fmt: skip
from mdi.kernels.trie import gallop

BACKSLASH = 92
LN10 = math.log(10.0)

# What a loop stopped for, beside DONE, DIRECTIVE and FULL. `at` is the byte where the offending field begins.
BAD_PROB, TOO_FEW_WORDS, BAD_BOW, UNKNOWN_WORD, NO_PREFIX, POSITIVE_PROB, TOP_BOW, TOO_MANY, DUPLICATE = range(3, 12)

# Log probabilities a rounding error above zero are taken as zero.
POSITIVE_SLACK = 1e-6
# 10**-99 and below is how ARPA files write a probability of zero.
LOG10_ZERO = -99.0
# A weight this close to 1 is 1 up to rounding: that of a history without rows need not be written.
NEARLY = 1e-13


@njit(cache=True, nogil=True)
def parse_unigrams(buf, begin, end, top, limit, table, blob, offset, n_words, p, bow):
    """Reads 1-gram lines. Returns (why it stopped, byte of the line, byte of the field, words, lines passed)."""
    i = begin
    lines = 0
    while i < end:
        stop, nxt = line_bounds(buf, i, end)
        a = skip_blanks(buf, i, stop)
        if a == stop:
            i = nxt
            lines += 1
            continue
        if buf[a] == BACKSLASH:
            return DIRECTIVE, i, a, n_words, lines
        if n_words >= limit:
            return TOO_MANY, i, a, n_words, lines
        if n_words >= p.shape[0] or n_words + 2 > offset.shape[0] or 2 * (n_words + 1) > table.shape[0]:
            return FULL, i, a, n_words, lines
        if offset[n_words] + stop - i > blob.shape[0]:
            return FULL, i, a, n_words, lines
        b = field_end(buf, a, stop)
        value, ok = parse_number(buf, a, b)
        if not ok:
            return BAD_PROB, i, a, n_words, lines
        if value > POSITIVE_SLACK:
            return POSITIVE_PROB, i, a, n_words, lines
        wa = skip_blanks(buf, b, stop)
        wb = field_end(buf, wa, stop)
        if wa == wb:
            return TOO_FEW_WORDS, i, a, n_words, lines
        back = 0.0
        c = skip_blanks(buf, wb, stop)
        if c < stop:
            back, ok = parse_number(buf, c, stop)
            if not ok:
                return BAD_BOW, i, c, n_words, lines
            if top and back != 0.0:
                return TOP_BOW, i, c, n_words, lines
        before = n_words
        w, n_words = add_word(buf, wa, wb, table, blob, offset, n_words)
        if n_words == before:
            return DUPLICATE, i, wa, n_words, lines
        p[w] = 0.0 if value <= LOG10_ZERO else math.exp(min(value, 0.0) * LN10)
        bow[w] = 0.0 if back <= LOG10_ZERO else math.exp(back * LN10)
        i = nxt
        lines += 1
    return DONE, i, i, n_words, lines


@njit(cache=True, nogil=True, inline="always")
def _plain_number(buf, i, end):
    """(value, byte after it, ok) of digits with a sign and a point; anything else, or many digits, is not ok."""
    negative = buf[i] == 45
    if negative:
        i += 1
    mantissa = np.int64(0)
    first = i
    while i < end and np.uint8(buf[i] - 48) < 10:
        mantissa = mantissa * 10 + (buf[i] - 48)
        i += 1
    digits = i - first
    decimals = np.int64(0)
    if i < end and buf[i] == 46:
        i += 1
        first = i
        while i < end and np.uint8(buf[i] - 48) < 10:
            mantissa = mantissa * 10 + (buf[i] - 48)
            i += 1
        decimals = i - first
    digits += decimals
    if digits == 0 or digits > 17:
        return 0.0, i, False
    value = float(mantissa) / POW10[decimals]
    return (-value if negative else value), i, True


@njit(cache=True, nogil=True)
def _usual_lines(buf, i, end, order, line, value, back, word_a, word_b, word_hash):
    """Takes apart lines as all tools write them, a number, single blanks, words, maybe a number, until the arrays are
    full or another line comes: line[b] is where line b begins, buf[word_a[b, j]:word_b[b, j]] are its words. A word of
    the history that stood at the same place in the line before has hash 0.

    Returns (lines, where the next one begins)."""
    n = np.int64(0)
    while n < line.shape[0] and i < end:
        number, c, ok = _plain_number(buf, i, end)
        if not ok or c >= end or (buf[c] != TAB and buf[c] != SPACE):
            return n, i
        c += 1
        for j in range(order):
            word_a[n, j] = c
            if j < order - 1 and n > 0:
                before, size = word_a[n - 1, j], word_b[n - 1, j] - word_a[n - 1, j]
                if c + size < end and (buf[c + size] == SPACE or buf[c + size] == TAB):
                    t = np.int64(0)
                    while t < size and buf[c + t] == buf[before + t]:
                        t += 1
                    if t == size:
                        word_b[n, j] = c + size
                        word_hash[n, j] = 0
                        c += size + 1
                        continue
            h = HASH_START
            while c < end and buf[c] != SPACE and buf[c] != TAB and buf[c] != NEWLINE:
                h = (h ^ np.uint64(buf[c])) * HASH_FACTOR
                c += 1
            if c == word_a[n, j] or c >= end or buf[c - 1] == RETURN or (buf[c] == NEWLINE and j < order - 1):
                return n, i
            word_b[n, j] = c
            word_hash[n, j] = h | np.uint64(1)
            c += 1
        weight = 0.0
        if buf[c - 1] != NEWLINE:
            if c >= end:
                return n, i
            weight, c, ok = _plain_number(buf, c, end)
            if not ok or c >= end or buf[c] != NEWLINE:
                return n, i
            c += 1
        line[n] = i
        value[n] = number
        back[n] = weight
        n += 1
        i = c
    return n, i


@njit(cache=True, nogil=True)
def _look_up(buf, n, order, vocab, word_a, word_b, word_hash, guess, ids):
    """The ids of the words of n lines, -1 for those that are not known. First all guesses, then all checks: the loads
    of one loop do not wait for each other."""
    table, blob, offset = vocab
    mask = np.uint64(table.shape[0] - 1)
    for b in range(n):
        for j in range(order):
            if word_hash[b, j] != 0:
                guess[b, j] = table[np.int64(slot_of(word_hash[b, j]) & mask)]
    for b in range(n):
        for j in range(order):
            if word_hash[b, j] == 0:
                ids[b, j] = ids[b - 1, j]
                continue
            w = np.int64(guess[b, j])
            size = word_b[b, j] - word_a[b, j]
            same = w >= 0
            if same:
                start = offset[w]
                same = offset[w + 1] - start == size
                if same:
                    for t in range(size):
                        same &= blob[start + t] == buf[word_a[b, j] + t]
            if not same:
                w = max(
                    np.int64(-1), find_hashed(word_hash[b, j], buf, word_a[b, j], word_b[b, j], table, blob, offset)
                )
            ids[b, j] = w


@njit(cache=True, nogil=True)
def _any_line(buf, i, stop, order, top, vocab, ids):
    """The content of a line, buf[i:stop], whatever it looks like. Returns (DONE or what is wrong, byte of the field,
    log10 p, log10 bow)."""
    table, blob, offset = vocab
    a = skip_blanks(buf, i, stop)
    b = field_end(buf, a, stop)
    value, ok = parse_number(buf, a, b)
    if not ok:
        return BAD_PROB, a, 0.0, 0.0
    if value > POSITIVE_SLACK:
        return POSITIVE_PROB, a, 0.0, 0.0
    c = b
    for j in range(order):
        c = skip_blanks(buf, c, stop)
        d = field_end(buf, c, stop)
        if c == d:
            return TOO_FEW_WORDS, a, 0.0, 0.0
        w = find_word(buf, c, d, table, blob, offset)
        if w < 0:
            return UNKNOWN_WORD, c, 0.0, 0.0
        ids[j] = w
        c = d
    c = skip_blanks(buf, c, stop)
    back = 0.0
    if c < stop:
        back, ok = parse_number(buf, c, stop)
        if not ok:
            return BAD_BOW, c, 0.0, 0.0
        if top and back != 0.0:
            return TOP_BOW, c, 0.0, 0.0
    return DONE, a, value, back


@njit(cache=True, nogil=True)
def _find_history(ids, length, level, begin, start, row_of, cursor):
    """The history of the given words, or -1: prefix by prefix. The arrays hold one order after the other; level[j]
    says where the j-th begins in each. Histories of length j + 1 that end in w are start[w] .. start[w+1], their rows
    row_of[..] ascend, and one of them must be among the rows of the prefix h, begin[h] .. begin[h+1]. Files come in
    one order or another, so each search begins where the last one ended."""
    h = ids[0]
    for j in range(1, length):
        at_begin, at_start, at_row = level[j, 0], level[j, 1], level[j, 2]
        row, row_end = begin[at_begin + h], begin[at_begin + h + 1]
        first = at_row + start[at_start + ids[j]]
        end = at_row + start[at_start + ids[j] + 1]
        lo = first
        if first < cursor[j] < end and row_of[cursor[j]] <= row:
            lo = cursor[j]
        lo = gallop(row_of, lo, end, row)
        if lo >= end or row_of[lo] >= row_end:
            return np.int64(-1)
        cursor[j] = lo
        h = lo - at_row
    return h


# Lines that are taken apart at a time.
BATCH = 64


@njit(cache=True, nogil=True)
def parse_ngrams(buf, begin, end, order, top, limit, vocab, level, begins, starts, rows_of, row_hist, row_word, p, bow):
    """Reads lines of the given order (2 or more) into the arrays from 0 on, at most `limit`; the bytes end with a line.

    `vocab` is (table, blob, offset); `level`, `begins`, `starts` and `rows_of` describe the orders below: see
    _find_history. Returns (why it stopped, byte of the line, byte of the field, rows, lines passed).
    """
    i = begin
    lines = 0
    n = 0
    h = np.int64(-1)
    last = np.full(order, -1, np.int64)
    cursor = np.zeros(order, np.int64)
    line, value, back = np.empty(BATCH, np.int64), np.empty(BATCH), np.empty(BATCH)
    word_a, word_b = np.empty((BATCH, order), np.int64), np.empty((BATCH, order), np.int64)
    word_hash = np.empty((BATCH, order), np.uint64)
    guess, ids = np.empty((BATCH, order), np.int32), np.empty((BATCH, order), np.int64)
    while i < end:
        batch, nxt = _usual_lines(buf, i, end, order, line, value, back, word_a, word_b, word_hash)
        _look_up(buf, batch, order, vocab, word_a, word_b, word_hash, guess, ids)
        b = np.int64(0)
        while b < batch or b == 0:
            usual = b < batch and value[b] <= 0.0 and not (top and back[b] != 0.0)
            if usual:
                i = line[b]
                for j in range(order):
                    usual = usual and ids[b, j] >= 0
            if not usual:
                # the line by itself, and a new batch after it
                stop, nxt = line_bounds(buf, i, end)
                a = skip_blanks(buf, i, stop)
                if a == stop:
                    i = nxt
                    lines += 1
                    break
                if buf[a] == BACKSLASH:
                    return DIRECTIVE, i, a, n, lines
                if n >= limit:
                    return TOO_MANY, i, a, n, lines
                why, at, value[b], back[b] = _any_line(buf, i, stop, order, top, vocab, ids[b])
                if why != DONE:
                    return why, i, at, n, lines
                batch = b + 1
            if n >= limit:
                return TOO_MANY, i, i, n, lines
            if n >= row_word.shape[0]:
                return FULL, i, i, n, lines
            same = h >= 0
            for j in range(order - 1):
                same = same and ids[b, j] == last[j]
                last[j] = ids[b, j]
            if not same:
                h = _find_history(last, order - 1, level, begins, starts, rows_of, cursor)
                if h < 0:
                    stop, _ = line_bounds(buf, i, end)
                    a = field_end(buf, skip_blanks(buf, i, stop), stop)
                    return NO_PREFIX, i, skip_blanks(buf, a, stop), n, lines
            row_hist[n] = h
            row_word[n] = ids[b, order - 1]
            p[n] = 0.0 if value[b] <= LOG10_ZERO else math.exp(min(value[b], 0.0) * LN10)
            if not top:
                bow[n] = 0.0 if back[b] <= LOG10_ZERO else math.exp(back[b] * LN10)
            n += 1
            lines += 1
            b += 1
            i = line[b] if b < batch else nxt
    return DONE, i, i, n, lines


@njit(cache=True, nogil=True, inline="always")
def _put_log10(out, n, value):
    if value <= 0.0:
        out[n] = 45
        out[n + 1] = 57
        out[n + 2] = 57
        return n + 3
    return put_number(out, n, math.log(value) / LN10)


@njit(cache=True, nogil=True)
def _any_kept(row, end, keep):
    """Whether there is a row that is written; no flags: all are."""
    while row < end and keep.shape[0] and not keep[row]:
        row += 1
    return row < end


@njit(cache=True, nogil=True)
def format_ngrams(
    order, top, row, end, keep, begin, word, level, prefix, last, p, bow, as_hist, longer, keep_longer, blob, offset,
    out
):  # fmt: skip
    """Writes the rows row .. end, or those of them that are flagged in `keep`, until `out` is full. Returns (row,
    bytes).

    last[h] is the last word of history h and prefix[h] the history before it; they hold the histories of one length
    after the other, those of length j + 2 from level[j] on. `longer` is `begin` of the order above, `keep_longer` its
    flags: a row that is somebody's history gets its back-off weight written even if that is 1.
    """
    n = np.int64(0)
    hist = np.searchsorted(begin, row, side="right") - 1
    spelled = np.int64(-1)
    ids = np.zeros(order, np.int64)
    words = np.empty(LINE_ROOM, np.uint8)  # the history's
    size = np.int64(0)
    # back-off weights lie anywhere, so those of some rows are fetched at once
    weight = np.empty(BATCH)
    first = row - BATCH
    while row < end:
        if not top and row == first + BATCH:
            first = row
            for r in range(row, min(end, row + BATCH)):
                weight[r - first] = bow[as_hist[r]]
        if keep.shape[0] and not keep[row]:
            row += 1
            continue
        while begin[hist + 1] <= row:
            hist += 1
        if spelled != hist:
            h = np.int64(hist)
            for j in range(order - 2, 0, -1):
                ids[j] = last[level[j - 1] + h]
                h = np.int64(prefix[level[j - 1] + h])
            ids[0] = h
            size = np.int64(0)
            for j in range(order - 1):
                size += offset[ids[j] + 1] - offset[ids[j]] + 1
            if size > words.shape[0]:
                words = np.empty(2 * size, np.uint8)
            size = np.int64(0)
            for j in range(order - 1):
                length = offset[ids[j] + 1] - offset[ids[j]]
                copy_bytes(words, size, blob, offset[ids[j]], length)
                size += length
                words[size] = SPACE
                size += 1
            spelled = hist
        w = word[row]
        length = offset[w + 1] - offset[w]
        if n + LINE_ROOM + size + length > out.shape[0]:
            break
        n = _put_log10(out, n, p[row])
        out[n] = TAB
        n += 1
        copy_bytes(out, n, words, 0, size)
        copy_bytes(out, n + size, blob, offset[w], length)
        n += size + length
        if not top:
            back = weight[row - first]
            h = np.int64(as_hist[row])
            if abs(back - 1.0) > NEARLY or _any_kept(longer[h], longer[h + 1], keep_longer):
                out[n] = TAB
                n = _put_log10(out, n + 1, back)
        out[n] = NEWLINE
        n += 1
        row += 1
    return row, n
