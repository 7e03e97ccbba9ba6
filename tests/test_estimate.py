"""Estimates against SRILM's and KenLM's own models, against the definitions, and against the sum of one."""

import math
import re

import dense_estimate
import numpy as np
import oracle
import pytest
from goldens import DATA, arpa_path, sections, to_dict, worst_gap
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_text, write_text

from mdi.errors import MdiError
from mdi.lm.counts import count_text, read_counts
from mdi.lm.estimate import FALLBACK, checked, default_min_counts, discount_of, estimate
from mdi.lm.normalise import worst_sum
from mdi.lm.text import SPECIAL
from mdi.lm.vocabulary import GrowingVocabulary, vocabulary

WORDS = (DATA / "text" / "vocab.txt").read_text().split()
# SRILM and KenLM store log10 probabilities and back-off weights as 32-bit floats and print seven digits. What one
# minus a sum of such floats leaves over (the zerotons of bg.kni share 0.0014) is off by a few 1e-6 relative.
LOG10_CLOSE = 4e-6


def counts_of(text: str, order: int, vocab: str):
    words = (
        GrowingVocabulary(SPECIAL) if vocab == "text" else vocabulary([*SPECIAL[: 3 if vocab == "open" else 2], *WORDS])
    )
    return count_text(DATA / "text" / f"{text}.txt.gz", words, order)


@pytest.mark.parametrize(
    ("name", "text", "order", "smoothing", "min_counts", "vocab", "closure"),
    [
        ("bg.kn", "bg", 3, "kn", None, "open", 0),
        ("bg.kn.closed", "bg", 3, "kn", None, "closed", 0),
        ("bg.kni", "bg", 3, "kn-interpolated", [1, 1, 1], "open", 0),
        ("in.kn", "in", 3, "kn", None, "open", 0),
        ("in.kni", "in", 3, "kn-interpolated", [1, 1, 1], "open", 0),
        ("in.wb", "in", 3, "wb", None, "open", 0),
        ("in.1g", "in", 1, "wb", None, "open", 0),
        ("bg.1g", "bg", 1, "wb", None, "open", 0),
        # SRILM leaves out suffixes of 857 4-grams that it keeps; a closed model has them
        ("bg4.kn", "bg", 4, "kn", None, "open", 857),
        # KenLM's uniform distribution is over the words of the text, </s> and <unk> ...
        ("bg.lmplz", "bg", 3, "kn-interpolated", [1, 1, 1], "text", 0),
        # ... or over as many words as --vocab_pad says; it lists only those of the text
        ("bg.lmplz.pad302", "bg", 3, "kn-interpolated", [1, 1, 1], "open", 3),
    ],
)
def test_every_ngram_of_srilm_and_kenlm(name, text, order, smoothing, min_counts, vocab, closure):
    golden = oracle.read(arpa_path(name))
    model = estimate(counts_of(text, order, vocab), smoothing, min_counts).model
    ours = to_dict(model)
    assert not golden.keys() - ours.keys()
    for ngram, (p, bow) in golden.items():
        assert ngram == ("<s>",) or abs(math.log10(ours[ngram][0] / p)) < LOG10_CLOSE, ngram
        assert abs(math.log10(ours[ngram][1] / bow)) < LOG10_CLOSE, ngram
    extra = ours.keys() - golden.keys()
    assert len(extra) == closure
    for ngram in extra:  # they change nothing
        assert (
            len(ngram) == 1
            or abs(math.log10(ours[ngram][0] / oracle.prob(golden, ngram[:-1], ngram[-1]))) < LOG10_CLOSE
        )
        assert ours[ngram][1] == 1.0
    assert worst_sum(model)[0] < 1e-12


@pytest.mark.parametrize(("text", "order", "name"), [("bg", 3, "bg"), ("in", 3, "in"), ("bg", 4, "bg4")])
def test_discounts_of_srilm(text, order, name):
    golden = {
        part[0]: [float(v) for v in re.findall(r"discount\S+ (\S+)", part[2])]
        for part in sections("srilm/discounts.txt")
    }
    found = estimate(counts_of(text, order, "open")).discounts
    assert [list(discount.d) for discount in found] == [
        pytest.approx(golden[f"{name}.kn{k}"], abs=1e-15) for k in range(1, order + 1)
    ]


def test_counts_of_counts_behind_the_discounts():
    # D1 = 14 / (14 + 44), and so on: the first line of SRILM's log for bg.kn
    found = discount_of(np.array([300, 14, 22, 33, 28]))
    assert found.n == (14, 22, 33, 28)
    assert found.d == pytest.approx((0.2413793103448275, 0.9137931034482758, 2.180773249738767))
    assert not found.problem


@pytest.mark.parametrize(
    ("n", "why"),
    [
        ((5, 0, 3, 1), "no n-gram has a count of 2"),
        ((0, 1, 1, 1), "count of 1"),
        ((0, 0, 0, 0), "count of 1"),
        ((9, 1, 7, 1), "D1, D2, D3+ would be"),
    ],
)
def test_discounts_fall_back(n, why):
    found = discount_of(np.array([100, *n]))
    assert found.d == FALLBACK
    assert why in found.problem
    assert "instead" in found.describe(2)


