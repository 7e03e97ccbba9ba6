"""Samples of another rate, as Kaldi makes them (LinearResample in feat/resample.cc): a sinc at 0.99 of the lower
Nyquist frequency under a Hann window of six zeros to each side.

    y(j) = sum_i x(i) f(i / rate_in - j / rate_out) / rate_in
    f(t) = sin(2 pi c t) / (pi t) (1 + cos(2 pi c t / 6)) / 2

Sharper filters are worse here. They leave nothing of a telephone's sound above 4 kHz, and recognisers have heard no
such silence: prompts of a telephone exchange at 8 kHz had 19% of word errors with this filter, 26% with one of soxr's.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np

_ZEROS = 6


def resampled(blocks: Iterable[np.ndarray], rate_in: int, rate_out: int) -> Iterator[np.ndarray]:
    """As many seconds as there are in all blocks together, block by block."""
    common = math.gcd(rate_in, rate_out)
    step_in, step_out = rate_in // common, rate_out // common  # after so many samples all begins again
    first, weights = _filter(rate_in, rate_out, step_out)
    before, reach = -int(first.min()), int(first.max()) + weights.shape[1]
    buffer = np.zeros(before, np.float32)
    heard = made = 0

    def steps(n: int) -> np.ndarray:
        at = (np.arange(n) * step_in)[:, None] + (first + before)[None, :]
        windows = np.lib.stride_tricks.sliding_window_view(buffer, weights.shape[1])
        return np.ravel(np.einsum("spk,pk->sp", windows[at], weights))

    for block in blocks:
        heard += len(block)
        buffer = np.concatenate([buffer, block])
        if (n := (len(buffer) - before - reach) // step_in) > 0:
            made += n * step_out
            yield steps(n)
            buffer = buffer[n * step_in :]
    left = -(-heard * rate_out // rate_in) - made
    if left > 0:
        n = -(-left // step_out)
        buffer = np.concatenate([buffer, np.zeros(n * step_in + reach, np.float32)])
        yield steps(n)[:left]


def _filter(rate_in: int, rate_out: int, step_out: int) -> tuple[np.ndarray, np.ndarray]:
    """(first sample, weights of that and of those that follow) for each sample of a step"""
    cutoff = 0.99 * 0.5 * min(rate_in, rate_out)
    reach = _ZEROS / (2 * cutoff)  # seconds
    at = np.arange(step_out) / rate_out
    first = np.ceil((at - reach) * rate_in).astype(np.int64)
    taps = int(np.floor(2 * reach * rate_in)) + 1
    t = (first[:, None] + np.arange(taps)) / rate_in - at[:, None]
    window = np.where(np.abs(t) < reach, 0.5 * (1 + np.cos(2 * np.pi * cutoff / _ZEROS * t)), 0.0)
    return first, (2 * cutoff * np.sinc(2 * cutoff * t) * window / rate_in).astype(np.float32)
