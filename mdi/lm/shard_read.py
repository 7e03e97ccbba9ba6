"""ARPA files to shards (see mdi/lm/shards.py), a piece at a time.

The file is gone through once, a plain one in windows by everybody, a packed one by one process, and leaves its rows in
pieces, sorted by the word that decides about their shard: the last of the history for rows, the last of all for the
same n-gram as a history, which its back-off weight belongs to. Then each shard takes what is its own from every piece.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdi.errors import MdiError
from mdi.files import replacing
from mdi.kernels import arpa as arpa_kernels
from mdi.kernels import trie as trie_kernels
from mdi.kernels.text import line_bounds
from mdi.lm.arpa import MAX_SPELLED, arpa_sections
from mdi.lm.cache import write_arrays
from mdi.lm.model import NgramModel
from mdi.lm.shards import Shard, merged_keys, read_kept
from mdi.lm.trie import NONE, Array, Trie, add_order, sort_rows, unigram_trie, with_histories
from mdi.lm.vocabulary import Vocabulary, to_str

# Rows in a piece, and bytes of a plain file that become one.
PIECE = 1 << 21
WINDOW = 1 << 25
_TRIAL = 1 << 14  # bytes by which the order of a window's first lines is told


@dataclass(frozen=True)
class Head:
    """The words of an ARPA file. `begin`: the byte at which the longer n-grams begin, -1 in a packed file."""

    vocab: Vocabulary
    counts: list[int]  # n-grams by order
    p: Array
    bow: Array
    begin: int


@dataclass(frozen=True)
class Words:
    """What is known of a model without its shards: order 1, and how much there is of the rest."""

    vocab: Vocabulary
    counts: list[int]
    p: Array  # of the words
    weight: Array  # by word: rows that its shard has for it
    own: Vocabulary  # the words of the file itself


@dataclass(frozen=True)
class Target:
    """Where the pieces of a file go. With `labels` word w becomes labels[w] of n_words; in a model of a higher `order`
    the longest n-grams of the file are histories, too."""

    folder: str
    name: str
    order: int
    n_words: int
    labels: Array | None = None

    def piece(self, k: int, number: int) -> Path:
        return Path(self.folder) / f"{self.name}-piece.{k}.{number}.mdi"

    def leave(self, number: int, ids: Array, p: Array, bow: Array) -> Array:
        """Leaves a piece; returns how many rows there are in it for the shard of each word."""
        k = len(ids)
        if not len(bow) and k < self.order:
            bow = np.ones(len(p))
        columns = list(ids if self.labels is None else self.labels[ids])
        lists: dict[str, list[Array]] = {}
        weight = np.zeros(self.n_words, np.int64)
        for name, column, value in (("rows", k - 2, p), ("hists", k - 1, bow)):
            if not len(value):  # the highest order has no weights
                continue
            whole, by = [*columns, value], columns[column]
            if (by[1:] < by[:-1]).any():
                order = trie_kernels.rows_by_word(by, self.n_words)[1]
                whole = [part[order] for part in whole]
            lists[name] = whole
            weight += np.bincount(by, minlength=self.n_words)
        with replacing(str(self.piece(k, number)), sync=False) as stream:
            write_arrays(stream, {}, lists)
        return weight

    def finish(self, head: Head, vocab: Vocabulary, weight: Array, numbers: list[list[int]]) -> Words:
        """Leaves what `build` wants to know. numbers[k]: of the pieces of order k."""
        p, bow = head.p, head.bow
        if self.labels is not None:
            p, bow = np.zeros(len(vocab)), np.ones(len(vocab))
            p[self.labels], bow[self.labels] = head.p, head.bow
        numbers = numbers + [[]] * (self.order + 1 - len(numbers))
        with replacing(str(_words_file(self.folder, self.name)), sync=False) as stream:
            write_arrays(stream, {}, {
                "vocab": [vocab.blob, vocab.offset, vocab.table], "p": [p], "bow": [bow], "weight": [weight],
                "counts": [np.array(head.counts)], "pieces": [np.array(part, np.int64) for part in numbers],
                "own": [head.vocab.blob, head.vocab.offset, head.vocab.table],
            })  # fmt: skip
        return Words(vocab, head.counts, p, weight, head.vocab)


def read_head(path: str, folder: str, name: str) -> Head:
    """The words of a file; they are left, too, for those who read the rest."""
    done = Path(folder) / f"{name}-head.mdi"
    if done.exists():
        return _head(folder, name)
    file = arpa_sections(path)
    begin = -1
    with open(path, "rb") as stream:
        if stream.read(2) != b"\x1f\x8b" and file.order > 1:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                begin = data.find(b"\n\\2-grams:") + 1
    numbers = np.array([begin or -1, *file.counts])
    words = [file.vocab.blob, file.vocab.offset, file.vocab.table]
    with replacing(str(done), sync=False) as stream:
        write_arrays(stream, {}, {"vocab": words, "p": [file.p], "bow": [file.bow], "numbers": [numbers]})
    return _head(folder, name)


def _head(folder: str, name: str) -> Head:
    lists = read_kept(Path(folder) / f"{name}-head.mdi")
    begin, *counts = lists["numbers"][0].tolist()
    return Head(Vocabulary(*lists["vocab"]), counts, np.array(lists["p"][0]), np.array(lists["bow"][0]), begin)


def cut_arpa(path: str, target: Target, vocab: Vocabulary | None) -> Words:
    """Goes through a file and leaves its pieces. `vocab`: of the model, if it is not that of the file. What is wrong
    with the file is said here, with the line."""
    file = arpa_sections(path)
    weight = np.zeros(target.n_words, np.int64)
    numbers: list[list[int]] = [[], []]
    for k in range(2, file.order + 1):
        waiting: list[tuple[Array, Array, Array]] = []
        number = size = 0
        for part in file.spelled(k):
            ids, p, bow = part
            waiting.append((ids.copy(), p.copy(), bow.copy()))
            size += len(p)
            if size >= PIECE:
                weight += target.leave(number, *_joined(waiting))
                number, size = number + 1, 0
        if size:
            weight += target.leave(number, *_joined(waiting))
            number += 1
        numbers.append(list(range(number)))
    file.expect_end()
    head = Head(file.vocab, file.counts, file.p, file.bow, -1)
    return target.finish(head, vocab or file.vocab, weight, numbers)


def _joined(waiting: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    ids = np.concatenate([rows[0] for rows in waiting], axis=1)
    p, bow = (np.concatenate([rows[i] for rows in waiting]) for i in (1, 2))
    waiting.clear()
    return ids, p, bow


def _words_file(folder: str, name: str) -> Path:
    return Path(folder) / f"{name}-words.mdi"


def cut_words(folder: str, name: str) -> Words | None:
    """What a file that has been cut is about; None of one that has not."""
    path = _words_file(folder, name)
    if not path.exists():
        return None
    lists = read_kept(path)
    counts = lists["counts"][0].tolist()
    return Words(Vocabulary(*lists["vocab"]), counts, lists["p"][0], lists["weight"][0], Vocabulary(*lists["own"]))


# -- a plain file in windows, which need not wait for each other


@dataclass(frozen=True)
class Window:
    """The lines that begin at the bytes begin .. end - 1."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Cut:
    """What a window was found to have: rows of each order (`found`), and the directives in it. `first`: the order of
    its first lines."""

    first: int
    directives: list[str]
    found: list[int]


