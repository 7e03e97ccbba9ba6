"""The Python API: what `import mdi` offers, what it accepts, and what it refuses."""

import doctest
import gzip
import importlib
import inspect
import math
import pkgutil
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas
import pytest

import mdi
from mdi.adaptation.adapter import OneAdaptation
from mdi.fst.formats import FORMATS
from mdi.lm.estimate import SMOOTHING

DATA = Path(__file__).parent / "data"
BACKGROUND = DATA / "kaldi" / "bg.kn.arpa.gz"
IN_DOMAIN = DATA / "text" / "in.txt.gz"
DEVELOPMENT = DATA / "text" / "dev.txt"


@pytest.fixture(scope="module")
def background() -> mdi.NgramModel:
    return mdi.read_arpa(BACKGROUND)


def test_the_tutorial_runs_as_it_stands() -> None:
    assert doctest.testmod(mdi).failed == 0
    assert doctest.testmod(mdi).attempted > 10


def test_tables_and_formulas_of_the_documentation_are_whole() -> None:
    """What has been wrapped as if it were prose is no table and no formula any more."""
    tables = {"mdi.lm.estimate": SMOOTHING, "mdi.fst.formats": FORMATS}
    for module, names in tables.items():
        doc = inspect.getdoc(importlib.import_module(module)) or ""
        assert set(names) <= set(re.findall(r"^    (\S+)  ", doc, re.MULTILINE)), module
    for found in pkgutil.walk_packages(mdi.__path__, "mdi."):
        if found.name in ("mdi.__main__", "mdi.kernels"):
            continue
        doc = inspect.getdoc(importlib.import_module(found.name)) or ""
        assert not re.findall(r"^    .* [-+*/=]$", doc, re.MULTILINE), found.name  # a formula that goes on elsewhere


def test_every_parameter_is_explained() -> None:
    for name in set(mdi.__all__) - {"__version__"}:
        if inspect.isfunction(function := getattr(mdi, name)):
            section = (inspect.getdoc(function) or "").partition("\nParameters\n")[2].partition("\n\n")[0]
            explained = {one for line in re.findall(r"^[a-z].*$", section, re.MULTILINE) for one in line.split(", ")}
            assert explained == set(inspect.signature(function).parameters), name


def test_names_and_signatures() -> None:
    assert "__version__" in dir(mdi)
    assert set(dir(mdi)) == set(mdi.__all__)
    for name in ("adapt", "match", "tune", "train", "mix", "prune", "check", "perplexity", "rescore", "count_text"):
        parameters = inspect.signature(getattr(mdi, name)).parameters.values()
        assert all(p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters), name
        assert len(inspect.getdoc(getattr(mdi, name)) or "") > 40, name
    with pytest.raises(AttributeError, match="no attribute 'adpat'"):
        mdi.adpat  # noqa: B018


