"""Lines of ARPA files to arrays."""

import decimal
import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.memory import eight_bytes, lowest_bit
from mdi.kernels.text import (
    DIRECTIVE,
    DONE,
    HASH_START,
    NEWLINE,
    POW10,
    SPACE,
    TAB,
    add_to_hash,
    append_word,
    find_hashed,
    find_word,
    line_bounds,
    next_field,
    parse_number,
    same_bytes,
    skip_blanks,
    slot_of,
)
from mdi.kernels.trie import gallop
from mdi.kernels.types import Array

BACKSLASH = 92
LN10 = math.log(10.0)

# What a loop stopped for, beside DONE and DIRECTIVE.
BAD_PROB, TOO_FEW_WORDS, BAD_BOW, UNKNOWN_WORD, NO_PREFIX, POSITIVE_PROB, TOP_BOW, TOO_MANY, DUPLICATE = range(3, 12)

# Log probabilities a rounding error above zero are taken as zero.
POSITIVE_SLACK = 1e-6
# 10**-99 and below is how ARPA files write a probability of zero.
LOG10_ZERO = -99.0
# The same as a cost, -ln p.
COST_ZERO = -LOG10_ZERO * LN10
EACH_BYTE = np.uint64(0x0101010101010101)
# Lines that are taken apart, or written, at a time.
BATCH = 64


class Section(NamedTuple):
    """The n-gram section that is being read."""

    order: int
    top: bool  # the highest order, without back-off weights
    limit: int  # the most n-grams that it may have


class Parsed(NamedTuple):
    """How far reading came."""

    why: int  # it stopped
    line: int  # byte where the line begins at which it stopped
    at: int  # byte of the offending field
    n: int  # n-grams read
    lines: int  # lines passed


class Prefixes(NamedTuple):
    """What finds the history of a line: of the orders 2 to k - 1, end to end, the rows of each and these as histories.
    at[j] says where what belongs to histories of length j + 1 begins; words, at[0], need no search."""

    at: Array  # int64[k - 1, 3]: in begin, start and row_of
    begin: Array  # int32[]: the rows of prefix h are begin[h] .. begin[h + 1]
    start: Array  # int32[]: the histories that end in w are start[w] .. start[w + 1]
    row_of: Array  # int32[]: the row of each history, ascending among those that end in w


class ReadRows(NamedTuple):
    """Rows in the order of the file."""

    hist: Array  # int32[n]: history of length k - 1
    word: Array  # int32[n]
    p: Array  # float64[n]
    bow: Array  # float64[n], or [0] in the highest order


class Lines(NamedTuple):
    """A batch of lines of order k, b = 0 .. BATCH-1, j = 0 .. k-1."""

    begin: Array  # int64[b]: byte where the line begins
    value: Array  # float64[b]: log10 p
    back: Array  # float64[b]: log10 bow, 0 where there is none
    word_begin: Array  # int64[b, j]: word j is buf[word_begin : word_end]
    word_end: Array  # int64[b, j]
    word_hash: Array  # uint64[b, j]: of its bytes; 0 for the same word as in the line before
    guess: Array  # int32[b, j]: the id in its first slot of the vocabulary's table
    ids: Array  # int64[b, j]: -1 where the word is not known


@njit(cache=True, nogil=True, inline="always")
def cost_of(p):
    """-ln p; that of 10**-99 for zero."""
    return min(-math.log(p), COST_ZERO) if p > 0.0 else COST_ZERO


def _powers(unit):
    """10 ** -(i unit 1e-7), i = 0 .. 1023, right to the last bit."""
    with decimal.localcontext() as context:
        context.prec = 40
        step = decimal.Decimal(10) ** (-unit * decimal.Decimal("1e-7"))
        return np.array([float(step**i) for i in range(1024)])


# 10 ** -(m 1e-7) is a product of three of these, by the bits of m: more exact than exp, and faster.
POWER_LOW, POWER_MIDDLE, POWER_HIGH = _powers(1), _powers(1 << 10), _powers(1 << 20)


