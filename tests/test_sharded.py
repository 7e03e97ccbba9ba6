"""Models in shards: the same n-grams, the same probabilities, the same bytes as in one piece."""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, random_text, write_model, write_text

import mdi.lm.arpa
import mdi.lm.shard_arpa
from mdi.adaptation.adapter import Adapter
from mdi.errors import MdiError
from mdi.kernels.arpa import as_written
from mdi.lm.arpa import read_arpa, write_arpa
from mdi.lm.model import with_suffixes
from mdi.lm.normalise import worst_sum
from mdi.lm.perplexity import token_probs
from mdi.lm.sharded import Job, cut, read_sharded


def same_bytes(a: Path, b: Path) -> bool:
    return a.read_bytes() == b.read_bytes()


def members(path: Path) -> list[bytes]:
    """The content of each gzip member: ISA-L packs a few lines now in one way, now in another."""
    data, found = path.read_bytes(), []
    while data and path.suffix == ".gz":
        unpacker = zlib.decompressobj(wbits=31)
        found.append(unpacker.decompress(data))
        data = unpacker.unused_data
    return found or [data]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), order=st.integers(2, 4), closed=st.booleans(), n=st.integers(1, 6),
    block=st.sampled_from([3, 7, 1 << 15]), pack=st.booleans(),
)  # fmt: skip
def test_a_model_goes_through_shards_unchanged(seed: int, order: int, closed: bool, n: int, block: int, pack: bool):
    rng = np.random.default_rng(seed)
    model = random_model(rng, order, 6, closed=closed)
    shuffled = dict(sorted(model.items(), key=lambda gram: (len(gram[0]), len(gram[0]) > 1 and rng.random())))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder, suffix = Path(name), ".gz" if pack else ""
        path = write_model(shuffled, folder / "a.arpa")
        for module in (mdi.lm.arpa, mdi.lm.shard_arpa):
            patch.setattr(module, "BLOCK", block)
        patch.setattr(mdi.lm.shard_arpa, "PIECE", int(rng.integers(1, 40)))
        whole = read_arpa(path, quiet=True)
        write_arpa(whole, folder / f"one{suffix}")
        for at, found in enumerate(
            [read_sharded(path, Job(_made(folder / "file"), n_shards=n), quiet=True),
             cut(whole, Job(_made(folder / "cut"), n_shards=n))]
        ):  # fmt: skip
            counts = found.write(str(folder / f"shards{at}{suffix}"))
            assert counts == whole.trie.counts
            assert members(folder / f"one{suffix}") == members(folder / f"shards{at}{suffix}")
            assert found.worst_sum() == worst_sum(whole)
            ids = rng.integers(-1, len(whole.vocab), 60).astype(np.int32)
            for mine, theirs in zip(token_probs(whole, ids), token_probs(found, ids), strict=True):
                assert np.array_equal(mine, theirs)


def _made(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


@pytest.mark.filterwarnings("ignore::mdi.errors.ConvergenceWarning")
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), order=st.integers(2, 4), closed=st.booleans(), n=st.integers(1, 4),
    prior=st.booleans(), sweep=st.booleans(),
)  # fmt: skip
def test_adaptation_in_shards_is_that_in_one_piece(seed, order, closed, n, prior, sweep):
    """To the last bit, as the shards are cut where the blocks are."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_model(random_model(rng, order, 6, closed=closed), folder / "bg.arpa")
        text = write_text(random_text(rng, 6, 30), folder / "text")
        sets = ["1", "2-1", "3-2"] if sweep else ["2-1"]
        options = {"sigma2": 1.0 if prior else None, "max_iters": 30}
        one = Adapter(read_arpa(path, quiet=True), [text])
        sharded = read_sharded(path, Job(_made(folder / "shards"), n_shards=n), one.history.cuts, quiet=True)
        many = Adapter(sharded, [text])
        assert {shard.first for shard in sharded.shards} <= set(one.history.cuts.tolist())
        try:
            results = list(one.sweep(sets, **options))
        except MdiError as error:
            with pytest.raises(MdiError, match=str(error)[:20]):
                list(many.sweep(sets, **options))
            return
        for mine, theirs in zip(results, many.sweep(sets, **options), strict=True):
            assert theirs.problem.ngrams() == mine.problem.ngrams()
            assert theirs.problem.dropped.reasons == mine.problem.dropped.reasons
            assert theirs.problem.dual.active_rows == mine.problem.dual.active_rows
            assert theirs.problem.dual.entries == mine.problem.dual.entries
            assert np.array_equal(theirs.solution.mu, mine.solution.mu)
            write_arpa(mine.whole, folder / "one.arpa", mine.problem.keep)
            theirs.write(str(folder / "many.arpa"))
            assert same_bytes(folder / "one.arpa", folder / "many.arpa")
            # of the file, after its digits are rounded
            assert theirs.worst_sum() == worst_sum(with_suffixes(mine.whole), as_written)
            assert theirs.counts == mine.counts
            assert theirs.kl == pytest.approx(mine.kl, abs=1e-9)