def test_importing_is_instant_and_pandas_waits() -> None:
    code = (
        "import sys, mdi; assert not {'numpy', 'numba', 'pandas', 'scipy'} & set(sys.modules), 'import mdi';"
        "from mdi.adaptation.adapter import Adapter; assert 'pandas' not in sys.modules, 'adapt'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, targets="smothed"), "targets='smothed'; expected ml or smoothed"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, new_words="mpa"), "new_words='mpa'; expected add, map, drop, error, a"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, sigma2=-1), "sigma2=-1; expected a positive number"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, sigma2=math.inf), "sigma2=inf"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, sigma2=[1, 0]), "sigma2=[1, 0]; expected a positive number"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, sigma2=[1, 1, 1, 1]), "at most 3 numbers"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, "5-x"), "min_counts='5-x'; expected positive numbers"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, (5, 3, 2, 1)), "at most 3 numbers, as the order is 3"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, math.inf), "min_counts=inf"),
        (lambda bg: mdi.SolverSettings(tolerance=0), "tolerance=0; expected a positive number"),
        (lambda bg: mdi.SolverSettings(max_iters=-3), "max_iters=-3"),
        (lambda bg: mdi.adapt(bg, 17), "17 as text; expected a file"),
        (lambda bg: mdi.adapt(17, IN_DOMAIN), "background=17; expected a model"),
        (lambda bg: mdi.adapt(bg, ["w001 w002", IN_DOMAIN]), "files and sentences in one text"),
        (lambda bg: mdi.adapt(bg, Path("nowhere.txt")), "nowhere.txt: No such file"),
        (lambda bg: mdi.adapt(bg, ["w001", math.nan]), "nan as a sentence; expected a string"),
        (lambda bg: mdi.adapt(bg, pandas.DataFrame({"text": ["w001"]})), "a table as text; expected"),
        (lambda bg: mdi.adapt(bg, [["w001", "w 2"]]), "'w 2' in the sentence"),
        (lambda bg: mdi.adapt(bg, []), "no text; expected a file"),
        *(
            (
                lambda bg, word=word: mdi.train(IN_DOMAIN, vocab=["the", word]),
                f"vocab={word!r}; expected words, without",
            )
            for word in ("a b", "a\tb", "x\ny", "x\r", "", "\0", 5, b"the")
        ),
        (lambda bg: mdi.train(IN_DOMAIN, vocab=5), "vocab=5; expected a list of words, or the file of one"),
        (lambda bg: mdi.perplexity(bg, IN_DOMAIN, words="w001"), "w001: No such file"),
        (lambda bg: mdi.perplexity(bg, IN_DOMAIN, words=["w001 w002"]), "words='w001 w002'; expected words"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, new_words=["a b"]), "new_words='a b'; expected words, without blanks"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, new_words=None), "new_words=None; expected add, map"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, new_words=2.5), "new_words=2.5; expected add, map"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, new_words=[5]), "new_words=5; expected words"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, start="nowhere.delta"), "nowhere.delta: No such file"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, start=3), "start=3; expected a delta"),
        (lambda bg: mdi.Adapter(bg, IN_DOMAIN).adapt(start=bg), "3: 303 / 5,657 / 5,825 n-grams>; expected a delta"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, start=dict.fromkeys(range(999))), " 20: None,; expected a delta"),
        (lambda bg: mdi.adapt(bg, IN_DOMAIN, settings=5), "settings=5; expected SolverSettings"),
        (lambda bg: mdi.train(np.array("w001 w002")), "as text; expected a file, a list of paths"),
        (lambda bg: mdi.train(IN_DOMAIN, order="3"), "order='3'; expected 1 to 8"),
        (lambda bg: mdi.train(IN_DOMAIN, order="3", min_counts="1-1-2"), "order='3'; expected 1 to 8"),
        (lambda bg: mdi.train(IN_DOMAIN, memory="1G"), "memory='1G'; expected a number of bytes"),
        (lambda bg: mdi.tune(bg, IN_DOMAIN, DEVELOPMENT, max_order="4"), "max_order='4'; expected 3 (the background's"),
        (lambda bg: mdi.prune(bg, "x"), "threshold='x'; expected a number of 0 or more"),
        (lambda bg: mdi.prune(bg, max_ngrams="x"), "max_ngrams='x'; expected a whole number"),
        (lambda bg: mdi.prune(bg, max_ngrams=1e4), "max_ngrams=10000.0; expected a whole number, 1 or more"),
        (lambda bg: mdi.mix([], []), "models=[]; expected at least one model"),
        (lambda bg: mdi.best_weights([], DEVELOPMENT), "models=[]; expected at least one model"),
        (lambda bg: mdi.mix([bg, bg], "0.5,0.5"), "weights='0.5,0.5'; expected a number for each model"),
        (lambda bg: mdi.train(IN_DOMAIN, smoothing="witten"), "smoothing='witten'; expected kn, kn-interpolated or wb"),
        (lambda bg: mdi.train(IN_DOMAIN, order=0), "order=0; expected 1 to 8"),
        (lambda bg: mdi.perplexity(bg, "nowhere.txt"), "nowhere.txt: No such file"),
        (lambda bg: mdi.perplexity(bg, IN_DOMAIN, oov="x"), "oov='x'"),
        (lambda bg: mdi.perplexity(bg, "w001 w002"), "expected a file, or a list of sentences: ['w001 w002']"),
        (lambda bg: mdi.write_arpa("bg.arpa", "y.arpa"), "'bg.arpa' is to be written to y.arpa; expected a model"),
        (lambda bg: mdi.prune(bg, -1.0), "threshold=-1.0; expected a number of 0 or more"),
        (lambda bg: mdi.mix([bg, bg], [0.5, 0.6]), "sum to 1.1; expected 1"),
        (lambda bg: mdi.tune(bg, IN_DOMAIN, DEVELOPMENT, max_settings=0), "max_settings=0"),
        (lambda bg: mdi.tune(bg, IN_DOMAIN, DEVELOPMENT, max_order=2), "max_order=2; expected 3"),
        (lambda bg: mdi.rescore("x", "y", words="w", old_lm=bg, old_scores="cheap"), "old_scores='cheap'; expected"),
    ],
)
def test_nonsense_is_refused(background: mdi.NgramModel, call, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(mdi.MdiError) as error:
            call(background)
    assert message in str(error.value)


def test_what_is_meant_is_accepted(background: mdi.NgramModel, tmp_path: Path) -> None:
    one = mdi.adapt(str(BACKGROUND), str(IN_DOMAIN), (5, 3, 2))
    two = mdi.adapt(background, [Path(IN_DOMAIN)], "5-3-2")
    assert one.model == two.model
    assert one.model != background
    assert mdi.adapt(background, IN_DOMAIN, 5).problem.min_counts == "5"
    by_order = mdi.adapt(background, IN_DOMAIN, np.array([5, 3, 2]), sigma2=np.array([1.0, 2.0, 1.0]), settings=None)
    assert by_order.model == mdi.adapt(background, IN_DOMAIN, "5-3-2", sigma2="1-2-1").model
    assert by_order.problem.min_counts == "5-3-2"
    mdi.write_delta(mdi.Adapter(background, IN_DOMAIN).delta("5-3-2"), tmp_path / "a.delta")
    one_number = mdi.tune(background, IN_DOMAIN, DEVELOPMENT, min_counts=np.array(2.0), sigma2=np.array(1.0))
    assert str(one_number.setting) == "2, sigma2 1"
    with pytest.raises(mdi.MdiError, match=r"a\.delta: is for the background"):
        mdi.adapt(one, IN_DOMAIN, start=tmp_path / "a.delta")
    started = mdi.adapt(background, IN_DOMAIN, "5-3-2", start=tmp_path / "a.delta")
    assert started.solution.iterations < mdi.adapt(background, IN_DOMAIN, "5-3-2").solution.iterations
    mdi.write_arpa(one, tmp_path / "adapted.arpa.gz")
    assert mdi.read_arpa(tmp_path / "adapted.arpa.gz").trie.counts == one.model.trie.counts
    assert background == mdi.read_arpa(str(BACKGROUND))
    assert background != "a model"
    assert mdi.perplexity(BACKGROUND, DEVELOPMENT).ppl == mdi.perplexity(background, DEVELOPMENT).ppl


def test_the_default_is_what_we_recommend(background: mdi.NgramModel, tmp_path: Path) -> None:
    """From Python, for models and deltas, and on the command line: all n-grams, under a prior of variance 1."""
    from mdi.cli import main

    recommended = mdi.adapt(background, IN_DOMAIN, 1, sigma2=1)
    assert mdi.adapt(background, IN_DOMAIN).model == recommended.model
    adapter = mdi.Adapter(background, IN_DOMAIN)
    assert adapter.adapt().model == recommended.model
    assert adapter.delta().apply(background) == recommended.model
    assert next(iter(adapter.sweep([1]))).model == recommended.model
    assert mdi.adapt(background, IN_DOMAIN, "2", sigma2=None).model != mdi.adapt(background, IN_DOMAIN, "2").model
    options = {"default": [], "said": ["--min-counts", "1", "--sigma2", "1"], "none": ["--sigma2", "none"]}
    for name, said in options.items():
        assert main(["adapt", *said, str(BACKGROUND), str(IN_DOMAIN), str(tmp_path / name)]) == 0
    assert (tmp_path / "default").read_bytes() == (tmp_path / "said").read_bytes() != (tmp_path / "none").read_bytes()


def test_sentences_do_instead_of_files(background: mdi.NgramModel, tmp_path: Path) -> None:
    sentences = ["w001 w002 w003", "w002 w002", "w003 w001 w001"]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in sentences))
    by_file = mdi.count_text(tmp_path / "text", background.vocab)
    columns = (pandas.Series(sentences, index=[7, 8, 9]), np.array(sentences), (line for line in sentences))
    for text in (sentences, [line.split() for line in sentences], *columns):
        counts = mdi.count_text(text, background.vocab)
        assert [c.tolist() for c in counts.count] == [c.tolist() for c in by_file.count]
    (tmp_path / "text").write_text("w001 w002\nw003\n")  # an utterance of one word is a sentence, not a file
    by_file = mdi.count_text(tmp_path / "text", background.vocab)
    counts = mdi.count_text(["w001 w002", "w003"], background.vocab)
    assert [c.tolist() for c in counts.count] == [c.tolist() for c in by_file.count]
    # strings in a list are data, whatever they look like: no file is opened for them
    assert mdi.count_text([str(tmp_path / "text")], background.vocab).stats.oov == 1
    assert mdi.count_text([tmp_path / "text"], background.vocab).stats.sentences == 2
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in sentences))
    by_file = mdi.count_text(tmp_path / "text", background.vocab)
    by_file_ppl = mdi.perplexity(background, tmp_path / "text").ppl
    assert mdi.perplexity(background, sentences).ppl == pytest.approx(by_file_ppl, rel=1e-12)
    assert repr(by_file).startswith("<Counts of 3 sentences, 8 words")


