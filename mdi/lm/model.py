"""A back-off n-gram model: a closed trie with a probability per row and a back-off weight per history.

    p(w|h) = p[k][row of hw]           if hw is a row
           = bow[j][h] * p(w|h')       otherwise,       k = j + 1, j = length of h           (the paper's Eq. 1)

Probabilities are linear; only mdi/lm/arpa.py knows logarithms to base 10.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mdi import room
from mdi.kernels import model as kernels
from mdi.kernels.model import ModelArrays, ModelLevel, OwnScales, Scaled
from mdi.kernels.trie import Branches
from mdi.lm.shards import Shard, current, over_shards
from mdi.lm.trie import (
    NONE,
    Array,
    Trie,
    add_order,
    blocks,
    is_closed,
    kept_rows,
    lowest,
    missing_suffixes,
    padded,
    roomy,
    scattered,
    sort_rows,
    unigram_trie,
    widened,
    with_histories,
    with_order,
)
from mdi.lm.vocabulary import Vocabulary
from mdi.threads import each_in_threads


@dataclass(frozen=True, repr=False, eq=False)
class NgramModel:
    """p[k][r], k = 1..n: probability of row r of order k.  bow[j][h], j = 0..n-1: weight of history h of length j;
    bow[0] = [1], as nothing lies below the empty history."""

    vocab: Vocabulary
    trie: Trie
    p: list[Array]
    bow: list[Array]

    @property
    def order(self) -> int:
        return self.trie.order

    def level(self, k: int) -> ModelLevel:
        """Order k, 2 or more, for kernels that pass over the model order by order."""
        return ModelLevel(self.trie.level(k), self.p[k], self.bow[k - 1], self.p[k - 1])

    def level_block(self, k: int, first: int, end: int) -> tuple[slice, ModelLevel]:
        """The same of some histories: see `Trie.level_block`."""
        rows, level = self.trie.level_block(k, first, end)
        return rows, ModelLevel(level, self.p[k][rows], self.bow[k - 1][first:end], self.p[k - 1])

    def arrays(self) -> ModelArrays:
        """All orders, for kernels that look up n-grams."""
        return ModelArrays(
            self.trie.arrays(), padded(self.p), padded(self.bow), self.order, self.vocab.bos, self.vocab.eos
        )

    def __contains__(self, word: str) -> bool:
        return self.vocab.id(word) >= 0

    def __repr__(self) -> str:
        return f"<NgramModel of order {self.order}: {' / '.join(f'{n:,}' for n in self.trie.counts)} n-grams>"

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{k}</th><td>{n:,}</td></tr>" for k, n in enumerate(self.trie.counts, 1))
        return f"<table><tr><th>order</th><th>n-grams</th></tr>{cells}</table>"

    def __eq__(self, other: object) -> bool:
        """The same words, n-grams, probabilities and weights, to the last bit."""
        if not isinstance(other, NgramModel):
            return NotImplemented
        mine, theirs = ((m.trie.begin, m.trie.word, m.p, m.bow) for m in (self, other))
        return (
            self.order == other.order
            and self.vocab.same_words(other.vocab)
            and all(np.array_equal(a, b) for x, y in zip(mine, theirs, strict=True) for a, b in zip(x, y, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]  # a model may change

    def prob(self, word: str, history: str | Sequence[str] = ()) -> float:
        """p(word | history), the history as a string or a list of words. Words outside the vocabulary are <unk>, or
        have probability 0 where the model has none."""
        (w,) = self._ids([word])
        return self._prob(w, self._ids(_words(history)))

    def log_prob(self, words: str | Sequence[str], history: str | Sequence[str] = ()) -> float:
        """Natural log of p(words | history), for a look at single n-grams; `perplexity` is for texts."""
        ids, total = self._ids(_words(history)), 0.0
        for w in self._ids(_words(words)):
            p = self._prob(w, ids)
            total += math.log(p) if p > 0.0 else -math.inf
            ids.append(w)
        return total

    def _ids(self, words: Sequence[str]) -> list[int]:
        return [i if i >= 0 else self.vocab.unk for i in self.vocab.ids(words).tolist()]

    def _prob(self, w: int, history: list[int]) -> float:
        history = history[max(0, len(history) - self.order + 1) :]
        row, j = self.trie.find(np.array([[*history, w]], np.int32))[0], len(history)
        if row >= 0 or not history:
            return float(self.p[j + 1][row]) if row >= 0 else 0.0
        known = self.trie.find(np.array([history], np.int32))[0]
        weight = float(self.bow[j][self.trie.as_hist[j][known]]) if known >= 0 else 1.0
        return weight * self._prob(w, history[1:])


def _words(words: str | Sequence[str]) -> Sequence[str]:
    """A string is split at blanks: its letters are never words."""
    return words.split() if isinstance(words, str) else words


def copied(model: NgramModel) -> NgramModel:
    """The model in arrays of its own, with room for `extend`."""

    def copy(array: Array) -> Array:
        own = roomy(len(array), array.dtype.type)
        own[:] = array
        return own

    trie = Trie(*(list(map(copy, part)) for part in model.trie.lists))
    return NgramModel(model.vocab, trie, list(map(copy, model.p)), list(map(copy, model.bow)))


def extended(model: NgramModel, ngrams: Trie) -> NgramModel:
    """What `extend` makes of a model that stays as it is."""
    made = copied(model)
    extend(made, ngrams)
    return made


def extend(model: NgramModel, ngrams: Trie) -> None:
    """Gives a model more rows, in place: those of `ngrams` (over the same words) and whatever closes these. The
    distribution stays the same: a new row gets its backed-off probability and, as a history, the weight 1. A closed
    trie stays closed.
    """
    if not is_closed(ngrams):
        extend(model, missing_suffixes(ngrams))
    order = max(model.order, ngrams.order)
    old, new = _taken(model, order), with_order(ngrams, order)
    rows = old.trie.counts
    trie = unigram_trie(old.trie.n_words)
    p, bow = [NONE, old.p[1]], [old.bow[0]]
    place = trie.word[1]  # of each row of `new` in the result
    fresh: Array = NONE  # rows of the result that the model lacks
    moved = False  # whether this order's rows, or those below, have other numbers than before
    for k in range(2, order + 1):
        j, lower_fresh, lower_moved = k - 1, fresh, moved
        links, back = _popped(old.trie.as_hist, j), _popped(old.trie.back, j)
        if lower_moved:
            del links, back
            trie = with_histories(trie)
        else:
            trie = replace(trie, as_hist=[*trie.as_hist, links], back=[*trie.back, back])
        fresh_hist = np.sort(trie.as_hist[j][lower_fresh])
        bow.append(_inserted(old.bow, j, fresh_hist, np.ones(len(fresh_hist))))
        hist = scattered(trie.as_hist[j][place], new.as_hist[j])
        place, is_fresh = kernels.place_rows(new.branches(k), hist, fresh_hist, old.trie.branches(k))
        fresh, row_hist = place[is_fresh], hist[new.hist_of_rows(k)[is_fresh]]
        moved = bool(lower_moved or len(fresh))
        begin = _popped(old.trie.begin, k)
        begin = kernels.widened_begin(begin, fresh_hist, row_hist) if moved else begin
        if k == 2:
            old.trie.suffix[2] = NONE  # is word[2]
        suffix = word = _inserted(old.trie.word, k, fresh, new.word[k][is_fresh])
        if k > 2:
            suffix = _inserted(old.trie.suffix, k, fresh, np.full(len(fresh), -1, np.int32))
            if lower_moved:
                kernels.renumber(suffix, rows[j - 1], lower_fresh)
            if moved:
                kernels.link_missing(Branches(begin, word), trie.back[j], trie.branches(j), suffix)
        trie = add_order(trie, begin, word, suffix)
        p.append(_inserted(old.p, k, fresh, np.zeros(len(fresh))))
        kernels.back_off(fresh, row_hist, suffix, bow[j], p[j], p[k])
    _give(model, NgramModel(model.vocab, trie, p, bow))


def _taken(model: NgramModel, order: int) -> NgramModel:
    """All arrays of a model, which has none then, with empty orders on top up to the given one."""
    wider = with_order(model.trie, order)
    p = [*model.p, *[np.zeros(0)] * (order - model.order)]
    bow = [*model.bow, *(np.ones(wider.rows(j)) for j in range(model.order, order))]
    trie = Trie(*(list(part) for part in wider.lists))
    for part in (*model.trie.lists, *wider.lists, model.p, model.bow):
        part.clear()
    return NgramModel(model.vocab, trie, p, bow)


def _give(model: NgramModel, other: NgramModel) -> None:
    """The arrays of another model become this one's; what was known of those it had goes."""
    for mine, theirs in zip(model.trie.lists, other.trie.lists, strict=True):
        mine[:] = theirs
    model.p[:], model.bow[:] = other.p, other.bow
    model.trie.__dict__.pop("row_of_hist", None)
    model.__dict__.pop("_identity", None)


