"""The linear-time sweeps against dense brute force."""

import math
import tempfile
from pathlib import Path

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, random_text, write_model, write_text
from updates import mu_of

from mdi.adaptation.constraints import select
from mdi.adaptation.dual import Dual, SubsetDual
from mdi.adaptation.history import History
from mdi.adaptation.problem import model_marginals
from mdi.lm.arpa import read_arpa
from mdi.lm.counts import count_text
from mdi.lm.model import extended, rescaled
from mdi.lm.normalise import history_sums
from mdi.lm.trie import from_ngrams

CLOSE = 1e-12


class Case:
    """A random problem, once as arrays and once as dictionaries."""

    def __init__(self, seed: int, order: int, closed: bool, smoothed: bool, thresholds=None, threads: int = 2) -> None:
        rng = np.random.default_rng(seed)
        n_words = int(rng.integers(2, 5 if order < 4 else 4))
        model = random_model(rng, order, n_words, closed=closed)
        text = random_text(rng, n_words, int(rng.integers(1, 25)))
        with tempfile.TemporaryDirectory() as folder:
            self.background = read_arpa(write_model(model, Path(folder) / "bg.arpa"), quiet=True)
            self.dense_model = oracle.read(Path(folder) / "bg.arpa")
            self.counts = count_text(write_text(text, Path(folder) / "text"), self.background.vocab, order)
            if smoothed:
                other = random_model(rng, int(rng.integers(1, order + 1)), n_words, closed=bool(rng.integers(2)))
                history_model = read_arpa(write_model(other, Path(folder) / "h.arpa"), quiet=True)
                same = history_model.vocab.words == self.background.vocab.words
                assert same, "the test wants one vocabulary"
                self.history = History(self.counts, history_model)
                everything = oracle.all_histories(self.dense_model, order)
                self.mass = oracle.model_histories(oracle.read(Path(folder) / "h.arpa"), everything)
            else:
                self.history = History(self.counts)
                self.mass = oracle.text_histories(text, order)
        thresholds = thresholds or [int(t) for t in rng.integers(1, 4, size=order)]
        chosen = select(self.counts, thresholds)
        keep = rng.random(chosen.total) < 0.8  # constraints need not be nested by thresholds
        self.chosen = chosen.keep(keep)
        trie = self.counts.trie
        self.wide = extended(self.background, from_ngrams(trie.n_words, self.chosen.ngrams(trie)))
        self.rows = self.chosen.relocated(trie, self.wide.trie)
        self.ngrams = [
            tuple(self.wide.vocab.words[w] for w in ngram)
            for k in range(1, order + 1)
            for ngram in self.wide.trie.ngrams(k, self.rows.row[k]).tolist()
        ]
        self.dual = Dual(self.wide, self.history.on(self.wide.trie), self.rows, threads)
        self.lam = rng.normal(0, 1.0, self.rows.total)
        self.target = rng.dirichlet(np.ones(self.rows.total + 1))[:-1]

    def dense(self, lam: np.ndarray) -> oracle.Dense:
        return oracle.Dense(self.dense_model, self.mass, self.ngrams, lam.tolist())