def test_a_model_is_given_by_itself_its_file_or_a_result(background: mdi.NgramModel, tmp_path: Path) -> None:
    text = ["w001 w002 w003", "w002 w004"]
    adapted, path = mdi.adapt(background, text), tmp_path / "adapted.arpa"
    tuned = mdi.tune(background, text, text, max_settings=1, mix_with={"own": mdi.train(text, vocab=background.vocab)})
    mdi.write_arpa(adapted, path)
    read = mdi.load(path)
    delta = mdi.Adapter(background, text).delta()
    functions = {
        "adapt": lambda one: mdi.adapt(one, text, 2).model,
        "Adapter": lambda one: mdi.Adapter(one, text).adapt(2).model,
        "history": lambda one: mdi.adapt(background, text, 2, history=one).model,
        "targets": lambda one: mdi.adapt(background, text, 2, targets=one).model,
        "tune": lambda one: mdi.tune(one, text, text, mix_with={"same": one}, max_settings=1).model,
        "mix": lambda one: mdi.mix([one, background], [0.5, 0.5]),
        "best_weights": lambda one: mdi.best_weights([one, background], text).tolist(),
        "prune": lambda one: mdi.prune(one, 1e-4),
        "perplexity": lambda one: mdi.perplexity(one, text).log_prob,
        "word_table": lambda one: mdi.word_table({"one": one, "other": background}, text)["gain"].tolist(),
        "check": lambda one: [finding.text for finding in mdi.check(one)],
        "as_spoken": lambda one: mdi.as_spoken(["W001 w002"], one),
    }
    for name, function in functions.items():
        assert function(path) == function(read), name
        for result in (adapted, tuned):
            assert function(result) == function(result.model), name
        for nonsense in (5, delta) if name == "history" else (None, 5, delta):
            with pytest.raises(mdi.MdiError, match="expected"):
                function(nonsense)
    mdi.write_delta(delta, tmp_path / "a.delta")
    assert mdi.apply_delta(BACKGROUND, tmp_path / "a.delta") == mdi.apply_delta(background, delta)
    with pytest.raises(mdi.MdiError, match="background=None; expected a model"):
        mdi.apply_delta(None, delta)
    for call in (lambda: mdi.write_delta(adapted, tmp_path / "b.delta"), lambda: mdi.apply_delta(background, adapted)):
        with pytest.raises(mdi.MdiError, match="expected a delta, as"):
            call()


