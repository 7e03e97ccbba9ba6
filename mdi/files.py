"""Reading and writing files: gzip by content on the way in and by suffix on the way out, '-' for the standard streams,
and outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
            return raw.read(most)
    except OSError as error:
        raise MdiError(f"{path}: {error.strerror or error}") from error


def read_ahead(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, the next of which is being read and unpacked by another thread while one is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, chunks, b"")
        while chunk := coming.result():
            coming = pool.submit(next, chunks, b"")
            yield chunk


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


@contextlib.contextmanager
def replacing(path: str, sync: bool = True) -> Iterator[BinaryIO]:
    """A stream to a temporary name in the same folder, synced, then renamed; plain for '-', the standard output. What
    can be made again need not be synced."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise MdiError(f"{path}: cannot write here: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as raw:
            yield raw
            raw.flush()
            if sync:
                os.fsync(raw.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except OSError as error:
        raise MdiError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


@contextlib.contextmanager
def writing(path: str) -> Iterator[BinaryIO]:
    """A binary stream to `path`: written under a temporary name in the same folder, synced, then renamed.

    If anything fails on the way, what was there under that name before is still there, and nothing else is left.
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def make_folder(path: str) -> Path:
    """The folder, made with those above it where it is not there yet."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MdiError(f"{path}: cannot make this folder: {error.strerror}") from error
    return folder


def check_output(path: str, inputs: list[str] | tuple[str, ...] = ()) -> None:
    """Refuses an output that cannot be written or would replace an input, before any work is done."""
    if path == "-":
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise MdiError(f"{path}: the folder {folder} does not exist; make it first")
    if Path(path).is_dir():
        raise MdiError(f"{path}: is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise MdiError(f"{path}: the folder {folder} cannot be written")
    for source in inputs:
        if source != "-" and os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
            raise MdiError(f"{path}: is also an input; write to another file")
