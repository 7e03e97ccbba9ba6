"""Sums over histories: how they are computed, how far off they may be, and the back-off weights that make them one."""

from __future__ import annotations

import numpy as np

from mdi.errors import MdiError
from mdi.kernels import model as model_kernels
from mdi.kernels import normalise as kernels
from mdi.lm.model import NgramModel, first_orders, with_suffixes
from mdi.lm.trie import NONE, Array, Trie, closure, is_closed
from mdi.lm.vocabulary import Vocabulary
from mdi.progress import say

# How far from one the probabilities after a history may sum to. Seven digits of a log10 give about 1e-6 in a file.
# A model that was estimated, mixed or pruned here, in memory:
TOLERANCE = 1e-9
# One that was adapted here: the background's own gaps, scaled, are still in it.
MAX_OUTPUT_GAP = 1e-6
# A file that was read: worth a warning, no longer a probability model.
SUM_WARNING, SUM_ERROR = 1e-4, 1e-3


def backoff_model(vocab: Vocabulary, trie: Trie, p: list[Array]) -> NgramModel:
    """The model with these probabilities whose back-off weights make every history sum to one (SRILM's -renorm).

    The trie need not be closed, and stays as it is: p(w|h') of a suffix that is missing is itself backed off.
    """
    if is_closed(trie):
        return weighted(vocab, trie, [part.copy() for part in p])
    whole, known = closure(trie)
    flags = [NONE, *(part >= 0 for part in known[1:])]
    model = weighted(vocab, whole, [NONE, *(p[k][known[k]] for k in range(1, trie.order + 1))], flags)
    own_p = [NONE, *(model.p[k][flags[k]] for k in range(1, trie.order + 1))]
    own_bow = [model.bow[0], *(bow[flags[j][whole.row_of_hist[j]]] for j, bow in enumerate(model.bow[1:], 1))]
    return NgramModel(vocab, trie, own_p, own_bow)


def weighted(vocab: Vocabulary, trie: Trie, p: list[Array], known: list[Array] | None = None) -> NgramModel:
    """The same on a closed trie, in the given arrays. What is not flagged as known is backed off, whatever its p."""
    mass = float(p[1].sum())
    if not mass > 0.0:
        raise MdiError("no word has a probability; expected 1-grams that sum to one")
    p[1] /= mass
    bow = [np.ones(1)]
    for k in range(2, trie.order + 1):
        flags = np.zeros(0, bool) if known is None else known[k]
        bow.append(kernels.backoff_weights(trie.level(k), p[k - 1], flags, p[k]))
    return NgramModel(vocab, trie, p, bow)


def history_sums(model: NgramModel) -> list[Array]:
    """sum_w p(w|h) for every history h of every length: 1 wherever the model is right."""
    trie = model.trie
    sums = [np.array([float(model.p[1].sum())])]
    for k in range(2, trie.order + 1):
        sums.append(model_kernels.history_sums(model.level(k), sums[k - 2]))
    return sums


def sum_gaps(model: NgramModel) -> list[Array]:
    """|sum_w p(w|h) - 1| for every history h of every length. </s> is never a history: 0."""
    gaps = history_sums(model)
    for gap in gaps:
        gap -= 1.0
        np.abs(gap, out=gap)
    for j in range(1, model.order):
        gaps[j][slice(*model.trie.hists_ending_in(j, model.vocab.eos))] = 0.0
    return gaps


def worst_gap(model: NgramModel, gaps: list[Array]) -> tuple[float, str]:
    """The largest gap and the history that has it."""
    j = max(range(len(gaps)), key=lambda j: gaps[j].max(initial=0.0))
    h = int(gaps[j].argmax())
    return float(gaps[j][h]), _spelled(model, j, h)


def _spelled(model: NgramModel, j: int, h: int) -> str:
    return f"'{model.vocab.spell(model.trie.words_of_hist(j, h))}'" if j else "the empty history"


def worst_sum(model: NgramModel) -> tuple[float, str]:
    """The largest |sum_w p(w|h) - 1| over all histories, and the history. Of the longest histories, which are most of
    them, the sums are not kept."""
    j = model.order - 1
    if j == 0:
        return worst_gap(model, sum_gaps(model))
    shorter = first_orders(model, j)
    after_end = model.trie.hists_ending_in(j, model.vocab.eos)
    gap, h = model_kernels.worst_gap(model.level(j + 1), history_sums(shorter)[j - 1], *after_end)
    most, where = worst_gap(shorter, sum_gaps(shorter))
    return (most, where) if not most < gap and gap == gap else (gap, _spelled(model, j, h))


def warn_unless_normalised(path: str, model: NgramModel) -> None:
    """Says how far off a model that was read is; what is made of it will be normalised."""
    gap, where = worst_sum(with_suffixes(model))
    if gap > SUM_WARNING:
        say(f"{path}: the probabilities after {where} miss 1 by {gap:.3g}; the result is normalised again")


def check_normalised(path: str, model: NgramModel, renormalize: bool = False) -> None:
    """A model to adapt is refused on the way in if it is not a probability model."""
    gap, where = worst_sum(model)
    if gap > SUM_ERROR and not renormalize:
        raise MdiError(
            f"{path}: p(.|h) sums to one only within {gap:.2g} (after {where}); expected {SUM_ERROR:g}. "
            f"Build the model again, or take it as it is with --renormalize true"
        )


def checked_sum(model: NgramModel) -> float:
    """Worst |sum p - 1| of a model about to be written; an error where it is not one."""
    gap, where = worst_sum(with_suffixes(model))
    if not gap <= TOLERANCE:
        raise MdiError(
            f"the probabilities after {where} miss 1 by {gap:.3g}; expected a model that sums to one. Check the inputs"
        )
    return gap