def test_a_background_that_does_not_sum_to_one_is_refused(background: mdi.NgramModel, tmp_path: Path) -> None:
    """As the verbs do, unless it is allowed. A pruned model, which lacks suffixes, is none of these."""
    mdi.write_arpa(background, tmp_path / "good.arpa")
    text, dev = ["w001 w002 w003", "w002 w004"], ["w001 w002"]
    bad = re.sub(r"-[0-9.]+(?=\tw001\t)", "-0.5", (tmp_path / "good.arpa").read_text(), count=1)
    (tmp_path / "bad.arpa").write_text(bad)
    model, allow = mdi.load(tmp_path / "bad.arpa"), {"allow_unnormalized": True}
    calls = [
        lambda one, **how: mdi.adapt(one, text, **how),
        lambda one, **how: mdi.Adapter(one, text, **how).delta(),
        lambda one, **how: mdi.tune(one, text, dev, max_settings=1, **how),
    ]
    for call in calls:
        for given, name in ((tmp_path / "bad.arpa", str(tmp_path)), (model, "the background")):
            with pytest.raises(mdi.MdiError, match=f"{name}.*sums to one only within .*allow_unnormalized=True"):
                call(given)
        assert call(model, **allow)
        assert call(mdi.prune(background, 1e-5))


def test_words_are_a_list_or_its_file(background: mdi.NgramModel, tmp_path: Path) -> None:
    words = ["w001", "w003"]
    path = tmp_path / "words.txt"
    path.write_text("<eps> 0\nw001 1\nw003 2\n#0 3\n")
    listed = mdi.perplexity(background, DEVELOPMENT, words=words)
    assert listed.listed
    for given in (path, str(path), tuple(words), (word for word in words)):
        assert mdi.perplexity(background, DEVELOPMENT, words=given).ppl_listed == listed.ppl_listed
        again = (word for word in words) if inspect.isgenerator(given) else given
        assert mdi.train(IN_DOMAIN, vocab=again).vocab.words == ["<s>", "</s>", "<unk>", *words]
    for vocab in (background, mdi.adapt(background, IN_DOMAIN)):  # the words of a model
        assert mdi.train(IN_DOMAIN, vocab=vocab).vocab.same_words(background.vocab)


