"""A model cut by the last word of the history, so that no process need hold it whole.

Every word belongs to one shard, a range of ids. A shard owns all histories that end in its words, of every length, with
their rows and back-off weights; order 1 is in every shard. The histories h' that h backs off to end in the same word as
h, so whatever follows suffixes stays inside a shard: Z, the marginals, Kneser-Ney, interpolation.

A shard is an ordinary `NgramModel` over all words with a closed trie. Beside its own rows it has those n-grams that its
histories are (and their prefixes), which spell the histories; as rows they belong to other shards, and their
probabilities mean nothing here. Own rows, and own histories, lie side by side.

Shards lie in files of a folder that all processes see. Every piece of work is a function of such files and of small
arguments that leaves a file or returns something small, so it may be done again by whoever is alive.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from mdi.errors import MdiError
from mdi.files import replacing
from mdi.kernels import shards as kernels
from mdi.kernels import trie as trie_kernels
from mdi.kernels.perplexity import score_tokens
from mdi.lm.cache import model_lists, model_of, read_arrays, write_arrays
from mdi.lm.model import NgramModel, extend, with_suffixes, without
from mdi.lm.normalise import Reader, sum_gaps
from mdi.lm.trie import NONE, Array, Trie, from_ngrams, kept_rows, locate, missing_suffixes


@dataclass(frozen=True)
class Shard:
    """The words first .. end - 1 and where their files are."""

    folder: str
    index: int
    first: int
    end: int

    def path(self, name: str) -> Path:
        return Path(self.folder) / f"{name}.{self.index}.mdi"

    def has(self, name: str) -> bool:
        return self.path(name).exists()

    def save(self, name: str, model: NgramModel) -> None:
        self.keep(name, model_lists(model))

    def load(self, name: str) -> NgramModel:
        return kept_model(self.path(name))

    def keep(self, name: str, lists: dict[str, list[Array]]) -> None:
        """Arrays of any kind; the file appears whole or not at all."""
        with replacing(str(self.path(name)), sync=False) as stream:
            write_arrays(stream, {}, lists)

    def kept(self, name: str, check: bool = True) -> dict[str, list[Array]]:
        """What `keep` has left. Who wants a part only does not `check` the whole, which would have it in memory."""
        return read_kept(self.path(name), check)

    def own_hists(self, trie: Trie, j: int) -> slice:
        """The histories of length j >= 1 that end in the shard's words."""
        return slice(int((trie.word[j] < self.first).sum()), int((trie.word[j] < self.end).sum()))

    def own_rows(self, trie: Trie, k: int) -> slice:
        """The rows of order k >= 2 that follow these histories."""
        hists = self.own_hists(trie, k - 1)
        return slice(int(trie.begin[k][hists.start]), int(trie.begin[k][hists.stop]))

    def counts(self, trie: Trie) -> list[int]:
        """Own rows of the orders 2 to n."""
        own = (self.own_rows(trie, k) for k in range(2, trie.order + 1))
        return [part.stop - part.start for part in own]


class Source(Protocol):
    """How a shard's model is had. `name`: for files that belong to it."""

    @property
    def name(self) -> str: ...

    def load(self, shard: Shard) -> tuple[NgramModel, list[Array] | None]:
        """The model, and flags of its rows that are written, None for all."""
        ...


@dataclass(frozen=True)
class Kept:
    """From the file of this name."""

    name: str

    def load(self, shard: Shard) -> tuple[NgramModel, list[Array] | None]:
        return shard.load(self.name), None


def read_kept(path: Path, check: bool = True) -> dict[str, list[Array]]:
    try:
        return read_arrays(path, check)[0]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unusable(path, error) from error


def kept_model(path: Path) -> NgramModel:
    try:
        return model_of(read_kept(path))
    except (KeyError, TypeError) as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: Exception) -> MdiError:
    return MdiError(
        f"{path}: not usable ({error}); expected what an earlier step left there. Remove {path.parent} and start again"
    )


def ranges(folder: str, weight: Array, n_shards: int, cuts: Sequence[int] | Array = ()) -> list[Shard]:
    """Cuts the words into shards of about equal weight, at `cuts` as far as there are enough."""
    total = np.concatenate([[0], np.cumsum(weight, dtype=float)])
    places = np.asarray(cuts, np.int64) if len(cuts) > n_shards else np.arange(len(total))
    begins = [0]
    for i in range(1, n_shards):
        at = int(places[np.abs(total[places] - total[-1] * i / n_shards).argmin()])
        if begins[-1] < at < len(weight):
            begins.append(at)
    return [Shard(folder, i, a, b) for i, (a, b) in enumerate(zip(begins, [*begins[1:], len(weight)], strict=True))]


