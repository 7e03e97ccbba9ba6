"""A back-off model as the weighted acceptor G.fst, arc for arc what Kaldi's `arpa2fst --disambig-symbol=#0` makes.

The states are those of mdi/fst/backoff_fst.py; backing off reads #0 and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdi.errors import MdiError
from mdi.files import writing
from mdi.fst.openfst import Arcs, from_bytes, to_bytes
from mdi.fst.symbols import DISAMBIGUATION, Dropped, SymbolTable, by_label
from mdi.fst.vector_fst import VectorFst, vector_fst
from mdi.lm.model import NgramModel


@dataclass(frozen=True)
class Grammar(Dropped):
    """The acceptor and what became of the model on the way."""

    fst: VectorFst
    back_off: int

    @property
    def n_arcs(self) -> int:
        return self.fst.n_arcs + self.fst.n_states - 1

    @cached_property
    def arcs(self) -> Arcs:
        """All in memory."""
        return from_bytes(b"".join(self.fst.blocks(self.back_off)))

    def write(self, path: str) -> None:
        if not self.n_arcs:
            raise _empty(path)
        with writing(path) as stream:
            for block in self.fst.blocks(self.back_off):
                stream.write(block)


def _empty(path: str) -> MdiError:
    return MdiError(
        f"{path}: the acceptor is empty, no sentence has a probability; expected a model with </s> and words of the "
        f"table"
    )


def grammar(model: NgramModel, symbols: SymbolTable, back_off: str = DISAMBIGUATION) -> Grammar:
    """The acceptor whose back-off arcs read the symbol `back_off`."""
    label, disambiguation = symbols.labels_of(model.vocab), symbols.require(back_off)
    known = label > 0
    known[[model.vocab.bos, model.vocab.eos]] = True  # they become the start and the final weights: no label is needed
    if (label[known] == disambiguation).any() or (label == 0).any():
        raise MdiError(
            f"the model has {back_off} or <eps> as a word; expected neither, they are the table's own symbols"
        )
    labelled = by_label(model, label)
    fst = vector_fst(labelled.model, labelled.label)
    return Grammar(
        fst.dropped, sum(model.trie.counts), float(model.p[1][~known].sum()),
        [model.vocab.word(int(i)) for i in np.flatnonzero(~known)], fst, disambiguation,
    )  # fmt: skip


def write_fst(fst: Arcs, path: str, sort: str = "ilabel", kind: str = "vector") -> None:
    """Hands the arcs to OpenFst, which trims and sorts them and writes its own file: vector, or const, which is read
    faster."""
    import pywrapfst

    made: Any = pywrapfst.Fst.read_from_string(to_bytes(fst))
    made.connect()
    made.arcsort(sort)
    if made.num_states() == 0 or fst.n_arcs == 0:
        raise _empty(path)
    if kind != "vector":
        made = pywrapfst.convert(made, kind)
    with writing(path) as stream:
        stream.write(made.write_to_string())


def write_text(fst: Arcs, path: str) -> None:
    """OpenFst's text with labels as numbers, as fstprint and kaldilm have it and k2.Fsa.from_openfst reads it: a line
    for an arc and one for a final state, the start state first, weights of 0 left out."""
    begin, ends = fst.begin.tolist(), fst.final[:, 0].tolist()
    with writing(path) as stream:
        for s in [fst.start, *(s for s in range(fst.n_states) if s != fst.start)]:
            here = slice(begin[s], begin[s + 1])
            columns = fst.dest[here], fst.ilabel[here], fst.olabel[here], fst.weight[here, 0]
            lines = [
                f"{s}\t{dest}\t{i}\t{o}\t{w:.7g}\n" if w else f"{s}\t{dest}\t{i}\t{o}\n"
                for dest, i, o, w in zip(*(column.tolist() for column in columns), strict=True)
            ]
            if ends[s] != float("inf"):
                lines.append(f"{s}\t{ends[s]:.7g}\n" if ends[s] else f"{s}\n")
            stream.write("".join(lines).encode())
