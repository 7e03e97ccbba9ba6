"""Every equation of the paper on one toy model, by hand: the arithmetic is in the comments, as fractions.

Huang, Li, Arora, Povey, Khudanpur: Efficient MDI Adaptation for n-gram Language Models, Interspeech 2020. Equations and
sections have the paper's numbers; `mdi/adaptation/README.md` derives from them what the package computes.

The toy is a trigram model of a, b and </s>, the background:

    p(a) = 1/2, p(b) = 1/4, p(</s>) = 1/4
    p*(a|<s>) = 3/4,        bow(<s>)   = (1 - 3/4) / (1 - 1/2) = 1/2
    p*(b|a) = 1/2,          bow(a)     = (1 - 1/2) / (1 - 1/4) = 2/3,      bow(b) = 1: nothing is seen after b
    p*(a|<s> a) = 1/2,      bow(<s> a) = (1 - 1/2) / (1 - 1/3) = 3/4,      as p(a|a) = 2/3 1/2 = 1/3
    p*(</s>|a b) = 1/2,     bow(a b)   = (1 - 1/2) / (1 - 1/4) = 2/3

and three sentences of the domain, "a b", "a b a" and "b a", ten events in all:

    after <s>: a a b    after <s> a: b b    after a b: </s> a    after b a: </s> </s>    after <s> b: a
"""

import doctest
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from updates import mu_of

import mdi
from mdi.adaptation.constraints import Constraints
from mdi.adaptation.dual import Dual
from mdi.adaptation.history import History
from mdi.adaptation.solver import SolverSettings, solve
from mdi.lm.model import rescaled
from mdi.lm.trie import NONE

F = Fraction
ROOT = Path(__file__).parent.parent
WORDS = ("a", "b", "</s>")
TEXT = [["a", "b"], ["a", "b", "a"], ["b", "a"]]
ARPA = """\\data\\
ngram 1=4
ngram 2=2
ngram 3=2

\\1-grams:
{1/4}\t</s>
-99\t<s>\t{1/2}
{1/2}\ta\t{2/3}
{1/4}\tb

\\2-grams:
{3/4}\t<s> a\t{3/4}
{1/2}\ta b\t{2/3}

\\3-grams:
{1/2}\t<s> a a
{1/2}\ta b </s>

\\end\\
"""
# Eq. 1, all of it: p(w|h) for w = a, b, </s>
P = {
    "": (F(1, 2), F(1, 4), F(1, 4)),
    "<s>": (F(3, 4), F(1, 8), F(1, 8)),  # 3/4 seen, 1/2 1/4, 1/2 1/4
    "a": (F(1, 3), F(1, 2), F(1, 6)),  # 2/3 1/2, 1/2 seen, 2/3 1/4
    "b": (F(1, 2), F(1, 4), F(1, 4)),  # as without a history
    "<s> a": (F(1, 2), F(3, 8), F(1, 8)),  # 1/2 seen, 3/4 1/2, 3/4 1/6
    "<s> b": (F(1, 2), F(1, 4), F(1, 4)),  # "<s> b" is not seen: as after b
    "a a": (F(1, 3), F(1, 2), F(1, 6)),  # as after a
    "a b": (F(1, 3), F(1, 6), F(1, 2)),  # 2/3 1/2, 2/3 1/4, 1/2 seen
    "b a": (F(1, 3), F(1, 2), F(1, 6)),
    "b b": (F(1, 2), F(1, 4), F(1, 4)),
}
BOW = {"<s>": F(1, 2), "a": F(2, 3), "b": F(1), "<s> a": F(3, 4), "a b": F(2, 3)}  # 1 for histories that are not seen
SEEN = {"<s> a", "a b", "<s> a a", "a b </s>"}
# p~(h) of the text: how often each history of ten events occurs
MASS = {"<s>": F(3, 10), "<s> a": F(2, 10), "a b": F(2, 10), "b a": F(2, 10), "<s> b": F(1, 10)}
# Eq. 4: three constraints, of which "a b" lies within "b", and how often the text has them
TARGET = {"b": F(3, 10), "a b": F(2, 10), "a b </s>": F(1, 10)}
# parameters to compute at: lambda = log 2, log 3/2, log 2
ALPHA = {"b": F(2), "a b": F(3, 2), "a b </s>": F(2)}


def p(w: str, h: str) -> Fraction:
    return P[h][WORDS.index(w)]


