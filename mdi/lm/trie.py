"""The rows of a set of n-grams, in the order in which they are used.

Order k has one row for each k-gram hw. The rows of order k < n are also the histories of length k, in another
order: `as_hist[k][r]` is row r as a history. There is one history of length 0, the empty one.

    begin[k][h] .. begin[k][h+1]   the rows hw of history h, by ascending w
    word[k][r]                     w
    suffix[k][r]                   the row of h'w in order k-1 (h' = h without its first word)
    as_hist[k][r]                  hw as a history of length k
    back[k][h]                     the history h' of length k-1 that h backs off to

Histories are sorted by their last word, then the one before, and so on, so histories with the same h' lie side by
side, and so do the rows h'w that they need: every pass over the model is local. It is also the order in
which SRILM writes ARPA files. Sorting rows as histories is a stable counting sort by w.

A trie is *closed* if for every row its history and its suffix are rows too. Lists are indexed by order; [0] is a
filler.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdi import room
from mdi.errors import MdiError
from mdi.kernels import trie as kernels
from mdi.kernels.trie import Branches, Level, Spelling, TrieArrays
from mdi.kernels.types import Array as Array
from mdi.threads import each_in_threads

NONE: Array = np.zeros(0, np.int32)
# numba compiles a kernel again for each length of a tuple; lists of arrays are padded to this one: order 8.
MAX_ORDER = 8
PADDED = 1 + MAX_ORDER
MAX_ROWS = 2**31 - 2
# Histories are worked on, by several threads, in blocks that have so many rows together.
BLOCK = 1 << 16


def padded(arrays: list[Array]) -> tuple[Array, ...]:
    """A list of arrays as a tuple of the one length and type that kernels are compiled for. [0] may be a filler."""
    filler = np.zeros(0, arrays[-1].dtype)
    first = arrays[0] if arrays[0].dtype == filler.dtype else filler
    return (first, *arrays[1:]) + (filler,) * (PADDED - len(arrays))


@dataclass(frozen=True)
class Trie:
    """See the module. The rows of order 1 are all the words of the vocabulary, 0 .. n_words - 1."""

    begin: list[Array]
    word: list[Array]
    suffix: list[Array]
    as_hist: list[Array]
    back: list[Array]

    @property
    def order(self) -> int:
        return len(self.word) - 1

    @property
    def n_words(self) -> int:
        return len(self.word[1])

    def rows(self, k: int) -> int:
        """Number of k-grams."""
        return len(self.word[k])

    def n_hist(self, j: int) -> int:
        """Number of histories of length j."""
        return 1 if j == 0 else len(self.word[j])

    @property
    def counts(self) -> list[int]:
        """Number of n-grams of the orders 1 to n."""
        return [self.rows(k) for k in range(1, self.order + 1)]

    def branches(self, k: int) -> Branches:
        """The rows of order k."""
        return Branches(self.begin[k], self.word[k])

    def level(self, k: int) -> Level:
        """The rows of order k with their links to order k - 1."""
        return Level(self.begin[k], self.word[k], self.suffix[k], self.back[k - 1])

    def level_block(self, k: int, first: int, end: int) -> tuple[slice, Level]:
        """(rows, order k) of the histories first .. end alone; rows are counted from the first of them."""
        begin = self.begin[k][first : end + 1]
        rows = slice(int(begin[0]), int(begin[-1]))
        return rows, Level(begin - begin[0], self.word[k][rows], self.suffix[k][rows], self.back[k - 1][first:end])

    @property
    def lists(self) -> tuple[list[Array], ...]:
        return self.begin, self.word, self.suffix, self.as_hist, self.back

    def __reduce__(self) -> tuple[Any, ...]:
        return Trie, self.lists  # without what is computed from them

    def arrays(self) -> TrieArrays:
        """All orders, for kernels that walk through them."""
        return TrieArrays(*(padded(part) for part in self.lists))

    def spelling(self) -> Spelling:
        """The words of all histories that rows may follow."""
        lengths = range(2, len(self.as_hist))
        first = np.cumsum([0, *(self.rows(j) for j in lengths)])
        prefix, last = room.empty(first[-1], np.int32), room.empty(first[-1], np.int32)
        for j, at in zip(lengths, first, strict=False):
            here = slice(at, at + self.rows(j))
            kernels.spell_histories(self.branches(j), self.as_hist[j], prefix[here], last[here])
        return Spelling(first, prefix, last)

    @cached_property
    def row_of_hist(self) -> list[Array]:
        """Inverse of as_hist: the row of each history."""
        inverse = [NONE]
        for k in range(1, len(self.as_hist)):
            row = np.empty(self.rows(k), np.int32)
            row[self.as_hist[k]] = np.arange(self.rows(k), dtype=np.int32)
            inverse.append(row)
        return inverse

    def hist_of_rows(self, k: int, rows: Array | None = None) -> Array:
        """The history of each row of order k (or of the given ones)."""
        if rows is None:
            return np.repeat(np.arange(self.n_hist(k - 1), dtype=np.int32), np.diff(self.begin[k]))
        return (np.searchsorted(self.begin[k], rows, side="right") - 1).astype(np.int32)

    def first_hists(self, j: int) -> Array:
        """The first history of length j, 1 or more, that ends in each word, and their number: they are sorted by it."""
        first: Array = kernels.count_rows(self.word[j], self.n_words)
        return first

    def hists_ending_in(self, j: int, words: tuple[int, int]) -> tuple[int, int]:
        """(first, end) of the histories of length j, 1 or more, that end in the words first .. end - 1: they are sorted
        by it."""
        if words == (0, self.n_words):
            return 0, self.n_hist(j)
        first, end = (int(np.count_nonzero(self.word[j] < w)) for w in words)
        return first, end

    def ngrams(self, k: int, rows: Array) -> Array:
        """The words of the given rows of order k, one per line."""
        ids = np.empty((len(rows), k), np.int32)
        for j in range(k, 0, -1):
            ids[:, j - 1] = self.word[j][rows]
            if j > 1:
                rows = self.row_of_hist[j - 1][self.hist_of_rows(j, rows)]
        return ids

    def flags(self, rows: list[Array]) -> list[Array]:
        """Flags by order, set for the given rows ([0] is a filler)."""
        flags = [NONE, *(room.zeros(self.rows(k), bool) for k in range(1, self.order + 1))]
        for part, here in zip(flags[1:], rows[1:], strict=False):
            part[here] = True
        return flags

    def words_of_hist(self, j: int, h: int) -> list[int]:
        """The words of one history of length j, without an inverse of as_hist for all of them."""
        ids: list[int] = []
        for k in range(j, 0, -1):
            row = int(np.flatnonzero(self.as_hist[k] == h)[0])
            ids.insert(0, int(self.word[k][row]))
            h = int(np.searchsorted(self.begin[k], row, side="right")) - 1
        return ids

    def find(self, ids: Array) -> Array:
        """Rows of k-grams given one per line, -1 where there is none (or a word is negative)."""
        ids = np.ascontiguousarray(ids, np.int32)
        k = ids.shape[1]
        rows = np.full(len(ids), -1, np.int32)
        if k > self.order or not len(ids):
            return rows
        kernels.find_rows(ids, self.arrays(), rows)
        rows[(ids < 0).any(axis=1)] = -1
        return rows


def roomy(size: int, dtype: type) -> Array:
    """An empty array with room behind it, for `widened`: memory that is never written to costs nothing."""
    return room.empty(size + size // 8, dtype)[:size]


def widened(array: Array, size: int) -> Array:
    """The array, which nobody else has, with more places at its end: it grows into the room behind it if that is
    enough. (To resize it would take longer than to copy it: the system must take its huge pages apart.)"""
    base = array.base
    if isinstance(base, np.ndarray) and base.dtype == array.dtype and base.ndim == 1 and len(base) >= size:
        wider = base[:size]
        if wider.ctypes.data == array.ctypes.data and wider.flags.c_contiguous and wider.flags.writeable:
            return wider
    wider = room.empty(size, array.dtype)
    wider[: len(array)] = array
    return wider


def blocks(begin: Array, first: int = 0, last: int | None = None, size: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Cuts the histories first .. last into blocks (first, end) of about so many rows, and of so many histories at
    most."""
    last = len(begin) - 1 if last is None else last
    while first < last:
        limit = begin.dtype.type(min(int(begin[first]) + size, int(begin[-1])))
        end = int(np.searchsorted(begin, limit, side="right")) - 1
        end = min(max(end, first + 1), first + size, last)
        yield first, end
        first = end


