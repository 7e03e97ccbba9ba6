"""A back-off model as an automaton, and the way back: what G.fst, OpenGrm's FSTs and ngram FSTs have in common.

A state is a history that something follows, or that of <s>, where it all starts. One from which the model predicts
nothing would only back off, so the arcs into it go on to the history it backs off to and carry its weight. An n-gram
that ends in </s> is the final weight of its history. Weights are costs, -ln p and -ln bow, 32-bit floats.

    begin[s] .. begin[s+1]   int64    the arcs of state s that read words, by ascending label
    word[a]                  int32    the label
    cost[a]                  float32  -ln p(w|h), and -ln bow of the histories that are passed over
    dest[a]                  int32    the state of the longest history that ends in hw
    final[s]                 float32  -ln p(</s>|h), infinity where there is no such n-gram
    back[s]                  int32    the state that s backs off to, -1 for the empty history
    back_cost[s]             float32  -ln bow(h), and of the histories that are passed over
    front[s]                 int32    the first word of the history: 0 for <s>, -1 for the empty history

A model that is made from states alone has every n-gram and probability of the one that the states were made from. What
states cannot show is gone: the back-off weights of histories that nothing follows, now part of other weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight, without_weight
from mdi.fst.openfst import Arcs, Header, damaged, parse_arcs
from mdi.fst.symbols import DISAMBIGUATION, SymbolTable
from mdi.kernels import backoff_fst as kernels
from mdi.kernels.backoff_fst import Contexts, Machine
from mdi.lm.model import NgramModel, extended, first_orders
from mdi.lm.trie import NONE, Array, Trie, add_order, from_ngrams, scattered, unigram_trie, with_histories, with_order
from mdi.lm.vocabulary import BOS, EOS, vocabulary

# What an ARPA file writes for a probability of zero, -99, in natural logarithms.
_COST_ZERO = 99.0 * math.log(10.0)
# A cost is 0 or more, less what 32 bits round off.
_ROUNDING = 1e-4
# Longer histories than any model has: the file is damaged or something else.
_MAX_ORDER = 32
BOS_ID, EOS_ID = 0, 1


@dataclass(frozen=True)
class BackoffFst:
    """The states of a model, numbered by the length of their histories and within each length as the trie has them."""

    start: int
    machine: Machine
    front: Array
    dropped: int  # n-grams of the model that it has not
    merged: int  # back-off weights of the model that are part of others now

    @property
    def n_states(self) -> int:
        return len(self.machine.final)

    @property
    def n_arcs(self) -> int:
        return len(self.machine.word)


def costs(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log(values), _COST_ZERO)


def backoff_fst(model: NgramModel, label: Array) -> BackoffFst:
    """The states of a model whose words ascend by `label`; n-grams with a word without one (-1) are dropped.

    Each state backs off to the history that is one word shorter, which becomes a state where it is not one: ngram FSTs
    are trees of histories.
    """
    known = label > 0
    known[[model.vocab.bos, model.vocab.eos]] = True  # they become the start and the final weights: no label is needed
    if model.order == 1:  # the start is a history
        model = extended(model, with_order(model.trie, 2))
    model = _with_back_histories(model, known)
    trie, vocab = model.trie, model.vocab
    kept = _kept(trie, known, vocab.bos, vocab.eos)
    state, n_states = _number_states(trie, _needed(trie, kept, vocab.bos))
    resolved = _resolve(trie, model.bow, state)
    final = np.full(n_states, np.inf, np.float32)
    back, back_cost = np.full(n_states, -1, np.int32), np.full(n_states, np.inf, np.float32)
    front = np.full(n_states, -1, np.int32)
    n_words = np.zeros(n_states + 1, np.int64)
    pieces: list[tuple[Array, Array, Array]] = []
    first = NONE  # first[h]: the first word of each history of one length
    for k in range(1, trie.order + 1):
        source = np.repeat(state[k - 1], np.diff(trie.begin[k]))
        cost = costs(model.p[k])
        ends = kept[k] & (trie.word[k] == vocab.eos)
        final[source[ends]] = cost[ends]
        rows = np.flatnonzero(kept[k] & ~ends & (trie.word[k] != vocab.bos))
        if k == 1:
            dest, extra = (np.zeros(len(rows), np.int32), 0.0) if trie.order == 1 else _at(resolved[1], rows)
        elif k < trie.order:
            dest, extra = _at(resolved[k], trie.as_hist[k][rows])
        else:
            dest, extra = _after_top(trie, rows, resolved)
        pieces.append((label[trie.word[k][rows]], (cost[rows] + extra).astype(np.float32), dest))
        # states are numbered as the rows that follow them are sorted: the arcs come out in order
        n_words[1:] += np.bincount(source[rows], minlength=n_states)
        if k < trie.order:
            here = np.flatnonzero(state[k] >= 0)
            dest, extra = _back_off(trie, k, here, resolved)
            back[state[k][here]], back_cost[state[k][here]] = dest, costs(model.bow[k][here]) + extra
            if k == 1:
                first = np.where(np.arange(trie.n_words) == vocab.bos, 0, label).astype(np.int32)
            else:
                first = first[scattered(trie.hist_of_rows(k), trie.as_hist[k])]
            front[state[k][here]] = first[here]
    word, cost, dest = (np.concatenate(column) for column in zip(*pieces, strict=True))
    start = int(state[1][trie.as_hist[1][vocab.bos]]) if trie.order > 1 else 0
    machine = Machine(np.cumsum(n_words), word, cost, dest, final, back, back_cost)
    dropped = sum(int((~rows).sum()) for rows in kept[1:])
    merged = sum(
        int(((state[j] < 0) & (model.bow[j] != 1.0) & kept[j][trie.row_of_hist[j]]).sum()) for j in range(1, trie.order)
    )
    return BackoffFst(start, machine, front, dropped, merged)


def _at(resolved: tuple[Array, Array], hist: Array) -> tuple[Array, Array]:
    return resolved[0][hist], resolved[1][hist]


def _kept(trie: Trie, known: Array, bos: int, eos: int) -> list[Array]:
    """Which rows have only words of the table, with <s> only first and </s> only last."""
    kept = [np.ones(1, bool), known.copy()]
    for k in range(2, trie.order + 1):
        before = trie.row_of_hist[k - 1]
        history = kept[k - 1][before] & (trie.word[k - 1][before] != eos)
        kept.append(np.repeat(history, np.diff(trie.begin[k])) & known[trie.word[k]] & (trie.word[k] != bos))
    return kept


def _needed(trie: Trie, kept: list[Array], bos: int) -> list[Array]:
    """Which histories are states: those that something follows, the start, and what these back off to, as far as it is
    there."""
    needed = []
    for j in range(trie.order):
        longer = np.concatenate([[0], np.cumsum(kept[j + 1])])
        follows = longer[trie.begin[j + 1][1:]] > longer[trie.begin[j + 1][:-1]]
        if j == 0:
            follows[:] = True
        else:
            follows &= kept[j][trie.row_of_hist[j]]
            if j == 1:
                follows[trie.as_hist[1][bos]] = True
        needed.append(follows)
    for j in range(trie.order - 1, 1, -1):
        back = trie.back[j][needed[j]]
        needed[j - 1][back[back >= 0]] = True
    return needed


def _with_back_histories(model: NgramModel, known: Array) -> NgramModel:
    """The model with the n-grams that its states back off to, where they were pruned away."""
    while True:
        trie, vocab = model.trie, model.vocab
        needed = _needed(trie, _kept(trie, known, vocab.bos, vocab.eos), vocab.bos)
        lost = [np.zeros((0, j), np.int32) for j in range(1, trie.order)]
        for j in range(2, trie.order):
            hist = np.flatnonzero(needed[j] & (trie.back[j] < 0))
            lost[j - 2] = trie.ngrams(j, trie.row_of_hist[j][hist])[:, 1:]
        if not any(map(len, lost)):
            return model
        model = extended(model, from_ngrams(trie.n_words, lost))


def _number_states(trie: Trie, needed: list[Array]) -> tuple[list[Array], int]:
    """state[j][h]: the number of history h as a state, -1 where it is none."""
    state, n = [], 0
    for flags in needed:
        numbers = np.full(len(flags), -1, np.int32)
        numbers[flags] = np.arange(n, n + int(flags.sum()))
        state.append(numbers)
        n += int(flags.sum())
    return state, n


def _resolve(trie: Trie, bow: list[Array], state: list[Array]) -> list[tuple[Array, Array]]:
    """For every history the state that stands for it and the cost of getting there."""
    resolved = [(state[0], np.zeros(1))]
    for j in range(1, trie.order):
        own, back = state[j], trie.back[j]
        lower = resolved[j - 1]
        to, cost = lower[0][back].copy(), lower[1][back].copy()
        lost = np.flatnonzero(back < 0)
        if len(lost):
            to[lost], cost[lost] = _longest_suffix(trie, trie.ngrams(j, trie.row_of_hist[j][lost]), resolved)
        cost += costs(bow[j])
        there = own >= 0
        to[there], cost[there] = own[there], 0.0
        resolved.append((to, cost))
    return resolved


def _longest_suffix(trie: Trie, ids: Array, resolved: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """State and cost of the longest proper suffix that the model has: for n-grams whose next shorter suffix was pruned
    away."""
    state, cost = np.full(len(ids), -1, np.int32), np.zeros(len(ids))
    for size in range(ids.shape[1] - 1, 0, -1):
        left = np.flatnonzero(state < 0)
        rows = trie.find(ids[left][:, ids.shape[1] - size :])
        left, rows = left[rows >= 0], rows[rows >= 0]
        hist = trie.as_hist[size][rows]
        state[left], cost[left] = resolved[size][0][hist], resolved[size][1][hist]
    state[state < 0] = resolved[0][0][0]
    return state, cost


def _after_top(trie: Trie, rows: Array, resolved: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Where an n-gram of the highest order leads: its last n-1 words."""
    k = trie.order
    suffix = trie.suffix[k][rows]
    dest, extra = _at(resolved[k - 1], trie.as_hist[k - 1][suffix])
    lost = np.flatnonzero(suffix < 0)
    if len(lost):
        dest[lost], extra[lost] = _longest_suffix(trie, trie.ngrams(k, rows[lost]), resolved)
    return dest, extra


