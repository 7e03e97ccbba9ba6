"""What makes big models fast changes nothing: many blocks and threads, small reading windows."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, write_model
from test_dual import CLOSE, Case
from updates import mu_of

import mdi.adaptation.dual
import mdi.lm.arpa
from mdi.adaptation.dual import Dual
from mdi.lm.arpa import read_arpa
from mdi.lm.model import extend, rescale, rescaled
from mdi.lm.trie import from_ngrams


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(2, 4), closed=st.booleans(), smoothed=st.booleans())
def test_blocks_and_threads_do_not_change_an_iteration(seed: int, order: int, closed: bool, smoothed: bool) -> None:
    """Bit for bit between numbers of threads, as the blocks stay the same; between blocks and none up to rounding."""
    case = Case(seed, order, closed, smoothed)
    mu = mu_of(case.dual, case.lam)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mdi.adaptation.dual, "FEW", 1)
        for threads in (1, 2, 5):
            dual = Dual(case.wide, case.history.on(case.wide.trie), case.rows, threads, case.history.cuts)
            found.append(dual.evaluate(mu))
    assert dual.active.blocks > 1 or len(dual.active.histories.first) <= 2
    for other in found[1:]:
        assert np.array_equal(found[0].cells, other.cells)
        assert (found[0].slack, found[0].log_z) == (other.slack, other.log_z)
    dense = case.dense(case.lam)
    np.testing.assert_allclose(dual.marginals(found[0].cells), dense.marginals(), rtol=0, atol=CLOSE)
    assert found[0].log_z == pytest.approx(dense.log_z(), abs=CLOSE)
    assert float(found[0].cells.sum()) + found[0].slack == pytest.approx(1.0, abs=CLOSE)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(1, 4), window=st.integers(20, 400), threads=st.integers(1, 3))
def test_small_windows_and_shuffled_lines_read_the_same(seed: int, order: int, window: int, threads: int) -> None:
    """Sections that end within windows parsed ahead, and n-grams in another order than the trie's (KenLM's, or any)."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, order, 6, closed=bool(rng.integers(2)))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = write_model(model, Path(folder) / "a.arpa")
        whole = read_arpa(path, quiet=True)
        shuffled = {
            gram: model[gram] for gram in sorted(model, key=lambda gram: (len(gram), len(gram) > 1 and rng.random()))
        }
        other = write_model(shuffled, Path(folder) / "b.arpa")
        patch.setattr(mdi.lm.arpa_lines, "WINDOW", window)
        patch.setattr(mdi.lm.arpa, "THREADS", threads)
        for again in (read_arpa(path, quiet=True), read_arpa(other, quiet=True)):
            assert again.vocab.words == whole.vocab.words
            for k in range(1, whole.order + 1):
                assert np.array_equal(again.trie.word[k], whole.trie.word[k])
                assert np.array_equal(again.trie.begin[k], whole.trie.begin[k])
                assert np.array_equal(again.p[k], whole.p[k])
            for j in range(whole.order):
                assert np.array_equal(again.bow[j], whole.bow[j])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(1, 4), closed=st.booleans())
def test_in_place_the_background_becomes_the_same_model(seed: int, order: int, closed: bool) -> None:
    case = Case(seed, order, closed, False)
    mu = mu_of(case.dual, case.lam)
    scales = case.rows.by_order(np.exp(mu))
    kept = rescaled(case.wide, case.rows.row, scales)
    made = case.background
    extend(made, from_ngrams(made.trie.n_words, case.chosen.ngrams(case.counts.trie)))
    rescale(made, case.rows.row, scales)
    for k in range(1, kept.order + 1):
        assert np.array_equal(made.trie.word[k], kept.trie.word[k])
        assert np.array_equal(made.p[k], kept.p[k])
    for j in range(kept.order):
        assert np.array_equal(made.bow[j], kept.bow[j])