def linked(branches: Branches, back: Array, lower: Branches) -> Array:
    """suffix[r]: the row of h'w among the branches `lower` for row r = hw, or -1 where it is missing; back[h] = h'."""
    begin, suffix = branches.begin, roomy(len(branches.word), np.int32)

    def link(block: tuple[int, int]) -> None:
        first, end = block
        part = branches._replace(begin=begin[first : end + 1])
        kernels.link_suffixes(part, back[first:end], lower, suffix)

    each_in_threads(link, blocks(begin))
    return suffix


def scattered(value: Array, place: Array) -> Array:
    """out[place[i]] = value[i]"""
    out = roomy(len(value), value.dtype.type)
    kernels.scatter(value, place, out)
    return out


def unigram_trie(n_words: int) -> Trie:
    """All words and nothing else."""
    return Trie(
        begin=[NONE, np.array([0, n_words], np.int32)],
        word=[NONE, np.arange(n_words, dtype=np.int32)],
        suffix=[NONE, np.zeros(n_words, np.int32)],
        as_hist=[NONE],
        back=[np.zeros(1, np.int32)],
    )


def ranked(word: Array, n_words: int) -> Array:
    """as_hist[r] of rows with these last words. (Large arrays that NumPy makes are on huge pages.)"""
    as_hist = room.empty(len(word), np.int32)
    kernels.rank_as_histories(word, n_words, as_hist)
    return as_hist


