"""Counts of n-grams in text or in a count file, as a trie with a count per row.

Sentences are padded with one <s> and one </s>, as in SRILM's counts. Counts are real numbers: sums of lattice
posteriors are counts too.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import numpy as np

from mdi.errors import MdiError, OptionError, check_choice, examples
from mdi.files import read_chunks, writing
from mdi.kernels import counts as kernels
from mdi.kernels.model import subtract_at
from mdi.kernels.text import FULL
from mdi.lm.external import ExternalCounter, Rows
from mdi.lm.text import LONGEST_LINE, OOV, SPECIAL, Text, TextLike, TextStats
from mdi.lm.trie import (
    MAX_ORDER,
    NONE,
    Array,
    Trie,
    add_order,
    from_ngrams,
    locate,
    missing_suffixes,
    unigram_trie,
    union,
)
from mdi.lm.vocabulary import GrowingVocabulary, Vocabulary, model_vocabulary, read_words, to_str

# More than this many events nobody has counted.
MOST_EVENTS = 1e18
# What counting may take unless told otherwise.
MEMORY = 2 << 30


@dataclass(frozen=True, repr=False, eq=False)
class Counts:
    """count[k][r] for the rows of a closed trie."""

    vocab: Vocabulary
    trie: Trie
    count: list[Array]
    stats: TextStats = field(default_factory=TextStats)

    @property
    def order(self) -> int:
        return self.trie.order

    def __repr__(self) -> str:
        found = " / ".join(f"{n:,}" for n in self.trie.counts)
        return f"<Counts of {self.stats.sentences:,} sentences, {self.stats.words:,} words: {found} n-grams>"

    def stream(self) -> CountStream:
        n, t = self.order, self.trie
        lower = t if n == 1 else Trie(t.begin[:n], t.word[:n], t.suffix[:n], t.as_hist[:n], t.back[:n])
        return CountStream(
            self.vocab,
            n,
            lower,
            self.count[: max(2, n)],
            lambda: iter([Rows(0, t.begin[n], t.word[n], self.count[n])]),
            self.stats,
        )


@dataclass(frozen=True)
class CountStream:
    """Counts whose highest order may be too large for memory: the orders below it as a trie that is ready for it
    (`with_histories`), its own rows in pieces, once, when they are asked for."""

    vocab: Vocabulary
    order: int
    trie: Trie
    count: list[Array]
    top: Callable[[], Iterator[Rows]]
    stats: TextStats

    def gather(self) -> Counts:
        """All of it in memory."""
        if self.order == 1:
            return Counts(self.vocab, unigram_trie(len(self.vocab)), self.count, self.stats)
        begin, word, count = [np.zeros(1, np.int32)], [], []
        for rows in self.top():
            begin.append(rows.begin[1:] + begin[-1][-1])
            word.append(rows.word)
            count.append(rows.count.astype(float))
        trie = add_order(self.trie, np.concatenate(begin), np.concatenate(word))
        return Counts(self.vocab, trie, [*self.count, np.concatenate(count)], self.stats)


@contextlib.contextmanager
def stream_text(
    text: TextLike,
    vocab: Vocabulary | GrowingVocabulary,
    order: int,
    oov: str = "map",
    memory: int = MEMORY,
    folder: str | None = None,
) -> Iterator[CountStream]:
    """Counts the n-grams of text files in about so many bytes of memory; what does not fit goes to `folder` for the
    while."""
    if not 1 <= order <= MAX_ORDER:
        raise OptionError("order", order, f"1 to {MAX_ORDER}")
    with ExternalCounter(order, vocab.bos, memory, folder) as runs:
        source = Text(text, vocab, oov, runs.block)
        waiting: list[Array] = []
        for ids in source:
            waiting.append(ids)
            if 2 * sum(map(len, waiting)) >= runs.block:
                runs.add(np.concatenate(waiting), len(vocab))
                waiting.clear()
        if waiting:
            runs.add(np.concatenate(waiting), len(vocab))
        merge = runs.merge()
        yield CountStream(vocab.freeze(), order, merge.trie, merge.count, merge.top, source.stats)


def count_text(
    text: TextLike,
    vocab: Vocabulary | GrowingVocabulary | str | os.PathLike | Iterable[str] | None = None,
    order: int = 3,
    oov: str = "map",
    memory: int = MEMORY,
) -> Counts:
    """Counts the n-grams of a text, all of them in memory in the end.

    `text`: a file, files, or sentences (see `mdi.lm.text.text_sources`). `vocab`: a vocabulary such as `model.vocab`, a
    word list or the file of one; None takes every word. `oov`: words outside it are mapped to <unk> ("map"), break the
    n-grams around them ("drop") or are an error ("error"). `memory`: bytes; what does not fit goes to disk meanwhile.
    """
    with stream_text(text, as_vocabulary(vocab, oov), order, oov, memory) as stream:
        return stream.gather()


def as_vocabulary(
    vocab: Vocabulary | GrowingVocabulary | str | os.PathLike | Iterable[str] | None, oov: str
) -> Vocabulary | GrowingVocabulary:
    """What may be given as a vocabulary, as one; without <unk> where words outside it are dropped."""
    if vocab is None:
        return GrowingVocabulary(SPECIAL)
    if isinstance(vocab, Vocabulary | GrowingVocabulary):
        return vocab
    words = read_words(os.fspath(vocab)) if isinstance(vocab, str | os.PathLike) else list(vocab)
    return model_vocabulary(words, oov != "drop")


def read_counts(path: str, vocab: Vocabulary | GrowingVocabulary, order: int, oov: str = "map") -> Counts:
    """Reads an SRILM count file: the words of an n-gram, a tab, a count (whole or fractional). Longer n-grams are
    passed over.

    Words outside the vocabulary: "map" adds the n-gram to that of <unk>, "drop" leaves it out, "error" stops.
    """
    check_choice("oov", oov, OOV)
    ngrams, number, stats = _CountReader(path, vocab, order, oov).read()
    if not sum(map(len, ngrams[0])):
        raise MdiError(
            f"{path}: no 1-grams; expected counts of all orders from 1 to {order}, as from ngram-count -write"
        )
    final = vocab.freeze()
    if any(not (part <= MOST_EVENTS).all() or part.sum() > MOST_EVENTS for part in number[0]):
        raise MdiError(f"{path}: the counts sum to more than {MOST_EVENTS:g}; expected how often n-grams were seen")
    counts = counts_of(final, [np.concatenate(part) for part in ngrams], [np.concatenate(part) for part in number])
    _check_markers(counts, path)
    predicted = counts.count[1].sum() - (counts.count[1][final.bos] if final.bos >= 0 else 0)
    stats.sentences = int(counts.count[1][final.eos]) if final.eos >= 0 else 0
    stats.words = int(predicted) - stats.sentences
    return Counts(counts.vocab, counts.trie, counts.count, stats)


def _check_markers(counts: Counts, path: str) -> None:
    """Refuses n-grams that no sentence has."""
    vocab, trie = counts.vocab, counts.trie
    for k in range(2, counts.order + 1):
        ended = trie.as_hist[k - 1][trie.word[k - 1] == vocab.eos]
        bad = [*np.flatnonzero(trie.word[k] == vocab.bos), *trie.begin[k][ended[np.diff(trie.begin[k])[ended] > 0]]]
        if bad:
            ngram = vocab.spell(trie.ngrams(k, np.array(bad[:1]))[0])
            raise MdiError(
                f"{path}: the {k}-gram '{ngram}'; expected <s> only as a first word and </s> only as a last one"
            )


class _CountReader:
    ROOM = 1 << 17

    def __init__(self, path: str, vocab: Vocabulary | GrowingVocabulary, order: int, oov: str) -> None:
        self.path, self.vocab, self.order, self.oov = path, vocab, order, oov
        self.grows = isinstance(vocab, GrowingVocabulary)
        self.ngrams = [[np.zeros((0, k), np.int32)] for k in range(1, order + 1)]
        self.number = [[np.zeros(0)] for _ in range(order)]
        self.stats = TextStats()

    def read(self) -> tuple[list[list[Array]], list[list[Array]], TextStats]:
        rest, line = b"", 1
        for chunk in read_chunks(self.path, 1 << 22):
            data = rest + chunk
            cut = data.rfind(b"\n") + 1
            rest = data[cut:]
            if len(rest) > LONGEST_LINE:
                raise MdiError(
                    f"{self.path}: a line of over {LONGEST_LINE:,} bytes; expected an n-gram and its count per line"
                )
            line = self._lines(data[:cut], line)
        if rest:
            self._lines(rest + b"\n", line)
        return self.ngrams, self.number, self.stats

    def _lines(self, data: bytes, line: int) -> int:
        if b"\0" in data:
            at = line + data[: data.index(b"\0")].count(b"\n")
            raise MdiError(f"{self.path}:{at}: a NUL byte; expected the words of an n-gram and its count per line")
        if line == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        buffer, vocab = np.frombuffer(data, np.uint8), self.vocab
        unk = -1 if self.grows or self.oov != "map" else vocab.unk
        out = kernels.CountLines(
            ids=np.empty((self.ROOM, self.order), np.int32),
            length=np.empty(self.ROOM, np.int8),
            number=np.empty(self.ROOM),
            unknown=np.empty(5, np.int64),
        )
        at = 0
        while at < len(buffer):
            found = kernels.parse_counts(buffer, at, len(buffer), vocab.arrays, unk, out)
            at = found.line
            line += found.lines
            for start in out.unknown[: found.unknown].tolist():
                word = to_str(re.split(rb"[ \t\r\n]", data[start : start + LONGEST_LINE], maxsplit=1)[0])
                if len(self.stats.oov_examples) < 5 and word not in self.stats.oov_examples:
                    self.stats.oov_examples.append(word)
            self.stats.oov += int(min(found.lost, MOST_EVENTS))
            if found.unknown and self.oov == "error":
                words = examples(self.stats.oov_examples)
                raise MdiError(
                    f"{self.path}: words outside the vocabulary, such as {words}; add them, or use --oov map or drop"
                )
            if found.why == kernels.BAD_COUNT:
                text = to_str(data[at:].split(b"\n", 1)[0])
                raise MdiError(
                    f"{self.path}:{line}: '{text[:80]}'; expected the words of an n-gram and a count of 0 or more"
                )
            ids, length, number = (part[: found.n] for part in out[:3])
            good = (number > 0) & (np.where(np.arange(self.order) < length[:, None], ids, 0) >= 0).all(axis=1)
            for k in range(1, self.order + 1):
                mine = np.flatnonzero(good & (length == k))
                self.ngrams[k - 1].append(ids[mine, :k])
                self.number[k - 1].append(number[mine])
            if found.why == FULL and isinstance(vocab, GrowingVocabulary):
                stop = data.find(b"\n", at)
                vocab.make_room(self.order + 1024, stop - at + 1024)
        return line


def counts_of(vocab: Vocabulary, ngrams: list[Array], number: Iterable[Iterable[float]]) -> Counts:
    """Counts of listed n-grams (repeats are added up), with rows of count 0 where the trie must be closed."""
    trie = from_ngrams(len(vocab), ngrams)
    lost = missing_suffixes(trie)
    if any(len(part) for part in lost):
        trie = union(trie, from_ngrams(len(vocab), lost)).trie
    count = [NONE]
    for k, values in enumerate(number, 1):
        rows = trie.find(ngrams[k - 1])
        count.append(np.bincount(rows, weights=np.asarray(values, float), minlength=trie.rows(k)))
    return Counts(vocab, trie, count)


def over_words(counts: Counts, vocab: Vocabulary, oov: str = "map") -> Counts:
    """The same counts over another vocabulary. Words outside it are mapped to its <unk> ("map", where it has one),
    break the n-grams around them ("drop") or are an error ("error")."""
    check_choice("oov", oov, OOV)
    ids = vocab.ids_of(counts.vocab)
    outside = np.flatnonzero((ids < 0) & (counts.count[1] > 0))
    unknown = outside[outside != counts.vocab.unk]
    words, old = [counts.vocab.word(int(w)) for w in unknown[:5]], counts.stats
    lost = round(float(counts.count[1][unknown].sum()))
    if lost and oov == "error":
        raise MdiError(f"words outside the vocabulary, such as {examples(words)}; add them, map them or drop them")
    if oov == "map":
        ids[ids < 0] = vocab.unk
    ngrams, number = [], []
    for k in range(1, counts.order + 1):
        rows = np.flatnonzero(counts.count[k] > 0).astype(np.int32)
        listed = ids[counts.trie.ngrams(k, rows)].reshape(-1, k)
        known = (listed >= 0).all(axis=1)
        ngrams.append(listed[known])
        number.append(counts.count[k][rows[known]])
    stats = TextStats(old.sentences, old.words, old.oov + lost, [*old.oov_examples, *words][:5])
    return replace(counts_of(vocab, ngrams, number), stats=stats)


def scaled_counts(counts: Counts, weight: float) -> Counts:
    """Every count times `weight`."""
    return replace(counts, count=[NONE, *(weight * part for part in counts.count[1:])])


def add_counts(a: Counts, b: Counts, weight: float = 1.0) -> Counts:
    """a + weight * b, both over the same words and of the same order."""
    both, count = union(a.trie, b.trie), [NONE]
    for k in range(1, both.trie.order + 1):
        parts = (np.append(c.count[k], 0.0)[rows[k]] for c, rows in ((a, both.from_a), (b, both.from_b)))
        count.append(next(parts) + weight * next(parts))
    one, other = a.stats, b.stats
    stats = TextStats(
        one.sentences + other.sentences,
        one.words + other.words,
        one.oov + other.oov,
        list(dict.fromkeys([*one.oov_examples, *other.oov_examples]))[:5],
    )
    return Counts(a.vocab, both.trie, count, stats)


def less(a: Counts, b: Counts) -> Counts:
    """a - b, where b's counts are part of a's; what rounding leaves of nothing is nothing."""
    count, where = [part.copy() for part in a.count], locate(b.trie, a.trie)
    for k in range(1, b.order + 1):
        left = count[k][where[k]] - b.count[k]
        count[k][where[k]] = np.where(left > 1e-9, left, 0.0)
    one, other = a.stats, b.stats
    stats = TextStats(one.sentences - other.sentences, one.words - other.words, one.oov - other.oov, one.oov_examples)
    return Counts(a.vocab, a.trie, count, stats)


class _CountWriter:
    """Writes n-grams and their counts a piece at a time, in SRILM's format."""

    def __init__(self, counts: CountStream, stream: BinaryIO) -> None:
        self.words, self.spelling, self.stream = counts.vocab.arrays, counts.trie.spelling(), stream
        self.out = np.empty(1 << 20, np.uint8)

    def add(self, k: int, rows: Rows) -> None:
        counted = kernels.CountedRows(rows.first, rows.begin, rows.word, rows.count.astype(float))
        row = 0
        while row < len(rows.word):
            before = row
            row, size = kernels.format_counts(counted, k, row, self.spelling, self.words, self.out)
            if row == before:  # a word longer than all of `out`
                self.out = np.empty(2 * len(self.out), np.uint8)
            self.stream.write(self.out[:size].data)


