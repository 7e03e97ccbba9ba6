"""Counts of n-grams in text or in a count file, as a trie with a count per row.

Sentences are padded with one <s> and one </s>, as in SRILM's counts. Counts are real numbers: sums of lattice
posteriors are counts too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mdi.errors import MdiError, examples
from mdi.files import read_lines, writing
from mdi.kernels import sweeps
from mdi.kernels import tries as kernels
from mdi.text import Text, TextStats
from mdi.trie import NONE, Array, Trie, add_order, from_ngrams, missing_suffixes, unigram_trie, union, with_histories
from mdi.vocabulary import GrowingVocabulary, Vocabulary, to_str


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


def count_ids(ids: Array, order: int, n_words: int, bos: int) -> tuple[Trie, list[Array]]:
    """Counts one block of sentences. The k-grams are sorted by (history, word), which is the order of the trie's rows."""
    trie = unigram_trie(n_words)
    count = [NONE, np.bincount(ids[ids >= 0], minlength=n_words).astype(float)]
    row_at = ids  # row_at[i]: row of the (k-1)-gram that ends at token i, or -1
    hist_at = np.empty(len(ids), np.int32)
    for k in range(2, order + 1):
        trie = with_histories(trie)
        kernels.map_through(row_at, trie.as_hist[k - 1], hist_at)
        key, position = np.empty(len(ids), np.int64), np.empty(len(ids), np.int32)
        n = kernels.ngram_keys(ids, bos, hist_at, n_words, key, position)
        bits = int(trie.n_hist(k - 1) * n_words).bit_length()
        key, position = kernels.radix_sort(key[:n], position[:n], bits)
        longer_at = np.empty(len(ids), np.int32)
        begin, word, suffix, number = kernels.group_keys(key, position, n_words, trie.n_hist(k - 1), row_at, longer_at)
        trie = add_order(trie, begin, word, suffix)
        count.append(number)
        row_at = longer_at
    return trie, count


def merge_counts(a: tuple[Trie, list[Array]], b: tuple[Trie, list[Array]]) -> tuple[Trie, list[Array]]:
    """Sum of two counts; the vocabulary of one may have grown beyond that of the other."""
    n_words = max(a[0].n_words, b[0].n_words)
    joined = union(_widened(a[0], n_words), _widened(b[0], n_words))
    total = [NONE]
    for k in range(1, joined.trie.order + 1):
        sums = np.zeros(joined.trie.rows(k))
        for (trie, count), origin in ((a, joined.from_a[k]), (b, joined.from_b[k])):
            here = (origin >= 0) & (origin < trie.rows(k))
            sums[here] += count[k][origin[here]]
        total.append(sums)
    return joined.trie, total


def _widened(trie: Trie, n_words: int) -> Trie:
    """The same rows over a vocabulary with more words at its end."""
    more = n_words - trie.n_words
    if not more:
        return trie
    wide = unigram_trie(n_words)
    for k in range(2, trie.order + 1):
        wide = with_histories(wide)
        begin = trie.begin[k]
        if k == 2:  # the histories of length 1 are the words
            begin = np.concatenate([begin, np.full(more, begin[-1], np.int32)])
        wide = add_order(wide, begin, trie.word[k], trie.suffix[k])
    return wide


def count_text(
    paths: list[str], vocab: Vocabulary | GrowingVocabulary, order: int, oov: str = "map", block: int = 1 << 24
) -> Counts:
    """Counts the n-grams of text files in blocks of so many tokens: sorted runs that are merged as they come."""
    text = Text(paths, vocab, oov)
    grows = isinstance(vocab, GrowingVocabulary)
    runs: list[tuple[Trie, list[Array]]] = []
    waiting: list[Array] = []

    def flush() -> None:
        if not waiting:
            return
        ids = np.concatenate(waiting)
        waiting.clear()
        run = count_ids(ids, order, vocab.n if grows else len(vocab), 0 if grows else vocab.bos)
        # merge runs of like size, so that every n-gram is merged a logarithmic number of times
        while runs and sum(runs[-1][0].counts) <= 2 * sum(run[0].counts):
            run = merge_counts(runs.pop(), run)
        runs.append(run)

    for ids in text:
        waiting.append(ids)
        if sum(map(len, waiting)) >= block:
            flush()
    flush()
    while len(runs) > 1:
        last = runs.pop()
        runs.append(merge_counts(runs.pop(), last))
    trie, count = runs[0]
    final = vocab.freeze() if grows else vocab
    return Counts(final, trie, count, text.stats)


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
