"""The graph of a Vosk folder, HCLr.fst, and what it says of itself: everything that a new word needs.

The graph is Kaldi's H, C and L (utils/mkgraph_lookahead.sh). It reads transition-ids and says words. What it must be
like, which is read off and checked, not assumed:

topology     a phone has one state, which is entered by one transition-id and has a loop of its own after it
context      which transition-id stands for a phone depends on the phone before it, and on nothing else: pair[l, p].
             Each state has left phones, by which it is entered; 0 at the start
boundaries   the final states: a word has ended, and any word may begin. Weights may be pushed, but only by potentials,
             so that for a word of n phones from the boundary b to its end e

                 sum of its weights - finish(b) + finish(e) = n leave + end,

             where `leave` is what leaving a state costs, `end` what a word costs beside that, and finish(e) what the
             end of a sentence costs there: the final weight of a boundary, or of what e leads to without a sound
silence      what leads from a boundary, or the start, to a boundary without a word; a word's end may allow it
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from mdi.errors import MdiError, OtherKindError
from mdi.files import read_lines
from mdi.fst.lookahead import LookaheadFst, read_lookahead
from mdi.kernels import recogniser_graph as kernels
from mdi.lm.trie import Array
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.phones import Phones, read_phones
from mdi.speech.vosk.transition_model import TransitionModel, read_transition_model

_LONGEST_WORD = 1000
# Weights of float32 that have been pushed about are equal within this.
_TOLERANCE = 0.02
# What words of the same length may differ in cost by (median), where pronunciations have probabilities.
_LARGEST_SPREAD = 2.0


@dataclass(frozen=True)
class SaidWords:
    """Pronunciation i says the word with the label word[i] by phone[begin[i] .. begin[i + 1]]."""

    word: Array  # int32
    begin: Array  # int64
    phone: Array  # int32
    cost: Array  # float64, n leave + end


@dataclass(frozen=True)
class RecogniserGraph:
    path: str
    fst: LookaheadFst
    transitions: TransitionModel
    phones: Phones
    words: dict[int, str]  # by label

    @cached_property
    def boundary(self) -> Array:
        """bool, by state"""
        return np.isfinite(self.fst.arcs.final[:, 0])

    @cached_property
    def phone(self) -> Array:
        """By arc: the phone that begins, 0 for none (epsilon, disambiguation), -1 for a loop."""
        tid = np.where(self.fst.arcs.ilabel <= self.transitions.n, self.fst.arcs.ilabel, 0)
        return np.where(self.transitions.is_loop[tid], -1, self.transitions.phone[tid]).astype(np.int32)

    @cached_property
    def loop_cost(self) -> float:
        """What a loop costs. A state that is entered by a transition-id must have its loop, and no other."""
        arcs, source = self.fst.arcs, self.fst.arcs.source
        loops, speaks = self.phone < 0, self.phone > 0
        if (source[loops] != arcs.dest[loops]).any():
            raise self._refused("loops of phones are spread over several states", "each on one state")
        loop_at = np.zeros(arcs.n_states, np.int32)
        loop_at[source[loops]] = arcs.ilabel[loops]
        if (loop_at[source[loops]] != arcs.ilabel[loops]).any():
            raise self._refused("a state has the loops of two phones", "one")
        if (loop_at[arcs.dest[speaks]] != self.transitions.loop[arcs.ilabel[speaks]]).any():
            raise self._refused(
                "a phone's loop is not where it leads to", "loops after the transition (--reorder=true)"
            )
        cost = arcs.weight[loops, 0]
        if not len(cost) or np.ptp(cost) > _TOLERANCE:
            raise self._refused("loops have different costs", "one for all")
        return float(np.median(cost))

    @cached_property
    def left(self) -> tuple[Array, Array]:
        """(state, phone), sorted: pairs of a state and a phone by which it is entered, at once or by way of what is
        not said (epsilons, disambiguation symbols)."""
        arcs, width = self.fst.arcs, len(self.transitions.emitting)
        goes, passes = self.phone > 0, self.phone == 0
        entered = arcs.dest[goes].astype(np.int64) * width + self.phone[goes]
        pairs = _distinct(np.append(entered, arcs.start * width))
        source, dest = arcs.source[passes].astype(np.int64), arcs.dest[passes].astype(np.int64)
        new = pairs
        while len(new):
            i, size = _spread(np.searchsorted(new, source * width), np.searchsorted(new, (source + 1) * width))
            reached = _distinct(np.repeat(dest, size) * width + new[i] % width)
            new = reached[pairs[np.minimum(np.searchsorted(pairs, reached), len(pairs) - 1)] != reached]
            pairs = _distinct(np.append(pairs, new))
            if len(pairs) > 8 * arcs.n_states + 1000:
                raise self._refused("its states do not remember the phone before them", "graphs of biphones")
        return (pairs // width).astype(np.int64), (pairs % width).astype(np.int32)

    @cached_property
    def pair(self) -> Array:
        """int32[l, p]: the transition-id of phone p after phone l, 0 where the graph has none."""
        arcs, width = self.fst.arcs, len(self.transitions.emitting)
        state, phone = self.left
        source, tid = arcs.source[self.phone > 0], arcs.ilabel[self.phone > 0]
        i, size = _spread(np.searchsorted(state, source), np.searchsorted(state, source, side="right"))
        before, tid = phone[i], np.repeat(tid, size)
        table = np.zeros((width, width), np.int32)
        here = self.transitions.phone[tid]
        table[before, here] = tid
        if (odd := table[before, here] != tid).any():
            first, second = int(before[odd][0]), int(here[odd][0])
            several = len(np.unique(tid[(before == first) & (here == second)]))
            raise self._refused(
                f"phone {second} after phone {first} has {several} transition-ids", "one: no more context"
            )
        return table

    @cached_property
    def entered_by(self) -> Array:
        """By state: the transition-id that leads into it, 0 if none does."""
        arcs = self.fst.arcs
        tid = np.zeros(arcs.n_states, np.int32)
        speaks = self.phone > 0
        tid[arcs.dest[speaks]] = arcs.ilabel[speaks]
        return tid

    @cached_property
    def _quiet(self) -> Array:
        """bool, by arc: it reads nothing that speaks and says no word (epsilons, disambiguation symbols)."""
        arcs = self.fst.arcs
        return np.asarray((self.phone == 0) & (arcs.olabel == 0) & (arcs.source != arcs.dest))

    @cached_property
    def origin(self) -> int:
        """The boundary at which a sentence begins: the start, or where it leads without a sound."""
        at = self.fst.arcs.start
        for _ in range(8):
            if self.boundary[at]:
                return at
            here = slice(*self.fst.arcs.begin[at : at + 2])
            quiet = self.fst.arcs.dest[here][self._quiet[here]]
            if not len(quiet):
                break
            at = int(quiet[0])
        raise self._refused("its start is no word boundary", "one at which any word may begin or end")

    def _only(self, arcs_that_may: Array) -> Array:
        """bool, by state: boundaries, and states from which only these arcs, and some quiet ones, lead to such."""
        arcs = self.fst.arcs
        n, source = arcs.n_states, arcs.source
        own = (source == arcs.dest) | (self.phone < 0)
        some = np.zeros(n, bool)
        some[source[self._quiet]] = True
        good = self.boundary
        while True:
            bad = np.zeros(n, bool)
            bad[source[~(own | ((self._quiet | arcs_that_may) & good[arcs.dest]))]] = True
            better = self.boundary | (some & ~bad)
            if np.array_equal(better, good):
                return good
            good = better

    @cached_property
    def _silence(self) -> Array:
        """bool, by arc: it says no word, and its phone leads from the start or a boundary to a boundary without one."""
        arcs = self.fst.arcs
        no_word = (self.phone > 0) & (arcs.olabel == 0)
        between = self.boundary.copy()
        between[arcs.start] = True
        found = no_word & between[arcs.source] & self._only(np.zeros(arcs.n_arcs, bool))[arcs.dest]
        return np.asarray(no_word & np.isin(self.phone, self.phone[found]))

    @cached_property
    def ends(self) -> Array:
        """bool, by state: a word has ended, and nothing but silence is left before the next boundary."""
        return self._only(self._silence)

    @cached_property
    def finish(self) -> Array:
        """By state where a word has ended: what the end of a sentence costs there, without silence."""
        arcs, at_end = self.fst.arcs, self.ends[self.fst.arcs.source] & self._quiet
        cost = arcs.final[:, 0].astype(float)
        source, dest, weight = arcs.source[at_end], arcs.dest[at_end], arcs.weight[at_end, 0]
        while True:
            less = cost.copy()
            np.minimum.at(less, source, weight + cost[dest])
            if np.array_equal(less, cost):
                return cost
            cost = less

    @cached_property
    def allows_silence(self) -> Array:
        """bool, by state where a word has ended: whether there may be silence; all, if there never is."""
        arcs = self.fst.arcs
        allows = np.zeros(arcs.n_states, bool)
        allows[arcs.source[self._silence & self.ends[arcs.source] & self.ends[arcs.dest]]] = True
        quiet = self._quiet & self.ends[arcs.source]
        while (more := allows[arcs.dest[quiet]] & ~allows[arcs.source[quiet]]).any():
            allows[arcs.source[quiet][more]] = True
        return allows if allows.any() else self.ends

    @cached_property
    def said(self) -> SaidWords:
        """Every pronunciation in the graph, as it is read from the start."""
        arcs = self.fst.arcs
        graph = (arcs.begin, self.phone, arcs.olabel, arcs.weight[:, 0], arcs.dest)

        def run(n: int, total: int) -> tuple[int, int, tuple[Array, ...]]:
            room = (
                np.empty(n, np.int32),
                np.empty(n),
                np.empty(n, np.int64),
                np.empty(n + 1, np.int64),
                np.empty(total, np.int32),
            )
            found, size = kernels.read_out(graph, self.origin, self.ends, _LONGEST_WORD, room)
            return int(found), int(size), room

        n, total, _ = run(0, 0)
        if n <= 0:
            why = {
                kernels.TOO_LONG: "a path without an end",
                kernels.TOO_MANY: "too many ways to say words",
                kernels.TWO_WORDS: "two words without a boundary between them",
                kernels.NO_WORD: "phones that are no word",
            }.get(n, "no words")
            raise self._refused(f"it has {why}" + (f" at state {total}" if n < 0 else ""), "a lexicon's")
        n, total, (word, cost, end, begin, phone) = run(n, total)
        begin[n] = total
        return SaidWords(word, begin, phone, cost - self.finish[self.origin] + self.finish[end])

    @cached_property
    def costs(self) -> tuple[float, float]:
        """(leave, end): the line through the median costs of pronunciations of one length. Single words may cost more
        or less: they may have probabilities of pronunciations, and of silence around them."""
        n = np.diff(self.said.begin)
        lengths, count = np.unique(n, return_counts=True)
        cost = np.array([np.median(self.said.cost[n == k]) for k in lengths])
        if len(lengths) == 1:
            return self.loop_cost, float(cost[0] - lengths[0] * self.loop_cost)
        leave, end = np.polyfit(lengths, cost, 1, w=np.sqrt(count))
        off = float(np.median(np.abs(self.said.cost - leave * n - end)))
        if not (off < _LARGEST_SPREAD and leave > -_TOLERANCE):
            raise self._refused(f"costs of words do not grow with their phones (they are off by {off:.2f})", "it so")
        return float(leave), float(end)

    def lexicon(self) -> dict[str, list[tuple[str, ...]]]:
        """Word: its pronunciations, phones without positions."""
        said, base, names = self.said, self.phones.base, np.array(self.phones.names, object)
        spelled, begin = tuple(names[base[said.phone]].tolist()), said.begin.tolist()
        found: dict[str, list[tuple[str, ...]]] = {}
        for word, (first, end) in zip(map(self.words.get, said.word.tolist()), pairwise(begin), strict=True):
            if word is not None:
                ways = found.setdefault(word, [])
                if (way := spelled[first:end]) not in ways:
                    ways.append(way)
        return found

    def _refused(self, found: str, expected: str) -> OtherKindError:
        return _refused(self.path, found, expected)


def _distinct(values: Array) -> Array:
    """Numbers from 0 on, sorted: several times as fast as numpy's hashes."""
    values = np.sort(values)
    return values[np.diff(values, prepend=-1) > 0]


