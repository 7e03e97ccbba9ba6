"""Words and their ids. Words are bytes: what is read is written again, whatever its encoding."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from mdi.errors import MdiError, OptionError
from mdi.files import read_lines
from mdi.kernels import text as kernels
from mdi.kernels.text import Words

# Words, or the file of a list of them.
WordsLike: TypeAlias = str | os.PathLike[str] | Iterable[str]
BOS, EOS = "<s>", "</s>"
# The first of these that a vocabulary has stands for the words outside it.
UNKNOWN = ("<unk>", "<UNK>")
# Numbers of words.txt are labels of FSTs, 32-bit integers.
MOST_WORDS = 2**31 - 1
# Symbols of words.txt that are not words: epsilon and the disambiguation symbols #0, #1, ...
_NOT_A_WORD = re.compile(r"<eps>|#\d+")


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

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.blob, self.offset, self.table)  # without what is computed from them

    @cached_property
    def arrays(self) -> Words:
        """For the kernels."""
        return Words(self.blob, self.offset, self.table, np.array([len(self)]), False)

    def word(self, i: int) -> str:
        return to_str(self.blob[self.offset[i] : self.offset[i + 1]].tobytes())

    @cached_property
    def words(self) -> list[str]:
        text = self.blob.tobytes()
        return [to_str(text[a:b]) for a, b in pairwise(self.offset.tolist())]

    @property
    def unmarked(self) -> list[str]:
        """The words but for <s> and </s>."""
        return [word for word in self.words if word not in (BOS, EOS)]

    def spell(self, ids: Iterable[int]) -> str:
        return " ".join(self.word(int(i)) for i in ids)

    def id(self, word: str) -> int:
        """The word's id, or -1."""
        data = np.frombuffer(to_bytes(word), np.uint8)
        return max(-1, int(kernels.find_word(data, 0, len(data), self.arrays)))

    def ids(self, words: Iterable[str]) -> np.ndarray:
        return np.array([self.id(word) for word in words], np.int32)

    def ids_of(self, other: "Vocabulary") -> np.ndarray:
        """The ids here of another vocabulary's words, -1 where they are missing. What both begin with is not looked
        up."""
        size = min(len(self.blob), len(other.blob))
        apart = np.flatnonzero(self.blob[:size] != other.blob[:size])[:1]
        end = int(apart[0]) if len(apart) else size
        n = min(len(self), len(other))
        differ = np.flatnonzero((self.offset[: n + 1] != other.offset[: n + 1]) | (self.offset[: n + 1] > end))[:1]
        same = int(differ[0]) - 1 if len(differ) else n
        return np.array([*range(same), *(self.id(other.word(i)) for i in range(same, len(other)))], np.int32)

    @cached_property
    def bos(self) -> int:
        return self.id(BOS)

    @cached_property
    def eos(self) -> int:
        return self.id(EOS)

    @cached_property
    def unk(self) -> int:
        return next((i for i in map(self.id, UNKNOWN) if i >= 0), -1)

    def freeze(self) -> "Vocabulary":
        """Itself: no word is added any more."""
        return self

    def extended(self, words: Iterable[str]) -> "Vocabulary":
        """These words with their ids, then others."""
        more = vocabulary(words)
        blob = np.concatenate([self.blob, more.blob])
        offset = np.concatenate([self.offset, self.offset[-1] + more.offset[1:]])
        return Vocabulary(blob, offset, hash_table(blob, offset, len(offset) - 1))

    def same_words(self, other: "Vocabulary") -> bool:
        """Same words with the same ids."""
        return np.array_equal(self.offset, other.offset) and np.array_equal(self.blob, other.blob)


def hash_table(blob: np.ndarray, offset: np.ndarray, n_words: int, room: int = 0) -> np.ndarray:
    """A table at most half full with `room` for more words."""
    size = 1 << max(4, int(2 * (n_words + room + 2)).bit_length())
    table = np.full(size, -1, np.int32)
    twice = kernels.fill_table(Words(blob, offset, table, np.array([n_words]), False))
    if twice >= 0:
        word = to_str(blob[offset[twice] : offset[twice + 1]].tobytes())
        raise MdiError(f"the word '{word}' appears twice in the vocabulary; keep one")
    return table


def vocabulary(words: Iterable[str]) -> Vocabulary:
    data = [to_bytes(word) for word in words]
    offset = np.cumsum([0, *map(len, data)], dtype=np.int64)
    blob = np.frombuffer(b"".join(data), np.uint8).copy()
    return Vocabulary(blob, offset, hash_table(blob, offset, len(data)))


