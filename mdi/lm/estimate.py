"""Counts to a back-off model: modified Kneser-Ney and Witten-Bell, as SRILM and KenLM estimate them.

    kn                p(w|h) = (c(hw) - D(c(hw))) / c(h.)                  SRILM's -kndiscount
    kn-interpolated   p(w|h) = (c(hw) - D(c(hw))) / c(h.) + g(h) p(w|h')   -kndiscount -interpolate; KenLM's lmplz
    wb                p(w|h) = c(hw) / (c(h.) + N1+(h.))                   -wbdiscount

c is the plain count in the highest order and, in Kneser-Ney, the number of words seen before hw below it (n-grams that
begin with <s> keep their counts); g(h) is what the discounts D free after h. D comes from the counts of counts (Chen
and Goodman):

    Y = n1 / (n1 + 2 n2),   D1 = 1 - 2 Y n2/n1,   D2 = 2 - 3 Y n3/n2,   D3+ = 3 - 4 Y n4/n3

before n-grams seen less often than the order's least count are left out. Back-off weights then make every history sum
to one; what the unigrams leave over is shared by the words not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError, check_choice
from mdi.kernels import estimate as kernels
from mdi.kernels.counts import CountedRows
from mdi.kernels.estimate import HistoryStatistics
from mdi.kernels.model import add_at
from mdi.kernels.trie import Branches, Level, keep_level
from mdi.lm.counts import Counts, CountStream
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, Array, Trie, add_order, blocks, linked, scattered, unigram_trie, with_histories
from mdi.threads import each_in_threads

SMOOTHING = ("kn", "kn-interpolated", "wb")
# KenLM's --discount_fallback, for an order whose counts of counts give no discounts.
FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Discount:
    """D1, D2, D3+ of one order and the counts of counts n1 .. n4 behind them. `problem` says why they are the
    fall-back."""

    n: tuple[int, int, int, int]
    d: tuple[float, float, float]
    problem: str = ""

    def as_dict(self) -> dict[str, object]:
        named = {f"n{i}": value for i, value in enumerate(self.n, 1)}
        return {**named, "D1": self.d[0], "D2": self.d[1], "D3+": self.d[2], "fallback": self.problem or None}

    def describe(self, k: int) -> str:
        names = ", ".join(f"{name}={value:.6g}" for name, value in zip(("D1", "D2", "D3+"), self.d, strict=True))
        counts = " ".join(f"n{i}={n}" for i, n in enumerate(self.n, 1))
        text = f"{k}-grams: {names} ({counts})"
        return f"{text}; {self.problem}: the fixed discounts were taken instead" if self.problem else text


def _nothing_seen(n_hist: int) -> HistoryStatistics:
    return HistoryStatistics(np.zeros(n_hist), np.zeros((n_hist, 3), np.int32))


def _of(after: HistoryStatistics, hists: Array | slice) -> HistoryStatistics:
    """The statistics of some histories."""
    return HistoryStatistics(after.total[hists], after.types[hists])


@dataclass(frozen=True)
class Statistics:
    """What an estimate needs of the counts: the rows that are kept and those that close the trie, with their counts,
    and of all rows, kept or not, what was seen after each history and the counts of counts."""

    trie: Trie
    count: list[Array]  # count[k][r], k = 1..n
    after: list[HistoryStatistics]  # [j], j = 0..n-1
    counts_of_counts: list[Array]  # [k][i], i = 1..4; [k][0] is the number of k-grams


@dataclass(frozen=True)
class Estimated:
    model: NgramModel
    discounts: list[Discount]  # of the orders 1..n; none for Witten-Bell
    left_over: float  # probability that the unigrams left over
    sharing: int  # words that share it


def default_min_counts(order: int) -> list[float]:
    """SRILM's: every unigram and bigram is kept, longer n-grams if they were seen twice."""
    return [1 if k <= 2 else 2 for k in range(1, order + 1)]


