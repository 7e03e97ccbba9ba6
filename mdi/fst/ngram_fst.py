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

import struct
from itertools import islice

import numpy as np

from mdi.errors import MdiError
from mdi.files import writing
from mdi.fst.backoff_fst import ascend, in_words, model_of
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight
from mdi.fst.openfst import Header, Symbols, damaged, layout
from mdi.fst.symbols import SymbolTable
from mdi.fst.vector_fst import VectorFst
from mdi.kernels import backoff_fst as kernels
from mdi.kernels.backoff_fst import Contexts, Machine
from mdi.kernels.openfst import vector_arcs
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, Array

# What OpenFst knows of every such FST: an acceptor, deterministic, with epsilons, sorted, weighted, cyclic and so on.
_PROPERTIES = 0x25A555550001
_VERSION = 4
_COUNTS = struct.Struct("<QQQ")


def _packed(bits: Array) -> Array:
    """In words of 64 bits, the lowest first."""
    packed = np.packbits(bits, bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8))


def _groups(sizes: Array) -> Array:
    """A 1 for each member and then a 0, group after group."""
    bits = np.ones(int(sizes.sum()) + len(sizes), bool)
    bits[np.cumsum(sizes + 1) - 1] = False
    return _packed(bits)


def _begins(bits: Array, n: int) -> Array | None:
    """The inverse: begin[i] .. begin[i + 1] are the members of group i; None unless bits and n groups end together."""
    ends = np.flatnonzero(bits == 0)
    whole = len(ends) == n and n > 0 and ends[-1] == len(bits) - 1
    return np.concatenate([[0], ends - np.arange(n)]) if whole else None


