"""Kaldi data folders: the one reader of text, utt2spk, spk2utt, segments and wav.scp.

Every line of these files begins with the name of an utterance (in spk2utt of a speaker, in wav.scp of a recording if
there are segments), which may appear in a file only once. Fields are separated by blanks and tabs, as everywhere in
this package.
"""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mdi.errors import MdiError
from mdi.files import UTF16, check_regular, not_utf8, read_lines
from mdi.lm.vocabulary import to_bytes, to_str
from mdi.progress import get_logger
from mdi.speech.rxfilename import Source, parse_rxfilename

logger = get_logger(__name__)
Words = list[str]
CHANNELS = "reco2file_and_channel"
_BLANKS = re.compile(rb"[ \t]+")


def fields(line: bytes) -> list[str]:
    """The words of a line: a word is whatever has no blank and no tab in it."""
    return [to_str(field) for field in _BLANKS.split(line.rstrip(b"\r\n")) if field]


@dataclass(frozen=True)
class Row:
    """What comes after the name, and the number of the line."""

    number: int
    rest: bytes

    @property
    def fields(self) -> list[str]:
        return fields(self.rest)


def read_rows(path: str | Path, what: str = "utterance") -> dict[str, Row]:
    """The lines of a file by their names, in the order of the file."""
    rows: dict[str, Row] = {}
    for number, line in enumerate(read_lines(str(path)), 1):
        if number == 1 and line[:2] in UTF16:
            raise MdiError(not_utf8(path, line))
        name, *rest = _BLANKS.split(line.strip(b" \t\r"), maxsplit=1)
        if not name:
            continue
        key = to_str(name)
        if key in rows:
            raise MdiError(f"{path}:{number}: {what} {key} appears twice, first on line {rows[key].number}; keep one")
        rows[key] = Row(number, rest[0] if rest else b"")
    if not rows:
        raise MdiError(f"{path}: no {what}s; expected one per line, its name first")
    return rows


def read_text(path: str | Path) -> dict[str, Words]:
    """Kaldi's text: an utterance and its words per line."""
    rows = read_rows(path)
    for name, row in rows.items():
        if what := not_utf8(path, to_bytes(name) + b" " + row.rest, row.number):
            logger.warning(f"WARNING: {what}")
            break
    return {name: row.fields for name, row in rows.items()}


def read_references(path: str | Path) -> dict[str, Words]:
    """The text of a data folder, or of the file itself."""
    return DataFolder(Path(path)).text() if Path(path).is_dir() else read_text(path)


def read_groups(path: str | Path, what: str = "speaker") -> dict[str, str]:
    """utt2spk and its like: an utterance and its speaker, or whatever else utterances have in common, per line."""
    found = {}
    for name, row in read_rows(path).items():
        if len(row.fields) != 1:
            raise MdiError(f"{path}:{row.number}: {len(row.fields)} fields after the name; expected one {what}")
        found[name] = row.fields[0]
    return found


@dataclass(frozen=True)
class Segment:
    """A stretch of a recording in seconds; end -1 is the end of the recording. The channel is counted from 0."""

    recording: str
    begin: float
    end: float
    channel: int | None = None


def _segment(path: Path, row: Row) -> Segment:
    """Real corpora have segments that end before they begin: whoever needs their sound passes them over, as Kaldi's
    extract-segments does."""
    found = row.fields
    try:
        recording, begin, end = found[0], float(found[1]), float(found[2])
        channel = int(found[3]) if len(found) == 4 else None
        good = len(found) <= 4 and math.isfinite(begin) and math.isfinite(end) and (channel is None or channel >= 0)
    except (IndexError, ValueError):
        good = False
    if not good:
        raise MdiError(
            f"{path}:{row.number}: '{' '.join(found)[:80]}' after the name; expected a recording, its first and its "
            f"last second, and perhaps a channel (0, 1)"
        )
    return Segment(recording, begin, end, channel)


def _channel(path: Path, row: Row) -> int:
    """A or 1 is the first, which is 0 here."""
    found = row.fields
    if len(found) != 2 or not re.fullmatch("[A-Z]|[1-9][0-9]?", found[1]):
        raise MdiError(
            f"{path}:{row.number}: '{' '.join(found)[:80]}' after the name; expected a file and a channel, A, B, 1 or 2"
        )
    return ord(found[1]) - ord("A") if found[1].isalpha() else int(found[1]) - 1


