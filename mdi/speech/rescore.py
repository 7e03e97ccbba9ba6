"""Another language model for a lattice, exactly: the old model's score is taken out and the new one's put in along
every path.

A lattice state that is reached with several histories becomes several states, one for each that the model tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mdi.errors import MdiError
from mdi.fst.symbols import SymbolTable
from mdi.kernels.rescore import compose
from mdi.lm.model import NgramModel
from mdi.lm.trie import padded
from mdi.speech.lattice import Lattice, tidy

# How a model's score is in a lattice: as the model says, or that of the cheapest path through the back-off arcs of its
# graph, where an n-gram may be backed off from though the model has it. The latter is what a decoder leaves behind.
EXACT, CHEAPEST = "exact", "cheapest"


@dataclass(frozen=True)
class LatticeModel:
    """A model as the kernels walk it, with the word of each number in the lattices."""

    model: NgramModel
    symbols: SymbolTable
    word_of: np.ndarray
    arrays: tuple

    @property
    def unknown(self) -> int:
        """Words of the table that the model lacks."""
        own = (self.model.vocab.unk, -1)
        skip = {"<eps>", "#0", "<s>", "</s>", "<unk>", "<UNK>"}
        return sum(word not in skip and int(self.word_of[i]) in own for word, i in self.symbols.ids.items())


def lattice_model(model: NgramModel, symbols: SymbolTable) -> LatticeModel:
    trie = model.trie
    arrays = (
        padded(trie.begin[1:]), padded(trie.word[1:]), padded(trie.suffix[1:]), padded(trie.as_hist[1:]),
        padded(trie.back[1:]), padded(model.p[1:]), padded(model.bow[1:] or [np.zeros(0)]),
    )  # fmt: skip
    return LatticeModel(model, symbols, symbols.words_of(model.vocab, 1 + max(symbols.ids.values())), arrays)


def add_model(lattice: Lattice, lm: LatticeModel, scale: float = 1.0, scores: str = EXACT) -> Lattice:
    """The lattice with scale * (-ln p) of every path's words, `</s>` included, added to its graph costs."""
    if lattice.n_arcs and int(lattice.label.max()) >= len(lm.word_of):
        raise MdiError(
            f"lattice of utterance {lattice.utterance}: word number {int(lattice.label.max())} is not in "
            f"{lm.symbols.path};"
            " expected the table that the lattices were made with"
        )
    vocab = lm.model.vocab
    room, dropped = 4, -1
    while dropped < 0:  # how many states and arcs there will be shows only when they are made
        begin, arc, cost, dest, state, final, dropped = compose(
            lattice.begin, lattice.label, lattice.dest, np.isfinite(lattice.final_graph), lm.word_of,
            scores == CHEAPEST,
            vocab.bos, vocab.eos, lm.model.order, *lm.arrays, room * lattice.n_states, room * (lattice.n_arcs + 1),
        )  # fmt: skip
        room *= 4
    final_graph = np.full(len(state), np.inf)
    ends = np.isfinite(lattice.final_graph[state])
    final_graph[ends] = lattice.final_graph[state[ends]] + scale * final[ends]
    made = replace(
        lattice, begin=begin, label=lattice.label[arc], dest=dest, graph=lattice.graph[arc] + scale * cost,
        acoustic=lattice.acoustic[arc], first=lattice.first[arc], stop=lattice.stop[arc], final_graph=final_graph,
        final_acoustic=lattice.final_acoustic[state],
        final_first=lattice.final_first[state], final_stop=lattice.final_stop[state],
    )  # fmt: skip
    if not dropped:
        return made
    try:
        return tidy(made)
    except MdiError as error:
        raise MdiError(
            f"lattice of utterance {lattice.utterance} is empty after rescoring: on every path is a word that the model"
            " lacks, and it has no <unk>; give the model <unk> or the words"
        ) from error


def rescore(lattice: Lattice, old: LatticeModel | None, new: LatticeModel | None, old_scores: str = EXACT) -> Lattice:
    """The old model's scores (as they are in the lattice: exact or cheapest) out, the new one's in."""
    if old is not None:
        lattice = add_model(lattice, old, -1.0, old_scores)
    if new is not None:
        lattice = add_model(lattice, new)
    return lattice