def windows_of(path: str, head: Head) -> list[Window]:
    size = os.path.getsize(path)
    return [Window(i, at, min(at + WINDOW, size)) for i, at in enumerate(range(head.begin, size, WINDOW))]


def cut_windows(path: str, target: Target, windows: list[Window], threads: int) -> tuple[Array, list[Cut]]:
    """Leaves pieces with the numbers of the windows; returns what `Target.leave` does, and what was in each window.
    No window knows those before it, so which order its lines are of is told from the lines, and looked at when all are
    known (`as_expected`)."""
    done = Path(target.folder) / f"{target.name}-cut.{windows[0].number}-{windows[-1].number}.mdi"
    if not done.exists():
        head, weight = _head(target.folder, target.name), np.zeros(target.n_words, np.int64)
        with ThreadPoolExecutor(threads) as pool:
            cuts = []
            for found, part in pool.map(lambda window: _cut_window(path, head, target, window), windows):
                weight += part
                cuts.append(found)
        told = json.dumps([dataclasses.astuple(cut) for cut in cuts]).encode()
        with replacing(str(done), sync=False) as stream:
            write_arrays(stream, {}, {"weight": [weight], "cuts": [np.frombuffer(told, np.uint8)]})
    lists = read_kept(done)
    return lists["weight"][0], [Cut(*found) for found in json.loads(lists["cuts"][0].tobytes())]