def ends_in(ngram: str, constraint: str) -> bool:
    return f" {ngram}".endswith(f" {constraint}")


def c(ngram: str) -> Fraction:
    """The scaling factor of Eq. 5: 2 for b, 2 3/2 = 3 for a b, 2 for a b </s>, 1 otherwise."""
    return math.prod((alpha for constraint, alpha in ALPHA.items() if ends_in(ngram, constraint)), start=F(1))


class Toy:
    """The same as the package has it."""

    def __init__(self, folder: Path) -> None:
        spelled = ARPA
        for number in ("1/4", "1/2", "2/3", "3/4"):
            spelled = spelled.replace(f"{{{number}}}", f"{math.log10(F(number)):.15f}")
        (folder / "toy.arpa").write_text(spelled)
        self.model = mdi.load(folder / "toy.arpa")
        self.counts = mdi.count_text(TEXT, self.model.vocab, 3)
        self.history = History(self.counts)
        trie, ids = self.model.trie, self.model.vocab.id
        rows = [trie.find(np.array([[ids(word) for word in ngram.split()]], np.int32)) for ngram in TARGET]
        self.constraints = Constraints([NONE, *rows])  # one of each order
        self.mass = self.history.on(trie)
        self.dual = Dual(self.model, self.mass, self.constraints)
        self.target = np.array([float(value) for value in TARGET.values()])
        self.lam = np.log([float(alpha) for alpha in ALPHA.values()])
        self.mu = mu_of(self.dual, self.lam)
        self.adapted = rescaled(self.model, self.constraints.row, self.constraints.by_order(np.exp(self.mu)))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return Toy(tmp_path_factory.mktemp("paper"))


def close(value: Fraction) -> object:
    return pytest.approx(float(value), abs=1e-12)


def test_equation_1_back_off(toy: Toy) -> None:
    for h, w in itertools.product(P, WORDS):
        shorter = h.split(" ", 1)[1] if " " in h else ""
        if h and f"{h} {w}" not in SEEN:
            assert p(w, h) == BOW.get(h, F(1)) * p(w, shorter)
        assert toy.model.prob(w, h) == close(p(w, h)), (h, w)
    assert all(sum(values) == 1 for values in P.values())


def test_the_distribution_of_histories_and_the_targets(toy: Toy) -> None:
    """(iii) and (iv) of section 2.2. "b a" and "<s> b" are not seen in the model: their mass is on a and on b, after
    which p and Z are the same."""
    assert toy.history.events == 10
    vocab, trie = toy.model.vocab, toy.model.trie
    found = {
        vocab.spell(trie.words_of_hist(k, j)): float(toy.mass[k][j])
        for k in range(3)
        for j in range(trie.n_hist(k))
        if toy.mass[k][j] > 0
    }
    assert found == {
        "<s>": close(F(3, 10)),
        "<s> a": close(F(2, 10)),
        "a b": close(F(2, 10)),
        "a": close(F(2, 10)),
        "b": close(F(1, 10)),
    }
    counted = {
        ngram: sum(
            ends_in(" ".join(["<s>", *sentence, "</s>"][: i + 1]), ngram)
            for sentence in TEXT
            for i in range(1, len(sentence) + 2)
        )
        for ngram in TARGET
    }
    assert {ngram: F(n, 10) for ngram, n in counted.items()} == TARGET


# Z of Eq. 5 and 6: sum_w p(w|h) c(hw), w = a, b, </s>
Z = {
    "": F(5, 4),  # 1/2 + 2 1/4 + 1/4
    "<s>": F(9, 8),  # 3/4 + 2 1/8 + 1/8
    "a": F(2),  # 1/3 + 3 1/2 + 1/6
    "b": F(5, 4),  # as without a history
    "<s> a": F(7, 4),  # 1/2 + 3 3/8 + 1/8
    "<s> b": F(5, 4),
    "a a": F(2),
    "a b": F(5, 3),  # 1/3 + 2 1/6 + 2 1/2
    "b a": F(2),
    "b b": F(5, 4),
}


def test_equation_6_the_normaliser(toy: Toy) -> None:
    for h in P:
        assert sum(p(w, h) * c(f"{h} {w}".strip()) for w in WORDS) == Z[h], h
    log_z = sum(float(mass) * math.log(Z[h]) for h, mass in MASS.items())
    assert toy.dual.evaluate(toy.mu).log_z == pytest.approx(log_z, abs=1e-12)