def with_histories(trie: Trie) -> Trie:
    """The trie with its highest order ranked as histories: what a further order needs, and only that."""
    k = trie.order
    if len(trie.as_hist) > k:
        return trie
    as_hist = ranked(trie.word[k], trie.n_words)
    lower = trie.as_hist[k - 1] if k > 1 else np.zeros(1, np.int32)
    back = kernels.map_histories(trie.suffix[k], as_hist, lower, room.empty(trie.rows(k), np.int32))
    return Trie(trie.begin, trie.word, trie.suffix, [*trie.as_hist, as_hist], [*trie.back, back])


def add_order(trie: Trie, begin: Array, word: Array, suffix: Array | None = None) -> Trie:
    """`with_histories(..)` and one more order. Without `suffix` the links are searched; a missing one is -1."""
    k = trie.order + 1
    if len(word) > MAX_ROWS:
        raise MdiError(f"{len(word):,} {k}-grams; one order may hold at most {MAX_ROWS:,}")
    if suffix is None:
        # order 1 has every word, in order
        suffix = word if k == 2 else linked(Branches(begin, word), trie.back[k - 1], trie.branches(k - 1))
    begin, word, suffix = map(room.shared, (begin, word, suffix))
    return Trie([*trie.begin, begin], [*trie.word, word], [*trie.suffix, suffix], trie.as_hist, trie.back)


def sort_rows(row_hist: Array, row_word: Array, n_hist: int) -> tuple[Array, Array | slice, int]:
    """(begin, permutation or all where the rows are in order already, index in file order of a duplicate or -1)."""
    begin = kernels.count_rows(row_hist, n_hist)
    if kernels.is_sorted(row_hist, row_word):
        return begin, slice(None), -1
    perm = kernels.order_rows(row_hist, row_word, begin)
    twice = kernels.first_duplicate(begin, row_word[perm])
    return begin, perm, -1 if twice < 0 else int(max(perm[twice], perm[twice - 1]))


