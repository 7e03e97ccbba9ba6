"""Counts to probabilities: the loops behind mdi/lm/estimate.py. The layout is explained in mdi/lm/trie.py."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.normalise import PROB_EPSILON
from mdi.kernels.types import Array

# Columns of `types`: how many different words were seen once, twice, more often after a history.
ONCE, TWICE, MORE = 0, 1, 2


class HistoryStatistics(NamedTuple):
    """What was seen after the histories h of one length."""

    total: Array  # float64[h]: events
    types: Array  # int32[h, 3]: different words that were seen once, twice, more often


class Smoothing(NamedTuple):
    """How the counts of one order become probabilities."""

    discount: Array  # float64[4]: D1, D2, D3+ in [1 .. 3], of Kneser-Ney
    least: float  # n-grams seen less often get no probability of their own
    n_events: int  # words that can be predicted
    witten_bell: bool
    interpolate: bool


@njit(cache=True, nogil=True)
def add_statistics(branches, count, bos, after, counts_of_counts):
    """Adds what was seen after each history to `after`, to counts_of_counts[1 .. 4] the number of rows seen so often,
    and that of all rows to [0]. <s> is no event."""
    begin, word = branches.begin, branches.word
    for h in range(begin.shape[0] - 1):
        for r in range(begin[h], begin[h + 1]):
            c = count[r]
            if c <= 0.0 or word[r] == bos:
                continue
            counts_of_counts[0] += 1
            after.total[h] += c
            after.types[h, ONCE if c < 2.0 else TWICE if c < 3.0 else MORE] += 1
            for i in range(1, 5):
                if c == i:
                    counts_of_counts[i] += 1


@njit(cache=True, nogil=True)
def mark_needed(level, row_of_hist, count, least, wanted, lower_wanted):
    """Adds the rows with a count of at least `least` to `wanted`, and what they need to `lower_wanted`: prefix and
    suffix. row_of_hist[h] is the row that history h is in the order below."""
    begin, suffix = level.begin, level.suffix
    for h in range(begin.shape[0] - 1):
        used = False
        for r in range(begin[h], begin[h + 1]):
            if count[r] >= least:
                wanted[r] = True
            if wanted[r]:
                lower_wanted[suffix[r]] = True
                used = True
        if used:
            lower_wanted[row_of_hist[h]] = True


@njit(cache=True, nogil=True, inline="always")
def _discounted(c, total, kinds, smoothing):
    """What a word seen c times keeps of c / total."""
    if smoothing.witten_bell:
        return c / (total + kinds)
    return (c - smoothing.discount[min(int(c), 3)]) / total


@njit(cache=True, nogil=True, inline="always")
def _freed(total, types, smoothing):
    """What the discounts take from a history in all."""
    if smoothing.witten_bell:
        return types.sum() / (total + types.sum())
    d = smoothing.discount
    return (d[1] * types[ONCE] + d[2] * types[TWICE] + d[3] * types[MORE]) / total


@njit(cache=True, nogil=True, inline="always")
def _more_events(events, seen):
    """One event more, as in SRILM; or nearly all of those that it takes until seen * events / (events + more) is small
    enough, where these are many."""
    return max(1.0, math.floor((seen / (1.0 - PROB_EPSILON) - 1.0) * events) - 2.0, events * 2.0**-50)


@njit(cache=True, nogil=True)
def unigram_probs(count, after, bos, smoothing):
    """p(w) of all words. What the discounts leave over goes to the words without a probability or, if there are none,
    to all. `after` is what follows the empty history. Returns (p, left-over mass, words that share it)."""
    least, n_events, interpolate = smoothing.least, smoothing.n_events, smoothing.interpolate
    total, types = after.total[0], after.types[0]
    kinds = types.sum()
    p = np.zeros(count.shape[0])
    while True:
        lower = _freed(total, types, smoothing) / n_events if interpolate else 0.0
        seen = 0.0
        unseen = 0
        for w in range(count.shape[0]):
            if w == bos:
                continue
            if count[w] > 0.0 and count[w] >= least:
                p[w] = _discounted(count[w], total, kinds, smoothing) + lower
                seen += p[w]
            else:
                unseen += 1
        if kinds >= n_events or seen <= 1.0 - PROB_EPSILON:
            break
        if interpolate:
            interpolate = False
        else:
            total += _more_events(total, seen)
    share = (1.0 - seen) / (unseen if unseen else n_events)
    for w in range(count.shape[0]):
        if w != bos and (unseen == 0 or count[w] <= 0.0 or count[w] < least):
            p[w] += share
    return p, 1.0 - seen, unseen if unseen else n_events


@njit(cache=True, nogil=True)
def ngram_probs(level, count, after, smoothing, lower_p):
    """(p of each row, bow of each history). A row with a count below `least` is there for closure alone: p = bow(h)
    p(w|h').

    p(w|h)  = discounted(hw) [+ freed(h) p(w|h')]                                    brackets: if interpolated
    bow(h)  = (1 - sum p(w|h)) / (1 - sum p(w|h')),                                  sums over the words kept after h
    """
    begin, suffix, least = level.begin, level.suffix, smoothing.least
    p = np.empty(suffix.shape[0])
    bow = np.ones(begin.shape[0] - 1)
    for h in range(bow.shape[0]):
        events, types = after.total[h], after.types[h]
        kinds = types.sum()
        mix = smoothing.interpolate
        covered = 0.0
        seen = 0.0
        while events > 0.0:
            lower = _freed(events, types, smoothing) if mix else 0.0
            seen = 0.0
            covered = 0.0
            for r in range(begin[h], begin[h + 1]):
                if count[r] >= least:
                    below = lower_p[suffix[r]]
                    p[r] = _discounted(count[r], events, kinds, smoothing) + lower * below
                    seen += p[r]
                    covered += below
            # Too little left for the words not seen: SRILM first gives up interpolating, then counts one event more.
            if kinds >= smoothing.n_events or seen <= 1.0 - PROB_EPSILON:
                break
            if mix:
                mix = False
            else:
                events += _more_events(events, seen)
        rest = 1.0 - covered
        if seen > 0.0 and rest < PROB_EPSILON:  # nothing to back off to: the words seen share what there is, bow is 1
            for r in range(begin[h], begin[h + 1]):
                if count[r] >= least:
                    p[r] *= covered / seen
        elif seen > 0.0:
            bow[h] = (1.0 - seen) / rest
        for r in range(begin[h], begin[h + 1]):
            if count[r] < least:
                p[r] = bow[h] * lower_p[suffix[r]]
    return p, bow
