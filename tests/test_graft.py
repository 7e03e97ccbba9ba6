"""Words read out of a recogniser's graph and added to it: on small graphs against graphs that are made anew of the
larger lexicon, by pywrapfst, and on a real one, where MDI_VOSK_MODEL names its folder, on sampled paths."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from toy_graph import FULL, LEXICON, Toy, arcs_of, different_sentences, reachable

from mdi.errors import MdiError
from mdi.fst.lookahead import to_bytes
from mdi.speech.vosk.folder import VoskFolder, find_vosk_folder
from mdi.speech.vosk.graft import add_words, by_sound
from mdi.speech.vosk.recogniser_graph import RecogniserGraph, read_graph

REAL = os.environ.get("MDI_VOSK_MODEL", "")
KINDS = {
    "newer": {},
    "older": {"epsilons": True},
    "pushed": {"pushed": True},
    "no positions": {"positions": False},
    "all": {"epsilons": True, "pushed": True, "positions": False},
}
# one like an old word and more, a new homophone and one of an old word, one phone, and beginnings of others
NEW = {
    "abcab": ["a b c a b"],
    "cc": ["c", "c c"],
    "baa": ["b a"],
    "dacca": ["d a c c a", "d a c a"],
    "dac2": ["d a c c a"],
    "ddddc": ["d d d d c"],
    "dd": ["d d d d"],
}


def ways(lexicon: dict) -> dict[str, list[tuple[str, ...]]]:
    return {word: [tuple(way.split()) for way in found] for word, found in lexicon.items()}


def graph_of(toy: Toy, folder: Path, **options) -> RecogniserGraph:
    return read_graph(find_vosk_folder(str(toy.write(folder, **options))))


@pytest.mark.parametrize("kind", KINDS)
def test_the_lexicon_is_read_out(kind, tmp_path):
    graph = graph_of(Toy(**KINDS[kind]), tmp_path / "model")
    found = graph.lexicon()
    assert {word: set(said) for word, said in found.items()} == {w: set(said) for w, said in ways(LEXICON).items()}
    assert graph.costs == pytest.approx((np.log(2), np.log(2)), abs=1e-5)
    assert graph.loop_cost == pytest.approx(np.log(2))


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_is_that_of_the_larger_lexicon(kind, tmp_path):
    """Which sequences of transition-ids say a sentence, and what they cost."""
    toy, whole = Toy(FULL, **KINDS[kind]), Toy(FULL, new=NEW, **KINDS[kind])
    graph = graph_of(toy, tmp_path / "model")
    made = add_words(graph, ways(NEW), toy.first_new)
    assert made.labels == {word: whole.labels[word] for word in NEW}
    assert made.guessed == {}
    rng = random.Random(1)
    new, old = list(made.labels.values()), [toy.labels[word] for word in LEXICON]
    sentences = [[w] for w in new + old] + [[v, w] for v in new for w in new]
    sentences += [[rng.choice(new + old) for _ in range(3)] for _ in range(40)]
    grafted = arcs_of(made.fst.arcs)
    assert different_sentences(grafted, whole.arcs(), toy.n_tids, sentences) == []
    # the oracle sees differences
    assert different_sentences(grafted, toy.arcs(), toy.n_tids, [[new[0]], [old[0]]]) == [[new[0]]]
    found = made.fst.sets
    expected = reachable(*grafted[:2], made.fst.arcs.n_states, made.fst.final_label)
    assert [found.interval[a:b].tolist() for a, b in zip(found.begin[:-1], found.begin[1:], strict=True)] == [
        _intervals(labels) for labels in expected
    ]


def _intervals(labels: set[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for label in sorted(labels):
        if found and found[-1][1] == label:
            found[-1][1] += 1
        else:
            found.append([label, label + 1])
    return found


def test_no_words_give_the_same_bytes(tmp_path):
    toy = Toy()
    graph = graph_of(toy, tmp_path / "model")
    assert to_bytes(add_words(graph, {}, toy.first_new).fst) == (tmp_path / "model/graph/HCLr.fst").read_bytes()


def test_old_words_stay_as_they_were_and_new_ones_are_read_out(tmp_path):
    toy = Toy(FULL)
    folder = tmp_path / "model"
    graph = graph_of(toy, folder)
    made = add_words(graph, by_sound(ways(NEW)), toy.first_new)
    n = graph.fst.arcs.n_states
    assert np.array_equal(made.fst.arcs.final[:n], graph.fst.arcs.final)
    assert set(arcs_of(graph.fst.arcs)[0]) < set(arcs_of(made.fst.arcs)[0])
    # what was written is a graph again, with more words; a second grafting works as the first
    (folder / "graph" / "HCLr.fst").write_bytes(to_bytes(made.fst))
    table = {word: i for i, word in {**graph.words, **{i: w for w, i in made.labels.items()}}.items()}
    (folder / "graph" / "words.txt").write_text("".join(f"{w} {i}\n" for w, i in table.items()))
    again = read_graph(VoskFolder(folder))
    assert {w: set(s) for w, s in again.lexicon().items()} == {w: set(s) for w, s in ways(FULL | NEW).items()}
    twice = add_words(again, ways({"bdbdb": ["b d b d b"]}), toy.first_new + len(NEW))
    whole = Toy(FULL, new={**{word: ["a"] for word in made.labels}, "bdbdb": ["b d b d b"]})
    label = whole.labels["bdbdb"]
    assert (
        different_sentences(arcs_of(twice.fst.arcs), whole.arcs(), toy.n_tids, [[label], [1, label], [label, 1]]) == []
    )


def test_pairs_that_the_graph_lacks_are_guessed_and_counted(tmp_path):
    toy = Toy()
    graph = graph_of(toy, tmp_path / "model")
    made = add_words(graph, ways({"bcb": ["b c b", "b b b b"], "cbbb": ["c b b b"]}), toy.first_new)
    assert made.guessed  # nothing has b between two others
    label = made.labels["cbbb"]
    assert different_sentences(arcs_of(made.fst.arcs), toy.arcs(), toy.n_tids, [[label]]) == [[label]]
    phones = graph.transitions.phone
    for (left, phone), n in made.guessed.items():
        assert n > 0
        assert left == 0 or graph.pair[left, phone] == 0 or phone == 0
    assert (phones[made.fst.arcs.ilabel[made.fst.arcs.ilabel <= toy.n_tids]] >= 0).all()


def test_labels_that_are_taken_are_refused(tmp_path):
    toy = Toy()
    graph = graph_of(toy, tmp_path / "model")
    with pytest.raises(MdiError, match="which is taken"):
        add_words(graph, {"x": [("a", "b")]}, toy.first_new - 3)


def test_phones_without_a_table_have_names_that_stay(tmp_path):
    graph = graph_of(Toy(), tmp_path / "model", phones=False)
    assert graph.phones.names == ["p1", "p2", "p3", "p4", "p5"]
    assert graph.lexicon()["abc"] == [("p2", "p3", "p4")]
    for table in ("<eps> 0\na_B 2\n", "a b c\n", "\0"):  # that of another model, or none
        (tmp_path / "model/graph/phones.txt").write_text(table)
        assert read_graph(VoskFolder(tmp_path / "model")).phones.names == graph.phones.names


def _with(folder: Path, name: str, change) -> None:
    path = folder / name
    path.write_bytes(change(path.read_bytes()))


def test_models_of_another_kind_are_refused_with_what_they_have(tmp_path):
    class Wider(Toy):
        """Not the phone before decides, but its number among those that were there before: no biphones."""

        calls = 0

        def tid(self, left: int, phone: int) -> int:
            Wider.calls += 1
            return 2 * ((phone - 1) * self.contexts + Wider.calls % self.contexts) + 2

    with pytest.raises(MdiError, match="transition-ids; expected one: no more context"):
        graph_of(Wider(), tmp_path / "wider")
    toy = Toy()
    folder = toy.write(tmp_path / "model")
    states = b"\4\2\0\0\0\4\0\0\0\0\4\1\0\0\0"  # of the topology: two states, classes 0 and 1
    assert states in toy.transition_model()
    three = toy.transition_model().replace(states, b"\4\3\0\0\0" + states[5:], 1)
    last = b"\4\xff\xff\xff\xff\4\xff\xff\xff\xff\4\0\0\0\0</Topology>"
    three = three.replace(last, b"\4\1\0\0\0\4\1\0\0\0\4\1\0\0\0\4\2\0\0\0\4\0\0\0?" + last)
    (folder / "am/final.mdl").write_bytes(three)
    with pytest.raises(MdiError, match=r"phones have 2 states; expected one for each"):
        read_graph(VoskFolder(folder))
    (folder / "am/final.mdl").write_bytes(toy.transition_model())
    (folder / "graph/disambig_tid.int").write_text(f"1\n{'9' * 5000}\n")  # more digits than Python reads
    with pytest.raises(MdiError, match="expected files of one model"):
        read_graph(VoskFolder(folder))
    (folder / "graph/HCLr.fst").rename(folder / "graph/HCLG.fst")
    with pytest.raises(MdiError, match="a static graph"):
        read_graph(VoskFolder(folder))


@pytest.mark.skipif(not REAL, reason="MDI_VOSK_MODEL names no directory of a Vosk model")
def test_a_real_graph_with_more_words():
    """Every old arc is there, new words can be said from everywhere, on sampled paths with the costs of old ones."""
    graph = read_graph(VoskFolder(Path(REAL)))
    lexicon = graph.lexicon()
    assert len(lexicon) > 10_000
    rng = random.Random(2)
    known = [word for word in rng.sample(sorted(lexicon), 400) if len(lexicon[word][0]) > 1]
    new = {f"{word}-again": lexicon[word] for word in known}  # so that costs and transition-ids are known
    made = add_words(graph, by_sound(new), max(graph.words) + 1)
    assert made.guessed == {}
    for _ in range(300):
        words = [rng.choice(known) for _ in range(3)]
        ids, cost = _path(graph, graph.fst.arcs, [graph_label(graph, w) for w in words], rng)
        label = [made.labels[f"{w}-again"] if rng.random() < 0.7 else graph_label(graph, w) for w in words]
        assert _cheapest(graph, made.fst.arcs, ids, label) == pytest.approx(cost, abs=1e-3)


def graph_label(graph: RecogniserGraph, word: str) -> int:
    return next(i for i, w in graph.words.items() if w == word)


def _steps(graph, arcs, state):
    for a in range(arcs.begin[state], arcs.begin[state + 1]):
        i = int(arcs.ilabel[a])
        yield (i if i <= graph.transitions.n else 0), int(arcs.olabel[a]), float(arcs.weight[a, 0]), int(arcs.dest[a])


def _path(graph, arcs, labels: list[int], rng) -> tuple[list[int], float]:
    """Some transition-ids that say these words, without loops and silence, and their least cost."""
    ids: list[int] = []
    for label in labels:
        way = int(rng.choice(np.flatnonzero(graph.said.word == label).tolist()))
        phones = graph.said.phone[graph.said.begin[way] : graph.said.begin[way + 1]]
        for phone in phones.tolist():
            left = graph.transitions.phone[ids[-1]] if ids else 0
            ids.append(int(graph.pair[left, phone]))
    return ids, _cheapest(graph, arcs, ids, labels)


def _cheapest(graph, arcs, ids: list[int], labels: list[int]) -> float:
    """Of all paths that read these transition-ids and say these labels; infinity without any."""
    best = {(graph.fst.arcs.start, 0): 0.0}

    def closed(front):
        waiting = list(front)
        while waiting:
            state, said = waiting.pop()
            for i, o, w, d in _steps(graph, arcs, state):
                if i == 0 and d != state and (not o or (said < len(labels) and labels[said] == o)):
                    key, cost = (d, said + bool(o)), front[state, said] + w
                    if cost < front.get(key, np.inf) - 1e-9:
                        front[key] = cost
                        waiting.append(key)
        return front

    best = closed(best)
    for wanted in ids:
        after: dict = {}
        for (state, said), cost in best.items():
            for i, o, w, d in _steps(graph, arcs, state):
                if i == wanted and (not o or (said < len(labels) and labels[said] == o)):
                    key = (d, said + bool(o))
                    after[key] = min(after.get(key, np.inf), cost + w)
        best = closed(after)
    ends = [cost + arcs.final[state, 0] for (state, said), cost in best.items() if said == len(labels)]
    return float(min(ends, default=np.inf))
