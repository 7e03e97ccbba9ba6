"""OpenFst's olabel_lookahead FSTs: the same bytes, sets of labels by their definition, and what is refused."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_graph import Toy, arcs_of, lookahead_bytes, reachable

from mdi.errors import MdiError
from mdi.fst.lookahead import label_sets, parse_lookahead, read_lookahead, to_bytes, write_lookahead
from mdi.fst.openfst import Arcs

REAL = os.environ.get("MDI_VOSK_MODEL", "")


def arcs_from(arcs: list[tuple[int, int, int, float, int]], final: dict[int, float], n: int, start: int = 0) -> Arcs:
    arcs = sorted(arcs)
    source, ilabel, olabel, weight, dest = (
        (np.array(column) for column in zip(*arcs, strict=True)) if arcs else [np.zeros(0)] * 5
    )
    begin = np.concatenate([[0], np.cumsum(np.bincount(source.astype(int), minlength=n))])
    ends = np.array([[final.get(s, np.inf)] for s in range(n)], np.float32)
    return Arcs(
        start,
        begin,
        ilabel.astype(np.int32),
        olabel.astype(np.int32),
        weight.astype(np.float32)[:, None],
        dest.astype(np.int32),
        ends,
    )


def as_sets(found) -> list[set[int]]:
    pairs = found.interval.tolist()
    return [
        {label for first, end in pairs[a:b] for label in range(first, end)}
        for a, b in zip(found.begin[:-1].tolist(), found.begin[1:].tolist(), strict=True)
    ]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_sets_of_labels_are_those_of_their_definition(data):
    """Cycles without output, states that nothing leaves, no final states: any graph."""
    n = data.draw(st.integers(1, 12))
    state, label = st.integers(0, n - 1), st.one_of(st.just(0), st.integers(1, 9))
    arcs = data.draw(st.lists(st.tuples(state, st.integers(0, 3), label, st.just(0.5), state), max_size=40))
    final = dict.fromkeys(data.draw(st.sets(state)), 1.0)
    found = label_sets(arcs_from(arcs, final, n), 10)
    assert as_sets(found) == reachable(arcs, final, n, 10)
    for a, b in zip(found.begin[:-1], found.begin[1:], strict=True):  # apart from each other, ascending
        assert (np.diff(found.interval[a:b].ravel()) > 0).all()
    assert found.size().tolist() == [len(labels) for labels in as_sets(found)]


@pytest.mark.parametrize("toy", [Toy(), Toy(epsilons=True, pushed=True, positions=False)], ids=["newer", "older"])
def test_a_file_is_read_and_written_back_byte_for_byte(toy, tmp_path):
    data = toy.graph()
    fst = parse_lookahead(data, "HCLr.fst")
    assert to_bytes(fst) == data
    arcs, final, start = toy.arcs()
    assert fst.arcs.start == start
    assert sorted(arcs_of(fst.arcs)[0]) == sorted((s, i, o, float(np.float32(w)), d) for s, i, o, w, d in arcs)
    assert as_sets(fst.sets) == reachable(arcs, final, fst.arcs.n_states, len(toy.words))
    write_lookahead(fst, str(tmp_path / "HCLr.fst"))
    assert (tmp_path / "HCLr.fst").read_bytes() == data
    again = fst.with_arcs(fst.arcs)
    assert np.array_equal(again.sets.interval, fst.sets.interval)
    assert again.inner.properties & 0xFFFF == fst.inner.properties & 0xFFFF
    assert not again.inner.properties & 0x40000  # not said to be deterministic any more


def test_what_a_file_keeps_of_a_relabelling_stays():
    arcs = [(0, 1, 2, 0.5, 1), (0, 2, 0, 0.5, 1)]
    data = lookahead_bytes(arcs, {1: 0.0}, 0, 5)
    at = data.index(bytes([1, 0, 1, 0, 0]) + struct.pack("<iq", 5, 2))
    kept = data[: at + 4] + b"\1" + struct.pack("<q4i", 2, 1, 7, 2, 9) + data[at + 5 :]
    fst = parse_lookahead(kept, "HCLr.fst")
    assert fst.relabelling.tolist() == [[1, 7], [2, 9]]
    assert to_bytes(fst) == kept


def test_aligned_files_stay_aligned():
    data = lookahead_bytes([(0, 1, 2, 0.5, 1)], {1: 0.0}, 0, 5)
    inner = data.index(b"const") + 5 + 12
    head, states, rest = data[: inner + 40], data[inner + 40 : inner + 80], data[inner + 80 :]
    head = head[: inner + 4] + struct.pack("<i", 4) + head[inner + 8 :]
    aligned = head + bytes(-len(head) % 16) + states
    aligned += bytes(-len(aligned) % 16) + rest
    assert to_bytes(parse_lookahead(aligned, "HCLr.fst")) == aligned


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "cut off or damaged"),
        (lambda data: data + b"\0\0\0\0", "bytes after its end"),
        (lambda data: data[: len(data) // 2], "cut off or damaged"),
        (lambda data: data.replace(b"olabel_lookahead", b"ilabel_lookahead"), "an FST of type ilabel_lookahead"),
        (lambda data: data.replace(struct.pack("<i", 446681434), b"\0\0\0\0"), "nothing is added on"),
        (lambda data: data[:-8] + struct.pack("<i", 1) + data[-4:], "are no sets"),
        (lambda data: data[:-4] + struct.pack("<i", 99), "are no sets"),
        (lambda data: b"\0" + data[1:], "not an OpenFst file"),
    ],
)
def test_damaged_files_are_refused_with_a_line(change, message):
    data = lookahead_bytes([(0, 1, 2, 0.5, 1), (1, 1, 0, 0.5, 0)], {1: 0.0}, 0, 5)
    with pytest.raises(MdiError, match=message) as caught:
        parse_lookahead(change(data), "HCLr.fst")
    assert str(caught.value).startswith("HCLr.fst: ")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not REAL, reason="MDI_VOSK_MODEL names no directory of a Vosk model")
def test_vosk_own_file():
    path = Path(REAL) / "graph" / "HCLr.fst"
    fst = read_lookahead(str(path))
    assert to_bytes(fst) == path.read_bytes()
    sets = label_sets(fst.arcs, fst.final_label)
    assert np.array_equal(sets.begin, fst.sets.begin)
    assert np.array_equal(sets.interval, fst.sets.interval)