def test_section_3_2_sigma_l_from_shorter_histories() -> None:
    """Three terms: what is seen, what is backed off, and where the scale differs from that of the suffix."""
    # (1/2 - 2/3 1/4) 3 + 2/3 5/4 + 2/3 1/4 (3 - 2): b is seen after a, and "a b" has a scale of its own
    assert (p("b", "a") - BOW["a"] * p("b", "")) * 3 + BOW["a"] * Z[""] + BOW["a"] * p("b", "") * 1 == Z["a"]
    # (1/2 - 3/4 1/3) 1 + 3/4 2
    assert (p("a", "<s> a") - BOW["<s> a"] * p("a", "a")) * 1 + BOW["<s> a"] * Z["a"] == Z["<s> a"]
    # (1/2 - 2/3 1/4) 2 + 2/3 5/4 + 2/3 1/4 (2 - 1)
    seen = (p("</s>", "a b") - BOW["a b"] * p("</s>", "b")) * 2
    assert seen + BOW["a b"] * Z["b"] + BOW["a b"] * p("</s>", "b") * 1 == Z["a b"]
    for h in (h for h in P if h):  # and for all of them
        shorter = h.split(" ", 1)[1] if " " in h else ""
        bow, own = BOW.get(h, F(1)), [(f"{h} {w}", f"{shorter} {w}".strip(), w) for w in WORDS]
        seen = sum((p(w, h) - bow * p(w, shorter)) * c(hw) for hw, _, w in own if hw in SEEN)
        differing = sum(p(w, shorter) * (c(hw) - c(below)) for hw, below, w in own if c(hw) != c(below))
        assert seen + bow * Z[shorter] + bow * differing == Z[h], h


FIRST = ("<s>", "a", "b")  # w1 of a history w1 w2; </s> is in no history, <s> only at its beginning
SECOND = ("a", "b")


def test_equations_7_to_9_sums_from_the_right() -> None:
    """Sigma_R, and the auxiliary g."""
    # g(a) = 3/4 + 1 + 1, g(b) = 1 + 2/3 + 1, g() = 2/3 11/4 + 1 8/3
    g = {w2: sum(BOW.get(f"{w1} {w2}", F(1)) for w1 in FIRST) for w2 in SECOND}
    assert g == {"a": F(11, 4), "b": F(8, 3)}
    g[""] = sum(BOW[w2] * g[w2] for w2 in SECOND)
    assert g[""] == F(9, 2)

    def sigma_r(w2: str, w3: str) -> Fraction:  # Eq. 7; its addends are Eq. 9
        return sum((p(w3, f"{w1} {w2}") * c(f"{w1} {w2} {w3}") for w1 in FIRST), start=F(0))

    assert sigma_r("a", "b") == F(33, 8)  # 3/8 3 + 1/2 3 + 1/2 3
    # no "w1 a b" is seen, and none has a scale of its own: 1/2 3 g(a)
    assert sigma_r("a", "b") == p("b", "a") * 3 * g["a"]
    assert sigma_r("b", "</s>") == F(3, 2)  # 1/4 + 2 1/2 + 1/4
    # (1/2 - 2/3 1/4) 2 + 1/4 g(b) + 1/4 2/3 (2 - 1)
    assert sigma_r("b", "</s>") == F(2, 3) + F(1, 4) * g["b"] + F(1, 6)

    whole = sum((sigma_r(w2, "b") for w2 in SECOND), start=F(0))  # Eq. 8 for w3 = b: 33/8 + (1/2 + 1/3 + 1/2)
    assert whole == F(131, 24)
    second = (p("b", "a") - BOW["a"] * p("b", "")) * 3 * g["a"]  # (1/2 - 1/6) 3 11/4
    third = p("b", "") * 2 * g[""]  # 1/4 2 9/2
    fourth = p("b", "") * BOW["a"] * (3 - 2)  # 1/4 2/3 1: as printed, where g(w2) is missing
    assert (second, third, fourth) == (F(11, 4), F(9, 4), F(1, 6))
    assert second + third + fourth * g["a"] == whole
    assert second + third + fourth != whole