class GrowingVocabulary:
    """A vocabulary that begins with some words and takes every further one behind them: arrays with room to spare."""

    def __init__(self, words: Iterable[str] | Vocabulary = ()) -> None:
        start = words if isinstance(words, Vocabulary) else vocabulary(words)
        self.bos, self.eos, self.unk, self.size = start.bos, start.eos, start.unk, np.array([len(start)])
        self.blob, self.offset, self.table = start.blob.copy(), start.offset.copy(), start.table.copy()

    def __len__(self) -> int:
        return int(self.size[0])

    @property
    def arrays(self) -> Words:
        """For the kernels, which add words and count them in `size`."""
        return Words(self.blob, self.offset, self.table, self.size, True)

    def make_room(self, words: int, size: int) -> None:
        """Room for so many more words of so many bytes in all."""
        n = len(self)
        need = int(self.offset[n]) + size
        if need > len(self.blob):
            self.blob = np.resize(self.blob, max(need, 2 * len(self.blob)))
        if n + words + 1 > len(self.offset):
            self.offset = np.resize(self.offset, max(n + words + 1, 2 * len(self.offset)))
        if 2 * (n + words + 2) > len(self.table):
            self.table = hash_table(self.blob, self.offset, n, max(words, n))

    def freeze(self) -> Vocabulary:
        n = len(self)
        return Vocabulary(self.blob[: self.offset[n]].copy(), self.offset[: n + 1].copy(), self.table)


def join_vocabularies(vocabs: list[Vocabulary]) -> tuple[Vocabulary, list[np.ndarray]]:
    """The words of the first vocabulary, then those that the others add, and each one's ids in the whole.

    Whatever a vocabulary calls its unknown word, <unk> or <UNK>, becomes the name that the first of them has for it.
    """
    number: dict[str, int] = {}
    unknown = next((vocab.word(vocab.unk) for vocab in vocabs if vocab.unk >= 0), UNKNOWN[0])
    ids = []
    for vocab in vocabs:
        words = vocab.words
        if vocab.unk >= 0 and words[vocab.unk] != unknown:
            if vocab.id(unknown) >= 0:
                raise MdiError(
                    f"a model has both {' and '.join(UNKNOWN)} where another has only {unknown}; "
                    f"expected one name for the unknown word. Rename or remove one of them"
                )
            words = words.copy()
            words[vocab.unk] = unknown
        ids.append(np.array([number.setdefault(word, len(number)) for word in words], np.int32))
    return vocabs[0] if len(number) == len(vocabs[0]) else vocabulary(number), ids


def read_word_file(path: str) -> tuple[list[str], list[int] | None]:
    """The one reader of word lists, one word per line, and of Kaldi's words.txt, a word and its number per line.

    Returns (words, numbers), numbers being None for a list. A word or a number that appears twice is an error; <s> and
    </s>, which are no label of any arc, may share one, as they do in Vosk's tables.
    """
    words: dict[str, int] = {}  # and the line of each
    lines: dict[int, int] = {}  # of each number
    numbers: list[int] = []
    columns = 0
    for at, line in enumerate(read_lines(path), 1):
        fields = [field for field in re.split(rb"[ \t]+", line) if field]
        if not fields:
            continue
        columns = columns or len(fields)
        number = int(fields[1]) if len(fields) == 2 and re.fullmatch(rb"[0-9]{1,10}", fields[1]) else -1
        if len(fields) != columns or columns > 2 or (columns == 2 and not 0 <= number <= MOST_WORDS):
            raise MdiError(
                f"{path}:{at}: '{to_str(line)[:80]}'; expected one word per line, or, as in Kaldi's words.txt, a word "
                f"and its number on every line, such as 'hello 12'"
            )
        if b"\0" in fields[0]:
            raise MdiError(f"{path}:{at}: a NUL byte; expected text, one word per line")
        word = to_str(fields[0])
        markers = word in (BOS, EOS) and lines.get(number) in (words.get(BOS), words.get(EOS))
        if word in words or (columns == 2 and number in lines and not markers):
            what, first = (f"word '{word}'", words[word]) if word in words else (f"number {number}", lines[number])
            raise MdiError(f"{path}:{at}: the {what} appears twice, here and on line {first}; keep one of the two")
        words[word] = at
        if columns == 2:
            lines[number] = at
            numbers.append(number)
    if not words:
        raise MdiError(f"{path}: no words; expected one per line, or Kaldi's words.txt")
    return list(words), numbers if columns == 2 else None


def read_words(path: str) -> list[str]:
    """The words of a list, or of Kaldi's words.txt without <eps>, #0 and the other disambiguation symbols."""
    words, numbers = read_word_file(path)
    return words if numbers is None else [word for word in words if not _NOT_A_WORD.fullmatch(word)]


def is_word(word: object) -> bool:
    """Whether files can hold it as one: a string without blanks, line ends or NUL bytes."""
    return isinstance(word, str) and bool(word) and not re.search(r"[ \t\r\n\0]", word)


def given_words(name: str, words: Any) -> list[str]:
    """The words of an argument of this name. A string or path by itself is the file of a list."""
    if isinstance(words, str | os.PathLike):
        return read_words(os.fspath(words))
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        raise OptionError(name, words, "a list of words, or the file of one")
    listed = list(words)
    for word in listed:
        if not is_word(word):
            raise OptionError(name, word, "words, without blanks in them")
    return listed


def model_vocabulary(words: list[str], unk: bool) -> Vocabulary:
    """<s>, </s>, and <unk> if wanted and not there yet under one of its names; then the words."""
    markers = [BOS, EOS] + ([] if not unk or any(name in words for name in UNKNOWN) else [UNKNOWN[0]])
    return vocabulary([*markers, *(word for word in words if word not in (BOS, EOS))])
