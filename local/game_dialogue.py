#!/usr/bin/env python3
"""Recorded speech with its texts: the dialogue of an adventure game, Flight of the Amazon Queen, 4.5 hours of it.

The game may be given away freely, but not sold by itself; Debian's package of it (flight-of-the-amazon-queen, 35 MB)
needs no root to be downloaded and unpacked. DIR gets train.txt.gz, dev.txt.gz and eval.txt.gz, and for the last two
Kaldi data folders speech/dev and speech/eval with 16 kHz sound; also speech/train with --train-spoken. The sets are
drawn by scene, evaluation and development set have no line in common with any other set, and no line twice. Every
choice is seeded.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from demo_text import check_digest
from prepare_corpus import write_lines

from mdi.errors import MdiError, exit_code
from mdi.progress import Progress, say

sys.path.insert(0, str(Path(__file__).parent.parent / "utils"))

PACKAGE = "flight-of-the-amazon-queen"
ARCHIVE = f"usr/share/scummvm/{PACKAGE}/queen.1c"
SHA256 = "cc91960d133fcd4173eda4bac304e80d2bbdbaa085640287ab9e0507bd603f67"
RATE = 16_000
# Descriptions of things, which the hero speaks: no scene, so they are always training text.
DESCRIPTIONS = "JOE"
# A line of which a smaller share of the words is in the recogniser's vocabulary is in an invented language.
KNOWN_SHARE = 0.7
# Shares of the lines: whole scenes until there are so many.
EVAL_SHARE, DEV_SHARE = 0.15, 0.05
SETS = ("train", "dev", "eval")


@dataclass(frozen=True)
class Utterance:
    scene: str
    speaker: str
    name: str  # of the recording
    text: str  # as it is shown
    sound: bytes  # MP3


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
            found[name] = Utterance(sentence.scene, sentence.speaker, name, text, archive[f"{name}.SB"])
    return [found[name] for name in sorted(found) if name not in disputed]


def spoken_words(text: str) -> list[str]:
    """In lower case, without punctuation, numbers in words; without noises in brackets and signs that nobody says."""
    from normalize_text import sentences

    text = re.sub(r"<[^>]*>|\([^)]*\)|[@#&$^_]", " ", text)
    return [word for sentence in sentences(text, split=False) for word in sentence]


Line = tuple[Utterance, list[str]]


def in_english(utterances: list[Utterance], known: Collection[str]) -> list[Line]:
    """Lines with words, enough of which the recogniser knows."""
    lines = [(utterance, spoken_words(utterance.text)) for utterance in utterances]
    return [(u, words) for u, words in lines if words and sum(w in known for w in words) >= KNOWN_SHARE * len(words)]


def split(lines: list[Line], seed: int) -> dict[str, list[Line]]:
    """Whole scenes, in an order that the seed gives, to the evaluation set, the development set and the training text.
    From the first two are taken out lines that occur in the training text or occurred before."""
    by_scene: dict[str, list[Line]] = {}
    for line in lines:
        by_scene.setdefault(line[0].scene, []).append(line)
    drawn = sorted(set(by_scene) - {DESCRIPTIONS}, key=lambda s: hashlib.sha256(f"{seed} {s}".encode()).digest())
    wanted = {"eval": EVAL_SHARE * len(lines), "dev": DEV_SHARE * len(lines)}
    sets: dict[str, list[Line]] = {name: [] for name in SETS}
    for scene in drawn:
        here = next((name for name in wanted if len(sets[name]) < wanted[name]), "train")
        sets[here] += by_scene[scene]
    sets["train"] += by_scene.get(DESCRIPTIONS, [])
    met = {" ".join(words) for _, words in sets["train"]}
    for name in ("dev", "eval"):
        fresh = []
        for utterance, words in sets[name]:
            if (text := " ".join(words)) not in met:
                met.add(text)
                fresh.append((utterance, words))
        sets[name] = fresh
    return sets


def to_wav(sound: bytes) -> bytes:
    """MP3 as WAV: 16 kHz, one channel, 16 bits."""
    import soundfile
    from scipy.signal import resample_poly

    samples, rate = soundfile.read(io.BytesIO(sound), dtype="float64", always_2d=True)
    common = np.gcd(RATE, rate)
    samples = resample_poly(samples.mean(axis=1), RATE // common, rate // common)
    stream = io.BytesIO()
    whole = np.clip(np.rint(32768 * samples), -32768, 32767).astype(np.int16)
    soundfile.write(stream, whole, RATE, subtype="PCM_16", format="WAV")
    return stream.getvalue()


def write_data_folder(folder: Path, lines: list[Line]) -> float:
    """text, utt2spk, spk2utt, utt2scene, wav.scp and wav/; the seconds of speech."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "wav").mkdir(parents=True)
    tables: dict[str, list[str]] = {"text": [], "utt2spk": [], "utt2scene": [], "wav.scp": []}
    of_speaker: dict[str, list[str]] = {}
    size = 0
    with Progress(f"sound of {folder.name}", len(lines), "utterances") as progress:
        for i, (utterance, words) in enumerate(lines):
            name = f"{utterance.speaker}-{utterance.name}"
            path = folder / "wav" / f"{name}.wav"
            wav = to_wav(utterance.sound)
            path.write_bytes(wav)
            size += len(wav)
            tables["text"].append(f"{name} {' '.join(words)}")
            tables["utt2spk"].append(f"{name} {utterance.speaker}")
            tables["utt2scene"].append(f"{name} {utterance.scene}")
            tables["wav.scp"].append(f"{name} {path.resolve()}")
            of_speaker.setdefault(utterance.speaker, []).append(name)
            progress.update(i + 1)
    tables["spk2utt"] = [f"{speaker} {' '.join(sorted(names))}" for speaker, names in of_speaker.items()]
    for name, rows in tables.items():
        write_lines(folder / name, sorted(rows, key=lambda row: row.split(" ", 1)[0].encode()))
    return size / (2 * RATE)


