"""Kaldi's CompactLattice as arrays, and what is asked of one: best path, n-best, depth, oracle.

An arc carries a word, a graph cost (language model, pronunciation, transitions), an acoustic cost and the frames of its
alignment. Costs are -ln p; acoustic ones are unscaled. Frames lie in one array; those of arc i are first[i] .. stop[i].
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from mdi.errors import MdiError
from mdi.fst.openfst import ByState
from mdi.kernels import lattice as kernels

Array = np.ndarray


@dataclass(frozen=True)
class Lattice(ByState):
    """Every state lies on a path, every arc leads to a higher state, 0 is the start: `tidy` makes it so."""

    utterance: str
    begin: Array
    label: Array
    dest: Array
    graph: Array
    acoustic: Array
    first: Array
    stop: Array
    final_graph: Array  # infinity where a state is not final
    final_acoustic: Array
    final_first: Array
    final_stop: Array
    frames: Array


@dataclass(frozen=True)
class LatticePath:
    """A way through a lattice. `graph` includes what a word-insertion penalty adds, `acoustic` is unscaled."""

    arcs: Array
    words: Array
    graph: float
    acoustic: float


def tidy(lattice: Lattice, start: int = 0, where: str = "") -> Lattice:
    """Drops what no path leads through and numbers the states in a topological order."""
    at = f"{where}: " if where else ""
    if lattice.n_arcs and (int(lattice.dest.min()) < 0 or int(lattice.dest.max()) >= lattice.n_states):
        raise MdiError(
            f"{at}lattice of utterance {lattice.utterance}: an arc leads to a state that does not exist; make it again"
        )
    number, kept = kernels.number_states(lattice.begin, lattice.dest, lattice.final_graph, start)
    if kept < 0:
        raise MdiError(
            f"{at}lattice of utterance {lattice.utterance} has a cycle; expected none. Decode the utterance again"
        )
    if kept == 0:
        raise MdiError(
            f"{at}lattice of utterance {lattice.utterance} is empty: no path leads to an end; decode it again, wider"
        )
    if kept == lattice.n_states and start == 0 and (number[1:] > number[:-1]).all():
        return lattice
    source = number[lattice.source]
    arcs = np.flatnonzero((source >= 0) & (number[lattice.dest] >= 0))
    arcs = arcs[np.argsort(source[arcs], kind="stable")]
    begin = np.zeros(kept + 1, np.int64)
    np.cumsum(np.bincount(source[arcs], minlength=kept), out=begin[1:])
    states = np.empty(kept, np.int64)
    states[number[number >= 0]] = np.flatnonzero(number >= 0)
    return Lattice(
        lattice.utterance, begin, lattice.label[arcs], number[lattice.dest[arcs]], lattice.graph[arcs],
        lattice.acoustic[arcs],
        lattice.first[arcs], lattice.stop[arcs], lattice.final_graph[states], lattice.final_acoustic[states],
        lattice.final_first[states], lattice.final_stop[states], lattice.frames,
    )  # fmt: skip


def _costs_to_end(lattice: Lattice, acoustic_scale: float, penalty: float) -> tuple[Array, Array]:
    beta, best = np.empty(lattice.n_states), np.empty(lattice.n_states, np.int64)
    kernels.costs_to_end(
        lattice.begin, lattice.label, lattice.dest, lattice.graph, lattice.acoustic, lattice.final_graph,
        lattice.final_acoustic,
        acoustic_scale, penalty, beta, best,
    )  # fmt: skip
    return beta, best


def _path(lattice: Lattice, arcs: Array, penalty: float) -> LatticePath:
    labels = lattice.label[arcs]
    words = labels[labels != 0]
    end = lattice.dest[arcs[-1]] if len(arcs) else 0
    graph = float(lattice.graph[arcs].sum()) + float(lattice.final_graph[end]) + penalty * len(words)
    return LatticePath(arcs, words, graph, float(lattice.acoustic[arcs].sum()) + float(lattice.final_acoustic[end]))


def best_path(lattice: Lattice, lm_weight: float, penalty: float = 0.0) -> LatticePath:
    """The path of the least graph + penalty * words + acoustic / lm_weight."""
    _, best = _costs_to_end(lattice, 1.0 / lm_weight, penalty)
    arcs = np.empty(lattice.n_states, np.int64)
    return _path(lattice, arcs[: kernels.follow(best, lattice.dest, lattice.label, arcs)], penalty)


def n_best(lattice: Lattice, n: int, lm_weight: float, penalty: float = 0.0) -> list[LatticePath]:
    """The n best paths in order, fewer where the lattice has fewer. A* with the exact cost to the end as its guess."""
    scale = 1.0 / lm_weight
    beta, _ = _costs_to_end(lattice, scale, penalty)
    cost = lattice.graph + lattice.acoustic * scale + penalty * (lattice.label != 0)
    final = lattice.final_graph + lattice.final_acoustic * scale
    # (whole cost, tie-breaker, cost so far, state or -1 at the end, chain of arcs)
    heap: list[tuple[float, int, float, int, tuple]] = [(float(beta[0]), 0, 0.0, 0, ())]
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
    return int((lattice.stop[arcs] - lattice.first[arcs]).sum() + lattice.final_stop[end] - lattice.final_first[end])


def depth(lattice: Lattice) -> float:
    """Kaldi's lattice-depth: arcs that cross a frame, on average."""
    final = np.isfinite(lattice.final_graph)
    held = int((lattice.stop - lattice.first).sum() + (lattice.final_stop - lattice.final_first)[final].sum())
    return held / max(1, n_frames(lattice))


def oracle(lattice: Lattice, reference: Array) -> tuple[int, Array]:
    """The fewest errors that any path makes against the reference, and that path's words."""
    shape = (lattice.n_states, len(reference) + 1)
    back_arc, back_position = np.full(shape, -2, np.int64), np.zeros(shape, np.int32)
    errors, state = kernels.oracle(
        lattice.begin,
        lattice.label,
        lattice.dest,
        lattice.final_graph,
        np.asarray(reference, np.int32),
        back_arc,
        back_position,
    )
    source, position, words = lattice.source, len(reference), []
    while back_arc[state, position] != -2:
        arc, position = int(back_arc[state, position]), int(back_position[state, position])
        if arc >= 0:
            words.append(int(lattice.label[arc]))
            state = int(source[arc])
    return int(errors), np.array([w for w in words[::-1] if w], np.int32)


def scaled(lattice: Lattice, acoustic_scale: float) -> Lattice:
    """The same lattice with its acoustic costs multiplied."""
    return replace(
        lattice, acoustic=lattice.acoustic * acoustic_scale, final_acoustic=lattice.final_acoustic * acoustic_scale
    )