def number_of(text: Any, where: str, expected: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise MdiError(f"{where}: '{str(text)[:40]}'; expected {expected}")
    return value


class CtmRow(NamedTuple):
    """A word of a ctm, and the line that it is on."""

    where: str
    name: str
    channel: str
    begin: float
    duration: float
    word: str
    confidence: float  # 1 where none is given


def ctm_rows(path: str | Path) -> Iterator[CtmRow]:
    """Lines 'utterance channel begin duration word [confidence]'; those that begin with ';;' are remarks."""
    for number, line in enumerate(read_lines(str(path)), 1):
        found, where = fields(line), f"{path}:{number}"
        if not found or found[0].startswith(";;"):
            continue
        if len(found) < 5:
            raise MdiError(f"{where}: '{to_str(line)[:80]}'; expected utterance, channel, begin, duration, word")
        begin, duration = (number_of(field, where, "seconds") for field in found[2:4])
        sure = number_of(found[5], where, "a confidence from 0 to 1") if len(found) > 5 else 1.0
        yield CtmRow(where, found[0], found[1], begin, duration, found[4], sure)


def read_ctm(path: str | Path, utterances: list[str], segments: dict[str, Segment] | None = None) -> dict[str, Words]:
    """A ctm's words in the order of their times. Names are utterances; or recordings, where segments tell which
    utterance the middle of a word lies in. An utterance that is not there has no words."""
    timed: dict[str, list[tuple[float, str]]] = {name: [] for name in utterances}
    of_recording: dict[str, list[tuple[str, Segment]]] = {}
    for name, segment in (segments or {}).items():
        of_recording.setdefault(segment.recording, []).append((name, segment))
    for row in ctm_rows(path):
        name = row.name
        if name not in timed:
            if name not in of_recording:
                raise MdiError(f"{row.where}: {name} is no utterance of the reference, nor a recording of segments")
            middle = row.begin + row.duration / 2
            inside = [u for u, s in of_recording[name] if s.begin <= middle and (s.end == -1 or middle < s.end)]
            if not inside or inside[0] not in timed:
                continue  # where nobody is scored
            name = inside[0]
        timed[name].append((row.begin, row.word))
    return {name: [word for _, word in sorted(words, key=lambda one: one[0])] for name, words in timed.items()}


@dataclass(frozen=True)
class DataFolder:
    """A folder whose files are read when they are asked for."""

    path: Path

    def __post_init__(self) -> None:
        for name in ("text", "utt2spk", "spk2utt", "segments", "wav.scp", CHANNELS):
            if os.path.lexists(self.path / name):
                check_regular(str(self.path / name))  # a pipe would wait, a device never end

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def text(self) -> dict[str, Words]:
        return read_text(self.path / "text")

    def utterances(self) -> list[str]:
        """As the first of text, utt2spk, segments and wav.scp that is there lists them."""
        names = [name for name in ("text", "utt2spk", "segments", "wav.scp") if self.has(name)]
        if not names:
            raise MdiError(f"{self.path}: no text, utt2spk, segments or wav.scp; expected a Kaldi data directory")
        return list(read_rows(self.path / names[0]))

    def speakers(self) -> dict[str, str]:
        """utt2spk: the speaker of each utterance; empty if there is no such file."""
        return read_groups(self.path / "utt2spk") if self.has("utt2spk") else {}

    def utterances_of_speakers(self) -> dict[str, list[str]]:
        """spk2utt; empty if there is no such file."""
        rows = read_rows(self.path / "spk2utt", "speaker") if self.has("spk2utt") else {}
        return {name: row.fields for name, row in rows.items()}

    def recordings(self) -> dict[str, Source]:
        """wav.scp: the file of each recording, or the command that prints it."""
        path = self.path / "wav.scp"
        found = {}
        for name, row in read_rows(path, "recording").items():
            if not row.rest:
                raise MdiError(f"{path}:{row.number}: {name} has no file; expected 'name file' or 'name command |'")
            try:
                found[name] = parse_rxfilename(to_str(row.rest))
            except MdiError as error:
                raise MdiError(f"{path}:{row.number}: recording {name}: {error}") from error
        return found

    def check_no_pipes(self) -> None:
        """Refuses a wav.scp with commands."""
        for name, source in self.recordings().items():
            if source.command is not None:
                raise MdiError(
                    f"{self.path / 'wav.scp'}: recording {name} is a command, '{source.command[:80]} |'; expected a "
                    f"file. If you trust all of this table, --allow-pipes true runs its commands in a shell"
                )

    def channels(self) -> dict[str, int]:
        """The channel of each recording that reco2file_and_channel has, counted from 0."""
        path = self.path / CHANNELS
        rows = read_rows(path, "recording") if path.exists() else {}
        return {name: _channel(path, row) for name, row in rows.items()}

    def segments(self) -> dict[str, Segment]:
        """Where each utterance is; whole recordings if there is no such file."""
        recordings = self.recordings()
        path = self.path / "segments"
        if not path.exists():
            return {name: Segment(name, 0.0, -1.0) for name in recordings}
        found = {}
        for name, row in read_rows(path).items():
            found[name] = _segment(path, row)
            if found[name].recording not in recordings:
                raise MdiError(
                    f"{path}:{row.number}: no recording {found[name].recording} in {self.path / 'wav.scp'}; add it"
                )
        return found