def _back_off(trie: Trie, j: int, hist: Array, resolved: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Where histories of length j back off to, and what else that costs beside their own weight."""
    back = trie.back[j][hist]
    dest, extra = _at(resolved[j - 1], back)
    lost = np.flatnonzero(back < 0)
    if len(lost):
        dest[lost], extra[lost] = _longest_suffix(trie, trie.ngrams(j, trie.row_of_hist[j][hist[lost]]), resolved)
    return dest, extra


def read_backoff_fst(
    data: bytes, header: Header, symbols: SymbolTable, where: str, weight: GraphWeight = UNWEIGHTED
) -> NgramModel:
    """The model of a VectorFst or ConstFst: Kaldi's G.fst, with #0 or nothing on its back-off arcs, or OpenGrm's."""
    try:
        arcs = parse_arcs(data, header, where)
    except ValueError as error:
        raise damaged(where, error) from error
    if arcs.weight.shape[1] != 1:
        raise MdiError(f"{where}: a lattice; expected a language model")
    machine, root = _split_arcs(arcs, symbols, where)
    machine = without_weight(machine, weight)
    check_costs(machine, where)
    labels = machine.word[machine.begin[root] : machine.begin[root + 1]].copy()
    to_ids(machine, labels, where)
    n = len(machine.final)
    contexts = Contexts(np.full(n, -1, np.int32), np.full(n, -1, np.int32), np.full(n, -1, np.int32))
    found = kernels.follow_words(machine, root, arcs.start, BOS_ID, contexts)
    if found < n:
        raise _not_a_model(where, f"{n - found:,} of {n:,} states are reached by no word")
    if (contexts.length[machine.back] >= contexts.length)[np.arange(n) != root].any():
        raise _not_a_model(where, "a state backs off to a history that is not shorter")
    order = np.argsort(contexts.length, kind="stable")
    wrong = kernels.wrong_arc(machine, contexts, root, kernels.children(machine, contexts), order)
    if wrong >= 0:
        raise _not_a_model(where, f"the arcs of state {wrong} do not lead to the longest histories that there are")
    return model_of(machine, contexts, root, labels, symbols, where)


def _not_a_model(where: str, why: str) -> MdiError:
    return MdiError(
        f"{where}: {why}; expected a back-off n-gram model as arpa2fst or OpenGrm make it. If it was determinised, "
        f"minimised or composed with something, give the file that it was made from"
    )


def _split_arcs(arcs: Arcs, symbols: SymbolTable, where: str) -> tuple[Machine, int]:
    """(the automaton without its back-off arcs, the state of the empty history)"""
    back_off = symbols.ids.get(DISAMBIGUATION, 0)
    if arcs.start < 0:
        raise MdiError(f"{where}: the FST is empty; expected a language model")
    olabel = arcs.olabel
    begin, why, state = kernels.count_words(arcs.begin, arcs.ilabel, olabel, back_off)
    if why == kernels.UNSORTED:
        order = np.lexsort((arcs.ilabel, arcs.source))
        arcs = Arcs(
            arcs.start, arcs.begin, arcs.ilabel[order], olabel[order], arcs.weight[order], arcs.dest[order], arcs.final
        )
        begin, why, state = kernels.count_words(arcs.begin, arcs.ilabel, arcs.olabel, back_off)
    if why != kernels.OK:
        raise _not_a_model(
            where,
            {
                kernels.TWO_BACK_OFFS: f"state {state} has two back-off arcs",
                kernels.NO_BACK_OFF: f"state {state} is the second without a back-off arc (#0 or epsilon)",
                kernels.NOT_AN_ACCEPTOR: f"state {state} has an arc that reads one thing and writes another (number "
                f"{back_off} of {symbols.path} is {DISAMBIGUATION}: is it the table that the FST was made with?)",
                kernels.UNSORTED: f"state {state} has two arcs for one word",
            }[int(why)],
        )
    n, words = arcs.n_states, int(begin[-1])
    if arcs.n_arcs - words != n - 1:
        raise _not_a_model(where, "every state backs off")
    machine = Machine(
        begin,
        np.empty(words, np.int32),
        np.empty(words, np.float32),
        np.empty(words, np.int32),
        np.ascontiguousarray(arcs.final[:, 0]),
        np.empty(n, np.int32),
        np.empty(n, np.float32),
    )
    kernels.split_arcs(arcs.begin, arcs.ilabel, arcs.weight, arcs.dest, back_off, machine)
    return machine, int(np.flatnonzero(machine.back < 0)[0])


def check_costs(machine: Machine, where: str) -> None:
    """Refuses what is no -ln of a probability or of a back-off weight."""
    for values, least in ((machine.cost, -_ROUNDING), (machine.final, -_ROUNDING), (machine.back_cost, -_COST_ZERO)):
        if len(values) and not values.min() >= least:  # NaN too
            found = values[~(values >= least)][0]
            raise MdiError(f"{where}: a weight of {found:g}; expected costs, -ln of probabilities")


def to_ids(machine: Machine, labels: Array, where: str) -> None:
    """Turns labels into ids, in place: <s> is 0, </s> 1, and the words of the empty history follow by label."""
    strange = kernels.translate(machine.begin, machine.word, labels, EOS_ID + 1)
    if strange >= 0:
        raise _not_a_model(where, f"the word number {machine.word[strange]} does not follow the empty history")


def model_of(
    machine: Machine, contexts: Contexts, root: int, labels: Array, symbols: SymbolTable, where: str
) -> NgramModel:
    """The model whose states have these contexts, order by order. Words of the machine and its contexts are ids."""
    words = [BOS, EOS, *symbols.spell(labels)]
    for marker in (BOS, EOS):
        if words.count(marker) > 1:
            raise MdiError(
                f"{where}: {marker} is a word of the FST like others; expected it as the start or in final weights. "
                f"Make it with arpa2fst --disambig-symbol=#0"
            )
    vocab = vocabulary(words)
    top = int(contexts.length.max()) + 1
    if top > _MAX_ORDER:
        raise _not_a_model(where, f"histories of {top - 1} words")
    order = np.argsort(contexts.length, kind="stable").astype(np.int32)
    bounds = np.searchsorted(contexts.length[order], np.arange(top + 1))
    hist = np.zeros(len(contexts.length), np.int32)
    _, word, known = kernels.level_rows(np.array([root], np.int32), machine, EOS_ID)
    unigram = np.zeros(len(vocab))
    unigram[word] = known
    trie, p, bow = unigram_trie(len(vocab)), [NONE, unigram], [np.ones(1)]
    for j in range(1, top):
        trie = with_histories(trie)
        state_of_hist = np.full(trie.rows(j), -1, np.int32)
        states = order[bounds[j] : bounds[j + 1]]
        lost = kernels.place_states(states, contexts, hist, trie.begin[j], trie.word[j], trie.as_hist[j], state_of_hist)
        if lost >= 0:
            raise _not_a_model(where, f"the history of state {lost} is not among the n-grams")
        bow.append(kernels.weights(state_of_hist, machine.back_cost))
        begin, word, row_p = kernels.level_rows(state_of_hist, machine, EOS_ID)
        trie = add_order(trie, begin, word)
        p.append(row_p)
    # the start alone is a history of a unigram model too
    return first_orders(NgramModel(vocab, trie, p, bow), max(k for k in range(1, top + 1) if trie.rows(k)))
