"""Counts of n-grams in text or in a count file, as a trie with a count per row.

Sentences are padded with one <s> and one </s>, as in SRILM's counts. Counts are real numbers: sums of lattice
posteriors are counts too.
"""

import collections
import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mdi.errors import MdiError, check_choice, check_positive, check_whole, examples
from mdi.files import LONGEST_LINE, replacing, writing
from mdi.kernels import counts as kernels
from mdi.kernels.counts import CountedRows
from mdi.kernels.model import add_at
from mdi.kernels.text import FULL
from mdi.lm.external import PIECE, ExternalCounter, MergedRuns, SortedRun, joined, store, stored
from mdi.lm.shards import Job, in_order
from mdi.lm.text import OOV, SPECIAL, Text, TextLike, TextStats, line_blocks
from mdi.lm.trie import MAX_ORDER, NONE, Array, Trie, add_order, from_ngrams, locate, unigram_trie
from mdi.lm.vocabulary import GrowingVocabulary, Vocabulary, WordsLike, given_words, model_vocabulary, to_str

if TYPE_CHECKING:
    from mdi.lm.arpa_write import HasModel
    from mdi.lm.model import NgramModel

# A vocabulary, what has one, or words; None: every word of the text.
VocabularyLike: TypeAlias = "Vocabulary | GrowingVocabulary | NgramModel | HasModel | WordsLike | None"
# More than this many events nobody has counted.
MOST_EVENTS = 1e18
# What counting may take unless told otherwise.
MEMORY = 2 << 30
# Tokens that a worker is given at once.
TOKENS = 1 << 24
# Lines of a count file that are read at a time.
_LINES = 1 << 17


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

    def stream(self) -> "CountStream":
        n, t = self.order, self.trie
        lower = t if n == 1 else Trie(*(part[:n] for part in t.lists))
        top = CountedRows(0, t.begin[n], t.word[n], self.count[n])
        return CountStream(self.vocab, n, lower, self.count[: max(2, n)], lambda: iter([top]), self.stats)


@dataclass(frozen=True)
class CountStream:
    """Counts whose highest order may be too large for memory: the orders below it as a trie that is ready for it
    (`with_histories`), its own rows in pieces, once, when they are asked for."""

    vocab: Vocabulary
    order: int
    trie: Trie
    count: list[Array]
    top: Callable[[], Iterator[CountedRows]]
    stats: TextStats

    def gather(self) -> Counts:
        """All of it in memory."""
        if self.order == 1:
            return Counts(self.vocab, unigram_trie(len(self.vocab)), self.count, self.stats)
        begin, word, count = joined(self.top())
        return Counts(self.vocab, add_order(self.trie, begin, word), [*self.count, count], self.stats)


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
    check_whole("order", order, 1, MAX_ORDER)
    check_positive("memory", memory, "a number of bytes")
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


def count_part(prefix: str, sizes: list[int], order: int, n_words: int, bos: int, memory: int) -> SortedRun:
    """The run of the sentences in PREFIX.ids, blocks of these sizes, in files whose names begin with `prefix`, too.
    What a job has counted before it was stopped is not counted again."""
    done = Path(f"{prefix}.counted")
    if not done.exists():
        with ExternalCounter(order, bos, memory, os.path.dirname(prefix)) as counter:
            for ids in np.split(np.fromfile(f"{prefix}.ids", np.int32), np.cumsum(sizes)[:-1]):
                counter.add(ids, n_words)
            store(counter.merge(), prefix)
        done.touch()
    return stored(prefix, order)


@contextlib.contextmanager
def stream_blocks(
    text: TextLike, vocab: Vocabulary | GrowingVocabulary, order: int, oov: str, memory: int, job: Job
) -> Iterator[CountStream]:
    """The same by the workers of a job: each takes some sentences and leaves a sorted run."""
    source = Text(text, vocab, oov, min(TOKENS, 1 << 20))
    blocks, parts = iter(source), list[list[int]]()
    for first in blocks:
        with replacing(f"{job.folder}/c{len(parts)}.ids", sync=False) as stream:
            parts.append([])
            for ids in itertools.chain([first], blocks):
                stream.write(ids.data)
                parts[-1].append(len(ids))
                if sum(parts[-1]) >= TOKENS:
                    break
    calls = [
        (count_part, f"{job.folder}/c{i}", sizes, order, len(vocab), vocab.bos, memory) for i, sizes in enumerate(parts)
    ]
    merge = MergedRuns(list(in_order(calls, "counting")), order, len(vocab), PIECE)
    yield CountStream(vocab.freeze(), order, merge.trie, merge.count, merge.top, source.stats)


def count_text(
    text: TextLike, vocab: VocabularyLike = None, order: int = 3, oov: str = "map", memory: int = MEMORY
) -> Counts:
    """Counts the n-grams of a text, all of them in memory in the end.

    Parameters
    ----------
    text, vocab, order, memory
        As of `train`.
    oov
        Words outside `vocab` are mapped to <unk> ("map"), break the n-grams around them ("drop") or are an error
        ("error").

    Returns
    -------
    Counts
        For `train` and `adapt`.
    """
    with stream_text(text, as_vocabulary(vocab, oov), order, oov, memory) as stream:
        return stream.gather()


def as_vocabulary(vocab: VocabularyLike, oov: str) -> Vocabulary | GrowingVocabulary:
    """What may be given as a vocabulary, as one; without <unk> where words outside it are dropped."""
    if vocab is None:
        return GrowingVocabulary(SPECIAL)
    own = getattr(getattr(vocab, "model", vocab), "vocab", vocab)
    if isinstance(own, Vocabulary | GrowingVocabulary):
        return own
    return model_vocabulary(given_words("vocab", own), oov != "drop")