@contextlib.contextmanager
def writing_counts(counts: CountStream, path: str) -> Iterator[CountStream]:
    """The same counts, written to `path` (SRILM's format, by order) as they are used: all of them once the highest
    order has passed by."""
    with writing(path) as stream:
        writer = _CountWriter(counts, stream)
        for k in range(1, max(2, counts.order)):
            writer.add(k, Rows(0, counts.trie.begin[k], counts.trie.word[k], counts.count[k]))

        def top() -> Iterator[Rows]:
            for rows in counts.top():
                writer.add(counts.order, rows)
                yield rows

        yield replace(counts, top=top)


def write_counts(counts: Counts, path: str) -> None:
    with writing_counts(counts.stream(), path) as stream:
        if counts.order > 1:
            collections.deque(stream.top(), maxlen=0)


def unextended(counts: Counts) -> list[Array]:
    """For every row hw: how many of its events have just h as their history, because the sentence (or a word that was
    dropped) begins before h, or because h is as long as histories get:

        count(hw) - sum over rows xhw of count(xhw),    and count(hw) itself in the highest order.
    """
    left = [NONE, *(c.copy() for c in counts.count[1:])]
    for k in range(2, counts.order + 1):
        subtract_at(counts.trie.suffix[k], counts.count[k], left[k - 1])
    if counts.vocab.bos >= 0:
        left[1][counts.vocab.bos] = 0.0  # <s> is not an event
    return left
