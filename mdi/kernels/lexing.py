"""Bytes to words and numbers, and back: the loops behind ARPA files and text.

A vocabulary is three arrays: the words' bytes end to end (``blob``), where each begins (``offset``), and an
open-addressing hash ``table`` of a power-of-two size that holds word ids, -1 where empty.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

TAB, NEWLINE, RETURN, SPACE, BACKSLASH = 9, 10, 13, 32, 92
LN10 = math.log(10.0)

# What a loop stopped for. The caller turns it into a message; `at` is the byte where the offending field begins.
DONE, DIRECTIVE, FULL = 0, 1, 2
BAD_PROB, TOO_FEW_WORDS, BAD_BOW, UNKNOWN_WORD, NO_PREFIX, POSITIVE_PROB, TOP_BOW, TOO_MANY, DUPLICATE = range(3, 12)
MARKER_INSIDE = 12

# Log probabilities a rounding error above zero are taken as zero.
POSITIVE_SLACK = 1e-6
# 10**-99 and below is how ARPA files write a probability of zero.
LOG10_ZERO = -99.0


@njit(cache=True, nogil=True, inline="always")
def _hash(buf, begin, end):
    h = np.uint64(14695981039346656037)  # FNV-1a
    for i in range(begin, end):
        h = (h ^ np.uint64(buf[i])) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))


@njit(cache=True, nogil=True)
def find_word(buf, begin, end, table, blob, offset):
    """Id of buf[begin:end], or -1 - slot of the table where it would go."""
    mask = table.shape[0] - 1
    slot = np.int64(_hash(buf, begin, end) & np.uint64(mask))
    size = end - begin
    while True:
        w = table[slot]
        if w < 0:
            return -1 - slot
        start = offset[w]
        if offset[w + 1] - start == size:
            same = True
            for i in range(size):
                if blob[start + i] != buf[begin + i]:
                    same = False
                    break
            if same:
                return np.int64(w)
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def rebuild_table(table, blob, offset, n_words):
    """Fills an empty table; returns the first id whose word stands there already, or -1."""
    for w in range(n_words):
        at = find_word(blob, offset[w], offset[w + 1], table, blob, offset)
        if at >= 0:
            return w
        table[-1 - at] = w
    return -1


@njit(cache=True, nogil=True)
def add_word(buf, begin, end, table, blob, offset, n_words):
    """Appends buf[begin:end] to the vocabulary unless it is there. Returns (id, number of words)."""
    at = find_word(buf, begin, end, table, blob, offset)
    if at >= 0:
        return at, n_words
    start = offset[n_words]
    for i in range(end - begin):
        blob[start + i] = buf[begin + i]
    offset[n_words + 1] = start + end - begin
    table[-1 - at] = n_words
    return np.int64(n_words), n_words + 1


@njit(cache=True, nogil=True, inline="always")
def _skip_blanks(buf, i, end):
    while i < end and (buf[i] == SPACE or buf[i] == TAB):
        i += 1
    return i


@njit(cache=True, nogil=True, inline="always")
def _field_end(buf, i, end):
    while i < end and buf[i] != SPACE and buf[i] != TAB:
        i += 1
    return i


@njit(cache=True, nogil=True)
def line_bounds(buf, i, end):
    """(end of the content, start of the next line) of the line at i: without CR, LF and trailing blanks."""
    j = i
    while j < end and buf[j] != NEWLINE:
        j += 1
    nxt = j + 1 if j < end else j
    while j > i and (buf[j - 1] == RETURN or buf[j - 1] == SPACE or buf[j - 1] == TAB):
        j -= 1
    return j, nxt


# Exact powers of ten: a mantissa below 2^53 times or over one of them is correctly rounded.
_POW10 = 10.0 ** np.arange(23)


@njit(cache=True, nogil=True)
def parse_number(buf, begin, end):
    """(value, ok) of a plain decimal such as -1.25, 3 or 2.5e-07. 'inf' and 'nan' are not ok."""
    i = begin
    negative = False
    if i < end and (buf[i] == 45 or buf[i] == 43):
        negative = buf[i] == 45
        i += 1
    mantissa = np.int64(0)
    exponent = 0
    digits = 0
    seen_point = False
    while i < end:
        c = buf[i]
        if 48 <= c <= 57:
            digits += 1
            if mantissa < 100_000_000_000_000_000:
                mantissa = mantissa * 10 + (c - 48)
                if seen_point:
                    exponent -= 1
            elif not seen_point:
                exponent += 1
        elif c == 46 and not seen_point:
            seen_point = True
        else:
            break
        i += 1
    if digits == 0:
        return 0.0, False
    if i < end and (buf[i] == 101 or buf[i] == 69):
        i += 1
        down = False
        if i < end and (buf[i] == 45 or buf[i] == 43):
            down = buf[i] == 45
            i += 1
        power = 0
        start = i
        while i < end and 48 <= buf[i] <= 57 and power < 10000:
            power = power * 10 + (buf[i] - 48)
            i += 1
        if i == start:
            return 0.0, False
        exponent += -power if down else power
    if i != end:
        return 0.0, False
    value = float(mantissa)
    if exponent < 0:
        value = value / _POW10[-exponent] if exponent >= -22 else value * 10.0**exponent
    elif exponent > 0:
        value = value * _POW10[exponent] if exponent <= 22 else value * 10.0**exponent
    if not math.isfinite(value):
        return 0.0, False
    return (-value if negative else value), True


@njit(cache=True, nogil=True)
def parse_unigrams(buf, begin, end, top, limit, table, blob, offset, n_words, p, bow):
    """Reads 1-gram lines. Returns (why it stopped, byte of the line, byte of the field, words, lines passed)."""
    i = begin
    lines = 0
    while i < end:
        stop, nxt = line_bounds(buf, i, end)
        a = _skip_blanks(buf, i, stop)
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
        b = _field_end(buf, a, stop)
        value, ok = parse_number(buf, a, b)
        if not ok:
            return BAD_PROB, i, a, n_words, lines
        if value > POSITIVE_SLACK:
            return POSITIVE_PROB, i, a, n_words, lines
        wa = _skip_blanks(buf, b, stop)
        wb = _field_end(buf, wa, stop)
        if wa == wb:
            return TOO_FEW_WORDS, i, a, n_words, lines
        back = 0.0
        c = _skip_blanks(buf, wb, stop)
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


@njit(cache=True, nogil=True)
def find_child(begin, word, h, w):
    """Row of w among the rows of history h, or -1."""
    lo = np.int64(begin[h])
    hi = np.int64(begin[h + 1])
    while lo < hi:
        mid = (lo + hi) >> 1
        if word[mid] < w:
            lo = mid + 1
        else:
            hi = mid
    if lo < begin[h + 1] and word[lo] == w:
        return lo
    return np.int64(-1)


@njit(cache=True, nogil=True)
def parse_ngrams(buf, begin, end, order, top, limit, vocab, begins, words, as_hists, ids, n_rows, row_hist, row_word, p, bow):
    """Reads lines of the given order (2 or more).

    `vocab` is (table, blob, offset); `begins`, `words` and `as_hists` hold the arrays of the orders below, so that the
    history of a line is found by walking its prefixes: row of w1, that row as a history, row of w1 w2, and so on.
    `ids` (the words of the last history) and `row_hist[n_rows - 1]` save the walk while the history stays the same.
    Returns (why it stopped, byte of the line, byte of the field, rows, lines passed).
    """
    table, blob, offset = vocab
    i = begin
    lines = 0
    last_a, last_b = np.int64(0), np.int64(0)  # text of the history of the line before, in this buffer
    while i < end:
        stop, nxt = line_bounds(buf, i, end)
        a = _skip_blanks(buf, i, stop)
        if a == stop:
            i = nxt
            lines += 1
            continue
        if buf[a] == BACKSLASH:
            return DIRECTIVE, i, a, n_rows, lines
        if n_rows >= limit:
            return TOO_MANY, i, a, n_rows, lines
        if n_rows >= p.shape[0]:
            return FULL, i, a, n_rows, lines
        b = _field_end(buf, a, stop)
        value, ok = parse_number(buf, a, b)
        if not ok:
            return BAD_PROB, i, a, n_rows, lines
        if value > POSITIVE_SLACK:
            return POSITIVE_PROB, i, a, n_rows, lines
        c = _skip_blanks(buf, b, stop)
        hist_a = c
        size = last_b - last_a
        same = size > 0 and c + size < stop and (buf[c + size] == SPACE or buf[c + size] == TAB)
        if same:
            for j in range(size):
                if buf[last_a + j] != buf[c + j]:
                    same = False
                    break
        if same:
            c += size
            h = np.int64(row_hist[n_rows - 1])
        else:
            h = np.int64(0)
            for j in range(order - 1):
                c = _skip_blanks(buf, c, stop)
                d = _field_end(buf, c, stop)
                if c == d:
                    return TOO_FEW_WORDS, i, a, n_rows, lines
                w = find_word(buf, c, d, table, blob, offset)
                if w < 0:
                    return UNKNOWN_WORD, i, c, n_rows, lines
                ids[j] = w
                c = d
        hist_b = c
        c = _skip_blanks(buf, c, stop)
        d = _field_end(buf, c, stop)
        if c == d:
            return TOO_FEW_WORDS, i, a, n_rows, lines
        w = find_word(buf, c, d, table, blob, offset)
        if w < 0:
            return UNKNOWN_WORD, i, c, n_rows, lines
        back = 0.0
        d = _skip_blanks(buf, d, stop)
        if d < stop:
            back, ok = parse_number(buf, d, stop)
            if not ok:
                return BAD_BOW, i, d, n_rows, lines
            if top and back != 0.0:
                return TOP_BOW, i, d, n_rows, lines
        if not same:
            row = ids[0]
            h = np.int64(as_hists[0][row])
            for j in range(1, order - 1):
                row = find_child(begins[j], words[j], h, ids[j])
                if row < 0:
                    return NO_PREFIX, i, hist_a, n_rows, lines
                h = np.int64(as_hists[j][row])
            last_a, last_b = hist_a, hist_b
        row_hist[n_rows] = h
        row_word[n_rows] = w
        p[n_rows] = 0.0 if value <= LOG10_ZERO else math.exp(min(value, 0.0) * LN10)
        if not top:
            bow[n_rows] = 0.0 if back <= LOG10_ZERO else math.exp(back * LN10)
        n_rows += 1
        i = nxt
        lines += 1
    return DONE, i, i, n_rows, lines


@njit(cache=True, nogil=True)
def tokenize(buf, begin, end, grow, bos, eos, unk, break_at_unk, table, blob, offset, n_words, out, word_count):
    """Text to ids: every line that is not blank becomes <s> words </s>. With `grow` new words join the vocabulary;
    otherwise they are counted and written as `unk`, or as -1 with `break_at_unk`. Markers that stand at
    the ends of a line are not doubled; elsewhere they stop the loop.

    Returns (why it stopped, byte of the line, byte of the field, ids, words, lines passed, sentences, unknown tokens).
    """
    i = begin
    n = np.int64(0)
    lines = 0
    sentences = 0
    unknown = 0
    while i < end:
        stop, nxt = line_bounds(buf, i, end)
        a = _skip_blanks(buf, i, stop)
        if a == stop:
            i = nxt
            lines += 1
            continue
        if n + (stop - a) // 2 + 4 > out.shape[0]:
            return FULL, i, a, n, n_words, lines, sentences, unknown
        if grow and (
            2 * (n_words + (stop - a) // 2 + 2) > table.shape[0]
            or n_words + (stop - a) // 2 + 3 > offset.shape[0]
            or offset[n_words] + (stop - a) > blob.shape[0]
        ):
            return FULL, i, a, n, n_words, lines, sentences, unknown
        first = n
        out[n] = bos
        n += 1
        ended = False
        while a < stop:
            b = _field_end(buf, a, stop)
            if grow:
                w, n_words = add_word(buf, a, b, table, blob, offset, n_words)
            else:
                w = find_word(buf, a, b, table, blob, offset)
            if ended or (w == bos and n != first + 1):
                return MARKER_INSIDE, i, a, first, n_words, lines, sentences, unknown
            if w == eos:
                ended = True
            elif w != bos:
                if w < 0:
                    unknown += 1
                    w = np.int64(-1) if break_at_unk else np.int64(unk)
                out[n] = w
                n += 1
                word_count[0] += 1
            a = _skip_blanks(buf, b, stop)
        out[n] = eos
        n += 1
        sentences += 1
        i = nxt
        lines += 1
    return DONE, i, i, n, n_words, lines, sentences, unknown


@njit(cache=True, nogil=True)
def _put_number(out, n, value):
    """Writes seven significant digits like C's %.7g, and at least seven decimals: sums over a history stay within 1e-6 of one,
    and what has been read with seven digits is written as it was. Returns the new length."""
    if abs(value) < 1e-30:
        out[n] = 48
        return n + 1
    if value < 0.0:
        out[n] = 45
        n += 1
        value = -value
    power = math.floor(math.log10(value))
    digits = 7 if power < 0 else 8 + min(power, 6)
    # mantissa: the significant digits as an integer
    shift = digits - 1 - power
    scaled = value * _POW10[shift] if 0 <= shift <= 22 else value * 10.0**shift
    mantissa = np.int64(np.rint(scaled))
    if mantissa >= np.int64(_POW10[digits]):
        power += 1
        mantissa = np.int64(np.rint(scaled / 10.0))
    elif mantissa < np.int64(_POW10[digits - 1]):
        power -= 1
        mantissa = np.int64(np.rint(scaled * 10.0))
    while digits > 1 and mantissa % 10 == 0:
        mantissa //= 10
        digits -= 1
    exponential = power < -4 or power > 6
    point = 0 if exponential else power  # the decimal point stands after digit number `point`
    if point < 0:
        out[n] = 48
        out[n + 1] = 46
        n += 2
        for _ in range(-point - 1):
            out[n] = 48
            n += 1
    divisor = np.int64(1)
    for _ in range(digits - 1):
        divisor *= 10
    for j in range(digits):
        out[n] = 48 + (mantissa // divisor) % 10
        n += 1
        divisor //= 10
        if j == point and j < digits - 1:
            out[n] = 46
            n += 1
    for _ in range(point - digits + 1):
        out[n] = 48
        n += 1
    if exponential:
        out[n] = 101
        out[n + 1] = 45 if power < 0 else 43
        n += 2
        power = abs(power)
        if power >= 100:
            out[n] = 48 + power // 100
            n += 1
        out[n] = 48 + (power // 10) % 10
        out[n + 1] = 48 + power % 10
        n += 2
    return n


@njit(cache=True, nogil=True)
def _put_log10(out, n, value):
    if value <= 0.0:
        out[n] = 45
        out[n + 1] = 57
        out[n + 2] = 57
        return n + 3
    return _put_number(out, n, math.log10(value))


# Room that a line needs beside its words: two numbers of at most 14 characters, separators.
LINE_ROOM = 40


@njit(cache=True, nogil=True)
def format_ngrams(
    order, top, row, hist, begin, word, prefix_hists, prefix_rows, prefix_words, p, bow, as_hist, longer, blob, offset, ids, out
):
    """Writes rows from `row` on, whose history is `hist` or later, until `out` is full. Returns (row, hist, bytes).

    prefix_rows[j][h] is the row of history h of length j + 1 in its order, prefix_hists[j] the history of that row
    and prefix_words[j] the words: they spell out a history from its last word to its first. `longer` is `begin` of the
    order above: a row that is somebody's history gets its back-off weight written even if that is 1.
    """
    n = np.int64(0)
    n_rows = word.shape[0]
    spelled = np.int64(-1)
    room = np.int64(LINE_ROOM)
    while row < n_rows:
        while begin[hist + 1] <= row:
            hist += 1
        if spelled != hist:
            h = np.int64(hist)
            room = np.int64(LINE_ROOM)
            for j in range(order - 2, -1, -1):
                r = prefix_rows[j][h]
                ids[j] = prefix_words[j][r]
                room += offset[ids[j] + 1] - offset[ids[j]] + 1
                h = np.int64(prefix_hists[j][r])
            spelled = hist
        ids[order - 1] = word[row]
        last = ids[order - 1]
        if n + room + offset[last + 1] - offset[last] + 1 > out.shape[0]:
            break
        n = _put_log10(out, n, p[row])
        out[n] = TAB
        n += 1
        for j in range(order):
            if j > 0:
                out[n] = SPACE
                n += 1
            for i in range(offset[ids[j]], offset[ids[j] + 1]):
                out[n] = blob[i]
                n += 1
        if not top:
            h = np.int64(as_hist[row])
            weight = bow[h]
            if weight != 1.0 or longer[h + 1] > longer[h]:
                out[n] = TAB
                n = _put_log10(out, n + 1, weight)
        out[n] = NEWLINE
        n += 1
        row += 1
    return row, hist, n
