"""The generator behind the benchmarks: sound models, the same ones for the same seed."""

import sys
from pathlib import Path

import numpy as np
import pytest

from mdi.lm.normalise import worst_sum
from mdi.lm.trie import is_closed

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "utils"))
from make_synthetic_lm import make_model, write_text


@pytest.mark.slow
def test_synthetic_models_are_sound_and_reproducible(tmp_path: Path) -> None:
    model, counts = make_model(20_000, 4, seed=5)
    again, _ = make_model(20_000, 4, seed=5)
    other, _ = make_model(20_000, 4, seed=6)
    assert abs(sum(model.trie.counts) - 20_000) < 1000
    assert is_closed(model.trie)
    assert worst_sum(model)[0] < 1e-12
    assert all(map(np.array_equal, model.p, again.p))
    assert not np.array_equal(model.p[1], other.p[1])
    assert model.vocab.words[:3] == ["<s>", "</s>", "<unk>"]
    # frequent words are frequent histories: a tenth of them have most of the bigrams
    sizes = np.sort(np.diff(model.trie.begin[2]))[::-1]
    assert sizes[: len(sizes) // 10].sum() > 0.5 * sizes.sum()
    write_text(model, counts, 500, 5, str(tmp_path / "text"))
    words = (tmp_path / "text").read_text().split()
    assert 300 < len(words) < 500
    assert set(words) <= set(model.vocab.words[3:])