def cut_flags(trie: Trie, first: int, end: int) -> list[Array]:
    """Which rows of a closed trie the shard of the words first .. end - 1 has."""
    keep = [NONE, np.ones(trie.n_words, bool)]
    keep += [np.zeros(trie.rows(k), bool) for k in range(2, trie.order + 1)]
    shard = Shard("", 0, first, end)
    for k in range(trie.order, 1, -1):
        keep[k][shard.own_rows(trie, k)] = True
        if k < trie.order:
            keep[k] |= (trie.word[k] >= first) & (trie.word[k] < end)
        if k > 2:
            rows = np.flatnonzero(keep[k])
            keep[k - 1][trie.row_of_hist[k - 1][trie.hist_of_rows(k, rows)]] = True
    return keep


def cut_trie(trie: Trie, shard: Shard) -> tuple[Trie, list[Array]]:
    """The shard's part of a closed trie, and the flags of its rows."""
    keep = cut_flags(trie, shard.first, shard.end)
    return kept_rows(trie, keep), keep


def cut_model(model: NgramModel, shard: Shard, name: str) -> None:
    """Leaves the shard's part of a model that is in memory, whose trie is closed."""
    shard.save(name, without(model, cut_flags(model.trie, shard.first, shard.end)))


def weights_by_word(trie: Trie) -> Array:
    """Rows that the shard of each word has: those of the histories that end in it, and these histories."""
    weight = np.zeros(trie.n_words, np.int64)
    for k in range(2, trie.order + 1):
        last = np.repeat(np.arange(trie.n_words), np.bincount(trie.word[k - 1], minlength=trie.n_words))
        weight += np.bincount(last, np.diff(trie.begin[k]), minlength=trie.n_words).astype(np.int64)
        if k < trie.order:
            weight += np.bincount(trie.word[k], minlength=trie.n_words)
    return weight


# -- closing: suffixes that a pruned model lacks


def close(shard: Shard, shards: list[Shard], source: str, name: str, turn: int) -> int:
    """Adds the suffixes that the shard's rows lack, and the n-grams that other shards have added in the last turn and
    that are rows or histories here. Leaves `name` and, for the next turn, what is new; returns how many those are."""
    done = f"{name}-new-{turn}"
    if shard.has(done):
        return sum(map(len, shard.kept(done)["last"]))
    model = shard.load(source if turn == 0 else f"{name}-{turn - 1}")
    trie = model.trie
    wanted = missing_suffixes(trie)
    for other in shards if turn else []:
        theirs = shards_ids(other.kept(f"{name}-new-{turn - 1}"), trie.order)
        for k in range(2, trie.order + 1):
            mine = _concerns(shard, theirs[k - 1], trie.order)
            wanted[k - 1] = np.concatenate([wanted[k - 1], theirs[k - 1][mine]])
    wider = extend(model, from_ngrams(trie.n_words, wanted)) if any(map(len, wanted)) else model
    before = locate(wider.trie, trie)
    new = [np.zeros((0, 1), np.int32)]
    for k in range(2, trie.order + 1):
        ids = wider.trie.ngrams(k, np.flatnonzero(before[k] < 0))
        new.append(ids[_concerns(shard, ids, trie.order)])
    shard.save(f"{name}-{turn}", wider)
    shard.keep(done, ids_lists(new))
    return sum(len(part) for part in new)


def _concerns(shard: Shard, ids: Array, order: int) -> Array:
    """Which n-grams are rows or histories of the shard."""
    k = ids.shape[1]
    mine = (ids[:, k - 2] >= shard.first) & (ids[:, k - 2] < shard.end)
    if k < order:
        mine |= (ids[:, k - 1] >= shard.first) & (ids[:, k - 1] < shard.end)
    return mine


def ids_lists(ids: list[Array]) -> dict[str, list[Array]]:
    """N-grams by order as arrays for a file; `last` says how many."""
    flat = [np.ascontiguousarray(part, np.int32).reshape(-1) for part in ids]
    return {"flat": flat, "last": [part[:, -1].astype(np.int32) for part in ids]}


def shards_ids(lists: dict[str, list[Array]], order: int) -> list[Array]:
    return [flat.reshape(-1, k) for k, flat in enumerate(lists["flat"][:order], 1)]


def settle(shard: Shard, source: str, name: str) -> None:
    """The last turn's model becomes `name`; what led to it goes."""
    if not shard.has(name):
        os.replace(shard.path(source), shard.path(name))
    for path in Path(shard.folder).glob(f"{name}-*.{shard.index}.mdi"):
        path.unlink()


# -- what two shards know of the same n-gram: that of its history's last word its row, that of its own last word its
# history. Both sort what they have in common by the last word, then as rows are sorted.