def discount_of(n: Array) -> Discount:
    """D1, D2, D3+ from n[1..4] where these allow it, as KenLM decides. Without any n-grams, n[0] = 0, nothing is
    wrong."""
    n1, n2, n3, n4 = (int(value) for value in n[1:5])
    counts = n1, n2, n3, n4
    if not n[0]:
        return Discount(counts, FALLBACK)
    if not all(counts):
        missing = counts.index(0) + 1
        return Discount(counts, FALLBACK, f"no n-gram has a count of {missing}")
    y = n1 / (n1 + 2.0 * n2)
    d = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    if not all(0.0 <= value <= i for i, value in enumerate(d, 1)):
        return Discount(counts, FALLBACK, "D1, D2, D3+ would be " + ", ".join(f"{value:.4g}" for value in d))
    return Discount(counts, d)


def checked(counts: Counts, path: str, smoothing: str) -> Counts:
    """The counts of a file, if a model can be estimated from them."""
    trie = counts.trie
    for k in range(2, counts.order + 1):
        if not trie.rows(k):
            raise MdiError(
                f"{path}: no {k}-grams; expected counts of all orders up to {counts.order}. Count again, or lower "
                f"--order"
            )
    if smoothing != "wb" and any(bool((c != np.floor(c)).any()) for c in counts.count[1:]):
        raise MdiError(f"{path}: counts that are not whole; Kneser-Ney needs counts of counts, use --smoothing wb")
    return counts


def starts_with_bos(trie: Trie, bos: int) -> list[Array]:
    """For every history: whether it begins with <s>."""
    flags = [np.zeros(1, np.bool_)]
    for k in range(1, len(trie.as_hist)):
        row_flags = trie.word[1] == bos if k == 1 else np.repeat(flags[-1], np.diff(trie.begin[k]))
        flags.append(scattered(row_flags, trie.as_hist[k]))
    return flags


def _kept_of_highest(
    counts: CountStream, least: float, preceding: Array, after: HistoryStatistics, n: Array
) -> list[list[Array]]:
    """Pieces of (begin, word, suffix, count) of the rows of the highest order that were seen often enough. All rows are
    added to `preceding`, N1+(. hw) of the order below, to what was seen after histories, and to counts of counts."""
    trie, j = counts.trie, counts.order - 1
    kept: list[list[Array]] = [[np.zeros(1, np.int32)], [], [], []]

    def add(rows: CountedRows) -> None:  # what it makes of a piece is gone before the next
        here = slice(rows.first, rows.first + len(rows.begin) - 1)
        count, branches = rows.number.astype(float), Branches(rows.begin, rows.word)
        suffix = linked(branches, trie.back[j][here], trie.branches(j)) if j > 1 else rows.word
        add_at(suffix, count > 0.0, preceding)
        kernels.add_statistics(branches, count, counts.vocab.bos, _of(after, here), n)
        keep = np.flatnonzero(count >= least)
        begin = np.searchsorted(keep, rows.begin[1:]).astype(np.int32) + kept[0][-1][-1]
        for arrays, values in zip(kept, (begin, rows.word[keep], suffix[keep], count[keep]), strict=True):
            arrays.append(values)

    for rows in counts.top():
        add(rows)
    return kept


