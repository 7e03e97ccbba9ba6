"""Where large arrays lie: in memory, or in files of a folder that are mapped into it.

A model whose arrays are in files is a model like any other: the same code works on it, the system keeps of it what fits
and what is needed, and another process is sent the names of the files instead of what is in them. Files go when nobody
has their arrays any more, and with the folder.
"""

from __future__ import annotations

import bisect
import contextlib
import io
import json
import mmap
import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from mdi.errors import MdiError
from mdi.files import replacing

Array = NDArray[Any]
# Smaller arrays are always in memory.
SMALL = 1 << 16
LOOK = 0.02  # seconds between two looks at what is resident
_POPULATE_WRITE = 23  # Linux's MADV_POPULATE_WRITE, from 5.14 on


class _File:
    """A file that is mapped. `own`: it goes with its last array here."""

    def __init__(self, path: str, own: bool) -> None:
        with open(path, "r+b") as stream:
            self.map = mmap.mmap(stream.fileno(), 0)
        self.path, self.size = path, len(self.map)
        self.at = np.frombuffer(self.map, np.uint8).ctypes.data
        known = weakref.finalize(self.map, _forget, self.at, path, own)
        known.atexit = False
        _files[self.at] = weakref.ref(self.map), path, known
        bisect.insort(_places, self.at)


_files: dict[int, tuple[weakref.ref, str, weakref.finalize]] = {}  # by where they begin in memory
_places: list[int] = []
_opened: weakref.WeakValueDictionary[str, mmap.mmap] = weakref.WeakValueDictionary()
_lock = threading.RLock()
_folder: str | None = None
_limited = False


def _forget(at: int, path: str, own: bool) -> None:
    with _lock:
        _files.pop(at, None)
        if at in _places:
            _places.remove(at)
    if own:
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def arrays_in(folder: str | None, memory: int | None = None) -> Iterator[None]:
    """Large arrays that are made meanwhile are in files of this folder. `memory`: of these files no more than so many
    bytes are to be resident."""
    global _folder, _limited
    before, _folder, _limited = _folder, folder, memory is not None
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(memory or 0, done), daemon=True)
    try:
        if memory is not None:
            watch.start()
        yield
    finally:
        _folder = before
        done.set()


def empty(size: int, dtype: Any, least: int = SMALL) -> Array:
    """An array, in a file from so many bytes on: one that other processes write to must be in one."""
    kind = np.dtype(dtype)
    if _folder is None or size * kind.itemsize < least:
        return np.empty(size, kind)
    with _new_file() as stream:  # a disk that is full is an error now, not a signal later
        os.posix_fallocate(stream.fileno(), 0, size * kind.itemsize)
    array = _array(stream.name, 0, size, kind, own=True)
    if not _limited:
        with contextlib.suppress(OSError):  # all pages at once are made sooner than one by one
            _opened[stream.name].madvise(_POPULATE_WRITE)
    return array


def filled(parts: list[bytes]) -> Array:
    """All of it, end to end."""
    if _folder is None or sum(map(len, parts)) < SMALL:
        return np.frombuffer(b"".join(parts), np.uint8)
    with _new_file() as stream:
        stream.writelines(parts)
        size = stream.tell()
    return _array(stream.name, 0, size, np.uint8, own=True)


@contextlib.contextmanager
def _new_file() -> Iterator[Any]:
    """With an error that says where it could not be written."""
    stream = None
    try:
        with tempfile.NamedTemporaryFile(suffix=".array", prefix="", dir=_folder, delete=False) as stream:
            yield stream
    except OSError as error:
        if stream is not None:
            with contextlib.suppress(OSError):
                os.unlink(stream.name)
        raise MdiError(f"{_folder}: cannot write: {error.strerror}") from error


def zeros(size: int, dtype: Any = float) -> Array:
    """A file that was never written to is all zeros, too."""
    return np.zeros(size, dtype) if _folder is None or size * np.dtype(dtype).itemsize < SMALL else empty(size, dtype)


