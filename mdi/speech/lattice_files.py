"""Archives of lattices as Kaldi writes and reads them: `utterance` and a CompactLattice in text or binary, one after
the other.

kaldiio reads no lattices, hence this. A file is read in pieces, so that an archive may be larger than memory.
"""

import contextlib
import math
import re
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from mdi.errors import MdiError
from mdi.files import check_regular, read_chunks, writing
from mdi.fst.openfst import Header, begins_fst, damaged, parse_header
from mdi.kernels import lattice as kernels
from mdi.kernels.lattice import LatticeArcs, LatticeArrays, LatticeFinals
from mdi.lm.vocabulary import to_bytes, to_str
from mdi.speech.lattice import Lattice, finals_at, tidy

_COMPACT, _PLAIN = "compactlattice44", "lattice4"
_SPACES = b" \t\n\r"


class _Window:
    """What has been read of a file and not yet used."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.chunks = read_chunks(path, 1 << 22)
        self.data = b""
        self.at = 0

    def more(self) -> bool:
        chunk = next(self.chunks, b"")
        self.data = self.data[self.at :] + chunk
        self.at = 0
        return bool(chunk)

    def find(self, mark: bytes) -> int:
        """Where the mark is, from here on; -1 if the file ends without it."""
        while (place := self.data.find(mark, self.at)) < 0:
            if not self.more():
                return -1
        return place

    def need(self, size: int) -> bool:
        while len(self.data) - self.at < size:
            if not self.more():
                return False
        return True


def read_lattices(path: str) -> Iterator[Lattice]:
    """The lattices of an archive, plain or gzipped, text or binary. A damaged or empty one is an error with its
    utterance."""
    window = _Window(path)
    while True:
        while window.need(1) and window.data[window.at] in _SPACES:
            window.at += 1
        if not window.need(1):
            return
        space = window.find(b" ")
        key = window.data[window.at : space if space >= 0 else None]
        if space < 0 or b"\n" in key or b"\0" in key or len(key) > 10_000:
            raise MdiError(
                f"{path}: '{to_str(key[:60])}'; expected an utterance and its lattice, as in Kaldi's lat.1.gz"
            )
        utterance = to_str(key)
        window.at = space + 1
        window.need(4)
        binary = begins_fst(window.data[window.at : window.at + 4])
        yield (_read_binary if binary else _read_text)(window, utterance)


def _read_text(window: _Window, utterance: str) -> Lattice:
    where = f"{window.path}: lattice of utterance {utterance}"
    start = window.find(b"\n")
    if start < 0:
        raise MdiError(f"{where}: the file ends; expected its lines")
    if window.data[window.at : start].strip():
        raise MdiError(
            f"{where}: '{to_str(window.data[window.at : start][:60])}'; expected a CompactLattice, text or binary"
        )
    window.at = start + 1
    if window.need(1) and window.data[window.at] == 10:  # no line at all
        raise MdiError(f"{where} is empty; decode the utterance again")
    blank = window.find(b"\n\n")
    text = window.data[window.at : blank + 1 if blank >= 0 else None]
    window.at = blank + 2 if blank >= 0 else len(window.data)
    rows: list[tuple[float, ...]] = []
    ends: list[tuple[float, ...]] = []
    frames: list[int] = []
    for line in filter(bytes.strip, text.split(b"\n")):
        try:
            numbers, *costs, read = _parse_line(line.split())
        except ValueError:
            raise MdiError(
                f"{where}: '{to_str(line[:80])}'; expected 'from to word graph,acoustic,frames' or 'state "
                f"graph,acoustic,frames'"
            ) from None
        (rows if len(numbers) == 3 else ends).append((*numbers, *costs, len(frames), len(frames) + len(read)))
        frames += read
    if not rows and not ends:
        raise MdiError(f"{where} is empty; decode the utterance again")
    arcs, finals = np.array(rows, _ARC), np.array(ends, _END)
    start_state = int(text.split(None, 1)[0])  # Kaldi's rule: the state of the first line
    source, dest, state = arcs["source"], arcs["dest"], finals["state"]
    states = 1 + int(max(np.max(numbers, initial=0) for numbers in (source, dest, state)))
    if states > 4 * (len(arcs) + len(finals)):  # numbers with gaps: memory shall follow the size of the file
        used, new = np.unique(np.concatenate([source, dest, state]), return_inverse=True)
        source, dest, state = np.split(new, [len(arcs), 2 * len(arcs)])
        start_state, states = int(np.searchsorted(used, start_state)), len(used)
    order = np.argsort(source, kind="stable")
    lattice = Lattice(
        utterance=utterance,
        begin=np.append(0, np.cumsum(np.bincount(source, minlength=states))),
        arcs=LatticeArcs(arcs["label"][order], dest[order].astype(np.int32), *(arcs[name][order] for name in _WEIGHT)),
        finals=finals_at(states, state, LatticeFinals(*(finals[name] for name in _WEIGHT))),
        frames=np.array(frames, np.int32),
    )
    return tidy(lattice, start_state, window.path)


_WEIGHT = {"graph": "f8", "acoustic": "f8", "first": "i8", "stop": "i8"}
_ARC = np.dtype([("source", "i8"), ("dest", "i4"), ("label", "i4"), *_WEIGHT.items()])
_END = np.dtype([("state", "i8"), *_WEIGHT.items()])


def _parse_line(fields: list[bytes]) -> tuple[list[int], float, float, list[int]]:
    """(source, destination and word, or the state that is final; graph cost, acoustic cost, frames) of the fields of a
    line. That of a plain lattice has a frame, or 0 for none, before the word."""
    graph, acoustic, *rest = fields.pop().split(b",") if b"," in fields[-1] else (b"0", b"0")
    read = [_integer(frame) for frame in b"_".join(rest).split(b"_") if frame]
    numbers = [_integer(field) for field in fields]
    if len(numbers) == 4:
        read += filter(None, [numbers.pop(2)])
    costs = float(graph), float(acoustic)
    if len(numbers) not in (1, 3) or len(rest) > 1 or not all(map(math.isfinite, costs)) or b"_" in graph + acoustic:
        raise ValueError(fields)
    return numbers, *costs, read


def _integer(text: bytes) -> int:
    """Of digits alone, that fits into 32 bits with a sign."""
    if not text.isdigit() or int(text) >= 1 << 31:
        raise ValueError(text)
    return int(text)


def _room_for_arcs(n: int) -> LatticeArcs:
    return LatticeArcs(np.empty(n, np.int32), np.empty(n, np.int32), *_room_for_finals(n))


def _room_for_finals(n: int) -> LatticeFinals:
    return LatticeFinals(np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64))


_NOTHING = LatticeArrays(np.zeros(0, np.int64), _room_for_arcs(0), _room_for_finals(0), np.zeros(0, np.int32))


def _read_binary(window: _Window, utterance: str) -> Lattice:
    where = f"{window.path}: lattice of utterance {utterance}"
    while (found := _parse_binary(window.data, window.at, utterance, where)) is None:
        if not window.more():
            raise MdiError(f"{where}: cut off or damaged; copy the file again or decode again")
    lattice, start, size = found
    window.at += size
    return tidy(lattice, start, window.path)


def _parse_binary(data: bytes, at: int, utterance: str, where: str) -> tuple[Lattice, int, int] | None:
    """(lattice, its start, bytes used) of the FST from `at` on, or None where the bytes end before it does."""
    try:
        header = parse_header(data[at : at + 200], where)
    except struct.error:
        return None
    except ValueError as error:
        raise damaged(where, error) from error
    kind, n_states, head = header.arc_type, header.n_states, header.size
    if header.kind != "vector" or header.flags:
        raise MdiError(f"{where}: an FST of type {header.kind}, or symbol tables in it; expected a lattice")
    if kind not in (_COMPACT, _PLAIN):
        raise MdiError(f"{where}: arcs of type {kind}; expected {_COMPACT} (run: lattice-copy)")
    if n_states <= 0:
        raise MdiError(f"{where} is empty; decode the utterance again")
    compact = kind == _COMPACT
    body = np.frombuffer(data, np.int32, max(0, len(data) - at - head) // 4, at + head)
    size, n_arcs, n_frames = kernels.parse_bytes(body, n_states, compact, False, _NOTHING)
    if size == -2:
        raise MdiError(f"{where}: cut off or damaged; copy the file again or decode again")
    if size < 0:
        return None
    lattice = Lattice(
        utterance=utterance,
        begin=np.empty(n_states + 1, np.int64),
        arcs=_room_for_arcs(n_arcs),
        finals=_room_for_finals(n_states),
        frames=np.empty(n_frames, np.int32),
    )
    kernels.parse_bytes(body, n_states, compact, True, lattice.arrays)
    if not _is_sound(lattice):
        raise MdiError(
            f"{where}: a label or frame below 0, or a cost that is no number; the file is damaged, copy it again or "
            f"decode again"
        )
    return lattice, header.start, head + 4 * int(size)


def _is_sound(lattice: Lattice) -> bool:
    """Whether labels and frames are not negative and costs are numbers; a state that is not final costs infinity."""
    arcs, finals = lattice.arcs, lattice.finals
    numbers = np.isfinite(finals.graph) & np.isfinite(finals.acoustic)
    fine = numbers | ((finals.graph == np.inf) & (finals.acoustic > -np.inf))
    fine_arcs = (arcs.label >= 0) & np.isfinite(arcs.graph) & np.isfinite(arcs.acoustic)
    return bool(fine.all() and fine_arcs.all() and lattice.frames.min(initial=0) >= 0)


def to_binary(lattice: Lattice) -> bytes:
    """One entry of a binary archive."""
    held = sum(int((part.stop - part.first).sum()) for part in (lattice.arcs, lattice.finals))
    body = np.empty(5 * lattice.n_states + 6 * lattice.n_arcs + held, np.int32)
    used = kernels.format_bytes(lattice.arrays, body, body.view(np.float32))
    head = Header(_COMPACT, 0, lattice.n_states, lattice.n_arcs).to_bytes()
    return to_bytes(lattice.utterance) + b" " + head + body[:used].tobytes()


def _weights(part: LatticeArcs | LatticeFinals, frames: np.ndarray) -> list[str]:
    """'graph,acoustic,frames' of each arc, or final."""
    labels = frames.tolist()
    graph, acoustic = part.graph.astype(np.float32), part.acoustic.astype(np.float32)
    columns = zip(graph, acoustic, part.first.tolist(), part.stop.tolist(), strict=True)
    return [f"{g},{a},{'_'.join(map(str, labels[first:stop]))}" for g, a, first, stop in columns]


def to_text(lattice: Lattice) -> bytes:
    """One entry of a text archive; floats as short as single precision allows."""
    lines = [f"{lattice.utterance} "]
    weights, ends = _weights(lattice.arcs, lattice.frames), _weights(lattice.finals, lattice.frames)
    columns = zip(
        lattice.source.tolist(), lattice.arcs.dest.tolist(), lattice.arcs.label.tolist(), weights, strict=True
    )
    arcs: list[list[str]] = [[] for _ in range(lattice.n_states)]
    for s, t, word, weight in columns:
        arcs[s].append(f"{s}\t{t}\t{word}\t{weight}")
    for s in range(lattice.n_states):
        lines += arcs[s]
        if np.isfinite(lattice.finals.graph[s]):
            lines.append(f"{s}\t{ends[s]}")
    return to_bytes("\n".join(lines) + "\n\n")


@contextlib.contextmanager
def lattice_writer(path: str, text: bool = False) -> Iterator[Callable[[Lattice], int]]:
    """A function that adds a lattice to an archive, which appears when all are written."""
    form = to_text if text else to_binary
    with writing(path) as stream:
        yield lambda lattice: stream.write(form(lattice))


def read_all_lattices(path: str) -> Iterator[Lattice]:
    """Those of a decoding folder, or of the one archive named."""
    return chain.from_iterable(map(read_lattices, archives(path)))


def archives(path: str) -> list[str]:
    """The lattice files of a decoding folder (lat.1.gz, lat.2.gz ... by number) or the one file named."""
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    found = [file for file in folder.iterdir() if re.fullmatch(r"lat\.[0-9]+\.gz", file.name)]
    for file in found:
        check_regular(str(file))  # a pipe would wait
    if not found:
        raise MdiError(
            f"{path}: no lat.1.gz; expected a decoding directory with lattices, as mdi vosk decode --n-best makes them"
        )
    return [str(f) for f in sorted(found, key=lambda f: int(f.name[4:-3]))]
