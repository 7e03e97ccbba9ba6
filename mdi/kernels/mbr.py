"""Minimum Bayes risk decoding of lattices: the recursions of mdi/speech/mbr.py, where they are explained."""

import numpy as np
from numba import njit

from mdi.kernels.expected_counts import log_add

# What a word that is passed over costs beside its error, so that of equal alignments the one with matches wins.
DELTA = 1e-5


@njit(cache=True, nogil=True)
def _aligned(before, word, reference, out, back):
    """out[q]: the expected errors of all that leads through an arc, aligned with the first q words of the reference,
    from those before the arc; back[q] says which way: 1 word against word, 2 the arc's word against nothing, 3 nothing
    against the reference's word."""
    skipped = 1.0 + DELTA if word != 0 else 0.0
    out[0] = before[0] + skipped
    for q in range(1, out.shape[0]):
        r = reference[q - 1]
        match = before[q - 1] + (1.0 if word != r else 0.0)
        insert = before[q] + skipped
        delete = out[q - 1] + (1.0 if r != 0 else 0.0)
        if match <= insert and match <= delete:
            out[q], back[q] = match, 1
        elif insert <= delete:
            out[q], back[q] = insert, 2
        else:
            out[q], back[q] = delete, 3


@njit(cache=True, nogil=True)
def arc_shares(source, dest, loglike, n_states):
    """share[a] = p(a | its destination): of the paths to where arc a leads, by likelihood, those that come through it;
    source[a] < dest[a], arcs by ascending source."""
    alpha = np.full(n_states, -np.inf)
    alpha[0] = 0.0
    for a in range(source.shape[0]):
        alpha[dest[a]] = log_add(alpha[dest[a]], alpha[source[a]] + loglike[a])
    share = np.empty(source.shape[0])
    for a in range(source.shape[0]):
        share[a] = np.exp(alpha[source[a]] + loglike[a] - alpha[dest[a]])
    return share


@njit(cache=True, nogil=True)
def statistics(source, dest, word, share, n_states, reference, gamma):
    """Adds to gamma[q, w] the share of the paths that have the word of index w against word q of `reference`, and
    returns the expected errors. Arcs by ascending destination; `word`: their labels as indices (0 is no word); the last
    state is the only end."""
    n_reference = reference.shape[0]
    alpha = np.zeros((n_states, n_reference + 1))
    through = np.empty(n_reference + 1)
    back = np.zeros(n_reference + 1, np.int8)
    for q in range(1, n_reference + 1):
        alpha[0, q] = alpha[0, q - 1] + (1.0 if reference[q - 1] != 0 else 0.0)
    for a in range(source.shape[0]):
        _aligned(alpha[source[a]], word[a], reference, through, back)
        for q in range(n_reference + 1):
            alpha[dest[a], q] += share[a] * through[q]
    beta = np.zeros((n_states, n_reference + 1))
    beta[n_states - 1, n_reference] = 1.0
    part = np.empty(n_reference + 1)
    for a in range(source.shape[0] - 1, -1, -1):
        s, d = source[a], dest[a]
        _aligned(alpha[s], word[a], reference, through, back)
        part[:] = 0.0
        for q in range(n_reference, 0, -1):
            part[q] += share[a] * beta[d, q]
            if back[q] == 1:
                beta[s, q - 1] += part[q]
                gamma[q - 1, word[a]] += part[q]
            elif back[q] == 2:
                beta[s, q] += part[q]
            else:
                part[q - 1] += part[q]
                gamma[q - 1, 0] += part[q]
        beta[s, 0] += part[0] + share[a] * beta[d, 0]
    left = 0.0
    for q in range(n_reference, 0, -1):
        left += beta[0, q]
        gamma[q - 1, 0] += left
    return alpha[n_states - 1, n_reference]
