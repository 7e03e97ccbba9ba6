"""A model's part in a mixture over a larger trie. The layout is explained in mdi/lm/trie.py."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.types import Array


class KnownRows(NamedTuple):
    """One order k of a model, by what its histories and rows are in the larger trie; both ascend, as tries over the
    same words sort alike. Empty beyond the model's order."""

    hist: Array  # int32[H]: history of length k - 1
    bow: Array  # float64[H]
    row: Array  # int32[R]
    p: Array  # float64[R]


@njit(cache=True, nogil=True)
def add_mixed(level, lower_p, known, weight, p, wanted):
    """p[r] += weight p(w|h) by the model: its own, or bow(h) p(w|h') where it lacks hw; lower_p is p(w|h') by the model
    for all rows of order k - 1. Returns p(w|h) for all rows if wanted."""
    begin, suffix = level.begin, level.suffix
    all_p = np.empty(p.shape[0] if wanted else 0)
    at_hist = 0
    at = 0
    for h in range(begin.shape[0] - 1):
        bow = 1.0
        if at_hist < known.hist.shape[0] and known.hist[at_hist] == h:
            bow = known.bow[at_hist]
            at_hist += 1
        for r in range(begin[h], begin[h + 1]):
            if at < known.row.shape[0] and known.row[at] == r:
                value = known.p[at]
                at += 1
            else:
                value = bow * lower_p[suffix[r]]
            p[r] += weight * value
            if wanted:
                all_p[r] = value
    return all_p