def test_probabilities_of_single_words(background: mdi.NgramModel) -> None:
    words = ["w001", "w002", "w003"]
    by_text = mdi.perplexity(background, [words])
    by_word = background.log_prob([*words, "</s>"], ["<s>"])
    assert by_word == pytest.approx(by_text.log_prob, rel=1e-12)
    assert background.log_prob("w001 w002 w003 </s>", "<s>") == by_word  # a string is words, not letters
    assert math.log(background.prob("w003", "w001 w002")) == pytest.approx(background.log_prob("w003", "w001 w002"))
    assert sum(background.prob(w, "w001") for w in background.vocab.words) == pytest.approx(1.0, abs=1e-5)
    # words outside the vocabulary, in either place, are <unk>, as in texts
    assert background.prob("zebra", "w001") == background.prob("<unk>", "w001") > 0
    assert background.prob("w001", "zebra w002") == background.prob("w001", "<unk> w002")
    closed = mdi.train(["a b", "b a"], vocab=["a", "b"], oov="drop")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert closed.prob("zebra") == 0.0
        assert closed.log_prob("zebra") == -math.inf
    assert "w001" in background
    assert "zebra" not in background


def test_tables(background: mdi.NgramModel) -> None:
    adapted = mdi.adapt(background, IN_DOMAIN, "5-3-2", sigma2=None)
    table = adapted.constraints()
    assert list(table.columns) == ["ngram", "order", "count", "target", "before", "after", "lambda"]
    assert len(table) == adapted.problem.constraints.total
    assert (table["target"] - table["after"]).abs().sum() <= 1e-3
    moved = adapted.moved(7)
    assert len(moved) == 7
    change = (moved["after"] - moved["before"]).abs()
    assert change.is_monotonic_decreasing
    assert change.iloc[0] == (table["after"] - table["before"]).abs().max()
    assert adapted.steps()["l1"].iloc[-1] <= 1e-3
    assert "<table" in adapted._repr_html_()
    assert "<table" in background._repr_html_()
    assert repr(adapted).startswith("<Adapted with 5-3-2: ")
    words = mdi.word_table(background, DEVELOPMENT)
    found = mdi.perplexity(background, DEVELOPMENT)
    assert 10 ** (-words["log10_p"].mean()) == pytest.approx(found.ppl)
    assert len(words) == found.words + found.sentences


