"""Sweeps and the search for the best model."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mdi import MdiError, adapt, charts, train, tune
from mdi.adaptation.adapter import Adapter
from mdi.adaptation.solver import SolverSettings
from mdi.cli import main
from mdi.lm.arpa import read_arpa
from mdi.lm.model import with_suffixes
from mdi.lm.normalise import worst_sum
from mdi.lm.perplexity import perplexity

DATA = Path(__file__).parent / "data"
BACKGROUND = str(DATA / "kaldi" / "bg.kn.arpa.gz")
IN_DOMAIN = str(DATA / "text" / "in.txt.gz")
DEVELOPMENT = str(DATA / "text" / "dev.txt")
SETS = ["2-2-2", "5-3-2", "6-4-3"]


def test_nested_sets_and_warm_starts() -> None:
    """The constraints of higher thresholds are among those of lower ones; a path gives what single runs give,
    sooner."""
    adapter = Adapter(read_arpa(BACKGROUND), IN_DOMAIN)
    exact = SolverSettings(1e-5)
    path = {adapted.problem.min_counts: adapted for adapted in adapter.sweep(SETS, sigma2=None, settings=exact)}
    assert list(path) == ["6-4-3", "5-3-2", "2-2-2"]  # from few constraints to many
    alone = {text: adapter.adapt(text, sigma2=None, settings=exact) for text in SETS}
    for text in SETS:
        assert path[text].problem.ngrams() == alone[text].problem.ngrams()
        assert path[text].kl == pytest.approx(alone[text].kl, abs=1e-4)
        np.testing.assert_allclose(path[text].solution.marginal, path[text].problem.target, rtol=0, atol=1e-5)
        assert path[text].model.trie.counts == alone[text].model.trie.counts
    everything = set(path["2-2-2"].problem.ngrams())
    dropped = sum(path["2-2-2"].problem.dropped.reasons.values())
    assert len(set(path["6-4-3"].problem.ngrams()) - everything) <= dropped
    warm, cold = (sum(run[text].solution.iterations for text in SETS) for run in (path, alone))
    assert warm < cold


def test_sweep_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "mdi.{}.arpa.gz")
    options = ["--sigma2", "none", "--min-counts"]
    assert main(["adapt", *options, ",".join(SETS), "--ppl", DEVELOPMENT, BACKGROUND, IN_DOMAIN, out]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["6-4-3", "5-3-2", "2-2-2"]
    for text, path, ppl in rows:
        model = read_arpa(out.replace("{}", text))
        assert worst_sum(model)[0] < 1e-6
        assert perplexity(model, path).ppl == pytest.approx(float(ppl), rel=1e-5)
        assert json.loads(Path(out.replace("{}", text) + ".json").read_text())["options"]["min_counts"] == text


def test_a_sweep_needs_a_name_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", "--min-counts", "2,3", BACKGROUND, IN_DOMAIN, str(tmp_path / "o.arpa")]) == 2
    assert "need {}" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--mix-with", str(DATA / "srilm" / "in.kn.arpa.gz")]])
def test_the_tuned_model_is_never_worse_than_interpolation(more: list[str], tmp_path: Path) -> None:
    out = tmp_path / "best.arpa.gz"
    assert main(["tune", "--max-settings", "10", *more, BACKGROUND, IN_DOMAIN, DEVELOPMENT, str(out)]) == 0
    certificate = json.loads((tmp_path / "best.arpa.gz.json").read_text())
    choice = certificate["choice"]
    assert choice["development_ppl"] <= choice["interpolation_ppl"]
    assert sum(choice["weights"]) == pytest.approx(1.0)
    model = read_arpa(str(out))
    assert worst_sum(model)[0] < 1e-6
    assert perplexity(model, DEVELOPMENT).ppl == pytest.approx(choice["development_ppl"], rel=1e-5)
    table = [line.split("\t") for line in (tmp_path / "best.arpa.gz.search.tsv").read_text().splitlines()]
    assert len(table) == 11
    assert all(len(row) == len(table[0]) for row in table)
    mixed = {row[6]: row[8] for row in table[1:]}
    assert mixed[min(mixed, key=float)] == "*"
    picture = (tmp_path / "best.arpa.gz.search.svg").read_text()
    # every setting by its name, and what to compare with
    for row in table[1:]:
        assert picture.count(f">{row[0]}, {'no prior' if row[1] == 'none' else f'sigma2 {row[1]}'}</text>") == 1
    for name in ("interpolation", "in-domain alone", "background alone"):
        assert f">{name}</text>" in picture
    ElementTree.fromstring(picture)
    if more:
        srilm = 26.32153  # SRILM's static mix of the same two models, weights tuned on the same text
        assert choice["development_ppl"] < srilm


def test_the_search_contains_what_the_table_shows() -> None:
    """Each set of thresholds, with and without a prior, the in-domain model alone and plain interpolation."""
    sets = ["2-2-2", "6-4-3"]
    tuned = tune(BACKGROUND, IN_DOMAIN, DEVELOPMENT, sets=sets, max_settings=12)
    tried = {(trial.setting.min_counts, trial.setting.sigma2 is None) for trial in tuned.trials}
    assert {("2", True), ("2", False), ("6-4-3", True), ("6-4-3", False)} <= tried
    rivals = [*tuned.in_domain.values(), tuned.background, tuned.interpolation]
    rivals += [trial.ppl_alone for trial in tuned.trials]
    rivals += [perplexity(adapt(BACKGROUND, IN_DOMAIN, one, sigma2=None).model, DEVELOPMENT).ppl for one in sets]
    assert tuned.development.ppl <= min(rivals)
    assert perplexity(tuned.model, DEVELOPMENT).ppl == tuned.development.ppl
    assert worst_sum(with_suffixes(tuned.model))[0] < 1e-9
    assert len(tuned.table()) == len(tuned.trials) <= 12


def test_the_search_says_why_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "budget of 3 settings" in tune(BACKGROUND, IN_DOMAIN, DEVELOPMENT, max_settings=3).ended
    whole = tune(BACKGROUND, IN_DOMAIN, DEVELOPMENT, max_settings=200)
    assert "no neighbour of the best setting is better" in whole.ended
    assert len(whole.trials) < 200
    assert main(["tune", "--max-settings", "1", BACKGROUND, IN_DOMAIN, DEVELOPMENT, str(tmp_path / "o.arpa")]) == 0
    said = capsys.readouterr().err
    assert "search: 1 settings; ended: the budget of 1 settings is used up" in said
    assert "in-domain model alone" in said


def test_a_longer_in_domain_model_only_where_it_helps() -> None:
    text = ["a b c d e", "x b c d f"] * 50  # what comes after d is known from four words on only
    general = ["a b c d e", "a b c d f", "x b c d e", "x b c d f", "c d", "d e"] * 10
    background = train(general, 3)
    longer = tune(background, text, text[:2], max_settings=1, max_order=5)
    assert longer.model.order == 5
    assert tune(background, text, text[:2], max_settings=1, max_order=3).model.order == 3
    assert longer.development.ppl < tune(background, text, text[:2], max_settings=1, max_order=3).development.ppl


def test_variances_by_order(tmp_path: Path) -> None:
    out = tmp_path / "best.arpa"
    assert (
        main(["tune", "--min-counts", "1", "--sigma2", "2-1-0.5,1", BACKGROUND, IN_DOMAIN, DEVELOPMENT, str(out)]) == 0
    )
    rows = [line.split("\t")[:2] for line in (tmp_path / "best.arpa.search.tsv").read_text().splitlines()[1:]]
    assert rows == [["1", "2-1-0.5"], ["1", "1"]]
    assert main(["adapt", "--min-counts", "1", "--sigma2", "2-1-0.5", BACKGROUND, IN_DOMAIN, str(out)]) == 0
    by_order = adapt(BACKGROUND, IN_DOMAIN, 1, sigma2=(2, 1, 0.5))
    assert perplexity(read_arpa(str(out)), DEVELOPMENT).ppl == pytest.approx(
        perplexity(by_order.model, DEVELOPMENT).ppl, rel=1e-5
    )


def test_without_matplotlib_the_picture_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = charts.find_spec
    monkeypatch.setattr(charts, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    out = tmp_path / "best.arpa"
    assert main(["tune", "--max-settings", "1", BACKGROUND, IN_DOMAIN, DEVELOPMENT, str(out)]) == 0
    assert "no picture of the search, since matplotlib is not installed; to have it: pip" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.arpa", "best.arpa.json", "best.arpa.search.tsv"]


def test_a_grid(tmp_path: Path) -> None:
    out = tmp_path / "best.arpa"
    arguments = ["--min-counts", "2,6-4-3", "--sigma2", "1,none", BACKGROUND, IN_DOMAIN, DEVELOPMENT, str(out)]
    assert main(["tune", *arguments]) == 0
    rows = [line.split("\t")[:2] for line in (tmp_path / "best.arpa.search.tsv").read_text().splitlines()[1:]]
    assert sorted(map(tuple, rows)) == [("2", "1"), ("2", "none"), ("6-4-3", "1"), ("6-4-3", "none")]


def test_one_setting_needs_no_list() -> None:
    """A string is one set of thresholds, or one variance; without a prior it is "none"."""
    text, dev = ["a b c", "b c a", "c a b b"] * 5, ["a b c a"]
    background = train(text, 3)

    def tried(**choices: object) -> list[str]:
        return [str(trial.setting) for trial in tune(background, text, dev, **choices).trials]

    assert tried(sets="5-3-2", max_settings=3)[1:] == ["5-3-2, no prior", "5-3-2, sigma2 1"]
    assert tried(min_counts="2-2-1") == ["2-2-1, sigma2 1"]
    assert tried(min_counts=2, sigma2=2.0) == ["2, sigma2 2"]
    assert tried(min_counts=np.array([3, 2]), sigma2="none") == ["3, no prior", "2, no prior"]
    # thresholds of our own that a shorter model has no orders for are left out; those that were asked for are not
    background = train(text, 2)
    assert tried(sigma2=[1]) == ["10, sigma2 1", "2, sigma2 1", "1, sigma2 1"]
    assert tried(max_settings=2) == ["1, sigma2 1", "1, sigma2 0.5"]
    with pytest.raises(MdiError, match="sets='5-3-2'; expected at most 2 numbers"):
        tried(sets=["2-2", "5-3-2"])


@pytest.mark.parametrize("name", ["--sets", "--min-counts", "--sigma2"])
def test_choices_are_checked_before_anything_is_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", name, "2,x", "nowhere.arpa", "nowhere", "nowhere", "out.arpa"]) == 2
    assert f"{name} x; expected" in capsys.readouterr().err
    with pytest.raises(MdiError, match="x'; expected"):
        tune("nowhere.arpa", IN_DOMAIN, DEVELOPMENT, **{name[2:].replace("-", "_"): ["2", "x"]})


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--sigma2", "x", BACKGROUND, IN_DOMAIN, DEVELOPMENT, "OUT"], "--sigma2 x", 2),
        (["--min-counts", "0", BACKGROUND, IN_DOMAIN, DEVELOPMENT, "OUT"], "expected positive numbers", 2),
        ([BACKGROUND, IN_DOMAIN, "OUT"], "expected BACKGROUND TEXT DEV OUT", 2),
        ([BACKGROUND, IN_DOMAIN, str(DATA / "kaldi" / "words.txt"), "OUT"], None, 1),
    ],
)
def test_bad_usage(
    arguments: list[str], message: str | None, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "strange").write_text("none of these\nis known\n")
    if message is None:
        arguments = [BACKGROUND, IN_DOMAIN, str(tmp_path / "strange"), "OUT"]
        message = "none of its words is in the background"
    assert main(["tune", *(str(tmp_path / "o.arpa") if a == "OUT" else a for a in arguments)]) == code
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["strange"]