def _popped(arrays: list[Array], k: int) -> Array:
    array, arrays[k] = arrays[k], NONE
    return array


def _inserted(arrays: list[Array], k: int, at: Array, values: Array) -> Array:
    """arrays[k], which goes from the list, with values put in where the places `at` are in the result."""
    array = _popped(arrays, k)
    if not len(at):
        return array
    wider = widened(array, len(array) + len(at))
    kernels.insert(wider, at, values)
    return wider


def first_orders(model: NgramModel, order: int) -> NgramModel:
    """The model cut down to its orders 1 .. order: still normalised, as every order of a back-off model is."""
    order = min(order, model.order)
    return NgramModel(model.vocab, lowest(model.trie, order), model.p[: order + 1], model.bow[:order])


def without(model: NgramModel, keep: list[Array]) -> NgramModel:
    """The model with the flagged rows only. Those left out must be what backing off gives."""
    trie = model.trie
    bow = [model.bow[0], *(model.bow[j][keep[j][trie.row_of_hist[j]]] for j in range(1, trie.order))]
    return NgramModel(
        model.vocab, kept_rows(trie, keep), [NONE, *(model.p[k][keep[k]] for k in range(1, trie.order + 1))], bow
    )


def with_suffixes(model: NgramModel) -> NgramModel:
    """Adds the rows that a pruned model lacks (the paper's "suffix is not seen"); no probability changes."""
    if is_closed(model.trie):
        return model
    return extended(model, missing_suffixes(model.trie))


