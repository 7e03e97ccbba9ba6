"""LM weight and word penalty in the costs of a graph: against their definition, and out again."""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_data import LAT, WORDS, lattices
from oracle import prob
from random_models import random_model, write_model
from test_vosk import DATA, DEV, TEXT, dynamic_folder

from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.formats import load, weight_of, write_lm
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight, split_name, with_weight
from mdi.fst.openfst import parse_arcs, read_whole_header
from mdi.fst.symbols import read_symbols
from mdi.lm.normalise import worst_sum
from mdi.speech.data import read_text
from mdi.speech.lattice import best_path, n_best
from mdi.speech.rescore import EXACT, lattice_model
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.outputs import ACOUSTIC_FACTOR, GRAPH_SCALE, n_best_lattice, with_graph_scores
from mdi.speech.vosk.results import Alternative, Recognised, Word

WEIGHT = GraphWeight(1.3, 0.4)
dynamic = pytest.fixture(dynamic_folder, name="dynamic")


def path_cost(path: str, words: list[str]) -> float:
    """Of the cheapest way through an OpenGrm FST, whose back-off arcs read nothing."""
    data = Path(path).read_bytes()
    header = read_whole_header(data, path)
    arcs, ids = parse_arcs(data, header, path), header.symbols.keys
    reached = {arcs.start: 0.0}

    def back_off(states: dict[int, float]) -> dict[int, float]:
        todo = list(states)
        while todo:
            state = todo.pop()
            for a in range(arcs.begin[state], arcs.begin[state + 1]):
                cost, to = states[state] + float(arcs.weight[a, 0]), int(arcs.dest[a])
                if arcs.ilabel[a] == 0 and cost < states.get(to, math.inf):
                    states[to] = cost
                    todo.append(to)
        return states

    for word in words:
        after: dict[int, float] = {}
        for state, cost in back_off(reached).items():
            for a in range(arcs.begin[state], arcs.begin[state + 1]):
                if arcs.ilabel[a] == ids[word]:
                    to = int(arcs.dest[a])
                    after[to] = min(after.get(to, math.inf), cost + float(arcs.weight[a, 0]))
        reached = after
    return min(cost + float(arcs.final[state, 0]) for state, cost in back_off(reached).items())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 20), weight=st.floats(0.3, 4.0), penalty=st.floats(-1.0, 3.0))
def test_a_sentence_costs_w_times_its_logarithm_and_a_penalty_per_word(seed, weight, penalty, tmp_path_factory):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("weight")
    dense = random_model(rng, 2, 4, closed=True)
    model = load(write_model(dense, folder / "m.arpa"))
    write_lm(model, folder / "m.mod", weight=GraphWeight(weight, penalty))
    words = [f"w{i}" for i in rng.integers(0, 4, rng.integers(0, 4))]

    def cheapest(history: tuple[str, ...], rest: list[str]) -> float:
        """Every n-gram may be backed off from."""
        if not rest:
            return 0.0
        word, ways = rest[0], []
        own = penalty if word != "</s>" else 0.0
        if (*history, word) in dense:
            ways.append(-weight * math.log(dense[(*history, word)][0]) + own + cheapest((word,), rest[1:]))
        if history:
            ways.append(-weight * math.log(dense[history][1]) + cheapest_backed_off(word, rest, own))
        return min(ways)

    def cheapest_backed_off(word: str, rest: list[str], own: float) -> float:
        return -weight * math.log(prob(dense, (), word)) + own + cheapest((word,), rest[1:])

    assert path_cost(str(folder / "m.mod"), words) == pytest.approx(cheapest(("<s>",), [*words, "</s>"]), abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 20), weight=st.floats(0.2, 5.0), penalty=st.floats(-2.0, 5.0))
