"""What a recogniser believes, in any of its forms, as graphs of words: lattices, n-best lists, words with confidences,
plain hypotheses.

A path through a graph is a sentence, its weight (natural log, up to a constant) is what it is worth. An n-best list is
a bundle of paths. Of a word with a confidence c there are two arcs: the word, with log c, and a word that belongs to no
n-gram, with log(1 - c); so the n-gram of several counts as often as all of them are right at once.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mdi.errors import MdiError
from mdi.files import read_chunks, read_lines
from mdi.fst.openfst import ByState
from mdi.lm.trie import Array
from mdi.lm.vocabulary import to_str
from mdi.speech.data import ctm_rows, number_of
from mdi.speech.lattice import Lattice, bundle

FORMATS = ("lattice", "nbest", "ctm", "vosk", "text")
# Label of an arc without a word, and of a word that is wrong.
NO_WORD, WRONG = 0, -1
# A pause of so many seconds ends a sentence of a ctm.
LONG_PAUSE = 1.0
# Objects may be separated by anything that separates the parts of a list.
_NEXT_OBJECT = re.compile(r"[^\s,\[\]]")


@dataclass(frozen=True)
class WordGraph(ByState):
    """Every arc leads to a higher state, 0 is the start. `final` is -infinity where a state is not an end."""

    name: str
    begin: Array
    label: Array
    dest: Array
    weight: Array
    final: Array


@dataclass
class Labels:
    """Numbers of words, given as the words come: 1, 2, ..."""

    of: dict[str, int] = field(default_factory=dict)

    def __call__(self, words: Iterable[str]) -> list[int]:
        return [self.of.setdefault(word, len(self.of) + 1) for word in words]


def from_lattice(lattice: Lattice, acoustic_scale: float, lm_scale: float, penalty: float) -> WordGraph:
    """Weights -(lm_scale graph + acoustic_scale acoustic), less `penalty` for every word."""
    arcs, finals = lattice.arcs, lattice.finals
    weight = -(lm_scale * arcs.graph + acoustic_scale * arcs.acoustic) - penalty * (arcs.label != NO_WORD)
    final = np.full(lattice.n_states, -np.inf)
    ends = np.isfinite(finals.graph)
    final[ends] = -(lm_scale * finals.graph[ends] + acoustic_scale * finals.acoustic[ends])
    return WordGraph(lattice.utterance, lattice.begin, arcs.label, arcs.dest, weight, final)


def from_paths(name: str, paths: list[tuple[float, list[int]]]) -> WordGraph:
    """Of (weight, labels): all begin in the state 0 and share nothing else."""
    made = bundle(name, [labels or [NO_WORD] for _, labels in paths], np.zeros(len(paths)))
    weight = np.zeros(made.n_arcs)
    weight[: len(paths)] = [value for value, _ in paths]  # on the first arcs, which come first
    final = np.where(np.isfinite(made.finals.graph), 0.0, -np.inf)
    return WordGraph(name, made.begin, made.arcs.label, made.arcs.dest, weight, final)


def from_confidences(name: str, labels: list[int], confidences: list[float]) -> WordGraph:
    """A chain: from each state the word, and beside it the chance that it is wrong."""
    n = len(labels)
    sure = np.clip(np.array(confidences, float), 0.0, 1.0)
    label = np.column_stack([np.array(labels, np.int32), np.full(n, WRONG, np.int32)])
    with np.errstate(divide="ignore"):
        weight = np.column_stack([np.log(sure), np.log1p(-sure)])
    return WordGraph(
        name,
        2 * np.append(np.arange(n + 1), n),
        label.ravel(),
        np.repeat(np.arange(1, n + 1, dtype=np.int32), 2),
        weight.ravel(),
        np.append(np.full(n, -np.inf), 0.0),
    )


def guess_format(path: str) -> str:
    """By the name: .nbest, .ctm, .json or .jsonl, and .txt, maybe with .gz; folders, lat* and all others are
    lattices."""
    name = Path(path).name.removesuffix(".gz")
    suffixes = {"nbest": "nbest", "ctm": "ctm", "json": "vosk", "jsonl": "vosk", "txt": "text"}
    if Path(path).is_dir() or name.startswith("lat"):
        return "lattice"
    return suffixes.get(name.rpartition(".")[2], "lattice")


def read_graphs(path: str, kind: str, labels: Labels, scale: float) -> Iterator[WordGraph]:
    """The graphs of a file with words in it: nbest, ctm, vosk. `scale` multiplies the scores of n-best lists."""
    return {"nbest": _nbest, "ctm": _ctm, "vosk": _vosk}[kind](path, labels, scale)


def _nbest(path: str, labels: Labels, scale: float) -> Iterator[WordGraph]:
    """Lines 'utterance score words', those of an utterance one after the other; scores are natural logs."""
    name, paths = None, []
    for at, line in enumerate(read_lines(path), 1):
        fields = to_str(line).split()
        if not fields:
            continue
        if len(fields) < 2:
            raise MdiError(f"{path}:{at}: '{to_str(line)[:80]}'; expected an utterance, its score, and words")
        if fields[0] != name and name is not None:
            yield from_paths(name, paths)
            paths = []
        name = fields[0]
        score = number_of(fields[1], f"{path}:{at}", "a score, the natural logarithm of what the words are worth")
        paths.append((scale * score, labels(fields[2:])))
    if name is not None:
        yield from_paths(name, paths)


def _ctm(path: str, labels: Labels, scale: float) -> Iterator[WordGraph]:
    """Lines 'utterance channel begin duration word [confidence]'; without a confidence a word is certain."""
    key, end = ("", ""), -math.inf
    words: list[str] = []
    sure: list[float] = []
    for row in ctm_rows(path):
        if not 0.0 <= row.confidence <= 1.0001:
            raise MdiError(f"{row.where}: a confidence of {row.confidence:g}; expected 0 to 1")
        if words and (key != (row.name, row.channel) or row.begin - end > LONG_PAUSE):
            yield from_confidences(key[0], labels(words), sure)
            words, sure = [], []
        key, end = (row.name, row.channel), row.begin + row.duration
        words.append(row.word)
        sure.append(row.confidence)
    if words:
        yield from_confidences(key[0], labels(words), sure)


def _vosk(path: str, labels: Labels, scale: float) -> Iterator[WordGraph]:
    """Vosk's results, one JSON object after the other, or in a list: {"result": [{"conf", "word"}]}, {"alternatives":
    [{"confidence", "text"}]} or {"text"}. What was silence is passed over."""
    text = to_str(b"".join(read_chunks(path)))
    decoder, at, number = json.JSONDecoder(), 0, 0
    while match := _NEXT_OBJECT.search(text, at):
        number += 1
        try:
            found, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            line = 1 + text.count("\n", 0, match.start())
            raise MdiError(f"{path}:{line}: not JSON ({error}); expected Vosk's results, one after the other") from None
        name = f"{path}: result {number}"
        if not isinstance(found, dict) or not {"result", "alternatives", "text"} & set(found):
            raise MdiError(f"{name}: '{str(found)[:60]}'; expected 'result', 'alternatives' or 'text' of Vosk")
        graph = _vosk_graph(found, name, labels, scale)
        if graph is not None:
            yield graph


def _vosk_graph(found: dict[str, Any], name: str, labels: Labels, scale: float) -> WordGraph | None:
    try:
        if "alternatives" in found:
            paths = [
                (scale * number_of(one.get("confidence", 0.0), name, "a confidence"), labels(one["text"].split()))
                for one in found["alternatives"]
            ]
            return from_paths(name, paths) if any(words for _, words in paths) else None
        if "result" in found:
            words = [str(one["word"]) for one in found["result"]]
            sure = [number_of(one.get("conf", 1.0), name, "a confidence from 0 to 1") for one in found["result"]]
        else:
            words = found["text"].split()
            sure = [1.0] * len(words)
    except (AttributeError, KeyError, TypeError) as error:
        raise MdiError(f"{name}: {type(error).__name__} {error}; expected Vosk's words and confidences") from None
    return from_confidences(name, labels(words), sure) if words else None
