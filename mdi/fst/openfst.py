"""OpenFst's files as arrays, and the bytes of a VectorFst: millions of arcs go to and from OpenFst in one piece.

Every file: magic, type of FST, type of arc, version, flags, properties, start, states, arcs; then the symbol tables
that the flags announce; then the FST. A weight is one float for the arc type "standard", two (graph, acoustic) for
Kaldi's "lattice4".

    vector    for each state its final weight, its number of arcs (8 bytes) and the arcs
    const     for each state its final weight, its first arc, its number of arcs and two numbers of epsilons; then all
              arcs. Each part begins at a multiple of 16 bytes where the file is "aligned"
    ngram     see mdi/fst/ngram_fst.py

An arc is its input label, output label, weight and destination, a symbol table: magic, name, the next free key, the
number of symbols, and for each its text and key. A text is its length and its bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mdi.errors import MdiError
from mdi.kernels import openfst as kernels
from mdi.lm.trie import Array

_MAGIC, _SYMBOLS_MAGIC = 2125659606, 2125658996
# What OpenFst cannot doubt of any such file: expanded and mutable. It works out the rest when asked.
_PROPERTIES = 0x3
_HEADER = struct.Struct("<iiQqqq")
_FLOATS = {"standard": 1, "lattice4": 2}
_HAS_SYMBOLS, _IS_ALIGNED = 3, 4  # one bit for each side
# Types and names in a header are short; whatever announces more is not one.
_LONGEST_NAME = 1 << 16


class ByState:
    """Arcs by the state that they leave: those of state s are begin[s] .. begin[s+1]; `dest` is where they lead."""

    begin: Array
    dest: Array

    @property
    def n_states(self) -> int:
        return len(self.begin) - 1

    @property
    def n_arcs(self) -> int:
        return len(self.dest)

    @property
    def source(self) -> Array:
        return np.repeat(np.arange(self.n_states, dtype=np.int32), np.diff(self.begin))


@dataclass(frozen=True)
class Arcs(ByState):
    """States 0 .. n-1 by their arcs: those of state s are begin[s] .. begin[s+1]. `weight` and `final` have one column
    a float; a state that is not final has the final weight infinity."""

    start: int
    begin: Array  # int64, states + 1
    ilabel: Array  # int32, by arc
    olabel: Array  # int32, by arc
    weight: Array  # float32, arcs x floats
    dest: Array  # int32, by arc
    final: Array  # float32, states x floats

    @property
    def rows(self) -> Array:
        """The arcs as they lie in a file."""
        return np.column_stack([self.ilabel, self.olabel, self.weight.astype(np.float32).view(np.int32), self.dest])


@dataclass(frozen=True)
class Symbols:
    """A symbol table as it lies in a file: its name and the key of each symbol, in the file's order."""

    name: str
    keys: dict[str, int]


@dataclass(frozen=True)
class Header:
    """What a file says of itself, before its states."""

    arc_type: str
    start: int
    n_states: int
    n_arcs: int
    kind: str = "vector"  # of FST
    version: int = 2
    properties: int = _PROPERTIES
    symbols: Symbols | None = None  # the input side's, or the output side's if there is only that
    flags: int = 0
    size: int = 0  # where the states begin in the bytes that it was read from

    def to_bytes(self) -> bytes:
        """With the symbol table for both sides if there is one."""
        flags = self.flags | (_HAS_SYMBOLS if self.symbols else 0)
        head = struct.pack("<i", _MAGIC) + _text(self.kind.encode()) + _text(self.arc_type.encode())
        head += _HEADER.pack(self.version, flags, self.properties, self.start, self.n_states, self.n_arcs)
        return head + 2 * _symbol_bytes(self.symbols) if self.symbols else head

    @property
    def has_symbols(self) -> bool:
        return bool(self.flags & _HAS_SYMBOLS)

    def const_places(self) -> tuple[int, int, int]:
        """Where the states of a ConstFst begin, where its arcs do, and where it ends."""
        floats, align = _FLOATS[self.arc_type], 16 if self.version == 1 or self.flags & _IS_ALIGNED else 1
        states = self.size + -self.size % align
        arcs = states + 4 * (floats + 4) * self.n_states
        arcs += -arcs % align
        return states, arcs, arcs + 4 * (floats + 3) * self.n_arcs


def layout(begin: Array, floats: int) -> tuple[Array, Array]:
    """Of the states of a VectorFst: (where each lies, in words of 4 bytes; which words are arcs)"""
    first = np.arange(len(begin) - 1) * (floats + 2) + begin[:-1] * (floats + 3)
    is_arc = np.ones((len(begin) - 1) * (floats + 2) + int(begin[-1]) * (floats + 3), bool)
    for i in range(floats + 2):
        is_arc[first + i] = False
    return first, is_arc