# p_ad(w|h) = p(w|h) c(hw) / Z(h) for w = a, b, </s>
P_AD = {
    "": (F(2, 5), F(2, 5), F(1, 5)),  # 1/2, 2 1/4, 1/4 over 5/4
    "<s>": (F(2, 3), F(2, 9), F(1, 9)),  # 3/4, 1/4, 1/8 over 9/8
    "a": (F(1, 6), F(3, 4), F(1, 12)),  # 1/3, 3/2, 1/6 over 2
    "b": (F(2, 5), F(2, 5), F(1, 5)),
    "<s> a": (F(2, 7), F(9, 14), F(1, 14)),  # 1/2, 9/8, 1/8 over 7/4
    "<s> b": (F(2, 5), F(2, 5), F(1, 5)),
    "a a": (F(1, 6), F(3, 4), F(1, 12)),
    "a b": (F(1, 5), F(1, 5), F(3, 5)),  # 1/3, 1/3, 1 over 5/3
    "b a": (F(1, 6), F(3, 4), F(1, 12)),
    "b b": (F(2, 5), F(2, 5), F(1, 5)),
}


def test_equation_5_the_form_of_the_adapted_model(toy: Toy) -> None:
    for h, values in P_AD.items():
        assert sum(values) == 1
        for w, value in zip(WORDS, values, strict=True):
            assert value == p(w, h) * c(f"{h} {w}".strip()) / Z[h]
            assert toy.adapted.prob(w, h) == close(value), (h, w)


def test_section_3_4_the_adapted_model_backs_off(toy: Toy) -> None:
    # Z(h') / Z(h) bow(h): 5/4 / (9/8) 1/2, 5/4 / 2 2/3, 2 / (7/4) 3/4, 5/4 / (5/3) 2/3
    bow_ad = {"<s>": F(5, 9), "a": F(5, 12), "b": F(1), "<s> a": F(6, 7), "a b": F(1, 2)}
    trie, vocab = toy.adapted.trie, toy.adapted.vocab
    found = {
        vocab.spell(trie.words_of_hist(k, j)): float(toy.adapted.bow[k][j])
        for k in (1, 2)
        for j in range(trie.n_hist(k))
    }
    for h, value in bow_ad.items():
        shorter = h.split(" ", 1)[1] if " " in h else ""
        assert value == Z[shorter] / Z[h] * BOW[h]
        assert found[h] == close(value), h
        for i, w in enumerate(WORDS):
            if f"{h} {w}" not in SEEN:  # the constraints here are seen
                assert P_AD[h][i] == value * P_AD[shorter][i], (h, w)


# Eq. 10 at these parameters: sum_h p~(h) p_ad(w|h) over the events of each constraint
MARGINAL = {
    "b": F(893, 2100),  # 3/10 2/9 + 2/10 9/14 + 2/10 1/5 + 2/10 3/4 + 1/10 2/5
    "a b": F(39, 140),  # 2/10 9/14 + 2/10 3/4
    "a b </s>": F(3, 25),  # 2/10 3/5
}


def test_equation_10_marginals(toy: Toy) -> None:
    for constraint, value in MARGINAL.items():
        events = ((h, i) for h in MASS for i, w in enumerate(WORDS) if ends_in(f"{h} {w}", constraint))
        assert sum(MASS[h] * P_AD[h][i] for h, i in events) == value, constraint
    found = toy.dual.evaluate(toy.mu)
    assert toy.dual.marginals(found.cells).tolist() == [close(value) for value in MARGINAL.values()]
    # disjoint cells (our departure): "b" without "a b", 893/2100 - 585/2100, and what no constraint covers
    assert found.cells.tolist() == [close(F(11, 75)), close(F(39, 140)), close(F(3, 25))]
    assert found.slack == close(1 - MARGINAL["b"] - MARGINAL["a b </s>"])
    assert toy.dual.parent.tolist() == [-1, 0, -1]
    assert toy.dual.cell_targets(toy.target).tolist() == [close(F(1, 10)), close(F(2, 10)), close(F(1, 10))]


