"""Reading and writing files: gzip by content on the way in and by suffix on the way out, '-' for the standard streams,
and outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import hashlib
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

from isal import igzip, isal_zlib

from mdi.errors import MdiError

CHUNK = 1 << 24
_ISAL_ERROR: Any = isal_zlib.error  # typed as an exception, not as a class of them
# ISA-L's level 2 writes several times faster than zlib's 6, at about the same size.
GZIP_LEVEL = 2
_MAGIC = {
    b"BZh": "bzip2 (run: bunzip2)",
    b"\xfd7zXZ": "xz (run: unxz)",
    b"PK\x03\x04": "zip (run: unzip)",
    b"(\xb5/\xfd": "zstd (run: unzstd)",
    b"mmap lm http": "a KenLM binary (give the ARPA file that it was built from)",
    b"blmt": "an IRSTLM binary (run: compile-lm --text=yes)",
    b"SRILM_BINARY": "an SRILM binary (run: ngram -lm FILE -write-lm OUT.arpa)",
}


def read_chunks(path: str, size: int = CHUNK) -> Iterator[bytes]:
    """The content of a file in pieces, unpacked if it is gzip, whatever its name."""
    try:
        with contextlib.ExitStack() as stack:
            raw: BinaryIO = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))
            head = raw.read(16)
            if head[:2] == b"\x1f\x8b":
                stream = igzip.GzipFile(fileobj=_Joined(head, raw), mode="rb")
                while chunk := stream.read(size):
                    yield chunk
                return
            for magic, name in _MAGIC.items():
                if head.startswith(magic):
                    raise MdiError(f"{path}: is {name}; expected text, plain or gzipped")
            chunk = head
            while chunk:
                yield chunk
                chunk = raw.read(size)
    except (EOFError, zlib.error, igzip.BadGzipFile, _ISAL_ERROR) as error:
        raise MdiError(
            f"{path}: broken gzip stream ({error}); the file is cut off or damaged, copy it again"
        ) from error
    except OSError as error:
        raise MdiError(f"{path}: {error.strerror or error}") from error


def read_bytes(path: str) -> bytes:
    """The whole content of a file, unpacked if it is gzip."""
    return b"".join(read_chunks(path))


def first_bytes(path: str, size: int = 256) -> bytes:
    """How the content of a file begins, unpacked if it is gzip. Of standard input nothing is used up."""
    try:
        if path == "-":
            head = cast(io.BufferedReader, sys.stdin.buffer).peek(4096)
        else:
            with open(path, "rb") as raw:
                head = raw.read(4096)
    except OSError as error:
        raise MdiError(f"{path}: {error.strerror or error}") from error
    if head[:2] == b"\x1f\x8b":
        with contextlib.suppress(_ISAL_ERROR):  # whoever reads the file will say so
            head = isal_zlib.decompressobj(wbits=31).decompress(head, size)
    return head[:size]


def read_plain(path: str, most: int = 1 << 31) -> bytes:
    """A small file as it is."""
    try:
        with contextlib.ExitStack() as stack:
            raw: BinaryIO = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))
            pieces = [raw.read(CHUNK)]  # not all at once: memory follows the file, not the limit
            while pieces[-1] and sum(map(len, pieces)) < most:
                pieces.append(raw.read(CHUNK))
            return b"".join(pieces)[:most]
    except OSError as error:
        raise MdiError(f"{path}: {error.strerror or error}") from error


def open_regular(path: str) -> BinaryIO:
    """A stream of a file whose name was found in another file: a pipe or a device would wait, or do something."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            check_regular(path)
    except OSError as error:
        raise MdiError(f"{path}: {error.strerror or error}") from error
    return os.fdopen(handle, "rb")


def check_regular(path: str) -> None:
    """Refuses what is no file, and no link to one."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        what = f"a link to '{os.readlink(path)[:80]}', which leads nowhere" if os.path.islink(path) else error.strerror
        raise MdiError(f"{path}: {what}; expected a file") from error
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "no regular file"
        raise MdiError(f"{path}: is {what}; expected a file")


def read_json(path: str | Path) -> dict[str, Any]:
    """A file that a program has written for programs: a certificate, the record of a decoding."""
    try:
        found = json.loads(read_plain(os.fspath(path)))
    except (ValueError, RecursionError) as error:
        raise MdiError(f"{path}: no JSON ({error}); the file is damaged, remove it and make it again") from error
    if not isinstance(found, dict):
        raise MdiError(f"{path}: a {type(found).__name__}; expected names and values. Remove it and make it again")
    return found


def read_ahead(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, the next of which is being read and unpacked by another thread while one is used."""
    pool, wait = ThreadPoolExecutor(1), True
    try:
        coming = pool.submit(next, chunks, b"")
        while chunk := coming.result():
            coming = pool.submit(next, chunks, b"")
            yield chunk
    except KeyboardInterrupt:
        wait = False  # the thread may wait for input that never comes
        raise
    finally:
        pool.shutdown(wait)