def from_ngrams(n_words: int, ngrams: list[Array]) -> Trie:
    """The closed trie of the given n-grams (ngrams[i]: those of order i + 1, one per line) and of all their parts.
    Repeats are fine."""
    trie = unigram_trie(n_words)
    for k in range(2, len(ngrams) + 1):
        trie = with_histories(trie)
        ids = np.concatenate([part[:, i : i + k] for part in ngrams[k - 1 :] for i in range(part.shape[1] - k + 1)])
        hist = trie.as_hist[k - 1][trie.find(ids[:, :-1])]
        key = np.unique(hist.astype(np.int64) * n_words + ids[:, -1])
        row_hist = (key // n_words).astype(np.int32)
        begin = kernels.count_rows(row_hist, trie.n_hist(k - 1))
        trie = add_order(trie, begin, (key % n_words).astype(np.int32))
    return trie


def with_order(trie: Trie, order: int) -> Trie:
    """The trie with empty orders on top up to the given one."""
    while trie.order < order:
        trie = add_order(with_histories(trie), np.zeros(trie.rows(trie.order) + 1, np.int32), NONE, NONE)
    return trie


def kept_rows(trie: Trie, keep: list[Array]) -> Trie:
    """The rows marked in keep[k]. Every history of a kept row must be kept; a suffix that is not kept is missing
    (-1)."""
    kept, number = unigram_trie(trie.n_words), np.arange(trie.n_words, dtype=np.int32)
    for k in range(2, trie.order + 1):
        kept = with_histories(kept)
        *level, number = kernels.keep_level(trie.level(k), keep[k], number, trie.row_of_hist[k - 1])
        kept = add_order(kept, *level)
    return kept


def lowest(trie: Trie, order: int) -> Trie:
    """The orders 1 .. order of a trie."""
    top = order + 1
    return Trie(trie.begin[:top], trie.word[:top], trie.suffix[:top], trie.as_hist[:order], trie.back[:order])


def locate(source: Trie, trie: Trie) -> list[Array]:
    """where[k][r]: the row in `trie` of row r of `source`, or -1 (both over the same words)."""
    where = [NONE, np.arange(source.n_words, dtype=np.int32)]
    for k in range(2, source.order + 1):
        if k > trie.order:
            where.append(np.full(source.rows(k), -1, np.int32))
            continue
        hist = kernels.map_histories(
            where[k - 1], source.as_hist[k - 1], trie.as_hist[k - 1], np.empty_like(where[k - 1])
        )
        where.append(linked(source.branches(k), hist, trie.branches(k)))
    return where


def missing_suffixes(trie: Trie) -> Trie:
    """The n-grams that a closed trie would have beside its own, with all their parts."""
    lost = [trie.ngrams(k, np.flatnonzero(trie.suffix[k] < 0))[:, 1:] for k in range(2, trie.order + 1)]
    return from_ngrams(trie.n_words, [*lost, np.zeros((0, trie.order), np.int32)])


def with_more_words(trie: Trie, more: int) -> Trie:
    """The trie over so many more words, which have the highest numbers and nothing behind them: all else stays."""
    words, made = unigram_trie(trie.n_words + more), Trie(*map(list, trie.lists))
    made.begin[1], made.word[1], made.suffix[1] = words.begin[1], words.word[1], words.suffix[1]
    if len(made.as_hist) > 1:
        made.as_hist[1], made.back[1] = map(room.shared, (words.word[1].copy(), words.suffix[1].copy()))
    if trie.order > 1:
        end = np.full(more, trie.begin[2][-1], np.int32)
        made.begin[2] = room.shared(np.concatenate([trie.begin[2], end]))
    return made


def is_closed(trie: Trie) -> bool:
    return all(bool((trie.suffix[k] >= 0).all()) for k in range(1, trie.order + 1))
