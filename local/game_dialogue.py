"""The dialogue of an adventure game, Flight of the Amazon Queen: 4.5 hours of recorded speech with its texts.

The game may be given away freely, but not sold by itself; Debian's package of it (flight-of-the-amazon-queen, 35 MB)
needs no root to be downloaded and unpacked.
"""

import io
import re
import shutil
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from recorded_speech import Recordings, Utterance, download, unpack
from registries import check_digest

from mdi.errors import MdiError

PACKAGE = "flight-of-the-amazon-queen"
ARCHIVE = f"usr/share/scummvm/{PACKAGE}/queen.1c"
SHA256 = "cc91960d133fcd4173eda4bac304e80d2bbdbaa085640287ab9e0507bd603f67"
# Descriptions of things, which the hero speaks: no scene, so they are always training text.
DESCRIPTIONS = "JOE"


class Archive:
    """queen.1c: QTBL, 16 bits at byte 13 with the number of entries, and these: name (12 bytes, padded with zeros),
    bundle (1), offset and size (32 bits each). Numbers are big-endian everywhere."""

    HEAD, ENTRY = 15, struct.Struct(">12sBII")

    def __init__(self, data: bytes, path: str) -> None:
        self.data, self.path = data, path
        if data[:4] != b"QTBL" or len(data) < self.HEAD:
            raise MdiError(f"{path}: begins with {data[:4]!r}; expected QTBL, the game's queen.1c")
        number = struct.unpack_from(">H", data, self.HEAD - 2)[0]
        if self.HEAD + number * self.ENTRY.size > len(data):
            raise MdiError(f"{path}: ends within its table of {number} entries; copy it again")
        self.entries: dict[str, tuple[int, int]] = {}
        for raw, _, offset, size in self.ENTRY.iter_unpack(data[self.HEAD : self.HEAD + number * self.ENTRY.size]):
            name = raw.rstrip(b"\0").decode("ascii", "replace").upper()
            if offset + size > len(data):
                raise MdiError(f"{path}: ends before its entry {name}; copy it again")
            self.entries[name] = (offset, size)

    def __getitem__(self, name: str) -> bytes:
        offset, size = self.entries[name]
        return self.data[offset : offset + size]

    def payload(self, name: str) -> bytes:
        """What comes after the header that dialogues, cut scenes and QUEEN.JAS have."""
        return self[name][20:]


def _string(data: bytes, at: int, multiple: int) -> tuple[str, int]:
    """(text, where the next thing begins): a length byte and the text, padded to a multiple unless it is empty."""
    end = at + 1 + data[at]
    text = data[at + 1 : end].decode("cp437")
    return text, end + (-end % multiple if text else 0)


def segments(sentence: str) -> list[str]:
    """A sentence in pieces, one recording each: cut at marks of three characters, of which *XY has eleven more."""
    return [piece.strip() for piece in re.split(r"\*XY.{11}|\*..", sentence, flags=re.DOTALL)]


@dataclass(frozen=True)
class _Sentence:
    scene: str
    speaker: str
    prefix: str  # of the recordings' names
    text: str


def _dialogue(archive: Archive, name: str) -> Iterator[_Sentence]:
    """A conversation: the hero's strings and the other person's, each with an id; the first of either is a greeting."""
    data, scene = archive.payload(name), name.split(".")[0]
    levels, key, n_hero, n_person = struct.unpack_from(">h2xHHH", data)
    persons, _, repeated = struct.unpack_from(">HHH", data, 22)
    person = scene.rstrip("0123456789").lower()
    for kind, speaker, number, at in (("J", "joe", n_hero, 32 + 96 * abs(levels)), ("P", person, n_person, persons)):
        for _ in range(number):
            label = struct.unpack_from(">H", data, at + 2)[0]
            text, at = _string(data, at + 4, 4)
            if label:
                yield _Sentence(scene, speaker, f"{key:02d}{label:04X}{kind}", text)
            else:  # the hero's, when they meet and when they meet again
                yield _Sentence(scene, "joe", f"{key:02d}{'SSSS' if kind == 'J' else 'XXXX'}J", text)
    yield _Sentence(scene, person, f"{key:02d}XXXXP", _string(data, repeated, 4)[0])


def _cut_scene(archive: Archive, name: str) -> Iterator[_Sentence]:
    """A film: sentences in order. Who speaks is not looked up: the scene stands for the speaker."""
    data, scene = archive.payload(name), name.split(".")[0]
    number, at = abs(struct.unpack_from(">h", data, 2)[0]), struct.unpack_from(">H", data, 8)[0]
    _, at = _string(data, at, 2)
    for i in range(1, number + 1):
        text, at = _string(data, at, 2)
        yield _Sentence(scene, scene.lower(), f"{scene:_<5}{i:02d}", text)


def _sentences(archive: Archive) -> Iterator[_Sentence]:
    for name in sorted(archive.entries):
        try:
            if name.endswith(".DOG"):
                yield from _dialogue(archive, name)
            elif name.endswith(".CUT"):
                yield from _cut_scene(archive, name)
        except (struct.error, IndexError) as error:
            raise MdiError(f"{archive.path}: {name} ends within a string; copy the file again") from error
    if "QUEEN.JAS" in archive.entries and "QUEEN2.JAS" in archive.entries:
        number = struct.unpack_from(">H", archive.payload("QUEEN.JAS"), 6)[0]
        for i, line in enumerate(archive["QUEEN2.JAS"].decode("cp437").splitlines()[:number]):
            yield _Sentence(DESCRIPTIONS, "joe", f"JOE{i + 41:04d}", line)


def read_utterances(archive: Archive) -> list[Utterance]:
    """All recorded segments; not those whose recording two different texts claim."""
    found: dict[str, Utterance] = {}
    disputed = set()
    for sentence in _sentences(archive):
        for i, text in enumerate(segments(sentence.text), 1):
            name = f"{sentence.prefix}{i:X}"
            if not text or f"{name}.SB" not in archive.entries:
                continue
            if name in found and found[name].text != text:
                disputed.add(name)
            sound = partial(decoded, archive[f"{name}.SB"])
            found[name] = Utterance(sentence.scene, sentence.speaker, name, text, sound)
    return [found[name] for name in sorted(found) if name not in disputed]


def decoded(mp3: bytes) -> tuple[np.ndarray, int]:
    """(samples, rate)"""
    import soundfile

    samples, rate = soundfile.read(io.BytesIO(mp3), dtype="float64", always_2d=True)
    return samples.mean(axis=1), rate


def find_game(given: str | None, downloads: Path) -> Path:
    """queen.1c: the file that is given, or of the package, which is downloaded once. Its sum is checked."""
    if given:
        path = Path(given)
        if not path.is_file():
            raise MdiError(f"{given}: no such file; expected queen.1c of {PACKAGE}, or Debian's package of it")
    else:
        path = downloads / "queen.1c"
        if not path.exists():
            by_hand = f"give the game's queen.1c or Debian's package {PACKAGE} with --game FILE"
            path = download(PACKAGE, 35, downloads, by_hand)
    if path.suffix == ".deb":
        downloads.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=downloads, prefix=".deb.") as scratch:
            path = Path(shutil.move(unpack(path, Path(scratch), ARCHIVE), downloads / "queen.1c"))
    check_digest(path, SHA256)
    return path


def recordings(given: str | None, downloads: Path) -> Recordings:
    path = find_game(given, downloads)
    utterances = read_utterances(Archive(path.read_bytes(), str(path)))
    return Recordings(str(path), utterances, eval_share=0.15, dev_share=0.05, for_training=(DESCRIPTIONS,))
