"""Minimum Bayes risk: Kaldi's answers, expected errors by enumeration, and the recursion by its definition."""

import csv
import gzip
import math
import shutil
from dataclasses import replace

import kaldialign
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_data import KALDI, LAT, WORDS, lattice_of, lattices

from mdi.cli import main
from mdi.fst.symbols import read_symbols
from mdi.speech.lattice import Lattice, best_path, bundle
from mdi.speech.lattice_files import read_lattices
from mdi.speech.mbr import minimum_risk

SEQUENCES = st.lists(st.lists(st.integers(1, 4), max_size=5), min_size=1, max_size=6, unique_by=tuple)


def list_with_costs(sequences: list[list[int]], costs: list[float]) -> Lattice:
    lattice = bundle("u", sequences, np.arange(len(sequences), dtype=float))
    ends = np.isfinite(lattice.finals.graph)
    graph = lattice.finals.graph.copy()
    graph[ends] = np.array(costs)[lattice.finals.acoustic[ends].astype(int)]
    return replace(lattice, finals=lattice.finals._replace(graph=graph, acoustic=np.where(ends, 0.0, np.inf)))


def expected_errors(words: list[int], sequences: list[list[int]], costs: list[float]) -> float:
    share = np.exp(-np.array(costs))
    errors = [kaldialign.edit_distance(one, words)["total"] for one in sequences]
    return float(share @ errors / share.sum())


@settings(max_examples=200, deadline=None)
@given(sequences=SEQUENCES, data=st.data())
def test_risk_of_a_list_is_the_expected_number_of_errors(sequences, data):
    costs = data.draw(st.lists(st.floats(0, 6), min_size=len(sequences), max_size=len(sequences)))
    lattice = list_with_costs(sequences, costs)
    found = minimum_risk(lattice, 1.0)
    assert found.risk == pytest.approx(expected_errors(found.words.tolist(), sequences, costs), abs=1e-3)
    best = best_path(lattice, 1.0).words.tolist()
    assert found.risk <= expected_errors(best, sequences, costs) + 1e-3
    assert len(found.confidences) == len(found.words)


def recursion(lattice: Lattice, words: list[int], weight: float, penalty: float) -> float:
    """Expected errors as figure 4 of the paper has them, over dictionaries, with an end beyond all ends."""
    reference = [0] + [r for word in words for r in (word, 0)]
    label = lattice.arcs.label.tolist()
    costs = lattice.arcs.graph + lattice.arcs.acoustic / weight + penalty * (lattice.arcs.label != 0)
    arcs = list(zip(lattice.source.tolist(), lattice.dest.tolist(), label, costs.tolist(), strict=True))
    end = lattice.n_states
    for state in range(end):
        if math.isfinite(lattice.finals.graph[state]):
            cost = lattice.finals.graph[state] + lattice.finals.acoustic[state] / weight
            arcs.append((state, end, 0, float(cost)))
    mass = {0: 1.0}
    alpha = {0: list(np.cumsum([0, *(r != 0 for r in reference)]).astype(float))}
    for n in range(1, end + 1):
        here = [arc for arc in arcs if arc[1] == n]
        mass[n] = sum(mass[s] * math.exp(-cost) for s, _, _, cost in here)
        alpha[n] = [0.0] * (len(reference) + 1)
        for s, _, w, cost in here:
            through = [alpha[s][0] + 1.00001 * (w != 0)]
            for q, r in enumerate(reference, 1):
                through.append(
                    min(alpha[s][q - 1] + (w != r), alpha[s][q] + 1.00001 * (w != 0), through[-1] + (r != 0))
                )
            for q, value in enumerate(through):
                alpha[n][q] += mass[s] * math.exp(-cost) / mass[n] * value
    return alpha[end][-1]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_risk_of_a_lattice_is_that_of_the_recursion(data):
    n = data.draw(st.integers(2, 6))
    arc = st.tuples(st.integers(0, n - 2), st.integers(1, 3), st.integers(0, 3), st.floats(0, 3), st.floats(0, 30))
    arcs = sorted(data.draw(st.lists(arc, min_size=1, max_size=10)) + [(s, 1, 1, 1.0, 5.0) for s in range(n - 1)])
    source = [s for s, *_ in arcs]
    dest = [min(s + step, n - 1) for s, step, *_ in arcs]
    word, graph, acoustic = ([arc[i] for arc in arcs] for i in (2, 3, 4))
    finals = {n - 1: data.draw(st.sampled_from([0.0, 1.5]))}
    if data.draw(st.booleans()):
        finals[data.draw(st.integers(0, n - 1))] = 0.5
    lattice = lattice_of(source, dest, word, graph, acoustic, [1] * len(arcs), finals)
    found = minimum_risk(lattice, 10.0, 0.3)
    assert found.risk == pytest.approx(recursion(lattice, found.words.tolist(), 10.0, 0.3), abs=1e-3)
    best = best_path(lattice, 10.0, 0.3).words.tolist()
    assert found.risk <= recursion(lattice, best, 10.0, 0.3) + 1e-3


