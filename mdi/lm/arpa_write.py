"""`NgramModel` to ARPA files, in blocks that threads format and pack."""

import os
import threading
from typing import Any, Protocol

import numpy as np
from isal import igzip

from mdi import room
from mdi.certificate import discard_certificate
from mdi.errors import MdiError
from mdi.files import GZIP_LEVEL, replacing, together
from mdi.kernels import arpa_write as kernels
from mdi.kernels.text import LINE_ROOM
from mdi.kernels.trie import Spelling
from mdi.lm.model import NgramModel
from mdi.lm.shards import blocks_at_once, in_order
from mdi.lm.trie import NONE, Array
from mdi.lm.vocabulary import Vocabulary
from mdi.progress import Progress

# Rows that are written at a time.
BLOCK = 1 << 15
_thread = threading.local()
NO_FLAGS = np.zeros(0, bool)


class HasModel(Protocol):
    """What carries a model: an `Adapted`, a `Tuned`."""

    @property
    def model(self) -> NgramModel: ...


def write_arpa(model: NgramModel | HasModel, path: str | os.PathLike[str], keep: list[Array] | None = None) -> None:
    """Writes a model, or that of an adaptation: seven significant digits, as SRILM does, in SRILM's order, gzipped if
    the name ends in .gz.

    Nothing is checked or certified, as `mdi.save` does it; the certificate of another model that was there goes.

    Parameters
    ----------
    model
        A model, or what `adapt`, `match` or `tune` gives.
    path
        The file; "-" is standard output.
    keep
        Flags by order of the rows to be written, where not all are; the others must be what backing off gives.
    """
    path = os.fspath(path)
    if not isinstance(model, NgramModel):
        if not isinstance(getattr(model, "model", None), NgramModel):
            raise MdiError(f"{model!r} is to be written to {path}; expected a model, or what adapt or tune gives")
        model = model.model
    trie, size, pack = model.trie, BLOCK * blocks_at_once(sum(model.trie.counts) // BLOCK), path.endswith(".gz")
    counts = trie.counts if keep is None else [int(part.sum()) for part in keep[1:]]
    spelling = trie.spelling()
    head = "\n\\data\\\n" + "".join(f"ngram {k}={count}\n" for k, count in enumerate(counts, 1))
    calls: list[tuple[Any, ...]] = [(_packed, head.encode(), pack)]
    for k in range(1, trie.order + 1):
        calls.append((_packed, f"\n\\{k}-grams:\n".encode(), pack))
        written = written_order(model, keep, k)
        for row in range(0, trie.rows(k), size):
            end = min(row + size, trie.rows(k))
            calls.append((_format_blocks, written, model.vocab, row, end, spelling, pack))
    calls.append((_packed, b"\n\\end\\\n", pack))
    done = 0
    with together():
        with replacing(path) as stream, Progress(f"writing {path}", sum(trie.counts), "n-grams") as progress:
            for (make, *about), data in zip(calls, in_order(calls, f"writing {path}"), strict=True):
                stream.write(memoryview(data).toreadonly())
                done += about[3] - about[2] if make is _format_blocks else 0
                progress.update(done)
        discard_certificate(path)


def _packed(data: bytes | memoryview, pack: bool) -> bytes:
    """One gzip member, or what it is."""
    return igzip.compress(data, GZIP_LEVEL, mtime=0) if pack else bytes(data)


def _format_blocks(
    written: kernels.WrittenOrder, vocab: Vocabulary, row: int, end: int, spelling: Spelling, pack: bool
) -> Array:
    """The lines of some rows."""
    blocks = [(first, min(first + BLOCK, end)) for first in range(row, end, BLOCK)]
    return room.filled([_packed(format_rows(written, vocab, *block, spelling), pack) for block in blocks])


def written_order(model: NgramModel, keep: list[Array] | None, k: int) -> kernels.WrittenOrder:
    """One order of a model as `format_rows` takes it."""
    trie, top = model.trie, k == model.order
    return kernels.WrittenOrder(
        order=k,
        top=top,
        begin=trie.begin[k],
        word=trie.word[k],
        p=model.p[k],
        keep=NO_FLAGS if keep is None else keep[k],
        as_hist=NONE if top else trie.as_hist[k],
        bow=np.zeros(0) if top else model.bow[k],
        longer=NONE if top else trie.begin[k + 1],
        keep_longer=NO_FLAGS if keep is None or top else keep[k + 1],
    )


def format_rows(
    written: kernels.WrittenOrder, vocab: Vocabulary, row: int, end: int, spelling: Spelling
) -> bytes | memoryview:
    """The lines of some rows."""
    pieces: list[bytes] = []
    # each thread has one buffer for all its blocks: fresh memory would cost as much as the formatting of numbers
    out = getattr(_thread, "out", NONE)
    if len(out) < BLOCK * (LINE_ROOM + 8 * written.order):
        out = _thread.out = np.empty(BLOCK * (LINE_ROOM + 8 * written.order), np.uint8)
    while True:
        reached, size = kernels.format_ngrams(written, row, end, spelling, vocab.arrays, out)
        if reached == end and not pieces:
            return out[:size].data
        pieces.append(out[:size].tobytes())
        if reached == end:
            return b"".join(pieces)
        if reached == row:
            out = np.empty(2 * len(out), np.uint8)
        row = reached
