"""Expected counts against the enumeration of all paths, and the forms that they are read from."""

import gzip
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_data import LAT, WORDS, lattices, table

from mdi.cli import main
from mdi.errors import MdiError
from mdi.kernels.expected_counts import GraphArrays, backward
from mdi.lm.counts import Counts, add_counts, count_text, less, read_counts
from mdi.lm.vocabulary import vocabulary
from mdi.speech.expected_counts import Tally, expected_counts
from mdi.speech.lattice import n_best
from mdi.speech.word_graph import Labels, WordGraph, from_lattice, from_paths, guess_format, read_graphs

VOCAB = vocabulary(["<s>", "</s>", "a", "b", "c", "d"])
# labels 1 .. 4 are a .. d, 5 is unknown
WORD_OF = np.array([-1, 2, 3, 4, 5, -1], np.int32)
NAMES = ["", "a", "b", "c", "d", None]


def to_dict(counts: Counts) -> dict[tuple[str, ...], float]:
    found = {}
    for k in range(1, counts.order + 1):
        ngrams = counts.trie.ngrams(k, np.arange(counts.trie.rows(k), dtype=np.int32)).tolist()
        for ngram, count in zip(ngrams, counts.count[k].tolist(), strict=True):
            if count:
                found[tuple(counts.vocab.words[w] for w in ngram)] = count
    return found


def all_paths(graph: WordGraph) -> list[tuple[float, list[int]]]:
    """(log weight, arcs) of every path, one by one."""
    found = []

    def walk(state: int, weight: float, arcs: list[int]) -> None:
        if graph.final[state] > -math.inf:
            found.append((weight + float(graph.final[state]), arcs))
        for arc in range(int(graph.begin[state]), int(graph.begin[state + 1])):
            walk(int(graph.dest[arc]), weight + float(graph.weight[arc]), [*arcs, arc])

    walk(0, 0.0, [])
    return found


def enumerated(graph: WordGraph, order: int) -> tuple[dict[tuple[str, ...], float], np.ndarray]:
    """Counts of each path's sentence, and of its arcs, times its posterior."""
    paths = all_paths(graph)
    top = max(weight for weight, _ in paths)
    norm = math.fsum(math.exp(weight - top) for weight, _ in paths)
    counts: Counter[tuple[str, ...]] = Counter()
    arc_post = np.zeros(graph.n_arcs)
    for weight, arcs in paths:
        share = math.exp(weight - top) / norm
        words = [NAMES[int(graph.label[arc])] for arc in arcs if graph.label[arc]]
        sentence = ["<s>", *words, "</s>"]
        for i in range(len(sentence)):
            for k in range(1, order + 1):
                ngram = tuple(sentence[i : i + k])
                if len(ngram) == k and None not in ngram:
                    counts[ngram] += share
        arc_post[arcs] += share
    return dict(counts), arc_post


def random_graph(rng: np.random.Generator) -> WordGraph:
    """States in topological order, arcs forwards; large costs, epsilons, unknown words, parallel arcs."""
    n = int(rng.integers(2, 8))
    rows = []
    for s in range(n - 1):
        for _ in range(int(rng.integers(1, 4))):
            label = int(rng.choice([0, 1, 1, 2, 3, 4, 5]))
            rows.append((label, int(rng.integers(s + 1, n)), float(rng.normal() * 3 - 200)))
        rows[-1] = (rows[-1][0], s + 1, rows[-1][2])
        rows.append(s)
    begin, label, dest, weight = [0], [], [], []
    for row in rows:
        if isinstance(row, int):
            begin.append(len(label))
        else:
            for part, value in zip((label, dest, weight), row, strict=True):
                part.append(value)
    begin.append(len(label))
    final = np.where(rng.random(n) < 0.3, rng.normal(size=n), -np.inf)
    final[-1] = 0.5
    return WordGraph(
        "x", np.array(begin, np.int64), np.array(label, np.int32), np.array(dest, np.int32), np.array(weight), final
    )


