"""OpenFst's `ngram` FSTs, such as Vosk's Gr.fst, byte for byte: `fstconvert --fst_type=ngram` of a back-off model.

After the header and the symbol tables (see mdi/fst/openfst.py), with S states, F arcs that read words ("futures") and
N final states, all little-endian:

    3 uint64    S, F, N
    uint64s     context bits, 2 S + 1: 1, 0, then for each state a 1 for each of its children and a 0
    uint64s     future bits, F + S + 1: 0, then for each state a 1 for each arc and a 0
    uint64s     final bits, S: 1 for a final state
    int32       context words, S + 1: the first word of each state's history; -1 for state 0, and one more, 0
    int32       future words, F
    float32     back-off costs, S + 1 (infinity for state 0, and one more, 0); final costs, N; future costs, F + 1

State 0 is the empty history. The children of a history are those that are one word longer at the front, by ascending
label, and states are numbered breadth first: by length, last word, the one before and so on, which is the order of the
histories in mdi/lm/trie.py. State 1 is <s>, whose label is 0. Where arcs lead follows from the words.
"""

from __future__ import annotations

import struct

import numpy as np

from mdi.errors import MdiError
from mdi.files import writing
from mdi.fst.backoff_fst import EOS_ID, BackoffFst, check_costs, model_of, to_ids
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight, without_weight
from mdi.fst.openfst import Header, Symbols, damaged, fst_header
from mdi.fst.symbols import SymbolTable
from mdi.kernels import ngram_fst as kernels
from mdi.kernels.backoff_fst import Contexts, Machine
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE

# What OpenFst knows of every such FST: an acceptor, deterministic, with epsilons, sorted, weighted, cyclic and so on.
_PROPERTIES = 0x25A555550001
_VERSION = 4
_COUNTS = struct.Struct("<QQQ")


def _words(bits: int) -> int:
    """Of 64 bits each, and never none."""
    return (bits + 63) // 64


def write_ngram_fst(fst: BackoffFst, path: str, symbols: Symbols | None) -> None:
    """Writes the states of a model (`backoff_fst`), with a symbol table for both sides if given."""
    machine = fst.machine
    n_states, n_arcs = len(machine.final), len(machine.word)
    if n_states < 2:
        raise MdiError(f"{path}: an ngram FST has the start <s> as a state; expected a model of order 2 or more")
    if (np.diff(machine.back[1:]) < 0).any() or fst.start != 1:
        raise AssertionError("states out of order")
    ends = np.isfinite(machine.final)
    contexts, futures, finals = (
        np.zeros(_words(bits), np.uint64) for bits in (2 * n_states + 1, n_arcs + n_states + 1, n_states)
    )
    kernels.put_groups(contexts, 0, np.concatenate([[1], np.bincount(machine.back[1:], minlength=n_states)]))
    kernels.put_groups(futures, 1, np.diff(machine.begin))
    kernels.put_flags(finals, ends)
    none, zero = np.zeros(1, np.int32), np.zeros(1, np.float32)
    parts = [
        contexts,
        futures,
        finals,
        fst.front,
        none,
        machine.word,
        machine.back_cost,
        zero,
        machine.final[ends],
        machine.cost,
        zero,
    ]
    with writing(path) as stream:
        stream.write(fst_header("standard", 1, n_states, 0, "ngram", _VERSION, _PROPERTIES, symbols))
        stream.write(_COUNTS.pack(n_states, n_arcs, int(ends.sum())))
        for part in parts:
            stream.write(np.ascontiguousarray(part).data)


def read_ngram_fst(
    data: bytes, header: Header, symbols: SymbolTable, where: str, weight: GraphWeight = UNWEIGHTED
) -> NgramModel:
    try:
        machine, contexts = _parse(data, header, where)
    except (struct.error, ValueError) as error:
        raise damaged(where, error) from error
    machine = without_weight(machine, weight)
    check_costs(machine, where)
    labels = machine.word[: machine.begin[1]].copy()
    to_ids(machine, labels, where)
    # labels of contexts become ids in the same way; 0 is <s> as a label and as an id
    spelled = contexts.last[1:]
    at = np.searchsorted(labels, spelled)
    known = (at < len(labels)) & (labels[np.minimum(at, len(labels) - 1)] == spelled) if len(labels) else spelled < 0
    if not (known | (spelled == 0)).all():
        strange = spelled[~known & (spelled != 0)][0]
        raise MdiError(f"{where}: the word number {strange} has histories but no 1-gram; expected one for every word")
    contexts.last[1:] = np.where(spelled == 0, 0, at + EOS_ID + 1)
    return model_of(machine, contexts, 0, labels, symbols, where)


def _parse(data: bytes, header: Header, where: str) -> tuple[Machine, Contexts]:
    """(the automaton, the contexts of its states), both with labels for words."""
    if header.arc_type != "standard" or header.version != _VERSION:
        raise MdiError(
            f"{where}: an ngram FST of version {header.version} with arcs of type {header.arc_type}; expected version "
            f"{_VERSION} and standard arcs"
        )
    n_states, n_arcs, n_final = _COUNTS.unpack_from(data, header.size)
    at = header.size + _COUNTS.size
    sizes = [  # bytes of each part
        8 * _words(2 * n_states + 1),
        8 * _words(n_arcs + n_states + 1),
        8 * _words(n_states),
        4 * (n_states + 1),
        4 * n_arcs,
        4 * (n_states + 1),
        4 * n_final,
        4 * (n_arcs + 1),
    ]
    if n_states < 2 or n_states != header.n_states or n_final > n_states or at + sum(sizes) > len(data):
        raise ValueError(f"{n_states:,} states and {n_arcs:,} arcs announced in {len(data):,} bytes")
    if n_states >= 2**31 - 1 or n_arcs >= 2**31 - 1:
        raise ValueError("too large")
    parts = []
    kinds = (np.uint64, np.uint64, np.uint64, np.int32, np.int32, np.float32, np.float32, np.float32)
    for size, kind in zip(sizes, kinds, strict=True):
        parts.append(np.frombuffer(data, np.uint8, size, at).view(kind))
        at += size
    context_bits, future_bits, final_bits, front, word, back_cost, final_cost, cost = parts
    child, begin = np.empty(n_states + 2, np.int64), np.empty(n_states + 1, np.int64)
    if not kernels.get_groups(context_bits, 0, 2 * n_states + 1, child) or child[1] != 1:
        raise ValueError("the tree of histories does not add up")
    child = child[1:] - 1  # of each state; the first group is the root itself
    if not kernels.get_groups(future_bits, 1, n_arcs + n_states + 1, begin) or begin[-1] != n_arcs:
        raise ValueError("the words do not add up")
    final = np.empty(n_states, np.float32)
    if not kernels.get_finals(final_bits, final_cost, final):
        raise ValueError("the final states do not add up")
    if not kernels.ascending(begin, word):
        raise ValueError("the words of a state are out of order")
    back, prefix, last, length = (np.empty(n_states, np.int32) for _ in range(4))
    contexts = Contexts(prefix, last, length)
    front = front[:n_states]
    why, state = kernels.spell_contexts(child, front, back, contexts)
    if why == kernels.NO_PREFIX:
        raise MdiError(f"{where}: state {state} stands for a history whose words before the last are no history")
    if why != kernels.OK or front[1] != 0:
        raise ValueError(f"the tree of histories is not one at state {state}")
    machine = Machine(begin, word.copy(), cost[:n_arcs], NONE, final, back, back_cost[:n_states])
    return machine, contexts