def test_a_word_that_most_paths_have_wins_over_the_best_path():
    # the best path has 3 at its second place, two others together more often 4
    sequences, costs = [[1, 3], [1, 4], [2, 4]], [0.0, 0.3, 0.4]
    found = minimum_risk(list_with_costs(sequences, costs), 1.0)
    assert found.words.tolist() == [1, 4]
    share = np.exp(-np.array(costs)) / np.exp(-np.array(costs)).sum()
    assert found.confidences == pytest.approx([share[0] + share[1], share[1] + share[2]], abs=1e-5)


def test_kaldis_lattices_have_less_risk_than_their_best_paths():
    for lattice in list(lattices("lats").values())[:20]:
        found, best = minimum_risk(lattice, 10.0), best_path(lattice, 10.0).words.tolist()
        assert found.risk <= recursion(lattice, best, 10.0, 0.0) + 1e-4
        assert ((found.confidences >= 0) & (found.confidences <= 1 + 1e-5)).all()


def test_both_verbs_give_these_words(tmp_path):
    archive, old = str(LAT / "lats.txt.gz"), str(KALDI / "bg.kn.arpa.gz")
    options = ["--words", WORDS, "--old-lm", old, "--new-lm", old, "--mbr", str(tmp_path / "text"), "--lmwt", "8"]
    (tmp_path / "in").mkdir()
    shutil.copy(archive, tmp_path / "in" / "lat.1.gz")
    assert main(["rescore", *options, "--word-ins-penalty", "0.5", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    points = ["--min-lmwt", "8", "--max-lmwt", "8", "--word-ins-penalty", "0.5"]
    assert (
        main(["score", "--words", WORDS, "--mbr", "true", *points, str(LAT / "refs.txt"), str(tmp_path / "out")]) == 0
    )
    scored = (tmp_path / "out" / "scoring_kaldi" / "penalty_0.5" / "8.txt").read_text()
    assert scored == (tmp_path / "text").read_text()
    symbols = read_symbols(WORDS)
    for line in scored.splitlines():
        utterance, *words = line.split()
        (lattice,) = (one for one in read_lattices(str(tmp_path / "out" / "lat.1.gz")) if one.utterance == utterance)
        assert symbols.spell(minimum_risk(lattice, 8.0, 0.5).words) == words


def kaldis() -> list[dict[str, str]]:
    """What lattice-mbr-decode --acoustic-scale=1/weight says: risk and words."""
    with gzip.open(LAT / "mbr.tsv.gz", "rt") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def test_words_and_risk_are_kaldis():
    """Two words of the same may be aligned with either of two; which one is found is a matter of rounding, and now and
    then the words that follow from it differ. Ours have no more risk."""
    rows, same = kaldis(), 0
    assert len(rows) == 180
    for row in rows:
        found = minimum_risk(lattices(row["lats"])[row["utterance"]], float(row["weight"]))
        assert found.risk <= float(row["risk"]) + 1e-4
        if found.words.tolist() == [int(w) for w in row["words"].split()]:
            assert found.risk == pytest.approx(float(row["risk"]), rel=1e-5, abs=1e-5)
            same += 1
    assert same >= 178
