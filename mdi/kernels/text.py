"""Bytes to words and numbers, and back: the loops behind text and every file of words."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.memory import copy_bytes, eight_bytes
from mdi.kernels.types import Array

TAB, NEWLINE, RETURN, SPACE = 9, 10, 13, 32

# What a loop stopped for. The caller turns it into a message; `at` is the byte where the offending field begins.
DONE, DIRECTIVE, FULL, MARKER_INSIDE = 0, 1, 2, 3

# A hash takes eight bytes of a word at a time, and at last the fewer than eight, or none, that are left.
HASH_START, HASH_FACTOR = np.uint64(14695981039346656037), np.uint64(0x9E3779B97F4A7C15)


class Words(NamedTuple):
    """A vocabulary of W words. The arrays of one that grows have room to spare."""

    blob: Array  # uint8[]: the words' bytes end to end
    offset: Array  # int64[W + 1 ..]: word w is blob[offset[w] : offset[w + 1]]
    table: Array  # int32[2^b]: ids in open addressing, at most half full, -1 where empty; by `find_word`'s hash
    size: Array  # int64[1]: W
    grows: bool  # whether new words join


class Markers(NamedTuple):
    """The ids that a text needs beside those of its words; `unk` is what an unknown word becomes, -1 for no word."""

    bos: int
    eos: int
    unk: int


class Tokenized(NamedTuple):
    """What `tokenize` did."""

    why: int  # it stopped: DONE, FULL or MARKER_INSIDE
    line: int  # byte of the line where it stopped
    n: int  # ids written
    lines: int  # lines passed
    sentences: int
    words: int  # tokens without <s> and </s>
    unknown: int  # tokens outside the vocabulary


@njit(cache=True, nogil=True, inline="always")
def add_to_hash(h, eight):
    h = (h ^ eight) * HASH_FACTOR
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True, inline="always")
def last_bytes(buf, begin, size):
    """buf[begin : begin + size], fewer than eight bytes, as an integer like those of `eight_bytes`."""
    if begin + 8 <= buf.shape[0]:
        return eight_bytes(buf, begin) & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))
    found = np.uint64(0)
    for i in range(size):
        found |= np.uint64(buf[begin + i]) << np.uint64(8 * i)
    return found


@njit(cache=True, nogil=True, inline="always")
def same_bytes(a, a_begin, b, b_begin, size):
    while size >= 8:
        if eight_bytes(a, a_begin) != eight_bytes(b, b_begin):
            return False
        a_begin += 8
        b_begin += 8
        size -= 8
    return last_bytes(a, a_begin, size) == last_bytes(b, b_begin, size)


@njit(cache=True, nogil=True)
def find_word(buf, begin, end, words):
    """Id of buf[begin:end], or -1 - slot of the table where it would go."""
    start = begin
    h = HASH_START
    while end - begin >= 8:
        h = add_to_hash(h, eight_bytes(buf, begin))
        begin += 8
    return find_hashed(add_to_hash(h, last_bytes(buf, begin, end - begin)) | np.uint64(1), buf, start, end, words)


@njit(cache=True, nogil=True, inline="always")
def slot_of(h):
    """Where to begin in the table, before its size is masked off. The lowest bit of a hash is always set."""
    return (h >> np.uint64(1)) ^ (h >> np.uint64(29))


@njit(cache=True, nogil=True)
def find_hashed(h, buf, begin, end, words):
    """The same with the hash of the bytes at hand."""
    mask = words.table.shape[0] - 1
    slot = np.int64(slot_of(h) & np.uint64(mask))
    size = end - begin
    while True:
        w = words.table[slot]
        if w < 0:
            return -1 - slot
        start = words.offset[w]
        if words.offset[w + 1] - start == size and same_bytes(words.blob, start, buf, begin, size):
            return np.int64(w)
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def fill_table(words):
    """Fills an empty table; returns the first id whose word is there already, or -1."""
    for w in range(words.size[0]):
        at = find_word(words.blob, words.offset[w], words.offset[w + 1], words)
        if at >= 0:
            return w
        words.table[-1 - at] = w
    return -1


@njit(cache=True, nogil=True)
def append_word(buf, begin, end, words, found):
    """Adds buf[begin:end], of which `find_word` said `found`, to a vocabulary that has room for it. Returns its id."""
    w = words.size[0]
    start = words.offset[w]
    for i in range(end - begin):
        words.blob[start + i] = buf[begin + i]
    words.offset[w + 1] = start + end - begin
    words.table[-1 - found] = w
    words.size[0] = w + 1
    return w


@njit(cache=True, nogil=True)
def has_room(words, more, size):
    """Whether so many more words of so many bytes in all can join."""
    n = words.size[0]
    few = n + more + 1 <= words.offset.shape[0] and 2 * (n + more) <= words.table.shape[0]
    return few and words.offset[n] + size <= words.blob.shape[0]


@njit(cache=True, nogil=True)
def size_of(words, ids, n):
    """Bytes of the first n ids, with one more for each."""
    size = np.int64(n)
    for i in range(n):
        size += words.offset[ids[i] + 1] - words.offset[ids[i]]
    return size


@njit(cache=True, nogil=True)
def put_words(out, at, words, ids, n):
    """Writes the first n ids, a blank after each. Returns the new length."""
    for i in range(n):
        start = words.offset[ids[i]]
        size = words.offset[ids[i] + 1] - start
        copy_bytes(out, at, words.blob, start, size)
        out[at + size] = SPACE
        at += size + 1
    return at


@njit(cache=True, nogil=True, inline="always")
def skip_blanks(buf, i, end):
    while i < end and (buf[i] == SPACE or buf[i] == TAB):
        i += 1
    return i


@njit(cache=True, nogil=True, inline="always")
def next_field(buf, i, end):
    """(begin, end) of the next field of a line; empty at the end of the line."""
    a = b = skip_blanks(buf, i, end)
    while b < end and buf[b] != SPACE and buf[b] != TAB:
        b += 1
    return a, b


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
POW10 = 10.0 ** np.arange(23)


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
        value = value / POW10[-exponent] if exponent >= -22 else value * 10.0**exponent
    elif exponent > 0:
        value = value * POW10[exponent] if exponent <= 22 else value * 10.0**exponent
    if not math.isfinite(value):
        return 0.0, False
    return (-value if negative else value), True


@njit(cache=True, nogil=True)
def tokenize(buf, begin, end, words, markers, out):
    """Text to ids: every line that is not blank becomes <s> words </s>. Markers that are at the ends of a line are not
    doubled; elsewhere they stop the loop. Returns `Tokenized`."""
    bos, eos = markers.bos, markers.eos
    i = begin
    n = np.int64(0)
    lines, sentences, tokens, unknown = 0, 0, 0, 0
    while i < end:
        stop, nxt = line_bounds(buf, i, end)
        a, b = next_field(buf, i, stop)
        if a == stop:
            i = nxt
            lines += 1
            continue
        most = (stop - a) // 2 + 2  # words
        if n + most + 2 > out.shape[0] or (words.grows and not has_room(words, most, stop - a)):
            return Tokenized(FULL, i, n, lines, sentences, tokens, unknown)
        first = n
        out[n] = bos
        n += 1
        ended = False
        while a < stop:
            w = find_word(buf, a, b, words)
            if w < 0 and words.grows:
                w = append_word(buf, a, b, words, w)
            if ended or (w == bos and n != first + 1):
                return Tokenized(MARKER_INSIDE, i, first, lines, sentences, tokens, unknown)
            if w == eos:
                ended = True
            elif w != bos:
                if w < 0:
                    unknown += 1
                    w = np.int64(markers.unk)
                out[n] = w
                n += 1
                tokens += 1
            a, b = next_field(buf, b, stop)
        out[n] = eos
        n += 1
        sentences += 1
        i = nxt
        lines += 1
    return Tokenized(DONE, i, n, lines, sentences, tokens, unknown)


# Room that a line needs beside its words: two numbers of at most 14 characters, separators.
LINE_ROOM = 40


# "00" to "99"
PAIRS = np.frombuffer("".join(f"{i:02d}" for i in range(100)).encode(), np.uint8).copy()


@njit(cache=True, nogil=True, inline="always")
def put_number(out, n, value):
    """Writes seven significant digits like C's %.7g, and at least seven decimals: sums over a history stay within 1e-6
    of one, and what has been read with seven digits is written as it was. Returns the new length."""
    end = _put_usual(out, n, value)
    return end if end >= 0 else _put_any(out, n, value)


@njit(cache=True, nogil=True)
def _put_usual(out, n, value):
    """-1 for what is left to _put_any. With a call of that in it the compiler would not inline this, which doubles its
    time."""
    size = abs(value)
    if not 0.01 <= size < 99.0 or 0.0999999 < size < 0.1:
        return np.int64(-1)
    if value < 0.0:
        out[n] = 45
        n += 1
    # nearly all numbers: seven decimals, or seven digits behind 0.0; rounded by adding a half, as rint is a call
    if size >= 0.1:
        part = np.uint32(size * 1e7 + 0.5)
        whole = part // np.uint32(10_000_000)
        part -= whole * np.uint32(10_000_000)
        if whole >= 10:
            out[n] = np.uint8(48 + whole // np.uint32(10))
            whole %= np.uint32(10)
            n += 1
        out[n] = np.uint8(48 + whole)
        if part == 0:
            return n + 1
        out[n + 1] = 46
        n += 2
    else:
        part = np.uint32(size * 1e8 + 0.5)
        out[n] = 48
        out[n + 1] = 46
        out[n + 2] = 48
        n += 3
    a = part // np.uint32(100_000)
    b = part // np.uint32(1_000) % np.uint32(100)
    c = part // np.uint32(10) % np.uint32(100)
    out[n], out[n + 1] = PAIRS[2 * a], PAIRS[2 * a + 1]
    out[n + 2], out[n + 3] = PAIRS[2 * b], PAIRS[2 * b + 1]
    out[n + 4], out[n + 5] = PAIRS[2 * c], PAIRS[2 * c + 1]
    last = part % np.uint32(10)
    out[n + 6] = np.uint8(48 + last)
    n += 7
    if last == 0:
        n -= 1
        while out[n - 1] == 48:
            n -= 1
    return n


@njit(cache=True, nogil=True)
def _put_any(out, n, value):
    if abs(value) < 1e-30:
        out[n] = 48
        return n + 1
    if value < 0.0:
        out[n] = 45
        n += 1
        value = -value
    if 0.001 <= value < 10.0:
        power = np.int64(0 if value >= 1.0 else -1 if value >= 0.1 else -2 if value >= 0.01 else -3)
    else:
        power = np.int64(math.floor(math.log10(value)))
    digits = 7 if power < 0 else 8 + min(power, 6)
    # mantissa: the significant digits as an integer
    shift = digits - 1 - power
    scaled = value * POW10[shift] if 0 <= shift <= 22 else value * 10.0**shift
    mantissa = np.int64(np.rint(scaled))
    if mantissa >= np.int64(POW10[digits]):
        power += 1
        mantissa = np.int64(np.rint(scaled / 10.0))
    elif mantissa < np.int64(POW10[digits - 1]):
        power -= 1
        mantissa = np.int64(np.rint(scaled * 10.0))
    left = np.uint64(mantissa)
    while digits > 1 and left % np.uint64(10) == 0:
        left //= np.uint64(10)
        digits -= 1
    exponential = power < -4 or power > 6
    point = np.int64(0) if exponential else power  # the decimal point comes after digit number `point`
    if point < 0:
        out[n] = 48
        out[n + 1] = 46
        n += 2
        for _ in range(-point - 1):
            out[n] = 48
            n += 1
    # the digits, from the last to the first, with room for the point where it stands among them
    inside = np.int64(1 if 0 <= point < digits - 1 else 0)
    for j in range(digits - 1, -1, -1):
        out[n + j + (inside if j > point else 0)] = np.uint8(np.uint64(48) + left % np.uint64(10))
        left //= np.uint64(10)
    if inside:
        out[n + point + 1] = 46
    n += digits + inside
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
