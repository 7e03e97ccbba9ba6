"""Reading files: gzip by content, whatever the name, and '-' for standard input."""

import contextlib
import io
import json
import os
import shlex
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

from isal import igzip, isal_zlib

from mdi.errors import MdiError

CHUNK = 1 << 24
LONGEST_LINE = 1 << 26  # beyond this a file is no text
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte-order marks
_ISAL_ERROR: Any = isal_zlib.error  # typed as an exception, not as a class of them
_MAGIC = {
    b"BZh": "bzip2 (run: bunzip2)",
    b"\xfd7zXZ": "xz (run: unxz)",
    b"PK\x03\x04": "zip (run: unzip)",
    b"(\xb5/\xfd": "zstd (run: unzstd)",
    b"mmap lm http": "a KenLM binary (give the ARPA file that it was built from)",
    b"blmt": "an IRSTLM binary (run: compile-lm --text=yes)",
    b"SRILM_BINARY": "an SRILM binary (run: ngram -lm FILE -write-lm OUT.arpa)",
}


def check_sum(path: str) -> int:
    """CRC-32 of a file's bytes as they are."""
    found = 0
    try:
        with open(path, "rb") as stream:
            while chunk := stream.read(CHUNK):
                found = isal_zlib.crc32(chunk, found)
    except OSError as error:
        raise MdiError(f"{path}: {error.strerror or error}") from error
    return found


@contextlib.contextmanager
def _reading(path: str) -> Iterator[BinaryIO]:
    """A stream of the file, with errors that name it."""
    try:
        if path == "-":
            yield sys.stdin.buffer
        else:
            with open(path, "rb") as raw:
                yield raw
    except (EOFError, zlib.error, igzip.BadGzipFile, _ISAL_ERROR) as error:
        raise MdiError(
            f"{path}: broken gzip stream ({error}); the file is cut off or damaged, copy it again"
        ) from error
    except OSError as error:
        raise MdiError(f"{path}: {error.strerror or error}") from error


def read_chunks(path: str, size: int = CHUNK) -> Iterator[bytes]:
    """The content of a file in pieces, unpacked if it is gzip, whatever its name."""
    with _reading(path) as raw:
        head = raw.read(16)
        if head[:2] == b"\x1f\x8b":
            stream = igzip.GzipFile(fileobj=io.BufferedReader(_Joined(head, raw), 1 << 17), mode="rb")
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


def read_bytes(path: str) -> bytes:
    """The whole content of a file, unpacked if it is gzip."""
    return b"".join(read_chunks(path))


def first_bytes(path: str, size: int = 256) -> bytes:
    """How the content of a file begins, unpacked if it is gzip. Of standard input nothing is used up."""
    with _reading(path) as raw:
        head = cast(io.BufferedReader, raw).peek(4096) if path == "-" else raw.read(4096)
    if head[:2] == b"\x1f\x8b":
        with contextlib.suppress(_ISAL_ERROR):  # whoever reads the file will say so
            head = isal_zlib.decompressobj(wbits=31).decompress(head, size)
    return head[:size]


def read_plain(path: str, most: int = 1 << 31) -> bytes:
    """A small file as it is."""
    with _reading(path) as raw:
        pieces = [raw.read(CHUNK)]  # not all at once: memory follows the file, not the limit
        while pieces[-1] and sum(map(len, pieces)) < most:
            pieces.append(raw.read(CHUNK))
    return b"".join(pieces)[:most]


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
        what = "a directory" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "no regular file"
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


class _Joined(io.RawIOBase):
    """A stream whose first bytes have been read already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.head[: len(buffer)] or self.rest.read(len(buffer))
        self.head = self.head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def whole_lines(source: object, chunks: Iterable[bytes], expected: str, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The same content in pieces of whole lines, without a byte order mark."""
    parts: list[bytes] = []
    mark = b"\xef\xbb\xbf"
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            data = b"".join([*parts, memoryview(chunk)[:cut]]) if any(parts) else chunk[:cut]
            yield data.removeprefix(mark)
            parts, mark = [], b""
        parts.append(chunk[cut:])
        if sum(map(len, parts)) > longest:
            raise MdiError(f"{source}: a line of over {longest:,} bytes; expected {expected}")
    if any(parts):
        yield b"".join(parts).removeprefix(mark) + b"\n"


def read_lines(path: str) -> Iterator[bytes]:
    """Lines without their ends."""
    for data in whole_lines(path, read_chunks(path), "text, in lines"):
        for line in data.split(b"\n")[:-1]:
            yield line.rstrip(b"\r")


def not_utf8(path: object, data: bytes, number: int = 1) -> str:
    """What to say of lines that are not UTF-8, or nothing; `number` is that of the first one in the file."""
    if number == 1 and data[:2] in UTF16:
        return f"{path}: UTF-16; expected text in UTF-8. Convert it: {_convert(path, 'utf-16')}"
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data[data.rfind(b"\n", 0, error.start) + 1 :].split(b"\n", 1)[0].decode("latin-1")
        where = number + data.count(b"\n", 0, error.start)
        return (
            f"{path}:{where}: not UTF-8: '{line.strip()[:80]}' if it is Latin-1; "
            f"expected text in UTF-8. Convert it: {_convert(path, 'latin1')}"
        )
    return ""


def _convert(path: object, encoding: str) -> str:
    name = str(path)
    if name.endswith(".gz"):
        return f"gzip -dc {shlex.quote(name)} | iconv -f {encoding} -t utf-8 > {shlex.quote(name[:-3])}.utf8"
    return f"iconv -f {encoding} -t utf-8 {shlex.quote(name)} > {shlex.quote(name)}.utf8"