def test_the_weight_comes_out_and_goes_in_again_bit_for_bit(seed, weight, penalty, tmp_path_factory):
    folder, put = tmp_path_factory.mktemp("weight"), GraphWeight(weight, penalty)
    model = load(write_model(random_model(np.random.default_rng(seed), 3, 5, closed=False), folder / "m.arpa"))
    plain, first, second = (folder / name / "Gr.fst" for name in ("plain", "first", "second"))
    for path in (plain, first, second):
        path.parent.mkdir()
    write_lm(model, plain)
    write_lm(model, first, weight=put)
    assert (weight_of(str(plain)), weight_of(str(first))) == (UNWEIGHTED, put)
    before, after = load(plain), load(first)
    assert after.trie.counts == before.trie.counts
    for values, expected in zip([*after.p[1:], *after.bow[1:]], [*before.p[1:], *before.bow[1:]], strict=True):
        # a cost of c has 24 bits, and so has W c + P: one of the two roundings is left
        bound = 2.0**-22 * (1 + np.abs(np.log(np.maximum(expected, 1e-300))) + abs(penalty) / weight)
        near = np.abs(np.log(np.maximum(values, 1e-300)) - np.log(np.maximum(expected, 1e-300))) <= bound
        assert (near | (values == expected)).all()
    write_lm(load(first, closed=False), second, weight=put, words=str(first))
    assert first.read_bytes() == second.read_bytes()
    assert plain.read_bytes() != first.read_bytes() or not put


@pytest.mark.parametrize("name", ["", "words", "a (mdi: b)"])
def test_the_name_of_the_table_says_it(name):
    assert split_name(WEIGHT.named(name)) == (name, WEIGHT)
    assert split_name(GraphWeight(0.1, -1e-7).named(name)) == (name, GraphWeight(0.1, -1e-7))
    assert UNWEIGHTED.named(name) == name
    assert split_name(name) == (name, UNWEIGHTED)


def test_a_name_that_only_looks_like_it():
    name = "(mdi: lm-weight 1e999, word-penalty 0.0)"
    assert split_name(name) == (name, UNWEIGHTED)


def test_a_weight_makes_no_distribution():
    model = load(str(DATA / "kaldi" / "bg.kn.arpa.gz"))
    assert worst_sum(model)[0] < 1e-5
    assert worst_sum(with_weight(model, WEIGHT))[0] > 0.1


def test_a_folder_with_a_weight_and_its_models_without(dynamic, tmp_path, capsys):
    plain, out = tmp_path / "plain", tmp_path / "out"
    large = str(DATA / "kaldi" / "mix.arpa.gz")
    options = ["--large", large] if Path(large).exists() else ["--large", str(DATA / "kaldi" / "bg.kn.arpa.gz")]
    assert main(["vosk", "adapt", *options, "--ppl", DEV, str(dynamic), TEXT, str(plain)]) == 0
    weight = ["--lm-weight", "1.3", "--word-penalty", "0.4"]
    assert main(["vosk", "adapt", *options, "--ppl", DEV, *weight, str(dynamic), TEXT, str(out)]) == 0
    said = json.loads((out / "mdi.json").read_text())
    assert (said["lm_weight"], said["word_penalty"]) == (1.3, 0.4)
    assert "no probabilities" in capsys.readouterr().err
    made, without = VoskFolder(out), VoskFolder(plain)
    assert (made.weight, without.weight) == (WEIGHT, UNWEIGHTED)
    for found, expected in (
        (made.first_pass, without.first_pass),
        (made.first_pass_in_lattices, without.first_pass_in_lattices),
        (made.rescoring, without.rescoring),
    ):
        assert found.read_bytes() != expected.read_bytes()
        one, other = made.read(found), without.read(expected)
        for values, wanted in zip([*one.p[1:], *one.bow[1:]], [*other.p[1:], *other.bow[1:]], strict=True):
            np.testing.assert_allclose(values, wanted, rtol=2e-5)
    # what is adapted from there keeps the weight, and is measured without it
    again = tmp_path / "again"
    assert main(["vosk", "replace-lm", str(out), large, str(again)]) == 0
    assert VoskFolder(again).weight == WEIGHT
    assert main(["vosk", "replace-lm", "--lm-weight", "1", "--word-penalty", "0", str(out), large, str(again)]) == 0
    assert VoskFolder(again).weight == UNWEIGHTED


