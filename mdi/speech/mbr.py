"""Minimum Bayes risk: the words whose expected edit distance to all paths of a lattice is least, by Xu, Povey, Mangu
and Zhu (Minimum Bayes Risk decoding and system combination based on a recursion for edit distance, 2011), as Kaldi's
lattice-mbr-decode finds them.

The distance to a path is bounded by a recursion over the lattice in which paths that meet are averaged. For words r_1
.. r_Q, with a place for nothing between each two, it also gives gamma_q(w): the share of paths that have w (or nothing)
against r_q. Every r_q is exchanged for the likeliest until nothing changes. gamma is a confusion network; that of the
chosen word is its confidence.
"""

from dataclasses import dataclass

import numpy as np

from mdi.kernels import mbr as kernels
from mdi.lm.trie import Array
from mdi.speech.lattice import Lattice, best_path

# As Kaldi's.
_MOST_ITERATIONS = 100


@dataclass(frozen=True)
class MinimumRisk:
    """The words, and of each its share of the paths."""

    words: Array
    confidences: Array
    risk: float  # expected errors


def minimum_risk(lattice: Lattice, lm_weight: float, penalty: float = 0.0) -> MinimumRisk:
    """With likelihoods exp(-(graph + penalty + acoustic / lm_weight))."""
    arcs, finals = lattice.arcs, lattice.finals
    source, dest = lattice.source, arcs.dest.astype(np.int64)
    scale = 1.0 / lm_weight
    cost = arcs.graph + scale * arcs.acoustic + penalty * (arcs.label != 0)
    label, n = arcs.label, lattice.n_states
    final_cost = finals.graph + scale * finals.acoustic
    ends = np.flatnonzero(np.isfinite(final_cost))
    one_end = len(ends) == 1 and final_cost[ends[0]] == 0.0 and ends[0] == n - 1
    if not one_end:  # arcs without words to a common end
        source, dest = np.concatenate([source, ends]), np.concatenate([dest, np.full(len(ends), n)])
        cost = np.concatenate([cost, final_cost[ends]])
        label = np.concatenate([label, np.zeros(len(ends), label.dtype)])
        order, n = np.argsort(source, kind="stable"), n + 1
        source, dest, cost, label = source[order], dest[order], cost[order], label[order]
    known, word = np.unique(np.concatenate([[0], label]), return_inverse=True)
    word = word[1:]
    share = kernels.arc_shares(source, dest, -cost, n)
    by_end = np.argsort(dest, kind="stable")
    ordered = (source[by_end], dest[by_end], word[by_end], share[by_end])
    reference = np.searchsorted(known, best_path(lattice, lm_weight, penalty).words)

    def against(words: Array) -> tuple[Array, Array, float]:
        """(nothing, r_1, nothing, r_2 ...; gamma, with Kaldi's 32 bits, so that equals are equal; expected errors)"""
        places, gamma = np.zeros(1 + 2 * len(words), np.int64), np.zeros((1 + 2 * len(words), len(known)))
        places[1::2] = words
        risk = kernels.statistics(*ordered, n, places, gamma)
        return places, gamma.astype(np.float32), float(risk)

    for _ in range(_MOST_ITERATIONS):
        places, gamma, risk = against(reference)
        each, last = np.arange(len(places)), reference
        before, places = gamma[each, places], _likeliest(gamma)
        confidence = gamma[each, places]
        reference = places[places != 0]
        if (confidence == before).all():
            break
    if not np.array_equal(reference, last):  # for words as likely
        risk = against(reference)[2]
    return MinimumRisk(known[reference].astype(np.int32), confidence[places != 0].astype(float), risk)


def _likeliest(gamma: Array) -> Array:
    """Of equals, as Kaldi sorts them, the word of the largest number."""
    return np.asarray(gamma.shape[1] - 1 - np.argmax(gamma[:, ::-1], axis=1))
