"""The transition model at the head of Kaldi's final.mdl: what phone each transition-id belongs to, and what it does.

Binary: "\\0B", then tokens that end in a blank, and numbers: a byte with their size, 4, and their 4 bytes.

    <TransitionModel> <Topology>    phones, and for each the number of its topology: size, int32 length, numbers
    topologies                      how many; -1 before that where forward and self-loop pdf classes differ (chain
                                    models). Of each the number of states, of each state its class or both classes, and
                                    transitions: to which state, with what probability
    </Topology> <Triples>           how many; phone, state, pdf of each, or
    <Tuples>                        phone, state, forward pdf, self-loop pdf
    </Triples> <LogProbs>           ... which are not read

Transition-ids count from 1: the transitions of each triple's state, in order.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from mdi.errors import MdiError, OtherKindError
from mdi.files import read_chunks
from mdi.fst.kaldi_binary import KaldiReader
from mdi.lm.trie import Array

# No language has more phones, with their positions, tones and accents.
_MOST_PHONES = 5000
# The head ends long before this; the acoustic model after it is not read.
_HEAD = 1 << 24


@dataclass(frozen=True)
class TransitionModel:
    """By transition-id; 0 is none."""

    phone: Array  # int32
    is_loop: Array  # bool: it stays in its state
    loop: Array  # int32: of one that goes on, the one that stays in the same state; 0 where there is none
    pdf: Array  # int32
    emitting: Array  # int32, by phone: states that speak; 0 for a number that is no phone

    @property
    def n(self) -> int:
        return len(self.phone) - 1


def read_transition_model(path: str) -> TransitionModel:
    data = b"".join(islice(read_chunks(path, _HEAD), 2))  # the first has a few bytes
    if data[:2] != b"\0B":
        raise OtherKindError(
            f"{path}: not in Kaldi's binary form; expected an acoustic model, final.mdl. If it is text, "
            f"nnet3-am-copy writes it in binary form"
        )
    try:
        return _parse(KaldiReader(data))
    except ValueError as error:
        raise MdiError(
            f"{path}: damaged, or no model with a transition model at its head ({error}); expected Kaldi's "
            f"final.mdl. Unpack the model again"
        ) from error


def _parse(head: KaldiReader) -> TransitionModel:
    head.tokens("<TransitionModel>", "<Topology>")
    phones, topology_of = head.vector(), head.vector()
    n = head.number()
    two_classes = n == -1
    if two_classes:
        n = head.number()
    topologies = [_topology(head, two_classes) for _ in _counted(n, head)]
    head.token("</Topology>")
    kind = head.token("<Triples>", "<Tuples>")
    columns = 4 if kind == "<Tuples>" else 3
    rows = head.numbers(columns * head.number()).reshape(-1, columns)
    head.tokens(kind.replace("<", "</"), "<LogProbs>")
    if len(topology_of) > _MOST_PHONES:
        raise ValueError(f"{len(topology_of):,} phones announced")
    if not len(phones) or phones.min() < 1 or phones.max() >= len(topology_of):
        raise ValueError("phones that have no topology")
    if not np.isin(rows[:, 0], phones).all():
        raise ValueError("a state of a phone that is not there")
    emitting = np.zeros(len(topology_of), np.int32)
    for phone in phones.tolist():
        if not 0 <= topology_of[phone] < len(topologies):
            raise ValueError(f"phone {phone} has no topology")
        emitting[phone] = sum(bool(leads) for leads in topologies[topology_of[phone]])
    found: list[tuple[int, bool, int]] = [(0, False, 0)]  # phone, whether it is a loop, pdf
    loops = [0]
    for phone, state, forward, *looping in rows.tolist():
        states = topologies[topology_of[phone]]
        if not 0 <= state < len(states):
            raise ValueError(f"phone {phone} has no state {state}")
        here = [to == state for to in states[state]]
        loop = len(found) + here.index(True) if True in here else 0
        found += [(phone, stays, (looping or [forward])[0] if stays else forward) for stays in here]
        loops += [0 if stays else loop for stays in here]
    phone, is_loop, pdf = (np.array(column) for column in zip(*found, strict=True))
    return TransitionModel(
        phone.astype(np.int32), is_loop.astype(bool), np.array(loops, np.int32), pdf.astype(np.int32), emitting
    )


def _topology(head: KaldiReader, two_classes: bool) -> list[list[int]]:
    """Of each state, where its transitions lead."""
    states = []
    for _ in _counted(head.number(), head):
        head.numbers(2 if two_classes else 1)
        n = head.number()
        states.append(head.numbers(2 * n)[::2].tolist())  # a state and a probability, which has 4 bytes too
    return states


def _counted(n: int, head: KaldiReader) -> range:
    if not 0 <= n <= len(head.data):
        raise ValueError(f"{n:,} announced at byte {head.at}")
    return range(n)