def to_bytes(fst: Arcs, arc_type: str = "standard", symbols: Symbols | None = None) -> bytes:
    """The file of a VectorFst, with a symbol table for both sides if there is one."""
    floats = _FLOATS[arc_type]
    first, is_arc = layout(fst.begin, floats)
    body = np.zeros(len(is_arc), np.int32)  # the number of arcs has 64 bits
    body[is_arc] = fst.rows.ravel()
    for i in range(floats):
        body[first + i] = fst.final[:, i].astype(np.float32).view(np.int32)
    body[first + floats] = np.diff(fst.begin)
    header = Header(arc_type, fst.start, fst.n_states, fst.n_arcs, symbols=symbols)
    return header.to_bytes() + body.tobytes()


def _text(data: bytes) -> bytes:
    return struct.pack("<i", len(data)) + data


def _symbol_bytes(symbols: Symbols) -> bytes:
    head = struct.pack("<i", _SYMBOLS_MAGIC) + _text(symbols.name.encode("utf-8", "surrogateescape"))
    head += struct.pack("<qq", max(symbols.keys.values(), default=-1) + 1, len(symbols.keys))
    rows = ((word.encode("utf-8", "surrogateescape"), i) for word, i in symbols.keys.items())
    return head + b"".join(_text(word) + struct.pack("<q", i) for word, i in rows)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<i", data, at)
    if not 0 <= size <= _LONGEST_NAME:
        raise ValueError(f"a name of {size} bytes")
    if at + 4 + size > len(data):
        raise struct.error("the header ends")
    return bytes(data[at + 4 : at + 4 + size]).decode("utf-8", "surrogateescape"), at + 4 + size


def parse_header(data: bytes, where: str, at: int = 0) -> Header:
    """The header of any OpenFst file, without its symbol tables. struct.error where the bytes end too soon."""
    if struct.unpack_from("<i", data, at)[0] != _MAGIC:
        raise MdiError(f"{where}: not an OpenFst file; expected a binary VectorFst")
    kind, at = _read_text(data, at + 4)
    arc_type, at = _read_text(data, at)
    version, flags, properties, start, n_states, n_arcs = _HEADER.unpack_from(data, at)
    size = at + _HEADER.size
    return Header(arc_type, start, n_states, n_arcs, kind, version, properties, None, flags, size)


def read_whole_header(data: bytes, where: str) -> Header:
    """The header with its symbol tables; an MdiError where it is damaged."""
    try:
        header = parse_header(data, where)
        if not header.has_symbols:
            return header
        table, at = _parse_symbols(data, header.size)
        if header.flags & _HAS_SYMBOLS == _HAS_SYMBOLS:  # the same table once more, as a rule
            size = at - header.size
            at = at + size if data[at : at + size] == data[header.size : at] else _parse_symbols(data, at)[1]
    except (struct.error, ValueError) as error:
        raise damaged(where, error) from error
    return replace(header, size=at, symbols=table)


def _parse_symbols(data: bytes, at: int) -> tuple[Symbols, int]:
    if struct.unpack_from("<i", data, at)[0] != _SYMBOLS_MAGIC:
        raise ValueError("no symbol table where one was announced")
    name, at = _read_text(data, at + 4)
    _, n = struct.unpack_from("<qq", data, at)
    at += 16
    if not 0 <= n <= (len(data) - at) // 12:  # each has a length and a key
        raise ValueError(f"{n} symbols announced")
    first, size, key = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    end = kernels.symbol_places(np.frombuffer(data, np.uint8), at, n, first, size, key)
    if end < 0:
        raise ValueError("its symbol table ends too soon")
    words = (
        bytes(data[a:b]).decode("utf-8", "surrogateescape")
        for a, b in zip(first.tolist(), (first + size).tolist(), strict=True)
    )
    keys = dict(zip(words, key.tolist(), strict=True))
    if len(keys) < n:  # a key may belong to two symbols: <s> and </s> of Vosk's small model have the same
        raise ValueError("a symbol appears twice in its symbol table")
    return Symbols(name, keys), int(end)


def symbols_name(data: bytes, header: Header) -> str:
    """The name of the symbol table after a header. struct.error where the bytes end too soon."""
    return _read_text(data, header.size + 4)[0]


