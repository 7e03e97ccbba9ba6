"""OpenFst's `olabel_lookahead` FSTs, such as Vosk's HCLr.fst, byte for byte: a ConstFst, and for each state the labels
that can come first from it, which composition looks ahead at. All little-endian:

    header      of the type olabel_lookahead, version 1, with no start, no states and no arcs
    int32       446681434: something is added on
    const       a whole ConstFst with its own header (mdi/fst/openfst.py), arcs sorted by output label
    5 bytes     1 (something is added), 0 (nothing for the input side), 1 (but for the output side), 0 (its labels are
                not the input's), 1 if pairs (label, number) of a relabelling follow: int64 and so many pairs of int32
    int32       final_label: what stands for the end in the sets
    int64       number of sets, one for each state: int64 number of intervals, int32 first and end of each (half-open,
                ascending, apart from each other), int32 number of labels in them
"""

import struct
from dataclasses import dataclass, replace

import numpy as np

from mdi.errors import OtherKindError
from mdi.files import read_bytes, writing
from mdi.fst.openfst import Arcs, Header, damaged, parse_arcs, parse_header
from mdi.kernels import lookahead as kernels
from mdi.lm.trie import NONE, Array

KIND = "olabel_lookahead"
_ADD_ON = 446681434
# Properties that OpenFst knows of a file, and their opposites: deterministic by input, no epsilons, none in the input.
_NO_LONGER = {0x40000: 0x80000, 0x800000: 0x400000, 0x2000000: 0x1000000}


@dataclass(frozen=True)
class LabelSets:
    """Of state s: the labels from interval[i, 0] to interval[i, 1], which is not among them, i = begin[s] ..
    begin[s + 1]."""

    begin: Array  # int64, states + 1
    interval: Array  # int32, n x 2

    def size(self) -> Array:
        """Labels in each set."""
        total = np.concatenate([[0], np.cumsum(self.interval[:, 1] - self.interval[:, 0].astype(np.int64))])
        return np.asarray(total[self.begin[1:]] - total[self.begin[:-1]])

    @staticmethod
    def places(begin: Array) -> tuple[Array, Array, Array]:
        """Where they lie in a file, in words of 4 bytes: (where each set begins, where it ends with the number of its
        labels, which words are intervals)"""
        first = 3 * np.arange(len(begin)) + 2 * begin
        is_interval = np.ones(first[-1], bool)
        for place in (first[:-1], first[:-1] + 1, first[1:] - 1):
            is_interval[place] = False
        return first[:-1], first[1:] - 1, is_interval

    def to_bytes(self) -> bytes:
        first, last, is_interval = self.places(self.begin)
        words = np.zeros(len(is_interval), np.int32)
        words[first], words[last], words[is_interval] = np.diff(self.begin), self.size(), self.interval.ravel()
        return words.tobytes()


@dataclass(frozen=True)
class LookaheadFst:
    arcs: Arcs
    sets: LabelSets
    final_label: int
    outer: Header
    inner: Header
    relabelling: Array  # int32, n x 2, or NONE where the file keeps none

    def with_arcs(self, arcs: Arcs) -> "LookaheadFst":
        """The same with other arcs, which need be neither deterministic nor free of epsilons; sets are computed."""
        inner = replace(self.inner, n_states=arcs.n_states, n_arcs=arcs.n_arcs, properties=_weaker(self.inner))
        outer = replace(self.outer, properties=_weaker(self.outer))
        sets = label_sets(arcs, self.final_label)
        return replace(self, arcs=arcs, sets=sets, inner=inner, outer=outer)


def _weaker(header: Header) -> int:
    properties = header.properties
    for known, opposite in _NO_LONGER.items():
        if properties & known:
            properties = properties & ~known | opposite
    return properties


def label_sets(arcs: Arcs, final_label: int) -> LabelSets:
    """From their definition: see mdi/kernels/lookahead.py."""
    component, n = kernels.components(arcs.begin, arcs.olabel, arcs.dest)
    final = np.isfinite(arcs.final[:, 0])
    begin, packed = kernels.label_sets(arcs.begin, arcs.olabel, arcs.dest, final, final_label, component, n)
    size = np.diff(begin)[component]
    by_state = np.concatenate([[0], np.cumsum(size)])
    packed = packed[np.repeat(begin[component] - by_state[:-1], size) + np.arange(by_state[-1])]
    return LabelSets(by_state, np.stack([packed >> 32, packed & 0xFFFFFFFF], 1).astype(np.int32))


