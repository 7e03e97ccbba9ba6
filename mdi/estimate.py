"""Counts to a back-off model: modified Kneser-Ney and Witten-Bell, as SRILM and KenLM estimate them.

    kn                p(w|h) = (c(hw) - D(c(hw))) / c(h.)                          SRILM's -kndiscount
    kn-interpolated   p(w|h) = (c(hw) - D(c(hw))) / c(h.) + g(h) p(w|h')           -kndiscount -interpolate; KenLM's lmplz
    wb                p(w|h) = c(hw) / (c(h.) + N1+(h.))                           -wbdiscount

c is the plain count in the highest order and, in Kneser-Ney, the number of words seen before hw below it (n-grams that begin
with <s> keep their counts); g(h) is what the discounts D free after h. D comes from the counts of counts (Chen and Goodman):

    Y = n1 / (n1 + 2 n2),   D1 = 1 - 2 Y n2/n1,   D2 = 2 - 3 Y n3/n2,   D3+ = 3 - 4 Y n4/n3

before n-grams seen less often than the order's least count are left out. Back-off weights then make every history sum to
one; what the unigrams leave over is shared by the words not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdi.counts import Counts
from mdi.errors import MdiError
from mdi.kernels import estimation as kernels
from mdi.model import NgramModel
from mdi.trie import NONE, Array, Trie, add_order, unigram_trie, with_histories

SMOOTHING = ("kn", "kn-interpolated", "wb")
# KenLM's --discount_fallback, for an order whose counts of counts give no discounts.
FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Discount:
    """D1, D2, D3+ of one order and the counts of counts n1 .. n4 behind them. `problem` says why they are the fall-back."""

    n: tuple[int, int, int, int]
    d: tuple[float, float, float]
    problem: str = ""

    def describe(self, k: int) -> str:
        names = ", ".join(f"{name}={value:.6g}" for name, value in zip(("D1", "D2", "D3+"), self.d, strict=True))
        counts = " ".join(f"n{i}={n}" for i, n in enumerate(self.n, 1))
        text = f"{k}-grams: {names} ({counts})"
        return f"{text}; {self.problem}: the fixed discounts were taken instead" if self.problem else text


@dataclass(frozen=True)
class Statistics:
    """What an estimate needs of the counts: the rows that are kept and those that close the trie, with their counts, and
    of all rows, kept or not, the statistics of each history (columns in mdi/kernels/estimation.py) and the counts of counts."""

    trie: Trie
    count: list[Array]  # count[k][r], k = 1..n
    history: list[Array]  # history[j][h], j = 0..n-1
    counts_of_counts: list[Array]  # [k][i], i = 1..4


@dataclass(frozen=True)
class Estimated:
    model: NgramModel
    discounts: list[Discount]  # of the orders 1..n; none for Witten-Bell
    left_over: float  # probability that the unigrams left over
    sharing: int  # words that share it


def default_min_counts(order: int) -> list[int]:
    """SRILM's: every unigram and bigram is kept, longer n-grams if they were seen twice."""
    return [1 if k <= 2 else 2 for k in range(1, order + 1)]


def discount_of(n: Array) -> Discount:
    """D1, D2, D3+ from n[1..4] where these allow it, as KenLM decides."""
    counts = tuple(int(value) for value in n[1:5])
    if not any(counts):
        return Discount(counts, FALLBACK)
    if not all(counts):
        missing = counts.index(0) + 1
        return Discount(counts, FALLBACK, f"no n-gram has a count of {missing}")
    y = counts[0] / (counts[0] + 2.0 * counts[1])
    d = tuple(i - (i + 1) * y * counts[i] / counts[i - 1] for i in (1, 2, 3))
    if not all(0.0 <= value <= i for i, value in enumerate(d, 1)):
        return Discount(counts, FALLBACK, "D1, D2, D3+ would be " + ", ".join(f"{value:.4g}" for value in d))
    return Discount(counts, d)


def _check(counts: Counts, smoothing: str) -> None:
    vocab, trie = counts.vocab, counts.trie
    for marker, found in (("<s>", vocab.bos), ("</s>", vocab.eos)):
        if found < 0:
            raise MdiError(f"no {marker} in the vocabulary; expected it, a model without it scores no sentence")
    for k in range(2, counts.order + 1):
        bad = np.flatnonzero((trie.word[k] == vocab.bos) & (counts.count[k] > 0))
        ended = trie.as_hist[k - 1][trie.word[k - 1] == vocab.eos]
        bad = bad if len(bad) else trie.begin[k][ended[np.diff(trie.begin[k])[ended] > 0]]
        if len(bad):
            ngram = vocab.spell(trie.ngrams(k, bad[:1])[0])
            raise MdiError(f"the counts have the {k}-gram '{ngram}'; expected <s> only as a first word, </s> only as a last one")
    if smoothing != "wb" and any(bool((c != np.floor(c)).any()) for c in counts.count[1:]):
        raise MdiError("the counts are not whole numbers; Kneser-Ney needs counts of counts, use --smoothing wb")


