"""Resampling: Kaldi's filter by its definition, however the samples come."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdi.speech.resample import resampled

RATES = st.sampled_from([4000, 7999, 8000, 11025, 16000, 22050, 44100, 48000])


def by_definition(x: np.ndarray, rate_in: int, rate_out: int) -> list[float]:
    """feat/resample.cc: FilterFunc and the sum over what lies within its window, one sample at a time."""
    cutoff = 0.99 * 0.5 * min(rate_in, rate_out)

    def f(t: float) -> float:
        if abs(t) >= 6 / (2 * cutoff):
            return 0.0
        window = 0.5 * (1 + math.cos(2 * math.pi * cutoff / 6 * t))
        return window * (math.sin(2 * math.pi * cutoff * t) / (math.pi * t) if t else 2 * cutoff)

    n = math.ceil(len(x) * rate_out / rate_in)
    return [sum(x[i] * f(i / rate_in - j / rate_out) for i in range(len(x))) / rate_in for j in range(n)]


@settings(max_examples=40, deadline=None)
@given(RATES, RATES, st.lists(st.integers(0, 60), max_size=4), st.integers(0, 1000))
def test_it_is_the_sum_that_defines_it(rate_in, rate_out, sizes, seed):
    """Whatever the blocks."""
    x = np.random.default_rng(seed).uniform(-1, 1, sum(sizes)).astype(np.float32)
    blocks = np.split(x, np.cumsum(sizes)[:-1]) if sizes else []
    found = np.concatenate([np.zeros(0), *resampled(blocks, rate_in, rate_out)])
    assert found == pytest.approx(by_definition(x, rate_in, rate_out), abs=1e-4)