def test_section_3_3_marginals_by_the_adjoint(toy: Toy) -> None:
    """G(h) = p~(h) / Z(h) + sum of G(x) bow(x) over x = w1 h: the paper's g with p~ and 1/Z inside."""
    G = {"<s> a": F(2, 10) / Z["<s> a"], "a b": F(2, 10) / Z["a b"], "<s>": F(3, 10) / Z["<s>"]}
    G["a"] = F(2, 10) / Z["a"] + G["<s> a"] * BOW["<s> a"]
    G["b"] = F(1, 10) / Z["b"] + G["a b"] * BOW["a b"]
    G[""] = sum((G[w] * BOW[w] for w in ("<s>", "a", "b")), start=F(0))
    assert {"<s> a": F(4, 35), "a b": F(3, 25), "<s>": F(4, 15), "a": F(13, 70), "b": F(4, 25), "": F(73, 175)} == G
    # the cell "b": all that backs off to p(b), without what "a b" takes: 2 (73/175 1/4 - 13/70 2/3 1/4)
    cell = 2 * (G[""] * p("b", "") - G["a"] * BOW["a"] * p("b", ""))
    assert cell == F(11, 75)
    assert toy.dual.evaluate(toy.mu).cells[0] == close(cell)
    # "a b": 3 13/70 1/2, after a and after <s> a, which backs off; "a b </s>": 2 3/25 1/2
    assert MARGINAL["a b"] == 3 * G["a"] * p("b", "a")
    assert MARGINAL["a b </s>"] == 2 * G["a b"] * p("</s>", "a b")


def test_algorithm_1_one_iteration(toy: Toy) -> None:
    """Lines 8 and 9 at lambda = 0: marginals of the background, and the update, which a division by C makes safe."""
    before = {
        constraint: sum(MASS[h] * p(w, h) for h in MASS for w in WORDS if ends_in(f"{h} {w}", constraint))
        for constraint in TARGET
    }
    # b: 3/10 1/8 + 2/10 3/8 + 2/10 1/6 + 2/10 1/2 + 1/10 1/4;  a b: 2/10 3/8 + 2/10 1/2;  a b </s>: 2/10 1/2
    assert before == {"b": F(13, 48), "a b": F(7, 40), "a b </s>": F(1, 10)}
    zero = np.zeros(3)
    marginal = toy.dual.marginals(toy.dual.evaluate(zero).cells)
    assert marginal.tolist() == [close(value) for value in before.values()]
    # target / marginal: 3/10 48/13, 2/10 40/7, and the third is met already
    steps = [TARGET[constraint] / before[constraint] for constraint in TARGET]
    assert steps == [F(72, 65), F(8, 7), F(1)]
    assert (toy.target / marginal).tolist() == [close(step) for step in steps]


def kl(q: dict[str, tuple], reference: dict[str, tuple]) -> float:
    """The conditional KL divergence of Eq. 3."""
    terms = ((float(MASS[h] * x), x, y) for h in MASS for x, y in zip(q[h], reference[h], strict=True) if x)
    return sum(weight * math.log(x / y) for weight, x, y in terms)


def test_equations_2_to_4_the_optimum(toy: Toy) -> None:
    """It meets the constraints, and no other model that does is closer to the background."""
    found = solve(toy.dual, toy.target, SolverSettings(1e-12, 500))
    assert found.converged
    best = rescaled(toy.model, toy.constraints.row, toy.constraints.by_order(np.exp(found.mu)))
    p_ad = {h: tuple(best.prob(w, h) for w in WORDS) for h in P}
    for constraint, target in TARGET.items():
        events = ((h, i) for h in MASS for i, w in enumerate(WORDS) if ends_in(f"{h} {w}", constraint))
        assert sum(float(MASS[h]) * p_ad[h][i] for h, i in events) == pytest.approx(float(target), abs=1e-11)
    # the text itself, counted, meets the constraints too: 2/3, 1/3 after <s>; b after <s> a; a or </s> after a b; ...
    text = {
        "<s>": (F(2, 3), F(1, 3), F(0)),
        "<s> a": (F(0), F(1), F(0)),
        "a b": (F(1, 2), F(0), F(1, 2)),
        "b a": (F(0), F(0), F(1)),
        "<s> b": (F(1), F(0), F(0)),
    }
    # Pythagoras: of the two sides of a triangle with the right angle at p_ad, the one from the background is shorter
    assert kl(text, P) == pytest.approx(kl(text, p_ad) + kl(p_ad, P), abs=1e-9)
    # strong duality: D at the optimum is the divergence
    lam = toy.dual.lam_of(found.mu)
    assert float(lam @ toy.target) - found.evaluation.log_z == pytest.approx(kl(p_ad, P), abs=1e-9)
    # and D at other parameters, such as those above, is less
    assert float(toy.lam @ toy.target) - toy.dual.evaluate(toy.mu).log_z < kl(p_ad, P)


def test_three_words_by_hand() -> None:
    """The example in the README of the mathematics."""
    found = doctest.testfile(str(ROOT / "mdi" / "adaptation" / "README.md"), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 10