def _parts_of(block: bytes, first_of_all: bool) -> tuple[Array, ...]:
    """(words and costs of the arcs that read words, how many each state has, its final weight, where it backs off to
    and at what cost) of a block of states; the first of all states, the empty history, does not back off."""
    body = np.frombuffer(block, np.int32)
    begin = np.full(len(body) // 3 + 2, -1, np.int64)
    vector_arcs(body, 1, begin)
    begin = begin[begin >= 0]  # of as many states as there are
    first, is_word = layout(begin, 1)
    n_words, backs = np.diff(begin), first[first_of_all:] + 3  # the first arc of each state
    n_words[first_of_all:] -= 1
    for i in range(4):
        is_word[backs + i] = False
    rows, real = body[is_word].reshape(-1, 4), body.view(np.float32)
    return rows[:, 0].copy(), rows[:, 2].copy().view(np.float32), n_words, real[first], body[backs + 3], real[backs + 2]


def write_ngram_fst(fst: VectorFst, path: str, symbols: Symbols | None, weight: GraphWeight = UNWEIGHTED) -> None:
    """Writes the states of a model (`history_tree`), with a symbol table for both sides if given."""
    blocks = islice(fst.blocks(0), 1, None)  # without the header
    found = [_parts_of(block, i == 0) for i, block in enumerate(filter(None, blocks))]
    word, cost, n_words, final, back, back_cost = (np.concatenate(part) for part in zip(*found, strict=True))
    del found
    if (np.diff(back) < 0).any() or fst.start != 1:
        raise AssertionError("states out of order")
    if weight:
        cost, final, back_cost = (weight.put_into(*part) for part in ((cost, True), (final, False), (back_cost, False)))
    ends = np.isfinite(final)
    parts = [
        _groups(np.concatenate([[1], np.bincount(back, minlength=fst.n_states)])),
        _groups(np.concatenate([[0], n_words])),
        _packed(ends),
        np.append(fst.first_words(), np.int32(0)),
        word,
        np.concatenate([[np.inf], back_cost, [0.0]]).astype(np.float32),
        final[ends],
        np.append(cost, np.float32(0.0)),
    ]
    with writing(path) as stream:
        stream.write(Header("standard", 1, fst.n_states, 0, "ngram", _VERSION, _PROPERTIES, symbols).to_bytes())
        stream.write(_COUNTS.pack(fst.n_states, len(cost), int(ends.sum())))
        for part in parts:
            stream.write(np.ascontiguousarray(part).data)


def read_ngram_fst(
    data: bytes, header: Header, symbols: SymbolTable, where: str, weight: GraphWeight = UNWEIGHTED
) -> NgramModel:
    try:
        machine, contexts = _parse(data, header, where)
    except (struct.error, ValueError) as error:
        raise damaged(where, error) from error
    machine, words, id_of = in_words(machine, 0, symbols, where, weight)
    id_of[0] = 0  # of <s>, which is 0 as a label too
    last = id_of.take(contexts.last[1:], mode="clip")
    if (strange := last < 0).any():
        number = contexts.last[1:][strange][0]
        raise MdiError(f"{where}: the word number {number} has histories but no 1-gram; expected one for every word")
    contexts.last[1:] = last
    return model_of(machine, contexts, 0, words, where)


def _parse(data: bytes, header: Header, where: str) -> tuple[Machine, Contexts]:
    """(the automaton, the contexts of its states), both with labels for words."""
    if header.arc_type != "standard" or header.version != _VERSION:
        raise MdiError(
            f"{where}: an ngram FST of version {header.version} with arcs of type {header.arc_type}; expected version "
            f"{_VERSION} and standard arcs"
        )
    n_states, n_arcs, n_final = _COUNTS.unpack_from(data, header.size)
    at = header.size + _COUNTS.size
    n_bits = 2 * n_states + 1, n_arcs + n_states + 1, n_states
    kinds = [np.uint8] * 3 + [np.int32] * 2 + [np.float32] * 3
    sizes = [8 * ((n + 63) // 64) for n in n_bits]  # bytes of each part
    sizes += [4 * n for n in (n_states + 1, n_arcs, n_states + 1, n_final, n_arcs + 1)]
    if n_states < 2 or n_states != header.n_states or n_final > n_states or at + sum(sizes) > len(data):
        raise ValueError(f"{n_states:,} states and {n_arcs:,} arcs announced in {len(data):,} bytes")
    if n_states >= 2**31 - 1 or n_arcs >= 2**31 - 1:
        raise ValueError("too large")
    parts = []
    for size, kind in zip(sizes, kinds, strict=True):
        parts.append(np.frombuffer(data, np.uint8, size, at).view(kind))
        at += size
    front, word, back_cost, final_cost, cost = parts[3:]
    context_bits, future_bits, final_bits = (
        np.unpackbits(part.view(np.uint8), count=n, bitorder="little") for part, n in zip(parts, n_bits, strict=False)
    )
    child, begin = _begins(context_bits, n_states + 1), _begins(future_bits[1:], n_states)
    if child is None or child[1] != 1:
        raise ValueError("the tree of histories does not add up")
    child = child[1:] - 1  # of each state; the first group is the root itself
    if begin is None:
        raise ValueError("the words do not add up")
    if final_bits.sum() != n_final:
        raise ValueError("the final states do not add up")
    final = np.full(n_states, np.inf, np.float32)
    final[final_bits > 0] = final_cost
    if not ascend(begin, word):
        raise ValueError("the words of a state are out of order")
    back, prefix, last, length = (np.empty(n_states, np.int32) for _ in range(4))
    contexts = Contexts(prefix, last, length)
    front = front[:n_states]
    why, state = kernels.spell_contexts(child, front, back, contexts)
    if why == kernels.NO_PREFIX:
        raise MdiError(f"{where}: state {state} stands for a history whose words before the last are no history")
    if why != kernels.OK or front[1] != 0:
        raise ValueError(f"the tree of histories is not one at state {state}")
    machine = Machine(begin, word, cost[:n_arcs], NONE, final, back, back_cost[:n_states])
    return machine, contexts
