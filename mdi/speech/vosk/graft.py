"""New words beside the old ones in a recogniser's graph. Old states, arcs and labels stay as they are.

From every word boundary an arc without a sound leads to a root: one for each way in which the phone before decides
about transition-ids of first phones. A tree of the new words' phones hangs on the roots. Where only one word is left
its label is said, and from there on words that end alike, old ones too, share their states (tails):

    boundary -> root -> first phone -> ... (tree) ... -> label -> ... (tails) ... -> end of an old word

A state has the loop of one transition-id, so the states after a first phone are as many as it has transition-ids. A
word ends where an old one ends that has the same last transition-id; where there is none such an end is made.

Costs (see mdi/speech/vosk/recogniser_graph.py): from a boundary b to an end e a word of n phones costs

    finish(b) + n leave + end - finish(e)

as old ones do: finish(b) on the way to the root, `leave` on each arc after the first, the rest on the last.

Nothing is made deterministic, which decoders do not need. Which labels can be reached is computed again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mdi.errors import MdiError
from mdi.fst.lookahead import LookaheadFst
from mdi.fst.openfst import Arcs
from mdi.lm.trie import Array
from mdi.speech.vosk.recogniser_graph import RecogniserGraph


@dataclass(frozen=True)
class Grafted:
    """`guessed`: pairs (phone, phone after it) that the graph lacks, which got the transition-id that the second has
    after a phone that behaves like the first, and in how many pronunciations."""

    fst: LookaheadFst
    labels: dict[str, int]
    guessed: dict[tuple[int, int], int]


@dataclass
class _Parts:
    """Arcs and states in the order in which they are made; states are numbered after the old ones."""

    n_states: int
    arcs: list[tuple[Array, ...]] = field(default_factory=list)  # source, ilabel, olabel, weight, dest
    final: dict[int, float] = field(default_factory=dict)

    def states(self, n: int) -> Array:
        self.n_states += n
        return np.arange(self.n_states - n, self.n_states)

    def add(self, source: Array, ilabel: Array | int, olabel: Array | int, weight: Array | float, dest: Array) -> None:
        columns = np.broadcast_arrays(source, ilabel, olabel, weight, dest)
        self.arcs.append(tuple(np.atleast_1d(column) for column in columns))


def add_words(
    graph: RecogniserGraph, pronunciations: Mapping[str, Sequence[Sequence[str]]], first_label: int
) -> Grafted:
    """The graph with these words, which get labels from `first_label` on, in the order of `pronunciations`. There
    are few intervals of labels where that is the order of their sounds: see `by_sound`."""
    labels = {word: first_label + i for i, word in enumerate(pronunciations)}
    if not labels:
        return Grafted(graph.fst, {}, {})
    top = max(int(graph.fst.arcs.olabel.max()), graph.fst.final_label, max(graph.words))
    if first_label <= top:
        raise MdiError(f"labels of new words from {first_label} on; expected larger ones than {top}, which is taken")
    said = _flat(graph, pronunciations, labels)
    tids = Contexts(graph)
    return Grafted(graph.fst.with_arcs(_Graft(graph, said, tids).arcs()), labels, tids.guessed)


def by_sound(pronunciations: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, list[tuple[str, ...]]]:
    """The same words in the order of their first pronunciations."""
    ways = {word: [tuple(way) for way in found] for word, found in pronunciations.items()}
    return dict(sorted(ways.items(), key=lambda item: item[1][:1]))


@dataclass(frozen=True)
class _Said:
    """Pronunciations, sorted by their phones: phone[i, k] for k < length[i], then 0."""

    phone: Array
    length: Array
    label: Array


def _flat(
    graph: RecogniserGraph, pronunciations: Mapping[str, Sequence[Sequence[str]]], labels: dict[str, int]
) -> _Said:
    rows = {(*graph.phones.numbers(way), -labels[word]) for word, ways in pronunciations.items() for way in ways}
    ordered = sorted(rows)
    length = np.array([len(row) - 1 for row in ordered])
    phone = np.zeros((len(ordered), int(length.max())), np.int32)
    phone[np.arange(phone.shape[1]) < length[:, None]] = [p for row in ordered for p in row[:-1]]
    return _Said(phone, length, np.array([-row[-1] for row in ordered], np.int32))


class Contexts:
    """Transition-ids by left phone and phone, with guesses for pairs that the graph lacks."""

    def __init__(self, graph: RecogniserGraph) -> None:
        self.graph, self.pair = graph, graph.pair.copy()
        self.guessed: dict[tuple[int, int], int] = {}

    def __call__(self, left: Array, phone: Array) -> Array:
        missing = np.flatnonzero(self.pair[left, phone] == 0)
        pairs, count = np.unique(np.stack([left[missing], phone[missing]]), axis=1, return_counts=True)
        for before, here, n in zip(*pairs.tolist(), count.tolist(), strict=True):
            self.guessed[before, here] = self.guessed.get((before, here), 0) + n
            self.pair[before, here] = self._guess(before, here)
        return self.pair[left, phone]

    def _guess(self, left: int, phone: int) -> int:
        """What the phone has after the left phone that behaves most alike: one that has the same transition-ids before
        most of the phones that both have."""
        table, alike = self.graph.pair, self.likeness(left)
        having = np.flatnonzero(table[:, phone])
        if len(having):
            return int(table[having[np.argmax(alike[having])], phone])
        transitions = self.graph.transitions
        own = np.flatnonzero((transitions.phone == phone) & ~transitions.is_loop)
        if not len(own):
            raise MdiError(
                f"{self.graph.path}: phone {phone} has no transition-id; expected one. Unpack the model again"
            )
        # never in the graph: what it has in common with its other forms
        forms = self.graph.phones.form[self.graph.phones.base[phone]]
        other = transitions.pdf[self.pair[left, forms][self.pair[left, forms] > 0]]
        return int(own[np.argmax(np.isin(transitions.pdf[own], other))])

    def likeness(self, left: int) -> Array:
        """Of every phone to this one as a left phone."""
        table = self.graph.pair
        both = (table > 0) & (table[left] > 0)
        same = ((table == table[left]) & both).sum(1)
        return np.asarray(same / (both.sum(1) + 2.0))


class _Graft:
    """Pronunciation i has the phones k = 0 .. last[i]. tid[i, k], k > 0: the transition-id of phone k; at[i, k]: the
    state after it. The label is said with phone says[i]. Phone 0 has several transition-ids and states."""

    def __init__(self, graph: RecogniserGraph, said: _Said, tids: Contexts) -> None:
        self.graph, self.said, self.tids = graph, said, tids
        self.leave, self.end = graph.costs
        self.parts = _Parts(graph.fst.arcs.n_states)
        self.ends = _Ends(graph, self.parts, self.leave, tids)
        self.last = said.length - 1
        self.tid = np.zeros(said.phone.shape, np.int32)
        for k in range(1, said.phone.shape[1]):
            rows = self.last >= k
            self.tid[rows, k] = tids(said.phone[rows, k - 1], said.phone[rows, k])
        self.prefix, alone = _prefixes(said)
        self.says = np.where(alone.any(1), np.argmax(alone, 1), self.last)
        self.at = np.full(said.phone.shape, -1, np.int64)
        # (transition-id before, state after) -> state, where one arc without a word leads from it: the old ones
        self.tails = dict(zip(*_old_tails(graph, self.leave, self.end), strict=True))

    def arcs(self) -> Arcs:
        rows = np.flatnonzero(self.last > 0)
        self.at[rows, self.last[rows]] = self.ends(self.tid[rows, self.last[rows]])
        for back in range(1, int(self.last.max())):
            here = self.last - back
            rows = np.flatnonzero((here >= 1) & (here >= self.says))
            if len(rows):
                self.at[rows, here[rows]] = self._tails(self.tid[rows, here[rows]], rows, here[rows] + 1)
        for k in range(1, int(self.last.max())):
            rows = np.flatnonzero((k < self.last) & (k < self.says))
            _, example, which = np.unique(self.prefix[rows, k], return_index=True, return_inverse=True)
            made = self.parts.states(len(example))
            self.at[rows, k] = made[which]
            self._loops(made, self.tid[rows[example], k])
        for k in range(2, self.said.phone.shape[1]):
            rows = np.flatnonzero((k <= self.last) & (k - 1 < self.says))
            rows = _different(rows, self.at[rows, k - 1], self.at[rows, k], self._label(rows, k))
            self._step(self.at[rows, k - 1], rows, k)
        self._first_phones()
        return _assembled(self.graph.fst.arcs, self.parts)

    def _label(self, rows: Array, k: int) -> Array:
        """That is said with phone k."""
        return np.where(self.says[rows] == k, self.said.label[rows], 0)

    def _cost(self, rows: Array, k: Array | int) -> Array:
        """Of reading phone k > 0."""
        cost = np.full(len(rows), self.leave)
        closing = self.last[rows] == k
        cost[closing] += self._closing(self.at[rows, k][closing])
        return cost

    def _closing(self, state: Array) -> Array:
        """What a word costs beside leaving the states before its last phone, where it ends in this state."""
        return self.end + self.leave - self.ends.finish_of(state)

    def _loops(self, state: Array, tid: Array) -> None:
        self.parts.add(state, self.graph.transitions.loop[tid], 0, self.graph.loop_cost, state)

    def _step(self, source: Array, rows: Array, k: int) -> None:
        """Arcs that read phone k > 0."""
        self.parts.add(source, self.tid[rows, k], self._label(rows, k), self._cost(rows, k), self.at[rows, k])

    def _tails(self, entered_by: Array, rows: Array, k: Array) -> Array:
        """States that are entered by these transition-ids and read phone k, after the label was said."""
        keys = list(zip(entered_by.tolist(), self.at[rows, k].tolist(), strict=True))
        new = {key: i for i, key in enumerate(keys) if key not in self.tails}
        made = self.parts.states(len(new))
        self.tails.update(zip(new, made.tolist(), strict=True))
        i = np.array(list(new.values()), np.int64)
        self._loops(made, entered_by[i])
        self.parts.add(made, self.tid[rows[i], k[i]], 0, self._cost(rows[i], k[i]), self.at[rows[i], k[i]])
        return np.array([self.tails[key] for key in keys])

    def _roots(self, first: Array) -> tuple[Array, Array]:
        """(roots, the transition-ids of the first phones from each of them), and arcs to them."""
        graph = self.graph
        state, left = graph.left
        between = graph.boundary[state]
        boundary, where = np.unique(state[between], return_index=True)  # of several left phones all do the same
        left, of_left = np.unique(left[between][where], return_inverse=True)
        begins = self.tids(np.repeat(left, len(first)), np.tile(first, len(left))).reshape(len(left), len(first))
        kinds, kind = np.unique(begins, axis=0, return_inverse=True)
        roots = self.parts.states(len(kinds))
        self.parts.add(boundary, 0, 0, graph.finish[boundary], roots[kind.ravel()[of_left]])
        return roots, kinds

    def _first_phones(self) -> None:
        said, last, parts = self.said, self.last, self.parts
        first = np.unique(said.phone[:, 0])
        roots, kinds = self._roots(first)
        for phone, tid in zip(first.tolist(), kinds.T, strict=True):
            variants, variant = np.unique(tid, return_inverse=True)
            rows = np.flatnonzero(said.phone[:, 0] == phone)
            for i in rows[last[rows] == 0].tolist():  # words of one phone
                to = self.ends(variants)[variant]
                parts.add(roots, tid, said.label[i], self._closing(to), to)
            for i in rows[(last[rows] > 0) & (self.says[rows] == 0)].tolist():  # no other word begins so
                all_i = np.full(len(variants), i)
                parts.add(roots, tid, said.label[i], 0.0, self._tails(variants, all_i, np.ones_like(all_i))[variant])
            rows = rows[(last[rows] > 0) & (self.says[rows] > 0)]
            if len(rows):
                made = parts.states(len(variants))
                self._loops(made, variants)
                parts.add(roots, tid, 0, 0.0, made[variant])
                rows = _different(rows, self.at[rows, 1], self._label(rows, 1))
                self._step(np.repeat(made, len(rows)), np.tile(rows, len(made)), 1)


def _different(rows: Array, *keys: Array) -> Array:
    """One row for each combination of keys."""
    return rows[np.unique(np.stack(keys), axis=1, return_index=True)[1]] if len(rows) else rows


def _prefixes(said: _Said) -> tuple[Array, Array]:
    """(number of the prefix that ends at phone k, whether it is of one word only), -1 and False after the end."""
    n, width = said.phone.shape
    prefix, alone = np.full((n, width), -1, np.int64), np.zeros((n, width), bool)
    before = np.zeros(n, np.int64)
    for k in range(width):
        here = k < said.length
        key = before[here] * (int(said.phone.max()) + 1) + said.phone[here, k]
        _, which = np.unique(key, return_inverse=True)
        prefix[here, k] = before[here] = which
        pairs = np.unique(np.stack([which, said.label[here]]), axis=1)
        alone[here, k] = np.bincount(pairs[0])[which] == 1
    return prefix, alone


def _old_tails(graph: RecogniserGraph, leave: float, end: float) -> tuple[list[tuple[int, int]], list[int]]:
    """Old states with a loop and one more arc, which says no word, on the way to a word's end, with the costs of new
    ones: (transition-id that leads to it, state that it leads to), and the state."""
    arcs, size = graph.fst.arcs, graph.fst.arcs.n_states
    goes = graph.phone >= 0
    only = np.bincount(arcs.source[goes], minlength=size) == 1
    may = goes & only[arcs.source] & (arcs.olabel == 0) & (graph.phone > 0)
    may &= (graph.entered_by[arcs.source] > 0) & ~graph.ends[arcs.source]
    source, dest, weight = arcs.source[may], arcs.dest[may], arcs.weight[may, 0]
    closing = graph.ends[dest] & graph.allows_silence[dest]
    finish = np.where(closing, graph.finish[dest], 0.0)
    costs = np.abs(weight - np.where(closing, 2 * leave + end - finish, leave)) < 1e-3
    tail = np.zeros(size, bool)
    tail[source[closing & costs]] = True
    while (more := tail[dest] & costs & ~tail[source]).any():
        tail[source[more]] = True
    found = tail[source]
    source, dest = source[found].tolist(), dest[found].tolist()
    return list(zip(graph.entered_by[source].tolist(), dest, strict=True)), source


class _Ends:
    """Where words end, by their last transition-id: the end that most old words have."""

    def __init__(self, graph: RecogniserGraph, parts: _Parts, leave: float, tids: Contexts) -> None:
        self.graph, self.parts, self.leave, self.tids = graph, parts, leave, tids
        arcs, good = graph.fst.arcs, graph.ends & graph.allows_silence
        state = np.flatnonzero(good & (graph.entered_by > 0))
        state = state[np.argsort(np.bincount(arcs.dest, minlength=arcs.n_states)[state], kind="stable")]
        self.of_tid = np.full(graph.transitions.n + 1, -1, np.int64)
        self.of_tid[graph.entered_by[state]] = state
        self.finish_at = dict(enumerate(graph.finish.tolist()))
        state, left = graph.left
        state, left = state[good[state]], left[good[state]]
        order = np.argsort(graph.entered_by[state] == 0, kind="stable")  # last, and so preferred: one without a loop
        self.of_phone = np.full(len(graph.transitions.emitting), -1, np.int64)
        self.of_phone[left[order]] = state[order]

    def __call__(self, tid: Array) -> Array:
        for t in np.unique(tid[self.of_tid[tid] < 0]).tolist():
            self.of_tid[t] = self._made(t)
        return self.of_tid[tid]

    def finish_of(self, state: Array) -> Array:
        different, which = np.unique(state, return_inverse=True)
        return np.array([self.finish_at[s] for s in different.tolist()])[which]

    def _made(self, tid: int) -> int:
        """One that leads where another end of the same phone leads, or of the phone that is most alike."""
        graph, arcs, parts = self.graph, self.graph.fst.arcs, self.parts
        phone = int(graph.transitions.phone[tid])
        model = int(self.of_phone[phone])
        if model < 0:
            having = np.flatnonzero(self.of_phone >= 0)
            model = int(self.of_phone[having[np.argmax(self.tids.likeness(phone)[having])]])
            self.tids.guessed[phone, 0] = self.tids.guessed.get((phone, 0), 0) + 1
        made = parts.states(1)
        parts.add(made, graph.transitions.loop[tid], 0, graph.loop_cost, made)
        finish = float(graph.finish[model])
        if graph.entered_by[model] == 0:
            parts.add(made, 0, 0, self.leave, np.array([model]))
            finish += self.leave
        else:  # it has another loop: the same ways on from here
            on = np.arange(arcs.begin[model], arcs.begin[model + 1])
            on = on[graph.phone[on] >= 0]
            parts.add(made, arcs.ilabel[on], arcs.olabel[on], arcs.weight[on, 0], arcs.dest[on])
            if graph.boundary[model]:
                parts.final[int(made[0])] = float(arcs.final[model, 0])
        self.finish_at[int(made[0])] = finish
        return int(made[0])


def _assembled(old: Arcs, parts: _Parts) -> Arcs:
    """Old and new arcs by the states that they leave, sorted by output label."""
    own = (old.source, old.ilabel, old.olabel, old.weight[:, 0], old.dest)
    source, ilabel, olabel, weight, dest = (np.concatenate(column) for column in zip(own, *parts.arcs, strict=True))
    order = np.lexsort((olabel, source))
    begin = np.zeros(parts.n_states + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=parts.n_states), out=begin[1:])
    final = np.full((parts.n_states, 1), np.inf, np.float32)
    final[: old.n_states] = old.final
    final[list(parts.final), 0] = list(parts.final.values())
    return replace(
        old,
        begin=begin,
        ilabel=ilabel[order].astype(np.int32),
        olabel=olabel[order].astype(np.int32),
        weight=weight[order].astype(np.float32)[:, None],
        dest=dest[order].astype(np.int32),
        final=final,
    )
