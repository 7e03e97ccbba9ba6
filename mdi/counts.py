"""Counts of n-grams in text or in a count file, as a trie with a count per row.

Sentences are padded with one <s> and one </s>, as in SRILM's counts. Counts are real numbers: sums of lattice
posteriors are counts too.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from mdi.errors import MdiError, examples
from mdi.files import read_lines, writing
from mdi.kernels import sweeps
from mdi.runs import Rows, Runs
from mdi.text import Text, TextStats
from mdi.trie import NONE, Array, Trie, add_order, from_ngrams, missing_suffixes, unigram_trie, union
from mdi.vocabulary import GrowingVocabulary, Vocabulary, to_str

# What counting may take unless told otherwise.
MEMORY = 2 << 30


@dataclass(frozen=True)
class Counts:
    """count[k][r] for the rows of a closed trie."""

    vocab: Vocabulary
    trie: Trie
    count: list[Array]
    stats: TextStats = field(default_factory=TextStats)

    @property
    def order(self) -> int:
        return self.trie.order

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
    paths: list[str],
    vocab: Vocabulary | GrowingVocabulary,
    order: int,
    oov: str = "map",
    memory: int = MEMORY,
    folder: str | None = None,
) -> Iterator[CountStream]:
    """Counts the n-grams of text files in about so many bytes of memory; what does not fit goes to `folder` for the while."""
    grows = isinstance(vocab, GrowingVocabulary)
    with Runs(order, 0 if grows else vocab.bos, memory, folder) as runs:
        text = Text(paths, vocab, oov, runs.block)
        waiting: list[Array] = []
        for ids in text:
            waiting.append(ids)
            if 2 * sum(map(len, waiting)) >= runs.block:
                runs.add(np.concatenate(waiting), vocab.n if grows else len(vocab))
                waiting.clear()
        if waiting:
            runs.add(np.concatenate(waiting), vocab.n if grows else len(vocab))
        merge = runs.merge()
        yield CountStream(vocab.freeze() if grows else vocab, order, merge.trie, merge.count, merge.top, text.stats)


def count_text(
    paths: list[str], vocab: Vocabulary | GrowingVocabulary, order: int, oov: str = "map", memory: int = MEMORY
) -> Counts:
    """Counts the n-grams of text files, all of them in memory in the end."""
    with stream_text(paths, vocab, order, oov, memory) as stream:
        return stream.gather()


def read_counts(path: str, vocab: Vocabulary, order: int, oov: str = "map") -> Counts:
    """Reads an SRILM count file: the words of an n-gram, a tab, a count (whole or fractional). Longer n-grams are passed over.

    Words outside the vocabulary: "map" adds the n-gram to that of <unk>, "drop" leaves it out, "error" stops.
    """
    unk = vocab.unk if oov == "map" else -1
    ids: list[list[list[int]]] = [[] for _ in range(order)]
    number: list[list[float]] = [[] for _ in range(order)]
    known: dict[str, int] = {}
    unknown: list[str] = []
    stats = TextStats()
    for at, line in enumerate(read_lines(path), 1):
        fields = [f for f in re.split(r"[ \t]+", to_str(line)) if f]
        if not fields:
            continue
        try:
            count = float(fields[-1])
        except ValueError:
            count = -1.0
        if len(fields) < 2 or not np.isfinite(count) or count < 0:
            raise MdiError(f"{path}:{at}: '{to_str(line)[:80]}'; expected the words of an n-gram and a count of 0 or more")
        if len(fields) - 1 > order:
            continue
        ngram = []
        for word in fields[:-1]:
            w = known.get(word)
            if w is None:
                w = known[word] = vocab.id(word)
                if w < 0:
                    unknown.append(word)
                    known[word] = w = unk
            ngram.append(w)
        if len(ngram) == 1 and ngram[0] in (-1, unk) and fields[0] not in ("<unk>", "<UNK>"):
            stats.oov += int(count)
        if min(ngram) >= 0 and count > 0:
            ids[len(ngram) - 1].append(ngram)
            number[len(ngram) - 1].append(count)
    if unknown and oov == "error":
        raise MdiError(f"{path}: words outside the vocabulary: {examples(unknown)}; use --oov map or drop")
    stats.oov_examples = unknown[:5]
    if not ids[0]:
        raise MdiError(f"{path}: no 1-grams; expected counts of all orders from 1 to {order}, as from ngram-count -write")
    counts = counts_of(vocab, [np.array(part, np.int32).reshape(-1, k + 1) for k, part in enumerate(ids)], number)
    predicted = counts.count[1].sum() - (counts.count[1][vocab.bos] if vocab.bos >= 0 else 0)
    stats.sentences = int(counts.count[1][vocab.eos]) if vocab.eos >= 0 else 0
    stats.words = int(predicted) - stats.sentences
    return Counts(counts.vocab, counts.trie, counts.count, stats)


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


def write_counts(counts: Counts, path: str) -> None:
    """SRILM's count format, by order."""
    words = counts.vocab.words
    with writing(path) as stream:
        for k in range(1, counts.order + 1):
            for start in range(0, counts.trie.rows(k), 1 << 16):
                rows = np.arange(start, min(start + (1 << 16), counts.trie.rows(k)), dtype=np.int32)
                rows = rows[counts.count[k][rows] > 0]
                lines = (
                    " ".join(words[w] for w in ngram) + f"\t{value:.10g}\n"
                    for ngram, value in zip(counts.trie.ngrams(k, rows).tolist(), counts.count[k][rows].tolist(), strict=True)
                )
                stream.write("".join(lines).encode("utf-8", "surrogateescape"))


def unextended(counts: Counts) -> list[Array]:
    """For every row hw: how many of its events have just h as their history, because the sentence (or a word that was
    dropped) begins before h, or because h is as long as histories get:

        count(hw) - sum over rows xhw of count(xhw),    and count(hw) itself in the highest order.
    """
    left = [NONE, *(c.copy() for c in counts.count[1:])]
    for k in range(2, counts.order + 1):
        sweeps.subtract_at(counts.trie.suffix[k], counts.count[k], left[k - 1])
    if counts.vocab.bos >= 0:
        left[1][counts.vocab.bos] = 0.0  # <s> is not an event
    return left
