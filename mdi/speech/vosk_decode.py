"""A Kaldi data folder through libvosk, which is Kaldi's decoder: what it says of every utterance, and Kaldi's files.

results.N.jsonl   libvosk's own answers, one utterance per line, as they come: a stopped decoding goes on after them
text, ctm         the words, and when they were said with what confidence (seconds from the utterance's beginning)
nbest, lat.N.gz   the best sequences with their scores, and the same as lattices, for `mdi rescore` and `mdi score`
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdi.errors import MdiError
from mdi.files import replacing, writing
from mdi.fst.symbols import SymbolTable
from mdi.kernels.lattice import LatticeArcs, LatticeFinals
from mdi.lm.vocabulary import to_bytes
from mdi.process import call_apart
from mdi.progress import Progress, say
from mdi.speech.data import DataFolder
from mdi.speech.lattice import Lattice
from mdi.speech.lattice_files import lattice_writer
from mdi.speech.rescore import CHEAPEST, EXACT, LatticeModel, add_model, lattice_model
from mdi.speech.sound import SAMPLE_RATE, Sound
from mdi.speech.vosk import VoskFolder
from mdi.speech.word_graph import Labels, WordGraph, from_confidences, from_paths

# Chain models are decoded with an acoustic scale of 1. Kaldi's recipes multiply the acoustic costs of their lattices by
# this (--post-decode-acwt), so that LM weights are around 10 as with other models; then 10 is as it was decoded.
ACOUSTIC_FACTOR = 10.0
# libvosk multiplies the graph costs of its lattices by this before it looks for the best sequences.
GRAPH_SCALE = 0.9
FRAME = 0.03  # seconds, at a frame subsampling of 3


@dataclass(frozen=True)
class Word:
    word: str
    begin: float
    end: float
    confidence: float = 1.0


@dataclass(frozen=True)
class Alternative:
    """A sequence of words, and its score: ln of the likelihood, acoustic and GRAPH_SCALE times that of the graph."""

    words: list[Word]
    score: float = 0.0

    @property
    def text(self) -> list[str]:
        return [word.word for word in self.words]


@dataclass(frozen=True)
class Recognised:
    utterance: str
    seconds: float
    alternatives: list[Alternative]


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"'{str(value)[:40]}' in place of a number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"'{str(value)[:40]}' in place of text")
    return value


def _words(answer: dict[str, Any], before: float) -> list[Word]:
    return [
        Word(
            _text(w["word"]), max(0.0, _number(w["start"]) - before), max(0.0, _number(w["end"]) - before),
            _number(w.get("conf", 1.0)),
        )
        for w in answer.get("result", [])
    ]  # fmt: skip


def parse_answer(row: dict[str, Any]) -> Recognised:
    """A line of results.N.jsonl. libvosk counts time from the first utterance of its recogniser."""
    answer, before = row["answer"], _number(row["before"])
    utterance, seconds = _text(row["utterance"]), _number(row["seconds"])
    if "alternatives" not in answer:
        return Recognised(utterance, seconds, [Alternative(_words(answer, before))])
    found: dict[str, Alternative] = {}
    for one in answer["alternatives"]:  # the best first; of two that differ only in times, the better
        words = _words(one, before)
        found.setdefault(" ".join(w.word for w in words), Alternative(words, _number(one["confidence"])))
    return Recognised(utterance, seconds, with_confidences(list(found.values())))


def with_confidences(alternatives: list[Alternative]) -> list[Alternative]:
    """The best of them with confidences: the share of the likelihood, of all that are listed, whose words agree."""
    import kaldialign

    if not alternatives:
        return [Alternative([])]
    best = alternatives[0]
    share = [math.exp(one.score - best.score) for one in alternatives]
    agree = np.zeros(len(best.words))
    for one, likelihood in zip(alternatives, share, strict=True):
        at = 0
        for mine, other in kaldialign.align(best.text, one.text, "\0"):
            if mine != "\0":
                agree[at] += likelihood * (mine == other)
                at += 1
    agree /= sum(share)
    words = [Word(w.word, w.begin, w.end, float(c)) for w, c in zip(best.words, agree, strict=True)]
    return [Alternative(words, best.score), *alternatives[1:]]


def read_results(folder: Path) -> dict[str, Recognised]:
    """What has been recognised; a line that was being written when a run stopped is cut off."""
    found = {}
    for path in sorted(folder.glob("results.*.jsonl")):
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with replacing(str(path)) as stream:
                stream.write(whole)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                one = parse_answer(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
                raise MdiError(f"{path}:{number}: not a line of mdi vosk decode ({error}); remove the file") from error
            found[one.utterance] = one
    return found


class _Recognizer:
    """libvosk's, for one thread; the model is shared."""

    def __init__(self, model: Any, shown: str, n_best: int) -> None:
        from vosk import KaldiRecognizer

        try:
            self.recognizer = KaldiRecognizer(model, SAMPLE_RATE)
        except Exception as error:  # its own class of exceptions is Exception
            raise MdiError(f"{shown}: libvosk cannot decode with this model: {error}; see above") from error
        self.recognizer.SetWords(True)
        if n_best:
            self.recognizer.SetMaxAlternatives(n_best)
        self.before = 0.0

    def __call__(self, utterance: str, samples: np.ndarray) -> dict[str, Any]:
        """All sound at once: libvosk would otherwise look for an end of the utterance in it, and cut there."""
        seconds = len(samples) / SAMPLE_RATE
        self.recognizer.AcceptWaveform(np.ascontiguousarray(samples, "<i2").tobytes())
        answer = json.loads(self.recognizer.FinalResult())
        row = {"utterance": utterance, "seconds": round(seconds, 4), "before": self.before, "answer": answer}
        self.before += seconds
        return row


