"""Sums over histories: how they are computed, how far off they may be, and the back-off weights that make them one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from mdi.errors import MdiError
from mdi.kernels import model as model_kernels
from mdi.kernels import normalise as kernels
from mdi.kernels.model import ModelLevel
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.shards import Shard, over_shards
from mdi.lm.trie import BLOCK, Array, Trie, blocks
from mdi.lm.vocabulary import Vocabulary
from mdi.progress import get_logger
from mdi.threads import each_in_threads, in_threads

logger = get_logger(__name__)

# What is found in a file for the probabilities or weights that were written: see mdi/fst/formats.py.
Reader = Callable[[Array], Array]
# How far from one the probabilities after a history may sum to. Seven digits of a log10 give about 1e-6 in a file.
# As it is found in the file that was written: in another form than ARPA, in ARPA.
MAX_OUTPUT_GAP = (1e-5, 2e-6)
# Sums that rounding may have changed by more are added up word by word, up to so many additions.
DOUBT, MOST_ADDED = 1e-8, 2_000_000_000
# A file that was read: worth a warning, no longer a probability model.
SUM_WARNING, SUM_ERROR = 1e-4, 1e-3


def weighted(vocab: Vocabulary, trie: Trie, p: list[Array], known: list[Array] | None = None) -> NgramModel:
    """The model with these probabilities, in the given arrays, on a closed trie whose back-off weights make every
    history sum to one (SRILM's -renorm). What is not flagged as known is backed off, whatever its p."""
    mass = float(p[1].sum())
    if not mass > 0.0:
        raise MdiError("no word has a probability; expected 1-grams that sum to one")
    p[1] /= mass
    bow = [np.ones(1)]
    for k in range(2, trie.order + 1):
        flags = np.zeros(0, bool) if known is None else known[k]
        bow.append(kernels.backoff_weights(trie.level(k), p[k - 1], flags, p[k]))
        for h in np.flatnonzero(bow[k - 1] < 0.0).tolist():
            bow[k - 1][h], lost = _weight_by_word(trie, p, bow, h, flags)
            if lost > SUM_ERROR:
                shown = vocab.spell(trie.words_of_hist(k - 1, h))
                raise MdiError(
                    f"after '{shown}' a probability of {lost:.2g} is left for words so rare that rounding leaves no "
                    f"digits; expected back-off weights below a million. Build the models again"
                )
    return NgramModel(vocab, trie, p, bow)


def _weight_by_word(trie: Trie, p: list[Array], bow: list[Array], h: int, known: Array) -> tuple[float, float]:
    """What `kernels.backoff_weights` does, for one of the longest histories that have had their turn, from sums of what
    is small instead of differences of what is large. And how much was lost: left for words that have a probability
    elsewhere, but none here any more. (Where no other word has any, the model did not sum to one.)"""
    k = len(bow)
    rows = np.arange(trie.begin[k][h], trie.begin[k][h + 1])
    own = rows[known[rows]] if len(known) else rows
    lower = _distribution(trie, p, bow, k - 2, int(trie.back[k - 1][h]))
    backed_off = lower[trie.word[k][rows]]
    unseen = np.ones(trie.n_words, bool)
    unseen[trie.word[k][own]] = False
    seen, free = float(p[k][own].sum()), float(lower[unseen].sum())
    weight = (1.0 - seen) / free if free > 0.0 else 1.0
    scale = 1.0 / seen if free <= 0.0 < seen else 1.0
    p[k][rows] = np.where(np.isin(rows, own), scale * p[k][rows], weight * backed_off)
    return weight, 1.0 - seen if free <= 0.0 and (p[1][unseen] > 0.0).any() else 0.0


@dataclass(frozen=True)
class _Lower:
    """What the sums of one order need of the one below it: probabilities as they are found, the sums of its histories,
    and how far rounding may have moved these."""

    p: Array
    sums: Array
    doubts: Array


def _sum_blocks(
    model: NgramModel, reader: Reader | None, keep: list[Array] | None = None, shard: Shard | None = None
) -> Iterator[tuple[int, int, Array]]:
    """(length of the history, number of the first one, sum_w p(w|h) of this and the next ones) for all histories, or
    those of a shard, ascending. With `reader` it is about what that finds in the file instead of what is in memory, and
    with `keep` of a file that has the flagged rows only: the others are backed off. Of the longest histories, which are
    most of them, nothing is kept but the block."""
    trie = model.trie
    shard = shard or (0, trie.n_words)
    p = _found(model.p[1], reader)
    lower, added = _Lower(p, np.array([float(p.sum())]), np.zeros(1)), 0
    yield 0, 0, lower.sums
    for k in range(2, trie.order + 1):
        top, (begin, end) = k == trie.order, trie.hists_ending_in(k - 1, shard)
        p = model.p[k] if top else _found(model.p[k], reader, *trie.begin[k][[begin, end]].tolist())
        size = 0 if top else trie.n_hist(k - 1)
        here = _Lower(p, np.empty(size), np.empty(size))
        work = partial(_sums_of_block, model, reader, keep, k, p, lower)
        for first, total, doubt in in_threads(work, blocks(trie.begin[k], begin, end)):
            unsure = np.flatnonzero(~(doubt <= DOUBT)).tolist()
            if not top:
                here.sums[first : first + len(total)], here.doubts[first : first + len(total)] = total, doubt
            added += len(unsure)
            if added * trie.n_words > MOST_ADDED:
                shown = model.vocab.spell(trie.words_of_hist(k - 1, first + unsure[0]))
                raise MdiError(
                    f"{added:,} back-off weights or more are so large that sums of probabilities have no digits left, "
                    f"such as that of '{shown}'; expected weights below a million. Prune the model (mdi prune), or "
                    f"build it again"
                )
            for h in unsure:
                # word by word: as exact as any, but as slow as there are words
                total[h] = _distribution(trie, model.p, model.bow, k - 1, first + h, reader or np.asarray).sum()
            yield k - 1, first, total
        lower = here


def _sums_of_block(
    model: NgramModel,
    reader: Reader | None,
    keep: list[Array] | None,
    k: int,
    p: Array,
    lower: _Lower,
    block: tuple[int, int],
) -> tuple[int, Array, Array]:
    """(first history, sums, how far rounding may have moved them) of histories of length k - 1. `p` of the highest
    order is still to be read as it is found in the file."""
    rows, level = model.level_block(k, *block)
    part, part_p, part_bow = level.trie, p[rows], level.bow
    if reader is not None:
        part_p, part_bow = reader(part_p) if k == model.order else part_p, reader(part_bow)
        if keep is not None:  # in memory they are what backing off gives
            gone = np.flatnonzero(~keep[k][rows])
            hist = np.searchsorted(part.begin, gone.astype(np.int32), side="right") - 1
            model_kernels.back_off(gone, hist, part.suffix, part_bow, lower.p, part_p)
    level = ModelLevel(part, part_p, part_bow, lower.p)
    return block[0], *model_kernels.history_sums(level, lower.sums, lower.doubts)


def _found(values: Array, reader: Reader | None, begin: int = 0, end: int | None = None) -> Array:
    """What `reader` finds in the file for these values (of some, the others are never written to), or these."""
    if reader is None:
        return values
    read, found, end = reader, np.empty(len(values)), len(values) if end is None else end

    def part(first: int) -> None:
        here = slice(first, min(first + BLOCK, end))
        found[here] = read(values[here])

    each_in_threads(part, range(begin, end, BLOCK))
    return found


def history_sums(model: NgramModel, reader: Reader | None = None) -> list[Array]:
    """sum_w p(w|h) for every history h of every length: 1 wherever the model is right. `reader`: see `_sum_blocks`."""
    found = [np.empty(model.trie.n_hist(j)) for j in range(model.order)]
    for j, first, part in _sum_blocks(model, reader):
        found[j][first : first + len(part)] = part
    return found


def _distribution(trie: Trie, p: list[Array], bow: list[Array], j: int, h: int, read: Reader = np.asarray) -> Array:
    """p(w|h) of every word w."""
    chain = []
    while j > 0:
        chain.append((j, h))
        j, h = j - 1, int(trie.back[j][h])
    found = read(p[1]).copy()
    for j, h in reversed(chain):
        rows = slice(int(trie.begin[j + 1][h]), int(trie.begin[j + 1][h + 1]))
        found *= read(bow[j][h : h + 1])[0]
        found[trie.word[j + 1][rows]] = read(p[j + 1][rows])
    return found


def sum_gaps(
    model: NgramModel, reader: Reader | None = None, keep: list[Array] | None = None
) -> tuple[float, str, int]:
    """The largest |sum_w p(w|h) - 1| over all histories, the first history that has it, and how many are off by more
    than SUM_ERROR. `reader`, `keep`: see `_sum_blocks`."""
    found = over_shards(_gaps_of_shard, model.trie, model, reader, keep, label="sums")
    by_length = [max(parts, key=lambda part: part[0]) for parts in zip(*found, strict=True)]
    j = max(range(len(by_length)), key=lambda j: by_length[j][0])
    gap, h, _ = by_length[j]
    where = f"'{model.vocab.spell(model.trie.words_of_hist(j, h))}'" if j else "the empty history"
    return gap, where, sum(off for parts in found for _, _, off in parts)


def worst_sum(model: NgramModel, reader: Reader | None = None, keep: list[Array] | None = None) -> tuple[float, str]:
    """The first two of `sum_gaps`."""
    gap, where, _ = sum_gaps(model, reader, keep)
    return gap, where


def _gaps_of_shard(
    shard: Shard, model: NgramModel, reader: Reader | None, keep: list[Array] | None
) -> list[tuple[float, int, int]]:
    """By length of the history: the largest |sum_w p(w|h) - 1|, infinite where it is no number, the first history that
    has it, and how many are errors. </s> is never a history, and what is not in the file is none there: 0."""
    trie, eos = model.trie, model.vocab.eos
    after_end = [(0, 0), *(trie.hists_ending_in(j, (eos, eos + 1)) for j in range(1, model.order))]
    found = [(-1.0, 0, 0)] * model.order
    for j, first, total in _sum_blocks(model, reader, keep, shard):
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(total - 1.0)
        gap[np.isnan(gap)] = np.inf
        gap[slice(*(max(0, h - first) for h in after_end[j]))] = 0.0
        if keep is not None and j:
            gap[~keep[j][trie.row_of_hist[j][first : first + len(gap)]]] = 0.0
        worst, h, off = found[j]
        if len(gap) and gap.max() > worst:
            worst, h = float(gap.max()), first + int(gap.argmax())
        found[j] = worst, h, off + int((gap > SUM_ERROR).sum())
    return found


def warn_unless_normalised(path: str, model: NgramModel) -> None:
    """Says how far off a model that was read is; what is made of it will be normalised."""
    gap, where = worst_sum(with_suffixes(model))
    if gap > SUM_WARNING:
        logger.warning(f"{path}: the probabilities after {where} miss 1 by {gap:.3g}; the result is normalised again")


def check_normalised(path: str, model: NgramModel, allow_unnormalized: bool = False) -> None:
    """A model to adapt is refused on the way in if it is not a probability model."""
    gap, where = (0.0, "") if allow_unnormalized else worst_sum(with_suffixes(model))
    if gap > SUM_ERROR:
        raise MdiError(
            f"{path}: p(.|h) sums to one only within {gap:.2g} (after {where}); expected {SUM_ERROR:g}. "
            f"Build the model again, or take it as it is with --allow-unnormalized true (allow_unnormalized=True)"
        )


def scaled_to_one(path: str, model: NgramModel) -> NgramModel:
    """A model to adapt, and a line about it where it is no probability model: each p(.|h) is divided by its sum s(h).

    So are models out of which words were taken without giving their probability to others. What is left of p(.|h), by
    its sum, is p(w|h, w is one of the words left): no other distribution over them is as close to it (KL). It has the
    same n-grams; its back-off weights are bow(h) s(h') / s(h), since p(w|h) = bow(h) p(w|h') for the others.
    """
    trie, sums = model.trie, history_sums(model)
    off = sum(int((np.abs(part - 1.0) > SUM_ERROR).sum()) for part in sums)
    if not off:
        return model
    least, most = min(part.min(initial=1.0) for part in sums), max(part.max(initial=1.0) for part in sums)
    if not (least > 0.0 and np.isfinite(most)):
        raise MdiError(
            f"{path}: the probabilities after a history sum to {least:g}; expected one. Build the model again"
        )
    logger.warning(
        f"{path}: after {off:,} of {sum(map(len, sums)):,} histories the probabilities do not sum to one, but to "
        f"{least:.3g} to {most:.3g}, as where words were taken out of a model; each is divided by its sum"
    )
    p, bow = [model.p[0], model.p[1] / sums[0]], model.bow[:1]
    for k in range(2, trie.order + 1):
        p.append(model.p[k] / np.repeat(sums[k - 1], np.diff(trie.begin[k])))
        bow.append(model.bow[k - 1] * sums[k - 2][trie.back[k - 1]] / sums[k - 1])
    return NgramModel(model.vocab, trie, p, bow)
