"""What libvosk says of an utterance, and the lines of JSON in which a decoding keeps it."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdi.errors import MdiError
from mdi.files import check_regular, replacing
from mdi.speech.word_graph import Labels, WordGraph, from_confidences, from_paths


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
    """Of which sound (`Sound.identity`), and how many seconds its segment went beyond that."""

    utterance: str
    seconds: float
    alternatives: list[Alternative]
    sound: list[Any] | None = None
    overshoot: float = 0.0


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"'{str(value)[:40]}' in place of a number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"'{str(value)[:40]}' in place of text")
    return value


def _words(answer: dict[str, Any]) -> list[Word]:
    return [
        Word(_text(w["word"]), max(0.0, _number(w["start"])), max(0.0, _number(w["end"])), _number(w.get("conf", 1.0)))
        for w in answer.get("result", [])
    ]


def parse_row(row: dict[str, Any]) -> Recognised:
    """A line of results.1.jsonl. Long utterances have several answers, one for each piece."""
    utterance, seconds, sound = _text(row["utterance"]), _number(row["seconds"]), row["sound"]
    pieces = [_alternatives(answer) for answer in row["answers"]]
    return Recognised(utterance, seconds, _joined(pieces), sound, _number(row["overshoot"]))


def _alternatives(answer: dict[str, Any]) -> list[Alternative]:
    if "alternatives" not in answer:
        return [Alternative(_words(answer))]
    found: dict[str, Alternative] = {}
    for one in answer["alternatives"]:  # the best first; of two that differ only in times, the better
        words = _words(one)
        found.setdefault(" ".join(w.word for w in words), Alternative(words, _number(one["confidence"])))
    return with_confidences(list(found.values()))


def _joined(pieces: list[list[Alternative]]) -> list[Alternative]:
    """The best sequences of alternatives, one of each piece: no more of them than the longest list has."""
    n = max((len(piece) for piece in pieces), default=1)
    best = [Alternative([])]
    for piece in pieces:
        pairs = sorted(
            ((one.score + two.score, i, j) for i, one in enumerate(best) for j, two in enumerate(piece)),
            key=lambda pair: -pair[0],
        )[:n]
        best = [Alternative([*best[i].words, *piece[j].words], score) for score, i, j in pairs]
    return best


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
        check_regular(str(path))
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                one = parse_row(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
                raise MdiError(f"{path}:{number}: not a line of mdi vosk decode ({error}); remove the file") from error
            found[one.utterance] = one
        if len(whole) < len(data):  # known to be ours now
            with replacing(str(path)) as stream:
                stream.write(whole)
    return found


def word_graphs(results: Iterable[Recognised], labels: Labels) -> Iterator[WordGraph]:
    """What libvosk believes: of several alternatives each with exp(score), of one its words with their confidences."""
    for one in results:
        if len(one.alternatives) > 1:
            paths = [(each.score, labels(each.text)) for each in one.alternatives]
            yield from_paths(one.utterance, paths)
        elif one.alternatives[0].words:
            (best,) = one.alternatives
            yield from_confidences(one.utterance, labels(best.text), [word.confidence for word in best.words])
