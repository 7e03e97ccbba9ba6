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

A model that is made from states alone has every n-gram and probability of the one that the states were made from. What
states cannot show is gone: the back-off weights of histories that nothing follows, now part of other weights.

Here the states become a model; mdi/fst/vector_fst.py makes them.
"""

import math

import numpy as np

from mdi.errors import MdiError
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight, without_weight
from mdi.fst.openfst import Arcs, Header, damaged, parse_arcs
from mdi.fst.symbols import DISAMBIGUATION, SymbolTable
from mdi.kernels import backoff_fst as kernels
from mdi.kernels.backoff_fst import Contexts, Machine
from mdi.lm.model import NgramModel, first_orders
from mdi.lm.trie import NONE, Array, add_order, unigram_trie, with_histories
from mdi.lm.vocabulary import BOS, EOS, vocabulary

# A cost is 0 or more, less what 32 bits round off. That of backing off may be less: ARPA files have weights to 10^99.
LEAST_COST, LEAST_BACK_COST = -1e-4, -99.0 * math.log(10.0)
# No model has longer n-grams: the file is damaged or something else.
MAX_ORDER = 32
BOS_ID, EOS_ID = 0, 1


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
    machine, words, _ = in_words(machine, root, symbols, where, weight)
    n = len(machine.final)
    contexts = Contexts(*np.full((3, n), -1, np.int32))
    found = kernels.follow_words(machine, root, arcs.start, BOS_ID, contexts)
    if found < n:
        raise _not_a_model(where, f"{n - found:,} of {n:,} states are reached by no word")
    if (contexts.length[machine.back] >= contexts.length)[np.arange(n) != root].any():
        raise _not_a_model(where, "a state backs off to a history that is not shorter")
    order = np.argsort(contexts.length, kind="stable")
    wrong = kernels.wrong_arc(machine, contexts, root, kernels.children(machine, contexts), order)
    if wrong >= 0:
        raise _not_a_model(where, f"the arcs of state {wrong} do not lead to the longest histories that there are")
    return model_of(machine, contexts, root, words, where)


def _not_a_model(where: str, why: str) -> MdiError:
    return MdiError(
        f"{where}: {why}; expected a back-off n-gram model as arpa2fst or OpenGrm make it. If it was determinised, "
        f"minimised or composed with something, give the file that it was made from"
    )


def _split_arcs(arcs: Arcs, symbols: SymbolTable, where: str) -> tuple[Machine, int]:
    """(the automaton without its back-off arcs, the state of the empty history). Every state but one must have exactly
    one arc that backs off, which reads #0 or nothing and writes nothing."""
    back_off, n = symbols.ids.get(DISAMBIGUATION, 0), arcs.n_states
    if arcs.start < 0:
        raise MdiError(f"{where}: the FST is empty; expected a language model")
    backs = (arcs.ilabel == 0) | (arcs.ilabel == back_off)
    odd = (arcs.ilabel < 0) | ((arcs.olabel != arcs.ilabel) & ~(backs & (arcs.olabel == 0)))
    if odd.any():
        raise _not_a_model(
            where,
            f"state {arcs.source[odd][0]} has an arc that reads one thing and writes another (number {back_off} of "
            f"{symbols.path} is {DISAMBIGUATION}: is it the table that the FST was made with?)",
        )
    at = np.flatnonzero(backs)
    state = np.searchsorted(arcs.begin, at, side="right") - 1
    n_backs = np.bincount(state, minlength=n)
    root = np.flatnonzero(n_backs == 0)
    if (n_backs > 1).any():
        raise _not_a_model(where, f"state {np.argmax(n_backs > 1)} has two back-off arcs")
    if len(root) != 1:
        second = f"state {root[1]} is the second without a back-off arc (#0 or epsilon)" if len(root) else ""
        raise _not_a_model(where, second or "every state backs off")
    begin = arcs.begin - np.concatenate([[0], np.cumsum(n_backs)])
    word, cost, dest = arcs.ilabel[~backs], arcs.weight[~backs, 0], arcs.dest[~backs]
    if not ascend(begin, word):
        order = np.lexsort((word, np.repeat(np.arange(n), np.diff(begin))))
        word, cost, dest = word[order], cost[order], dest[order]
        if not ascend(begin, word):
            raise _not_a_model(where, "a state has two arcs for one word")
    back, back_cost = np.full(n, -1, np.int32), np.full(n, np.inf, np.float32)
    back[state], back_cost[state] = arcs.dest[at], arcs.weight[at, 0]
    return Machine(begin, word, cost, dest, arcs.final[:, 0].copy(), back, back_cost), int(root[0])


def ascend(begin: Array, word: Array) -> bool:
    """Whether the words of each state are positive and ascend."""
    first = begin[:-1][np.diff(begin) > 0]
    more = np.diff(word, prepend=0) > 0
    more[first] = word[first] > 0
    return bool(more.all())


def in_words(
    machine: Machine, root: int, symbols: SymbolTable, where: str, weight: GraphWeight
) -> tuple[Machine, list[str], Array]:
    """(the model's own automaton, with ids for labels; all words, by their ids: <s> is 0, </s> 1, and the words of the
    empty history follow by label; the id of each label, -1 for others and at the end). Refuses costs that are no -ln of
    a probability or of a back-off weight."""
    machine = without_weight(machine, weight)
    for values, least in (
        (machine.cost, LEAST_COST),
        (machine.final, LEAST_COST),
        (machine.back_cost, LEAST_BACK_COST),
    ):
        if len(values) and not values.min() >= least:  # NaN too
            found = values[~(values >= least)][0]
            raise MdiError(f"{where}: a weight of {found:g}; expected costs, -ln of probabilities")
    labels = machine.word[machine.begin[root] : machine.begin[root + 1]]
    words = [BOS, EOS, *symbols.spell(labels)]
    id_of = np.full(2 + int(labels.max(initial=0)), -1, np.int32)
    id_of[labels] = np.arange(EOS_ID + 1, len(words))
    word = id_of.take(machine.word, mode="clip")
    if (strange := word < 0).any():
        raise _not_a_model(where, f"the word number {machine.word[strange][0]} does not follow the empty history")
    return machine._replace(word=word), words, id_of


def model_of(machine: Machine, contexts: Contexts, root: int, words: list[str], where: str) -> NgramModel:
    """The model whose states have these contexts, order by order. Words of the machine and its contexts are ids."""
    for marker in (BOS, EOS):
        if words.count(marker) > 1:
            raise MdiError(
                f"{where}: {marker} is a word of the FST like others; expected it as the start or in final weights. "
                f"Make it with arpa2fst --disambig-symbol=#0"
            )
    vocab = vocabulary(words)
    top = int(contexts.length.max()) + 1
    if top > MAX_ORDER:
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
        back_cost = np.where(state_of_hist < 0, np.float32(0.0), machine.back_cost[state_of_hist])
        bow.append(kernels.exponentials(back_cost))
        begin, word, row_p = kernels.level_rows(state_of_hist, machine, EOS_ID)
        trie = add_order(trie, begin, word)
        p.append(row_p)
    # the start alone is a history of a unigram model too
    return first_orders(NgramModel(vocab, trie, p, bow), max(k for k in range(1, top + 1) if trie.rows(k)))
