"""Shards (see mdi/lm/shards.py) to ARPA files.

Rows are sorted by the last word of their history first, so every section of the file is the shards' parts one after the
other. A line needs its n-gram's back-off weight, which is in another shard: every shard leaves its weights sorted by
who asks for them, in an order that both sides know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from isal import igzip

from mdi.errors import MdiError
from mdi.files import GZIP_LEVEL, replacing
from mdi.kernels.arpa import WrittenOrder
from mdi.kernels.trie import Spelling
from mdi.lm.arpa import BLOCK, END, NO_FLAGS, format_rows, head_of, title_of
from mdi.lm.model import NgramModel
from mdi.lm.shards import Shard, Source, by_last_word, by_owner
from mdi.lm.trie import NONE, Array
from mdi.lm.vocabulary import Vocabulary


@dataclass(frozen=True)
class Exported:
    """Of a shard that is about to be written."""

    bow: Array  # of its words
    longer: Array  # whether anything is written after each of its words
    rows: list[int]  # own rows of the orders 2 to n
    kept: list[int]  # those of them that are written


def export_weights(shard: Shard, shards: list[Shard], source: Source) -> Exported:
    """Leaves the back-off weights of the shard's histories for those who write them."""
    return weights_of(shard, shards, source.name, *source.load(shard))


def weights_of(shard: Shard, shards: list[Shard], name: str, model: NgramModel, keep: list[Array] | None) -> Exported:
    """The same of a model that is there."""
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


# A model that this process needs again soon, no more than one, with flags of the rows that are written.
_loaded: dict[tuple[Shard, str], tuple[NgramModel, list[Array] | None]] = {}


def hold(shard: Shard, name: str, model: NgramModel, keep: list[Array] | None) -> None:
    """Keeps a model in memory until it has been formatted."""
    _loaded.clear()
    _loaded[shard, name] = model, keep


def format_shard(shard: Shard, shards: list[Shard], source: Source, k: int, first: int, pack: bool) -> Formatted:
    """Leaves the lines of the shard's rows of one order. `first`: rows of that order in the shards before."""
    if (shard, source.name) not in _loaded:
        _loaded.clear()
        hold(shard, source.name, *source.load(shard))
    model, keep = _loaded[shard, source.name]
    if k == model.order:
        _loaded.clear()
    spelling = model.trie.spelling()
    own = shard.own_rows(model.trie, k)
    written = _written(shard, shards, source.name, model, keep, k, own)
    n = own.stop - own.start
    boundary = -(-first // BLOCK) * BLOCK - first  # rows before the first block that begins in this part
    with replacing(str(_part(shard, source.name, k)), sync=False) as stream:
        put = _Putter(stream, written, model.vocab, spelling, own.start)
        if boundary > n:
            return Formatted(False, put(0, n), n, 0, 0, 0)
        last = n - (first + n) % BLOCK
        head, body = put(0, boundary), 0
        for row in range(boundary, last, BLOCK):
            body += put(row, row + BLOCK, pack)
        return Formatted(True, head, boundary, body, put(last, n), n - last)


class InOrder:
    """Things with their keys, by these, whenever they are asked for."""

    def __init__(self, things: Iterable[tuple[Any, Any]]) -> None:
        self.things = iter(things)
        self.known: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        while key not in self.known:
            found, thing = next(self.things)
            self.known[found] = thing
        return self.known.pop(key)


class _Putter:
    def __init__(
        self, stream: BinaryIO, written: WrittenOrder, vocab: Vocabulary, spelling: Spelling, start: int
    ) -> None:
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
        lists = other.kept(f"{name}-weights", check=False)
        at = slice(*lists["offset"][k][shard.index : shard.index + 2])
        bows.append(np.array(lists["bow"][k][at]))
        longers.append(np.array(lists["longer"][k][at]))
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
    path: str, words: NgramModel, exported: Sequence[Exported], formatted: InOrder, shards: list[Shard],
    name: str, order: int,
) -> None:  # fmt: skip
    """Puts the file together from what `format_shard` has said of (order, number of the shard). `words`: order 1 of the
    model."""
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
            for i, shard in enumerate(shards):
                part: Formatted = formatted[k, i]
                with open(_part(shard, name, k), "rb") as stream:
                    waiting, rows = waiting + stream.read(part.head), rows + part.head_rows
                    if part.whole:
                        if rows:
                            put(waiting)
                        _copy(stream, raw, part.body)
                        waiting, rows = stream.read(part.tail), part.tail_rows
                _part(shard, name, k).unlink()
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


def _written_words(words: NgramModel, exported: Sequence[Exported]) -> WrittenOrder:
    n = words.trie.n_words
    longer = np.concatenate([part.longer for part in exported])
    return WrittenOrder(
        order=1, top=False, begin=words.trie.begin[1], word=words.trie.word[1], p=words.p[1], keep=NO_FLAGS,
        as_hist=np.arange(n, dtype=np.int32), bow=np.concatenate([part.bow for part in exported]),
        longer=np.concatenate([[0], np.cumsum(longer)]).astype(np.int32), keep_longer=NO_FLAGS,
    )  # fmt: skip
