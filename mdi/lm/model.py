"""A back-off n-gram model: a closed trie with a probability per row and a back-off weight per history.

    p(w|h) = p[k][row of hw]           if hw is a row
           = bow[j][h] * p(w|h')       otherwise,       k = j + 1, j = length of h           (the paper's Eq. 1)

Probabilities are linear; only mdi/lm/arpa.py knows logarithms to base 10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

import numpy as np

from mdi import room
from mdi.errors import MdiError
from mdi.kernels import model as kernels
from mdi.kernels.model import ModelArrays, ModelLevel, OwnScales, Scaled
from mdi.kernels.trie import Branches
from mdi.lm.shards import Shard, over_shards, own_hists
from mdi.lm.trie import (
    NONE,
    Array,
    Trie,
    add_order,
    blocks,
    closed,
    from_ngrams,
    is_closed,
    kept_rows,
    lowest,
    missing_suffixes,
    padded,
    scattered,
    sort_rows,
    unigram_trie,
    widened,
    with_histories,
    with_order,
)  # fmt: skip
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

    __hash__ = None  # type: ignore[assignment]  # a model may be used up

    def prob(self, word: str, history: str | Sequence[str] = ()) -> float:
        """p(word | history), the history as a string or a list of words. Words outside the vocabulary are <unk>, or
        have probability 0 where the model has none."""
        (w,) = self._ids([word])
        return self._prob(w, self._ids(_words(history))[max(0, len(_words(history)) - self.order + 1) :])

    def log_prob(self, words: str | Sequence[str], history: str | Sequence[str] = ()) -> float:
        """Natural log of p(words | history), for a look at single n-grams; `perplexity` is for texts."""
        ids, total = self._ids(_words(history)), 0.0
        for w in self._ids(_words(words)):
            p = self._prob(w, ids[max(0, len(ids) - self.order + 1) :])
            total += math.log(p) if p > 0.0 else -math.inf
            ids.append(w)
        return total

    def _ids(self, words: Sequence[str]) -> list[int]:
        return [i if i >= 0 else self.vocab.unk for i in self.vocab.ids(words).tolist()]

    def _prob(self, w: int, history: list[int]) -> float:
        row = self.trie.find(np.array([[*history, w]], np.int32))[0]
        if row >= 0 or not history:
            return float(self.p[len(history) + 1][row]) if row >= 0 else 0.0
        known = self.trie.find(np.array([history], np.int32))[0]
        j = len(history)
        weight = float(self.bow[j][self.trie.as_hist[j][known]]) if known >= 0 else 1.0
        return weight * self._prob(w, history[1:])


def _words(words: str | Sequence[str]) -> Sequence[str]:
    """A string is split at blanks: its letters are never words."""
    return words.split() if isinstance(words, str) else words


class _Spent:
    """Stands in for the arrays of a model that was used up."""

    def _refuse(self, *_: object) -> NoReturn:
        raise MdiError("this model was used up by an adaptation (spend=True); read it again")

    __getattr__ = __getitem__ = __len__ = __iter__ = _refuse


def extend(model: NgramModel, ngrams: Trie, *, spend: bool = False) -> NgramModel:
    """The same distribution with more rows: those of `ngrams` (over the same words) and whatever closes these.

    A new row gets its backed-off probability and, as a history, the weight 1. If the model's trie is closed, so is the
    result's. With `spend` the model is used up: its arrays become the result's, new rows being put in between.
    """
    order = max(model.order, ngrams.order)
    old, new = with_order(model.trie, order), with_order(closed(ngrams), order)
    vocab, rows, old_p, old_bow = model.vocab, old.counts, list(model.p), list(model.bow)
    old_p += [np.zeros(0)] * (order - model.order)
    old_bow += [np.ones(old.rows(j)) for j in range(model.order, order)]
    if spend:
        old = _moved(old, model.trie)
        model.p.clear()
        model.bow.clear()
        for name in ("trie", "p", "bow"):
            object.__setattr__(model, name, _Spent())
    trie = unigram_trie(old.n_words)
    p, bow = [NONE, old_p[1]], [old_bow[0]]
    place = trie.word[1]  # of each row of `new` in the result
    fresh: Array = NONE  # rows of the result that the model lacks
    moved = False  # whether this order's rows, or those below, have other numbers than before
    for k in range(2, order + 1):
        j, lower_fresh, lower_moved = k - 1, fresh, moved
        links, back = old.as_hist[j], old.back[j]
        if spend:
            old.as_hist[j] = old.back[j] = NONE
        if lower_moved:
            del links, back
            trie = with_histories(trie)
        else:
            trie = replace(trie, as_hist=[*trie.as_hist, links], back=[*trie.back, back])
        fresh_hist = np.sort(trie.as_hist[j][lower_fresh])
        bow.append(_inserted(old_bow, j, fresh_hist, np.ones(len(fresh_hist)), spend))
        hist = scattered(trie.as_hist[j][place], new.as_hist[j])
        place, is_fresh = kernels.place_rows(new.branches(k), hist, fresh_hist, old.branches(k))
        fresh, row_hist = place[is_fresh], hist[new.hist_of_rows(k)[is_fresh]]
        moved = bool(lower_moved or len(fresh))
        begin = kernels.widened_begin(old.begin[k], fresh_hist, row_hist) if moved else old.begin[k]
        if spend:
            old.begin[k] = NONE
            if k == 2:
                old.suffix[2] = NONE  # is word[2]
        suffix = word = _inserted(old.word, k, fresh, new.word[k][is_fresh], spend, share=True)
        if k > 2:
            suffix = _inserted(old.suffix, k, fresh, np.full(len(fresh), -1, np.int32), spend, share=not lower_moved)
            if lower_moved:
                kernels.renumber(suffix, rows[j - 1], lower_fresh)
            if moved:
                kernels.link_missing(Branches(begin, word), trie.back[j], trie.branches(j), suffix)
        trie = add_order(trie, begin, word, suffix)
        p.append(_inserted(old_p, k, fresh, np.zeros(len(fresh)), spend))
        kernels.back_off(fresh, row_hist, suffix, bow[j], p[j], p[k])
    return NgramModel(vocab, trie, p, bow)


def _moved(*tries: Trie) -> Trie:
    """The first of tries that share arrays, which nobody has but it from here on."""
    mine = Trie(*(list(part) for part in tries[0].lists))
    for trie in tries:
        trie.spend()
    return mine


def _inserted(arrays: list[Array], k: int, at: Array, values: Array, spend: bool, share: bool = False) -> Array:
    """arrays[k] with values put in where the places `at` are in the result. With `spend` it is taken from the list,
    and grows where it is if that can be; otherwise it stays as it is, and may be the result if it is shared."""
    array = arrays[k]
    if spend:
        arrays[k] = NONE
    if not len(at) and (spend or share):
        return array
    wider = widened(array, len(array) + len(at), spend=spend)
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
    return extend(model, from_ngrams(model.trie.n_words, missing_suffixes(model.trie)))


def rescaled(
    model: NgramModel, rows: list[Array], scales: list[Array], into: tuple[list[Array], list[Array]] | None = None
) -> NgramModel:
    """p(w|h) c(hw) / Z(h), where c(hw) is scales[k][i] for hw = rows[k][i] (ascending) and otherwise c(h'w), or 1 for
    words.

    Z(h) = sum_w p(w|h) c(hw) is the paper's Sigma_L (Eq. 6), order by order: one pass over each. `into`: arrays for p
    and bow, maybe the model's own.
    """
    trie = model.trie
    scale = np.ones(trie.n_words)
    scale[rows[1]] = scales[1]
    z = np.array([(model.p[1] * scale).sum()])
    words = Scaled(model.p[1] * scale / z[0], scale, z)
    if into is None:
        p, bow = ([room.empty(len(part), float, 1) for part in parts] for parts in (model.p, model.bow))
    else:
        p, bow = into
    p[:2], bow[0] = [NONE, words.p], model.bow[0]
    over_shards(_rescale_shard, trie, model, words, rows, scales, p, bow, label="scaling")
    return NgramModel(model.vocab, trie, p, bow)


def _rescale_shard(
    shard: Shard, model: NgramModel, lower: Scaled, rows: list[Array], scales: list[Array], p: list[Array],
    bow: list[Array],
) -> None:  # fmt: skip
    trie = model.trie
    for k in range(2, trie.order + 1):
        own = OwnScales(rows[k], scales[k]) if k < len(rows) else OwnScales(NONE, np.zeros(0))
        size = (0, 0) if k == trie.order else (trie.rows(k), trie.n_hist(k - 1))
        new = Scaled(p[k], np.empty(size[0]), np.empty(size[1]))  # what is no shard's own is never written to
        first, end = own_hists(trie, k - 1, shard)
        work = partial(_rescale, model.level(k), lower, own, new, bow[k - 1])
        each_in_threads(work, blocks(trie.begin[k], first, end))
        lower = new


def _rescale(
    level: ModelLevel, lower: Scaled, own: OwnScales, new: Scaled, new_bow: Array, block: tuple[int, int]
) -> None:
    """Some histories of one order."""
    first, end = block
    begin, back = level.trie.begin[first : end + 1], level.trie.back[first:end]
    here = slice(*np.searchsorted(own.row, begin[[0, -1]]).tolist())
    part = level._replace(trie=level.trie._replace(begin=begin, back=back), bow=level.bow[first:end])
    own = OwnScales(own.row[here], own.scale[here])
    kernels.rescale(part, lower, own, new._replace(z=new.z[first:end]), new_bow[first:end])


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
        row = np.arange(len(row_word), dtype=np.int32)
        if perm is None:
            trie = add_order(trie, begin, row_word)
            p.append(model.p[k])
        else:
            row[perm] = np.arange(len(perm), dtype=np.int32)
            trie = add_order(trie, begin, row_word[perm])
            p.append(model.p[k][perm])
    return NgramModel(vocab, trie, p, bow)
