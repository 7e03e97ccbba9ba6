"""Sorted runs: how the n-grams of more text than fits in memory are counted.

A block of text is counted by sorting its n-grams: that is a run. Every run has its rows in the order of a trie (see
mdi/lm/trie.py), so runs are merged by going through them side by side, in pieces. Beyond their share of the memory,
the runs so far are merged into one on disk.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mdi.errors import MdiError
from mdi.files import scratch_folder
from mdi.kernels import counts as kernels
from mdi.kernels.counts import CountedRows
from mdi.kernels.trie import Branches, radix_sort
from mdi.lm.trie import NONE, Array, Trie, add_order, ranked, unigram_trie, with_histories
from mdi.progress import Progress

if TYPE_CHECKING:
    from mdi.lm.counts import CountStream

# Tokens counted at once: the sort of few stays near the processor's cache.
BLOCK = 1 << 20
# Rows merged at once.
PIECE = 1 << 19
# Bytes that counting a block takes per token, and merging a piece per row, scratch space included.
_BLOCK_BYTES, _PIECE_BYTES = 60, 64


def joined(pieces: Iterable[CountedRows]) -> tuple[Array, Array, Array]:
    """(begin, word, count) of all rows of one order."""
    begin, word, count = [np.zeros(1, np.int32)], [], []
    for rows in pieces:
        begin.append(rows.begin[1:] + begin[-1][-1])
        word.append(rows.word)
        count.append(rows.number.astype(float))
    return np.concatenate(begin), np.concatenate(word), np.concatenate(count)


class FileArray:
    """An array of 32-bit integers in a file, read by the slice."""

    dtype = np.dtype(np.int32)

    def __init__(self, path: str, size: int) -> None:
        self.path, self.size = path, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, where: slice) -> Array:
        start, stop, _ = where.indices(self.size)
        return np.fromfile(self.path, np.int32, count=stop - start, offset=4 * start)

    @property
    def nbytes(self) -> int:
        """In memory."""
        return 0


@dataclass(frozen=True)
class SortedRun:
    """begin, word and count as in a trie, for the orders 2 to n; unigrams have only counts, count[1]."""

    begin: Sequence[Array | FileArray]
    word: Sequence[Array | FileArray]
    count: Sequence[Array | FileArray]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for arrays in (self.begin, self.word, self.count) for part in arrays)


def count_block(ids: Array, order: int, n_words: int, bos: int) -> SortedRun:
    """Counts whole sentences. The k-grams are sorted by (history, word), which is the order of the trie's rows."""
    begin, word, count = [NONE, NONE], [NONE, NONE], [NONE, np.bincount(ids[ids >= 0], minlength=n_words)]
    as_hist = np.arange(n_words, dtype=np.int32)
    row_at = ids
    for k in range(2, order + 1):
        key, position = kernels.ngram_keys(ids, bos, as_hist, row_at, n_words)
        key, position = radix_sort(key, position, int(len(as_hist) * n_words).bit_length())
        row_at = np.full(len(ids), -1, np.int32)
        rows = kernels.group_keys(key, position, NONE, n_words, len(as_hist), row_at)
        for arrays, part in zip((begin, word, count), rows, strict=True):
            arrays.append(part)
        if k < order:
            as_hist = ranked(rows[1], n_words)
    return SortedRun(begin, word, count)


class MergedRuns:
    """The sum of runs: the orders below the highest as a trie with counts, the rows of the highest as a stream."""

    def __init__(self, runs: list[SortedRun], order: int, n_words: int, piece: int = PIECE) -> None:
        self.runs, self.order, self.piece = runs, order, piece
        unigrams = np.zeros(n_words)
        for run in runs:
            unigrams[: len(run.count[1])] += run.count[1][:]
        self.trie: Trie = unigram_trie(n_words)
        self.count: list[Array] = [NONE, unigrams]
        # union_hist[i][h]: what history h of run i is in the union
        self.union_hist = [np.arange(len(run.count[1]), dtype=np.int32) for run in runs]
        for k in range(2, order):
            self._merge_order(k)
        self.trie = with_histories(self.trie)

    def _merge_order(self, k: int) -> None:
        pieces = list(self._pieces(k))
        begin, word, count = joined(rows for rows, _ in pieces)
        self.trie = with_histories(add_order(with_histories(self.trie), begin, word))
        self.count.append(count)
        first = np.cumsum([0, *(len(rows.word) for rows, _ in pieces)], dtype=np.int32)
        for i, run in enumerate(self.runs):
            number = np.concatenate([numbers[i] + at for at, (_, numbers) in zip(first, pieces, strict=False)])
            union_hist = np.empty(len(run.word[k]), np.int32)
            union_hist[ranked(run.word[k][:], self.trie.n_words)] = self.trie.as_hist[k][number]
            self.union_hist[i] = union_hist

    def top(self) -> Iterator[CountedRows]:
        """Once only: the runs are let go at the end."""
        for rows, _ in self._pieces(self.order):
            yield rows
        self.runs, self.union_hist = [], []

    def _pieces(self, k: int) -> Iterator[tuple[CountedRows, list[Array]]]:
        """Rows of order k, a piece at a time, and the new numbers (within the piece) of the rows of each run."""
        if len(self.runs) == 1 and len(self.union_hist[0]) == self.trie.n_hist(k - 1):
            # a single run over all words is the union itself (the vocabulary may have grown since it was counted)
            begin, word, count = self.runs[0].begin[k], self.runs[0].word[k], self.runs[0].count[k]
            if isinstance(begin, np.ndarray) and isinstance(word, np.ndarray) and isinstance(count, np.ndarray):
                yield CountedRows(0, begin, word, count), [np.arange(len(word), dtype=np.int32)]
                return
        n_words = self.trie.n_words
        size = np.zeros(self.trie.n_hist(k - 1), np.int32)
        for run, hist in zip(self.runs, self.union_hist, strict=True):
            size[hist] += np.diff(run.begin[k][:])
        progress, done = Progress(f"merging {k}-grams", int(size.sum(dtype=np.int64)), "counted"), 0
        for first, last in pairwise(kernels.cut_points(size, self.piece)):
            n_rows = int(size[first:last].sum(dtype=np.int64))
            progress.update(done := done + n_rows)
            kind = np.result_type(*(run.count[k].dtype for run in self.runs))
            key, count = np.empty(n_rows, np.int64), np.empty(n_rows, kind)
            ends = [0]
            for run, hist in zip(self.runs, self.union_hist, strict=True):
                a, b = np.searchsorted(hist, (first, last))
                begin = run.begin[k][a : b + 1]
                at, end = ends[-1], ends[-1] + int(begin[-1] - begin[0])
                rows = Branches(begin, run.word[k][begin[0] : begin[-1]])
                kernels.fill_keys(rows, hist[a:b], first, n_words, key[at:end])
                count[at:end] = run.count[k][begin[0] : begin[-1]]
                ends.append(end)
            index = np.arange(len(key), dtype=np.int32)
            key, index = radix_sort(key, index, int((last - first) * n_words).bit_length())
            number = np.empty(n_rows, np.int32)
            rows = kernels.group_keys(key, index, count, n_words, last - first, number)
            yield CountedRows(int(first), *rows), [number[a:b] for a, b in pairwise(ends)]
        progress.close()


