"""First-pass matching: a small model with the marginals of a large one."""

import gzip
import json
from pathlib import Path

import numpy as np
import oracle
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_models import random_model, random_text, write_model, write_text

from mdi.adaptation.match import match
from mdi.adaptation.solver import SolverSettings
from mdi.cli import main
from mdi.errors import MdiError
from mdi.lm.arpa import read_arpa
from mdi.lm.normalise import worst_sum
from mdi.lm.perplexity import perplexity

DATA = Path(__file__).parent / "data"


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_marginals_of_the_large_model_by_brute_force(
    tmp_path_factory: pytest.TempPathFactory, seed: int, small_order: int, large_order: int, smoothed: bool
) -> None:
    folder = tmp_path_factory.mktemp("match")
    rng = np.random.default_rng(seed)
    n_words = int(rng.integers(2, 4))
    dense_small = random_model(rng, small_order, n_words, closed=True)
    dense_large = random_model(rng, large_order, n_words, closed=False)
    text = random_text(rng, n_words, 30)
    small = read_arpa(write_model(dense_small, folder / "small.arpa"), quiet=True)
    large = read_arpa(write_model(dense_large, folder / "large.arpa"), quiet=True)
    order = max(small.order, large.order)
    history, mass = None, oracle.text_histories(text, order)
    if smoothed:
        history = read_arpa(write_model(dense_large, folder / "h.arpa"), quiet=True)
        mass = oracle.model_histories(dense_large, oracle.all_histories(dense_large, order))
    adapted = match(small, large, write_text(text, folder / "t"), history=history, settings=SolverSettings(1e-6, 3000))
    assert adapted.solution.converged, adapted.solution.message
    ngrams = [tuple(ngram.split()) for ngram in adapted.problem.ngrams()]
    wanted = oracle.Dense(oracle.read(folder / "large.arpa"), mass, ngrams, [0.0] * len(ngrams)).marginals()
    np.testing.assert_allclose(adapted.problem.target, wanted, rtol=0, atol=1e-12)
    got = oracle.Dense(oracle.read(folder / "small.arpa"), mass, ngrams, adapted.lam.tolist()).marginals()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6)
    assert adapted.model.trie.counts == small.trie.counts
    assert worst_sum(adapted.model)[0] < 1e-9


@pytest.mark.parametrize("small", ["srilm/in.kn.arpa.gz", "srilm/bg.kn.prune1e-4.arpa.gz"])
def test_the_output_has_exactly_the_ngrams_of_the_input(small: str, tmp_path: Path) -> None:
    """Also for a pruned model, whose trie is closed only while it is worked on."""
    out = tmp_path / "out.arpa.gz"
    source, large, text = DATA / small, DATA / "kaldi" / "mix.arpa.gz", DATA / "text" / "in.txt.gz"
    assert main(["match", str(source), str(large), str(text), str(out)]) == 0
    before, after = oracle.read(source), oracle.read(out)
    assert list(before) == list(after)
    assert worst_sum(read_arpa(str(out), quiet=True))[0] < 1e-6
    certificate = json.loads((tmp_path / "out.arpa.gz.json").read_text())
    assert certificate["converged"]
    assert certificate["ngrams"] == [sum(len(gram) == k for gram in before) for k in (1, 2, 3)]
    dev = str(DATA / "text" / "dev.txt")
    scores = [perplexity(read_arpa(str(path), quiet=True), dev).ppl for path in (source, out, large)]
    assert scores[0] > scores[1] > scores[2]  # between the small and the large model, at the size of the small one


def test_a_model_matched_to_itself_stays_as_it_is(tmp_path: Path) -> None:
    source = read_arpa(str(DATA / "srilm" / "in.kn.arpa.gz"))
    same = match(source, source, str(DATA / "text" / "in.txt.gz"))
    assert same.solution.iterations == 1
    np.testing.assert_allclose(same.model.p[3], source.p[3], rtol=1e-6)


def test_models_are_given_in_any_way(tmp_path: Path) -> None:
    path, text = DATA / "srilm" / "in.kn.arpa.gz", [Path(DATA / "text" / "in.txt.gz")]
    source, bad = read_arpa(str(path)), DATA / "bad" / "missing-backoff-bigram.arpa"
    once = match(source, path, text, history=path)
    again = match(once, str(path), text, history=source)
    assert once.model == match(path, source, text, history=again).model
    for made in (
        lambda: match(5, source, text),
        lambda: match(source, 5, text),
        lambda: match(source, source, text, history=5),
    ):
        with pytest.raises(MdiError, match="=5; expected a model"):
            made()
    with pytest.raises(MdiError, match=r"missing-backoff-bigram.arpa: p\(.\|h\) sums to one only within"):
        match(bad, bad, DATA / "bad" / "tiny.txt")
    taken = match(bad, bad, DATA / "bad" / "tiny.txt", allow_unnormalized=True)
    assert worst_sum(taken.model)[0] < 1e-6


@pytest.mark.parametrize("options", [["--targets-lm"], ["--history"], ["--mix-with"]], ids=" ".join)
def test_what_to_do_about_words_too_many(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each caller hears of its own options."""
    large = str(DATA / "srilm" / "in.kn.arpa.gz")
    small, out = str(DATA / "bad" / "good.arpa"), str(tmp_path / "o.arpa")
    text = str(tmp_path / "text")
    Path(text).write_text("w000 w001\n")
    verb = "tune" if options == ["--mix-with"] else "adapt"
    assert main([verb, *options, large, small, text, *([text] if verb == "tune" else []), out]) == 1
    said = capsys.readouterr().err
    assert "words that the model to be adapted lacks" in said
    assert "--new-words" not in said
    assert main(["match", small, large, text, out]) == 1
    assert "or add them (--new-words add)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SMALL", "SMALL", "OUT"], "expected SMALL LARGE TEXT OUT"),
        (["SMALL", str(DATA / "bad" / "good.arpa"), "TEXT", "OUT"], None),
        (
            [str(DATA / "bad" / "good.arpa"), "SMALL", str(DATA / "bad" / "tiny.txt"), "OUT"],
            "words that the model to be adapted lacks",
        ),
        (["SMALL", "SMALL", "TEXT", "SMALL"], "also an input"),
    ],
)
def test_bad_usage(
    arguments: list[str], message: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "SMALL": str(DATA / "srilm" / "in.kn.arpa.gz"),
        "TEXT": str(DATA / "text" / "in.txt.gz"),
        "OUT": str(tmp_path / "o.arpa"),
    }
    code = main(["match", *(names.get(a, a) for a in arguments)])
    said = capsys.readouterr().err
    if message is None:  # a large model that knows fewer words: their n-grams have no target, which is said
        assert "left out 3,112 constraints, without a target" in said
        return
    assert code == (2 if "SMALL LARGE TEXT" in message else 1)
    assert message in said
    assert list(tmp_path.iterdir()) == []


def test_counts_do_instead_of_text(tmp_path: Path) -> None:
    small, large = str(DATA / "srilm" / "in.kn.arpa.gz"), str(DATA / "kaldi" / "mix.arpa.gz")
    a, b = tmp_path / "a.arpa", tmp_path / "b.arpa"
    assert main(["match", small, large, str(DATA / "text" / "in.txt.gz"), str(a)]) == 0
    (tmp_path / "counts").write_bytes(gzip.decompress((DATA / "srilm" / "in.counts.gz").read_bytes()))
    assert main(["match", "--counts", str(tmp_path / "counts"), small, large, str(b)]) == 0
    assert a.read_bytes() == b.read_bytes()
