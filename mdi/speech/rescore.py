"""Another language model for a lattice, exactly: the old model's score is taken out and the new one's put in along
every path.

A lattice state that is reached with several histories becomes several states, one for each that the model tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mdi.errors import MdiError
from mdi.fst.symbols import SymbolTable
from mdi.kernels.model import ModelArrays
from mdi.kernels.rescore import compose
from mdi.lm.model import NgramModel
from mdi.speech.lattice import Lattice, taken, tidy

# How a model's score is in a lattice: as the model says, or that of the cheapest path through the back-off arcs of its
# graph, where an n-gram may be backed off from though the model has it. The latter is what a decoder leaves behind.
EXACT, CHEAPEST = "exact", "cheapest"


@dataclass(frozen=True)
class LatticeModel:
    """A model as the kernels walk it, with the word of each number in the lattices."""

    model: NgramModel
    symbols: SymbolTable
    word_of: np.ndarray
    arrays: ModelArrays

    @property
    def unknown(self) -> int:
        """Words of the table that the model lacks."""
        own = (self.model.vocab.unk, -1)
        skip = {"<eps>", "#0", "<s>", "</s>", "<unk>", "<UNK>"}
        return sum(word not in skip and int(self.word_of[i]) in own for word, i in self.symbols.ids.items())


def lattice_model(model: NgramModel, symbols: SymbolTable) -> LatticeModel:
    word_of = symbols.words_of(model.vocab, 1 + max(symbols.ids.values()))
    return LatticeModel(model, symbols, word_of, model.arrays())


def add_model(lattice: Lattice, lm: LatticeModel, scale: float = 1.0, scores: str = EXACT) -> Lattice:
    """The lattice with scale * (-ln p) of every path's words, `</s>` included, added to its graph costs."""
    last = int(lattice.arcs.label.max(initial=0))
    if last >= len(lm.word_of):
        raise MdiError(
            f"lattice of utterance {lattice.utterance}: word number {last} is not in {lm.symbols.path};"
            " expected the table that the lattices were made with"
        )
    room, cheapest = 4, scores == CHEAPEST
    while True:  # how many states and arcs there will be shows only when they are made
        found = compose(
            lattice.arrays, lm.word_of, lm.arrays, cheapest, room * lattice.n_states, room * (lattice.n_arcs + 1)
        )
        if found.dropped >= 0:
            break
        room *= 4
    arcs, finals = taken(lattice.arcs, found.arc), taken(lattice.finals, found.state)
    final_graph = np.full(len(found.state), np.inf)
    ends = np.isfinite(finals.graph)
    final_graph[ends] = finals.graph[ends] + scale * found.final[ends]
    made = replace(
        lattice,
        begin=found.begin,
        arcs=arcs._replace(dest=found.dest, graph=arcs.graph + scale * found.cost),
        finals=finals._replace(graph=final_graph),
    )
    if not found.dropped:
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