def statistics(counts: CountStream, smoothing: str, least: list[float]) -> Statistics:
    trie, order, bos = counts.trie, counts.order, counts.vocab.bos
    n = [np.zeros(5, np.int64) for _ in range(order + 1)]
    if order == 1:
        seen = _nothing_seen(1)
        kernels.add_statistics(trie.branches(1), counts.count[1], bos, seen, n[1])
        return Statistics(unigram_trie(trie.n_words), counts.count, [seen], n)
    after = [_nothing_seen(trie.n_hist(j)) for j in range(order)]
    of_highest = np.zeros(trie.rows(order - 1))
    pieces = _kept_of_highest(counts, least[-1], of_highest, after[-1], n[-1])
    count = counts.count[:order]
    if smoothing != "wb":  # Kneser-Ney: of how many words an n-gram is preceded, in all orders but the highest
        from_bos = starts_with_bos(trie, bos)
        for k in range(1, order):
            preceding = of_highest
            if k < order - 1:
                preceding = np.zeros(trie.rows(k))
                add_at(trie.suffix[k + 1], counts.count[k + 1] > 0.0, preceding)
            # N1+(. hw), or the plain count where the history begins with <s>, since nothing comes before <s>
            count[k] = np.where(np.repeat(from_bos[k - 1], np.diff(trie.begin[k])), counts.count[k], preceding)
    for k in range(1, order):
        kernels.add_statistics(trie.branches(k), count[k], bos, after[k - 1], n[k])
    # of the pieces of one array nothing is left before the next are joined
    begin, word, suffix, top_count = (np.concatenate(pieces.pop(0)) for _ in range(4))
    highest = Level(begin, word, suffix, trie.back[order - 1])
    levels, count = [trie.level(max(1, k)) for k in range(order)] + [highest], [*count, top_count]  # [0]: fillers
    wanted = [np.zeros(len(level.word), np.bool_) for level in levels]
    wanted[1][:] = True
    for k in range(order, 1, -1):
        kernels.mark_needed(levels[k], trie.row_of_hist[k - 1], count[k], least[k - 1], wanted[k], wanted[k - 1])
    # orders of which every row is wanted stay as they are
    whole = next((k - 1 for k in range(2, order) if not wanted[k].all()), order - 1)
    kept = Trie(*(part[: whole + 1] for part in trie.lists))
    number = np.arange(trie.rows(whole), dtype=np.int32)
    for k in range(whole + 1, order + 1):
        rows = levels[k][:3]  # begin, word, suffix
        if whole < order - 1:
            *rows, number = keep_level(levels[k], wanted[k], number, trie.row_of_hist[k - 1])
            count[k] = count[k][wanted[k]]
            after[k - 1] = _of(after[k - 1], wanted[k - 1][trie.row_of_hist[k - 1]])
        kept = add_order(with_histories(kept), *rows)
    return Statistics(kept, count, after, n)


def estimate(
    counts: Counts | CountStream, smoothing: str = "kn", min_counts: Sequence[float] | None = None
) -> Estimated:
    """A closed model that sums to one. Only n-grams seen at least `min_counts[k - 1]` times keep a probability of
    their own."""
    check_choice("smoothing", smoothing, SMOOTHING)
    counts = counts.stream() if isinstance(counts, Counts) else counts
    min_counts = default_min_counts(counts.order) if min_counts is None else min_counts
    least = [max(float(value), float(np.finfo(float).tiny)) for value in min_counts]  # what was not seen is never kept
    stats, vocab = statistics(counts, smoothing, least), counts.vocab
    trie = stats.trie
    if stats.after[0].total[0] <= 0.0:
        raise MdiError(
            "nothing to estimate from: no two words in a row are in the vocabulary; give a fuller --vocab or more text"
        )
    discounts = [] if smoothing == "wb" else [discount_of(n) for n in stats.counts_of_counts[1:]]
    n_events = trie.n_words - (vocab.bos >= 0)
    free = [np.array([0.0, *found.d]) for found in discounts] or [np.zeros(4)] * trie.order
    how = n_events, smoothing == "wb", smoothing == "kn-interpolated"
    by_order = [kernels.Smoothing(free[k], least[k], *how) for k in range(trie.order)]
    p1, left_over, sharing = kernels.unigram_probs(stats.count[1], stats.after[0], vocab.bos, by_order[0])
    p, bow = [NONE, p1], [np.ones(1)]
    for k in range(2, trie.order + 1):
        p_k, bow_k = _ngram_probs(stats, k, by_order[k - 1], p[k - 1])
        p.append(p_k)
        bow.append(bow_k)
    return Estimated(NgramModel(vocab, trie, p, bow), discounts, float(left_over), int(sharing))


def _ngram_probs(stats: Statistics, k: int, smoothing: kernels.Smoothing, lower_p: Array) -> tuple[Array, Array]:
    """p and bow of order k, block by block. Those of the highest order take the place of its counts, which are most of
    all."""
    trie, count, after = stats.trie, stats.count[k], stats.after[k - 1]
    p, bow = count if k == trie.order else np.empty(len(count)), np.empty(trie.n_hist(k - 1))

    def estimate_block(block: tuple[int, int]) -> None:
        (rows, level), here = trie.level_block(k, *block), slice(*block)
        p[rows], bow[here] = kernels.ngram_probs(level, count[rows], _of(after, here), smoothing, lower_p)

    each_in_threads(estimate_block, blocks(trie.begin[k]))
    return p, bow
