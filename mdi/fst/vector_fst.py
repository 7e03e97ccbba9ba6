"""A back-off model as an automaton, made and written state by state: Kaldi's G.fst, OpenGrm's models, ngram FSTs.

The states are those of mdi/fst/backoff_fst.py. Of the automaton nothing is in memory but the number of each history as
a state and a block of bytes. Every state is reached, leads to a final one, and has its arcs sorted: what OpenFst's
connect and arcsort make of the file is the file itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mdi.fst.openfst import Arcs, Header, Symbols, from_bytes
from mdi.kernels import vector_fst as kernels
from mdi.kernels.model import ModelArrays
from mdi.kernels.vector_fst import Words
from mdi.lm.model import NgramModel, extended, with_suffixes
from mdi.lm.trie import Array, blocks, from_ngrams, is_closed, locate, padded, scattered, with_order
from mdi.threads import in_threads

# kExpanded, kMutable, kILabelSorted, kAccessible, kCoAccessible
_PROPERTIES = 0x50010000003
_ALL = np.zeros(0, bool)


@dataclass(frozen=True)
class VectorFst:
    """The states of a model, numbered by the length of their histories and within each length as the trie has them."""

    model: NgramModel  # closed
    own: list[Array]  # flags of the rows that it had before it was closed
    words: Words
    state: list[Array]  # state[j][h]: the number of history h, -1 where it is no state
    n_states: int
    n_arcs: int  # those with words
    dropped: int  # n-grams of the model that it has not
    merged: int  # back-off weights of the model that are part of others now

    @property
    def size(self) -> tuple[int, int]:
        """States and arcs of the file."""
        return self.n_states, self.n_arcs + self.n_states - 1  # all states but one back off

    @property
    def start(self) -> int:
        trie, vocab = self.model.trie, self.model.vocab
        return int(self.state[1][trie.as_hist[1][vocab.bos]]) if trie.order > 1 else 0

    def blocks(self, back_off: int, symbols: Symbols | None = None) -> Iterator[bytes]:
        """The file, piece by piece. Back-off arcs read `back_off` and write nothing; from a start state that has
        nothing else they read nothing, as arpa2fst has it."""
        # OpenFst leaves the number of arcs out
        yield Header("standard", self.start, self.n_states, 0, properties=_PROPERTIES, symbols=symbols).to_bytes()
        model, states = self.model.arrays(), padded(self.state)
        label = np.array([back_off, self.start if self._only_backs_off() else -1])
        for k in range(1, model.order + 1):
            yield from self._states(k, model, states, label)

    def arcs(self, back_off: int) -> Arcs:
        """The same in memory."""
        return from_bytes(b"".join(self.blocks(back_off)))

    def first_words(self) -> Array:
        """By state the label of the first word of its history: 0 for <s>, -1 for the empty history."""
        trie, front = self.model.trie, np.full(self.n_states, -1, np.int32)
        first = np.where(np.arange(trie.n_words) == self.words.bos, 0, self.words.label)  # by history of one length
        for j in range(1, trie.order):
            first = first if j == 1 else first[scattered(trie.hist_of_rows(j), trie.as_hist[j])]
            here = self.state[j] >= 0
            front[self.state[j][here]] = first[here]
        return front

    def _states(self, k: int, model: ModelArrays, states: tuple[Array, ...], back_off: Array) -> Iterator[bytes]:
        """Those of the histories of length k - 1."""
        begin = self.model.trie.begin[k]

        def lay_out(block: tuple[int, int]) -> bytes:
            first, end = block
            out = np.empty(4 * int(begin[end] - begin[first]) + 7 * (end - first), np.int32)
            size = kernels.vector_states(
                (k - 1, first, end), model, states, self.own[k], self.words, back_off, (out, out.view(np.float32))
            )
            return out[:size].tobytes()

        return in_threads(lay_out, blocks(begin))

    def _only_backs_off(self) -> bool:
        trie, start = self.model.trie, self.model.vocab.bos
        if trie.order == 1:
            return False
        h = int(trie.as_hist[1][start])
        rows = slice(int(trie.begin[2][h]), int(trie.begin[2][h + 1]))
        word, own = trie.word[2][rows], self.own[2][rows]
        known = (self.words.label[word] > 0) | (word == self.words.eos)
        return not (known & (own if len(self.own[2]) else True) & (word != start)).any()


def vector_fst(model: NgramModel, label: Array) -> VectorFst:
    """The states of a model whose words ascend by `label`; n-grams with a word without one (-1) are dropped."""
    model, own = _closed(model)
    trie, vocab = model.trie, model.vocab
    words = Words(label.astype(np.int32), vocab.bos, vocab.eos)
    known = label > 0
    known[[vocab.bos, vocab.eos]] = True  # they become the start and the final weights: no label is needed
    total = sum(trie.counts) if not len(own[-1]) else sum(int(part.sum()) for part in own[1:])
    kept, arcs, merged, n = int(known.sum()), int((label > 0).sum()), 0, 1
    for marker in {vocab.bos, vocab.eos}:
        arcs -= int(label[marker] > 0)
    state = [np.zeros(1, np.int32)]
    for j in range(1, trie.order):
        here = np.empty(trie.rows(j), np.int32)
        kernels.mark_histories(trie.branches(j), own[j], words, state[j - 1], trie.as_hist[j], here)
        start = int(trie.as_hist[1][vocab.bos]) if j == 1 else -1
        found = kernels.number_states(trie.branches(j + 1), own[j + 1], words, model.bow[j], n, start, here)
        n, kept, arcs, merged = int(found[0]), kept + int(found[1]), arcs + int(found[2]), merged + int(found[3])
        state.append(here)
    return VectorFst(model, own, words, state, n, arcs, total - kept, merged)


def history_tree(model: NgramModel, label: Array) -> VectorFst:
    """The same, but each state backs off to the history that is one word shorter, which becomes a state where it is
    none, and an n-gram of the model where it was pruned away: ngram FSTs are trees of histories."""
    if model.order == 1:  # the start is a history
        model = extended(model, with_order(model.trie, 2))
    while True:
        fst = vector_fst(model, label)
        trie, own = fst.model.trie, fst.own
        there, lost = [state >= 0 for state in fst.state], [np.zeros((0, j), np.int32) for j in range(1, trie.order)]
        for j in range(trie.order - 1, 1, -1):
            there[j - 1][trie.back[j][there[j]]] = True
            if len(own[j - 1]):
                rows = trie.row_of_hist[j - 1][there[j - 1]]
                lost[j - 2] = trie.ngrams(j - 1, rows[~own[j - 1][rows]])
        if not any(map(len, lost)):
            break
        model = extended(model, from_ngrams(trie.n_words, lost))
    state, n, merged = [], 0, fst.merged
    for flags, before, bow in zip(there, fst.state, fst.model.bow, strict=True):
        state.append(np.where(flags, n - 1 + np.cumsum(flags), -1).astype(np.int32))
        n += int(flags.sum())
        merged -= int((flags & (before < 0) & (bow != 1.0)).sum())
    return replace(fst, state=state, n_states=n, merged=merged)


def _closed(model: NgramModel) -> tuple[NgramModel, list[Array]]:
    """The model with the suffixes that it lacks, and flags of the rows that are its own; empty ones stand for all."""
    if is_closed(model.trie):
        return model, [_ALL] * (model.order + 1)
    whole = with_suffixes(model)
    own = whole.trie.flags(locate(model.trie, whole.trie))
    own[0] = _ALL
    return whole, own
