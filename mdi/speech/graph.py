"""HCLG.fst, the decoding graph of a language model for the built-in acoustic model: HMM states to words.

H turns a triphone into its three states, C puts phones in context, L turns phones into words, G scores them.
Composition, determinisation and minimisation are Kaldi's (kaldifst), in its order. All determinisation is tropical, so
that the cost of a word sequence stays what G says, and rescoring can take it out again exactly. Input labels of the
result are senone + 1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mdi.errors import MdiError
from mdi.files import scratch_folder
from mdi.fst.openfst import Arcs, from_bytes, from_unsorted, to_bytes
from mdi.lm.trie import Array
from mdi.progress import say
from mdi.speech.acoustic import POSITIONS, AcousticModel
from mdi.speech.lexicon import LexiconFst


class _Exchange:
    """Arrays to kaldifst and back, through files: it reads nothing else."""

    def __init__(self) -> None:
        self.folder = scratch_folder("mdi-graph-")
        self.path = str(Path(self.folder.name) / "x.fst")

    def give(self, arcs: Arcs):
        import kaldifst

        Path(self.path).write_bytes(to_bytes(arcs))
        fst = kaldifst.StdVectorFst.read(self.path)
        if fst is None:  # it has said why
            raise MdiError(f"{self.path}: cannot be read again; is the disk in order?")
        return fst

    def take(self, fst) -> Arcs:
        if not fst.write(self.path):  # what was there before would be taken for it
            raise MdiError(f"{self.path}: cannot write; is the disk full? TMPDIR names another place")
        return from_bytes(Path(self.path).read_bytes(), self.path)


@dataclass(frozen=True)
class _Units:
    """What H reads and writes. A transition t = 1, 2 .. is one state of one phone with one senone: bare senones would
    make the graph ambiguous. A unit u = 1, 2 .. is a phone with three transitions."""

    transitions: Array  # [unit - 1, 3]
    senone: Array  # of transition t at [t], [0] is a filler
    stay: Array  # cost of staying in the state for another frame
    leave: Array  # cost of leaving it
    unit_of: Array  # of each label of C, disambiguation symbols after all units
    disambiguation: Array


def _units(windows: list[list[int]], phones: list[str], acoustic: AcousticModel) -> _Units:
    base = np.full(len(phones), acoustic.silence, np.int64)
    place = np.zeros(len(phones), np.int64)
    index = {name: i for i, name in enumerate(acoustic.phones)}
    for i, name in enumerate(phones):
        if "_" in name:
            base[i], place[i] = index[name[:-2]], POSITIONS.index(name[-1])
    transition: dict[tuple[int, int, int], int] = {}
    unit: dict[tuple[int, ...], int] = {}
    triples: list[list[int]] = []
    unit_of = np.zeros(len(windows), np.int64)
    for i, window in enumerate(windows):
        if len(window) == 3:
            left, phone, right = window
            row = acoustic.senones[acoustic.row(int(base[left]), int(base[phone]), int(base[right]), int(place[phone]))]
            key = (phone, *row.tolist())
            if key not in unit:
                unit[key] = len(unit) + 1
                triples.append(
                    [transition.setdefault((phone, j, int(s)), len(transition) + 1) for j, s in enumerate(row)]
                )
            unit_of[i] = unit[key]
    special = np.array([i for i, window in enumerate(windows) if len(window) == 1], np.int64)
    unit_of[special] = len(unit) + 1 + np.arange(len(special))
    phone_of, state, senone = (np.array(column) for column in zip(*transition, strict=True))
    stay = acoustic.transition[base[phone_of], state, state].astype(np.float64)
    filler = np.zeros(1)
    return _Units(
        np.array(triples), np.r_[0, senone], np.r_[filler, -np.log(stay)], np.r_[filler, -np.log(1.0 - stay)],
        unit_of, unit_of[special],
    )  # fmt: skip


def _h_fst(units: _Units) -> Arcs:
    """From the one state a loop of three arcs for each unit, and a loop for each disambiguation symbol."""
    n, extra = len(units.transitions), len(units.disambiguation)
    inner = 1 + 2 * np.arange(n)
    zero, none = np.zeros(n, np.int64), np.zeros(extra, np.int64)
    top = len(units.senone)  # disambiguation symbols read the labels from here on
    source = np.r_[zero, inner, inner + 1, none]
    dest = np.r_[inner, inner + 1, zero, none]
    ilabel = np.r_[units.transitions[:, 0], units.transitions[:, 1], units.transitions[:, 2], top + np.arange(extra)]
    olabel = np.r_[1 + np.arange(n), zero, zero, units.disambiguation]
    final = np.full(1 + 2 * n, np.inf)
    final[0] = 0.0
    return from_unsorted(0, 1 + 2 * n, source, ilabel, olabel, np.zeros(len(source)), dest, final)


def _relabelled(arcs: Arcs, label: Array) -> Arcs:
    return replace(arcs, ilabel=label[arcs.ilabel].astype(np.int32))


def _with_self_loops(arcs: Arcs, units: _Units) -> Arcs:
    """Every transition may last. A state whose incoming arcs all read the same transition gets the loop itself; where
    they differ, a state of its own comes before it for each. Entering a transition pays for leaving it: each is left
    once."""
    source, t, dest = arcs.source.astype(np.int64), arcs.ilabel.astype(np.int64), arcs.dest.astype(np.int64)
    n = arcs.n_states
    low, high = np.full(n, len(units.senone)), np.full(n, -1)
    np.minimum.at(low, dest, t)
    np.maximum.at(high, dest, t)
    low[arcs.start] = 0  # entered with nothing read
    single = (low == high) & (low > 0)
    emits = t > 0
    split = np.flatnonzero(emits & ~single[dest])
    pairs, where = np.unique(dest[split] * len(units.senone) + t[split], return_inverse=True)
    dest[split] = n + where
    own = np.flatnonzero(single)
    loop_state = np.r_[own, n + np.arange(len(pairs))]
    loop_t = np.r_[low[own], pairs % len(units.senone)]
    zero = np.zeros(len(pairs), np.int64)
    weight = arcs.weight[:, 0].astype(np.float64) + units.leave[t]
    label = units.senone + 1
    label[0] = 0
    final = np.r_[arcs.final[:, 0], np.full(len(pairs), np.inf)]
    return from_unsorted(
        arcs.start, n + len(pairs), np.r_[source, loop_state, n + np.arange(len(pairs))], label[np.r_[t, loop_t, zero]],
        np.r_[arcs.olabel, np.zeros(len(loop_state) + len(pairs), np.int64)], np.r_[weight, units.stay[loop_t], zero],
        np.r_[dest, loop_state, pairs // len(units.senone)], final,
    )  # fmt: skip


def make_graph(lexicon: LexiconFst, grammar: Arcs, acoustic: AcousticModel) -> Arcs:
    import kaldifst

    exchange, start = _Exchange(), time.monotonic()

    def step(name: str, fst) -> None:
        if fst.num_states == 0:
            raise MdiError(f"{name} is empty: no sentence of the language model can be spoken with this lexicon")
        say(f"mdi graph: {name}, {fst.num_states:,} states, {time.monotonic() - start:.0f} s")

    left = exchange.give(lexicon.arcs)
    kaldifst.arcsort(left, "olabel")
    graph = kaldifst.StdVectorFst(kaldifst.compose(left, exchange.give(grammar)))
    step("LG", graph)
    kaldifst.determinize_star(graph, use_log=False)
    kaldifst.minimize_encoded(graph)
    step("LG determinised and minimised", graph)
    kaldifst.arcsort(graph, "ilabel")
    graph, windows = kaldifst.compose_context(lexicon.disambiguation, 3, 1, graph)
    step("CLG", graph)
    units = _units(windows, lexicon.phones, acoustic)
    graph = exchange.give(_relabelled(exchange.take(graph), units.unit_of))
    kaldifst.arcsort(graph, "ilabel")
    left = exchange.give(_h_fst(units))
    kaldifst.arcsort(left, "olabel")
    graph = kaldifst.StdVectorFst(kaldifst.compose(left, graph))
    step("HCLG without self-loops", graph)
    kaldifst.determinize_star(graph, use_log=False)
    arcs = exchange.take(graph)
    label = np.arange(len(units.senone) + len(units.disambiguation))
    label[len(units.senone) :] = 0  # disambiguation symbols have done their work
    graph = exchange.give(_relabelled(arcs, label))
    kaldifst.minimize_encoded(graph)
    step("determinised and minimised", graph)
    made = _with_self_loops(exchange.take(graph), units)
    say(f"mdi graph: HCLG, {made.n_states:,} states, {made.n_arcs:,} arcs, {time.monotonic() - start:.0f} s")
    return made


def phone_table(lexicon: LexiconFst) -> str:
    return "".join(f"{name} {i}\n" for i, name in enumerate(lexicon.phones))
