"""Kaldi's CompactLattice as arrays, and what is asked of one: best path, n-best, depth, oracle.

An arc carries a word, a graph cost (language model, pronunciation, transitions), an acoustic cost and the frames of its
alignment. The arrays are described in mdi/kernels/lattice.py.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mdi.errors import MdiError
from mdi.fst.openfst import ByState
from mdi.kernels import lattice as kernels
from mdi.kernels.lattice import LatticeArcs, LatticeArrays, LatticeFinals
from mdi.lm.trie import Array

Record = TypeVar("Record", LatticeArcs, LatticeFinals)


@dataclass(frozen=True)
class Lattice(ByState):
    """Every state lies on a path, every arc leads to a higher state, 0 is the start: `tidy` makes it so."""

    utterance: str
    begin: Array
    arcs: LatticeArcs
    finals: LatticeFinals
    frames: Array

    @property
    def dest(self) -> Array:  # type: ignore[override]
        return self.arcs.dest

    @property
    def arrays(self) -> LatticeArrays:
        """For the kernels."""
        return LatticeArrays(self.begin, self.arcs, self.finals, self.frames)


def taken(record: Record, where: Array) -> Record:
    """The arcs, or finals, at the given places."""
    return type(record)(*(part[where] for part in record))


def finals_at(n_states: int, states: Array, ends: LatticeFinals) -> LatticeFinals:
    """The finals of all states: the given ones at the given states, none elsewhere."""
    finals = LatticeFinals(*np.full((2, n_states), np.inf), *np.zeros((2, n_states), np.int64))
    for part, values in zip(finals, ends, strict=True):
        part[states] = values
    return finals


def bundle(
    utterance: str, sequences: Sequence[Sequence[int] | Array], ends: Array, frames: Array | None = None
) -> Lattice:
    """One path for each sequence of labels from a common start, without costs but an acoustic one at its end. `frames`:
    of each label, one sequence after the other; none where it is not given."""
    length = np.array([len(labels) for labels in sequences], np.int64)
    n, first = int(length.sum()), np.cumsum(length) - length
    # the first arcs of all leave the start, in their order; every other arc leaves the state before it
    label = np.array([label for labels in sequences for label in labels], np.int32)
    begins = np.zeros(n, bool)
    begins[first[length > 0]] = True
    order = np.concatenate([np.flatnonzero(begins), np.flatnonzero(~begins)])
    dest = 1 + np.arange(n, dtype=np.int32)  # of the arc with this number, before they are put in order
    begin = np.append(0, np.cumsum(np.bincount(np.where(begins, 0, np.arange(n)), minlength=n + 1)))
    spans = np.zeros(n, np.int64) if frames is None else frames[order]
    stop, zero, none = np.cumsum(spans), np.zeros(n), np.zeros(len(sequences), np.int64)
    arcs = LatticeArcs(label=label[order], dest=dest[order], graph=zero, acoustic=zero, first=stop - spans, stop=stop)
    finals = LatticeFinals(graph=np.zeros(len(sequences)), acoustic=ends, first=none, stop=none)
    states = np.where(length > 0, first + length, 0)
    return Lattice(utterance, begin, arcs, finals_at(n + 1, states, finals), np.ones(int(spans.sum()), np.int32))


def costs_from_start(lattice: Lattice, cost: Array) -> Array:
    """By state, where one way leads to each: what it costs to come there by arcs of this cost."""
    total, source = np.zeros(lattice.n_states), lattice.source
    for arc in range(lattice.n_arcs):
        total[lattice.dest[arc]] = total[source[arc]] + cost[arc]
    return total


@dataclass(frozen=True)
class LatticePath:
    """A way through a lattice. `graph` includes what a word-insertion penalty adds, `acoustic` is unscaled."""

    arcs: Array
    words: Array
    graph: float
    acoustic: float


def tidy(lattice: Lattice, start: int = 0, where: str = "") -> Lattice:
    """Drops what no path leads through and numbers the states in a topological order."""
    name = f"{f'{where}: ' if where else ''}lattice of utterance {lattice.utterance}"
    if lattice.n_arcs and (int(lattice.dest.min()) < 0 or int(lattice.dest.max()) >= lattice.n_states):
        raise MdiError(f"{name}: an arc leads to a state that does not exist; make it again")
    number, kept = kernels.number_states(lattice.arrays, start)
    if kept < 0:
        raise MdiError(f"{name} has a cycle; expected none. Decode the utterance again")
    if kept == 0:
        raise MdiError(f"{name} is empty: no path leads to an end; decode it again, wider")
    if kept == lattice.n_states and start == 0 and (number[1:] > number[:-1]).all():
        return lattice
    source = number[lattice.source]
    arcs = np.flatnonzero((source >= 0) & (number[lattice.dest] >= 0))
    arcs = arcs[np.argsort(source[arcs], kind="stable")]
    begin = np.append(0, np.cumsum(np.bincount(source[arcs], minlength=kept)))
    states = np.empty(kept, np.int64)
    states[number[number >= 0]] = np.flatnonzero(number >= 0)
    kept_arcs = taken(lattice.arcs, arcs)
    return replace(
        lattice, begin=begin, arcs=kept_arcs._replace(dest=number[kept_arcs.dest]), finals=taken(lattice.finals, states)
    )


def _path(lattice: Lattice, arcs: Array, penalty: float) -> LatticePath:
    labels = lattice.arcs.label[arcs]
    words = labels[labels != 0]
    end = lattice.dest[arcs[-1]] if len(arcs) else 0
    graph = float(lattice.arcs.graph[arcs].sum()) + float(lattice.finals.graph[end]) + penalty * len(words)
    acoustic = float(lattice.arcs.acoustic[arcs].sum()) + float(lattice.finals.acoustic[end])
    return LatticePath(arcs, words, graph, acoustic)


def best_path(lattice: Lattice, lm_weight: float, penalty: float = 0.0) -> LatticePath:
    """The path of the least graph + penalty * words + acoustic / lm_weight."""
    _, best = kernels.costs_to_end(lattice.arrays, 1.0 / lm_weight, penalty)
    return _path(lattice, kernels.follow(best, lattice.dest), penalty)


def n_best(lattice: Lattice, n: int, lm_weight: float, penalty: float = 0.0) -> list[LatticePath]:
    """The n best paths in order, fewer where the lattice has fewer. A* with the exact cost to the end as its guess."""
    scale = 1.0 / lm_weight
    beta, _ = kernels.costs_to_end(lattice.arrays, scale, penalty)
    cost = lattice.arcs.graph + lattice.arcs.acoustic * scale + penalty * (lattice.arcs.label != 0)
    final = lattice.finals.graph + lattice.finals.acoustic * scale
    # (whole cost, tie-breaker, cost so far, state or -1 at the end, chain of arcs)
    heap: list[tuple[float, int, float, int, Any]] = [(float(beta[0]), 0, 0.0, 0, ())]
    paths: list[LatticePath] = []
    pushed = 0
    while heap and len(paths) < n:
        _, _, so_far, state, chain = heapq.heappop(heap)
        if state < 0:
            arcs = []
            while chain:
                chain, arc = chain
                arcs.append(arc)
            paths.append(_path(lattice, np.array(arcs[::-1], np.int64), penalty))
            continue
        if np.isfinite(final[state]):
            pushed += 1
            heapq.heappush(heap, (so_far + float(final[state]), pushed, 0.0, -1, chain))
        for arc in range(int(lattice.begin[state]), int(lattice.begin[state + 1])):
            reached = so_far + float(cost[arc])
            to = int(lattice.dest[arc])
            pushed += 1
            heapq.heappush(heap, (reached + float(beta[to]), pushed, reached, to, (chain, arc)))
    return paths


def n_frames(lattice: Lattice) -> int:
    """Frames of the utterance: of any path, since all are equally long."""
    arcs = best_path(lattice, 1.0).arcs
    end = lattice.dest[arcs[-1]] if len(arcs) else 0
    on, finals = taken(lattice.arcs, arcs), lattice.finals
    return int((on.stop - on.first).sum() + finals.stop[end] - finals.first[end])


def depth(lattice: Lattice) -> float:
    """Kaldi's lattice-depth: arcs that cross a frame, on average."""
    arcs, finals = lattice.arcs, taken(lattice.finals, np.isfinite(lattice.finals.graph))
    return int((arcs.stop - arcs.first).sum() + (finals.stop - finals.first).sum()) / max(1, n_frames(lattice))


def oracle(lattice: Lattice, reference: Array) -> int:
    """The fewest errors that any path makes against the reference."""
    return int(kernels.oracle(lattice.arrays, np.asarray(reference, np.int32)))