def read_lookahead(path: str) -> LookaheadFst:
    return parse_lookahead(read_bytes(path), path)


def parse_lookahead(data: bytes, where: str) -> LookaheadFst:
    try:
        return _parse(data, where)
    except (struct.error, ValueError) as error:
        raise damaged(where, error) from error


def _parse(data: bytes, where: str) -> LookaheadFst:
    outer = parse_header(data, where)
    if outer.kind != KIND or outer.arc_type != "standard":
        raise OtherKindError(
            f"{where}: an FST of type {outer.kind} with arcs of type {outer.arc_type}; expected {KIND} and standard, "
            f"which Kaldi's utils/mkgraph_lookahead.sh makes"
        )
    if struct.unpack_from("<i", data, outer.size)[0] != _ADD_ON:
        raise ValueError("nothing is added on")
    at = outer.size + 4
    inner = parse_header(data, where, at)
    if inner.kind != "const" or inner.arc_type != "standard" or outer.has_symbols or inner.has_symbols:
        raise ValueError(f"an FST of type {inner.kind} within, or symbol tables")
    arcs = parse_arcs(data, inner, where)
    *_, at = inner.const_places()
    added, for_input, for_output, of_input, keeps_pairs = struct.unpack_from("<5B", data, at)
    if (added, for_input, for_output, of_input) != (1, 0, 1, 0) or keeps_pairs > 1:
        raise ValueError("no sets of output labels")
    at += 5
    pairs = NONE
    if keeps_pairs:
        (n,) = struct.unpack_from("<q", data, at)
        pairs = _int32s(data, at + 8, 2 * n).reshape(-1, 2)
        at += 8 + 8 * n
    final_label, n = struct.unpack_from("<iq", data, at)
    if n != arcs.n_states:
        raise ValueError(f"{n:,} sets of labels for {arcs.n_states:,} states")
    words = _int32s(data, at + 12, (len(data) - at - 12) // 4)
    begin = np.zeros(n + 1, np.int64)
    used = kernels.set_places(words, begin)
    if used < 0:
        raise ValueError("its sets of labels " + ("end too soon" if used == kernels.CUT_OFF else "are no sets"))
    if used != len(words) or at + 12 + 4 * used != len(data):
        raise ValueError("bytes after its end")
    interval = words[LabelSets.places(begin)[2]].reshape(-1, 2)
    _check(arcs, final_label)
    return LookaheadFst(arcs, LabelSets(begin, interval), final_label, outer, inner, pairs)


def _int32s(data: bytes, at: int, n: int) -> Array:
    if not 0 <= n <= (len(data) - at) // 4:
        raise ValueError("the file ends too soon")
    return np.frombuffer(data, "<i4", n, at).copy()


def _check(arcs: Arcs, final_label: int) -> None:
    if arcs.start < 0 or not arcs.n_states:
        raise ValueError("no start")
    if (arcs.n_arcs and min(arcs.ilabel.min(), arcs.olabel.min()) < 0) or not 0 < final_label < 2**31 - 1:
        raise ValueError("a negative label")
    same = np.diff(arcs.source) == 0
    if (np.diff(arcs.olabel.astype(np.int64))[same] < 0).any():
        raise ValueError("arcs out of order")
    if not np.isfinite(arcs.weight).all() or np.isnan(arcs.final).any():
        raise ValueError("a weight that is no number")


def to_bytes(fst: LookaheadFst) -> bytes:
    arcs, n = fst.arcs, fst.arcs.n_states
    states = np.empty((n, 5), np.int32)
    states[:, 0] = arcs.final[:, 0].view(np.int32)
    states[:, 1], states[:, 2] = arcs.begin[:-1], np.diff(arcs.begin)
    for column, label in ((3, arcs.ilabel), (4, arcs.olabel)):
        states[:, column] = np.bincount(arcs.source[label == 0], minlength=n)
    out = fst.outer.to_bytes() + struct.pack("<i", _ADD_ON) + fst.inner.to_bytes()
    for at, part in zip(replace(fst.inner, size=len(out)).const_places(), (states, arcs.rows), strict=False):
        out += bytes(at - len(out)) + part.tobytes()
    keeps = fst.relabelling is not NONE
    out += bytes([1, 0, 1, 0, keeps])
    if keeps:
        out += struct.pack("<q", len(fst.relabelling)) + fst.relabelling.tobytes()
    return out + struct.pack("<iq", fst.final_label, n) + fst.sets.to_bytes()


def write_lookahead(fst: LookaheadFst, path: str) -> None:
    with writing(path) as stream:
        stream.write(to_bytes(fst))
