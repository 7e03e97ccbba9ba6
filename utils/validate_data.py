#!/usr/bin/env python3
"""What utils/validate_data.sh checks: its --help says what a data folder has. Every offence is named, then the exit
code is 1."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mdi.errors import MdiError, examples
from mdi.files import read_lines
from mdi.speech.data import DataFolder, fields, read_rows

MARKS = {"<s>", "</s>"}
NAME = re.compile(r"[\w.+-]{1,100}")
MOST_UNKNOWN = 0.2  # more words outside the vocabulary than this: another case or another normalisation


def rows(path: Path) -> Iterator[list[str]]:
    for line in read_lines(str(path)):
        yield fields(line)


def check_text(path: Path, vocabulary: set[str], wrong: list[str], most_lines: int = 200_000) -> None:
    """The lines of a text (of a large one, the first so many)."""
    n = unknown = 0
    strange: list[str] = []
    for number, words in enumerate(rows(path), 1):
        if number > most_lines:
            break
        if number == 1 and words and words[0] == "\\data\\":
            wrong.append(f"{path}: is an ARPA model; expected text. Name it background.arpa.gz")
            return
        if any("\udc80" <= c <= "\udcff" for c in "".join(words)):  # how Python keeps bytes that are not UTF-8
            wrong.append(f"{path}:{number}: not UTF-8; expected text in UTF-8. Run: iconv -f LATIN1 -t UTF-8")
            return
        if MARKS & set(words):
            wrong.append(
                f"{path}:{number}: has <s> or </s>; expected a sentence without. Remove them: sed 's/<\\/*s>//g'"
            )
            return
        n += len(words)
        missing = [word for word in words if word not in vocabulary]
        unknown += len(missing)
        strange += missing[: 5 - len(strange)] if len(strange) < 5 else []
    if n == 0:
        wrong.append(f"{path}: no words in it; expected one sentence per line")
    elif vocabulary and unknown > MOST_UNKNOWN * n:
        wrong.append(
            f"{path}: {unknown:,} of {n:,} words are not in vocab.txt, such as {examples(strange)}; expected most "
            f"of them there. Are both in the same letter case, and without utterance names at the beginning of lines?"
        )


def check_vocabulary(path: Path, wrong: list[str]) -> set[str]:
    words: set[str] = set()
    for number, row in enumerate(rows(path), 1):
        if len(row) != 1:
            wrong.append(f"{path}:{number}: '{' '.join(row)[:80]}'; expected one word per line")
            return words
        words.add(row[0])
    if not words:
        wrong.append(f"{path}: empty; expected one word per line")
    return words


def check_audio(folder: DataFolder, wrong: list[str]) -> None:
    """Files that wav.scp names and that are not commands; utterances of segments."""
    files = [source.path for source in folder.recordings().values() if source.command is None]
    if gone := [file for file in files if not Path(file).exists()]:
        wrong.append(
            f"{folder.path}/wav.scp: {len(gone):,} of {len(files):,} sound files are not there: {examples(gone)}"
        )
    spoken = folder.segments()
    if silent := [name for name in folder.utterances() if name not in spoken]:
        where = "segments" if folder.has("segments") else "wav.scp"
        wrong.append(
            f"{folder.path}/{where}: {len(silent):,} utterances are not there, such as {examples(silent)}; expected all"
        )


def check_lattices(folder: Path, text: Path, wrong: list[str]) -> None:
    """The first lattice of each archive must be of an utterance of the text: reading all of them would take long."""
    from mdi.speech.lattice_files import read_lattices

    known = {row[0] for row in rows(text) if row}
    found = [next(read_lattices(str(path)), None) for path in sorted(folder.glob("lat.*.gz"))]
    strange = [lattice.utterance for lattice in found if lattice is not None and lattice.utterance not in known]
    if strange:
        wrong.append(
            f"{folder}: lattices of {examples(strange)}, which {text} has not; expected those of the same test set"
        )


def check_speech(folder: DataFolder, words: set[str], wrong: list[str]) -> None:
    """A Kaldi data folder: the same utterances everywhere, sorted as with LC_ALL=C."""
    tables = {}
    for name in ("text", "utt2spk"):
        path = folder.path / name
        if not path.exists():
            wrong.append(f"{path}: missing; expected one line per utterance")
            continue
        tables[name] = read_rows(path)
        names = list(tables[name])
        if names != sorted(names, key=lambda x: x.encode("utf-8", "surrogateescape")):
            wrong.append(f"{path}: not sorted; run: LC_ALL=C sort -o {path} {path}")
    if len(tables) < 2:
        return
    for one, other in (("text", "utt2spk"), ("utt2spk", "text")):
        if only := sorted(tables[one].keys() - tables[other].keys()):
            wrong.append(f"{folder.path}: {len(only):,} utterances of {one} are not in {other}: {examples(only)}")
    speakers, listed = folder.speakers(), folder.utterances_of_speakers()
    said_otherwise = [name for name in speakers if listed and name not in listed.get(speakers[name], [])]
    if said_otherwise:
        wrong.append(
            f"{folder.path}: spk2utt and utt2spk differ for {examples(said_otherwise)}; run Kaldi's "
            f"utils/utt2spk_to_spk2utt.pl utt2spk > spk2utt"
        )
    said = [word for row in tables["text"].values() for word in row.fields]
    unknown = [word for word in said if word not in words] if words else []
    if len(unknown) > MOST_UNKNOWN * len(said):
        wrong.append(
            f"{folder.path}/text: {len(unknown):,} of {len(said):,} words are not in words.txt: {examples(unknown)}"
        )


def check(folder: Path) -> list[str]:
    """What is wrong with a data folder; nothing if nothing is."""
    wrong: list[str] = []
    if not folder.is_dir():
        return [f"{folder}: no such directory; local/prepare_data.sh makes it (stage 0)"]
    for name in ("train.txt.gz", "vocab.txt", "sets"):
        if not (folder / name).exists():
            wrong.append(f"{folder / name}: missing; see utils/validate_data.sh --help")
    backgrounds = [folder / name for name in ("background.txt.gz", "background.arpa.gz") if (folder / name).exists()]
    if len(backgrounds) != 1:
        found = "both" if backgrounds else "neither"
        wrong.append(f"{folder}: {found} of background.txt.gz and background.arpa.gz; expected one")
    if wrong:
        return wrong
    vocabulary = check_vocabulary(folder / "vocab.txt", wrong)
    sets = [name for row in rows(folder / "sets") for name in row]
    if strange := [name for name in sets if not NAME.fullmatch(name)]:
        return [*wrong, f"{folder / 'sets'}: {examples(strange)}; expected short names of letters, digits, '.-_'"]
    if not sets:
        wrong.append(f"{folder / 'sets'}: empty; expected names of test sets, the development set first")
    texts = ["train", *sets] + (["background"] if backgrounds and backgrounds[0].name == "background.txt.gz" else [])
    for name in texts:
        path = folder / f"{name}.txt.gz"
        if path.exists():
            check_text(path, vocabulary if name != "background" else set(), wrong)
        else:
            wrong.append(f"{path}: missing; expected the text of '{name}', which {folder / 'sets'} names")
    speech = [path for path in sorted((folder / "speech").glob("*")) if path.is_dir()]
    if not speech:
        return wrong
    symbols = folder / "words.txt"
    if not symbols.exists():
        return [*wrong, f"{symbols}: missing; expected Kaldi's symbol table beside speech/"]
    words = {row[0] for row in rows(symbols) if row}
    for path in speech:
        if path.name not in sets:
            wrong.append(f"{path}: no test set of that name in {folder / 'sets'} ({' '.join(sets)})")
            continue
        try:
            check_speech(DataFolder(path), words, wrong)
            if (path / "wav.scp").exists() and not (folder / "lattices" / path.name).is_dir():
                check_audio(DataFolder(path), wrong)
        except MdiError as error:
            wrong.append(str(error))
        lattices = folder / "lattices" / path.name
        if lattices.is_dir():
            if not (lattices / "num_jobs").exists() or not list(lattices.glob("lat.*.gz")):
                wrong.append(f"{lattices}: no num_jobs or no lat.N.gz; expected a decoding directory of Kaldi's")
            elif (path / "text").exists():
                check_lattices(lattices, path / "text", wrong)
            if not (folder / "default.arpa.gz").exists():
                wrong.append(f"{folder / 'default.arpa.gz'}: missing; expected the model that {lattices} was made with")
        elif not (path / "feats.scp").exists():  # with features a Kaldi recipe's own acoustic model decodes
            needed = [path / "wav.scp", folder / "vosk-model"]
            wrong += [f"{where}: missing; expected it, or {lattices}" for where in needed if not where.exists()]
    return wrong


def main(argv: list[str]) -> int:
    folder = Path(argv[0])
    try:
        wrong = check(folder)
    except MdiError as error:
        wrong = [str(error)]
    for line in wrong:
        print(f"utils/validate_data.sh: {line}", file=sys.stderr)
    if not wrong:
        print(f"utils/validate_data.sh: {folder} is in order", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