cases = st.builds(
    Case,
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(1, 4),
    closed=st.booleans(),
    smoothed=st.booleans(),
    threads=st.sampled_from([1, 2]),
)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_marginals_dual_and_normalisers_agree_with_brute_force(case: Case) -> None:
    dense = case.dense(case.lam)
    mu = mu_of(case.dual, case.lam)
    found = case.dual.evaluate(mu)
    np.testing.assert_allclose(case.dual.marginals(found.cells), dense.marginals(), rtol=0, atol=CLOSE)
    assert found.log_z == pytest.approx(dense.log_z(), abs=CLOSE)
    assert float(found.cells.sum()) + found.slack == pytest.approx(1.0, abs=CLOSE)
    r = case.dual.cell_targets(case.target)
    assert float(mu @ r) - found.log_z == pytest.approx(
        dense.dual(case.target.tolist()), abs=CLOSE * (1 + abs(case.lam).sum())
    )
    np.testing.assert_allclose(case.dual.lam_of(mu), case.lam, atol=CLOSE)


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(0, 2**32 - 1))
def test_some_of_the_constraints_on_the_entries_of_all(case: Case, seed: int) -> None:
    kept = np.random.default_rng(seed).random(case.rows.total) < 0.6
    dual = SubsetDual(case.dual, kept)
    dense = oracle.Dense(
        case.dense_model, case.mass, [g for g, k in zip(case.ngrams, kept, strict=True) if k], case.lam[kept].tolist()
    )
    found = dual.evaluate(mu_of(dual, case.lam[kept]))
    np.testing.assert_allclose(dual.marginals(found.cells), dense.marginals(), rtol=0, atol=CLOSE)
    assert found.log_z == pytest.approx(dense.log_z(), abs=CLOSE)
    assert float(found.cells.sum()) + found.slack == pytest.approx(1.0, abs=CLOSE)
    assert np.array_equal(case.chosen.flags_of(case.chosen.keep(kept)), kept)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_adapted_model_agrees_with_brute_force_everywhere(case: Case) -> None:
    """Every p_ad(w|h), for histories with and without mass, and the sums over all of them."""
    everywhere = dict.fromkeys(oracle.all_histories(case.dense_model, case.wide.order), 1.0)
    dense = oracle.Dense(case.dense_model, everywhere, case.ngrams, case.lam.tolist())
    model = rescaled(case.wide, case.rows.row, case.rows.by_order(np.exp(mu_of(case.dual, case.lam))))
    for (h, w), p in dense.p.items():
        assert math.exp(model.log_prob([w], list(h))) == pytest.approx(p, rel=3 * CLOSE, abs=CLOSE)
    for sums in history_sums(model):
        np.testing.assert_allclose(sums, 1.0, rtol=0, atol=1e-11)


@settings(max_examples=20, deadline=None)
@given(cases)
def test_gradient_by_finite_differences(case: Case) -> None:
    r = case.dual.cell_targets(case.target)

    def value(lam: np.ndarray) -> float:
        mu = mu_of(case.dual, lam)
        return float(mu @ r) - case.dual.evaluate(mu).log_z

    gradient = case.target - case.dual.marginals(case.dual.evaluate(mu_of(case.dual, case.lam)).cells)
    step = 1e-5
    for i in np.random.default_rng(0).permutation(len(case.lam))[:6]:
        away = np.zeros_like(case.lam)
        away[i] = step
        numeric = (value(case.lam + away) - value(case.lam - away)) / (2 * step)
        assert numeric == pytest.approx(gradient[i], abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(cases)
def test_zero_lambda_is_the_identity(case: Case) -> None:
    same = rescaled(case.wide, case.rows.row, case.rows.by_order(np.ones(case.rows.total)))
    for k in range(1, same.order + 1):
        np.testing.assert_allclose(same.p[k], case.wide.p[k], rtol=1e-11, atol=1e-15)
    for j in range(1, same.order):
        np.testing.assert_allclose(same.bow[j], case.wide.bow[j], rtol=1e-11)


@settings(max_examples=30, deadline=None)
@given(cases, st.integers(0, 2**32 - 1))
def test_marginals_of_another_model(case: Case, seed: int) -> None:
    """Smoothed targets: Sigma_R on a model of another shape, the same history distribution."""
    rng = np.random.default_rng(seed)
    n_words = len(case.background.vocab) - 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "other.arpa"
        write_model(random_model(rng, int(rng.integers(1, 4)), n_words, closed=False), path)
        other, dense_other = read_arpa(str(path), quiet=True), oracle.read(path)
    found = model_marginals(other, case.counts.trie, case.chosen, case.history, 1)
    dense = oracle.Dense(dense_other, case.mass, case.ngrams, [0.0] * len(case.ngrams))
    np.testing.assert_allclose(found, dense.marginals(), rtol=0, atol=CLOSE)


def test_results_do_not_depend_on_threads() -> None:
    one, two = (Case(7, 3, False, False, threads=t) for t in (1, 2))
    a, b = one.dual.evaluate(one.lam), two.dual.evaluate(two.lam)
    assert np.array_equal(a.cells, b.cells)
    assert (a.slack, a.log_z) == (b.slack, b.log_z)
