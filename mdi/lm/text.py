"""Text to word ids: files with one sentence per line, words between blanks, maybe gzipped; or sentences in memory."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdi.errors import MdiError, check_choice, examples
from mdi.files import UTF16, not_utf8, read_chunks, whole_lines
from mdi.kernels import text as kernels
from mdi.kernels.types import Array
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, GrowingVocabulary, Vocabulary, is_word, to_str
from mdi.progress import Progress, get_logger

logger = get_logger(__name__)

# What becomes of words outside the vocabulary.
OOV = ("map", "drop", "error")
# What a vocabulary that grows from text begins with: ids 0, 1, 2.
SPECIAL = (BOS, EOS, UNKNOWN[0])
# Bytes read at once: under a million words.
_CHUNK = 1 << 22


@dataclass
class TextStats:
    """What was read. `oov_examples` are the first few words outside the vocabulary."""

    sentences: int = 0
    words: int = 0
    oov: int = 0
    oov_examples: list[str] = field(default_factory=list)

    def __add__(self, other: "TextStats") -> "TextStats":
        examples = list(dict.fromkeys([*self.oov_examples, *other.oov_examples]))[:5]
        sentences, words, oov = self.sentences + other.sentences, self.words + other.words, self.oov + other.oov
        return TextStats(sentences, words, oov, examples)


@dataclass(frozen=True)
class Sentences:
    """Text that is in memory already, in the form of a file."""

    data: bytes
    name: str = "the given sentences"

    def __str__(self) -> str:
        return self.name


TextLike = str | os.PathLike[str] | Sentences | Iterable["str | os.PathLike[str] | Sentences | Iterable[str]"]


def text_sources(text: TextLike) -> list[str | Sentences]:
    """The files or sentences that are meant.

    A string or path by itself is a file. Whatever gives strings (a list, a column of a table, an array, a generator) is
    sentences, of one word or of many; what gives paths is files. A list of words is a sentence too.
    """
    if isinstance(text, Sentences):
        return [text]
    if isinstance(text, str) and re.search(r"[ \t]", text) and not os.path.exists(text):
        raise MdiError(f"{text[:80]}: no such file; expected a file, or a list of sentences: [{text[:80]!r}]")
    if isinstance(text, str | os.PathLike):
        return [os.fspath(text)]
    no_list = isinstance(text, bytes) or not isinstance(text, Iterable) or getattr(text, "ndim", 1) == 0
    if no_list or hasattr(text, "columns"):
        what = "a table" if hasattr(text, "columns") else repr(text)
        raise MdiError(f"{what} as text; expected a file, a list of paths, or a list or column of sentences")
    items: list[object] = list(text)
    files: list[str | Sentences] = [
        item if isinstance(item, Sentences) else os.fspath(item)
        for item in items
        if isinstance(item, os.PathLike | Sentences)
    ]
    lines = [_sentence(item) for item in items if not isinstance(item, os.PathLike | Sentences)]
    if files and lines:
        raise MdiError(
            f"files and sentences in one text, {examples([str(files[0]), lines[0]])}; expected one of the two"
        )
    if lines:
        return [Sentences("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))]
    if not files:
        raise MdiError("no text; expected a file, a list of paths, or a list of sentences")
    return files


def rereadable(text: TextLike) -> TextLike:
    """The same for those who read it more than once: what a generator gives is kept."""
    return list(text) if isinstance(text, Iterator) else text


def _sentence(item: object) -> str:
    """A sentence as a line of text, from itself or from its words."""
    if isinstance(item, str):
        if re.search(r"[\r\n]", item):
            raise MdiError(f"a line break in the sentence {item!r}; expected one sentence each")
        return item
    if isinstance(item, bytes) or not isinstance(item, Iterable):
        raise MdiError(f"{item!r} as a sentence; expected a string, or a list of words")
    words: list[Any] = list(item)
    if odd := [word for word in words if not is_word(word)]:
        raise MdiError(f"{odd[0]!r} in the sentence {item!r}; expected a list of words, without blanks in them")
    return " ".join(words)


def line_blocks(source: str | Sentences, expected: str) -> Iterator[tuple[int, bytes]]:
    """(number of the first, whole lines) of a text file, some megabytes at a time."""
    number = 1
    chunks = [source.data] if isinstance(source, Sentences) else read_chunks(source, _CHUNK)
    for data in whole_lines(source, chunks, expected):
        if number == 1 and data[:2] in UTF16:
            raise MdiError(not_utf8(source, data))
        if b"\0" in data:
            number += data.count(b"\n", 0, data.index(b"\0"))
            raise MdiError(f"{source}:{number}: a NUL byte; expected {expected}")
        yield number, data
        number += data.count(b"\n")


class Text:
    """Iterates over blocks of ids; every line becomes <s> words </s>, blank lines are passed over.

    A `GrowingVocabulary` takes every word. With a fixed `Vocabulary`, words outside it become its <unk> (`oov` =
    "map"), the id -1, which belongs to no n-gram ("drop"), or an error ("error"). `stats` is complete once the
    iteration is.
    """

    def __init__(
        self, text: TextLike, vocab: Vocabulary | GrowingVocabulary, oov: str = "map", block: int = 1 << 22
    ) -> None:
        check_choice("oov", oov, OOV)
        self.sources, self.vocab, self.oov, self.block = text_sources(text), vocab, oov, block
        self.stats = TextStats()
        if isinstance(vocab, Vocabulary) and oov == "map" and vocab.unk < 0:
            self.oov = "drop"  # nothing to map to

    def __iter__(self) -> Iterator[Array]:
        out = np.empty(self.block, np.int32)
        progress = Progress("reading text", None, "words")
        for source in self.sources:
            before = self.stats.sentences
            utf8 = True
            for number, data in line_blocks(source, "text, one sentence per line"):
                if utf8 and not data.isascii():
                    utf8 = self._is_utf8(source, data, number)
                yield from self._ids(source, data, number, out)
                progress.update(self.stats.words)
            if self.stats.sentences == before:
                raise MdiError(f"{source}: no text; expected one sentence per line")
        progress.close()

    def _is_utf8(self, path: str | Sentences, data: bytes, number: int) -> bool:
        """Whether lines are UTF-8. Others are read as they are, which is right for a vocabulary of the same encoding;
        where there is no such vocabulary, they are named."""
        if not (what := not_utf8(path, data, number)):
            return True
        odd = (word for word in data.split() if not_utf8("", word, 0))
        if not isinstance(self.vocab, Vocabulary) or all(self.vocab.id(to_str(word)) < 0 for word in odd):
            logger.warning(f"WARNING: {what}")
        return False

    def _ids(self, path: str | Sentences, data: bytes, number: int, out: Array) -> Iterator[Array]:
        buffer = np.frombuffer(data, np.uint8)
        vocab, stats = self.vocab, self.stats
        markers = kernels.Markers(vocab.bos, vocab.eos, -1 if self.oov == "drop" else vocab.unk)
        at = 0
        while at < len(buffer):
            found = kernels.tokenize(buffer, at, len(buffer), vocab.arrays, markers, out)
            number += found.lines
            if found.unknown and len(stats.oov_examples) < 5:
                self._remember_unknown(data[at : max(found.line, at + 1)])
            stats.sentences += found.sentences
            stats.words += found.words
            stats.oov += found.unknown
            if found.unknown and self.oov == "error":
                words = examples(stats.oov_examples)
                raise MdiError(f"{path}: words outside the vocabulary, the first: {words}; add, map or drop them")
            if found.why == kernels.MARKER_INSIDE:
                line = to_str(data[found.line :].split(b"\n", 1)[0])
                raise MdiError(
                    f"{path}:{number}: {BOS} or {EOS} inside the line '{line[:80]}'; expected only at its ends"
                )
            if found.n:
                yield out[: found.n].copy()
            if found.why == kernels.FULL:
                size = kernels.line_bounds(buffer, found.line, len(buffer))[0] - found.line
                if isinstance(vocab, GrowingVocabulary):
                    vocab.make_room(max(1024, size // 2 + 2), size)
                if size // 2 + 4 > len(out):
                    out = np.empty(size // 2 + 4, np.int32)
            at = found.line

    def _remember_unknown(self, data: bytes) -> None:
        seen = self.stats.oov_examples
        assert isinstance(self.vocab, Vocabulary)  # noqa: S101 - one that grows knows every word
        for token in re.finditer(rb"[^ \t\r\n]+", data):
            word = to_str(token[0])
            if word not in seen and self.vocab.id(word) < 0:
                seen.append(word)
                if len(seen) == 5:
                    return
