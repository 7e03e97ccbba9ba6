"""Adaptation end to end: marginals met, KL as certified, sums to one, degenerate and impossible constraints."""

import gzip
import json
from functools import partial
from pathlib import Path

import numpy as np
import oracle
import pytest
from goldens import GOOD, SHORT_TEXT
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_models import random_model, random_text, write_model, write_text

from mdi import SolverSettings, adapt, read_arpa, write_arpa
from mdi.adaptation.adapter import Adapter
from mdi.adaptation.constraints import IMPLIED, IMPOSSIBLE, NO_MASS_LEFT
from mdi.adaptation.delta import delta_of
from mdi.cli import main
from mdi.lm.counts import count_text, read_counts, write_counts
from mdi.lm.identity import identity
from mdi.lm.normalise import worst_sum

DATA = Path(__file__).parent / "data"
paper_adapt = partial(adapt, sigma2=None)  # without a prior marginals are met exactly
BACKGROUND = str(DATA / "kaldi" / "bg.kn.arpa.gz")
IN_DOMAIN = str(DATA / "text" / "in.txt.gz")


def random_problem(folder: Path, seed: int, order: int, closed: bool):
    rng = np.random.default_rng(seed)
    n_words = int(rng.integers(2, 5))
    path = write_model(random_model(rng, order, n_words, closed=closed), folder / "bg.arpa")
    text = random_text(rng, n_words, int(rng.integers(5, 40)))
    return path, text, write_text(text, folder / "in.txt")


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans(), st.sampled_from(["2", "3-2", "1-2"]))
def test_the_written_model_is_the_optimum(
    tmp_path_factory: pytest.TempPathFactory, seed: int, order: int, closed: bool, thresholds: str
) -> None:
    """Smoothed targets are always feasible: every kept marginal of the re-read file, by brute force, is its target."""
    folder = tmp_path_factory.mktemp("adapt")
    background, text, text_path = random_problem(folder, seed, order, closed)
    thresholds = thresholds if order > 1 else thresholds[0]
    adapted = paper_adapt(
        read_arpa(background, quiet=True),
        text_path,
        thresholds,
        targets="smoothed",
        settings=SolverSettings(1e-7, 3000),
    )
    assert adapted.solution.converged, adapted.solution.message
    write_arpa(adapted.model, str(folder / "out.arpa.gz"))
    again = read_arpa(str(folder / "out.arpa.gz"))
    assert worst_sum(again)[0] < 1e-6
    mass = oracle.text_histories(text, order)
    ngrams = [tuple(ngram.split()) for ngram in adapted.problem.ngrams()]
    written = oracle.Dense(oracle.read(folder / "out.arpa.gz"), mass, ngrams, [0.0] * len(ngrams))
    np.testing.assert_allclose(written.marginals(), adapted.problem.target, rtol=0, atol=2e-6)
    dense = oracle.Dense(oracle.read(background), mass, ngrams, adapted.lam.tolist())
    assert adapted.kl == pytest.approx(dense.kl(), abs=1e-9)
    assert adapted.dual_value == pytest.approx(adapted.kl, abs=1e-5)


@pytest.mark.parametrize("thresholds", ["2", "5-3-2", "6-4-3"])
def test_the_golden_pair(thresholds: str, tmp_path: Path) -> None:
    """SRILM's background of a synthetic corpus: in-domain frequencies are met, and every history sums to one in the
    file."""
    adapted = paper_adapt(read_arpa(BACKGROUND), IN_DOMAIN, thresholds)
    assert adapted.solution.converged
    assert adapted.solution.iterations <= 20
    assert float(np.abs(adapted.problem.target - adapted.solution.marginal).sum()) <= 1e-3
    np.testing.assert_allclose(adapted.problem.target, adapted.problem.count / 8072)  # 7,272 words and 800 </s>
    write_arpa(adapted.model, str(tmp_path / "out.arpa"))
    assert worst_sum(read_arpa(str(tmp_path / "out.arpa")))[0] < 1e-6
    once = paper_adapt(
        read_arpa(str(tmp_path / "out.arpa")), IN_DOMAIN, thresholds, settings=SolverSettings(5e-3)
    )  # adapted again: nothing to do
    assert once.solution.iterations == 1