def load_model(folder: str, shown: str) -> Any:
    import vosk

    vosk.SetLogLevel(-1)
    try:
        return vosk.Model(folder)
    except Exception as error:  # its own class of exceptions is Exception
        raise MdiError(f"{shown}: libvosk cannot load this model: {error}. Try it with vosk-transcriber") from error


def decode_missing(
    folder: VoskFolder, shown: Path, data: DataFolder, utterances: list[str], out: Path, n_best: int, nj: int,
    allow_pipes: bool,
) -> float:  # fmt: skip
    """Recognises what is missing; seconds per second of speech, of one thread. `shown`: the folder as people know it.
    libvosk has a process of its own: it trusts its models, and hangs beside another OpenFst, which writing models may
    have loaded."""
    if not allow_pipes:
        data.check_no_pipes()
    there = read_results(out)
    missing = [u for u in utterances if u not in there]
    if not missing:
        return 0.0
    return call_apart(
        "mdi.speech.vosk_decode:decode", f"decoding with {shown}",
        folder=str(folder.path.resolve()), shown=str(shown), data=str(data.path), utterances=missing, out=str(out),
        n_best=n_best, nj=nj, allow_pipes=allow_pipes,
    )  # fmt: skip


def decode(
    folder: str, shown: str, data: str, utterances: list[str], out: str, n_best: int, nj: int, allow_pipes: bool
) -> float:
    """Recognises utterances in `nj` threads (libvosk computes outside of Python)."""
    model, recordings = load_model(folder, shown), DataFolder(Path(data))
    lock, done, stop = threading.Lock(), [0, 0.0, 0.0], threading.Event()

    def work(number: int, progress: Progress) -> None:
        sound, recognizer = Sound(recordings, allow_pipes), _Recognizer(model, shown, n_best)
        with open(Path(out) / f"results.{number}.jsonl", "ab") as stream:
            for utterance in utterances[number - 1 :: nj]:
                if stop.is_set():
                    return
                samples = sound.samples(utterance)
                begun = time.monotonic()
                stream.write(json.dumps(recognizer(utterance, samples)).encode() + b"\n")
                stream.flush()
                with lock:
                    done[0] += 1
                    done[1] += len(samples) / SAMPLE_RATE
                    done[2] += time.monotonic() - begun
                    progress.update(int(done[0]), f"{done[2] / done[1]:.2f} times real time")

    with Progress("recognising", len(utterances), "utterances") as progress, ThreadPoolExecutor(nj) as pool:
        try:
            for job in [pool.submit(work, number, progress) for number in range(1, nj + 1)]:
                job.result()
        finally:
            stop.set()
    return done[2] / max(done[1], 1e-9)


def word_graphs(results: Iterable[Recognised], labels: Labels) -> Iterator[WordGraph]:
    """What libvosk believes: of several alternatives each with exp(score), of one its words with their confidences."""
    for one in results:
        if len(one.alternatives) > 1:
            paths = [(each.score, labels(each.text)) for each in one.alternatives]
            yield from_paths(one.utterance, paths)
        elif one.alternatives[0].words:
            (best,) = one.alternatives
            yield from_confidences(one.utterance, labels(best.text), [word.confidence for word in best.words])


