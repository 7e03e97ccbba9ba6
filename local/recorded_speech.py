"""Recorded speech with its texts as sets: whole scenes for training, development and evaluation, Kaldi data folders.

A scene is what belongs together: a dialogue, a film, the prompts of one program. The evaluation and the development set
have no line in common with any other set, and no line twice. Every choice is seeded.
"""

import argparse
import hashlib
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from prepare_corpus import write_lines

from mdi.errors import MdiError
from mdi.progress import Progress, say
from mdi.spoken import english
from mdi.spoken.speller import Speller

sys.path.insert(0, str(Path(__file__).parent.parent / "utils"))

RATE = 16_000
# A line of which a smaller share of the words is in the recogniser's vocabulary is in an invented language.
KNOWN_SHARE = 0.7
SETS = ("train", "dev", "eval")


@dataclass(frozen=True)
class Utterance:
    scene: str
    speaker: str
    name: str  # of the recording
    text: str  # as it is shown
    samples: Callable[[], tuple[np.ndarray, int]]  # of one channel, between -1 and 1, and their rate


@dataclass(frozen=True)
class Recordings:
    """`eval_share` and `dev_share`: of the lines; whole scenes until there are so many."""

    source: str  # for messages
    utterances: list[Utterance]
    eval_share: float
    dev_share: float
    for_training: Collection[str] = ()  # scenes that are never drawn for the others
    language: str = "en"


Line = tuple[Utterance, list[str]]


def spoken_words(text: str, speller: Speller | None = None) -> list[str]:
    """In lower case, without punctuation, numbers in words; without noises in brackets and signs that nobody says.
    Languages other than English are spelt as far as possible with words of the recogniser: by a speller."""
    text = re.sub(r"<[^>]*>|\([^)]*\)|[@#&$^_]", " ", text)
    found = speller.line(text, split=False) if speller else english.sentences(text, split=False)
    return [word for sentence in found for word in sentence]


def recognisable(utterances: list[Utterance], known: Collection[str], language: str = "en") -> list[Line]:
    """Lines with words, enough of which the recogniser knows."""
    speller = None if language == "en" else Speller(known, language)
    lines = [(utterance, spoken_words(utterance.text, speller)) for utterance in utterances]
    return [(u, words) for u, words in lines if words and sum(w in known for w in words) >= KNOWN_SHARE * len(words)]


def split(lines: list[Line], seed: int, recordings: Recordings) -> dict[str, list[Line]]:
    """Whole scenes, in an order that the seed gives, to the evaluation set, the development set and the training text.
    From the first two are taken out lines that occur in the training text or occurred before."""
    by_scene: dict[str, list[Line]] = {}
    for line in lines:
        by_scene.setdefault(line[0].scene, []).append(line)
    kept = set(recordings.for_training)
    drawn = sorted(set(by_scene) - kept, key=lambda s: hashlib.sha256(f"{seed} {s}".encode()).digest())
    wanted = {"eval": recordings.eval_share * len(lines), "dev": recordings.dev_share * len(lines)}
    sets: dict[str, list[Line]] = {name: [] for name in SETS}
    for scene in drawn:
        here = next((name for name in wanted if len(sets[name]) < wanted[name]), "train")
        sets[here] += by_scene[scene]
    for scene in recordings.for_training:
        sets["train"] += by_scene.get(scene, [])
    met = {" ".join(words) for _, words in sets["train"]}
    for name in ("dev", "eval"):
        fresh = []
        for utterance, words in sets[name]:
            if (text := " ".join(words)) not in met:
                met.add(text)
                fresh.append((utterance, words))
        sets[name] = fresh
    return sets


def speech_parser(description: str | None) -> argparse.ArgumentParser:
    """With what programs ask for that make folders of recorded speech."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", metavar="DIR")
    add("--vosk-model", metavar="DIR", help="directory of a Vosk model (downloaded)")
    add("--game", metavar="FILE", help="queen.1c, or Debian's package of it (downloaded with apt-get)")
    add("--downloads", default="data/downloads", metavar="DIR", help="what was downloaded, kept (data/downloads)")
    add("--seed", type=int, default=1, metavar="N", help="of every choice (1)")
    return parser


def to_wav(samples: np.ndarray, rate: int) -> bytes:
    """16 kHz, one channel, 16 bits."""
    import soundfile
    from scipy.signal import resample_poly

    if rate != RATE:
        common = np.gcd(RATE, rate)
        samples = resample_poly(samples, RATE // common, rate // common)
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
            wav = to_wav(*utterance.samples())
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


def write_sets(
    folder: Path, recordings: Recordings, words: str, spoken: int = 0, train_spoken: int = 0, seed: int = 1
) -> None:
    """`words`: the recogniser's words.txt, or an FST that holds it. `spoken`: utterances of the evaluation set to
    recognise, and half as many of the development set; 0 for all. `train_spoken`: also so many of the training text."""
    from mdi.fst.symbols import read_symbols

    known, utterances = read_symbols(words).ids, recordings.utterances
    lines = recognisable(utterances, known, recordings.language)
    say(
        f"{recordings.source}: {len(utterances):,} recorded lines in {len({u.scene for u in utterances})} scenes; left "
        f"out {len(utterances) - len(lines):,} without words or in other languages, that is, with less than "
        f"{100 * KNOWN_SHARE:.0f}% of their words in the recogniser's vocabulary"
    )
    sets = split(lines, seed, recordings)
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
        say(
            f"{name}: {len({u.scene for u, _ in chosen})} scenes, {len(chosen):,} lines, {total:,} words, "
            f"{100 * unknown / max(1, total):.1f}% of them unknown{note}"
        )
    write_lines(folder / "sets", ["dev eval"])


def download(package: str, megabytes: int, downloads: Path, by_hand: str) -> Path:
    """A package of Debian, which needs no root; apt-get checks that it is the distribution's."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise MdiError(f"no program {program}, which the recorded speech comes with; {by_hand}")
    downloads.mkdir(parents=True, exist_ok=True)
    if not (found := sorted(downloads.glob(f"{package}_*.deb"))):
        say(f"downloading {package} ({megabytes} MB)")
        done = subprocess.run(["apt-get", "download", package], cwd=downloads, capture_output=True, text=True)  # noqa: S603, S607 - a list of arguments, no shell
        found = sorted(downloads.glob(f"{package}_*.deb"))
        if done.returncode or not found:
            raise MdiError(
                f"apt-get download {package} failed: {done.stderr.strip()[-300:]}. Check the network, or {by_hand}"
            )
    return found[-1]


def unpack(package: Path, into: Path, expected: str) -> Path:
    """What the package has under this name. dpkg-deb writes nowhere else."""
    done = subprocess.run(["dpkg-deb", "-x", str(package), str(into)], capture_output=True, text=True)  # noqa: S603, S607 - a list of arguments, no shell
    if done.returncode or not (into / expected).exists():
        raise MdiError(f"{package}: no {expected} comes out of it: {done.stderr.strip()[-300:]}. Download it again")
    return into / expected