def test_constraints_that_others_imply_are_dropped_and_counted(tmp_path: Path) -> None:
    """w1 occurs only after w0, </s> only after w1 and w2: with those pairs constrained their own cells would be
    empty."""
    model = random_model(np.random.default_rng(1), 2, 3, closed=True)
    text = write_text([["w0", "w1"], ["w0", "w1", "w2"], ["w2", "w0", "w1"], ["w2", "w2"]], tmp_path / "t")
    adapted = paper_adapt(read_arpa(write_model(model, tmp_path / "bg.arpa")), text, "2", settings=SolverSettings(1e-6))
    assert adapted.problem.dropped.reasons[IMPLIED] == 2
    assert "</s>" not in adapted.problem.ngrams()
    assert "w1" not in adapted.problem.ngrams()
    assert "w0 w1" in adapted.problem.ngrams()
    assert adapted.model.log_prob(["w1"], ["w2"]) > np.log(1e-3)


def test_words_without_a_constraint_keep_some_probability(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(1), 1, 3, closed=True)
    text = write_text([["w0", "w1"], ["w0", "w1", "w2"], ["w1"]], tmp_path / "t")
    adapted = paper_adapt(read_arpa(write_model(model, tmp_path / "bg.arpa")), text, "1", settings=SolverSettings(1e-6))
    assert adapted.problem.dropped.reasons == {NO_MASS_LEFT: 1}  # w2, seen once; <unk> is never seen
    assert adapted.solution.converged
    assert np.exp(adapted.model.log_prob(["<unk>"], [])) > 1e-3
    assert np.exp(adapted.model.log_prob(["w1"], [])) == pytest.approx(3 / 9, abs=1e-5)


def test_words_that_the_background_forbids_are_reported(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(3), 2, 3, closed=True)
    lost = model["w1",][0]
    for gram in [g for g in model if len(g) == 2 and "w1" in g]:
        del model[gram]
    model["w1",] = (0.0, 1.0)
    model["w0",] = (model["w0",][0] + lost, model["w0",][1])
    text = write_text([["w0", "w1"], ["w0", "w1", "w2"], ["w0"]], tmp_path / "t")
    adapted = paper_adapt(read_arpa(write_model(model, tmp_path / "bg.arpa")), text, "2-9", allow_unnormalized=True)
    assert adapted.problem.dropped.reasons[IMPOSSIBLE] == 1
    assert "w1" not in adapted.problem.ngrams()


def test_counts_do_instead_of_text(tmp_path: Path) -> None:
    background = read_arpa(BACKGROUND)
    counts = count_text(IN_DOMAIN, background.vocab, 3)
    write_counts(counts, str(tmp_path / "counts.gz"))
    again = read_counts(str(tmp_path / "counts.gz"), background.vocab, 3)
    a, b = (paper_adapt(background, source, "5-3-2") for source in (IN_DOMAIN, again))
    assert np.array_equal(a.lam, b.lam)


def test_scaled_counts_change_nothing_but_the_thresholds(tmp_path: Path) -> None:
    """Fractional counts: a third of every count, thresholds a third too."""
    background = read_arpa(BACKGROUND)
    counts = count_text(IN_DOMAIN, background.vocab, 3)
    lines = tmp_path / "thirds"
    write_counts(counts, str(tmp_path / "counts"))
    with open(lines, "w") as out:
        for line in (tmp_path / "counts").read_text().splitlines():
            ngram, value = line.split("\t")
            out.write(f"{ngram}\t{float(value) / 3!r}\n")
    thirds = read_counts(str(lines), background.vocab, 3)
    a = paper_adapt(background, counts, "6-3-3")
    b = paper_adapt(background, thirds, "1.999-0.999-0.999")
    assert a.problem.ngrams() == b.problem.ngrams()
    np.testing.assert_allclose(a.problem.target, b.problem.target, rtol=1e-9)


