"""Counts to probabilities: the loops behind mdi/lm/estimate.py. The layout is explained in mdi/lm/trie.py."""

from __future__ import annotations

import numpy as np
from numba import njit

# SRILM's Prob_Epsilon: less probability than this is none.
EPSILON = 3e-6
# Columns of `types`: how many different words were seen once, twice, more often after a history.
ONCE, TWICE, MORE = 0, 1, 2


@njit(cache=True, nogil=True)
def add_preceding(suffix, count, preceding):
    """preceding[hw] += the number of words seen before hw: of rows xhw with a count."""
    for r in range(suffix.shape[0]):
        if count[r] > 0.0:
            preceding[suffix[r]] += 1.0


@njit(cache=True, nogil=True)
def adjusted_counts(preceding, count, begin, from_bos):
    """Kneser-Ney's counts: N1+(. hw), or the plain count where the history begins with <s>, since nothing stands
    before <s>. Takes `preceding` over."""
    adjusted = preceding
    for h in range(from_bos.shape[0]):
        if from_bos[h]:
            for r in range(begin[h], begin[h + 1]):
                adjusted[r] = count[r]
    return adjusted


@njit(cache=True, nogil=True)
def history_statistics(begin, word, count, bos, total, types, counts_of_counts):
    """What was seen after each history: total[h] and types[h, 0..2]. Adds to counts_of_counts[1 .. 4], and the
    number of all rows to [0]. <s> is no event."""
    for h in range(total.shape[0]):
        for r in range(begin[h], begin[h + 1]):
            c = count[r]
            if c <= 0.0 or word[r] == bos:
                continue
            counts_of_counts[0] += 1
            total[h] += c
            types[h, ONCE if c < 2.0 else TWICE if c < 3.0 else MORE] += 1
            for i in range(1, 5):
                if c == i:
                    counts_of_counts[i] += 1


@njit(cache=True, nogil=True)
def mark_needed(begin, suffix, row_of_hist, count, least, wanted, lower_wanted):
    """Adds the rows with a count of at least `least` to `wanted`, and what they need to `lower_wanted`: prefix and
    suffix."""
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


@njit(cache=True, nogil=True)
def select_rows(begin, word, suffix, count, wanted, hist_wanted, new_suffix_row):
    """The wanted rows: (begin, word, suffix, count, new number of each old row)."""
    n_hist = 0
    for h in range(hist_wanted.shape[0]):
        n_hist += hist_wanted[h]
    n_rows = 0
    for r in range(wanted.shape[0]):
        n_rows += wanted[r]
    new_begin = np.empty(n_hist + 1, np.int32)
    new_word, new_suffix = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    new_count = np.empty(n_rows)
    number = np.empty(wanted.shape[0], np.int32)
    n, m = 0, 0
    for h in range(hist_wanted.shape[0]):
        if hist_wanted[h]:
            new_begin[m] = n
            m += 1
        for r in range(begin[h], begin[h + 1]):
            number[r] = -1
            if wanted[r]:
                number[r] = n
                new_word[n] = word[r]
                new_suffix[n] = new_suffix_row[suffix[r]]
                new_count[n] = count[r]
                n += 1
    new_begin[n_hist] = n
    return new_begin, new_word, new_suffix, new_count, number


@njit(cache=True, nogil=True, inline="always")
def _discounted(c, total, kinds, discount, witten_bell):
    """What a word seen c times keeps of c / total."""
    if witten_bell:
        return c / (total + kinds)
    return (c - discount[min(int(c), 3)]) / total


@njit(cache=True, nogil=True, inline="always")
def _freed(total, types, discount, witten_bell):
    """What the discounts take from a history in all."""
    if witten_bell:
        return types.sum() / (total + types.sum())
    return (discount[1] * types[ONCE] + discount[2] * types[TWICE] + discount[3] * types[MORE]) / total


@njit(cache=True, nogil=True)
def unigram_probs(count, least, total, types, bos, discount, witten_bell, interpolate):
    """p(w) of all words. What the discounts leave over goes to the words without a probability or, if there are none,
    to all. Returns (p, left-over mass, words that share it)."""
    n_events = count.shape[0] - (1 if bos >= 0 else 0)
    kinds = types.sum()
    p = np.zeros(count.shape[0])
    while True:
        lower = _freed(total, types, discount, witten_bell) / n_events if interpolate else 0.0
        seen = 0.0
        unseen = 0
        for w in range(count.shape[0]):
            if w == bos:
                continue
            if count[w] > 0.0 and count[w] >= least:
                p[w] = _discounted(count[w], total, kinds, discount, witten_bell) + lower
                seen += p[w]
            else:
                unseen += 1
        if kinds >= n_events or seen <= 1.0 - EPSILON:
            break
        if interpolate:
            interpolate = False
        else:
            total += 1.0
    share = (1.0 - seen) / (unseen if unseen else n_events)
    for w in range(count.shape[0]):
        if w != bos and (unseen == 0 or count[w] <= 0.0 or count[w] < least):
            p[w] += share
    return p, 1.0 - seen, unseen if unseen else n_events


@njit(cache=True, nogil=True)
def ngram_probs(begin, suffix, count, least, total, types, n_events, discount, witten_bell, interpolate, lower_p):
    """(p of each row, bow of each history). A row with a count below `least` is there for closure alone: p = bow(h)
    p(w|h').

    p(w|h)  = discounted(hw) [+ freed(h) p(w|h')]                                    brackets: if interpolated
    bow(h)  = (1 - sum p(w|h)) / (1 - sum p(w|h')),                                  sums over the words kept after h
    """
    p = np.empty(suffix.shape[0])
    bow = np.ones(begin.shape[0] - 1)
    for h in range(bow.shape[0]):
        events = total[h]
        kinds = types[h].sum()
        mix = interpolate
        covered = 0.0
        seen = 0.0
        while events > 0.0:
            lower = _freed(events, types[h], discount, witten_bell) if mix else 0.0
            seen = 0.0
            covered = 0.0
            for r in range(begin[h], begin[h + 1]):
                if count[r] >= least:
                    below = lower_p[suffix[r]]
                    p[r] = _discounted(count[r], events, kinds, discount, witten_bell) + lower * below
                    seen += p[r]
                    covered += below
            # Too little left for the words not seen: SRILM first gives up interpolating, then counts one event more.
            if kinds >= n_events or seen <= 1.0 - EPSILON:
                break
            if mix:
                mix = False
            else:
                events += 1.0
        rest = 1.0 - covered
        if seen > 0.0 and rest < EPSILON:  # nothing to back off to: the words seen share what there is, bow stays 1
            for r in range(begin[h], begin[h + 1]):
                if count[r] >= least:
                    p[r] *= covered / seen
        elif seen > 0.0:
            bow[h] = (1.0 - seen) / rest
        for r in range(begin[h], begin[h + 1]):
            if count[r] < least:
                p[r] = bow[h] * lower_p[suffix[r]]
    return p, bow
