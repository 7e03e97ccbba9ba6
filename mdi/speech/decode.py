"""Speech to lattices: senone scores, Kaldi's lattice decoder on HCLG.fst, and determinisation to words."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numpy as np

from mdi.errors import MdiError
from mdi.fst.openfst import from_bytes
from mdi.kernels.determinize import collect_frames, determinize
from mdi.kernels.lattice import LatticeArcs, LatticeFinals
from mdi.progress import Progress
from mdi.speech.acoustic import FRAMES_A_SECOND, Scorer
from mdi.speech.data import DataFolder
from mdi.speech.lattice import Lattice, finals_at, scaled, taken, tidy
from mdi.speech.lattice_files import lattice_writer, parse_fst, read_lattices, to_binary
from mdi.speech.sound import Sound

# A lattice that needs more is cut short: it comes from an utterance that the model does not understand at all.
MAX_ROOM = 1 << 21


@dataclass(frozen=True)
class Options:
    beam: float = 12.0
    lattice_beam: float = 6.0
    acoustic_scale: float = 0.1


@dataclass
class Times:
    """Where the seconds of the processor went, and on how much speech."""

    utterances: int = 0
    speech: float = 0.0
    senones: float = 0.0
    search: float = 0.0
    determinization: float = 0.0
    unfinished: list[str] = field(default_factory=list)

    def __iadd__(self, other: Times) -> Times:
        for name in ("utterances", "speech", "senones", "search", "determinization"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unfinished += other.unfinished
        return self

    @property
    def real_time_factor(self) -> float:
        return (self.senones + self.search + self.determinization) / max(self.speech, 1e-9)


def word_lattice(raw: Lattice, beam: float) -> Lattice:
    """The determinised lattice of a state lattice: one path a word sequence, its best one, for all within `beam` of
    the best."""
    room = 4 * raw.n_arcs + 1024
    while not (found := determinize(raw.arrays, beam, room)).whole and room <= MAX_ROOM:
        room *= 4  # how much there will be shows only when it is made
    arcs, finals = found.arcs, found.finals
    above, node = np.r_[arcs.above, finals.above], np.r_[arcs.node, finals.node]
    cut, frames = collect_frames(found.tree, above, node)
    (first, end_first), (stop, end_stop) = (np.split(part, [len(arcs.source)]) for part in (cut[:-1], cut[1:]))
    order = np.argsort(arcs.source, kind="stable")
    begin = np.zeros(found.n_states + 1, np.int64)
    np.cumsum(np.bincount(arcs.source, minlength=found.n_states), out=begin[1:])
    made = Lattice(
        utterance=raw.utterance,
        begin=begin,
        arcs=taken(LatticeArcs(arcs.word, arcs.dest, arcs.graph, arcs.acoustic, first, stop), order),
        finals=finals_at(
            found.n_states, finals.state, LatticeFinals(finals.graph, finals.acoustic, end_first, end_stop)
        ),
        frames=frames,
    )
    return tidy(made)


def _one_word() -> Lattice:
    one, zero, end = np.ones(1, np.int32), np.zeros(1), np.array([np.inf, 0.0])
    none, at = np.zeros(2, np.int64), np.arange(2)
    return Lattice(
        utterance="",
        begin=np.array([0, 1, 1]),
        arcs=LatticeArcs(label=one, dest=one, graph=zero, acoustic=zero, first=at[:1], stop=at[1:]),
        finals=LatticeFinals(graph=end, acoustic=end, first=none, stop=none),
        frames=one,
    )


def load_graph(path: str, n_senones: int) -> Any:
    """A graph for the decoder. One that is damaged or was made for another acoustic model is refused: OpenFst and the
    decoder follow its arcs without looking."""
    import kaldifst

    data = Path(path).read_bytes()
    arcs = from_bytes(data, path)
    good = arcs.start >= 0 and arcs.n_arcs > 0 and arcs.ilabel.min() >= 0 and arcs.ilabel.max() <= n_senones
    good = good and arcs.olabel.min() >= 0 and not np.isnan(arcs.weight).any() and not np.isnan(arcs.final).any()
    if not good or arcs.weight.shape[1] != 1:
        raise MdiError(f"{path}: no graph of this acoustic model; make it with mdi graph")
    graph = (kaldifst.StdConstFst if b"const" in data[:32] else kaldifst.StdVectorFst).read(path)
    if graph is None:
        raise MdiError(f"{path}: cannot be read; make it with mdi graph")
    return graph


class Recognizer:
    """One process's decoder: the graph is read once."""

    def __init__(self, graph: str, n_senones: int, options: Options) -> None:
        self.options = options
        self.scorer = Scorer(n_senones)
        self.graph = load_graph(graph, n_senones)
        self.scratch = os.path.join(self.scorer.folder.name, "raw.fst")
        self.times = Times()
        word_lattice(_one_word(), 1.0)  # compiles, or loads what was compiled, outside the times

    def __call__(self, utterance: str, samples: np.ndarray) -> Lattice:
        from kaldi_decoder import DecodableCtc, LatticeSimpleDecoder, LatticeSimpleDecoderConfig

        clock = [time.process_time()]
        scores = self.scorer(samples, utterance)
        clock.append(time.process_time())
        config = LatticeSimpleDecoderConfig(beam=self.options.beam, lattice_beam=self.options.lattice_beam)
        decoder = LatticeSimpleDecoder(self.graph, config)
        reached = decoder.decode(DecodableCtc(np.ascontiguousarray(scores * np.float32(self.options.acoustic_scale))))
        ok, raw = decoder.get_raw_lattice()
        if not ok or raw.num_states == 0:
            raise MdiError(f"utterance {utterance}: no path through the graph survived; use a larger --beam")
        clock.append(time.process_time())
        if not raw.write(self.scratch):  # what was there before would be taken for it
            raise MdiError(f"{self.scratch}: cannot write; is the disk full? TMPDIR names another place")
        with open(self.scratch, "rb") as stream:
            lattice = parse_fst(stream.read(), utterance)
        lattice = scaled(word_lattice(lattice, self.options.lattice_beam), 1.0 / self.options.acoustic_scale)
        clock.append(time.process_time())
        senones, search, determinization = (b - a for a, b in pairwise(clock))
        here = Times(1, len(scores) / FRAMES_A_SECOND, senones, search, determinization)
        if not reached:
            here.unfinished.append(utterance)
        self.times += here
        return lattice


