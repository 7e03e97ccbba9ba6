"""A back-off model as the weighted acceptor G.fst, arc for arc what Kaldi's `arpa2fst --disambig-symbol=#0` makes.

The states are those of mdi/fst/backoff_fst.py; backing off reads #0 and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError
from mdi.files import writing
from mdi.fst.backoff_fst import backoff_fst, joined_arcs
from mdi.fst.openfst import Arcs, to_bytes
from mdi.fst.symbols import DISAMBIGUATION, Dropped, SymbolTable, by_label
from mdi.lm.model import NgramModel


@dataclass(frozen=True)
class Grammar(Dropped):
    """The acceptor and what became of the model on the way."""

    arcs: Arcs


def grammar(model: NgramModel, symbols: SymbolTable) -> Grammar:
    label, disambiguation = symbols.labels_of(model.vocab), symbols.require(DISAMBIGUATION)
    known = label > 0
    known[[model.vocab.bos, model.vocab.eos]] = True  # they become the start and the final weights: no label is needed
    if (label[known] == disambiguation).any() or (label == 0).any():
        raise MdiError(
            f"the model has {DISAMBIGUATION} or <eps> as a word; expected neither, they are the table's own symbols"
        )
    labelled = by_label(model, label)
    fst = backoff_fst(labelled.model, labelled.label)
    return Grammar(
        fst.dropped, sum(model.trie.counts), float(model.p[1][~known].sum()),
        [model.vocab.word(int(i)) for i in np.flatnonzero(~known)], joined_arcs(fst, disambiguation),
    )  # fmt: skip


def write_fst(fst: Arcs, path: str, sort: str = "ilabel", kind: str = "vector") -> None:
    """Hands the arcs to OpenFst, which trims and sorts them and writes its own file: vector, or const, which is read
    faster."""
    import pywrapfst

    made = pywrapfst.Fst.read_from_string(to_bytes(fst))
    made.connect()
    made.arcsort(sort)
    if made.num_states() == 0 or fst.n_arcs == 0:
        raise MdiError(
            f"{path}: the acceptor is empty, no sentence has a probability; expected a model with </s> and words of "
            f"the table"
        )
    if kind != "vector":
        made = pywrapfst.convert(made, kind)
    with writing(path) as stream:
        stream.write(made.write_to_string())