def _spread(begin: Array, end: Array) -> tuple[Array, Array]:
    """(all places from begin[i] to end[i], i after i; how many of each)"""
    size = end - begin
    return np.repeat(begin - np.cumsum(size) + size, size) + np.arange(size.sum()), size


def _refused(path: str, found: str, expected: str) -> OtherKindError:
    return OtherKindError(
        f"{path}: {found}; expected {expected}, as graphs of chain models with left biphones have it "
        f"(utils/mkgraph_lookahead.sh). Words cannot be added to this model"
    )


def read_graph(folder: VoskFolder) -> RecogniserGraph:
    if not folder.dynamic:
        raise OtherKindError(
            f"{folder.path}: a static graph (HCLG.fst), in which graph and language model are one; expected HCLr.fst "
            f"and Gr.fst. Words can be added to models with a dynamic graph only, such as Vosk's small ones"
        )
    path = str(folder.graph / "HCLr.fst")
    transitions = read_transition_model(str(folder.acoustic))
    _check_topology(str(folder.acoustic), transitions)
    fst = read_lookahead(path)
    numbers = np.flatnonzero(transitions.emitting)
    phones = read_phones(folder.graph, folder.word_boundary, numbers)
    _check_disambiguation(folder, fst, transitions)
    graph = RecogniserGraph(path, fst, transitions, phones, folder.symbols.words)
    _ = graph.loop_cost, graph.pair  # it is refused here where it has none
    return graph


def _check_topology(path: str, transitions: TransitionModel) -> None:
    emitting = transitions.emitting[transitions.emitting > 0]
    forward = ~transitions.is_loop[1:]
    if (emitting != 1).any():
        raise _refused(path, f"its phones have {_range(emitting)} states", "one for each")
    if not forward.any() or (transitions.loop[1:][forward] == 0).any():
        raise _refused(path, "it has states without a loop", "one loop in each")


def _range(values: Array) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _check_disambiguation(folder: VoskFolder, fst: LookaheadFst, transitions: TransitionModel) -> None:
    path = folder.graph / "disambig_tid.int"
    found = np.unique(fst.arcs.ilabel[fst.arcs.ilabel > transitions.n])
    known = {line.strip() for line in read_lines(str(path))} if path.exists() else set()
    if lost := [label for label in found.tolist() if b"%d" % label not in known]:
        raise MdiError(
            f"{folder.graph / 'HCLr.fst'}: the input label {lost[0]} is beyond the {transitions.n:,} transition-ids of "
            f"{folder.acoustic} and not in {path.name}; expected files of one model. Unpack it again"
        )
