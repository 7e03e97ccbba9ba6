"""Words and their ids. Words are bytes: what is read is written again, whatever its encoding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from mdi.errors import MdiError
from mdi.kernels import text as lexing

BOS, EOS = "<s>", "</s>"
# The first of these that a vocabulary has stands for the words outside it.
UNKNOWN = ("<unk>", "<UNK>")


def to_bytes(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


def to_str(word: bytes) -> str:
    """Bytes that are not UTF-8 survive the way there and back."""
    return word.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Vocabulary:
    """The words' bytes end to end (`blob`), where each begins (`offset`), and a hash `table` of ids."""

    blob: np.ndarray
    offset: np.ndarray
    table: np.ndarray

    def __len__(self) -> int:
        return len(self.offset) - 1

    def word(self, i: int) -> str:
        return to_str(self.blob[self.offset[i] : self.offset[i + 1]].tobytes())

    @cached_property
    def words(self) -> list[str]:
        text = self.blob.tobytes()
        ends = self.offset.tolist()
        return [to_str(text[a:b]) for a, b in pairwise(ends)]

    def spell(self, ids: Iterable[int]) -> str:
        return " ".join(self.word(int(i)) for i in ids)

    def id(self, word: str) -> int:
        """The word's id, or -1."""
        data = np.frombuffer(to_bytes(word), np.uint8)
        return max(-1, int(lexing.find_word(data, 0, len(data), self.table, self.blob, self.offset)))

    def ids(self, words: Iterable[str]) -> np.ndarray:
        return np.array([self.id(word) for word in words], np.int32)

    @cached_property
    def bos(self) -> int:
        return self.id(BOS)

    @cached_property
    def eos(self) -> int:
        return self.id(EOS)

    @cached_property
    def unk(self) -> int:
        return next((i for i in map(self.id, UNKNOWN) if i >= 0), -1)

    def same_words(self, other: Vocabulary) -> bool:
        """Same words with the same ids."""
        return np.array_equal(self.offset, other.offset) and np.array_equal(self.blob, other.blob)


def hash_table(blob: np.ndarray, offset: np.ndarray, n_words: int, room: int = 0) -> np.ndarray:
    """A table at most half full with `room` for more words."""
    size = 1 << max(4, int(2 * (n_words + room + 2)).bit_length())
    table = np.full(size, -1, np.int32)
    twice = lexing.rebuild_table(table, blob, offset, n_words)
    if twice >= 0:
        word = to_str(blob[offset[twice] : offset[twice + 1]].tobytes())
        raise MdiError(f"the word '{word}' stands twice in the vocabulary; keep one")
    return table


def vocabulary(words: Iterable[str]) -> Vocabulary:
    data = [to_bytes(word) for word in words]
    offset = np.zeros(len(data) + 1, np.int64)
    np.cumsum([len(word) for word in data], out=offset[1:])
    blob = np.frombuffer(b"".join(data), np.uint8).copy()
    return Vocabulary(blob, offset, hash_table(blob, offset, len(data)))


class GrowingVocabulary:
    """A vocabulary while words are still being added: arrays with room to spare."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        start = vocabulary(words)
        self.n = len(start)
        self.blob = start.blob.copy()
        self.offset = start.offset.copy()
        self.table = start.table

    def make_room(self, words: int, size: int) -> None:
        """Room for so many more words of so many bytes in all."""
        need = int(self.offset[self.n]) + size
        if need > len(self.blob):
            self.blob = np.resize(self.blob, max(need, 2 * len(self.blob)))
        if self.n + words + 1 > len(self.offset):
            self.offset = np.resize(self.offset, max(self.n + words + 1, 2 * len(self.offset)))
        if 2 * (self.n + words + 2) > len(self.table):
            self.table = hash_table(self.blob, self.offset, self.n, max(words, self.n))

    def freeze(self) -> Vocabulary:
        return Vocabulary(self.blob[: self.offset[self.n]].copy(), self.offset[: self.n + 1].copy(), self.table)
