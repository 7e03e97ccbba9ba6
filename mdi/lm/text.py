"""Text to word ids: one sentence a line, words separated by blanks, plain or gzipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from mdi.errors import MdiError, examples
from mdi.files import read_chunks
from mdi.kernels import text as kernels
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, GrowingVocabulary, Vocabulary, to_str
from mdi.progress import Progress

# What a vocabulary that grows from text begins with: ids 0, 1, 2.
SPECIAL = (BOS, EOS, UNKNOWN[0])
# Beyond this a file is not one sentence a line.
LONGEST_LINE = 1 << 26
# Bytes read at once: under a million words.
_CHUNK = 1 << 22


@dataclass
class TextStats:
    """What was read. `oov_examples` are the first few words outside the vocabulary."""

    sentences: int = 0
    words: int = 0
    oov: int = 0
    oov_examples: list[str] = field(default_factory=list)


class Text:
    """Iterates over blocks of ids; every line becomes <s> words </s>, blank lines are passed over.

    A `GrowingVocabulary` takes every word. With a fixed `Vocabulary`, words outside it become its <unk> (`oov` =
    "map"), the id -1, which belongs to no n-gram ("drop"), or an error ("error"). `stats` is complete once the
    iteration is.
    """

    def __init__(
        self, paths: list[str], vocab: Vocabulary | GrowingVocabulary, oov: str = "map", block: int = 1 << 22
    ) -> None:
        self.paths, self.vocab, self.oov, self.block = paths, vocab, oov, block
        self.stats = TextStats()
        if isinstance(vocab, Vocabulary) and oov == "map" and vocab.unk < 0:
            self.oov = "drop"  # a closed vocabulary: nothing to map to

    def __iter__(self) -> Iterator[np.ndarray]:
        out = np.empty(self.block, np.int32)
        progress = Progress("reading text", None, "words")
        for path in self.paths:
            before = self.stats.sentences
            rest, number, first = b"", 1, True
            for chunk in read_chunks(path, _CHUNK):
                if b"\0" in chunk:
                    raise MdiError(f"{path}: contains a NUL byte; expected text, one sentence a line")
                if first and chunk.startswith(b"\xef\xbb\xbf"):
                    chunk = chunk[3:]
                first = False
                data = rest + chunk
                cut = data.rfind(b"\n") + 1
                rest = data[cut:]
                if len(rest) > LONGEST_LINE:
                    raise MdiError(f"{path}: a line of over {LONGEST_LINE:,} bytes; expected one sentence a line")
                if cut:
                    number = yield from self._ids(path, data[:cut], number, out)
                progress.update(self.stats.words)
            if rest:
                yield from self._ids(path, rest + b"\n", number, out)
            if self.stats.sentences == before:
                raise MdiError(f"{path}: no text; expected one sentence a line")
        progress.close()

    def _ids(self, path: str, data: bytes, number: int, out: np.ndarray):
        buffer = np.frombuffer(data, np.uint8)
        vocab, stats = self.vocab, self.stats
        grow = isinstance(vocab, GrowingVocabulary)
        markers = kernels.Markers(0, 1, 2) if grow else kernels.Markers(vocab.bos, vocab.eos, vocab.unk)
        if self.oov == "drop":
            markers = markers._replace(unk=-1)
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
                raise MdiError(
                    f"{path}: words outside the vocabulary, the first: {words}; add them, or use --oov map or drop"
                )
            if found.why == kernels.MARKER_INSIDE:
                line = to_str(data[found.line :].split(b"\n", 1)[0])
                raise MdiError(
                    f"{path}:{number}: {BOS} or {EOS} inside the line '{line[:80]}'; expected only at its ends"
                )
            if found.n:
                yield out[: found.n].copy()
            if found.why == kernels.FULL:
                size = kernels.line_bounds(buffer, found.line, len(buffer))[0] - found.line
                if grow:
                    vocab.make_room(max(1024, size), size)
                if size // 2 + 4 > len(out):
                    out = np.empty(size // 2 + 4, np.int32)
            at = found.line
        return number

    def _remember_unknown(self, data: bytes) -> None:
        seen = self.stats.oov_examples
        for token in re.finditer(rb"[^ \t\r\n]+", data):
            word = to_str(token[0])
            if word not in seen and self.vocab.id(word) < 0:
                seen.append(word)
                if len(seen) == 5:
                    return