@njit(cache=True, nogil=True, inline="always")
def from_log10(value):
    size = value * -1e7
    if -0.5 < size < 99e7:
        m = np.int64(size + 0.5)
        if abs(size - m) < 1e-6:  # seven decimals, as in nearly all files
            return POWER_HIGH[m >> 20] * POWER_MIDDLE[(m >> 10) & 1023] * POWER_LOW[m & 1023]
    return 0.0 if value <= LOG10_ZERO else math.exp(value * LN10)


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
def _usual_lines(buf, i, end, batch):
    """Takes apart lines as all tools write them, a number, single blanks, words, maybe a number, until the batch is
    full or another line comes. A word of the history that was at the same place in the line before has hash 0.

    Returns (lines, where the next one begins)."""
    word_begin, word_end, word_hash = batch.word_begin, batch.word_end, batch.word_hash
    order = word_begin.shape[1]
    n = np.int64(0)
    while n < BATCH and i < end:
        number, c, ok = _plain_number(buf, i, end)
        if not ok or c >= end or (buf[c] != TAB and buf[c] != SPACE):
            return n, i
        c += 1
        for j in range(order):
            word_begin[n, j] = c
            if j < order - 1 and n > 0:
                before, size = word_begin[n - 1, j], word_end[n - 1, j] - word_begin[n - 1, j]
                if (
                    c + size < end
                    and (buf[c + size] == SPACE or buf[c + size] == TAB)
                    and same_bytes(buf, c, buf, before, size)
                ):
                    word_end[n, j] = c + size
                    word_hash[n, j] = 0
                    c += size + 1
                    continue
            h = HASH_START
            while True:
                if c + 8 > end:
                    return n, i
                eight = eight_bytes(buf, c)
                # the highest bit of each byte below 33, blanks and other separators, and maybe of some above those
                ends = (eight - EACH_BYTE * np.uint64(33)) & ~eight & (EACH_BYTE << np.uint64(7))
                if ends != 0:
                    break
                h = add_to_hash(h, eight)
                c += 8
            left = lowest_bit(ends) >> np.uint64(3)
            h = add_to_hash(h, eight & ((np.uint64(1) << (left << np.uint64(3))) - np.uint64(1)))
            c += np.int64(left)
            after = buf[c]
            if c == word_begin[n, j] or (after != SPACE and after != TAB and (after != NEWLINE or j < order - 1)):
                return n, i
            word_end[n, j] = c
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
        batch.begin[n] = i
        batch.value[n] = number
        batch.back[n] = weight
        n += 1
        i = c
    return n, i


@njit(cache=True, nogil=True)
def _look_up(buf, n, batch, words):
    """The ids of the words of n lines, -1 for those that are not known. First all guesses, then all checks: the loads
    of one loop do not wait for each other."""
    word_begin, word_end, word_hash = batch.word_begin, batch.word_end, batch.word_hash
    guess, ids = batch.guess, batch.ids
    order = ids.shape[1]
    mask = np.uint64(words.table.shape[0] - 1)
    for b in range(n):
        for j in range(order):
            if word_hash[b, j] != 0:
                guess[b, j] = words.table[np.int64(slot_of(word_hash[b, j]) & mask)]
    for b in range(n):
        for j in range(order):
            if word_hash[b, j] == 0:
                ids[b, j] = ids[b - 1, j]
                continue
            w = np.int64(guess[b, j])
            size = word_end[b, j] - word_begin[b, j]
            same = w >= 0
            if same:
                start = words.offset[w]
                same = words.offset[w + 1] - start == size
                same = same and same_bytes(words.blob, start, buf, word_begin[b, j], size)
            if not same:
                w = max(np.int64(-1), find_hashed(word_hash[b, j], buf, word_begin[b, j], word_end[b, j], words))
            ids[b, j] = w


