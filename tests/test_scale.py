"""What makes big models fast changes nothing: many blocks and threads, small reading windows, a cache."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_dual import CLOSE, Case

import mdi.dual
from mdi.dual import Dual


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(2, 4), closed=st.booleans(), smoothed=st.booleans())
def test_blocks_and_threads_do_not_change_an_iteration(seed: int, order: int, closed: bool, smoothed: bool) -> None:
    """Bit for bit between numbers of threads, as the blocks stay the same; between blocks and none up to rounding."""
    case = Case(seed, order, closed, smoothed)
    mu = case.dual.mu_of(case.lam)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mdi.dual, "SMALL_BLOCK", 1)
        for threads in (1, 2, 5):
            dual = Dual(case.wide, case.history.on(case.wide.trie), case.rows, threads)
            found.append(dual.evaluate(mu))
    assert len(dual.bounds) > 2 or len(dual.histories.first) == 2
    for other in found[1:]:
        assert np.array_equal(found[0].cells, other.cells)
        assert (found[0].slack, found[0].log_z) == (other.slack, other.log_z)
    dense = case.dense(case.lam)
    np.testing.assert_allclose(dual.marginals(found[0].cells), dense.marginals(), rtol=0, atol=CLOSE)
    assert found[0].log_z == pytest.approx(dense.log_z(), abs=CLOSE)
    assert float(found[0].cells.sum()) + found[0].slack == pytest.approx(1.0, abs=CLOSE)