def test_check_and_convert_know_a_graph(dynamic, tmp_path, capsys):
    own, out = dynamic / "graph" / "Gr.fst", tmp_path / "out"
    assert (
        main(["vosk", "replace-lm", "--lm-weight", "1.3", "--word-penalty", "0.4", str(dynamic), str(own), str(out)])
        == 0
    )
    graph = str(out / "graph" / "Gr.fst")
    capsys.readouterr()
    assert main(["check", graph]) == 0
    said = capsys.readouterr().out
    assert "not a distribution: LM weight 1.3, word penalty 0.4" in said
    assert main(["check", str(own)]) == 0
    assert "distribution" not in capsys.readouterr().out
    assert main(["convert", graph, str(tmp_path / "out.arpa")]) == 0
    assert main(["convert", str(own), str(tmp_path / "own.arpa")]) == 0
    one, other = load(tmp_path / "out.arpa"), load(tmp_path / "own.arpa")
    for values, wanted in zip([*one.p[1:], *one.bow[1:]], [*other.p[1:], *other.bow[1:]], strict=True):
        np.testing.assert_allclose(values, wanted, rtol=2e-6)


def test_what_cannot_have_a_weight(dynamic, tmp_path, capsys):
    with pytest.raises(MdiError, match="ARPA files are probabilities"):
        write_lm(load(dynamic / "graph" / "Gr.fst"), tmp_path / "m.arpa", weight=WEIGHT)
    (dynamic / "graph" / "HCLr.fst").rename(dynamic / "graph" / "HCLG.fst")
    lm = str(dynamic / "graph" / "Gr.fst")
    assert (
        main(["vosk", "replace-lm", "--first-pass", lm, "--lm-weight", "2", str(dynamic), lm, str(tmp_path / "o")]) == 1
    )
    assert "static graph" in capsys.readouterr().err
    for option, value in (("--lm-weight", "0.0"), ("--lm-weight", "nan"), ("--word-penalty", "inf")):
        assert main(["vosk", "replace-lm", option, value, str(dynamic), lm, str(tmp_path / "o")]) == 2
        assert f"{option} {value}; expected" in capsys.readouterr().err


def test_scores_of_a_weighted_decoding_are_told_apart():
    model, symbols = load(str(DATA / "kaldi" / "bg.kn.arpa.gz")), read_symbols(str(DATA / "kaldi" / "words.txt"))
    words = [w for w in symbols.ids if model.vocab.id(w) >= 0 and w[0] not in "<#"][:6]
    texts = [words[:3], words[3:], words[:1], []]
    found = Recognised(
        "u",
        1.0,
        [
            Alternative([Word(w, 0.3 * i, 0.3 * i + 0.3) for i, w in enumerate(text)], 50.0 - k)
            for k, text in enumerate(texts)
        ],
    )
    lattice, lm = n_best_lattice(found, symbols), lattice_model(model, symbols)
    plain, made = with_graph_scores(lattice, lm, EXACT), with_graph_scores(lattice, lm, EXACT, WEIGHT)
    # the model's score is the graph cost, whatever the weight; at that weight the order is the recogniser's
    np.testing.assert_allclose(made.arcs.graph, plain.arcs.graph)
    paths = n_best(made, 10, 1.3 * ACOUSTIC_FACTOR, 0.4 / 1.3)
    assert [symbols.spell(path.words) for path in paths] == texts
    for path, one in zip(paths, found.alternatives, strict=True):
        total = 1.3 * path.graph + path.acoustic / ACOUSTIC_FACTOR  # its graph has the penalties
        assert GRAPH_SCALE * total == pytest.approx(-one.score)


