"""The best sequences of lattices as lists, without the score of the language model that decoded."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import kaldialign
import numpy as np

from mdi.errors import MdiError
from mdi.fst.symbols import SymbolTable
from mdi.lm.model import NgramModel
from mdi.lm.n_best import IMPOSSIBLE, NBestLists
from mdi.lm.trie import Array
from mdi.speech.data import Words
from mdi.speech.lattice import Lattice, bundle, costs_from_start, n_best
from mdi.speech.lattice_files import read_all_lattices
from mdi.speech.rescore import CHEAPEST, LatticeModel, add_model, lattice_model

# Acoustic costs of lattices are divided by this, the LM weight of Kaldi's recipes at which they are as decoded.
DECODED_AT = 10.0


def sequence_costs(utterance: str, sequences: Sequence[Array], lm: LatticeModel, scores: str) -> Array:
    """What a model's score of each sequence is in a lattice: see `add_model`."""
    numbered = bundle(utterance, sequences, np.arange(len(sequences), dtype=float))
    scored = add_model(numbered, lm, 1.0, scores)
    cost = costs_from_start(scored, scored.arcs.graph)
    found = np.full(len(sequences), IMPOSSIBLE)
    ends = np.flatnonzero(np.isfinite(scored.finals.graph))
    found[scored.finals.acoustic[ends].astype(np.int64)] = cost[ends] + scored.finals.graph[ends]
    return found


def lists_of(
    lattices: Iterable[Lattice], symbols: SymbolTable, old_lm: NgramModel, references: Mapping[str, Words], n: int = 100
) -> NBestLists:
    """The n best sequences of each lattice that has a reference. `old_lm`: the model whose scores are in them."""
    old = lattice_model(old_lm, symbols)
    utterances, sizes, words, rest, lengths, errors = [], [], [], [], [], []
    for lattice in lattices:
        reference = references.get(lattice.utterance)
        if reference is None:
            continue
        paths = n_best(lattice, n, DECODED_AT)
        total = np.array([path.graph + path.acoustic / DECODED_AT for path in paths])
        rest.append(total - sequence_costs(lattice.utterance, [path.words for path in paths], old, CHEAPEST))
        spelled = [symbols.spell(path.words) for path in paths]
        errors += [kaldialign.edit_distance(reference, one)["total"] for one in spelled]
        words += spelled
        utterances.append(lattice.utterance)
        lengths.append(len(reference))
        sizes.append(len(paths))
    if not utterances:
        raise MdiError("no lattice has a reference; expected lattices of the development set, and its text")
    begin = np.cumsum([0, *sizes])
    return NBestLists(utterances, begin, words, np.concatenate(rest), np.array(errors), np.array(lengths))


def read_lists(
    folder: str | Path, symbols: SymbolTable, old_lm: NgramModel, references: Mapping[str, Words], n: int = 100
) -> NBestLists:
    """Of a decoding folder's lat.1.gz, lat.2.gz and so on."""
    return lists_of(read_all_lattices(str(folder)), symbols, old_lm, references, n)