class ExternalCounter:
    """Takes blocks of ids and gives their merged counts. `memory` is in bytes; `folder` is for what does not fit."""

    def __init__(self, order: int, bos: int, memory: int, folder: str | None = None, block: int = BLOCK) -> None:
        self.order, self.bos, self.memory, self.folder = order, bos, memory, folder
        # three blocks are under way at a time: one being read, one waiting and one being counted
        self.block = max(1, min(block, memory // (6 * _BLOCK_BYTES)))
        self.piece = max(1, min(PIECE, memory // (4 * _PIECE_BYTES)))
        self.in_memory: list[SortedRun] = []
        self.on_disk: list[SortedRun] = []
        self.n_words = 0
        self._disk: tempfile.TemporaryDirectory[str] | None = None
        self._worker = ThreadPoolExecutor(1)
        self._pending: list[Future[SortedRun]] = []

    def __enter__(self) -> "ExternalCounter":
        return self

    def __exit__(self, *exc: object) -> None:
        self._worker.shutdown(cancel_futures=True)
        if self._disk is not None:
            self._disk.cleanup()

    def add(self, ids: Array, n_words: int) -> None:
        """Counts a block in the background, so that the next one can be read meanwhile."""
        self.n_words = n_words
        self._collect(1)
        self._pending.append(self._worker.submit(count_block, ids, self.order, n_words, self.bos))

    def _collect(self, left: int) -> None:
        while len(self._pending) > left:
            self.in_memory.append(self._pending.pop(0).result())
            if sum(run.nbytes for run in self.in_memory) > self.memory // 3:
                self._spill()

    def merge(self) -> MergedRuns:
        self._collect(0)
        runs, self.in_memory = self.on_disk + self.in_memory, []
        return MergedRuns(runs, self.order, self.n_words, self.piece)

    def _spill(self) -> None:
        """Merges the runs that are in memory into one on disk."""
        merge = MergedRuns(self.in_memory, self.order, self.n_words, self.piece)
        try:
            if self._disk is None:
                self._disk = scratch_folder("mdi-counts-", self.folder)
            self.on_disk.append(store(merge, os.path.join(self._disk.name, str(len(self.on_disk)))))
        except OSError as error:
            where = self._disk.name if self._disk else self.folder
            raise MdiError(
                f"{where}: cannot write counts: {error.strerror or error}; use another --tmp or more --memory"
            ) from error
        self.in_memory.clear()


NAMES = ("begin", "word", "count")


def store(counts: "MergedRuns | CountStream", prefix: str) -> SortedRun:
    """Writes counts to files whose names begin with `prefix`."""
    with open(f"{prefix}.1.count", "wb") as numbers:
        numbers.write(counts.count[1].astype(np.int32).data)
    for k in range(2, counts.order + 1):
        t, n_rows = counts.trie, 0
        with contextlib.ExitStack() as stack:
            begins, words, numbers = (stack.enter_context(open(f"{prefix}.{k}.{name}", "wb")) for name in NAMES)
            begins.write(np.zeros(1, np.int32).data)
            for rows in [CountedRows(0, t.begin[k], t.word[k], counts.count[k])] if k < counts.order else counts.top():
                # not by tofile, which does not say why it failed
                begins.write((rows.begin[1:] + np.int32(n_rows)).data)
                words.write(np.ascontiguousarray(rows.word).data)
                numbers.write(rows.number.astype(np.int32).data)
                n_rows += len(rows.word)
    return stored(prefix, counts.order)


def stored(prefix: str, order: int) -> SortedRun:
    """What `store` has left."""
    unigrams = np.fromfile(f"{prefix}.1.count", np.int32)
    lists: list[list[Array | FileArray]] = [[NONE, NONE], [NONE, NONE], [NONE, unigrams]]
    for k in range(2, order + 1):
        for arrays, name in zip(lists, NAMES, strict=True):
            path = f"{prefix}.{k}.{name}"
            arrays.append(FileArray(path, os.path.getsize(path) // 4))
    return SortedRun(*lists)
