"""Lists of sequences: costs without the old model, answers and expected errors by their definitions."""

import kaldialign
import numpy as np
import pytest
from goldens import golden_model
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_data import LAT, WORDS, lattices, table

from mdi.errors import MdiError
from mdi.fst.symbols import read_symbols
from mdi.lm.n_best import NBestLists
from mdi.lm.perplexity import perplexity
from mdi.speech.data import read_text
from mdi.speech.lattice import best_path
from mdi.speech.n_best import DECODED_AT, lists_of, read_lists, sequence_costs
from mdi.speech.rescore import CHEAPEST, EXACT, add_model, lattice_model

SYMBOLS = read_symbols(WORDS)
REFERENCES = read_text(LAT / "refs.txt")


@pytest.fixture(scope="module")
def lists() -> NBestLists:
    return lists_of(lattices("lats").values(), SYMBOLS, golden_model("bg.kn"), REFERENCES, 30)


@pytest.mark.parametrize("scores", [EXACT, CHEAPEST])
def test_costs_of_sequences_are_what_a_lattice_gets(scores):
    lm = lattice_model(golden_model("bg.kn"), SYMBOLS)
    sequences = [best_path(lattice, 10.0).words for lattice in lattices("lats").values()]
    sequences.append(np.zeros(0, np.int32))
    found = sequence_costs("u", sequences, lm, scores)
    for labels, cost in zip(sequences, found, strict=True):
        alone = sequence_costs("u", [labels], lm, scores)
        assert cost == pytest.approx(float(alone[0]))
        if scores == EXACT and len(labels):
            assert cost == pytest.approx(-perplexity(lm.model, [SYMBOLS.spell(labels)]).log_prob, rel=1e-6)
    assert (sequence_costs("u", sequences, lm, CHEAPEST) <= sequence_costs("u", sequences, lm, EXACT) + 1e-9).all()


def test_lists_are_kaldis_n_best_with_another_model(lists):
    """nbest-... of lats is the old model's order; the same lists with its scores put back."""
    words = table("nbest.lats.int")
    for utterance in ("utt000", "utt004", "utt017"):
        u = lists.utterances.index(utterance)
        for i in range(10):
            expected = SYMBOLS.spell([int(w) for w in words[f"{utterance}-{i + 1}"]])
            assert lists.words[lists.begin[u] + i] == expected


def test_a_new_model_chooses_what_rescoring_finds(lists):
    new, old = lattice_model(golden_model("mix"), SYMBOLS), lattice_model(golden_model("bg.kn"), SYMBOLS)
    chosen = lists.answers(lists.lm_costs(new.model))
    for u, utterance in enumerate(lists.utterances):
        lattice = add_model(add_model(lattices("lats")[utterance], old, -1.0, CHEAPEST), new)
        path = best_path(lattice, DECODED_AT)
        best = lists.words[chosen[u]]
        if SYMBOLS.spell(path.words) in lists.words[lists.begin[u] : lists.begin[u + 1]]:
            assert best == SYMBOLS.spell(path.words)


def test_errors_and_answers_by_definition(lists):
    lm = lists.lm_costs(golden_model("mix"))
    chosen = lists.answers(lm, 1.3, 0.2)
    for u, utterance in enumerate(lists.utterances):
        rows = range(int(lists.begin[u]), int(lists.begin[u + 1]))
        cost = [1.3 * lm[i] + 0.2 * len(lists.words[i]) + lists.rest[i] for i in rows]
        assert chosen[u] == rows[int(np.argmin(cost))]
        errors = [kaldialign.edit_distance(REFERENCES[utterance], lists.words[i])["total"] for i in rows]
        assert lists.errors[list(rows)].tolist() == errors
        share = np.exp((min(cost) - np.array(cost)) / 1.3)
        assert lists.expected(lm, 1.3, 0.2)[u] == pytest.approx(share @ errors / share.sum())
        assert lists.reference_words[u] == len(REFERENCES[utterance])


def test_the_choice_is_no_worse_than_its_neighbours(lists):
    lm = lists.lm_costs(golden_model("mix"))
    for penalties in ((0.0,), (-0.5, 0.0, 0.5)):
        found = lists.choose(lm, penalties)
        assert found.expected == pytest.approx(lists.expected(lm, found.lm_weight, found.word_penalty).sum())
        assert found.errors == lists.errors[lists.answers(lm, found.lm_weight, found.word_penalty)].sum()
        for weight in (found.lm_weight - 0.05, found.lm_weight, found.lm_weight + 0.05):
            for penalty in penalties:
                assert lists.expected(lm, weight, penalty).sum() >= found.expected - 1e-9


def test_a_larger_weight_gains_nothing_by_being_larger():
    """Two sequences that differ by the model alone: the expected errors are the same at any weight."""
    lists = NBestLists(["u"], np.array([0, 2]), [["a"], ["b"]], np.zeros(2), np.array([0, 1]), np.array([1]))
    lm = np.array([1.0, 2.0])
    expected = [lists.expected(lm, weight)[0] for weight in (0.5, 1.0, 3.0)]
    np.testing.assert_allclose(expected, 1 / (1 + np.exp(1.0)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_part_has_its_own_lists(lists, seed):
    rng = np.random.default_rng(seed)
    names = [lists.utterances[u] for u in rng.permutation(len(lists.utterances))[: rng.integers(1, 6)]]
    part, lm = lists.part(names), golden_model("mix")
    assert part.utterances == names
    whole = dict(zip(lists.utterances, lists.expected(lists.lm_costs(lm), 1.0, 0.0), strict=True))
    np.testing.assert_allclose(part.expected(part.lm_costs(lm), 1.0, 0.0), [whole[name] for name in names])


def test_lists_of_a_folder_and_what_is_missing(lists, tmp_path):
    (tmp_path / "lat.1.gz").write_bytes((LAT / "lats.txt.gz").read_bytes())
    found = read_lists(tmp_path, SYMBOLS, golden_model("bg.kn"), REFERENCES, 30)
    assert found.words == lists.words
    with pytest.raises(MdiError, match="no lattice has a reference"):
        read_lists(tmp_path, SYMBOLS, golden_model("bg.kn"), {"nobody": ["a"]})
    with pytest.raises(MdiError, match="no list of sequences for utterance nobody"):
        lists.part(["nobody"])