def word_posteriors(graph: WordGraph) -> np.ndarray:
    """The posterior of every arc, by the kernel that counts rest on."""
    arrays = GraphArrays(graph.begin, graph.label, graph.dest, graph.weight, graph.final)
    beta = backward(arrays)
    # the way from the start is the way to the end of the graph turned round
    n, back = graph.n_states, np.argsort(-graph.dest, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(n - 1 - graph.dest, minlength=n))])
    source = graph.source
    start = np.append(np.full(n - 1, -np.inf), 0.0)
    turned = GraphArrays(begin, graph.label[back], n - 1 - source[back], graph.weight[back], start)
    alpha = backward(turned)[::-1]
    return np.exp(alpha[source] + graph.weight + beta[graph.dest] - beta[0])


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(1, 4))
def test_every_count_is_that_of_all_paths(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng) for _ in range(int(rng.integers(1, 4)))]
    tally = Tally(VOCAB, order)
    expected: Counter[tuple[str, ...]] = Counter()
    for graph in graphs:
        tally.add(graph, WORD_OF)
        counts, posteriors = enumerated(graph, order)
        expected.update(counts)
        np.testing.assert_allclose(word_posteriors(graph), posteriors, atol=1e-10)
    found = to_dict(tally.counts())
    for ngram in set(found) | set(expected):
        assert found.get(ngram, 0.0) == pytest.approx(expected.get(ngram, 0.0), abs=1e-10), ngram
    words = sum(count for ngram, count in expected.items() if len(ngram) == 1 and ngram[0] not in ("<s>", "</s>"))
    assert tally.words == pytest.approx(words, abs=1e-9)


