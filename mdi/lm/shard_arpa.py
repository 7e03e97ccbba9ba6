"""ARPA files to shards and back (see mdi/lm/shards.py), a piece at a time.

Reading: one process goes through the file and leaves its rows in pieces, sorted by the word that decides about their
shard: the last of the history for rows, the last of all for the same n-gram as a history, which its back-off weight
belongs to. Then each shard takes what is its own from every piece.

Writing: rows are sorted by the last word of their history first, so every section of the file is the shards' parts one
after the other. A line needs its n-gram's back-off weight, which is in another shard: every shard leaves its weights
sorted by who asks for them, in an order that both sides know.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from isal import igzip

from mdi.errors import MdiError
from mdi.files import GZIP_LEVEL, replacing
from mdi.kernels import trie as trie_kernels
from mdi.kernels.arpa import WrittenOrder
from mdi.lm.arpa import BLOCK, END, NO_FLAGS, arpa_sections, format_rows, head_of, title_of
from mdi.lm.cache import model_of, write_arrays
from mdi.lm.model import NgramModel
from mdi.lm.shards import Shard, by_last_word, by_owner, read_kept, sorted_keys
from mdi.lm.trie import NONE, Array, Trie, add_order, sort_rows, unigram_trie, with_histories
from mdi.lm.vocabulary import Vocabulary

# Rows in a piece.
PIECE = 1 << 21


@dataclass(frozen=True)
class Words:
    """What is known of a model without its shards: order 1, and how much there is of the rest."""

    vocab: Vocabulary
    counts: list[int]  # n-grams by order
    p: Array  # of the words
    weight: Array  # by word: rows that its shard has for it
    own: Vocabulary  # the words of the file itself


def read_head(path: str) -> tuple[Vocabulary, int]:
    """The words of an ARPA file, and its order."""
    file = arpa_sections(path)
    return file.vocab, file.order


def cut_arpa(
    path: str, folder: str, name: str, order: int = 0, vocab: Vocabulary | None = None, labels: Array | None = None
) -> Words:
    """Goes through an ARPA file and leaves its pieces. With `vocab` word w becomes labels[w] of that; in a model of a
    higher `order` its longest n-grams are histories, too."""
    done = _words_file(folder, name)
    if done.exists():
        return _words(folder, name)
    file = arpa_sections(path)
    p, bow = file.p, file.bow
    if vocab is not None and labels is not None:
        p, bow = np.zeros(len(vocab)), np.ones(len(vocab))
        p[labels], bow[labels] = file.p, file.bow
    else:
        vocab = file.vocab
    weight = np.zeros(len(vocab), np.int64)
    pieces = [0, 0]
    for k in range(2, file.order + 1):
        waiting: list[tuple[Array, Array, Array]] = []
        number = size = 0
        for ids, row_p, row_bow in file.spelled(k):
            if k == file.order < order:
                row_bow = np.ones(len(row_p))
            waiting.append((ids.copy() if labels is None else labels[ids], row_p.copy(), row_bow.copy()))
            size += len(row_p)
            if size >= PIECE:
                _leave_piece(_piece(folder, name, k, number), waiting, weight)
                number, size = number + 1, 0
        if size:
            _leave_piece(_piece(folder, name, k, number), waiting, weight)
            number += 1
        pieces.append(number)
    pieces += [0] * (order - file.order)
    file.expect_end()
    with replacing(str(done), sync=False) as stream:
        write_arrays(stream, {}, {
            "vocab": [vocab.blob, vocab.offset, vocab.table], "p": [p], "bow": [bow], "weight": [weight],
            "counts": [np.array(file.counts)], "pieces": [np.array(pieces)],
            "own": [file.vocab.blob, file.vocab.offset, file.vocab.table],
        })  # fmt: skip
    return _words(folder, name)


def _words_file(folder: str, name: str) -> Path:
    return Path(folder) / f"{name}-words.mdi"


def _words(folder: str, name: str) -> Words:
    lists = read_kept(_words_file(folder, name))
    counts = lists["counts"][0].tolist()
    return Words(Vocabulary(*lists["vocab"]), counts, lists["p"][0], lists["weight"][0], Vocabulary(*lists["own"]))


def _leave_piece(path: Path, waiting: list[tuple[Array, Array, Array]], weight: Array) -> None:
    ids = np.concatenate([rows[0] for rows in waiting], axis=1)
    p, bow = (np.concatenate([rows[i] for rows in waiting]) for i in (1, 2))
    waiting.clear()
    lists: dict[str, list[Array]] = {}
    for name, column, value in (("rows", len(ids) - 2, p), ("hists", len(ids) - 1, bow)):
        if not len(value):  # the highest order has no weights
            continue
        order = np.argsort(ids[column], kind="stable")
        lists[name] = [*(part[order] for part in ids), value[order]]
        weight += np.bincount(ids[column], minlength=len(weight))
    with replacing(str(path), sync=False) as stream:
        write_arrays(stream, {}, lists)


def _piece(folder: str, name: str, k: int, number: int) -> Path:
    return Path(folder) / f"{name}-piece.{k}.{number}.mdi"


class _Pieces:
    """The rows of one order that a shard takes from all pieces."""

    def __init__(self, shard: Shard, source: str, k: int, pieces: int) -> None:
        self.shard, self.source, self.k, self.pieces = shard, source, k, pieces

    def take(self, name: str, column: int) -> tuple[list[Array], Array]:
        """(a column a word, values) of the rows whose word in this column is the shard's."""
        parts: list[list[Array]] = [[] for _ in range(self.k + 1)]
        for number in range(self.pieces):
            lists = read_kept(_piece(self.shard.folder, self.source, self.k, number))
            at = slice(*np.searchsorted(lists[name][column], (self.shard.first, self.shard.end)))
            for part, whole in zip(parts, lists[name], strict=True):
                part.append(np.array(whole[at]))
        *ids, value = (np.concatenate(part) if part else NONE for part in parts)
        return ids, value.astype(float, copy=False)