def _cut_window(path: str, head: Head, target: Target, window: Window) -> tuple[Cut, Array]:
    order, weight = len(head.counts), np.zeros(target.n_words, np.int64)
    data = np.frombuffer(lines_of(path, window.begin, window.end), np.uint8)
    first = k = _order_of(data, head) if window.number else 1
    found, directives, at = [0] * (order + 1), [], 0
    while at < len(data):
        if 2 <= k <= order:
            rows, parsed = _parsed(data, at, k, head)
            if parsed.n:
                n = parsed.n
                weight += target.leave(window.number, rows.ids[:, :n], rows.p[:n], rows.bow[:n])
                found[k] += n
            at = parsed.line
            if parsed.why == arpa_kernels.DONE:
                break
            if parsed.why != arpa_kernels.DIRECTIVE:
                directives.append("")
                break
        stop = int(line_bounds(data, at, len(data))[1])
        if line := data[at:stop].tobytes().strip():
            directives.append(to_str(line))
            k += 1
        at = stop
    return Cut(first, directives, found), weight


def _parsed(data: Array, at: int, k: int, head: Head) -> tuple[arpa_kernels.ReadIds, arpa_kernels.Parsed]:
    room, top = (len(data) - at) // (2 * k + 2) + 1, k == len(head.counts)  # "0 a b\n" is the shortest line
    rows = arpa_kernels.ReadIds(np.empty((k, room), np.int32), np.empty(room), np.empty(0 if top else room))
    section = arpa_kernels.Section(k, top, MAX_SPELLED)
    return rows, arpa_kernels.parse_ids(data, at, len(data), section, head.vocab.arrays, rows)


def lines_of(path: str, begin: int, end: int) -> bytes:
    """The lines of a file that begin at the bytes begin .. end - 1."""
    with open(path, "rb") as stream:
        stream.seek(max(0, begin - 1))
        if begin:
            stream.readline()
        begin = stream.tell()
        data = stream.read(max(0, end - begin))
        if data and not data.endswith(b"\n"):
            data += stream.readline()
    return data


def _order_of(data: Array, head: Head) -> int:
    """The order that the first lines make sense in; 0 if there is none."""
    stop = int(line_bounds(data, min(_TRIAL, len(data)), len(data))[1])
    for k in range(2, len(head.counts) + 1):
        _, parsed = _parsed(data[:stop], 0, k, head)
        if parsed.n and parsed.why in (arpa_kernels.DONE, arpa_kernels.DIRECTIVE):
            return k
    if match := re.match(rb"\s*\\(?:(\d+)-grams:|end\\)", data[:64].tobytes()):
        return int(match[1]) - 1 if match[1] else len(head.counts)
    return 0 if data.tobytes().strip() else len(head.counts) + 1


def as_expected(head: Head, cuts: list[Cut]) -> bool:
    """Whether the windows, one after the other, are a whole ARPA file."""
    k, order = 1, len(head.counts)
    for cut in cuts:
        if cut.first != k:
            return False
        k += len(cut.directives)
    expected = [*(rf"\{k}-grams:" for k in range(2, order + 1)), "\\end\\"]
    found = np.sum([cut.found for cut in cuts], axis=0).tolist()
    return [one for cut in cuts for one in cut.directives] == expected and found[2:] == head.counts[1:]


class _Pieces:
    """The rows of one order that a shard takes from all pieces."""

    def __init__(self, shard: Shard, source: str, k: int, numbers: Array) -> None:
        self.shard, self.k = shard, k
        self.paths = [Target(shard.folder, source, 0, 0).piece(k, number) for number in numbers.tolist()]

    def take(self, name: str, column: int) -> tuple[list[Array], Array]:
        """(a column a word, values) of the rows whose word in this column is the shard's."""
        parts: list[list[Array]] = [[] for _ in range(self.k + 1)]
        for path in self.paths:
            lists = read_kept(path, check=False)  # every shard would check it
            at = slice(*np.searchsorted(lists[name][column], (self.shard.first, self.shard.end)))
            for part, whole in zip(parts, lists[name], strict=True):
                part.append(whole[at])
        *ids, value = (np.concatenate(part) if part else NONE for part in parts)
        return ids, value.astype(float, copy=False)


