"""Sums over histories: how they are computed, how far off they may be, and the back-off weights that make them one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdi.errors import MdiError
from mdi.kernels import model as model_kernels
from mdi.kernels import normalise as kernels
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.trie import NONE, Array, Trie, closure, is_closed
from mdi.lm.vocabulary import Vocabulary
from mdi.progress import say

# What is found in a file for the probabilities or weights that were written: see mdi/fst/formats.py.
Reader = Callable[[Array], Array]
# How far from one the probabilities after a history may sum to. Seven digits of a log10 give about 1e-6 in a file.
# A model that was estimated, mixed or pruned here, in memory:
TOLERANCE = 1e-9
# As it is found in the file that was written: in another form than ARPA, in ARPA.
MAX_OUTPUT_GAP = (1e-5, 2e-6)
# Sums that rounding may have changed by more are added up word by word, up to so many additions.
DOUBT, MOST_ADDED = 1e-8, 2_000_000_000
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


def history_sums(model: NgramModel, reader: Reader | None = None) -> list[Array]:
    """sum_w p(w|h) for every history h of every length: 1 wherever the model is right. With `reader` it is about what
    that finds in the file instead of what is in memory."""
    trie = model.trie
    read = reader or (lambda values: values)
    lower = read(model.p[1])
    sums, doubts = [np.array([float(lower.sum())])], [np.zeros(1)]
    for k in range(2, trie.order + 1):
        p, bow = read(model.p[k]), read(model.bow[k - 1])
        level = model_kernels.ModelLevel(trie.level(k), p, bow, lower)
        total, doubt = model_kernels.history_sums(level, sums[-1], doubts[-1])
        sums.append(total)
        doubts.append(doubt)
        lower = p
    unsure = [(j, h) for j, doubt in enumerate(doubts) for h in np.flatnonzero(~(doubt <= DOUBT)).tolist()]
    if len(unsure) * trie.n_words > MOST_ADDED:
        raise MdiError(
            f"{len(unsure):,} back-off weights are so large that sums of probabilities have no digits left, such as "
            f"that of '{model.vocab.spell(trie.words_of_hist(*unsure[0]))}'; expected weights below a million. Prune "
            f"the model (mdi prune), or build it again"
        )
    for j, h in unsure:
        sums[j][h] = _added_up(model, j, h, read)
    return sums


def _added_up(model: NgramModel, j: int, h: int, read: Reader) -> float:
    """sum_w p(w|h), word by word: as exact as any, but as slow as there are words."""
    trie, chain = model.trie, [(j, h)]
    while chain[-1][0] > 1:
        j, h = chain[-1]
        chain.append((j - 1, int(trie.back[j][h])))
    p = read(model.p[1]).copy()
    for j, h in reversed(chain):
        rows = slice(int(trie.begin[j + 1][h]), int(trie.begin[j + 1][h + 1]))
        p *= read(model.bow[j][h : h + 1])[0]
        p[trie.word[j + 1][rows]] = read(model.p[j + 1][rows])
    return float(p.sum())


def sum_gaps(model: NgramModel, reader: Reader | None = None) -> list[Array]:
    """|sum_w p(w|h) - 1| for every history h of every length, infinite where it is no number. </s> is never a history:
    0."""
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = history_sums(model, reader)
        for gap in gaps:
            gap -= 1.0
            np.abs(gap, out=gap)
            gap[np.isnan(gap)] = np.inf
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


def worst_sum(model: NgramModel, reader: Reader | None = None) -> tuple[float, str]:
    """The largest |sum_w p(w|h) - 1| over all histories, and the history."""
    return worst_gap(model, sum_gaps(model, reader))


def warn_unless_normalised(path: str, model: NgramModel) -> None:
    """Says how far off a model that was read is; what is made of it will be normalised."""
    warn_of_gap(path, worst_sum(with_suffixes(model)))


def warn_of_gap(path: str, worst: tuple[float, str]) -> None:
    """The same of a model of which the worst sum is known."""
    gap, where = worst
    if gap > SUM_WARNING:
        say(f"{path}: the probabilities after {where} miss 1 by {gap:.3g}; the result is normalised again")


def check_normalised(path: str, model: NgramModel, renormalize: bool = False) -> None:
    """A model to adapt is refused on the way in if it is not a probability model."""
    check_gap(path, worst_sum(model), renormalize)


def check_gap(path: str, worst: tuple[float, str], renormalize: bool) -> None:
    """The same of a model of which the worst sum is known."""
    gap, where = worst
    if gap > SUM_ERROR and not renormalize:
        raise MdiError(
            f"{path}: p(.|h) sums to one only within {gap:.2g} (after {where}); expected {SUM_ERROR:g}. "
            f"Build the model again, or take it as it is with --renormalize true"
        )


def checked_sum(model: NgramModel) -> float:
    """Worst |sum p - 1| of a model about to be written; an error where it is not one."""
    return check_sum(worst_sum(with_suffixes(model)))


def check_sum(worst: tuple[float, str]) -> float:
    """The same of a model of which the worst sum is known."""
    gap, where = worst
    if not gap <= TOLERANCE:
        raise MdiError(
            f"the probabilities after {where} miss 1 by {gap:.3g}; expected a model that sums to one. Check the inputs"
        )
    return gap
