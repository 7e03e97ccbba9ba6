#!/usr/bin/env python3
"""Writes a seeded back-off model of the shape that Kneser-Ney gives on news text, and text of a domain beside it.

    utils/bench/make_synthetic_lm.py [--ngrams 14e6] [--order 3] [--seed 1] [--text OUT.txt[.gz] --text-words 800000]
                                     OUT.arpa[.gz]

Words are Zipfian. A history draws words until it has met as many different ones as its own frequency allows (Heaps),
partly from the whole language and partly from favourites of its own; how often it drew each is the count. An n-gram of
order 3 and more draws among the words that follow its suffix, so the model is closed like an unpruned one.
Probabilities are interpolated absolute discounting, p(w|h) = (c(hw) - D) / c(h) + D n(h) / c(h) p(w|h'), which sums to
one by construction.

The text is drawn from the model with a bias: every word of a random quarter of the vocabulary is accepted, of the
others one in three.
"""

import argparse
import math
import sys

import numpy as np
from numba import njit

from mdi.files import writing
from mdi.lm.arpa import write_arpa
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, add_order, unigram_trie, with_histories
from mdi.lm.vocabulary import BOS, EOS, vocabulary

DISCOUNT = 0.75
# Shares of the orders 2 .. n among the n-grams, from models of podcasts and of news with the usual cut-offs.
SHARES = {2: [1.0], 3: [0.4, 0.6], 4: [0.28, 0.42, 0.3], 5: [0.22, 0.33, 0.25, 0.2]}
ZIPF, SHIFT = 1.05, 2.7
FAVOURITES = 0.5
BOS_ID, EOS_ID, UNK_ID = 0, 1, 2


@njit
def _random(state):
    """xorshift64*: uniform in [0, 1)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@njit
def _mix(a, b):
    x = (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(b) + np.uint64(0xD1B54A32D192ED03))
    x = (x ^ (x >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(29))


@njit
def _first_above(total, x, lo, hi):
    """Of lo .. hi, the first whose sum is larger than x."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if total[mid] <= x:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit
def _draw(state, total):
    """Index into cumulated sums, by their weight; `total` is cumulated without a leading zero."""
    return _first_above(total, _random(state) * total[-1], np.int64(0), np.int64(total.shape[0] - 1))


@njit
def bigram_rows(seed, want, cumulated, word_of_rank, n_words):
    """For each word as a history, draws until `want` different words have come. Returns (begin, word, count)."""
    begin = np.zeros(n_words + 1, np.int32)
    for w in range(n_words):
        begin[w + 1] = begin[w] + want[w]
    word = np.empty(begin[n_words], np.int32)
    count = np.empty(begin[n_words], np.int32)
    place = np.full(n_words, -1, np.int32)
    state = np.array([seed], np.uint64)
    for h in range(n_words):
        n, last = begin[h], begin[h + 1]
        while n < last:
            rank = _draw(state, cumulated)
            if _random(state) < FAVOURITES:
                rank = np.int64(_mix(h, rank) % np.uint64(cumulated.shape[0]))
            w = word_of_rank[rank]
            if place[w] >= begin[h]:
                count[place[w]] += 1
            else:
                place[w] = n
                word[n] = w
                count[n] = 1
                n += 1
        part = np.sort(word[begin[h] : last])
        counts = np.empty(last - begin[h], np.int32)
        for i in range(part.shape[0]):
            counts[i] = count[place[part[i]]]
        word[begin[h] : last] = part
        count[begin[h] : last] = counts
    return begin, word, count


@njit
def longer_rows(seed, want, back, lower_begin, lower_word, lower_count):
    """The same for longer histories, whose words are among those of the history they back off to."""
    n_hist = want.shape[0]
    begin = np.zeros(n_hist + 1, np.int32)
    for h in range(n_hist):
        begin[h + 1] = begin[h] + min(want[h], lower_begin[back[h] + 1] - lower_begin[back[h]])
    word = np.empty(begin[n_hist], np.int32)
    count = np.empty(begin[n_hist], np.int32)
    suffix = np.empty(begin[n_hist], np.int32)
    widest = 0
    for b in range(lower_begin.shape[0] - 1):
        widest = max(widest, lower_begin[b + 1] - lower_begin[b])
    times = np.zeros(widest, np.int32)
    total = np.empty(widest)
    ready = -1
    state = np.array([seed], np.uint64)
    for h in range(n_hist):
        need = begin[h + 1] - begin[h]
        if need == 0:
            continue
        first = lower_begin[back[h]]
        size = lower_begin[back[h] + 1] - first
        if ready != back[h]:
            ready = back[h]
            sofar = 0.0
            for i in range(size):
                sofar += lower_count[first + i]
                total[i] = sofar
        met, draws = 0, 0
        low, high = size, 0
        while met < need:
            i = _draw(state, total[:size])
            draws += 1
            # a history that has met nearly all the words there are takes the next one it lacks
            if draws > 8 * need + 8:
                while times[i] > 0:
                    i = (i + 1) % size
            elif _random(state) < FAVOURITES:
                i = np.int64(_mix(h, i) % np.uint64(size))
            met += times[i] == 0
            times[i] += 1
            low, high = min(low, i), max(high, i)
        r = begin[h]
        for i in range(low, high + 1):
            if times[i] > 0:
                word[r] = lower_word[first + i]
                suffix[r] = first + i
                count[r] = times[i]
                times[i] = 0
                r += 1
    return begin, word, count, suffix