def to_text(fst: Arcs) -> Iterator[bytes]:
    """OpenFst's text with labels as numbers, state by state, as fstprint and kaldilm have it and k2.Fsa.from_openfst
    reads it: a line for an arc and one for a final state, the start state first, weights of 0 left out."""
    begin, ends = fst.begin.tolist(), fst.final[:, 0].tolist()
    for s in [fst.start, *(s for s in range(fst.n_states) if s != fst.start)]:
        here = slice(begin[s], begin[s + 1])
        columns = fst.dest[here], fst.ilabel[here], fst.olabel[here], fst.weight[here, 0]
        lines = [
            f"{s}\t{dest}\t{i}\t{o}\t{w:.7g}\n" if w else f"{s}\t{dest}\t{i}\t{o}\n"
            for dest, i, o, w in zip(*(column.tolist() for column in columns), strict=True)
        ]
        if ends[s] != float("inf"):
            lines.append(f"{s}\t{ends[s]:.7g}\n" if ends[s] else f"{s}\n")
        yield "".join(lines).encode()


def begins_fst(data: bytes) -> bool:
    """Whether these are the first bytes of an OpenFst file."""
    return data[:4] == struct.pack("<i", _MAGIC)


def damaged(where: str, why: object) -> MdiError:
    return MdiError(f"{where}: cut off or damaged ({why}); expected an OpenFst file. Make it again")


def from_bytes(data: bytes, where: str = "the FST") -> Arcs:
    """A VectorFst or ConstFst of standard or lattice arcs."""
    header = read_whole_header(data, where)
    try:
        return parse_arcs(data, header, where)
    except ValueError as error:
        raise damaged(where, error) from error


def parse_arcs(data: bytes, header: Header, where: str) -> Arcs:
    """The states and arcs after a header. ValueError where they are damaged."""
    if header.kind not in ("vector", "const"):
        raise MdiError(
            f"{where}: an FST of type {header.kind}; expected vector or const (run: fstconvert --fst_type=vector)"
        )
    if header.arc_type not in _FLOATS:
        raise MdiError(f"{where}: arcs of type {header.arc_type}; expected {' or '.join(_FLOATS)}")
    floats = _FLOATS[header.arc_type]
    smallest = floats + (2 if header.kind == "vector" else 4)
    if not 0 <= header.n_states <= (len(data) - header.size) // (4 * smallest):
        raise ValueError(f"{header.n_states:,} states announced in {len(data):,} bytes")
    begin, rows, final = (_parse_vector if header.kind == "vector" else _parse_const)(data, header, floats)
    ilabel, olabel, dest = (rows[:, i].copy() for i in (0, 1, floats + 2))
    weight, final = (np.ascontiguousarray(part).view(np.float32) for part in (rows[:, 2 : 2 + floats], final))
    arcs = Arcs(header.start, begin, ilabel, olabel, weight, dest, final)
    if not -1 <= arcs.start < arcs.n_states:
        raise ValueError(f"start state {arcs.start} of {arcs.n_states:,}")
    if arcs.n_arcs and not (arcs.dest.min() >= 0 and arcs.dest.max() < arcs.n_states):
        raise ValueError("an arc leads to a state that is not there")
    return arcs


def _parse_vector(data: bytes, header: Header, floats: int) -> tuple[Array, Array, Array]:
    """(begin of the arcs of each state, rows of arcs, bits of the final weights)"""
    body = np.frombuffer(data, np.int32, (len(data) - header.size) // 4, header.size)
    begin = np.zeros(header.n_states + 1, np.int64)
    used = kernels.vector_arcs(body, floats, begin)
    if used < 0:
        raise ValueError("the states end too soon" if used == kernels.CUT_OFF else "a state has too many arcs")
    first, is_arc = layout(begin, floats)
    return begin, body[:used][is_arc].reshape(-1, floats + 3), body[first[:, None] + np.arange(floats)]


def _parse_const(data: bytes, header: Header, floats: int) -> tuple[Array, Array, Array]:
    """The same."""
    n, n_arcs, (at_states, at_arcs, end) = header.n_states, header.n_arcs, header.const_places()
    if n_arcs < 0 or end > len(data):
        raise ValueError("the file ends too soon")
    states = np.frombuffer(data, np.int32, n * (floats + 4), at_states).reshape(n, floats + 4)
    begin = np.zeros(n + 1, np.int64)
    np.cumsum(states[:, floats + 1].view(np.uint32), out=begin[1:])
    if begin[-1] != header.n_arcs or not np.array_equal(begin[:-1], states[:, floats].view(np.uint32)):
        raise ValueError("the states' arcs do not add up")
    rows = np.frombuffer(data, np.int32, n_arcs * (floats + 3), at_arcs).reshape(n_arcs, floats + 3)
    return begin, rows, states[:, :floats]
