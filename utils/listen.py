"""Utterances to listen to, for the report: the sound, what was said, and what the recogniser made of it with each
model, word below word."""

import base64
import hashlib
import io
import wave
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mdi.errors import MdiError
from mdi.speech.audio_file import SAMPLE_RATE
from mdi.speech.data import DataFolder, read_text
from mdi.speech.score import best_point
from mdi.speech.sound import Sound
from mdi.speech.wer import align

SHOWN = 12
LONGEST = 20.0  # seconds: the page holds the sound
NOTHING = "***"  # of align: no word on this side


@dataclass(frozen=True)
class Cell:
    text: str
    kind: str = ""  # wrong, inserted, deleted; new where it was said; nothing where the word is right


@dataclass(frozen=True)
class Example:
    utterance: str
    sound: str  # address with the data, or nothing
    rows: list[tuple[str, int | None, list[Cell]]]  # model, its errors, cells: one column per word, and insertions


def hypotheses(folder: Path) -> dict[str, list[str]]:
    """Of a scored folder at its best point; none where sclite has scored."""
    try:
        weight, penalty = best_point(str(folder))
    except MdiError:
        return {}
    path = folder / "scoring_kaldi" / f"penalty_{penalty}" / f"{weight}.txt"
    return read_text(path) if path.exists() else {}


@dataclass(frozen=True)
class Heard:
    """What was said, and what the recogniser made of it with each model."""

    references: dict[str, list[str]]
    models: dict[str, dict[str, list[str]]]

    @property
    def utterances(self) -> list[str]:
        """Those that all models have."""
        return [u for u in self.references if all(u in found for found in self.models.values())]

    def differ(self) -> list[str]:
        """Utterances that are understood differently."""
        models = self.models.values()
        return [u for u in self.utterances if len({" ".join(found[u]) for found in models}) > 1]


def heard_by(systems: dict[str, Path]) -> Heard:
    """`systems`: scored folders by the models' names."""
    heard = {name: found for name, folder in systems.items() if (found := hypotheses(folder))}
    said = next((r for r in (f / "scoring_kaldi/test_filt.txt" for f in systems.values()) if r.exists()), None)
    return Heard(read_text(said) if said else {}, heard)


def drawn(utterances: Iterable[str], number: int = SHOWN) -> list[str]:
    """By chance, but the same ones each time: neither the best nor the worst."""
    return sorted(utterances, key=lambda u: hashlib.sha256(u.encode("utf-8", "surrogateescape")).digest())[:number]


def examples(data: Path, heard: Heard, utterances: Iterable[str], new: Collection[str] = ()) -> list[Example]:
    """The utterances with their sound; words of `new` are marked where they were said."""
    sound = _sound(data)
    return [Example(u, _player(sound, u), list(_rows(heard.references[u], heard.models, u, new))) for u in utterances]


def _sound(data: Path) -> Sound | None:
    """Not of pipes: a report runs no commands."""
    folder = DataFolder(data)
    if not folder.has("wav.scp"):
        return None
    try:
        return Sound(folder, allow_pipes=False)
    except MdiError:
        return None


def _player(sound: Sound | None, utterance: str) -> str:
    try:
        samples = sound.samples(utterance) if sound else None
    except MdiError:  # moved away since: the words are there
        samples = None
    if samples is None or not 0 < len(samples) <= LONGEST * SAMPLE_RATE:
        return ""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(SAMPLE_RATE)
        out.writeframes(samples.astype("<i2").tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(stream.getvalue()).decode()}"


def _rows(
    reference: list[str], heard: dict[str, dict[str, list[str]]], utterance: str, new: Collection[str]
) -> Iterator[tuple[str, int | None, list[Cell]]]:
    """Columns are the words of the reference, and before each of them and at the end one for what was inserted there,
    if anything was."""
    aligned = {name: _columns(align(reference, found[utterance])) for name, found in heard.items()}
    kept = [i for i in range(2 * len(reference) + 1) if i % 2 or any(columns[i].text for columns in aligned.values())]
    words = [Cell(word, "new" if word in new else "") for word in reference]
    yield "said", None, [words[i // 2] if i % 2 else Cell("") for i in kept]
    for name, columns in aligned.items():
        errors = sum(len(c.text.split()) if c.kind == "inserted" else c.kind != "" for c in columns)
        yield name, errors, [columns[i] for i in kept]


def _columns(pairs: list[tuple[str, str]]) -> list[Cell]:
    """Cells at the odd places are the words of the reference, those at the even ones insertions."""
    out, inserted = [], []
    for said, found in pairs:
        if said == NOTHING:
            inserted.append(found)
            continue
        out += [Cell(" ".join(inserted), "inserted" if inserted else "")]
        out += [Cell(said, "deleted") if found == NOTHING else Cell(found, "" if found == said else "wrong")]
        inserted = []
    return [*out, Cell(" ".join(inserted), "inserted" if inserted else "")]
