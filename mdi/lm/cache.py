"""Models that have been read before, as arrays on disk: loaded in a fraction of the time that text takes.

Off unless asked for: set MDI_CACHE to a folder. Every model read from a file is then kept there, in a file of its own,
whose name comes from the path and whose head says what it was made from; it counts only while the source has the same
size and time. What is stale, damaged or of another version is made again, with a message. Nothing in it is code: a head
in JSON, then the arrays.

    8 bytes "MDICACHE", 8 bytes size of the head, the head, the arrays, each at a multiple of 64 bytes

The arrays are mapped into memory, not read, and copied only where they are written to.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from isal import isal_zlib

from mdi.errors import MdiError
from mdi.files import writing
from mdi.lm.model import NgramModel
from mdi.lm.trie import MAX_ORDER, Trie
from mdi.lm.vocabulary import Vocabulary
from mdi.progress import get_logger

logger = get_logger(__name__)

VARIABLE = "MDI_CACHE"
VERSION = 2
_MAGIC = b"MDICACHE"
_ALIGN = 64


def cache_file(path: str, closed: bool) -> Path | None:
    """Where the model at `path` is kept, or None if caching was not asked for."""
    folder = os.environ.get(VARIABLE)
    if not folder or path == "-":
        return None
    if not Path(folder).is_dir():
        raise MdiError(f"{VARIABLE}={folder}: no such folder; make it first, or unset {VARIABLE}")
    whole = os.path.realpath(path)
    return (
        Path(folder)
        / f"{Path(path).name}.{hashlib.sha256(os.fsencode(whole)).hexdigest()[:16]}{'' if closed else '.open'}.mdi"
    )


def _source(path: str) -> dict[str, object]:
    """What a source must still be for what was made from it to count."""
    status = os.stat(path)
    return {"path": os.path.realpath(path), "size": status.st_size, "time_ns": status.st_mtime_ns}


def model_lists(model: NgramModel) -> dict[str, list[np.ndarray]]:
    trie, vocab = model.trie, model.vocab
    tries = {"begin": trie.begin, "word": trie.word, "suffix": trie.suffix, "as_hist": trie.as_hist, "back": trie.back}
    return {**tries, "p": model.p, "bow": model.bow, "vocab": [vocab.blob, vocab.offset, vocab.table]}


def save(model: NgramModel, path: str, to: Path) -> None:
    """Keeps the model that was read from `path`. If there is no room for it, nothing is lost but time."""
    try:
        with writing(str(to)) as stream:
            os.fchmod(stream.fileno(), 0o600)
            write_arrays(stream, _source(path), model_lists(model))
    except MdiError as error:
        logger.warning(f"{error}; {path} is not kept")


def write_arrays(stream: BinaryIO, source: dict[str, object], lists: dict[str, list[np.ndarray]]) -> None:
    """Lists of arrays by name, and what they were made from."""
    head: dict[str, Any] = {"version": VERSION, "byteorder": sys.byteorder, "source": source, "arrays": {}}
    arrays, at = [], 0
    for name, parts in lists.items():
        head["arrays"][name] = []
        for part in parts:
            head["arrays"][name].append({"type": part.dtype.name, "length": len(part), "at": at})
            arrays.append(part)
            at += -(-part.nbytes // _ALIGN) * _ALIGN
    head["bytes"] = at
    crc = head_checksum(head)
    for piece in _pieces(arrays):
        crc = isal_zlib.crc32(piece, crc)
    head["crc32"] = crc
    text = json.dumps(head).encode()
    text += b" " * (-(16 + len(text)) % _ALIGN)
    stream.write(_MAGIC + len(text).to_bytes(8, "little") + text)
    for piece in _pieces(arrays):
        stream.write(piece)


def head_checksum(head: dict[str, Any]) -> int:
    """With which that of the arrays begins: where they are is as important as what they are."""
    return isal_zlib.crc32(json.dumps({name: value for name, value in head.items() if name != "crc32"}).encode())


def _pieces(arrays: list[np.ndarray]) -> Iterator[bytes | memoryview]:
    for part in arrays:
        yield np.ascontiguousarray(part).view(np.uint8).data
        yield b"\0" * (-part.nbytes % _ALIGN)


def load(path: str, kept: Path) -> NgramModel | None:
    """The model that was made from `path`, or None, with a message if there is one that does not count."""
    if not kept.exists():
        return None
    try:
        model, source = _read(kept)
    except (OSError, ValueError, KeyError, TypeError) as error:  # whatever somebody else may have put there
        logger.warning(f"{kept}: not usable ({error}); reading {path} again")
        return None
    if source != _source(path):
        logger.info(f"{kept}: made from another {path}; reading it again")
        return None
    return model


def _read(kept: Path) -> tuple[NgramModel, dict[str, object]]:
    lists, source = read_arrays(kept)
    model = model_of(lists)
    if not _sound(model):
        raise ValueError("damaged")
    return model, source


def model_of(lists: dict[str, list[np.ndarray]]) -> NgramModel:
    trie = Trie(**{name: lists[name] for name in ("begin", "word", "suffix", "as_hist", "back")})
    return NgramModel(Vocabulary(*lists["vocab"]), trie, lists["p"], lists["bow"])


def read_arrays(kept: Path, check: bool = True) -> tuple[dict[str, list[np.ndarray]], dict[str, object]]:
    """What `write_arrays` wrote, mapped into memory; a ValueError or OSError if it is not that."""
    with open(kept, "rb") as stream:
        status = os.fstat(stream.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise ValueError("somebody else may have written it")
        if stream.read(8) != _MAGIC:
            raise ValueError("another kind of file")
        size = int.from_bytes(stream.read(8), "little")
        if size > 1 << 20:
            raise ValueError("damaged")
        try:
            head = json.loads(stream.read(size))
        except RecursionError as error:
            raise ValueError("damaged") from error
    if head["version"] != VERSION or head["byteorder"] != sys.byteorder:
        raise ValueError(f"version {head['version']}, expected {VERSION}")
    if os.path.getsize(kept) != 16 + size + head["bytes"]:
        raise ValueError("cut off")
    data = np.asarray(np.memmap(kept, np.uint8, "c", 16 + size))
    if check and isal_zlib.crc32(data, head_checksum(head)) != head["crc32"]:
        raise ValueError("damaged")

    def part(entry: dict[str, Any]) -> np.ndarray:
        kind = np.dtype(entry["type"])
        return data[entry["at"] : entry["at"] + entry["length"] * kind.itemsize].view(kind)

    lists = {name: [part(entry) for entry in entries] for name, entries in head["arrays"].items()}
    return lists, head["source"]


def _sound(model: NgramModel) -> bool:
    """Whether every index leads somewhere: kernels follow them without looking."""
    trie, (blob, offset, table) = model.trie, (model.vocab.blob, model.vocab.offset, model.vocab.table)
    n, order = len(offset) - 1, trie.order
    kinds: list[tuple[list[np.ndarray], type]] = [
        (part[1:], np.int32) for part in (trie.begin, trie.word, trie.suffix, trie.as_hist, trie.back)
    ]
    kinds += [(model.p[1:], np.float64), (model.bow, np.float64)]
    kinds += [([blob], np.uint8), ([offset], np.int64), ([table], np.int32)]
    good = all(part.dtype == kind for parts, kind in kinds for part in parts)
    good = good and 1 <= order <= MAX_ORDER and len(model.p) == order + 1 and len(model.bow) == order
    good = good and len(trie.begin) == order + 1 and len(trie.suffix) == order + 1 and trie.n_words == n
    good = good and len(trie.as_hist) >= order and len(trie.back) >= order
    if not good or len(model.bow[0]) != 1 or not _rises(offset, len(blob)):
        return False
    if len(table) < n + 1 or len(table) & (len(table) - 1) or not _within(table, -1, n) or not (table < 0).any():
        return False
    for k in range(1, order + 1):
        rows, n_hist = trie.rows(k), trie.n_hist(k - 1)
        good = len(trie.begin[k]) == n_hist + 1 and _rises(trie.begin[k], rows) and _within(trie.word[k], 0, n)
        good = good and len(model.p[k]) == rows and len(model.bow[k - 1]) == n_hist
        if k > 1:
            good = good and len(trie.suffix[k]) == rows and _within(trie.suffix[k], -1, trie.rows(k - 1))
            good = good and len(trie.back[k - 1]) == n_hist and _within(trie.back[k - 1], 0, trie.n_hist(k - 2))
        if k < order:
            there = np.zeros(rows, bool)
            good = good and len(trie.as_hist[k]) == rows and _within(trie.as_hist[k], 0, rows)
            if good:
                there[trie.as_hist[k]] = True
                good = bool(there.all())
        if not good:
            return False
    return True


def _within(values: np.ndarray, least: int, stop: int) -> bool:
    return not len(values) or bool(values.min() >= least and values.max() < stop)


def _rises(values: np.ndarray, last: int) -> bool:
    return len(values) > 0 and values[0] == 0 and values[-1] == last and bool((values[1:] >= values[:-1]).all())
