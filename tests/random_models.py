"""Random back-off models and texts for property tests: plain text and dictionaries, no code of mdi/."""

import math
from pathlib import Path

import numpy as np
from oracle import BOS, EOS, Model, Ngram, prob


def random_model(rng: np.random.Generator, order: int, n_words: int, *, closed: bool, unk: bool = True) -> Model:
    """Normalised, every history an n-gram; with `closed` every suffix too. <s> has p = 0."""
    words = [f"w{i}" for i in range(n_words)] + (["<unk>"] if unk else [])
    predicted = [*words, EOS]
    grams: list[set[Ngram]] = [set() for _ in range(order + 1)]
    grams[1] = {(w,) for w in [BOS, *predicted]}
    for k in range(2, order + 1):
        for h in sorted(grams[k - 1]):
            if h[-1] == EOS or rng.random() < 0.3:
                continue
            for w in predicted:
                if rng.random() < 0.35:
                    grams[k].add((*h, w))
        if all(gram[-1] == EOS for gram in grams[k]):  # the order asked for is the order given
            grams[k].add((*next(h for h in sorted(grams[k - 1]) if h[-1] != EOS), words[0]))
    if closed:
        for k in range(order, 2, -1):
            for gram in sorted(grams[k]):
                for j in range(k - 1, 1, -1):
                    grams[j].add(gram[1 : 1 + j])
                    grams[j].add(gram[k - j :])
        for k in range(order, 2, -1):
            grams[k - 1] |= {gram[1:] for gram in grams[k]} | {gram[:-1] for gram in grams[k]}
    share = rng.dirichlet(np.full(len(predicted), 0.7)) * 0.999 + 0.001 / len(predicted)
    model: Model = {(w,): (float(p), 1.0) for w, p in zip(predicted, share / share.sum(), strict=True)}
    model[(BOS,)] = (0.0, 1.0)
    for k in range(2, order + 1):
        by_history: dict[Ngram, list[str]] = {}
        for gram in sorted(grams[k]):
            by_history.setdefault(gram[:-1], []).append(gram[-1])
        for h, seen in by_history.items():
            if len(seen) == len(predicted):  # nobody is left to back off for
                for w, value in zip(seen, rng.dirichlet(np.ones(len(seen))), strict=True):
                    model[(*h, w)] = (float(value), 1.0)
                continue
            p = rng.dirichlet(np.ones(len(seen) + 1))[:-1] * 0.98
            for w, value in zip(seen, p, strict=True):
                model[(*h, w)] = (float(value) + 1e-4 / len(seen), 1.0)
            left = 1.0 - math.fsum(model[(*h, w)][0] for w in seen)
            below = 1.0 - math.fsum(prob(model, h[1:], w) for w in seen)
            model[h] = (model[h][0], left / below)
    return model


def write_model(model: Model, path: Path) -> str:
    """ARPA text with all digits."""
    order = max(map(len, model))
    with open(path, "w", encoding="utf-8") as out:
        out.write("\\data\\\n")
        for k in range(1, order + 1):
            out.write(f"ngram {k}={sum(len(gram) == k for gram in model)}\n")
        for k in range(1, order + 1):
            out.write(f"\n\\{k}-grams:\n")
            for gram, (p, bow) in model.items():
                if len(gram) == k:
                    logp = repr(math.log10(p)) if p > 0 else "-99"
                    out.write(f"{logp}\t{' '.join(gram)}" + (f"\t{math.log10(bow)!r}\n" if k < order else "\n"))
        out.write("\n\\end\\\n")
    return str(path)


def random_text(rng: np.random.Generator, n_words: int, sentences: int) -> list[list[str]]:
    """A few words are frequent, and words like to repeat their successors: counts above one at every order."""
    words = [f"w{i}" for i in range(n_words)]
    likes = rng.dirichlet(np.full(n_words, 0.3), size=n_words)
    start = rng.dirichlet(np.full(n_words, 0.5))
    text = []
    for _ in range(sentences):
        w = int(rng.choice(n_words, p=start))
        line = [words[w]]
        while len(line) < 9 and rng.random() < 0.75:
            w = int(rng.choice(n_words, p=likes[w]))
            line.append(words[w])
        text.append(line)
    return text


def write_text(sentences: list[list[str]], path: Path) -> str:
    path.write_text("".join(" ".join(line) + "\n" for line in sentences), encoding="utf-8")
    return str(path)