class Decoder:
    """In place of libvosk: Kaldi's lattices of the recordings, best paths at the folder's weight, and nothing at
    weights above `breaks_at`, where the beam loses it."""

    def __init__(self) -> None:
        self.breaks_at, self.asked = math.inf, []

    def __call__(self, args: argparse.Namespace) -> None:
        weight, symbols, out = VoskFolder(Path(args.model)).weight, read_symbols(WORDS), Path(args.out)
        out.mkdir(exist_ok=True)
        (out / "lat.1.gz").write_bytes((LAT / "lats.txt.gz").read_bytes())
        rows = []
        for lattice in lattices("lats").values():
            path = best_path(lattice, 10.0 * weight.lm_weight, weight.word_penalty / weight.lm_weight)
            words = symbols.spell(path.words) if weight.lm_weight <= self.breaks_at else []
            rows.append(" ".join([lattice.utterance, *words]))
        (out / "text").write_text("\n".join(rows) + "\n")
        self.asked.append((weight, args.n_best))


@pytest.mark.parametrize("breaks_at", [math.inf, 0.9, 0.0])
@pytest.mark.parametrize("verb", ["adapt", "replace-lm"])
def test_recordings_choose_the_weight_and_decoding_verifies_it(dynamic, tmp_path, monkeypatch, capsys, verb, breaks_at):
    decoder, data, out = Decoder(), tmp_path / "data", tmp_path / "out"
    decoder.breaks_at = breaks_at
    monkeypatch.setattr("mdi.commands.vosk_decode.run", decoder)
    data.mkdir()
    references = read_text(LAT / "refs.txt")
    (data / "text").write_text((LAT / "refs.txt").read_text())
    (data / "wav.scp").write_text("".join(f"{u} {u}.wav\n" for u in references))
    lm = TEXT if verb == "adapt" else str(dynamic / "graph" / "Gr.fst")
    assert main(["vosk", verb, "--dev-recordings", str(data), str(dynamic), lm, str(out)]) == 0
    first, *others = decoder.asked
    assert first == (UNWEIGHTED, 100)
    assert all(n_best == 1 for _, n_best in others)
    found = VoskFolder(out).weight
    tried = json.loads((out / "mdi.json").read_text())["errors_by_weight"]
    assert min(tried, key=lambda name: tried[name]) == f"{found.lm_weight:g} {found.word_penalty:g}"
    assert {weight for weight, _ in decoder.asked} >= {found}
    if breaks_at == 0.0:
        assert found == UNWEIGHTED
    assert len(list((tmp_path / "out.decoded" / "dev").iterdir())) == len(tried)  # and no model that was tried
    # a second run ends with the same, and leaves nothing of weights that it does not try
    (tmp_path / "out.decoded" / "dev" / "9.9,0").mkdir()
    assert main(["vosk", verb, "--dev-recordings", str(data), str(dynamic), lm, str(out)]) == 0
    assert VoskFolder(out).weight == found
    assert len(list((tmp_path / "out.decoded" / "dev").iterdir())) == len(tried)
    assert ".tmp" not in capsys.readouterr().err  # names of files as people know them
    # the model is what it was, but for the weight
    plain = tmp_path / "plain"
    assert main(["vosk", verb, str(dynamic), lm, str(plain)]) == 0
    one, other = (VoskFolder(folder).read(folder / "graph" / "Gr.fst") for folder in (out, plain))
    for values, wanted in zip([*one.p[1:], *one.bow[1:]], [*other.p[1:], *other.bow[1:]], strict=True):
        np.testing.assert_allclose(values, wanted, rtol=2e-5)


def test_what_is_asked_of_recordings(dynamic, tmp_path, capsys):
    data, lm = tmp_path / "data", str(dynamic / "graph" / "Gr.fst")
    data.mkdir()
    (data / "wav.scp").write_text("u u.wav\n")
    command = ["vosk", "replace-lm", "--dev-recordings", str(data)]
    assert main([*command, str(dynamic), lm, str(tmp_path / "out")]) == 1
    assert "expected recordings with transcripts" in capsys.readouterr().err
    assert main([*command, "--lm-weight", "2", str(dynamic), lm, str(tmp_path / "out")]) == 2
    assert "expected it alone" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("error")
def test_a_cost_that_is_no_number_stays_none() -> None:
    """Without a warning: the reader of the file refuses it by name."""
    signalling = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    assert np.isnan(GraphWeight(2.0).taken_from(signalling, True)).tolist() == [True, False]
