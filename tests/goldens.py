"""The golden files of SRILM and KenLM (synthetic text, 300 made-up words), and models as plain dictionaries."""

import re
from functools import cache
from pathlib import Path

import numpy as np
from oracle import EOS, Model, prob

from mdi.lm.arpa import read_arpa
from mdi.lm.model import NgramModel

DATA = Path(__file__).parent / "data"
HARDENING = DATA / "hardening"
GOOD, SHORT_TEXT = str(HARDENING / "good.arpa"), str(HARDENING / "tiny.txt")
DEV, TEST = str(DATA / "text" / "dev.txt"), str(DATA / "text" / "test.txt")


def arpa_path(name: str) -> str:
    """bg.kn -> the file, in whichever folder it lies."""
    return str(next(DATA.glob(f"*/{name}.arpa.gz")))


@cache
def golden_model(name: str, *, closed: bool = True) -> NgramModel:
    return read_arpa(arpa_path(name), closed=closed, quiet=True)


def sections(name: str) -> list[tuple[str, str, str]]:
    """(model, text, what was printed) of a file in parts that begin with '## model text'."""
    parts = re.split(r"^## ", (DATA / name).read_text(), flags=re.MULTILINE)[1:]
    return [(*part.split("\n", 1)[0].rsplit(" ", 1), part.split("\n", 1)[1]) for part in parts]


def to_dict(model: NgramModel) -> Model:
    words, trie = model.vocab.words, model.trie
    table: Model = {}
    for k in range(1, model.order + 1):
        bow = model.bow[k][trie.as_hist[k]] if k < model.order else np.ones(trie.rows(k))
        ngrams = trie.ngrams(k, np.arange(trie.rows(k), dtype=np.int32)).tolist()
        for ngram, p, weight in zip(ngrams, model.p[k].tolist(), bow.tolist(), strict=True):
            table[tuple(words[w] for w in ngram)] = (p, weight)
    return table


def worst_gap(model: Model) -> float:
    """Largest |sum_w p(w|h) - 1| over the empty history and all n-grams that can be one, by the definition."""
    words = [ngram[0] for ngram in model if len(ngram) == 1]
    order = max(map(len, model))
    histories = [(), *(ngram for ngram in model if len(ngram) < order and ngram[-1] != EOS)]
    return max(abs(sum(prob(model, h, w) for w in words) - 1.0) for h in histories)
