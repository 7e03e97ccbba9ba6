"""Models in shards: the same n-grams, the same probabilities, the same bytes as in one piece."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_models import random_model, random_text, write_model, write_text

import mdi.lm.arpa
import mdi.lm.shard_read
import mdi.lm.shard_write
import mdi.lm.sharded_train
from mdi.adaptation.adapter import Adapter
from mdi.cli import main
from mdi.cluster import Here
from mdi.errors import MdiError
from mdi.kernels.arpa import as_written
from mdi.lm.arpa import read_arpa, write_arpa
from mdi.lm.model import with_suffixes
from mdi.lm.normalise import worst_sum
from mdi.lm.perplexity import token_probs
from mdi.lm.sharded import BYTES_PER_ROW, PROGRAM, Job, cut, job_folder, read_sharded


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


@settings(max_examples=12, deadline=None)
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
        for module in (mdi.lm.arpa, mdi.lm.shard_write):
            patch.setattr(module, "BLOCK", block)
        patch.setattr(mdi.lm.shard_read, "PIECE", int(rng.integers(1, 40)))
        patch.setattr(mdi.lm.shard_read, "WINDOW", int(rng.integers(20, 2000)))
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
@settings(max_examples=12, deadline=None)
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


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), orders=st.lists(st.integers(2, 4), min_size=2, max_size=3), n=st.integers(1, 4)
)  # fmt: skip
@example(seed=350, orders=[4, 3], n=2)  # a shard has histories that are not its own, and lack rows
def test_a_mixture_in_shards_is_that_in_one_piece(seed: int, orders: list[int], n: int) -> None:
    """Over different words, and of pruned models, too."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, order in enumerate(orders):
            write_model(random_model(rng, order, 4 + 2 * i, closed=bool(rng.integers(2))), folder / f"{i}.arpa")
        write_text(random_text(rng, 6, 8), folder / "dev")
        files = [str(folder / f"{i}.arpa") for i in range(len(orders))]
        for out, options in (("one", []), ("many", ["--shards", str(n)])):
            assert main(["mix", "--tune", str(folder / "dev"), *options, *files, str(folder / f"{out}.arpa")]) == 0
        assert same_bytes(folder / "one.arpa", folder / "many.arpa")
        one, many = (json.loads((folder / f"{out}.arpa.json").read_text()) for out in ("one", "many"))
        for field in ("weights", "ngrams", "development", "worst_sum_gap"):
            assert one[field] == many[field]


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), order=st.integers(2, 4), n=st.integers(1, 4), known=st.booleans(),
    smoothing=st.sampled_from(["kn", "kn-interpolated", "wb"]), least=st.sampled_from(["1", "1-1-2", "1-2-2", "2-3-2"]),
    pack=st.booleans(),
)  # fmt: skip
def test_training_in_shards_is_that_in_one_piece(seed, order, n, known, smoothing, least, pack) -> None:
    """From blocks of a few lines, with and without a vocabulary, and with n-grams that are left out."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setattr(mdi.lm.sharded_train, "BLOCK", int(rng.integers(5, 300)))
        patch.setattr(mdi.lm.sharded_train, "PIECE", int(rng.integers(1, 20)))
        text = write_text(random_text(rng, 8, 60), folder / "text")
        if pack:
            Path(text).write_bytes(gzip.compress(Path(text).read_bytes()))
        (folder / "words").write_text("w0\nw1\nw2\nw3\nw4\nw5\n")
        options = ["--order", str(order), "--smoothing", smoothing, "--min-counts", least]
        options += ["--vocab", str(folder / "words"), "--oov", str(rng.choice(["map", "drop"]))] if known else []
        codes = []
        for out, more in (("one", []), ("many", ["--shards", str(n)])):
            codes.append(main(["train", *options, *more, text, str(folder / f"{out}.arpa")]))
        assert codes[0] == codes[1]
        if codes[0] == 0:
            assert same_bytes(folder / "one.arpa", folder / "many.arpa")
            one, many = (json.loads((folder / f"{out}.arpa.json").read_text()) for out in ("one", "many"))
            for told in (one, many):
                del told["seconds"], told["peak_memory_mb"]
            assert one == many


class Stopping(Here):
    """Fails at the n-th call of a function."""

    def __init__(self, function: str, after: int) -> None:
        self.function, self.left, self.calls = function, after, 0

    def each(self, function, calls, label=""):
        if function.__name__ == self.function:
            self.calls += 1
            if self.left == 0:
                raise MdiError("stopped")
            self.left -= 1
        return super().each(function, calls, label)


@pytest.mark.parametrize("where", ["build", "lay_ground", "evaluate", "adapt_shard", "format_shard"])
def test_a_job_that_failed_goes_on(where: str, tmp_path: Path) -> None:
    """From its last evaluation, with the same result; and with another number of workers."""
    rng = np.random.default_rng(5)
    path = write_model(random_model(rng, 3, 6, closed=False), tmp_path / "bg.arpa")
    text = write_text(random_text(rng, 6, 40), tmp_path / "text")

    def attempt(folder: Path, runner: Here, shards: int | None) -> None:
        with job_folder(str(folder), {"same": "job"}) as place:
            model = read_sharded(path, Job(place, runner, n_shards=shards), quiet=True)
            Adapter(model, [text]).adapt("1", sigma2=1.0, tolerance=1e-9).write(str(tmp_path / f"{folder.name}.arpa"))

    through, again = Stopping("evaluate", 10**6), Stopping("evaluate", 10**6)
    attempt(tmp_path / "through", through, 3)
    with pytest.raises(MdiError, match="stopped"):
        attempt(tmp_path / "stopped", Stopping(where, 5 if where == "evaluate" else 0), 3)
    attempt(tmp_path / "stopped", again, None)
    assert same_bytes(tmp_path / "through.arpa", tmp_path / "stopped.arpa")
    assert not (tmp_path / "stopped").exists()
    saved = {"evaluate": 5, "adapt_shard": through.calls, "format_shard": through.calls}.get(where, 0)
    assert again.calls == through.calls - saved > 0 or saved == through.calls


def test_a_plain_file_is_read_in_windows(tmp_path: Path, monkeypatch) -> None:
    """Each by itself; one process reads what is packed, or has something odd in it."""
    rng = np.random.default_rng(3)
    path = Path(write_model(random_model(rng, 4, 8, closed=True), tmp_path / "a.arpa"))
    (tmp_path / "a.gz").write_bytes(gzip.compress(path.read_bytes()))
    lines = path.read_text().splitlines()
    (tmp_path / "odd.arpa").write_text("\n".join(line.replace("\\2-grams:", "  \\2-grams:") for line in lines))
    monkeypatch.setattr(mdi.lm.shard_read, "WINDOW", 300)
    alone = []
    cut_arpa = mdi.lm.shard_read.cut_arpa
    monkeypatch.setattr(mdi.lm.shard_read, "cut_arpa", lambda *args: alone.append(args[0]) or cut_arpa(*args))
    for name in ("a.arpa", "a.gz", "odd.arpa"):
        read_sharded(str(tmp_path / name), Job(_made(tmp_path / f"{name}.job"), n_shards=3)).write(
            str(tmp_path / "out")
        )
        write_arpa(read_arpa(path), tmp_path / "one")
        assert same_bytes(tmp_path / "out", tmp_path / "one")
    assert [Path(one).name for one in alone] == ["a.gz", "odd.arpa"]


@pytest.mark.parametrize("where", ["count_block", "gather", "mark", "estimate_shard", "format_shard"])
def test_training_that_failed_goes_on(where: str, tmp_path: Path, monkeypatch) -> None:
    """What has been counted is not counted again, nor are packed files unpacked again."""
    monkeypatch.setattr(mdi.lm.sharded_train, "BLOCK", 100)
    text = Path(write_text(random_text(np.random.default_rng(5), 8, 60), tmp_path / "text"))
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.read_bytes()))
    assert main(["train", str(text), str(tmp_path / "one.arpa")]) == 0
    counted = []
    stream_text = mdi.lm.sharded_train.stream_text
    monkeypatch.setattr(
        mdi.lm.sharded_train, "stream_text", lambda *args: counted.append(args[0].name) or stream_text(*args)
    )
    stopping = Stopping(where, 1 if where == "mark" else 0)

    def attempt(runner: Here) -> None:
        with job_folder(str(tmp_path / "job"), {"same": "job"}) as place:
            job = Job(place, runner, n_shards=3)
            found = mdi.lm.sharded_train.train_sharded([str(tmp_path / "text.gz")], job, 3, None, "kn", [1, 1, 2])
            found.model.write(str(tmp_path / "many.arpa"))

    with pytest.raises(MdiError, match="stopped"):
        attempt(stopping)
    attempt(Here())
    assert len(counted) == len(set(counted)) > 3
    assert same_bytes(tmp_path / "one.arpa", tmp_path / "many.arpa")


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all my work")
    with pytest.raises(MdiError, match="there is something in this folder"), job_folder(str(tmp_path / "mine"), {}):
        pass
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_shards_fit_into_memory(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).zipf(1.5, 5000).clip(0, 10**6)
    room = PROGRAM + BYTES_PER_ROW * int(weight.max() * 1.5)
    parts = Job(str(tmp_path), memory=room).ranges(weight, [])
    assert len(parts) > 1
    assert [part.first for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert (parts[0].first, parts[-1].end) == (0, len(weight))
    assert max(int(weight[part.first : part.end].sum()) for part in parts) <= (room - PROGRAM) // BYTES_PER_ROW
    with pytest.raises(MdiError, match="expected at least"):
        Job(str(tmp_path / "none"), memory=PROGRAM + 1).ranges(weight, [])


LINES = [
    ("-1 w0 w1 w9", "the word 'w9' in '-1 w0 w1 w9' is not among the 1-grams"),
    ("-1 w1 w1 w0", "its history 'w1 w1' is not among the 2-grams"),
    ("-1 w0 w0 w0", "the 3-gram 'w0 w0 w0' appears twice"),
    ("1 w0 w0 w1", "the log10 probability 1 is positive"),
]


@pytest.mark.parametrize(("line", "message"), LINES)
def test_what_is_wrong_with_a_file_is_said(line: str, message: str, tmp_path: Path) -> None:
    words = "".join(f"-1 {w} -1\n" for w in ("<s>", "</s>", "w0", "w1"))
    text = f"\\data\\\nngram 1=4\nngram 2=1\nngram 3=2\n\n\\1-grams:\n{words}\n\\2-grams:\n-1 w0 w0 0\n\n\\3-grams:\n"
    (tmp_path / "a.arpa").write_text(f"{text}-1 w0 w0 w0\n{line}\n\n\\end\\\n")
    (tmp_path / "job").mkdir()
    with pytest.raises(MdiError, match=re.escape(message)):
        read_sharded(str(tmp_path / "a.arpa"), Job(str(tmp_path / "job"), n_shards=2))


def test_too_little_memory_for_the_program_itself(tmp_path, capsys):
    """The true reason, whatever the model; and a job that has begun nothing leaves nothing."""
    rng = np.random.default_rng(3)
    path = write_model(random_model(rng, 3, 12, closed=True), tmp_path / "bg.arpa")
    text = write_text(random_text(rng, 12, 60), tmp_path / "text")
    out = str(tmp_path / "out.arpa")
    assert main(["adapt", "--memory", "300M", path, text, out]) == 1
    assert "expected more than 300M, which the program itself takes" in capsys.readouterr().err
    before = sorted(tmp_path.iterdir())
    for where in ("tcp:foo", "tcp://127.0.0.1:1", "slurm:/nowhere.yaml"):
        assert main(["adapt", "--cluster", where, path, text, str(tmp_path / "other.arpa")]) == 1
    assert sorted(tmp_path.iterdir()) == before
    assert {one.name for one in before} == {"bg.arpa", "text"}