def by_owner(shard: Shard, shards: list[Shard], trie: Trie, j: int) -> tuple[Array, Array]:
    """(order, offset): own histories of length j, sorted by the shard that has their rows; those of shard i are
    offset[i] .. offset[i + 1]. The rows of single words are everybody's: the first shard's."""
    own = shard.own_hists(trie, j)
    owner = np.zeros(own.stop - own.start, np.int16)
    if j > 1:  # rows, too, are sorted by the last word of their history first
        first = [other.own_rows(trie, j).start for other in shards]
        owner = np.searchsorted(first, trie.row_of_hist[j][own], side="right").astype(np.int16) - np.int16(1)
    order = np.argsort(owner, kind="stable")
    return order, np.searchsorted(owner[order], np.arange(len(shards) + 1))


def by_last_word(shard: Shard, trie: Trie, k: int) -> Array:
    """Own rows of order k, sorted by the shard that has them as histories."""
    return trie_kernels.rows_by_word(trie.word[k][shard.own_rows(trie, k)], trie.n_words)[1]


@dataclass(frozen=True)
class Merged:
    """Different rows, sorted: `begin` of each history and `word`. place[i]: where those of the i-th list are."""

    begin: Array
    word: Array
    place: list[Array]


def merged_keys(rows: Sequence[tuple[Array, Array]], n_hist: int, n_words: int) -> Merged:
    """Lists of (history, word), in any order and with repeats, as the rows of a trie."""
    ends = np.cumsum([len(hist) for hist, _ in rows])
    n = int(ends[-1])
    key, place = np.empty(n, np.int64), np.empty(n, np.int32)
    for (hist, word), end in zip(rows, ends.tolist(), strict=True):
        kernels.put_keys(hist, word, n_words, key, end - len(hist))
    key, index = trie_kernels.radix_sort(key, np.arange(n, dtype=np.int32), int(n_hist * n_words).bit_length())
    begin, different = np.zeros(n_hist + 1, np.int32), np.empty(n, np.int32)
    different = different[: kernels.number_rows(key, index, n_words, begin, different, place)].copy()
    return Merged(begin, different, np.split(place, ends[:-1]))


# -- sums


def worst_gaps(shard: Shard, source: Source) -> list[tuple[float, list[int]]]:
    """By length of the history: the largest |sum p - 1| over the shard's histories, and the history."""
    return gaps_of(shard, with_suffixes(source.load(shard)[0]))


def gaps_of(shard: Shard, model: NgramModel, reader: Reader | None = None) -> list[tuple[float, list[int]]]:
    gaps = sum_gaps(model, reader)
    worst: list[tuple[float, list[int]]] = [(float(gaps[0][0]), [])]
    for j in range(1, model.order):
        own = shard.own_hists(model.trie, j)
        part = gaps[j][own]
        h = int(part.argmax()) + own.start if len(part) else -1
        worst.append((float(gaps[j][h]), model.trie.words_of_hist(j, h)) if h >= 0 else (0.0, []))
    return worst


# -- look-ups


@dataclass(frozen=True)
class Events:
    """Tokens with what comes before them: `ids` has a line for each that has a history, its words right-aligned behind
    fillers of -1, and the word; `at` says which token it is. `first`: tokens that have none."""

    ids: Array
    at: Array
    last: Array  # the last word of each history
    first: Array

    @staticmethod
    def of(ids: Array, order: int, bos: int) -> Events:
        before = np.full((len(ids), order), -1, np.int32)
        before[:, order - 1] = ids
        inside = np.ones(len(ids), bool)
        for back in range(1, order):
            shifted = np.concatenate([np.full(min(back, len(ids)), -1, np.int32), ids[: max(0, len(ids) - back)]])
            inside &= shifted >= 0
            before[inside, order - 1 - back] = shifted[inside]
            inside &= shifted != bos
        predicted = (ids >= 0) & (ids != bos)
        known = before[:, order - 2] >= 0
        at = np.flatnonzero(predicted & known)
        return Events(before[at], at, before[at, order - 2], np.flatnonzero(predicted & ~known))


def score(shard: Shard, source: Source, events: Array) -> tuple[Array, Array]:
    """(probability, order of the n-gram used) of each event, its history being the shard's."""
    model = with_suffixes(source.load(shard)[0])
    stream = np.concatenate([np.full((len(events), 1), -1, np.int32), events], axis=1)
    prob, used = np.empty(stream.size), np.empty(stream.size, np.int8)
    score_tokens(stream.reshape(-1), model.arrays(), prob, used)
    width = stream.shape[1]
    return prob[width - 1 :: width], used[width - 1 :: width]