def read_counts(path: str, vocab: Vocabulary | GrowingVocabulary, order: int, oov: str = "map") -> Counts:
    """Reads an SRILM count file: the words of an n-gram, a tab, a count (whole or fractional). Longer n-grams are
    passed over.

    Words outside the vocabulary: "map" adds the n-gram to that of <unk>, "drop" leaves it out, "error" stops.
    """
    check_choice("oov", oov, OOV)
    ngrams = [[np.zeros((0, k), np.int32)] for k in range(1, order + 1)]
    number, stats = [[np.zeros(0)] for _ in range(order)], TextStats()
    for ids, length, value in _parsed_counts(path, vocab, order, oov, stats):
        good = (value > 0) & (np.where(np.arange(order) < length[:, None], ids, 0) >= 0).all(axis=1)
        for k in range(1, order + 1):
            mine = np.flatnonzero(good & (length == k))
            ngrams[k - 1].append(ids[mine, :k])
            number[k - 1].append(value[mine])
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
    return replace(counts, stats=stats)


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


def _parsed_counts(
    path: str, vocab: Vocabulary | GrowingVocabulary, order: int, oov: str, stats: TextStats
) -> Iterator[tuple[Array, Array, Array]]:
    """(words, their number, count) of some lines at a time. The arrays are filled again for the next ones."""
    unk = -1 if isinstance(vocab, GrowingVocabulary) or oov != "map" else vocab.unk
    out = kernels.CountLines(
        ids=np.empty((_LINES, order), np.int32),
        length=np.empty(_LINES, np.int8),
        number=np.empty(_LINES),
        unknown=np.empty(5, np.int64),
    )
    for line, data in line_blocks(path, "the words of an n-gram and its count per line"):
        buffer, at = np.frombuffer(data, np.uint8), 0
        while at < len(buffer):
            found = kernels.parse_counts(buffer, at, len(buffer), vocab.arrays, unk, out)
            at = found.line
            line += found.lines
            for start in out.unknown[: found.unknown].tolist():
                word = to_str(re.split(rb"[ \t\r\n]", data[start : start + LONGEST_LINE], maxsplit=1)[0])
                if len(stats.oov_examples) < 5 and word not in stats.oov_examples:
                    stats.oov_examples.append(word)
            stats.oov += int(min(found.lost, MOST_EVENTS))
            if found.unknown and oov == "error":
                words = examples(stats.oov_examples)
                raise MdiError(f"{path}: words outside the vocabulary, such as {words}; add, map or drop them")
            if found.why == kernels.BAD_COUNT:
                text = to_str(data[at:].split(b"\n", 1)[0])
                raise MdiError(
                    f"{path}:{line}: '{text[:80]}'; expected the words of an n-gram and a count of 0 or more"
                )
            yield out.ids[: found.n], out.length[: found.n], out.number[: found.n]
            if found.why == FULL and isinstance(vocab, GrowingVocabulary):
                stop = data.find(b"\n", at)
                vocab.make_room(order + 1024, stop - at + 1024)


def counts_of(vocab: Vocabulary, ngrams: list[Array], number: Iterable[Iterable[float]]) -> Counts:
    """Counts of listed n-grams (repeats are added up), with rows of count 0 where the trie must be closed."""
    trie, count = from_ngrams(len(vocab), ngrams), [NONE]
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
    runs = [SortedRun(part.trie.begin, part.trie.word, part.count) for part in (a, scaled_counts(b, weight))]
    merge = MergedRuns(runs, a.order, len(a.vocab))
    return CountStream(a.vocab, a.order, merge.trie, merge.count, merge.top, a.stats + b.stats).gather()


def less(a: Counts, b: Counts) -> Counts:
    """a - b, where b's counts are part of a's; what rounding leaves of nothing is nothing."""
    count, where = [part.copy() for part in a.count], locate(b.trie, a.trie)
    for k in range(1, b.order + 1):
        left = count[k][where[k]] - b.count[k]
        count[k][where[k]] = np.where(left > 1e-9, left, 0.0)
    one, other = a.stats, b.stats
    stats = TextStats(one.sentences - other.sentences, one.words - other.words, one.oov - other.oov, one.oov_examples)
    return Counts(a.vocab, a.trie, count, stats)


@contextlib.contextmanager
def writing_counts(counts: CountStream, path: str) -> Iterator[CountStream]:
    """The same counts, written to `path` (SRILM's format, by order) as they are used: all of them once the highest
    order has passed by."""
    trie, words, spelling, out = counts.trie, counts.vocab.arrays, counts.trie.spelling(), np.empty(1 << 20, np.uint8)

    def write(k: int, rows: CountedRows) -> CountedRows:
        nonlocal out
        counted, row = rows._replace(number=rows.number.astype(float)), 0
        while row < len(rows.word):
            before = row
            row, size = kernels.format_counts(counted, k, row, spelling, words, out)
            if row == before:  # a word longer than all of `out`
                out = np.empty(2 * len(out), np.uint8)
            stream.write(out[:size].data)
        return rows

    with writing(path) as stream:
        for k in range(1, max(2, counts.order)):
            write(k, CountedRows(0, trie.begin[k], trie.word[k], counts.count[k]))

        def top() -> Iterator[CountedRows]:
            return (write(counts.order, rows) for rows in counts.top())

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
        add_at(counts.trie.suffix[k], -counts.count[k], left[k - 1])
    if counts.vocab.bos >= 0:
        left[1][counts.vocab.bos] = 0.0  # <s> is not an event
    return left