def test_words_under_two_models_side_by_side(background: mdi.NgramModel) -> None:
    text = ["w1 w2 nonesuch", "w3"]
    adapted = mdi.adapt(background, IN_DOMAIN).model
    both = mdi.word_table({"own": background, "adapted": adapted}, (line for line in text))
    assert list(both.columns) == ["sentence", "position", "word", "own", "adapted", "gain"]
    for name, model in (("own", background), ("adapted", adapted)):
        assert both[name].tolist() == mdi.word_table(model, text)["p"].tolist()
    assert both["gain"].tolist() == pytest.approx(np.log10(both["adapted"] / both["own"]).tolist())
    small = mdi.train(["w1 w2 w3"], order=1)  # it lacks no word that is shown, only one of the other model's
    words = mdi.word_table({"small": small, "large": mdi.train(["w1 w2 nonesuch w3"], order=1)}, text)["word"]
    assert words.tolist() == ["w1", "w2", "nonesuch", "</s>", "w3", "</s>"]
    with pytest.raises(mdi.MdiError, match="no models"):
        mdi.word_table({}, text)


def test_pictures_of_a_search_a_sweep_and_a_comparison(background: mdi.NgramModel) -> None:
    tuned = mdi.tune(background, IN_DOMAIN, DEVELOPMENT, max_settings=2)
    shown = [label.get_text() for label in mdi.plot(tuned).axes[0].get_yticklabels()]
    assert {"in-domain alone", "interpolation", "background alone"} < set(shown)
    assert len(shown) == len(tuned.trials) + 3
    sweep = mdi.sweep_table(mdi.Adapter(background, IN_DOMAIN).sweep(["2-2-2", "5-3-2"]), {"dev": DEVELOPMENT})
    (line,) = mdi.plot(sweep).axes[0].lines
    assert line.get_ydata().tolist() == sweep.sort_values("constraints")["dev"].tolist()
    found = {"own": mdi.perplexity(background, DEVELOPMENT), "tuned": tuned.development}
    dots = mdi.plot(found).axes[0].lines
    assert [dot.get_xdata()[0] for dot in dots] == [one.ppl for one in found.values()]
    with pytest.raises(mdi.MdiError, match="nothing to plot"):
        mdi.plot(sweep.drop(columns="dev"))


def test_a_sweep_as_a_table(background: mdi.NgramModel) -> None:
    from mdi.adaptation.table import sweep_table

    adapter = mdi.Adapter(background, IN_DOMAIN)
    table = sweep_table(adapter.sweep(["2-2-2", (5, 3, 2)], sigma2=None), {"dev": DEVELOPMENT})
    assert table["min_counts"].tolist() == ["5-3-2", "2-2-2"]
    single = mdi.perplexity(adapter.adapt("2-2-2", sigma2=None).model, DEVELOPMENT).ppl
    assert table["dev"].iloc[1] == pytest.approx(single, rel=1e-3)