@njit
def probabilities(begin, count, suffix, lower_p):
    """Interpolated absolute discounting. Returns (p by row, back-off weight by history)."""
    p = np.empty(count.shape[0])
    bow = np.ones(begin.shape[0] - 1)
    for h in range(bow.shape[0]):
        total = 0.0
        for r in range(begin[h], begin[h + 1]):
            total += count[r]
        if begin[h + 1] > begin[h]:
            bow[h] = DISCOUNT * (begin[h + 1] - begin[h]) / total
        for r in range(begin[h], begin[h + 1]):
            p[r] = (count[r] - DISCOUNT) / total + bow[h] * lower_p[suffix[r]]
    return p, bow


def history_sizes(weight: np.ndarray, rows: float, cap: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """min(cap, a weight), rounded at random, with the a at which they sum to `rows`."""
    low, high = 0.0, 1.0
    while np.minimum(cap, high * weight).sum() < min(rows, 0.9 * cap.sum()):
        high *= 2.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.minimum(cap, middle * weight).sum() < rows else (low, middle)
    size = np.minimum(cap, high * weight)
    return np.minimum(cap, np.floor(size + rng.random(len(size)))).astype(np.int32)


def spell(ranks: np.ndarray) -> list[str]:
    """A pronounceable word for each rank, all different, the frequent ones short."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "is", "on", "ur")]
    words = []
    for rank in ranks.tolist():
        number, text = rank, ""
        while True:
            text += syllables[number % len(syllables)]
            number = number // len(syllables) - 1
            if number < 0:
                break
        words.append(text if rank % 5 else text + "s'")
    return words


def make_model(ngrams: int, order: int, seed: int) -> tuple[NgramModel, list[np.ndarray]]:
    """(the model, counts by row of each order)."""
    rng = np.random.default_rng(seed)
    n_words = int(min(200_000, max(2_000, 25 * math.sqrt(ngrams))))
    n_plain = n_words - 3
    ranks = rng.permutation(n_plain)
    vocab = vocabulary([BOS, EOS, "<unk>", *spell(ranks)])
    # what can be drawn: every word but <s>, by rank; </s> comes as often as a frequent word
    word_of_rank = np.empty(n_words - 1, np.int32)
    word_of_rank[ranks + 2] = np.arange(n_plain) + 3
    word_of_rank[0], word_of_rank[1] = EOS_ID, UNK_ID
    frequency = (np.arange(n_words - 1) + SHIFT) ** -ZIPF
    frequency /= frequency.sum()
    unigram = np.zeros(n_words)
    unigram[word_of_rank] = frequency
    as_history = unigram.copy()
    as_history[BOS_ID], as_history[EOS_ID] = unigram[EOS_ID], 0.0

    rows = (np.array(SHARES[order]) * (ngrams - n_words)).tolist()
    trie = with_histories(unigram_trie(n_words))
    p, bow = [NONE, unigram], [np.ones(1)]
    want = history_sizes(as_history**0.95, rows[0], np.full(n_words, n_words // 4) * (as_history > 0), rng)
    begin, word, count = bigram_rows(seed + 1, want, np.cumsum(frequency), word_of_rank, n_words)
    counts = [NONE, NONE, count]
    trie = add_order(trie, begin, word)
    for k in range(2, order + 1):
        if k > 2:
            trie = with_histories(trie)
            weight = np.empty(trie.rows(k - 1))
            weight[trie.as_hist[k - 1]] = np.where(trie.word[k - 1] == EOS_ID, 0.0, (count - 1.0) ** 0.7 + 0.02)
            cap = np.diff(trie.begin[k - 1])[trie.back[k - 1]] * (weight > 0)
            want = history_sizes(weight, rows[k - 2], cap, rng)
            begin, word, count, suffix = longer_rows(
                seed + k, want, trie.back[k - 1], trie.begin[k - 1], trie.word[k - 1], counts[k - 1]
            )
            counts.append(count)
            trie = add_order(trie, begin, word, suffix)
        row_p, weights = probabilities(trie.begin[k], counts[k], trie.suffix[k], p[k - 1])
        p.append(row_p)
        bow.append(weights)
    return NgramModel(vocab, trie, p, bow), counts


@njit
def _row(state, begin, total, h):
    """A row of h by its discounted count; total[r]: the discounted counts of all rows up to r."""
    first, last = begin[h], begin[h + 1] - 1
    x = total[first] - (1.0 - DISCOUNT) if first == 0 else total[first - 1]
    return _first_above(total, x + _random(state) * (total[last] - x), first, last)


@njit
def sample(
    seed, cumulated, word_of_rank, begin, word, total, begin3, word3, suffix3, total3, bow, bow3, as_hist, liked, out
):
    """A walk through the model's first three orders: an interpolated model is a mixture of them at every step. Words
    that are not liked are accepted one in three."""
    state = np.array([seed], np.uint64)
    h, h3, length = BOS_ID, -1, 0
    out[0] = BOS_ID
    for n in range(1, out.shape[0]):
        while True:
            row = -1
            if h3 >= 0 and begin3[h3 + 1] > begin3[h3] and _random(state) >= bow3[h3]:
                row = suffix3[_row(state, begin3, total3, h3)]
            elif begin[h + 1] > begin[h] and _random(state) >= bow[h]:
                row = _row(state, begin, total, h)
            w = word[row] if row >= 0 else word_of_rank[_draw(state, cumulated)]
            if w != UNK_ID and (liked[w] or _random(state) < 0.33) and (w != EOS_ID or length > 2):
                break
        if row < 0:
            lo = begin[h] + np.searchsorted(word[begin[h] : begin[h + 1]], w)
            row = lo if lo < begin[h + 1] and word[lo] == w else -1
        length += 1
        if w == EOS_ID or length > 40:
            out[n] = EOS_ID
            h, h3, length = BOS_ID, -1, 0
        else:
            out[n] = w
            h, h3 = w, as_hist[row] if row >= 0 else -1


def write_text(model: NgramModel, counts: list[np.ndarray], n_words: int, seed: int, path: str) -> None:
    """Sentences, one per line."""
    trie = model.trie
    rng = np.random.default_rng(seed + 100)
    by_p = np.argsort(-model.p[1], kind="stable")[:-1].astype(np.int32)  # without <s>
    total = [np.cumsum(count - DISCOUNT) for count in counts[2:4]]
    if trie.order == 2:  # no longer histories
        none = np.zeros(trie.rows(2) + 1, np.int32), NONE, NONE, np.zeros(0)
        third, weight = none, np.ones(trie.rows(2))
        as_hist = with_histories(trie).as_hist[2]
    else:
        third, weight, as_hist = (trie.begin[3], trie.word[3], trie.suffix[3], total[1]), model.bow[2], trie.as_hist[2]
    tokens = np.empty(n_words, np.int32)
    liked = rng.random(trie.n_words) < 0.25
    liked[EOS_ID] = True
    sample(
        seed + 50,
        np.cumsum(model.p[1][by_p]),
        by_p,
        trie.begin[2],
        trie.word[2],
        total[0],
        *third,
        model.bow[1],
        weight,
        as_hist,
        liked,
        tokens,
    )
    tokens[-1] = EOS_ID
    words = model.vocab.words
    with writing(path) as stream:
        line: list[str] = []
        for token in tokens[1:].tolist():
            if token != EOS_ID:
                line.append(words[token])
            elif line:
                stream.write((" ".join(line) + "\n").encode())
                line = []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ngrams", type=float, default=14e6)
    parser.add_argument("--order", type=int, choices=sorted(SHARES), default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", metavar="OUT")
    parser.add_argument("--text-words", type=float, default=8e5)
    parser.add_argument("out")
    args = parser.parse_args()
    model, counts = make_model(int(args.ngrams), args.order, args.seed)
    if args.text:
        write_text(model, counts, int(args.text_words), args.seed, args.text)
    write_arpa(model, args.out)
    print(f"{args.out}: {sum(model.trie.counts):,} n-grams, by order {model.trie.counts}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
