"""Outputs that appear whole or not at all: gzip by suffix, '-' for standard output."""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

from isal import igzip

from mdi.errors import MdiError
from mdi.files.folders import locked, remove_unlocked
from mdi.files.reading import open_regular

# ISA-L's level 2 writes several times faster than zlib's 6, at about the same size.
GZIP_LEVEL = 2


class _Batch(threading.local):
    """Outputs of this thread that wait for each other: see `together`."""

    def __init__(self) -> None:
        self.waiting: list[tuple[BinaryIO, str, str]] | None = None  # (stream, temporary name, where it goes)
        self.written: dict[str, dict[str, int | str]] = {}
        self.discarded: set[str] = set()


_batch = _Batch()


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What is written inside appears at the end, all of it whole on disk by then: the last written first. So a model
    that is written before its certificate is never there without it. If anything fails, nothing appears."""
    if _batch.waiting is not None:
        yield
        return
    _batch.waiting, _batch.written, _batch.discarded = [], {}, set()
    try:
        yield
        for path in _batch.discarded - {path for _, _, path in _batch.waiting}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        _rename([(name, path) for _, name, path in reversed(_batch.waiting)])
    finally:
        for raw, name, _ in _batch.waiting:
            with contextlib.suppress(OSError):
                os.unlink(name)
            with contextlib.suppress(OSError):
                raw.close()
        _batch.waiting, _batch.written, _batch.discarded = None, {}, set()


def discard(path: str) -> None:
    """What is written inside the same `together` makes this file obsolete: it goes just before that appears, unless
    it is among it."""
    with together():
        _batch.discarded.add(os.path.realpath(path))


def written(path: str) -> dict[str, int | str] | None:
    """Size and SHA-256 of a file that was written inside the same `together`, None for a stream."""
    return _batch.written.get(path)


class _Hashing:
    """A stream that remembers what went through it. Large pieces are hashed by a thread while they are written."""

    def __init__(self, raw: BinaryIO, pool: ThreadPoolExecutor) -> None:
        self.raw, self.pool, self.bytes, self.sha256 = raw, pool, 0, hashlib.sha256()
        self.last: Future[None] | None = None

    def write(self, data: Any) -> int:
        if self.last is not None:
            self.last.result()
            self.last = None
        size, fixed = memoryview(data).nbytes, memoryview(data).readonly
        if fixed and size > 1 << 16:  # what cannot change before it is hashed
            self.last = self.pool.submit(self.sha256.update, data)
        else:
            self.sha256.update(data)
        self.raw.write(data)
        self.bytes += size
        return size

    def digest(self) -> dict[str, int | str]:
        if self.last is not None:
            self.last.result()
        return {"bytes": self.bytes, "sha256": self.sha256.hexdigest()}

    def flush(self) -> None:
        self.raw.flush()


def is_stream(path: str) -> bool:
    """Whether an output is written to and not replaced: the standard output, a pipe, a device."""
    return path == "-" or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def _check_link(path: str) -> None:
    """Refuses an output that is a link of another user's: what it leads to may be anything of ours."""
    if os.path.islink(path) and os.lstat(path).st_uid != os.geteuid():
        target = os.readlink(path)[:80]
        raise MdiError(f"{path}: is a link that somebody else has made, to '{target}'; name another file")


def check_output(path: str, inputs: Iterable[str] = ()) -> None:
    """Refuses an output that cannot be written or would replace an input, before any work is done."""
    if path == "-":
        return
    _check_link(path)
    folder = Path(os.path.realpath(path) if os.path.islink(path) else path).parent
    if not folder.is_dir():
        raise MdiError(f"{path}: the directory {folder} does not exist; make it first")
    if Path(path).is_dir():
        what = f"a link to the directory {os.path.realpath(path)}" if os.path.islink(path) else "a directory"
        raise MdiError(f"{path}: is {what}; name a file in it")
    if not os.access(path if is_stream(path) else folder, os.W_OK):
        raise MdiError(f"{path}: the {'file' if is_stream(path) else f'directory {folder}'} cannot be written")
    for source in inputs:
        if same_file(path, source) and not is_stream(path):
            raise MdiError(f"{path}: is also an input; write to another file")