def test_warm_start_gives_what_a_cold_start_gives(tmp_path: Path) -> None:
    background = read_arpa(BACKGROUND)
    lines = gzip.decompress(Path(IN_DOMAIN).read_bytes()).decode().splitlines()
    (tmp_path / "first").write_text("\n".join(lines[:780]) + "\n")
    (tmp_path / "all").write_text("\n".join(lines) + "\n")
    old = paper_adapt(background, str(tmp_path / "first"), "5-3-2", settings=SolverSettings(1e-5))
    start = delta_of(old, identity(background))
    cold = paper_adapt(background, str(tmp_path / "all"), "5-3-2", settings=SolverSettings(1e-5))
    warm = paper_adapt(background, str(tmp_path / "all"), "5-3-2", settings=SolverSettings(1e-5), start=start)
    assert warm.solution.iterations < 0.75 * cold.solution.iterations
    for k in (1, 2, 3):
        np.testing.assert_allclose(warm.model.p[k] * 1.0, cold.model.p[k], rtol=0.02, atol=2e-4)
    assert warm.kl == pytest.approx(cold.kl, abs=1e-4)


def test_history_by_a_model(tmp_path: Path) -> None:
    """Targets and histories by the in-domain model: always consistent, so the solver meets them."""
    background = read_arpa(BACKGROUND)
    in_domain = read_arpa(str(DATA / "srilm" / "in.kn.arpa.gz"))
    adapted = paper_adapt(background, IN_DOMAIN, "5-3-2", targets=in_domain, history=in_domain)
    assert adapted.solution.converged
    assert worst_sum(adapted.model)[0] < 1e-9
    found = adapted.solution.evaluation
    assert float(found.cells.sum()) + found.slack == pytest.approx(1.0)


def test_command_writes_model_certificate_and_constraints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table = tmp_path / "out.arpa.gz", tmp_path / "constraints.tsv.gz"
    options = ["--sigma2", "none", "--min-counts", "5-3-2", "--constraints-out"]
    assert main(["adapt", *options, str(table), BACKGROUND, IN_DOMAIN, str(out)]) == 0
    certificate = json.loads((tmp_path / "out.arpa.gz.json").read_text())
    assert certificate["converged"]
    assert certificate["worst_sum_gap"] < 1e-6
    assert certificate["distance_to_targets"] <= 1e-3
    assert certificate["dual"] == pytest.approx(certificate["kl_to_background"], abs=1e-2)
    assert certificate["constraints_dropped"][IMPLIED] > 0
    assert [row["order"] for row in certificate["residuals"]] == [1, 2, 3]
    lines = gzip.decompress(table.read_bytes()).decode().splitlines()
    assert lines[0].split("\t") == ["ngram", "order", "count", "target", "marginal_before", "marginal_after", "lambda"]
    assert len(lines) == certificate["constraints"] + 1
    assert "KL to the background" in capsys.readouterr().err