def build(shard: Shard, source: str, name: str) -> int:
    """Leaves the shard's model from the pieces of `source`, as far as its own n-grams go; returns how many suffixes
    these lack."""
    if shard.has(name):
        return _lacking(shard.load(name).trie)
    lists = read_kept(_words_file(shard.folder, source))
    vocab, word_bow = Vocabulary(*lists["vocab"]), lists["bow"][0]
    pieces = lists["pieces"][0].tolist()
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
        n_words = np.int64(len(vocab))
        mine = hist.astype(np.int64) * n_words + ids[-1]
        as_hists = [hists[longer][0][:k] for longer in range(k, order)]
        keys = [hist_of(trie, one[:-1]).astype(np.int64) * n_words + one[-1] for one in as_hists]
        key = sorted_keys([mine, *keys])
        begin = trie_kernels.count_rows((key // n_words).astype(np.int32), trie.n_hist(k - 1))
        at = np.searchsorted(key, mine)
        often = np.bincount(at)
        if often.max(initial=0) > 1:
            raise MdiError(_twice(vocab, ids, int(np.flatnonzero(often[at] > 1)[-1])))
        trie = with_histories(add_order(trie, begin, (key % n_words).astype(np.int32)))
        values = np.zeros(len(key))
        values[at] = row_p
        p.append(values)
        weight, has_bow = np.ones(len(key)), np.zeros(len(key), bool)
        own = trie.as_hist[k][np.searchsorted(key, keys[0])]
        weight[own], has_bow[own] = hists[k][1], True
        bow.append(weight)
        del key, keys, mine, values
    model = NgramModel(vocab, trie, p, bow)
    shard.save(name, model)
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
    for path in Path(folder).glob(f"{source}-piece.*.mdi"):
        path.unlink()


# -- writing


@dataclass(frozen=True)
class Exported:
    """Of a shard that is about to be written."""

    bow: Array  # of its words
    longer: Array  # whether anything is written after each of its words
    rows: list[int]  # own rows of the orders 2 to n
    kept: list[int]  # those of them that are written


def export_weights(shard: Shard, shards: list[Shard], name: str) -> Exported:
    """Leaves the back-off weights of the shard's histories for those who write them."""
    model, keep = _with_flags(shard.kept(name))
    trie = model.trie
    weights: dict[str, list[Array]] = {"bow": [NONE], "longer": [NONE], "offset": [NONE]}
    for j in range(1, trie.order):
        own = shard.own_hists(trie, j)
        bow = model.bow[j][own]
        begin = trie.begin[j + 1][own.start : own.stop + 1]
        longer = np.diff(begin) > 0
        if keep is not None:
            before = np.concatenate([[0], np.cumsum(keep[j + 1])])
            longer = before[begin[1:]] > before[begin[:-1]]
        if j == 1:
            words = bow, longer
        order, offset = by_owner(shard, shards, trie, j)
        weights["bow"].append(bow[order])
        weights["longer"].append(longer[order].astype(np.uint8))
        weights["offset"].append(offset)
    shard.keep(f"{name}-weights", weights)
    own_rows = [shard.own_rows(trie, k) for k in range(2, trie.order + 1)]
    kept = [part.stop - part.start for part in own_rows]
    if keep is not None:
        kept = [int(keep[k][part].sum()) for k, part in enumerate(own_rows, 2)]
    return Exported(np.array(words[0]), np.array(words[1]), [part.stop - part.start for part in own_rows], kept)


def _with_flags(lists: dict[str, list[Array]]) -> tuple[NgramModel, list[Array] | None]:
    """A model, and which of its rows are written, None for all."""
    keep = lists.get("keep")
    return model_of(lists), None if keep is None else [part.view(bool) for part in keep]


@dataclass(frozen=True)
class Formatted:
    """A shard's part of one section: `head` belongs to a block that other shards have begun, `tail` to one that others
    may end; what is between them is whole blocks, packed already. Bytes, and rows of head and tail."""

    whole: bool  # a block ends in this part
    head: int
    head_rows: int
    body: int
    tail: int
    tail_rows: int


def format_shard(shard: Shard, shards: list[Shard], name: str, first: list[int], pack: bool) -> list[Formatted]:
    """Leaves the lines of the shard's rows, a file an order. first[k - 2]: rows of that order in the shards before."""
    model, keep = _with_flags(shard.kept(name))
    spelling, sections = model.trie.spelling(), []
    for k in range(2, model.order + 1):
        own = shard.own_rows(model.trie, k)
        written = _written(shard, shards, name, model, keep, k, own)
        at, n = first[k - 2], own.stop - own.start
        boundary = -(-at // BLOCK) * BLOCK - at  # rows before the first block that begins in this part
        with replacing(str(_part(shard, name, k)), sync=False) as stream:
            put = _Putter(stream, written, model.vocab, spelling, own.start)
            if boundary > n:
                sections.append(Formatted(False, put(0, n), n, 0, 0, 0))
                continue
            last = n - (at + n) % BLOCK
            head, body = put(0, boundary), 0
            for row in range(boundary, last, BLOCK):
                body += put(row, row + BLOCK, pack)
            sections.append(Formatted(True, head, boundary, body, put(last, n), n - last))
    return sections


class _Putter:
    def __init__(self, stream: BinaryIO, written: WrittenOrder, vocab: Vocabulary, spelling, start: int) -> None:
        self.stream, self.written, self.vocab, self.spelling, self.start = stream, written, vocab, spelling, start

    def __call__(self, row: int, end: int, pack: bool = False) -> int:
        if row == end:
            return 0
        data = format_rows(self.written, self.vocab, self.start + row, self.start + end, self.spelling)
        return self.stream.write(packed(data) if pack else data)


def packed(data: bytes | memoryview) -> bytes:
    return igzip.compress(data, GZIP_LEVEL, mtime=0)


def _part(shard: Shard, name: str, k: int) -> Path:
    return Path(shard.folder) / f"{name}-lines-{k}.{shard.index}"


def _written(
    shard: Shard, shards: list[Shard], name: str, model: NgramModel, keep: list[Array] | None, k: int, own: slice
) -> WrittenOrder:
    trie, top = model.trie, k == model.order
    flags = NO_FLAGS if keep is None else keep[k]
    written = WrittenOrder(
        k, top, trie.begin[k], trie.word[k], model.p[k], flags, NONE, np.zeros(0), longer=NONE, keep_longer=NO_FLAGS
    )
    if top:
        return written
    order = by_last_word(shard, trie, k)
    bows, longers = [], []
    for other in shards:
        lists = other.kept(f"{name}-weights")
        at = slice(*lists["offset"][k][shard.index : shard.index + 2])
        bows.append(lists["bow"][k][at])
        longers.append(lists["longer"][k][at])
    if sum(map(len, bows)) != len(order):
        raise MdiError(f"{shard.path(name)}: {len(order):,} {k}-grams, of which {sum(map(len, bows)):,} are histories "
                       f"in their shards; expected all. Remove {shard.folder} and start again")  # fmt: skip
    bow, longer = np.empty(len(order)), np.zeros(len(order) + 1, np.int32)
    bow[order] = np.concatenate(bows)
    longer[1:][order] = np.concatenate(longers)
    as_hist = np.zeros(own.stop, np.int32)
    as_hist[own] = np.arange(len(order), dtype=np.int32)
    return written._replace(as_hist=as_hist, bow=bow, longer=np.cumsum(longer, dtype=np.int32))


def assemble(
    path: str, words: NgramModel, exported: list[Exported], formatted: list[list[Formatted]], shards: list[Shard],
    name: str, order: int,
) -> None:  # fmt: skip
    """Puts the file together. `words`: order 1 of the model."""
    pack = path.endswith(".gz")
    counts = [words.trie.n_words, *(sum(part.kept[k] for part in exported) for k in range(order - 1))]
    with replacing(path) as raw:

        def put(data: bytes | memoryview) -> None:
            raw.write(packed(data) if pack else data)

        put(head_of(counts).encode())
        put(title_of(1).encode())
        written = _written_words(words, exported)
        for row in range(0, counts[0], BLOCK):
            put(format_rows(written, words.vocab, row, min(row + BLOCK, counts[0]), words.trie.spelling()))
        for k in range(2, order + 1):
            put(title_of(k).encode())
            waiting, rows = b"", 0
            for shard, sections in zip(shards, formatted, strict=True):
                part = sections[k - 2]
                with open(_part(shard, name, k), "rb") as stream:
                    waiting, rows = waiting + stream.read(part.head), rows + part.head_rows
                    if part.whole:
                        if rows:
                            put(waiting)
                        _copy(stream, raw, part.body)
                        waiting, rows = stream.read(part.tail), part.tail_rows
            if rows:
                put(waiting)
        put(END.encode())


def _copy(source: BinaryIO, to: BinaryIO, size: int) -> None:
    while size:
        data = source.read(min(size, 1 << 22))
        if not data:
            raise MdiError(f"{source.name}: cut off; remove its folder and start again")
        to.write(data)
        size -= len(data)


def _written_words(words: NgramModel, exported: list[Exported]) -> WrittenOrder:
    n = words.trie.n_words
    longer = np.concatenate([part.longer for part in exported])
    return WrittenOrder(
        order=1, top=False, begin=words.trie.begin[1], word=words.trie.word[1], p=words.p[1], keep=NO_FLAGS,
        as_hist=np.arange(n, dtype=np.int32), bow=np.concatenate([part.bow for part in exported]),
        longer=np.concatenate([[0], np.cumsum(longer)]).astype(np.int32), keep_longer=NO_FLAGS,
    )  # fmt: skip


def remove(folder: str) -> None:
    """The folder of a job that is done."""
    shutil.rmtree(folder, ignore_errors=True)
