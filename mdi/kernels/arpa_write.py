"""Models to lines of ARPA files, and what a reader finds in them."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.arpa import BATCH, LN10, LOG10_ZERO, from_log10
from mdi.kernels.memory import copy_bytes
from mdi.kernels.text import LINE_ROOM, NEWLINE, TAB, parse_number, put_number, put_words, size_of
from mdi.kernels.trie import bisect, spell
from mdi.kernels.types import Array

# A weight this close to 1 is 1 up to rounding: that of a history without rows need not be written.
NEARLY = 1e-13


class WrittenOrder(NamedTuple):
    """One order k of a model as it is written: R rows, H histories of length k - 1. Of the order above it, what says
    whether a row is a history; empty in the highest order."""

    order: int
    top: bool
    begin: Array  # int32[H + 1]
    word: Array  # int32[R]
    p: Array  # float64[R]
    keep: Array  # bool[R]: the rows to write; [0] for all
    as_hist: Array  # int32[R]
    bow: Array  # float64[R], by as_hist
    longer: Array  # int32[R + 1]: `begin` of order k + 1, by as_hist
    keep_longer: Array  # bool[rows of order k + 1], or [0] for all


@njit(cache=True, nogil=True, inline="always")
def _put_log10(out, n, value):
    if value <= 0.0:
        out[n] = 45
        out[n + 1] = 57
        out[n + 2] = 57
        return n + 3
    return put_number(out, n, math.log(value) / LN10)


@njit(cache=True, nogil=True)
def as_written(value):
    """What a reader finds for these probabilities or weights, whose logarithms are written with a few digits."""
    found = np.empty(value.shape[0])
    digits = np.empty(LINE_ROOM, np.uint8)
    for i in range(value.shape[0]):
        log10 = math.log(value[i]) / LN10 if value[i] > 0.0 else LOG10_ZERO
        if 0.1 <= abs(log10) < 99.0:  # seven decimals
            read = math.floor(abs(log10) * 1e7 + 0.5) / 1e7
            off = (math.copysign(read, log10) - log10) * LN10  # 1e-7 at most: exp in three terms has all digits
            found[i] = value[i] * (1.0 + off * (1.0 + 0.5 * off))
        elif math.isfinite(log10):
            read, _ = parse_number(digits, 0, _put_log10(digits, 0, value[i]))
            found[i] = from_log10(read)
        else:
            found[i] = value[i]
    return found


@njit(cache=True, nogil=True)
def _any_kept(row, end, keep):
    """Whether there is a row that is written; no flags: all are."""
    while row < end and keep.shape[0] and not keep[row]:
        row += 1
    return row < end


@njit(cache=True, nogil=True)
def format_ngrams(written, row, end, spelling, words, out):
    """Writes the rows row .. end, or those of them that are kept, until `out` is full. A row that is somebody's
    history gets its back-off weight written even if that is 1. Returns (row, bytes)."""
    begin, order = written.begin, written.order
    n = np.int64(0)
    hist = bisect(begin, np.int64(0), np.int64(begin.shape[0]), row + 1) - 1
    spelled = np.int64(-1)
    ids = np.empty(order, np.int64)
    before = np.empty(LINE_ROOM, np.uint8)  # the history's words
    size = np.int64(0)
    # what is known of rows as histories lies anywhere, so that of some rows is fetched at once
    weight = np.empty(BATCH)
    longer, longer_end = np.empty(BATCH, np.int64), np.empty(BATCH, np.int64)
    first = row - BATCH
    while row < end:
        if not written.top and row == first + BATCH:
            first = row
            for r in range(row, min(end, row + BATCH)):
                h = np.int64(written.as_hist[r])
                weight[r - first] = written.bow[h]
                longer[r - first], longer_end[r - first] = written.longer[h], written.longer[h + 1]
        if written.keep.shape[0] and not written.keep[row]:
            row += 1
            continue
        while begin[hist + 1] <= row:
            hist += 1
        if spelled != hist:
            spell(spelling, order - 1, hist, ids)
            size = size_of(words, ids, order - 1)
            if size > before.shape[0]:
                before = np.empty(2 * size, np.uint8)
            put_words(before, 0, words, ids, order - 1)
            spelled = hist
        w = written.word[row]
        length = words.offset[w + 1] - words.offset[w]
        if n + LINE_ROOM + size + length > out.shape[0]:
            break
        n = _put_log10(out, n, written.p[row])
        out[n] = TAB
        n += 1
        copy_bytes(out, n, before, 0, size)
        copy_bytes(out, n + size, words.blob, words.offset[w], length)
        n += size + length
        if not written.top:
            b = row - first
            back = weight[b]
            if abs(back - 1.0) > NEARLY or _any_kept(longer[b], longer_end[b], written.keep_longer):
                out[n] = TAB
                n = _put_log10(out, n + 1, back)
        out[n] = NEWLINE
        n += 1
        row += 1
    return row, n