@dataclass(frozen=True)
class Job:
    """One lat.N.gz: its utterances, and where its speech and its graph are."""

    number: int
    data: str
    graph: str
    n_senones: int
    folder: str
    utterances: list[str]
    options: Options
    text: bool = False

    @property
    def archive(self) -> Path:
        return Path(self.folder) / f"lat.{self.number}.gz"

    @property
    def part(self) -> Path:
        """Lattices as they are made, so that a stopped decoding goes on where it was."""
        return Path(self.folder) / f".lat.{self.number}.part"


def finished(job: Job) -> list[Lattice]:
    """What an earlier run left: whole lattices of its part file, which is cut after the last of them."""
    done: list[Lattice] = []
    if not job.part.exists():
        return done
    try:
        for lattice in read_lattices(str(job.part)):
            done.append(lattice)
    except MdiError:  # the one that was being written when it stopped
        with open(job.part, "r+b") as stream:
            stream.truncate(sum(len(to_binary(lattice)) for lattice in done))
    return done


def run_job(job: Job) -> Times:
    """Decodes what is missing and writes the archive."""
    if job.archive.exists():
        job.part.unlink(missing_ok=True)
        return Times()
    sound = Sound(DataFolder(Path(job.data)), allow_pipes=True)
    recognizer = Recognizer(job.graph, job.n_senones, job.options)
    progress = (
        Progress("decoding", len(job.utterances), "utterances") if job.number == 1 else None
    )  # the others are as far
    with open(job.part, "ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # a process of a run that was killed may still be at its utterance
        if job.archive.exists():
            return Times()
        done = {lattice.utterance for lattice in finished(job)}
        for n, utterance in enumerate(job.utterances):
            if progress:
                progress.update(n)
            if (parent := parent_process()) and not parent.is_alive():
                os._exit(1)  # that run was killed: nobody waits for this any more
            if utterance in done:
                continue
            stream.write(to_binary(recognizer(utterance, sound.samples(utterance))))
            stream.flush()
    if progress:
        progress.close()
    with lattice_writer(str(job.archive), job.text) as write:
        for lattice in read_lattices(str(job.part)):
            write(lattice)
    job.part.unlink()
    return recognizer.times


def decode_jobs(jobs: list[Job]) -> Times:
    """All jobs, each in a process of its own; in this one where there is only one."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    total = Times()
    if len(jobs) == 1:
        total += run_job(jobs[0])
        return total
    # A fresh interpreter for each: the libraries behind it are not made for being forked.
    with ProcessPoolExecutor(len(jobs), mp_context=get_context("spawn")) as pool:
        for times in pool.map(run_job, jobs):
            total += times
    return total