@njit(cache=True, nogil=True)
def _any_line(buf, i, stop, section, words, ids):
    """The content of a line, buf[i:stop], whatever it looks like. Returns (DONE or what is wrong, byte of the field,
    log10 p, log10 bow)."""
    a, c = next_field(buf, i, stop)
    value, ok = parse_number(buf, a, c)
    if not ok:
        return BAD_PROB, a, 0.0, 0.0
    if value > POSITIVE_SLACK:
        return POSITIVE_PROB, a, 0.0, 0.0
    for j in range(section.order):
        b, c = next_field(buf, c, stop)
        if b == c:
            return TOO_FEW_WORDS, a, 0.0, 0.0
        w = find_word(buf, b, c, words)
        if words.grows:  # 1-grams
            if w >= 0:
                return DUPLICATE, b, 0.0, 0.0
            w = append_word(buf, b, c, words, w)
        elif w < 0:
            return UNKNOWN_WORD, b, 0.0, 0.0
        ids[j] = w
    c = skip_blanks(buf, c, stop)
    back = 0.0
    if c < stop:
        back, ok = parse_number(buf, c, stop)
        if not ok:
            return BAD_BOW, c, 0.0, 0.0
        if section.top and back != 0.0:
            return TOP_BOW, c, 0.0, 0.0
    return DONE, a, value, back


@njit(cache=True, nogil=True)
def _find_history(ids, prefixes, cursor):
    """The history of the given words, or -1: prefix by prefix, each among the histories that end in its last word,
    one of which must be a row of the prefix before. Files come in one order or another, so each search begins where
    the last one ended, cursor[j]."""
    begin, start, row_of = prefixes.begin, prefixes.start, prefixes.row_of
    h = ids[0]
    for j in range(1, ids.shape[0]):
        at_begin, at_start, at_row = prefixes.at[j, 0], prefixes.at[j, 1], prefixes.at[j, 2]
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


@njit(cache=True, nogil=True)
def parse_ngrams(buf, begin, end, section, words, prefixes, rows):
    """Reads lines into `rows`, which has room for them; the bytes end with a line. The words of 1-grams join the
    vocabulary, which has room for them, too. Returns `Parsed`."""
    order, top = section.order, section.top
    i = begin
    lines = 0
    n = 0
    h = np.int64(0 if order == 1 else -1)
    last = np.full(order - 1, -1, np.int64)
    cursor = np.zeros(order, np.int64)
    batch = Lines(
        np.empty(BATCH, np.int64),
        np.empty(BATCH),
        np.empty(BATCH),
        np.empty((BATCH, order), np.int64),
        np.empty((BATCH, order), np.int64),
        np.empty((BATCH, order), np.uint64),
        np.empty((BATCH, order), np.int32),
        np.empty((BATCH, order), np.int64),
    )
    line, value, back, ids = batch.begin, batch.value, batch.back, batch.ids
    while i < end:
        b = ready = np.int64(0)
        if not words.grows:
            ready, nxt = _usual_lines(buf, i, end, batch)
            _look_up(buf, ready, batch, words)
        while b < ready or b == 0:
            usual = b < ready and value[b] <= 0.0 and not (top and back[b] != 0.0)
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
                    return Parsed(DIRECTIVE, i, a, n, lines)
                if n >= section.limit:
                    return Parsed(TOO_MANY, i, a, n, lines)
                why, at, value[b], back[b] = _any_line(buf, i, stop, section, words, ids[b])
                if why != DONE:
                    return Parsed(why, i, at, n, lines)
                ready = b + 1
            if n >= section.limit:
                return Parsed(TOO_MANY, i, i, n, lines)
            same = h >= 0
            for j in range(order - 1):
                same = same and ids[b, j] == last[j]
                last[j] = ids[b, j]
            if not same:
                h = _find_history(last, prefixes, cursor)
                if h < 0:
                    stop, _ = line_bounds(buf, i, end)
                    _, a = next_field(buf, i, stop)
                    return Parsed(NO_PREFIX, i, skip_blanks(buf, a, stop), n, lines)
            rows.hist[n] = h
            rows.word[n] = ids[b, order - 1]
            rows.p[n] = from_log10(min(value[b], 0.0))
            if not top:
                rows.bow[n] = from_log10(back[b])
            n += 1
            lines += 1
            b += 1
            i = line[b] if b < ready else nxt
    return Parsed(DONE, i, i, n, lines)
