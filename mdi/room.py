"""Where large arrays lie: in memory, or in files of a folder that are mapped into it.

A model whose arrays are in files is a model like any other: the same code works on it, the system keeps of it what fits
and what is needed, and another process is sent the names of the files instead of what is in them. Files go when nobody
has their arrays any more, and with the folder.
"""

import contextlib
import io
import mmap
import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdi.errors import MdiError

Array = NDArray[Any]
# Smaller arrays are always in memory.
SMALL = 1 << 16
LOOK = 0.02  # seconds between two looks at what is resident
_RESIDENT = "/proc/self/statm"
_POPULATE_WRITE = 23  # Linux's MADV_POPULATE_WRITE, from 5.14 on
_files: dict[int, tuple[weakref.ref[mmap.mmap], str, Any]] = {}  # what is mapped, by where it begins in memory
_opened: weakref.WeakValueDictionary[str, mmap.mmap] = weakref.WeakValueDictionary()
_lock = threading.RLock()
_folder: str | None = None
_limited = False


@contextlib.contextmanager
def arrays_in(folder: str | None, memory: int | None = None) -> Iterator[None]:
    """Large arrays that are made meanwhile are in files of this folder. `memory`: of these files no more than so many
    bytes are to be resident."""
    global _folder, _limited
    before, done = (_folder, _limited), threading.Event()
    _folder, _limited = folder, memory is not None
    try:
        if memory is not None and os.path.exists(_RESIDENT):
            threading.Thread(target=_watch, args=(memory, done), daemon=True).start()
        yield
    finally:
        _folder, _limited = before
        done.set()


def empty(size: int, dtype: Any, least: int = SMALL) -> Array:
    """An array, in a file from so many bytes on: one that other processes write to must be in one."""
    kind = np.dtype(dtype)
    if _folder is None or size * kind.itemsize < least:
        return np.empty(size, kind)
    with _new_file() as stream:
        if hasattr(os, "posix_fallocate"):  # a disk that is full is an error now, not a signal later
            os.posix_fallocate(stream.fileno(), 0, size * kind.itemsize)
        stream.truncate(size * kind.itemsize)
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
    """What lies there in a file. `own`: the file goes with the last array in it."""
    with _lock:
        mapped = _opened.get(path)
        if mapped is None:
            with open(path, "r+b") as stream:
                mapped = _opened[path] = mmap.mmap(stream.fileno(), 0)
            at = np.frombuffer(mapped, np.uint8).ctypes.data
            gone = weakref.finalize(mapped, _forget, at, path, own)
            gone.atexit = False
            _files[at] = weakref.ref(mapped), path, gone
    return np.frombuffer(mapped, dtype, size, offset)


def _forget(at: int, path: str, own: bool) -> None:
    _files.pop(at, None)
    if own:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _where(array: Array) -> tuple[str, int] | None:
    """(file, byte) of an array that is in one."""
    if array.ndim != 1 or not array.flags.c_contiguous or not len(array):
        return None
    begin = array.ctypes.data
    at = max((at for at in list(_files) if at <= begin), default=0)
    ref, path, _ = _files.get(at, (lambda: None, "", None))
    mapped = ref()
    return None if mapped is None or begin + array.nbytes > at + len(mapped) else (path, begin - at)


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
                    next(gone for _, path, gone in list(_files.values()) if path == found[0]).detach()
                return _array, (*found, len(array), array.dtype, self.give)
        if hasattr(value, "py_func"):
            return value.__name__
        return NotImplemented


def dumps(value: Any, copies: dict[int, tuple[Array, Array]], give: bool = False) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, copies, give).dump(value)
    return stream.getvalue()


loads = pickle.loads  # Dask's own messages are such, too


def let_go() -> None:
    """No page of a file need be resident now: what is needed comes again."""
    for ref, _, _ in list(_files.values()):
        if (mapped := ref()) is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


def _watch(memory: int, done: threading.Event) -> None:
    while not done.wait(LOOK):
        with open(_RESIDENT) as stream:
            pages = int(stream.read().split()[2])  # of files
        if pages * mmap.PAGESIZE > memory:
            let_go()
