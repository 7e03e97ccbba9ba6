"""Kneser-Ney and Witten-Bell by their definitions, over dictionaries: what mdi/lm/estimate.py is tested against.

No code of mdi/."""

from collections import Counter

from oracle import BOS, EOS, Model, Ngram, prob

EPSILON = 3e-6
FALLBACK = (0.5, 1.0, 1.5)


def ngram_counts(sentences: list[list[str]], order: int) -> Counter[Ngram]:
    """SRILM's: one <s>, one </s>, every n-gram of up to `order` words. None stands for a word that is left out."""
    counts: Counter[Ngram] = Counter()
    for sentence in sentences:
        tokens = [BOS, *sentence, EOS]
        for i in range(len(tokens)):
            for j in range(i + 1, min(i + order, len(tokens)) + 1):
                if None not in tokens[i:j]:
                    counts[tuple(tokens[i:j])] += 1
    return counts


def adjusted(counts: Counter[Ngram], order: int) -> Counter[Ngram]:
    """Below the highest order: how many words are seen before an n-gram; the count itself if it begins with <s>."""
    preceded: Counter[Ngram] = Counter(ngram[1:] for ngram in counts if len(ngram) > 1)
    return Counter({g: c if len(g) == order or g[0] == BOS else preceded[g] for g, c in counts.items()})


def discounts(counts: Counter[Ngram], order: int) -> list[tuple[float, float, float]]:
    result = []
    for k in range(1, order + 1):
        of_order = Counter(c for g, c in counts.items() if len(g) == k and g != (BOS,))
        n1, n2, n3, n4 = (of_order[i] for i in (1, 2, 3, 4))
        d = FALLBACK
        if n1 and n2 and n3 and n4:
            y = n1 / (n1 + 2 * n2)
            d = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
            if min(d) < 0:
                d = FALLBACK
        result.append(d)
    return result


def estimate(counts: Counter[Ngram], words: list[str], order: int, smoothing: str, min_counts: list[int]) -> Model:
    """`words` are the events: all words but <s>. The result has only the n-grams that were seen often enough, not
    those that would close it; a history that is none of them is added with its backed-off probability."""
    counts = counts if smoothing == "wb" else adjusted(counts, order)
    by_history: dict[Ngram, dict[str, int]] = {}
    for ngram, c in counts.items():
        if ngram != (BOS,) and c > 0:
            by_history.setdefault(ngram[:-1], {})[ngram[-1]] = c
    d = discounts(counts, order)
    model: Model = {}
    for h in sorted(by_history, key=len):
        seen = by_history[h]
        k = len(h) + 1
        total, mix = sum(seen.values()), smoothing == "kn-interpolated"

        def lower(w: str, h: Ngram = h) -> float:
            return prob(model, h[1:], w) if h else 1 / len(words)

        while True:
            if smoothing == "wb":
                p = {w: c / (total + len(seen)) for w, c in seen.items()}
            else:
                cut = {w: d[k - 1][min(c, 3) - 1] for w, c in seen.items()}
                p = {w: (c - cut[w]) / total + mix * sum(cut.values()) / total * lower(w) for w, c in seen.items()}
            p = {w: value for w, value in p.items() if seen[w] >= min_counts[k - 1]}
            if len(seen) >= len(words) or sum(p.values()) <= 1 - EPSILON:
                break
            if mix:
                mix = False
            else:
                total += 1
        left = 1 - sum(p.values())
        if not h:
            unseen = [w for w in words if w not in p] or words
            for w in words:
                model[(w,)] = (p.get(w, 0.0) + (left / len(unseen) if w in unseen else 0.0), 1.0)
            model[(BOS,)] = (0.0, 1.0)
            continue
        if not p:
            continue
        covered = sum(lower(w) for w in p)
        if 1 - covered < EPSILON:  # no other word to back off to
            p, bow = {w: value * covered / sum(p.values()) for w, value in p.items()}, 1.0
        else:
            bow = left / (1 - covered)
        for j in range(1, len(h) + 1):
            if h[:j] not in model:
                model[h[:j]] = (prob(model, h[: j - 1], h[j - 1]), 1.0)
        for w, value in p.items():
            model[(*h, w)] = (value, 1.0)
        model[h] = (model[h][0], bow)
    return model