def same_file(one: str, other: str) -> bool:
    """Whether two names, of files that need not be there yet, mean the same file."""
    if "-" in (one, other):
        return False
    with contextlib.suppress(OSError, ValueError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


@contextlib.contextmanager
def replacing(path: str, sync: bool = True) -> Iterator[BinaryIO]:
    """A stream to a temporary name in the same folder, synced, then renamed. A link is followed; a pipe or a device is
    written to as it is, and so is the standard output, '-'. What can be made again need not be
    synced."""
    if is_stream(path):
        with _stream(path) as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    _check_link(path)
    try:
        handle, name = _temporary(target)
    except OSError as error:
        raise MdiError(f"{path}: cannot write here: {error.strerror}") from error
    batch = _batch.waiting if sync else None  # what can be made again is needed at once
    raw: BinaryIO = os.fdopen(handle, "wb")  # holds the lock until it is closed
    waits = False
    try:
        if target.exists() and target.stat().st_uid == os.geteuid():  # another's modes are no wish of ours
            os.fchmod(handle, stat.S_IMODE(target.stat().st_mode) & 0o777)
        if batch is None:
            yield raw
        else:
            with ThreadPoolExecutor(1) as pool:
                hashing = _Hashing(raw, pool)
                yield cast(BinaryIO, hashing)
                _batch.written[path] = hashing.digest()
        raw.flush()
        if sync:
            os.fsync(handle)
        if batch is None:
            _rename([(name, str(target))], sync)
        else:
            batch.append((raw, name, str(target)))
            waits = True
    except OSError as error:
        raise MdiError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        if not waits:
            with contextlib.suppress(OSError):
                os.unlink(name)
            with contextlib.suppress(OSError):  # what could not be written cannot be written now
                raw.close()


@contextlib.contextmanager
def _stream(path: str) -> Iterator[BinaryIO]:
    try:
        if path == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        else:
            with open(path, "wb") as raw:
                yield raw
    except BrokenPipeError:
        raise  # the reader has seen enough
    except OSError as error:
        name = "standard output" if path == "-" else path
        raise MdiError(f"{name}: cannot write: {error.strerror or error}") from error


def _temporary(target: Path) -> tuple[int, str]:
    """(handle, name) of a new file beside the target. It is locked: those of runs that were killed are not, and are
    removed here."""
    prefix = f".{target.name[:50]}."
    with os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and re.fullmatch(r"[0-9a-f]{12}\.tmp", entry.name[len(prefix) :]):
                remove_unlocked(Path(entry.path))
    while True:
        name = str(target.parent / f"{prefix}{os.urandom(6).hex()}.tmp")
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        if locked(handle) and os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # another run has removed it before it was locked, or is about to


def _rename(files: list[tuple[str, str]], sync: bool = True) -> None:
    """Gives files their names, and syncs the folders, so that a power failure cannot undo it."""
    where = ""
    try:
        with contextlib.ExitStack() as stack:
            folders = {os.path.dirname(path) or "." for _, path in files}
            handles = [os.open(where := folder, os.O_RDONLY | os.O_CLOEXEC) for folder in folders]
            for handle in handles:
                stack.callback(os.close, handle)
            for name, path in files:
                where = path
                os.replace(name, path)
            for handle in handles if sync else ():
                os.fsync(handle)
    except OSError as error:
        raise MdiError(f"{where}: cannot write: {error.strerror or error}") from error


@contextlib.contextmanager
def writing(path: str) -> Iterator[BinaryIO]:
    """A binary stream to `path`: written under a temporary name in the same folder, synced, then renamed.

    If anything fails on the way, what was there under that name before is still there, and nothing else is left; what
    a killed process leaves, the next one that writes the same file removes.
    """
    with replacing(path) as raw:
        if path.endswith(".gz"):
            with igzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=GZIP_LEVEL, mtime=0) as stream:
                yield cast(BinaryIO, stream)
        else:
            yield raw


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """All of a file at once, in a folder that is made if it is not there."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with writing(os.fspath(path)) as stream:
        stream.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)


def copy_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """A copy with the modes of new files. What cannot be written is named by its own name, not the source's."""
    with open_regular(os.fspath(source)) as stream, replacing(os.fspath(target), sync=False) as copy:
        shutil.copyfileobj(stream, copy)
