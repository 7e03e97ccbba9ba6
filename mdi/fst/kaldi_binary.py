"""Kaldi's binary files: "\\0B", then tokens that end in a blank, and numbers with their size in bytes before them."""

import struct

import numpy as np

from mdi.lm.trie import Array

_NUMBER = np.dtype([("size", "u1"), ("value", "<i4")])
_LONGEST_TOKEN = 40


class KaldiReader:
    """What is in a file, one after the other. ValueError where it is something else."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 2

    def token(self, *expected: str) -> str:
        """One of these."""
        end = self.data.find(b" ", self.at, self.at + _LONGEST_TOKEN)
        found = self.data[self.at : max(end, self.at)].decode("latin-1")
        if found not in expected:
            raise ValueError(f"expected {' or '.join(expected)} at byte {self.at:,}")
        self.at = end + 1
        return found

    def tokens(self, *expected: str) -> None:
        """One after the other."""
        for token in expected:
            self.token(token)

    def number(self, kind: str = "i") -> int:
        """An integer of struct's kind."""
        size = struct.calcsize(f"<{kind}")
        if self.at + 1 + size > len(self.data) or self.data[self.at] != size:
            raise ValueError(f"no number of {size} bytes at byte {self.at:,}")
        self.at += 1 + size
        return int(struct.unpack_from(f"<{kind}", self.data, self.at - size)[0])

    def numbers(self, n: int) -> Array:
        """As many of 4 bytes, each with its size."""
        found = self.array(n, _NUMBER)
        if (found["size"] != 4).any():
            raise ValueError(f"numbers that have not 4 bytes before byte {self.at:,}")
        return found["value"].copy()

    def vector(self) -> Array:
        """A length, and so many numbers of 4 bytes."""
        return self.array(self.number(), np.dtype("<i4"))

    def array(self, n: int, kind: type | np.dtype[np.void] | np.dtype[np.int32]) -> Array:
        """As many without a size, in memory as numbers should lie there."""
        size = np.dtype(kind).itemsize
        if not 0 <= n <= (len(self.data) - self.at) // size:
            raise ValueError(f"{n:,} numbers announced in {len(self.data):,} bytes")
        part = np.frombuffer(self.data, np.uint8, n * size, self.at)
        self.at += n * size
        return part.view(kind) if part.ctypes.data % size == 0 else part.copy().view(kind)