def test_waiting_events_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often that is done on the way."""
    graphs = [random_graph(np.random.default_rng(seed)) for seed in range(20)]
    whole = Tally(VOCAB, 3)
    monkeypatch.setattr("mdi.speech.expected_counts._WAITING", 5)
    pieces = Tally(VOCAB, 3)
    for tally in (whole, pieces):
        for graph in graphs:
            tally.add(graph, WORD_OF)
    assert to_dict(pieces.counts()) == pytest.approx(to_dict(whole.counts()), abs=1e-12)


def test_a_sure_lattice_counts_like_text() -> None:
    graph = from_paths("x", [(-3.0, [1, 2, 1])])
    tally = Tally(VOCAB, 3)
    tally.add(graph, WORD_OF)
    assert to_dict(tally.counts()) == pytest.approx(to_dict(count_text([["a", "b", "a"]], VOCAB, 3)))


def test_kaldi_lattices_agree_with_their_n_best_lists() -> None:
    """Posteriors summed over every path of a real lattice, as far as n-best reaches: nearly all of the mass."""
    symbols_scale = 0.1
    lattice = min(lattices("lats").values(), key=lambda lattice: lattice.n_arcs)
    graph = from_lattice(lattice, symbols_scale, 1.0, 0.0)
    paths = n_best(lattice, 3000, 1 / symbols_scale)
    weight = np.array([-(path.graph + symbols_scale * path.acoustic) for path in paths])
    share = np.exp(weight - np.logaddexp.reduce(weight))
    expected = np.zeros(graph.n_arcs)
    for path, value in zip(paths, share, strict=True):
        expected[path.arcs] += value
    found = word_posteriors(graph)
    covered = np.exp(np.logaddexp.reduce(weight)) / np.exp(-_total_cost(graph))
    assert covered > 0.9
    np.testing.assert_allclose(found, expected, atol=2 * (1 - covered) + 1e-9)


@pytest.mark.parametrize(("acoustic_scale", "lm_scale"), [("0.1", "1"), ("0.05", "0.7")])
def test_posteriors_and_counts_are_those_of_kaldi(acoustic_scale: str, lm_scale: str) -> None:
    """lattice-arc-post --acoustic-scale=A --lm-scale=L 'ark:gunzip -c lats.txt.gz|' - | gzip -9n > arc-post.A.L.gz: one
    arc per line, utterance, first frame, frames, posterior, word; not those below 1e-4 (its default)."""
    with gzip.open(LAT / f"arc-post.{acoustic_scale}.{lm_scale}.gz", "rt") as stream:
        rows = [line.split("\t") for line in stream]
    kaldi: dict[tuple[str, int, int, int], list[float]] = {}
    for utterance, first, length, posterior, word in rows:
        kaldi.setdefault((utterance, int(first), int(length), int(word)), []).append(float(posterior))
    ours: dict[tuple[str, int, int, int], list[float]] = {}
    for lattice in lattices("lats").values():
        graph = from_lattice(lattice, float(acoustic_scale), float(lm_scale), 0.0)
        length = lattice.arcs.stop - lattice.arcs.first
        time = np.zeros(graph.n_states, int)
        for arc in range(graph.n_arcs):
            time[graph.dest[arc]] = time[graph.source[arc]] + length[arc]
        posteriors = word_posteriors(graph)
        for arc in np.flatnonzero(posteriors > 1e-4).tolist():
            key = (lattice.utterance, int(time[graph.source[arc]]), int(length[arc]), int(graph.label[arc]))
            ours.setdefault(key, []).append(float(posteriors[arc]))
    assert len(rows) > 2000
    assert ours.keys() == kaldi.keys()
    for key, found in kaldi.items():
        assert sorted(ours[key]) == pytest.approx(sorted(found), rel=1e-5), key
    # how often a word was said: the posteriors of its arcs, but for those that Kaldi has left out
    counts = expected_counts(
        LAT / "lats.txt.gz", None, 1, words=WORDS, acoustic_scale=float(acoustic_scale), lm_scale=float(lm_scale)
    )
    names = {int(number): word for word, number in (line.split() for line in Path(WORDS).read_text().splitlines())}
    said: Counter[str] = Counter()
    for (*_, word), found in kaldi.items():
        said[names[word]] += math.fsum(found)
    del said["<eps>"]
    for word, number in said.items():
        assert counts.count[1][counts.vocab.id(word)] == pytest.approx(number, abs=0.02), word
    assert counts.stats.words == pytest.approx(sum(said.values()), abs=1)


def _total_cost(graph: WordGraph) -> float:
    return -float(backward(GraphArrays(graph.begin, graph.label, graph.dest, graph.weight, graph.final))[0])


def test_word_posteriors_sum_to_one_over_every_frame() -> None:
    """Every path is in exactly one arc at a time."""
    for lattice in list(lattices("lats").values())[:5]:
        graph = from_lattice(lattice, 1 / 12, 1.0, 0.0)
        length = np.zeros(graph.n_states, int)
        for arc in range(graph.n_arcs):
            length[graph.dest[arc]] = length[graph.source[arc]] + lattice.arcs.stop[arc] - lattice.arcs.first[arc]
        crossing = np.zeros(length.max() + 1)
        posteriors = word_posteriors(graph)
        for arc in range(graph.n_arcs):
            crossing[length[graph.source[arc]] : length[graph.dest[arc]]] += posteriors[arc]
        ends = min(length[s] for s in range(graph.n_states) if np.isfinite(graph.final[s]))
        np.testing.assert_allclose(crossing[:ends], 1.0, atol=1e-9)


def test_the_command_writes_what_adapt_reads(tmp_path: Path) -> None:
    out = str(tmp_path / "x.counts")
    assert main(["counts", "--words", WORDS, "--order", "3", str(LAT / "lats.txt.gz"), out]) == 0
    counts = expected_counts(LAT / "lats.txt.gz", None, 3, words=WORDS, kind="lattice")
    again = read_counts(out, counts.vocab, 3)
    assert to_dict(again) == pytest.approx({n: c for n, c in to_dict(counts).items() if c >= 5e-13}, abs=1e-12)
    n = len(table("refs.int"))
    assert counts.stats.sentences == again.count[1][counts.vocab.eos] == pytest.approx(n)
    best = sum(len(n_best(lattice, 1, 10)[0].words) for lattice in lattices("lats").values())
    assert counts.stats.words == pytest.approx(best, rel=0.05)


def test_n_best_lists(tmp_path: Path) -> None:
    path = tmp_path / "x.nbest"
    path.write_text(f"u1 {math.log(0.6)} a b\nu1 {math.log(0.2)} a\nu2 -7 c\nu2 -7\n")
    found = to_dict(expected_counts(path, None, 2))
    assert found == pytest.approx(
        {
            ("<s>",): 2,
            ("</s>",): 2,
            ("a",): 1,
            ("b",): 0.75,
            ("c",): 0.5,
            ("<s>", "a"): 1,
            ("a", "b"): 0.75,
            ("b", "</s>"): 0.75,
            ("a", "</s>"): 0.25,
            ("<s>", "c"): 0.5,
            ("c", "</s>"): 0.5,
            ("<s>", "</s>"): 0.5,
        }
    )


def test_confidences(tmp_path: Path) -> None:
    """All words of an n-gram have to be right; a long pause ends the sentence."""
    ctm = tmp_path / "x.ctm"
    ctm.write_text(";; note\nu 1 0.0 0.3 a 0.9\nu 1 0.3 0.3 b 0.5\nu 1 2.5 0.3 c 1.0\n")
    vosk = tmp_path / "x.json"
    first = {"result": [{"conf": 0.9, "word": "a"}, {"conf": 0.5, "word": "b"}], "text": "a b"}
    vosk.write_text(json.dumps(first, indent=1) + "\n" + json.dumps({"text": ""}) + json.dumps({"text": "c"}))
    expected = {
        ("<s>",): 2,
        ("</s>",): 2,
        ("a",): 0.9,
        ("b",): 0.5,
        ("c",): 1,
        ("<s>", "a"): 0.9,
        ("a", "b"): 0.45,
        ("b", "</s>"): 0.5,
        ("<s>", "c"): 1,
        ("c", "</s>"): 1,
    }
    assert to_dict(expected_counts(ctm, None, 2)) == pytest.approx(expected)
    assert to_dict(expected_counts(vosk, None, 2)) == pytest.approx(expected)


def test_vosk_alternatives(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    one = {"confidence": 200.0, "text": "a b"}
    path.write_text(json.dumps([{"alternatives": [one, {"confidence": 200.0 - math.log(3), "text": "a"}]}]))
    found = to_dict(expected_counts(path, None, 1))
    assert found == pytest.approx({("<s>",): 1, ("</s>",): 1, ("a",): 1, ("b",): 0.75})


def test_plain_hypotheses_are_counted_as_text(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a b\nb\n")
    (tmp_path / "y.nbest").write_text("u 0 b\n")
    both = expected_counts([tmp_path / "x.txt", tmp_path / "y.nbest"], None, 2)
    assert to_dict(both)[("<s>", "b")] == 2
    assert both.stats.sentences == 3


def test_words_outside_a_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "x.nbest"
    path.write_text("u 0 a zebra b\n")
    open_vocab = vocabulary(["<s>", "</s>", "<unk>", "a", "b"])
    assert to_dict(expected_counts(path, open_vocab, 2))[("a", "<unk>")] == 1
    dropped = to_dict(expected_counts(path, open_vocab, 2, oov="drop"))
    assert ("a", "b") not in dropped
    assert ("<unk>",) not in dropped
    assert dropped[("b", "</s>")] == 1
    with pytest.raises(MdiError, match="'zebra'"):
        expected_counts(path, open_vocab, 2, oov="error")


def test_adding_counts() -> None:
    a, b = (count_text([line], VOCAB, 2) for line in (["a", "b"], ["a", "c"]))
    found = to_dict(add_counts(a, b, 0.5))
    assert (found[("<s>", "a")], found[("a", "c")], found[("a", "b")]) == (1.5, 0.5, 1)


def test_taking_counts_away() -> None:
    a, b = (count_text([line], VOCAB, 2) for line in (["a", "b"], ["a", "c"]))
    both = add_counts(a, b)
    found = less(both, b)
    assert to_dict(found) == to_dict(a)
    assert (found.stats.sentences, found.stats.words) == (1, 2)
    assert to_dict(both)[("<s>", "a")] == 2  # what it was


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.nbest", "u\n", "x.nbest:1: 'u'; expected an utterance, its score"),
        ("x.nbest", "u a b\n", "x.nbest:1: 'a'; expected a score"),
        ("x.ctm", "u 1 0.0 a\n", "x.ctm:1: 'u 1 0.0 a'; expected utterance, channel"),
        ("x.ctm", "u 1 0.0 0.1 a 7\n", "x.ctm:1: a confidence of 7; expected 0 to 1"),
        ("x.json", '{"text": "a"}\n{"text": ', "x.json:2: not JSON"),
        ("x.json", '{"foo": "a"}', "result 1: .* expected 'result', 'alternatives' or 'text'"),
        ("x.json", '{"result": [{"conf": 1}]}', "result 1: KeyError 'word'"),
        ("x.ctm", "\n", "x.ctm: no words in it"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(MdiError, match=message):
        expected_counts(tmp_path / name)


def test_lattices_need_their_words() -> None:
    with pytest.raises(MdiError, match="give their words"):
        expected_counts(LAT / "lats.txt.gz", kind="lattice")


def test_formats_by_name(tmp_path: Path) -> None:
    names = {"lat.1.gz": "lattice", "a.ctm.gz": "ctm", "b.jsonl": "vosk", "c.txt": "text", "lat.1.txt": "lattice"}
    assert {name: guess_format(str(tmp_path / name)) for name in names} == names
    assert guess_format(str(tmp_path)) == "lattice"


def test_labels_are_given_once(tmp_path: Path) -> None:
    (tmp_path / "x.nbest").write_text("u 0 a b a\n")
    labels = Labels()
    (graph,) = read_graphs(str(tmp_path / "x.nbest"), "nbest", labels, 1.0)
    assert graph.label.tolist() == [1, 2, 1]
    assert labels.of == {"a": 1, "b": 2}


def test_adapting_to_lattices_is_adapting_to_their_counts(tmp_path: Path) -> None:
    """And text beside them adds to the counts; a weight scales what the recogniser believes."""
    lats, background = str(LAT / "lats.txt.gz"), str(LAT.parent / "kaldi" / "bg.kn.arpa.gz")
    counts, text = str(tmp_path / "x.counts"), tmp_path / "more.txt"
    text.write_text("the government has not said so\n" * 3)
    assert main(["counts", "--words", WORDS, lats, counts]) == 0
    out = {name: tmp_path / f"{name}.arpa" for name in ("lattices", "counts", "text", "light", "light_counts")}
    common = ["--min-counts", "0.5", "--sigma2", "1", "--tolerance", "1e-6"]
    believed = ["--lattices", lats, "--words", WORDS]
    assert main(["adapt", *common, *believed, background, str(out["lattices"])]) == 0
    assert main(["adapt", *common, "--counts", counts, background, str(out["counts"])]) == 0
    assert main(["adapt", *common, *believed, background, str(text), str(out["text"])]) == 0
    assert main(["adapt", *common, *believed, "--count-weight", "0.5", background, str(out["light"])]) == 0
    light = ["--counts", counts, "--count-weight", "0.5"]
    assert main(["adapt", *common, *light, background, str(out["light_counts"])]) == 0
    kl = {name: json.loads(Path(f"{path}.json").read_text())["kl_to_background"] for name, path in out.items()}
    size = {name: json.loads(Path(f"{path}.json").read_text())["constraints"] for name, path in out.items()}
    assert kl["lattices"] == pytest.approx(kl["counts"], abs=1e-6)
    assert kl["light"] == pytest.approx(kl["light_counts"], abs=1e-6)
    assert size["light"] < size["lattices"] < size["text"]


def test_adapt_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["adapt", "bg.arpa", str(tmp_path / "out")]) == 2
    assert main(["adapt", "--counts", "a", "--lattices", "b", "bg.arpa", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("expected BACKGROUND TEXT OUT, or --counts COUNTS or --lattices IN") == 2
