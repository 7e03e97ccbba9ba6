"""Rescoring against Kaldi's lattice-lmrescore and lattice-lmrescore-const-arpa, and against itself."""

import numpy as np
import pytest
from goldens import golden_model
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_data import KALDI, LAT, PENALTIES, WEIGHTS, WORDS, best_costs, best_words, lattice_of, lattices, table

from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.symbols import read_symbols
from mdi.lm.arpa import read_arpa
from mdi.speech.lattice import best_path, n_best
from mdi.speech.lattice_files import read_lattices
from mdi.speech.rescore import CHEAPEST, EXACT, add_model, lattice_model, rescored

SYMBOLS = read_symbols(WORDS)


@pytest.fixture(scope="module")
def old():
    return lattice_model(golden_model("bg.kn"), SYMBOLS)


@pytest.fixture(scope="module")
def new():
    return lattice_model(golden_model("mix"), SYMBOLS)


@pytest.fixture(scope="module")
def models(new):
    """Orders 3, 4 and a pruned model."""
    return [new, *(lattice_model(golden_model(name), SYMBOLS) for name in ("bg4.kn", "bg.kni.prune1e-4"))]


def assert_best_paths_are(name, made):
    for weight in WEIGHTS:
        for penalty in PENALTIES:
            for utterance, lattice in made.items():
                key = (name, str(weight), penalty, utterance)
                path = best_path(lattice, weight, float(penalty))
                assert path.words.tolist() == best_words()[key]
                assert path.graph + path.acoustic / weight == pytest.approx(float(best_costs()[key]["total"]), abs=1e-3)


def test_adding_a_model_is_const_arpa(new):
    assert_best_paths_are("lats.carpa", {u: rescored(x, None, new) for u, x in lattices("lats.minus-old").items()})


def test_adding_a_model_is_composing_with_g_fst_by_failure_arcs(new):
    """lattice-compose --phi-label: the other exact way that Kaldi has."""
    for utterance, lattice in lattices("lats.minus-old").items():
        same_paths(rescored(lattice, None, new), lattices("lats.gphi")[utterance], n=10, within=1e-3)


def test_from_decoder_scores_to_const_arpa_in_one_step(old, new):
    """lats.txt holds the cheapest back-off paths of the old G.fst: what any decoding graph leaves in a lattice."""
    assert_best_paths_are("lats.carpa", {u: rescored(x, old, new, CHEAPEST) for u, x in lattices("lats").items()})


def test_cheapest_paths_are_those_of_g_fst(old, new):
    assert_best_paths_are("lats", {u: add_model(x, old, 1.0, CHEAPEST) for u, x in lattices("lats.ac").items()})
    assert_best_paths_are("lats.gfst", {u: add_model(x, new, 1.0, CHEAPEST) for u, x in lattices("lats.ac").items()})


def same_paths(a, b, n=30, within=1e-6):
    for weight in WEIGHTS:
        for x, y in zip(n_best(a, n, weight), n_best(b, n, weight), strict=True):
            assert x.words.tolist() == y.words.tolist()
            assert x.graph == pytest.approx(y.graph, abs=within)
            assert x.acoustic == pytest.approx(y.acoustic, abs=within)


@pytest.mark.parametrize("scores", [EXACT, CHEAPEST])
def test_out_and_in_again_is_the_identity(old, scores):
    for lattice in list(lattices("lats").values())[:8]:
        same_paths(add_model(add_model(lattice, old, -1.0, scores), old, 1.0, scores), lattice)


def test_old_to_new_to_old_returns_the_costs(old, new):
    for lattice in list(lattices("lats").values())[:8]:
        there = rescored(lattice, old, new)
        assert abs(best_path(there, 8.0).graph - best_path(lattice, 8.0).graph) > 1e-2
        same_paths(rescored(there, new, old), lattice)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 301), min_size=0, max_size=7))
def test_cost_of_one_path_is_the_models_score(models, labels):
    """A chain of words, silence (label 0) and <unk> (1) among them."""
    n = len(labels)
    chain = lattice_of(range(n), range(1, n + 1), labels, np.zeros(n), np.zeros(n), np.zeros(n), finals={n: 0.0})
    words = SYMBOLS.spell([w for w in labels if w])
    for lm in models:
        expected = -lm.model.log_prob([*words, "</s>"], ["<s>"])
        assert best_path(add_model(chain, lm), 1.0).graph == pytest.approx(expected, abs=1e-6)
        assert best_path(add_model(chain, lm, 1.0, CHEAPEST), 1.0).graph <= expected + 1e-4


def test_command_on_folders(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    data = (LAT / "lats.txt.gz").read_bytes()
    for n in (1, 2):
        (source / f"lat.{n}.gz").write_bytes(data)
    arguments = ["--words", WORDS, "--old-lm", str(KALDI / "bg.kn.arpa.gz"), "--new-lm", str(KALDI / "mix.arpa.gz")]
    assert main(["rescore", *arguments, "--old-scores", "cheapest", "--nj", "2", str(source), str(out)]) == 0
    for n in (1, 2):
        assert_best_paths_are("lats.carpa", {x.utterance: x for x in read_lattices(str(out / f"lat.{n}.gz"))})


def test_a_model_without_the_words_is_an_error_that_names_the_utterance(tmp_path, capsys):
    lm, out = tmp_path / "lm.arpa", tmp_path / "out.gz"
    lm.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-0.3\t</s>\n-99\t<s>\n-0.3\tw000\n\n\\end\\\n")
    arguments = ["--words", WORDS, "--new-lm", str(lm), str(LAT / "lats.ac.txt.gz"), str(out)]
    assert main(["rescore", *arguments]) == 1
    said = capsys.readouterr().err
    assert "lacks 299 words" in said
    assert "utterance utt000 is empty after rescoring" in said
    assert not out.exists()


def test_a_table_of_other_lattices_is_refused(new, tmp_path):
    short = tmp_path / "words.txt"
    short.write_text("<eps> 0\nw000 1\n#0 2\n")
    lm = lattice_model(new.model, read_symbols(str(short)))
    with pytest.raises(MdiError, match="utt000: word number"):
        add_model(lattices("lats")["utt000"], lm)


def test_a_unigram_model_has_no_histories(tmp_path):
    unigram = tmp_path / "one.arpa"
    unigram.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-0.3\t</s>\n-99\t<s>\n-0.5\t<unk>\n\n\\end\\\n")
    lm = lattice_model(read_arpa(str(unigram)), SYMBOLS)
    for scores in (EXACT, CHEAPEST):
        made = add_model(lattices("lats.ac")["utt000"], lm, 1.0, scores)
        path = best_path(made, 10.0)
        assert path.graph == pytest.approx((0.5 * len(path.words) + 0.3) * np.log(10), abs=1e-6)
    assert made.n_arcs == lattices("lats.ac")["utt000"].n_arcs


def test_references_and_lattices_have_the_same_utterances():
    assert set(table("refs.txt")) == set(lattices("lats"))
