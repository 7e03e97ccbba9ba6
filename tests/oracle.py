"""Dense brute force for tests: plain dictionaries, every history spelled out, the definitions and nothing clever.

Shares no code with mdi/. A model is a dict from n-gram (a tuple of words) to (probability, back-off weight); a history
distribution is a dict from full history (a tuple of words) to its mass.
"""

import gzip
import itertools
import math

BOS, EOS = "<s>", "</s>"
Ngram = tuple[str, ...]
Model = dict[Ngram, tuple[float, float]]


def read(path: str) -> Model:
    opener = gzip.open if str(path).endswith(".gz") else open
    model: Model = {}
    order = 0
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            line = line.strip("\n")
            if line.startswith("\\") and line.endswith("-grams:"):
                order = int(line[1:].split("-")[0])
            elif line.startswith("\\"):
                order = 0
            elif order and line.strip():
                fields = line.split()
                words = tuple(fields[1 : order + 1])
                bow = float(fields[order + 1]) if len(fields) > order + 1 else 0.0
                logp = float(fields[0])
                p = 0.0 if logp <= -99 or words == (BOS,) else 10.0**logp
                model[words] = (p, 0.0 if bow <= -99 else 10.0**bow)
    return model


def order_of(model: Model) -> int:
    return max(map(len, model))


def vocabulary(model: Model) -> list[str]:
    return [ngram[0] for ngram in model if len(ngram) == 1]


def prob(model: Model, history: Ngram, word: str) -> float:
    if (*history, word) in model:
        return model[(*history, word)][0]
    if not history:
        return 0.0
    bow = model[history][1] if history in model else 1.0
    return bow * prob(model, history[1:], word)


def all_histories(model: Model, order: int) -> list[Ngram]:
    """Every full history: n - 1 words, or fewer that begin with <s>; </s> never."""
    words = [w for w in vocabulary(model) if w not in (BOS, EOS)]
    length = order - 1
    if length == 0:
        return [()]
    full = [h for h in itertools.product([BOS, *words], repeat=length) if BOS not in h[1:]]
    short = [(BOS, *rest) for size in range(length - 1) for rest in itertools.product(words, repeat=size)]
    return full + short


def text_histories(sentences: list[list[str]], order: int) -> dict[Ngram, float]:
    """Maximum-likelihood history distribution."""
    seen: dict[Ngram, float] = {}
    for sentence in sentences:
        tokens = [BOS, *sentence, EOS]
        for i in range(1, len(tokens)):
            h = tuple(tokens[max(0, i - order + 1) : i])
            seen[h] = seen.get(h, 0.0) + 1.0
    total = sum(seen.values())
    return {h: count / total for h, count in seen.items()}


def text_counts(sentences: list[list[str]], order: int) -> dict[Ngram, float]:
    """Counts of n-grams that end in a predicted token."""
    seen: dict[Ngram, float] = {}
    for sentence in sentences:
        tokens = [BOS, *sentence, EOS]
        for i in range(1, len(tokens)):
            for k in range(1, min(order, i + 1) + 1):
                ngram = tuple(tokens[i - k + 1 : i + 1])
                seen[ngram] = seen.get(ngram, 0.0) + 1.0
    return seen


def model_histories(model: Model, histories: list[Ngram]) -> dict[Ngram, float]:
    """p~(w1 w2 ..) = p~(w1) p~(w2|w1) ..: <s> begins a history as often as </s> is predicted, </s> is in none."""
    top = order_of(model)
    mass = {}
    for h in histories:
        if not h:
            return {(): 1.0}
        value = prob(model, (), EOS if h[0] == BOS else h[0])
        for i in range(1, len(h)):
            value *= prob(model, h[max(0, i - top + 1) : i], h[i])
        mass[h] = value
    total = sum(mass.values())
    return {h: value / total for h, value in mass.items()}


class Dense:
    """Z, marginals, dual value and adapted probabilities by summing over every history and every word."""

    def __init__(self, model: Model, mass: dict[Ngram, float], constraints: list[Ngram], lam: list[float]) -> None:
        self.order = max(order_of(model), max(map(len, mass)) + 1)
        self.words = [w for w in vocabulary(model) if w != BOS]
        self.model, self.mass = model, mass
        self.lam = dict(zip(constraints, lam, strict=True))
        self.constraints = constraints
        top = order_of(model)
        self.z: dict[Ngram, float] = {}
        self.p: dict[tuple[Ngram, str], float] = {}
        for h in mass:
            known = h[max(0, len(h) - top + 1) :]
            weights = {w: prob(model, known, w) * self.scale(h, w) for w in self.words}
            self.z[h] = math.fsum(weights.values())
            for w in self.words:
                self.p[h, w] = weights[w] / self.z[h]

    def scale(self, h: Ngram, w: str) -> float:
        """exp of the sum of lambda over the suffixes of hw that are constraints."""
        hw = (*h, w)
        return math.exp(math.fsum(self.lam.get(hw[i:], 0.0) for i in range(len(hw))))

    def marginals(self) -> list[float]:
        found = []
        for c in self.constraints:
            inside = (h for h in self.mass if (*h, c[-1])[-len(c) :] == c)
            found.append(math.fsum(self.mass[h] * self.p[h, c[-1]] for h in inside))
        return found

    def log_z(self) -> float:
        return math.fsum(m * math.log(self.z[h]) for h, m in self.mass.items() if m > 0)

    def dual(self, target: list[float]) -> float:
        return math.fsum(self.lam[c] * t for c, t in zip(self.constraints, target, strict=True)) - self.log_z()

    def kl(self) -> float:
        """Conditional KL divergence to the background under the history distribution (the paper's Eq. 3)."""
        top = order_of(self.model)
        total = 0.0
        for h, m in self.mass.items():
            known = h[max(0, len(h) - top + 1) :]
            for w in self.words:
                p = self.p[h, w]
                if p > 0:
                    total += m * p * math.log(p / prob(self.model, known, w))
        return total