def shared(array: Array) -> Array:
    """The array where other processes can be told of it."""
    if _folder is None or _where(array) is not None:
        return array
    copy = empty(len(array), array.dtype)
    copy[:] = array
    return copy


def _array(path: str, offset: int, size: int, dtype: Any, own: bool = False) -> Array:
    with _lock:
        mapped = _opened.get(path)
        if mapped is None:
            mapped = _opened[path] = _File(path, own).map
    return np.frombuffer(mapped, dtype, size, offset)


def _where(array: Array) -> tuple[str, int] | None:
    """(file, byte) of an array that is in one."""
    if array.ndim != 1 or not array.flags.c_contiguous or not len(array):
        return None
    with _lock:
        i = bisect.bisect_right(_places, array.ctypes.data) - 1
        found = _files.get(_places[i]) if i >= 0 else None
        mapped = found[0]() if found else None
        if mapped is None or found is None or array.ctypes.data + array.nbytes > _places[i] + len(mapped):
            return None
        return found[1], array.ctypes.data - _places[i]


class _Pickler(pickle.Pickler):
    """Large arrays go by the names of their files; `copies` are of those that have none, and must live until the other
    side has them. With `give` it removes the files in the end. Compiled functions go by their names, too."""

    def __init__(self, stream: io.BytesIO, copies: dict[int, tuple[Array, Array]], give: bool) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.copies, self.give = copies, give

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray and value.ndim == 1:
            array = value
            if value.nbytes >= SMALL and _where(value) is None:
                _, array = self.copies.setdefault(id(value), (value, shared(value)))
            if found := _where(array):
                if self.give:
                    _owner(found[0]).detach()
                return _array, (*found, len(array), array.dtype, self.give)
        if hasattr(value, "py_func"):
            return _function, (value.__module__, value.__name__)
        return NotImplemented


def _owner(path: str) -> weakref.finalize:
    with _lock:
        return next(known for _, other, known in _files.values() if other == path)


def _function(module: str, name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(module), name)


def dumps(value: Any, copies: dict[int, tuple[Array, Array]], give: bool = False) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, copies, give).dump(value)
    return stream.getvalue()


def keep(path: Path, lists: dict[str, list[Array]]) -> None:
    """Leaves arrays for a later process, beside `path`, which says where. They must not change any more."""
    told: dict[str, list] = {}
    for name, arrays in lists.items():
        told[name] = []
        for i, array in enumerate(arrays):
            found = _where(array)
            file = path.with_name(f"{path.name}.{name}.{i}")
            file.unlink(missing_ok=True)
            if found is None:
                with replacing(str(file), sync=False) as stream:
                    stream.write(array.tobytes())
            else:
                os.link(found[0], file)
            about = found[1] if found else 0, len(array), array.dtype.str, isal_zlib.crc32(array.data)
            told[name].append([file.name, *about])
    with replacing(str(path), sync=False) as stream:
        stream.write(json.dumps(told).encode())


def kept(path: Path) -> dict[str, list[Array]] | None:
    """What `keep` has left there; None if it has not, or not all of it has come to the disk."""
    try:
        told = json.loads(path.read_bytes())
        return {name: [_checked(path, *about) for about in arrays] for name, arrays in told.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        return None


def _checked(path: Path, name: str, offset: int, size: int, kind: str, crc: int) -> Array:
    file, dtype = path.with_name(Path(name).name), np.dtype(kind)
    status = file.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ValueError("somebody else may have written it")
    array = _array(str(file), offset, size, dtype) if size else np.empty(0, dtype)
    if isal_zlib.crc32(array.data) != crc:
        raise ValueError("damaged")
    return array


def let_go() -> None:
    """No page of a file need be resident now: what is needed comes again."""
    with _lock:
        for mapped in [ref() for ref, _, _ in _files.values()]:
            if mapped is not None:
                mapped.madvise(mmap.MADV_DONTNEED)


def _watch(memory: int, done: threading.Event) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    while not done.wait(LOOK):
        with open("/proc/self/statm") as stream:
            resident = int(stream.read().split()[2]) * page  # of files
        if resident > memory:
            let_go()
