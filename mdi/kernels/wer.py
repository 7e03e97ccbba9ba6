"""Resampling with the C library's random numbers: the figures are those of Kaldi's compute-wer-bootci, digit for
digit."""

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
def _drawn(ring, at, one, two):
    """Sums of both over as many utterances as there are, drawn with replacement; and how far the ring is now."""
    n, sums = one.shape[0], np.zeros(2, np.int64)
    for _ in range(n):
        i = np.int64(0)
        if n > 1:
            ring[at % 34] = np.uint32(ring[(at - 31) % 34] + ring[(at - 3) % 34])
            i = np.int64(ring[at % 34] >> np.uint32(1)) % n
            at += 1
        sums[0] += one[i]
        sums[1] += two[i]
    return sums[0], sums[1], at


@njit(cache=True, nogil=True)
def bootstrap(errors, words, other, replications, result):
    """result = mean and half width of the WER's interval, then those of the other system and the share of replications
    in which it makes fewer errors. Single precision and one stream of random numbers, as in Kaldi. `other` may be
    empty."""
    ring = np.zeros(34, np.uint32)
    at = _seed(ring)
    for system in range(2 if other.shape[0] else 1):
        total, square = np.float32(0.0), np.float32(0.0)
        for _ in range(replications):
            e, w, at = _drawn(ring, at, errors if system == 0 else other, words)
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
            mine, others, at = _drawn(ring, at, errors, other)
            better += mine > others
        result[4] = better / replications