def test_a_model_that_did_not_converge_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.arpa"
    assert (
        main(["adapt", "--sigma2", "none", "--min-counts", "2", "--max-iters", "3", BACKGROUND, IN_DOMAIN, str(out)])
        == 1
    )
    assert "did not converge" in capsys.readouterr().err
    assert not json.loads((tmp_path / "out.arpa.json").read_text())["converged"]
    assert worst_sum(read_arpa(str(out)))[0] < 1e-6


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--min-counts", "2-x", BACKGROUND, IN_DOMAIN, "OUT"], "expected positive numbers", 2),
        (["--min-counts", "1-1-1-1", BACKGROUND, IN_DOMAIN, "OUT"], "expected at most 3 numbers, as the order is 3", 2),
        (["--min-counts", "100000", BACKGROUND, IN_DOMAIN, "OUT"], "lower them", 1),
        ([BACKGROUND, "OUT"], "expected BACKGROUND TEXT OUT", 2),
        (["--count-weight", "2", BACKGROUND, IN_DOMAIN, "OUT"], "--count-weight 2 and no counts", 2),
        (["--delta", "OUT", "--format", "fst", BACKGROUND, IN_DOMAIN], "expected it with mdi apply", 2),
        (["--words-out", "words.txt", BACKGROUND, IN_DOMAIN, "OUT"], "no table to put words into", 2),
        ([BACKGROUND, "-", "-", "OUT"], "'-' stands for 2 inputs", 2),
        ([BACKGROUND, str(DATA / "bad" / "empty.arpa"), "OUT"], "no text", 1),
        ([BACKGROUND, IN_DOMAIN, BACKGROUND], "also an input", 1),
        ([BACKGROUND, IN_DOMAIN, "nowhere/out.arpa"], "does not exist", 1),
        (["--new-words", "error", BACKGROUND, str(DATA / "text" / "dev.txt"), "OUT"], "oov", 1),
        (
            [BACKGROUND, str(DATA.parent.parent / "pyproject.toml"), "OUT"],
            "in-domain words are outside the vocabulary",
            1,
        ),
        (
            [str(DATA / "bad" / "missing-backoff-bigram.arpa"), str(DATA / "bad" / "tiny.txt"), "OUT"],
            "--allow-unnormalized",
            1,
        ),
        (["--counts", IN_DOMAIN, BACKGROUND, "OUT"], "expected the words of an n-gram and a count", 1),
    ],
)
def test_bad_usage_is_explained_and_leaves_nothing(
    arguments: list[str], message: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adapt", *(str(tmp_path / "out.arpa") if a == "OUT" else a for a in arguments)]) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.splitlines()[-1].startswith("mdi adapt: ")
    assert list(tmp_path.iterdir()) == []


def test_an_unnormalised_background_can_be_taken_as_it_is(tmp_path: Path) -> None:
    source = str(DATA / "bad" / "missing-backoff-bigram.arpa")
    out = str(tmp_path / "out.arpa")
    options = ["--allow-unnormalized", "true", "--min-counts", "2", "--sigma2", "none"]
    assert main(["adapt", *options, source, str(DATA / "bad" / "tiny.txt"), out]) == 0
    assert worst_sum(read_arpa(out))[0] < 1e-6
    assert json.loads(Path(f"{out}.json").read_text())["options"]["allow_unnormalized"] is True


def test_oov_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mapped to <unk> they are events; dropped they are none, and break the n-grams around them."""
    background = read_arpa(BACKGROUND)
    (tmp_path / "t").write_text("w000 oov w001\nw000 w001\n")
    mapped, dropped = (count_text(tmp_path / "t", background.vocab, 3, oov) for oov in ("map", "drop"))
    assert mapped.count[1].sum() == 9  # two sentences: 5 words, 2 <s>, 2 </s>
    assert dropped.count[1].sum() == 8
    ids = background.vocab.ids(["w000", "w001"])[None, :]
    assert mapped.count[2][mapped.trie.find(ids)[0]] == 1
    assert dropped.count[2][dropped.trie.find(ids)[0]] == 1
    assert mapped.stats.oov == dropped.stats.oov == 1
    assert mapped.stats.oov_examples == ["oov"]
    options = ["--sigma2", "none", "--min-counts", "1", "--new-words", "map"]
    assert main(["adapt", *options, BACKGROUND, str(tmp_path / "t"), str(tmp_path / "o.arpa")]) == 0
    said = capsys.readouterr().err
    assert "1 words outside the vocabulary, such as 'oov': mapped to <unk>" in said


def test_targets_by_a_model_of_higher_order() -> None:
    """A 3-gram background with the marginals of a 4-gram model: histories of three words give the targets, and are met
    by two."""
    background = read_arpa(BACKGROUND)
    large = read_arpa(str(DATA / "srilm" / "bg4.kn.arpa.gz"), quiet=True)
    adapted = paper_adapt(background, IN_DOMAIN, "5-3-2", targets=large)
    assert adapted.solution.converged
    text = [line.split() for line in gzip.decompress(Path(IN_DOMAIN).read_bytes()).decode().splitlines()]
    mass = oracle.text_histories(text, 4)
    dense = oracle.read(DATA / "srilm" / "bg4.kn.arpa.gz")
    for i in np.random.default_rng(0).permutation(adapted.problem.constraints.total)[:20]:
        ngram = tuple(adapted.problem.ngrams()[i].split())
        ends = [h for h in mass if (*h, ngram[-1])[-len(ngram) :] == ngram]
        wanted = sum(mass[h] * oracle.prob(dense, h, ngram[-1]) for h in ends)
        assert adapted.problem.target[i] == pytest.approx(
            wanted, rel=1e-6
        )  # the file's sums are one only to seven digits


def test_threads_change_nothing() -> None:
    background = read_arpa(BACKGROUND)
    one, three = (paper_adapt(background, IN_DOMAIN, "2", threads=threads) for threads in (1, 3))
    assert np.array_equal(one.lam, three.lam)
    for k in (1, 2, 3):
        assert np.array_equal(one.model.p[k], three.model.p[k])


def test_a_sweep_gives_what_its_members_give(tmp_path: Path) -> None:
    """One ground and one dual for all sets, each from the last one's solution: the n-grams are the same to the last
    one, and so are the probabilities as far as the tolerance goes."""
    sets = ["3-3-3", "5-3-2", "9-2-4"]  # not nested
    options = ("--tolerance", "1e-6", "--max-iters", "1000")
    out = str(tmp_path / "{}.arpa.gz")
    assert (
        main(["adapt", *options, "--sigma2", "none", "--min-counts", ",".join(sets), BACKGROUND, IN_DOMAIN, out]) == 0
    )
    background = read_arpa(BACKGROUND)
    for thresholds in sets:
        swept = read_arpa(out.replace("{}", thresholds), closed=False)
        alone = paper_adapt(background, IN_DOMAIN, thresholds, settings=SolverSettings(1e-6, 1000))
        certificate = json.loads(Path(out.replace("{}", thresholds) + ".json").read_text())
        assert certificate["ngrams"] == swept.trie.counts == alone.model.trie.counts
        assert certificate["worst_sum_gap"] < 1e-6
        assert certificate["constraints_dropped"] == alone.problem.dropped.reasons
        for k in (1, 2, 3):
            assert np.array_equal(swept.trie.word[k], alone.model.trie.word[k])
            np.testing.assert_allclose(swept.p[k], alone.model.p[k], rtol=2e-3, atol=2e-5)


def test_rows_are_left_out_alike_in_memory_and_in_files(tmp_path: Path) -> None:
    """`keep` of write_arpa against the model that `path` makes of the same flags."""
    background = read_arpa(BACKGROUND)
    smaller, larger = Adapter(background, IN_DOMAIN).sweep(["9-9-9", "2-1-1"], sigma2=None)
    assert larger.problem.keep is None
    assert sum(smaller.counts) < sum(smaller.whole.trie.counts)
    write_arpa(smaller.model, str(tmp_path / "a.arpa"))
    write_arpa(smaller.whole, str(tmp_path / "b.arpa"), smaller.problem.keep)
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()


@pytest.mark.parametrize("sigma2", ["5e-324", "1e-200", "1-1e-101", "0", "inf", "nan"])
def test_variances_that_are_none(sigma2, tmp_path, capsys):
    rng = np.random.default_rng(3)
    background = write_model(random_model(rng, 3, 12, closed=True), tmp_path / "bg.arpa")
    text = write_text(random_text(rng, 12, 60), tmp_path / "text")
    assert main(["adapt", "--sigma2", sigma2, background, text, str(tmp_path / "out.arpa")]) == 2
    said = capsys.readouterr().err
    assert "--sigma2" in said
    assert "Warning" not in said
    assert not (tmp_path / "out.arpa").exists()


def test_an_output_that_is_a_link_to_a_folder(tmp_path, capsys):
    rng = np.random.default_rng(3)
    background = write_model(random_model(rng, 3, 12, closed=True), tmp_path / "bg.arpa")
    text = write_text(random_text(rng, 12, 60), tmp_path / "text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "out.arpa").symlink_to("folder")
    assert main(["adapt", background, text, str(tmp_path / "out.arpa")]) == 1
    assert f"is a link to the directory {tmp_path / 'folder'}; name a file in it" in capsys.readouterr().err
    assert not any((tmp_path / "folder").iterdir())


def test_a_certificate_does_not_disturb_the_next_adaptation(monkeypatch):
    """In a sweep it is made in another thread, while the same arrays are used for the next set."""
    from mdi.adaptation.adapter import adapt
    from mdi.adaptation.dual import Dual
    from mdi.adaptation.table import certificate

    adapted = adapt(GOOD, SHORT_TEXT, 1, sigma2=1)
    monkeypatch.delattr(Dual, "evaluate")
    assert 0 < certificate(adapted)["rounding_error"] < 1e-12