def build(shard: Shard, source: str, name: str) -> int:
    """Leaves the shard's model from the pieces of `source`, as far as its own n-grams go; returns how many suffixes
    these lack."""
    if shard.has(name):
        return _lacking(shard.load(name).trie)
    lists = read_kept(_words_file(shard.folder, source))
    vocab, word_bow, pieces = Vocabulary(*lists["vocab"]), lists["bow"][0], lists["pieces"]
    order = len(pieces) - 1
    hists = {k: _Pieces(shard, source, k, pieces[k]).take("hists", k - 1) for k in range(2, order)}
    trie = with_histories(unigram_trie(len(vocab)))
    p, bow = [NONE, np.array(lists["p"][0])], [np.ones(1)]
    weight = np.ones(len(vocab))
    weight[trie.as_hist[1]] = word_bow
    bow.append(weight)
    has_bow = np.ones(len(vocab), bool)
    for k in range(2, order + 1):
        ids, row_p = _Pieces(shard, source, k, pieces[k]).take("rows", k - 2)
        hist = hist_of(trie, ids[:-1])
        lost = np.flatnonzero(~np.append(has_bow, False)[hist])  # -1: none at all
        if len(lost):
            raise MdiError(_no_prefix(vocab, ids, int(lost[0]), len(lost)))
        if k == order:
            begin, perm, twice = sort_rows(hist, ids[-1], trie.n_hist(k - 1))
            if twice >= 0:
                raise MdiError(_twice(vocab, ids, twice))
            order_of: Array | slice = slice(None) if perm is None else perm
            trie = add_order(trie, begin, ids[-1][order_of])
            p.append(row_p[order_of])
            break
        # own rows, the n-grams that are histories here, and what spells longer histories
        as_hists = [hists[longer][0][:k] for longer in range(k, order)]
        merged = merged_keys(
            [(hist, ids[-1]), *((hist_of(trie, one[:-1]), one[-1]) for one in as_hists)], trie.n_hist(k - 1), len(vocab)
        )
        at, own = merged.place[0], merged.place[1]
        often = np.bincount(at)
        if often.max(initial=0) > 1:
            raise MdiError(_twice(vocab, ids, int(np.flatnonzero(often[at] > 1)[-1])))
        trie = with_histories(add_order(trie, merged.begin, merged.word))
        values = np.zeros(len(merged.word))
        values[at] = row_p
        p.append(values)
        weight, has_bow = np.ones(len(values)), np.zeros(len(values), bool)
        own = trie.as_hist[k][own]
        weight[own], has_bow[own] = hists[k][1], True
        bow.append(weight)
        del merged, at, often, own
    shard.save(name, NgramModel(vocab, trie, p, bow))
    return _lacking(trie)


def _lacking(trie: Trie) -> int:
    return sum(int((trie.suffix[k] < 0).sum()) for k in range(3, trie.order + 1))


def hist_of(trie: Trie, columns: list[Array]) -> Array:
    """The history that each line of the columns is, -1 for none. Lines with the same one often follow each other."""
    j = len(columns)
    if j == 1:
        return trie.as_hist[1][columns[0]]
    n = len(columns[0])
    if not n:
        return NONE
    new = np.zeros(n, bool)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    at = np.flatnonzero(new)
    rows = trie.find(np.stack([column[at] for column in columns], axis=1))
    hists = np.where(rows >= 0, trie.as_hist[j][np.maximum(rows, 0)], -1).astype(np.int32) if trie.rows(j) else rows
    return np.repeat(hists, np.diff(np.append(at, n)))


def _spelled(vocab: Vocabulary, ids: list[Array], i: int) -> str:
    return vocab.spell(int(column[i]) for column in ids)


def _twice(vocab: Vocabulary, ids: list[Array], i: int) -> str:
    return f"the {len(ids)}-gram '{_spelled(vocab, ids, i)}' appears twice; keep one of the two lines"


def _no_prefix(vocab: Vocabulary, ids: list[Array], i: int, number: int) -> str:
    k, more = len(ids), f" (and of {number - 1:,} more)" if number > 1 else ""
    return (
        f"'{_spelled(vocab, ids, i)}': its history '{_spelled(vocab, ids[:-1], i)}'{more} is not among the "
        f"{k - 1}-grams; expected every history there"
    )


def remove_pieces(folder: str, source: str) -> None:
    for pattern in (f"{source}-piece.*.mdi", f"{source}-cut.*.mdi"):
        for path in Path(folder).glob(pattern):
            path.unlink()