def n_best_lattice(found: Recognised, symbols: SymbolTable) -> Lattice:
    """One path per alternative from a common start: all of its score is acoustic, and at its end."""
    label: list[int] = []
    dest: list[int] = []
    frames: list[int] = []  # of each arc
    arcs_from: list[list[int]] = [[]]
    cost = {}
    for one in found.alternatives:
        here = 0
        for word in one.words:
            arcs_from[here].append(len(label))
            arcs_from.append([])
            here = len(arcs_from) - 1
            label.append(symbols.require(word.word))
            dest.append(here)
            frames.append(max(1, round((word.end - word.begin) / FRAME)))
        cost[here] = -one.score
    order = [arc for arcs in arcs_from for arc in arcs]
    begin = np.zeros(len(arcs_from) + 1, np.int64)
    np.cumsum([len(arcs) for arcs in arcs_from], out=begin[1:])
    end = np.full(len(arcs_from), np.inf)
    end[list(cost)] = list(cost.values())
    stop = np.cumsum(np.array(frames, np.int64)[order]) if label else np.zeros(0, np.int64)
    none, n = np.zeros(len(arcs_from), np.int64), len(label)
    arcs = LatticeArcs(
        label=np.array(label, np.int32)[order], dest=np.array(dest, np.int32)[order], graph=np.zeros(n),
        acoustic=np.zeros(n), first=np.concatenate([[0], stop[:-1]])[:n].astype(np.int64), stop=stop,
    )  # fmt: skip
    finals = LatticeFinals(graph=np.where(np.isfinite(end), 0.0, np.inf), acoustic=end, first=none, stop=none)
    return Lattice(found.utterance, begin, arcs, finals, np.ones(int(stop[-1]) if n else 0, np.int32))


def with_graph_scores(lattice: Lattice, lm: LatticeModel, scores: str) -> Lattice:
    """The model's score as graph cost, and as acoustic cost the rest of the total, in proportion: at an LM weight of
    ACOUSTIC_FACTOR the order of the paths is that of

        total = GRAPH_SCALE * model + rest
    """
    scored = add_model(lattice, lm, 1.0, scores)
    path_cost = np.zeros(scored.n_states)  # every state has one way to it
    for state in range(scored.n_states):
        for arc in range(scored.begin[state], scored.begin[state + 1]):
            path_cost[scored.dest[arc]] = path_cost[state] + scored.arcs.graph[arc]
    ends = np.isfinite(scored.finals.graph)
    rest = scored.finals.acoustic.copy()
    rest[ends] = ACOUSTIC_FACTOR * (rest[ends] / GRAPH_SCALE - path_cost[ends] - scored.finals.graph[ends])
    return replace(scored, finals=scored.finals._replace(acoustic=rest))


def write_outputs(folder: VoskFolder, results: list[Recognised], out: Path, n_best: int) -> None:
    """Kaldi's files, from what was recognised."""

    def write(name: str, lines: Iterable[str]) -> None:
        with writing(str(out / name)) as stream:
            stream.write(to_bytes("".join(f"{line}\n" for line in lines)))

    best = {one.utterance: one.alternatives[0] for one in results}
    write("text", (" ".join([utterance, *one.text]) for utterance, one in best.items()))
    write("ctm", (
        f"{utterance} 1 {w.begin:.2f} {w.end - w.begin:.2f} {w.word} {w.confidence:.4f}"
        for utterance, one in best.items() for w in one.words
    ))  # fmt: skip
    if not n_best:
        return
    write("nbest", (
        " ".join([one.utterance, str(rank), f"{alternative.score:.4f}", *alternative.text])
        for one in results for rank, alternative in enumerate(one.alternatives, 1)
    ))  # fmt: skip
    if folder.own_lm is None:
        say(f"{out}: no lattices, as the language model is within HCLG.fst, and its scores cannot be told from others")
        return
    symbols = folder.symbols()
    write("words.txt", (f"{word} {i}" for i, word in sorted(symbols.words.items())))
    lm = lattice_model(folder.read(folder.own_lm), symbols)
    with lattice_writer(str(out / "lat.1.gz")) as write_lattice:
        for one in results:
            scores = EXACT if folder.rescores else CHEAPEST
            write_lattice(with_graph_scores(n_best_lattice(one, symbols), lm, scores))
    write("num_jobs", ["1"])
