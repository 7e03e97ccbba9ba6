"""Speech to lattices: senone scores, Kaldi's lattice decoder on HCLG.fst, and determinisation to words."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import parent_process
from pathlib import Path

import numpy as np

from mdi.errors import MdiError
from mdi.kernels.determinize import collect_frames, determinize
from mdi.progress import Progress
from mdi.speech.acoustic import FRAMES_A_SECOND, Scorer
from mdi.speech.data import DataFolder, Sound
from mdi.speech.lattice import Lattice, scaled, tidy
from mdi.speech.lattice_files import lattice_writer, parse_fst, read_lattices, to_binary

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
    label = np.zeros(raw.n_arcs, np.int32)
    emits = raw.stop > raw.first
    label[emits] = raw.frames[raw.first[emits]]
    room, whole = 4 * raw.n_arcs + 1024, False
    while not whole:  # how much there will be shows only when it is made
        arcs, finals, tree, n_states, whole = determinize(
            raw.begin,
            label,
            raw.label,
            raw.dest,
            raw.graph,
            raw.acoustic,
            raw.final_graph,
            raw.final_acoustic,
            beam,
            room,
        )
        whole = whole or room > MAX_ROOM
        room *= 4
    source, word, graph, acoustic, dest, first, last = arcs
    at, end_graph, end_acoustic, end_first, end_last = finals
    depth = tree[2]
    stops = np.concatenate([[0], np.cumsum(depth[np.r_[last, end_last]] - depth[np.r_[first, end_first]])])
    frames = np.empty(stops[-1], np.int32)
    collect_frames(np.r_[first, end_first], np.r_[last, end_last], *tree, stops, frames)
    order = np.argsort(source, kind="stable")
    begin = np.zeros(n_states + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=n_states), out=begin[1:])
    final_graph, final_acoustic = np.full(n_states, np.inf), np.full(n_states, np.inf)
    final_graph[at], final_acoustic[at] = end_graph, end_acoustic
    final_first, final_stop = np.zeros(n_states, np.int64), np.zeros(n_states, np.int64)
    final_first[at], final_stop[at] = stops[len(source) : -1], stops[len(source) + 1 :]
    begins, ends = stops[: len(source)], stops[1 : len(source) + 1]
    made = Lattice(
        raw.utterance,
        begin,
        word[order],
        dest[order],
        graph[order],
        acoustic[order],
        begins[order],
        ends[order],
        final_graph,
        final_acoustic,
        final_first,
        final_stop,
        frames,
    )  # fmt: skip
    return tidy(made)


def _one_word() -> Lattice:
    one, none, end = np.ones(1, np.int64), np.zeros(2, np.int64), np.array([np.inf, 0.0])
    label = np.ones(1, np.int32)
    return Lattice(
        "", np.array([0, 1, 1]), label, label, np.zeros(1), np.zeros(1), 0 * one, one, end, end, none, none, label
    )


class Recognizer:
    """One process's decoder: the graph is read once."""

    def __init__(self, graph: str, n_senones: int, options: Options) -> None:
        import kaldifst

        self.options = options
        self.scorer = Scorer(n_senones)
        with open(graph, "rb") as stream:
            head = stream.read(32)
        reader = kaldifst.StdConstFst if b"const" in head else kaldifst.StdVectorFst
        self.graph = reader.read(graph)
        if self.graph is None or self.graph.start < 0:
            raise MdiError(f"{graph}: not an FST, or an empty one; make it with mdi graph")
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
        raw.write(self.scratch)
        with open(self.scratch, "rb") as stream:
            lattice = parse_fst(stream.read(), utterance)
        lattice = scaled(word_lattice(lattice, self.options.lattice_beam), 1.0 / self.options.acoustic_scale)
        clock.append(time.process_time())
        here = Times(1, len(scores) / FRAMES_A_SECOND, *(b - a for a, b in pairwise(clock)))
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
        return Times()
    sound = Sound(DataFolder(Path(job.data)))
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