def _adjusted(counts: Counts) -> list[Array]:
    """Kneser-Ney's counts: of the words seen before an n-gram, in all orders but the highest."""
    trie, adjusted = counts.trie, [NONE]
    keeps_raw = np.zeros(1, np.bool_)
    for k in range(1, counts.order):
        c = kernels.continuation_counts(trie.suffix[k + 1], counts.count[k + 1], trie.begin[k], counts.count[k], keeps_raw)
        adjusted.append(c)
        from_bos = np.empty(trie.rows(k), np.bool_)
        from_bos[trie.as_hist[k]] = np.repeat(keeps_raw, np.diff(trie.begin[k])) if k > 1 else trie.word[1] == counts.vocab.bos
        keeps_raw = from_bos
    return [*adjusted, counts.count[counts.order]]


def statistics(counts: Counts, smoothing: str, min_counts: list[int]) -> Statistics:
    trie, order = counts.trie, counts.order
    count = counts.count if smoothing == "wb" else _adjusted(counts)
    history, n = [], [np.zeros(5, np.int64) for _ in range(order + 1)]
    for k in range(1, order + 1):
        history.append(kernels.history_statistics(trie.begin[k], trie.word[k], count[k], counts.vocab.bos, n[k]))
    wanted = [np.zeros(trie.rows(k), np.bool_) for k in range(order + 1)]
    wanted[1][:] = True
    for k in range(order, 1, -1):
        rows = trie.row_of_hist[k - 1]
        least = max(min_counts[k - 1], np.finfo(float).tiny)
        kernels.mark_needed(trie.begin[k], trie.suffix[k], rows, count[k], least, wanted[k], wanted[k - 1])
    kept = unigram_trie(trie.n_words)
    kept_count, kept_history = [NONE, count[1]], [history[0]]
    number = np.arange(trie.n_words, dtype=np.int32)
    for k in range(2, order + 1):
        kept = with_histories(kept)
        hist_wanted = wanted[k - 1][trie.row_of_hist[k - 1]]
        begin, word, suffix, new_count, new_history, number = kernels.select_rows(
            trie.begin[k], trie.word[k], trie.suffix[k], count[k], history[k - 1], wanted[k], hist_wanted, number
        )
        kept = add_order(kept, begin, word, suffix)
        kept_count.append(new_count)
        kept_history.append(new_history)
    return Statistics(kept, kept_count, kept_history, n)


def estimate(counts: Counts, smoothing: str = "kn", min_counts: list[int] | None = None) -> Estimated:
    """A closed model that sums to one. Only n-grams seen at least `min_counts[k - 1]` times keep a probability of their own."""
    _check(counts, smoothing)
    min_counts = default_min_counts(counts.order) if min_counts is None else min_counts
    return estimate_from(statistics(counts, smoothing, min_counts), counts.vocab, smoothing, min_counts)


def estimate_from(stats: Statistics, vocab, smoothing: str, min_counts: list[int]) -> Estimated:
    trie = stats.trie
    witten_bell, interpolate = smoothing == "wb", smoothing == "kn-interpolated"
    if stats.history[0][0, kernels.TOTAL] <= 0.0:
        raise MdiError("no events in the counts; expected text, or counts of all orders from 1 up")
    discounts = [] if witten_bell else [discount_of(n) for n in stats.counts_of_counts[1:]]
    d = [np.zeros(4) if witten_bell else np.array([0.0, *discounts[k].d]) for k in range(trie.order)]
    least = [max(float(value), np.finfo(float).tiny) for value in min_counts]
    p1, left_over, sharing = kernels.unigram_probs(
        stats.count[1], least[0], stats.history[0][0], vocab.bos, d[0], witten_bell, interpolate
    )
    p, bow = [NONE, p1], [np.ones(1)]
    n_events = trie.n_words - (vocab.bos >= 0)
    for k in range(2, trie.order + 1):
        p_k, bow_k = kernels.ngram_probs(
            trie.begin[k], trie.suffix[k], stats.count[k], least[k - 1], stats.history[k - 1],
            n_events, d[k - 1], witten_bell, interpolate, p[k - 1],
        )  # fmt: skip
        p.append(p_k)
        bow.append(bow_k)
    return Estimated(NgramModel(vocab, trie, p, bow), discounts, float(left_over), int(sharing))