def test_a_generator_is_read_as_often_as_a_list(background: mdi.NgramModel) -> None:
    """A search counts the text twice, and a table scores it under every model."""
    text = gzip.decompress(IN_DOMAIN.read_bytes()).decode().splitlines()
    one, other = (
        mdi.tune(background, given, DEVELOPMENT, max_settings=1).model for given in (text, (line for line in text))
    )
    assert one == other
    adapted = mdi.adapt(background, text)
    table = mdi.sweep_table([adapted, adapted], {"text": (line for line in text)})
    assert table["text"].tolist() == [mdi.perplexity(adapted.model, text).ppl] * 2


def test_a_solver_that_runs_out_of_iterations_warns(background: mdi.NgramModel) -> None:
    with pytest.warns(mdi.ConvergenceWarning, match="stopped after 2 iterations"):
        adapted = mdi.adapt(background, IN_DOMAIN, settings=mdi.SolverSettings(max_iters=2))
    assert not adapted.solution.converged
    assert "NOT converged" in repr(adapted)


def test_settings_are_one_record(background: mdi.NgramModel) -> None:
    steps: list = []
    settings = mdi.SolverSettings(tolerance=1e-4, max_iters=500, report=steps.append)
    new = mdi.adapt(background, IN_DOMAIN, settings=settings)
    assert len(steps) == new.solution.iterations
    assert steps[-1].l1 <= 1e-4
    assert next(iter(mdi.Adapter(background, IN_DOMAIN).sweep([1], settings=settings))).model == new.model
    with pytest.raises(TypeError):
        mdi.adapt(background, IN_DOMAIN, tolerance=1e-4)
    with pytest.raises(AttributeError):
        settings.tolerance = 1.0


def test_one_adaptation_is_like_any(background: mdi.NgramModel) -> None:
    """That of a file's model, which nobody keeps."""
    earlier = mdi.Adapter(background, IN_DOMAIN)
    coarse = earlier.adapt("5-3-2")
    for start in (None, earlier.delta("5-3-2"), coarse):
        found = mdi.adapt(BACKGROUND, earlier.counts, "2-2-2", start=start)
        assert found.model == earlier.adapt("2-2-2", start=start).model
    once = OneAdaptation(mdi.read_arpa(BACKGROUND), IN_DOMAIN)
    once.adapt("5-3-2")
    with pytest.raises(mdi.MdiError, match="made for one adaptation"):
        once.adapt("5-3-2")
    assert background == mdi.read_arpa(BACKGROUND)  # is as it was


def test_weights_from_python(background: mdi.NgramModel) -> None:
    in_domain = mdi.train(IN_DOMAIN, vocab=background.vocab)
    weights = mdi.best_weights([in_domain, background], DEVELOPMENT)
    assert weights.sum() == pytest.approx(1.0)
    best = mdi.perplexity(mdi.mix([in_domain, background], weights), DEVELOPMENT).ppl
    for other in ([0.5, 0.5], [0.99, 0.01], [0.01, 0.99]):
        assert best <= mdi.perplexity(mdi.mix([in_domain, background], other), DEVELOPMENT).ppl * 1.0005


def test_check_and_prune(background: mdi.NgramModel) -> None:
    assert {finding.level for finding in mdi.check(background)} == {"ok"}
    pruned = mdi.prune(background, max_ngrams=5000)
    assert sum(pruned.trie.counts) <= 5000
    assert all(np.isfinite(p).all() for p in pruned.p)
    # a pruned model lacks suffixes; perplexity minds them
    assert mdi.perplexity(pruned, DEVELOPMENT).ppl > mdi.perplexity(background, DEVELOPMENT).ppl
