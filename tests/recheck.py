"""An independent judge of adapted models: reads the files as text, adds up word by word; no code of mdi."""

import gzip
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

Ngram = tuple[str, ...]


@dataclass(frozen=True)
class Arpa:
    p: dict[Ngram, float]
    bow: dict[Ngram, float]
    order: int

    @property
    def words(self) -> list[str]:
        return [ngram[0] for ngram in self.p if len(ngram) == 1]

    def prob(self, word: str, history: Ngram) -> float:
        history = history[max(0, len(history) - self.order + 1) :]
        ngram = (*history, word)
        if ngram in self.p:
            return self.p[ngram]
        return self.bow.get(history, 1.0) * self.prob(word, history[1:]) if history else 0.0

    def distribution(self, history: Ngram) -> dict[str, float]:
        return {word: self.prob(word, history) for word in self.words}


def read(path: str | Path) -> Arpa:
    data = Path(path).read_bytes()
    lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode().split("\n")
    p: dict[Ngram, float] = {}
    bow: dict[Ngram, float] = {}
    order = 0
    for line in lines:
        if line.startswith("\\") and line.endswith("-grams:"):
            order = int(line[1 : line.index("-")])
        fields = line.split()
        if order and len(fields) > order and not line.startswith("\\"):
            ngram = tuple(fields[1 : order + 1])
            p[ngram] = 0.0 if ngram == ("<s>",) else _linear(fields[0])
            if len(fields) > order + 1:
                bow[ngram] = _linear(fields[order + 1])
    return Arpa(p, bow, order)


def _linear(text: str) -> float:
    value = float(text)
    assert math.isfinite(value), text
    return 10.0**value if value > -99.0 else 0.0


def worst_sum(model: Arpa) -> float:
    """The largest |sum_w p(w|h) - 1| over all histories h of the file."""
    histories = {ngram[:-1] for ngram in model.p} | set(model.bow)
    return max(
        abs(math.fsum(model.distribution(history).values()) - 1.0) for history in histories if "</s>" not in history
    )


def events(sentences: list[list[str]], order: int) -> Counter[tuple[Ngram, str]]:
    """How often each word follows each history of up to order - 1 words."""
    found: Counter[tuple[Ngram, str]] = Counter()
    for words in sentences:
        whole = ["<s>", *words, "</s>"]
        for i in range(1, len(whole)):
            found[tuple(whole[max(0, i - order + 1) : i]), whole[i]] += 1
    return found


def history_distribution(sentences: list[list[str]], order: int) -> dict[Ngram, float]:
    found: Counter[Ngram] = Counter()
    for (history, _), n in events(sentences, order).items():
        found[history] += n
    total = found.total()
    return {history: n / total for history, n in found.items()}


def marginal(model: Arpa, ngram: Ngram, histories: dict[Ngram, float]) -> float:
    """sum_h p~(h) p(w|h) over the histories that end in that of the n-gram."""
    *before, word = ngram
    return math.fsum(
        share * model.prob(word, history)
        for history, share in histories.items()
        if len(history) >= len(before) and history[len(history) - len(before) :] == tuple(before)
    )


def kl(model: Arpa, background: Arpa, histories: dict[Ngram, float]) -> float:
    """sum_h p~(h) sum_w p(w|h) log p(w|h) / q(w|h)"""
    total = []
    for (history, share), word in itertools.product(histories.items(), model.words):
        p = model.prob(word, history)
        if p > 0.0:
            q = background.prob(word, history)
            total.append(share * p * math.log(p / q) if q > 0.0 else math.inf)
    return math.fsum(total)


def constraints(path: str | Path) -> list[tuple[Ngram, float, float]]:
    """(n-gram, target, marginal after) of a table of --constraints-out."""
    rows = [line.split("\t") for line in Path(path).read_text().splitlines()[1:]]
    return [(tuple(row[0].split(" ")), float(row[3]), float(row[5])) for row in rows]


def score(model: Arpa, sentences: list[list[str]]) -> tuple[float, int, int]:
    """(sum of log10 p without those of probability 0, how many these are, tokens with </s>)"""
    found = [
        model.prob(whole[i], tuple(whole[:i]))
        for whole in (["<s>", *words, "</s>"] for words in sentences)
        for i in range(1, len(whole))
    ]
    return math.fsum(math.log10(p) for p in found if p > 0), sum(p == 0 for p in found), len(found)