def test_order_without_ngrams_is_no_problem():
    assert not discount_of(np.zeros(5, int)).problem


class Corpus:
    """A random text of few words, so that unseen, once and often seen n-grams of every order occur."""

    def __init__(self, seed: int, folder, given_words: bool, unk: bool) -> None:
        rng = np.random.default_rng(seed)
        n_words = int(rng.integers(1, 6))
        size = int(rng.choice([1, 2, 5, 60, 300]))
        self.text = random_text(rng, n_words, size)
        known = [f"w{i}" for i in range(n_words + 1) if rng.random() < 0.7] if given_words else []
        self.path = write_text(self.text, folder / "text")
        self.vocab = vocabulary([*SPECIAL[: 3 if unk else 2], *known]) if given_words else GrowingVocabulary(SPECIAL)
        if given_words:
            other = "<unk>" if unk else None
            self.text = [[w if w in known else other for w in line] for line in self.text]
        else:
            known = sorted({w for line in self.text for w in line})
        self.events = ["</s>", *(["<unk>"] if unk or not given_words else []), *known]


cases = given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(1, 5),
    smoothing=st.sampled_from(["kn", "kn-interpolated", "wb"]),
    least=st.lists(st.integers(1, 3), min_size=5, max_size=5),
    given_words=st.booleans(),
    unk=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@cases
def test_definitions_and_sums(tmp_path_factory, seed, order, smoothing, least, given_words, unk):
    corpus = Corpus(seed, tmp_path_factory.mktemp("corpus"), given_words, unk)
    counts = count_text(corpus.path, corpus.vocab, order)
    dense_counts = dense_estimate.ngram_counts(corpus.text, order)
    assert sum(int(c.sum()) for c in counts.count[1:]) == sum(dense_counts.values())
    if order > 1 and smoothing != "wb" and not any(len(ngram) == 2 for ngram in dense_counts):
        with pytest.raises(MdiError, match="nothing to estimate"):
            estimate(counts, smoothing, least[:order])
        return
    model = estimate(counts, smoothing, least[:order]).model
    ours = to_dict(model)
    assert worst_gap(ours) < 1e-9
    assert worst_sum(model)[0] < 1e-9
    dense = dense_estimate.estimate(dense_counts, corpus.events, order, smoothing, least[:order])
    assert not dense.keys() - ours.keys()
    for ngram in ours:  # explicit or backed off, the same probabilities
        assert ours[ngram][0] == pytest.approx(oracle.prob(dense, ngram[:-1], ngram[-1]), rel=1e-9)
        assert ours[ngram][1] == pytest.approx(dense.get(ngram, (0.0, 1.0))[1], rel=1e-6)
    for ngram in ours:  # closed
        assert len(ngram) == 1 or {ngram[1:], ngram[:-1]} <= ours.keys()


def test_default_min_counts_are_those_of_srilm():
    assert default_min_counts(5) == [1, 1, 2, 2, 2]


def write_counts(tmp_path, text: str) -> str:
    path = tmp_path / "counts"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 3\n<s> 2\n</s> 2\n", "no 2-grams"),
        ("a 3\n<s> 2\n</s> 2\n<s> a 2\na <s> 1\n", "'a <s>'; expected <s> only"),
        ("a 3\n<s> 2\n</s> 2\n<s> a 2\n</s> a 1\n", "'</s> a'; expected <s> only"),
        ("a 3\n<s> 2\n</s> 2\n<s> a 2.5\n", "not whole"),
    ],
)
def test_counts_without_a_model(tmp_path, text, message):
    path = write_counts(tmp_path, text)
    with pytest.raises(MdiError, match=re.escape(message)):
        checked(read_counts(path, GrowingVocabulary(SPECIAL), 2), path, "kn")


def test_fractional_counts_with_witten_bell(tmp_path):
    # c(a) = 1.5, c(</s>) = 0.5 with two kinds: p(a) = 1.5 / 4, and the rest, 2/4, for <unk>
    path = write_counts(tmp_path, "a 1.5\n<s> 1\n</s> 0.5\n")
    model = estimate(checked(read_counts(path, GrowingVocabulary(SPECIAL), 1), path, "wb"), "wb", [0.1]).model
    assert {ngram[0]: p for ngram, (p, _) in to_dict(model).items()} == pytest.approx(
        {"<s>": 0.0, "</s>": 0.125, "<unk>": 0.5, "a": 0.375}
    )


def test_large_counts_are_smoothed_in_no_time():
    counts = count_text(["a b a", "b b a"], ["a", "b"], 2)
    large = type(counts)(counts.vocab, counts.trie, [c * 1e15 for c in counts.count], counts.stats)
    model = estimate(large, "kn-interpolated", [1, 1]).model
    assert all(np.isfinite(p).all() for p in model.p[1:])
