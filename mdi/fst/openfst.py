"""OpenFst's VectorFst as arrays, and the bytes of its file: millions of arcs go to and from OpenFst in one piece.

The file: magic, type of FST, type of arc, version, flags, properties, start, states, arcs; then for each state its
final weight, its number of arcs and the arcs. A weight is one float for the arc type "standard", two (graph, acoustic)
for Kaldi's "lattice4".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError

Array = np.ndarray
_MAGIC = 2125659606
# What OpenFst cannot doubt of any such file: expanded and mutable. It works out the rest when asked.
_PROPERTIES = 0x3
_HEADER = struct.Struct("<iiQqqq")
_FLOATS = {"standard": 1, "lattice4": 2}


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
    begin: Array
    ilabel: Array
    olabel: Array
    weight: Array
    dest: Array
    final: Array


def from_unsorted(
    start: int, n_states: int, source: Array, ilabel: Array, olabel: Array, weight: Array, dest: Array, final: Array
) -> Arcs:
    """Arcs in any order, sorted by state and input label; arcs of one state and label keep their order."""
    order = np.lexsort((ilabel, source))
    begin = np.zeros(n_states + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=n_states), out=begin[1:])
    final = np.asarray(final, np.float32).reshape(n_states, -1)
    weight = np.asarray(weight, np.float32).reshape(len(source), final.shape[1])
    return Arcs(
        start, begin, ilabel[order].astype(np.int32), olabel[order].astype(np.int32), weight[order],
        dest[order].astype(np.int32), final,
    )  # fmt: skip


def _places(begin: Array, floats: int) -> tuple[Array, Array, int]:
    """Where each state and each arc lies, in 4-byte words, and how many words there are."""
    n_arcs = np.diff(begin)
    states = np.arange(len(n_arcs), dtype=np.int64) * (floats + 2) + begin[:-1] * (floats + 3)
    arcs = np.repeat(states + floats + 2, n_arcs) + (np.arange(begin[-1]) - np.repeat(begin[:-1], n_arcs)) * (
        floats + 3
    )
    return states, arcs, len(n_arcs) * (floats + 2) + int(begin[-1]) * (floats + 3)


def to_bytes(fst: Arcs, arc_type: str = "standard") -> bytes:
    floats = _FLOATS[arc_type]
    states, arcs, size = _places(fst.begin, floats)
    body = np.empty(size, np.int32)
    for i in range(floats):
        body[states + i] = fst.final[:, i].astype(np.float32).view(np.int32)
        body[arcs + 2 + i] = fst.weight[:, i].astype(np.float32).view(np.int32)
    body[states + floats] = np.diff(fst.begin)
    body[states + floats + 1] = 0  # the upper half of a 64-bit count
    body[arcs], body[arcs + 1], body[arcs + 2 + floats] = fst.ilabel, fst.olabel, fst.dest
    return fst_header(arc_type, fst.start, fst.n_states, fst.n_arcs) + body.tobytes()


def fst_header(arc_type: str, start: int, n_states: int, n_arcs: int) -> bytes:
    head = struct.pack("<i", _MAGIC) + b"".join(struct.pack("<i", len(s)) + s.encode() for s in ("vector", arc_type))
    return head + _HEADER.pack(2, 0, _PROPERTIES, start, n_states, n_arcs)


def read_header(data: bytes, where: str) -> tuple[str, int, int, int]:
    """(type of arc, start, states, size of the header) of a VectorFst. struct.error where the bytes end too soon."""
    if struct.unpack_from("<i", data)[0] != _MAGIC:
        raise MdiError(f"{where}: not an OpenFst file; expected a binary VectorFst")
    at, types = 4, []
    for _ in range(2):
        (size,) = struct.unpack_from("<i", data, at)
        types.append(data[at + 4 : at + 4 + size].decode())
        at += 4 + size
    if types[0] != "vector":
        raise MdiError(f"{where}: an FST of type {types[0]}; expected vector (run: fstconvert --fst_type=vector)")
    _, flags, _, start, n_states, _ = _HEADER.unpack_from(data, at)
    if flags:
        raise MdiError(
            f"{where}: the FST holds its own symbol tables; expected none (write it with --keep_isymbols=false)"
        )
    return types[1], int(start), int(n_states), at + _HEADER.size


def is_fst(path: str) -> bool:
    """Whether a file begins as OpenFst's do."""
    try:
        with open(path, "rb") as stream:
            return stream.read(4) == struct.pack("<i", _MAGIC)
    except OSError:
        return False


def from_bytes(data: bytes, where: str = "the FST") -> Arcs:
    """A VectorFst of standard or lattice arcs."""
    try:
        return _parse(data, where)
    except (struct.error, UnicodeDecodeError, ValueError, IndexError) as error:
        raise MdiError(f"{where}: cut off or damaged ({error}); expected an OpenFst file. Make it again") from error


def _parse(data: bytes, where: str) -> Arcs:
    kind, start, n_states, at = read_header(data, where)
    if kind not in _FLOATS:
        raise MdiError(f"{where}: arcs of type {kind}; expected {' or '.join(_FLOATS)}")
    floats = _FLOATS[kind]
    body = np.frombuffer(data, np.int32, (len(data) - at) // 4, at)
    begin = np.zeros(n_states + 1, np.int64)
    place = 0
    for s in range(n_states):  # a state is found only by the one before it
        n = int(body[place + floats])
        begin[s + 1] = begin[s] + n
        place += floats + 2 + n * (floats + 3)
    states, arcs, _ = _places(begin, floats)
    real = body.view(np.float32)
    return Arcs(
        start, begin, body[arcs], body[arcs + 1], np.stack([real[arcs + 2 + i] for i in range(floats)], 1),
        body[arcs + 2 + floats], np.stack([real[states + i] for i in range(floats)], 1),
    )  # fmt: skip
