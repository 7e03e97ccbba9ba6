"""Archives of lattices as Kaldi writes and reads them: `utterance` and a CompactLattice in text or binary, one after
the other.

kaldiio reads no lattices, hence this. A file is read in pieces, so that an archive may be larger than memory.
"""

import contextlib
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
from mdi.speech.lattice import Lattice, finals_at, taken, tidy

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
    buf = np.frombuffer(text, np.uint8)
    n = text.count(b"\n") + 1
    n_frames = text.count(b"_") + text.count(b",") + n  # at most
    source, state, frames = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n_frames, np.int32)
    arcs, ends = _room_for_arcs(n), _room_for_finals(n)
    n_arcs, n_finals, used, bad = kernels.parse_text(buf, source, arcs, state, ends, frames)
    if bad >= 0:
        line = to_str(text[bad:].split(b"\n", 1)[0][:80])
        raise MdiError(
            f"{where}: '{line}'; expected 'from to word graph,acoustic,frames' or 'state graph,acoustic,frames'"
        )
    if not n_arcs + n_finals:
        raise MdiError(f"{where} is empty; decode the utterance again")
    start_state = int(text.split(None, 1)[0])  # Kaldi's rule: the state of the first line
    source, state, arcs = source[:n_arcs], state[:n_finals], taken(arcs, np.arange(n_arcs))
    states = 1 + int(max(np.max(numbers, initial=0) for numbers in (source, arcs.dest, state)))
    if states > 4 * (n_arcs + n_finals):  # numbers with gaps: memory shall follow the size of the file
        used_states, numbers = np.unique(np.concatenate([source, arcs.dest, state]), return_inverse=True)
        source, dest, state = np.split(numbers, [n_arcs, 2 * n_arcs])
        arcs, states = arcs._replace(dest=dest.astype(np.int32)), len(used_states)
        start_state = int(np.searchsorted(used_states, start_state))
    lattice = Lattice(
        utterance=utterance,
        begin=np.append(0, np.cumsum(np.bincount(source, minlength=states))),
        arcs=taken(arcs, np.argsort(source, kind="stable")),
        finals=finals_at(states, state, taken(ends, np.arange(n_finals))),
        frames=frames[:used],
    )
    return tidy(lattice, start_state, window.path)


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
