"""The head of final.mdl: topologies of both forms, triples and tuples, and what is refused."""

import struct
from pathlib import Path

import pytest
from toy_graph import Toy

from mdi.errors import MdiError
from mdi.speech.vosk.transition_model import read_transition_model


def numbers(*values: int) -> bytes:
    return b"".join(b"\4" + struct.pack("<i", value) for value in values)


def vector(*values: int) -> bytes:
    return b"\4" + struct.pack(f"<{len(values) + 1}i", len(values), *values)


def probability(p: float) -> bytes:
    return b"\4" + struct.pack("<f", p)


def written(tmp_path: Path, data: bytes) -> str:
    (tmp_path / "final.mdl").write_bytes(data)
    return str(tmp_path / "final.mdl")


# phones 1 and 3; a topology of three states, of which the last has no transitions: loop and on, as in HMMs
HMM = numbers(3, 0, 2, 0) + probability(0.7) + numbers(1) + probability(0.3)
HMM += numbers(1, 2, 1) + probability(0.6) + numbers(2) + probability(0.4) + numbers(-1, 0)
TRIPLES = b"\0B<TransitionModel> <Topology> " + vector(1, 3) + vector(-1, 0, -1, 0) + numbers(1) + HMM
TRIPLES += b"</Topology> <Triples> " + numbers(3, 1, 0, 5, 1, 1, 6, 3, 0, 7) + b"</Triples> <LogProbs> "


def test_hmms_with_triples(tmp_path):
    model = read_transition_model(written(tmp_path, TRIPLES))
    # transition-ids 1, 2 of (1, 0), 3, 4 of (1, 1), 5, 6 of (3, 0): the first of each is a loop
    assert model.n == 6
    assert model.phone.tolist() == [0, 1, 1, 1, 1, 3, 3]
    assert model.is_loop.tolist() == [False, True, False, True, False, True, False]
    assert model.loop.tolist() == [0, 0, 1, 0, 3, 0, 5]
    assert model.pdf.tolist() == [0, 5, 5, 6, 6, 7, 7]
    assert model.emitting.tolist() == [0, 2, 0, 2]


def test_chain_models_with_tuples(tmp_path):
    toy = Toy()
    model = read_transition_model(written(tmp_path, toy.transition_model()))
    assert model.n == toy.n_tids
    assert model.phone[toy.tid(3, 7)] == 7
    assert model.loop[toy.tid(3, 7)] == toy.tid(3, 7) - 1
    assert model.pdf[toy.tid(3, 7)] + 1 == model.pdf[toy.tid(3, 7) - 1]  # forward and self-loop pdfs differ
    assert set(model.emitting[1:].tolist()) == {1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"<TransitionModel> ", "not in Kaldi's binary form"),
        (lambda data: data[:60], "damaged"),
        (lambda data: data.replace(b"<Triples>", b"<Tripels>"), "expected <Triples> or <Tuples>"),
        (lambda data: data.replace(numbers(3, 1, 0, 5), numbers(3, 1, 9, 5)), "phone 1 has no state 9"),
        (lambda data: data.replace(numbers(3, 1, 0, 5), numbers(3, 2, 0, 5)), "a phone that is not there"),
        (lambda data: data.replace(numbers(3, 1, 0, 5), numbers(2**30, 1, 0, 5)), "numbers announced"),
        (lambda data: data.replace(vector(1, 3), vector(1, 30)), "phones that have no topology"),
        (lambda data: data.replace(numbers(3, 0, 2, 0), numbers(3, 0, -2, 0)), "announced"),
    ],
)
def test_damaged_ones_are_refused_with_a_line(change, message, tmp_path):
    with pytest.raises(MdiError, match=message) as caught:
        read_transition_model(written(tmp_path, change(TRIPLES)))
    assert "\n" not in str(caught.value)
