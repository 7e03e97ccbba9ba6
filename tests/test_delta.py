"""Adaptations as small files: the same models to the last byte, nothing but the right background, no damage unseen."""

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lattice_data import LAT, WORDS
from random_models import random_model, random_text, write_model, write_text

import mdi
from mdi.adaptation.adapter import Adapter, active_part
from mdi.adaptation.delta import decode, delta_of, encode, rounded
from mdi.adaptation.solver import SolverSettings
from mdi.cli import main
from mdi.errors import MdiError
from mdi.lm.identity import identity
from mdi.lm.normalise import worst_sum
from mdi.lm.trie import Array, is_closed

DATA = Path(__file__).parent / "data"
BACKGROUND = str(DATA / "kaldi" / "bg.kn.arpa.gz")
IN_DOMAIN = str(DATA / "text" / "in.txt.gz")
ALL = ["--min-counts", "1", "--sigma2", "1"]


@pytest.fixture(scope="module")
def background() -> mdi.NgramModel:
    return mdi.read_arpa(BACKGROUND)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a.delta, and a.arpa of the same adaptation."""
    folder = tmp_path_factory.mktemp("made")
    assert main(["adapt", *ALL, "--delta", str(folder / "a.delta"), BACKGROUND, IN_DOMAIN]) == 0
    assert main(["adapt", *ALL, BACKGROUND, IN_DOMAIN, str(folder / "a.arpa")]) == 0
    return folder


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(1, 5),
    closed=st.booleans(),
    thresholds=st.sampled_from(["1", "2", "1-2", "3-1"]),
    sigma2=st.sampled_from([None, 1.0]),
)
def test_a_part_of_the_background_gives_the_same_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, seed, order, closed, thresholds, sigma2
) -> None:
    folder = tmp_path_factory.mktemp("delta")
    rng = np.random.default_rng(seed)
    n_words = int(rng.integers(3, 9))
    model = mdi.read_arpa(write_model(random_model(rng, order, n_words, closed=closed), folder / "x"), quiet=True)
    # some words of the model do not occur in the text, and some of the text's are not in the model
    text = [[w for w in line if w != "w0"] or ["w1"] for line in random_text(rng, n_words + 1, 12)]
    adapter = Adapter(model, write_text(text, folder / "in.txt"))
    part = active_part(adapter.background, adapter.counts.trie)
    assert is_closed(part.trie)
    assert worst_sum(part)[0] < 1e-12
    thresholds = thresholds if order > 1 else thresholds[0]
    try:
        whole = adapter.adapt(thresholds, sigma2=sigma2, settings=SolverSettings(max_iters=50))
    except MdiError as error:
        with pytest.raises(MdiError, match=str(error)[:20]):
            adapter.delta(thresholds, sigma2=sigma2, settings=SolverSettings(max_iters=50))
        return
    delta = adapter.delta(thresholds, sigma2=sigma2, settings=SolverSettings(max_iters=50))
    assert np.array_equal(delta.mu, whole.solution.mu)
    for one in (delta, delta_of(whole, identity(model)), decode(encode(delta))):
        assert one.apply(model) == whole.model


@pytest.mark.parametrize(
    "options",
    [
        ["--min-counts", "2"],
        ["--min-counts", "5-3-2"],
        ALL,
        ["--targets", "smoothed"],
        [*ALL, "--history", str(DATA / "kaldi" / "mix.arpa.gz")],
    ],
)
def test_apply_writes_what_adapt_writes(tmp_path: Path, options: list[str]) -> None:
    direct, delta, applied = (str(tmp_path / name) for name in ("x.arpa", "x.delta", "y.arpa"))
    assert main(["adapt", *options, BACKGROUND, IN_DOMAIN, direct]) == 0
    assert main(["adapt", *options, "--delta", delta, BACKGROUND, IN_DOMAIN]) == 0
    assert main(["apply", BACKGROUND, delta, applied]) == 0
    assert Path(direct).read_bytes() == Path(applied).read_bytes()
    mine, theirs = (json.loads(Path(f"{path}.json").read_text()) for path in (applied, direct))
    for field in ("kl_to_background", "constraints", "iterations", "residuals", "constraints_dropped", "ngrams"):
        assert mine[field] == theirs[field], field
    assert mine["made"]["in_domain"] == [IN_DOMAIN]


def test_a_sweep_of_deltas(tmp_path: Path) -> None:
    common = ["adapt", "--min-counts", "2-2-2,5-3-2"]
    assert main([*common, "--delta", str(tmp_path / "{}.delta"), BACKGROUND, IN_DOMAIN]) == 0
    assert main([*common, BACKGROUND, IN_DOMAIN, str(tmp_path / "{}.arpa")]) == 0
    for name in ("2-2-2", "5-3-2"):
        assert main(["apply", BACKGROUND, str(tmp_path / f"{name}.delta"), str(tmp_path / "y.arpa")]) == 0
        assert (tmp_path / "y.arpa").read_bytes() == (tmp_path / f"{name}.arpa").read_bytes()


def test_at_most_8_bytes_per_constraint(made: Path) -> None:
    delta = mdi.read_delta(made / "a.delta")
    assert delta.constraints.total > 1000
    assert (made / "a.delta").stat().st_size <= 8 * delta.constraints.total
    assert len(encode(replace(delta, certificate={}, made={}))) <= 7.5 * delta.constraints.total


def test_another_background_is_refused(made: Path, background: mdi.NgramModel, tmp_path: Path, capsys) -> None:
    delta = mdi.read_delta(made / "a.delta")
    assert delta.background == identity(background)
    p = [part.copy() for part in background.p]
    p[2][7] *= 1 + 3e-6  # the last of seven digits
    bow = [part.copy() for part in background.bow]
    bow[1][-1] *= 1 - 3e-6
    for other in (replace(background, p=p), replace(background, bow=bow)):
        with pytest.raises(MdiError, match=r"is for the background .*adapt again"):
            delta.apply(other)
    fine = [part * (1 + 2e-16) for part in background.p]  # the last bit, as another machine may have it
    changed = sum(int((a != b).sum()) for a, b in zip(fine, background.p, strict=True))
    assert changed
    assert identity(replace(background, p=[fine[0], *fine[1:]])) == delta.background
    other = str(DATA / "kaldi" / "mix.arpa.gz")
    for command in (
        ["apply", other, str(made / "a.delta"), str(tmp_path / "out")],
        ["adapt", "--start", str(made / "a.delta"), other, IN_DOMAIN, str(tmp_path / "out")],
        ["ppl", other, IN_DOMAIN, "--delta", str(made / "a.delta")],
    ):
        assert main(command) == 1
        assert f"{made / 'a.delta'}: is for the background {delta.background}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_rounding_is_fine_and_keeps_what_is_rounded() -> None:
    rng = np.random.default_rng(1)
    for size in (0, 1, 100):
        mu = rng.normal(size=size) * 5
        once = rounded(mu)
        np.testing.assert_allclose(once, mu, rtol=0, atol=2**-43)
        assert np.array_equal(rounded(once), once)
    assert rounded(np.array([0.0, -0.0])).tolist() == [0.0, 0.0]
    nearly = np.array([np.nextafter(8.0, 0.0), -1.0])  # rounds up to the next power of 2
    assert np.array_equal(rounded(nearly), [8.0, -1.0])
    assert np.isnan(rounded(np.array([np.nan]))).all()


def test_a_warm_start_needs_fewer_iterations(tmp_path: Path, background: mdi.NgramModel) -> None:
    """More text, begun where the old one ended, ends where a cold start does."""
    with gzip.open(IN_DOMAIN, "rt") as stream:
        lines = [line.split() for line in stream]
    less, more = (write_text(lines[:n], tmp_path / f"{n}.txt") for n in (len(lines) - 20, len(lines)))
    first, again = str(tmp_path / "a.delta"), str(tmp_path / "b.delta")
    assert main(["adapt", *ALL, "--delta", first, BACKGROUND, less]) == 0
    assert main(["adapt", *ALL, "--start", first, "--delta", again, BACKGROUND, more]) == 0
    warm = mdi.read_delta(again)
    cold = Adapter(background, more).delta("1", sigma2=1.0)
    assert warm.certificate["iterations"] < cold.certificate["iterations"]
    assert warm.certificate["kl_to_background"] == pytest.approx(cold.certificate["kl_to_background"], abs=2e-3)
    same = Adapter(background, less).delta("1", sigma2=1.0, start=mdi.read_delta(first))
    assert same.certificate["iterations"] == 1
    assert np.array_equal(same.mu, mdi.read_delta(first).mu)


def test_verbs_take_deltas(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    delta, arpa = str(made / "a.delta"), str(made / "a.arpa")

    def printed(*command: str) -> str:
        capsys.readouterr()
        assert main(list(command)) == 0
        return capsys.readouterr().out

    mine = json.loads(printed("ppl", "--json", "true", BACKGROUND, IN_DOMAIN, "--delta", delta))
    theirs = json.loads(printed("ppl", "--json", "true", arpa, IN_DOMAIN))
    assert mine["ppl"] == pytest.approx(theirs["ppl"], rel=1e-5)
    out = [str(tmp_path / name) for name in ("x", "y")]
    printed("fst", "--words", WORDS, BACKGROUND, out[0], "--delta", delta)
    printed("fst", "--words", WORDS, arpa, out[1])
    assert Path(out[0]).stat().st_size == Path(out[1]).stat().st_size
    lats = str(LAT / "lats.txt.gz")
    printed("rescore", lats, out[0], "--words", WORDS, "--new-lm", BACKGROUND, "--delta", delta)
    printed("rescore", lats, out[1], "--words", WORDS, "--new-lm", arpa)
    assert Path(out[0]).stat().st_size == Path(out[1]).stat().st_size
    assert main(["rescore", lats, out[0], "--words", WORDS, "--old-lm", BACKGROUND, "--delta", delta]) == 2
    printed("mix", "--weights", "0.3,0.7", BACKGROUND, out[0], "--delta", delta)
    printed("mix", "--weights", "0.3,0.7", BACKGROUND, arpa, out[1])
    mixed, expected = (mdi.read_arpa(path) for path in out)
    assert mixed.trie.counts == expected.trie.counts
    np.testing.assert_allclose(mixed.p[3], expected.p[3], rtol=1e-5)


def test_perplexities_of_an_adaptation_without_a_model(made: Path, capsys: pytest.CaptureFixture) -> None:
    texts = []
    for out in (["--delta", str(made / "b.delta"), BACKGROUND, IN_DOMAIN], [BACKGROUND, IN_DOMAIN, str(made / "b")]):
        capsys.readouterr()
        assert main(["adapt", *ALL, "--ppl", IN_DOMAIN, *out]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    (made / "b.delta").unlink()


def test_the_table_of_deltas(made: Path, capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    capsys.readouterr()
    assert main(["list-deltas", str(made)]) == 0
    names, values = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    row = dict(zip(names, values, strict=True))
    delta = mdi.read_delta(made / "a.delta")
    assert row["constraints"] == str(delta.constraints.total)
    assert (row["min_counts"], row["sigma2"], row["converged"]) == ("1", "1", "true")
    assert (row["background"], row["id"], row["text"]) == (BACKGROUND, delta.background[:8], IN_DOMAIN)
    assert main(["list-deltas", str(tmp_path)]) == 1
    assert main(["list-deltas", BACKGROUND]) == 1
    assert "not a delta; expected a file of mdi adapt --delta" in capsys.readouterr().err


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["adapt", "--delta", str(tmp_path / "x"), BACKGROUND]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"junk" + data, "not a delta"),
        (lambda data: data[:-1], "its checksum is another"),
        (lambda data: data[:40], "damaged"),
        (lambda data: data.replace(b'"version": 3', b'"version": 2'), "version 2 of deltas; expected 3"),
        (lambda data: data.replace(b'"words": ', b'"words":-'), "damaged"),
        (lambda data: data.replace(b'"ngrams": [', b'"ngrams":{['), "damaged"),
    ],
)
def test_damage_is_seen(made: Path, change, message: str) -> None:
    with pytest.raises(MdiError, match=message):
        decode(change((made / "a.delta").read_bytes()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids: ids[::-1], "n-grams are not in order"),
        (lambda ids: np.append(ids[:-1], ids[-2]), "n-grams are not in order"),
        (lambda ids: np.append(ids[:-1], np.int32(1 << 30)), "a word that the background lacks"),
        (lambda ids: np.append(ids[:-1], np.int32(-1)), "a word that the background lacks"),
    ],
)
def test_words_that_cannot_be_are_seen(made: Path, change: Callable[[Array], Array], message: str) -> None:
    """In a body whose checksum is right: the ids of the 1-grams are its first numbers."""
    data = (made / "a.delta").read_bytes()
    end = 16 + int.from_bytes(data[8:16], "little")
    head, body = json.loads(data[16:end]), zlib.decompress(data[end:])
    n = head["ngrams"][0]
    ids = np.frombuffer(body[: 4 * n], np.uint8).reshape(4, n).T.copy().view("<i4").ravel()
    changed = np.ascontiguousarray(change(ids), "<i4").view(np.uint8).reshape(-1, 4).T.tobytes()
    packed = zlib.compress(changed + body[4 * n :])
    text = json.dumps(head | {"crc32": zlib.crc32(packed)}).encode()
    with pytest.raises(MdiError, match=message):
        decode(data[:8] + len(text).to_bytes(8, "little") + text + packed)


def test_weights_of_histories_that_nothing_follows_are_not_written(made: Path) -> None:
    """They are 1 up to rounding, which once was written as -4.8e-17."""
    assert "e-1" not in (made / "a.arpa").read_text()