def find_game(given: str | None, downloads: Path) -> Path:
    """queen.1c: the file that is given, or of the package, which is downloaded once. Its sum is checked."""
    if given:
        path = Path(given)
        if not path.is_file():
            raise MdiError(f"{given}: no such file; expected queen.1c of {PACKAGE}, or Debian's package of it")
    else:
        path = downloads / "queen.1c"
        if not path.exists():
            path = _download(downloads)
    if path.suffix == ".deb":
        path = _unpacked(path, downloads)
    check_digest(path, SHA256)
    return path


def _download(downloads: Path) -> Path:
    """Debian's package; apt-get checks that it is the distribution's."""
    by_hand = f"give the game's queen.1c or Debian's package {PACKAGE} with --game FILE"
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise MdiError(f"no program {program}, which the recorded speech comes with; {by_hand}")
    downloads.mkdir(parents=True, exist_ok=True)
    say(f"downloading {PACKAGE} (35 MB)")
    done = subprocess.run(["apt-get", "download", PACKAGE], cwd=downloads, capture_output=True, text=True)
    found = sorted(downloads.glob(f"{PACKAGE}_*.deb"))
    if done.returncode or not found:
        raise MdiError(
            f"apt-get download {PACKAGE} failed: {done.stderr.strip()[-300:]}. Check the network, or {by_hand}"
        )
    return found[-1]


def _unpacked(package: Path, downloads: Path) -> Path:
    downloads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=downloads, prefix=".deb.") as scratch:
        done = subprocess.run(["dpkg-deb", "-x", str(package), scratch], capture_output=True, text=True)
        if done.returncode or not (Path(scratch) / ARCHIVE).exists():
            raise MdiError(f"{package}: no {ARCHIVE} comes out of it: {done.stderr.strip()[-300:]}. Download it again")
        return Path(shutil.move(Path(scratch) / ARCHIVE, downloads / "queen.1c"))


def prepare(
    folder: Path, words: str, game: str | None, downloads: Path, spoken: int, seed: int, train_spoken: int = 0
) -> None:
    """Everything from the archive to DIR. `spoken`: utterances of the evaluation set to recognise, and half as many of
    the development set; 0 for all. `train_spoken`: also so many of the training text."""
    from mdi.fst.symbols import read_symbols

    path = find_game(game, downloads)
    known = read_symbols(words).ids
    utterances = read_utterances(Archive(path.read_bytes(), str(path)))
    lines = in_english(utterances, known)
    say(f"{path}: {len(utterances):,} recorded lines in {len({u.scene for u in utterances})} scenes; left out "
        f"{len(utterances) - len(lines):,} without words or in invented languages, that is, with less than "
        f"{100 * KNOWN_SHARE:.0f}% of their words in the recogniser's vocabulary")  # fmt: skip
    sets = split(lines, seed)
    say("sets: whole scenes; lines of the development and the evaluation set occur in no other set, and once")
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in sets.items():
        write_lines(folder / f"{name}.txt.gz", [" ".join(words) for _, words in chosen])
        unknown = sum(word not in known for _, words in chosen for word in words)
        total = sum(len(words) for _, words in chosen)
        note = ""
        if name != "train" or train_spoken:
            heard = sorted(chosen, key=lambda line: hashlib.sha256(f"{seed} {line[0].name}".encode()).digest())
            number = {"train": train_spoken, "dev": spoken // 2, "eval": spoken}[name]
            heard = heard[:number] if number else heard
            seconds = write_data_folder(folder / "speech" / name, heard)
            note = f"; to be recognised {len(heard):,}, {seconds / 60:.1f} minutes"
        say(f"{name}: {len({u.scene for u, _ in chosen})} scenes, {len(chosen):,} lines, {total:,} words, "
            f"{100 * unknown / max(1, total):.1f}% of them unknown{note}")  # fmt: skip
    write_lines(folder / "sets", ["dev eval"])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", metavar="DIR")
    add("--words", required=True, metavar="FILE", help="the recogniser's words.txt, or an FST that holds it (Gr.fst)")
    add("--game", metavar="FILE", help="queen.1c, or Debian's package (it is downloaded)")
    add("--downloads", default="data/downloads", metavar="DIR", help="what was downloaded, kept (data/downloads)")
    add("--spoken", type=int, default=0, metavar="N", help="utterances of the evaluation set (0: all; half of dev)")
    add("--train-spoken", type=int, default=0, metavar="N", help="utterances of the training text, as sound (0: none)")
    add("--seed", type=int, default=1, metavar="N", help="of every choice (1)")
    args = parser.parse_args(argv)
    given = (Path(args.out), args.words, args.game, Path(args.downloads), args.spoken, args.seed, args.train_spoken)
    return exit_code("local/game_dialogue.py", lambda: prepare(*given))


if __name__ == "__main__":
    sys.exit(main())
