"""Resampling with the C library's random numbers: the figures are those of Kaldi's compute-wer-bootci, digit for
digit."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _seed(ring):
    """glibc's rand() after srand(1): r[i] = r[i-3] + r[i-31], the first 310 numbers thrown away."""
    ring[0] = 1
    for i in range(1, 31):
        ring[i] = (np.int64(16807) * np.int64(ring[i - 1])) % np.int64(2147483647)
    for i in range(31, 34):
        ring[i % 34] = ring[i - 31]
    at = np.int64(34)
    for _ in range(310):
        ring[at % 34] = np.uint32(ring[(at - 31) % 34] + ring[(at - 3) % 34])
        at += 1
    return at


@njit(cache=True, nogil=True)
def _next(ring, at):
    value = np.uint32(ring[(at - 31) % 34] + ring[(at - 3) % 34])
    ring[at % 34] = value
    return np.int64(value >> np.uint32(1))


@njit(cache=True, nogil=True)
def bootstrap(errors, words, other, replications, result):
    """result = mean and half width of the WER's interval, then those of the other system and the share of replications
    in which it makes fewer errors. Single precision and one stream of random numbers, as in Kaldi. `other` may be
    empty."""
    ring = np.zeros(34, np.uint32)
    at = _seed(ring)
    n = errors.shape[0]
    for system in range(2 if other.shape[0] else 1):
        mine = errors if system == 0 else other
        total, square = np.float32(0.0), np.float32(0.0)
        for _ in range(replications):
            e, w = np.int64(0), np.int64(0)
            for _ in range(n):
                i = 0
                if n > 1:
                    i = _next(ring, at) % n
                    at += 1
                e += mine[i]
                w += words[i]
            rate = np.float32(np.float32(e) / np.float32(w)) if w > 0 else np.float32(0.0)
            total = np.float32(total + rate)
            square = np.float32(square + np.float32(rate * rate))
        mean = np.float32(total / np.float32(replications))
        spread = np.float32(np.float32(square / np.float32(replications)) - np.float32(mean * mean))
        result[2 * system] = mean
        result[2 * system + 1] = np.float32(1.96 * np.sqrt(np.float64(max(spread, np.float32(0.0)))))
    if other.shape[0]:
        better = 0
        for _ in range(replications):
            gain = np.int64(0)
            for _ in range(n):
                i = 0
                if n > 1:
                    i = _next(ring, at) % n
                    at += 1
                gain += errors[i] - other[i]
            better += gain > 0
        result[4] = better / replications