class _Joined:
    """A stream whose first bytes have been read already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self.head, self.rest = head, rest

    def read(self, size: int = -1) -> bytes:
        if self.head:
            head, self.head = self.head, b""
            return head if size < 0 or size >= len(head) else self._cut(head, size)
        return self.rest.read(size)

    def _cut(self, head: bytes, size: int) -> bytes:
        self.head = head[size:]
        return head[:size]

    def readinto(self, buffer: memoryview) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        pass


def read_lines(path: str) -> Iterator[bytes]:
    """Lines without their ends."""
    rest = b""
    for chunk in read_chunks(path):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    if rest:
        yield rest.rstrip(b"\r")


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
        size = memoryview(data).nbytes
        if isinstance(data, bytes) and size > 1 << 16:  # what cannot change before it is hashed
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
    try:
        handle, name = _temporary(target)
    except OSError as error:
        raise MdiError(f"{path}: cannot write here: {error.strerror}") from error
    batch = _batch.waiting if sync else None  # what can be made again is needed at once
    raw: BinaryIO = os.fdopen(handle, "wb")  # holds the lock until it is closed
    waits = False
    try:
        if target.exists():
            os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
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
                _remove_unlocked(Path(entry.path))
    while True:
        name = str(target.parent / f"{prefix}{os.urandom(6).hex()}.tmp")
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        if _locked(handle) and os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # another run has removed it before it was locked, or is about to


def _locked(handle: int) -> bool:
    """Whether what was just made is this process's: another one may be removing it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _remove_unlocked(path: Path) -> None:
    """Removes a temporary file unless a process that is still there writes it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError:
        pass
    finally:
        os.close(handle)


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


@contextlib.contextmanager
def writing_blocks(path: str, threads: int) -> Iterator[Callable[..., None]]:
    """Like `writing`, for blocks that threads make: put(make, ...) has make(...) called by one of them, which also
    packs what comes back, maybe a buffer of its own, if the name ends in .gz (one gzip member a block). Blocks are
    written in the order in which they were put."""
    with replacing(path) as raw, ThreadPoolExecutor(threads) as pool:
        jobs: deque = deque()

        def work(make: Callable[..., bytes], *args: Any) -> bytes:
            data = make(*args)
            return igzip.compress(data, GZIP_LEVEL, mtime=0) if path.endswith(".gz") else bytes(data)

        def put(make: Callable[..., bytes], *args: Any) -> None:
            jobs.append(pool.submit(work, make, *args))
            while len(jobs) > threads + 1:
                raw.write(jobs.popleft().result())

        try:
            yield put
            while jobs:
                raw.write(jobs.popleft().result())
        finally:
            for job in jobs:
                job.cancel()


def remove_abandoned(prefix: str, parent: str | None = None) -> None:
    """Removes the temporary folders of processes that are no longer there: see `scratch_folder`."""
    for old in Path(parent or tempfile.gettempdir()).glob(f"{glob.escape(prefix)}????????.tmp"):
        _remove_unlocked_folder(old)


def scratch_folder(prefix: str, parent: str | None = None) -> tempfile.TemporaryDirectory:
    """A temporary folder, locked as long as this process is there: those of processes that were killed are not, and are
    removed here."""
    where = parent or tempfile.gettempdir()
    remove_abandoned(prefix, where)
    while True:
        # what cannot be removed now, the next run removes
        folder = tempfile.TemporaryDirectory(prefix=prefix, suffix=".tmp", dir=where, ignore_cleanup_errors=True)
        try:
            handle = os.open(folder.name, os.O_RDONLY | os.O_CLOEXEC)  # closed when the process ends
        except FileNotFoundError:  # another process has removed it before it was locked
            continue
        if _locked(handle) and os.path.isdir(folder.name):
            return folder
        os.close(handle)
        folder.cleanup()


def _remove_unlocked_folder(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if os.fstat(handle).st_uid == os.getuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(handle)


_RENAME_EXCHANGE, _HERE = 2, -100  # of linux/fs.h and fcntl.h


def exchange_folder(made: str, path: str) -> None:
    """Gives a folder its name at once; what was there before gets the other one's, and goes with it."""
    if not os.path.exists(path):
        os.rename(made, path)
        return
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None or rename(_HERE, os.fsencode(made), _HERE, os.fsencode(path), _RENAME_EXCHANGE):
        os.rename(path, f"{made}.old")  # a file system that cannot exchange: for a moment nothing is there
        os.rename(made, path)


def make_folder(path: str) -> Path:
    """The folder, made with those above it where it is not there yet."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MdiError(f"{path}: cannot make this folder: {error.strerror}") from error
    return folder


def check_output(path: str, inputs: Iterable[str] = ()) -> None:
    """Refuses an output that cannot be written or would replace an input, before any work is done."""
    if path == "-":
        return
    folder = Path(os.path.realpath(path) if os.path.islink(path) else path).parent
    if not folder.is_dir():
        raise MdiError(f"{path}: the folder {folder} does not exist; make it first")
    if Path(path).is_dir():
        what = f"a link to the folder {os.path.realpath(path)}" if os.path.islink(path) else "a folder"
        raise MdiError(f"{path}: is {what}; name a file in it")
    if not os.access(path if is_stream(path) else folder, os.W_OK):
        raise MdiError(f"{path}: the {'file' if is_stream(path) else f'folder {folder}'} cannot be written")
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