def rescaled(model: NgramModel, rows: list[Array], scales: list[Array]) -> NgramModel:
    """What `rescale` makes of a model that stays as it is."""
    made = NgramModel(model.vocab, model.trie, list(model.p), list(model.bow))
    rescale(made, rows, scales, own_arrays=False)
    return made


def rescale(model: NgramModel, rows: list[Array], scales: list[Array], own_arrays: bool = True) -> None:
    """Makes it p(w|h) c(hw) / Z(h), in place, where c(hw) is scales[k][i] for hw = rows[k][i] (ascending) and otherwise
    c(h'w), or 1 for words.

    Z(h) = sum_w p(w|h) c(hw) is the paper's Sigma_L (Eq. 6), order by order: one pass over each. Its arrays are
    written over only if they are its own.
    """
    trie, p, bow = model.trie, list(model.p), list(model.bow)
    if not own_arrays or current() is not None:  # what a worker may have to do again must find what it began with
        p, bow = ([room.empty(len(part), float, 1) for part in parts] for parts in (p, bow))
    scale = np.ones(trie.n_words)
    scale[rows[1]] = scales[1]
    z = np.array([(model.p[1] * scale).sum()])
    words = Scaled(model.p[1] * scale / z[0], scale, z)
    p[:2], bow[0] = [NONE, words.p], model.bow[0]
    over_shards(_rescale_shard, trie, model, words, rows, scales, p, bow, label="scaling")
    model.p[:], model.bow[:] = p, bow
    model.__dict__.pop("_identity", None)


def _rescale_shard(
    shard: Shard,
    model: NgramModel,
    lower: Scaled,
    rows: list[Array],
    scales: list[Array],
    p: list[Array],
    bow: list[Array],
) -> None:
    trie = model.trie

    def work(k: int, lower: Scaled, own: OwnScales, new: Scaled, block: tuple[int, int]) -> None:
        (rows, level), here = model.level_block(k, *block), slice(*block)
        first, end = np.searchsorted(own.row, trie.begin[k][list(block)])
        own = OwnScales(own.row[first:end] - np.int32(rows.start), own.scale[first:end])
        kernels.rescale(level, lower, own, Scaled(new.p[rows], new.scale[rows], new.z[here]), bow[k - 1][here])

    for k in range(2, trie.order + 1):
        own = OwnScales(rows[k], scales[k]) if k < len(rows) else OwnScales(NONE, np.zeros(0))
        size = (0, 0) if k == trie.order else (trie.rows(k), trie.n_hist(k - 1))
        new = Scaled(p[k], np.empty(size[0]), np.empty(size[1]))  # what is no shard's own is never written to
        each_in_threads(partial(work, k, lower, own, new), blocks(trie.begin[k], *trie.hists_ending_in(k - 1, shard)))
        lower = new


def over_vocabulary(model: NgramModel, vocab: Vocabulary, ids: Array) -> NgramModel:
    """The model over another vocabulary, word w becoming ids[w]. Words that it does not know have probability 0."""
    if len(ids) == len(vocab) and np.array_equal(ids, np.arange(len(ids))):
        return NgramModel(vocab, model.trie, model.p, model.bow)
    old, trie = model.trie, unigram_trie(len(vocab))
    unigram = np.zeros(len(vocab))
    unigram[ids] = model.p[1]
    p, bow, row = [NONE, unigram], [model.bow[0]], ids  # row[r]: what row r has become
    for k in range(2, old.order + 1):
        trie = with_histories(trie)
        hist = trie.as_hist[k - 1][row][old.row_of_hist[k - 1]]
        weight = np.ones(trie.rows(k - 1))
        weight[hist] = model.bow[k - 1]
        bow.append(weight)
        row_hist, row_word = np.repeat(hist, np.diff(old.begin[k])), ids[old.word[k]]
        begin, perm, _ = sort_rows(row_hist, row_word, trie.n_hist(k - 1))
        row = np.empty(len(row_word), np.int32)
        row[perm] = np.arange(len(row), dtype=np.int32)
        trie = add_order(trie, begin, row_word[perm])
        p.append(model.p[k][perm])
    return NgramModel(vocab, trie, p, bow)
