"""Back-off weights from probabilities, and what each n-gram is worth. The layout is explained in mdi/lm/trie.py."""

import math

import numpy as np
from numba import njit

# Less than this of the lower distribution left: every word that could be backed off to is a row of its own.
NOTHING_LEFT = 1e-11
# More of a history than this is no rounding of the digits in files.
SOMETHING_TO_GIVE = 1e-6
# SRILM's Prob_Epsilon: less probability than this is none, and sums above one by less are rounding.
PROB_EPSILON = 3e-6


@njit(cache=True, nogil=True)
def backoff_weights(level, lower_p, known, p):
    """bow(h) = (1 - sum p(w|h)) / (1 - sum p(w|h')), sums over the known rows of h; no flags: all are.

    Other rows get their backed-off probability, in `p`. Where there is nothing to back off to, or nothing left to give,
    the rows are scaled to sum to one. Returns bow; -1 where there is something to give, and whether there is anybody to
    give it to is beyond the digits of 1 - sum p(w|h'): such histories are left as they are.
    """
    begin, suffix = level.begin, level.suffix
    bow = np.empty(begin.shape[0] - 1)
    every = known.shape[0] == 0
    for h in range(bow.shape[0]):
        seen = 0.0
        covered = 0.0
        for r in range(begin[h], begin[h + 1]):
            if every or known[r]:
                seen += p[r]
                covered += lower_p[suffix[r]]
        scale = 1.0
        if 1.0 - covered <= NOTHING_LEFT and 1.0 - seen > SOMETHING_TO_GIVE:
            bow[h] = -1.0
            continue
        if 1.0 - covered <= NOTHING_LEFT:
            weight = 1.0
            scale = 1.0 / seen if seen > 0.0 else 1.0
        elif seen >= 1.0:
            weight = 0.0
            scale = 1.0 / seen
        else:
            weight = (1.0 - seen) / (1.0 - covered)
        bow[h] = weight
        if every and scale == 1.0:
            continue
        for r in range(begin[h], begin[h + 1]):
            p[r] = scale * p[r] if every or known[r] else weight * lower_p[suffix[r]]
    return bow


@njit(cache=True, nogil=True)
def pruning_losses(level, known, hist_prob):
    """How much perplexity rises, relatively, when a single row is left out (Stolcke 1998, Eq. 6):

        D = -p(h) { p(w|h) [log p(w|h') + log bow'(h) - log p(w|h)] + left [log bow'(h) - log bow(h)] },
        bow'(h) = (left + p(w|h)) / (free + p(w|h')),

    left = 1 - sum p(w|h) and free = 1 - sum p(w|h') over the known rows of h; the loss is exp(D) - 1. Rows of a history
    that cannot be normalised are worth infinitely much, as in SRILM; rows that are not known, -infinity (no flags: all
    are).
    """
    every = known.shape[0] == 0
    begin, suffix = level.trie.begin, level.trie.suffix
    p, bow, lower_p = level.p, level.bow, level.lower_p
    loss = np.empty(p.shape[0])
    for h in range(bow.shape[0]):
        left = 1.0
        free = 1.0
        for r in range(begin[h], begin[h + 1]):
            if every or known[r]:
                left -= p[r]
                free -= lower_p[suffix[r]]
        if -PROB_EPSILON < left < 0.0:
            left = 0.0
        if -PROB_EPSILON < free < 0.0:
            free = 0.0
        broken = left < 0.0 or (free <= 0.0 and left > PROB_EPSILON)
        for r in range(begin[h], begin[h + 1]):
            backed_off = lower_p[suffix[r]]
            if not (every or known[r]):
                loss[r] = -np.inf
            elif broken or (backed_off <= 0.0 and p[r] > 0.0):
                loss[r] = np.inf
            else:
                new_bow = (left + p[r]) / (free + backed_off) if free + backed_off > 0.0 else 0.0
                change = 0.0
                if p[r] > 0.0:
                    change += p[r] * (math.log(backed_off) + math.log(new_bow) - math.log(p[r]))
                if left > 0.0 and new_bow > 0.0 and bow[h] > 0.0:
                    change += left * (math.log(new_bow) - math.log(bow[h]))
                loss[r] = math.expm1(-hist_prob[h] * change)
    return loss


@njit(cache=True, nogil=True)
def row_maxima(begin, value, out):
    """out[h] = the largest value of the rows of h, -infinity if it has none"""
    for h in range(begin.shape[0] - 1):
        out[h] = -np.inf
        for r in range(begin[h], begin[h + 1]):
            out[h] = max(out[h], value[r])


@njit(cache=True, nogil=True)
def raise_to(index, value, floor):
    """floor[index[i]] = max(floor[index[i]], value[i]), where index[i] >= 0"""
    for i in range(index.shape[0]):
        if index[i] >= 0 and value[i] > floor[index[i]]:
            floor[index[i]] = value[i]
