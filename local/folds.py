#!/usr/bin/env python3
"""Recorded speech in folds of whole scenes, for cross-validation: every drawn utterance is a test utterance once.

DIR/speech                     data folder of all utterances that are drawn: they are recognised
DIR/fold.K/speech/{test,dev}   those of the fold's test scenes, and of some scenes of the next fold
DIR/fold.K/{train,dev,test}.txt.gz   all lines of the other scenes; the words of the two sets

A fold's test lines occur in no other fold, so neither in its training text nor in its development set, and once. Its
development lines do not occur in its training text. All choices are seeded, and depend on the texts alone.
"""

import argparse
import hashlib
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import game_dialogue
import vosk_model
from prepare_corpus import link, write_lines
from recorded_speech import Line, recognisable, speech_parser, write_data_folder

from mdi.errors import MdiError, exit_code
from mdi.progress import say


@dataclass(frozen=True)
class Fold:
    train: list[Line]
    dev: list[Line]
    test: list[Line]


def _by_scene(lines: Sequence[Line]) -> dict[str, list[Line]]:
    found = defaultdict(list)
    for line in lines:
        found[line[0].scene].append(line)
    return dict(found)


def _text(line: Line) -> str:
    return " ".join(line[1])


def _whole_scenes(scenes: Sequence[str], lines: dict[str, list[Line]], utterances: int, words: int) -> list[str]:
    """The first scenes that together have so many utterances and words."""
    drawn: list[str] = []
    for scene in scenes:
        if utterances <= 0 and words <= 0:
            break
        if here := lines.get(scene):
            drawn.append(scene)
            utterances -= len(here)
            words -= sum(len(line[1]) for line in here)
    return drawn


def fold_scenes(
    lines: Sequence[Line], for_training: Collection[str], n_folds: int, seed: int
) -> tuple[list[list[str]], dict[str, list[Line]]]:
    """(the scenes of each fold, by scene the lines that occur in no other fold, each once)"""
    by_scene = _by_scene(lines)
    order = sorted(set(by_scene) - set(for_training), key=lambda s: hashlib.sha256(f"{seed} {s}".encode()).digest())
    scenes: list[list[str]] = [[] for _ in range(n_folds)]
    size = [0] * n_folds
    fold_of = dict.fromkeys(for_training, -1)
    for scene in order:  # to the smallest fold
        k = size.index(min(size))
        scenes[k].append(scene)
        size[k] += len(by_scene[scene])
        fold_of[scene] = k
    folds_with = defaultdict(set)
    for line in lines:
        folds_with[_text(line)].add(fold_of[line[0].scene])
    fresh: dict[str, list[Line]] = {}
    met = set()
    for scene in order:
        for line in by_scene[scene]:
            text = _text(line)
            if len(folds_with[text]) == 1 and text not in met:
                met.add(text)
                fresh.setdefault(scene, []).append(line)
    return scenes, fresh


def make_folds(
    lines: Sequence[Line],
    for_training: Collection[str],
    n_folds: int,
    utterances: int,
    words: int,
    dev_share: float,
    seed: int,
) -> list[Fold]:
    """`utterances` and `words`: at least so many in all tests together. `dev_share`: of a fold's drawn lines, as the
    development set of the fold before."""
    scenes, fresh = fold_scenes(lines, for_training, n_folds, seed)
    drawn = [_whole_scenes(here, fresh, -(-utterances // n_folds), -(-words // n_folds)) for here in scenes]
    if sum(len(fresh[scene]) for here in drawn for scene in here) < utterances:
        raise MdiError(f"fewer than {utterances:,} utterances are fit for a test; ask for fewer")
    folds = []
    for k in range(n_folds):
        after = drawn[(k + 1) % n_folds]
        lines_after = sum(len(fresh[scene]) for scene in after)
        dev_scenes = _whole_scenes(after, fresh, round(dev_share * lines_after), 0)
        kept_out = {*scenes[k], *dev_scenes}
        train = [line for line in lines if line[0].scene not in kept_out]
        seen = {_text(line) for line in train}
        dev = [line for scene in dev_scenes for line in fresh[scene] if _text(line) not in seen]
        folds.append(Fold(train, dev, [line for scene in drawn[k] for line in fresh[scene]]))
    return folds


def write_folds(folder: Path, folds: Sequence[Fold], known: Collection[str]) -> None:
    seconds = write_data_folder(folder / "speech", [line for fold in folds for line in fold.test])
    tables = {
        name: dict(row.split(" ", 1) for row in (folder / "speech" / name).read_text().splitlines())
        for name in ("text", "utt2spk", "utt2scene", "wav.scp")
    }
    for k, fold in enumerate(folds, 1):
        here = folder / f"fold.{k}"
        sizes = []
        for name, lines in (("train", fold.train), ("dev", fold.dev), ("test", fold.test)):
            here.mkdir(exist_ok=True)
            write_lines(here / f"{name}.txt.gz", map(_text, lines))
            words = [word for line in lines for word in line[1]]
            unknown = sum(word not in known for word in words)
            scenes = len({line[0].scene for line in lines})
            sizes.append(
                f"{name} {scenes} scenes, {len(lines):,} lines, {len(words):,} words, "
                f"{100 * unknown / max(1, len(words)):.1f}% unknown"
            )
            if name != "train":
                data = here / "speech" / name
                data.mkdir(parents=True, exist_ok=True)
                names = sorted((f"{u.speaker}-{u.name}" for u, _ in lines), key=str.encode)
                for table, rows in tables.items():
                    write_lines(data / table, [f"{u} {rows[u]}" for u in names])
        say(f"fold {k}: {'; '.join(sizes)}")
    n, words = sum(len(fold.test) for fold in folds), sum(len(line[1]) for fold in folds for line in fold.test)
    say(f"to be recognised: {n:,} utterances, {words:,} words, {seconds / 60:.1f} minutes")


def draw(args: argparse.Namespace) -> None:
    folder, downloads = Path(args.out), Path(args.downloads)
    folder.mkdir(parents=True, exist_ok=True)
    words = vosk_model.use_model(vosk_model.find_model(args.vosk_model, downloads), folder)
    write_lines(folder / "vocab.txt", words)
    link(folder / "default.arpa.gz", folder / "background.arpa.gz")
    recordings, known = game_dialogue.recordings(args.game, downloads), set(words)
    lines = recognisable(recordings.utterances, known)
    folds = make_folds(
        lines, recordings.for_training, args.folds, args.utterances, args.least_words, args.dev_share, args.seed
    )
    write_folds(folder, folds, known)
    write_lines(folder / "folds", [" ".join(str(k) for k in range(1, args.folds + 1))])


def main(argv: list[str] | None = None) -> int:
    parser = speech_parser(__doc__)
    add = parser.add_argument
    add("--folds", type=int, default=5, metavar="N", help="(5)")
    add("--utterances", type=int, default=2500, metavar="N", help="at least so many in all tests together (2500)")
    add("--least-words", type=int, default=15_000, metavar="N", help="and so many words (15000)")
    add(
        "--dev-share",
        type=float,
        default=0.35,
        metavar="X",
        help="of a fold's drawn lines, to develop on for the fold before (0.35)",
    )
    args = parser.parse_args(argv)
    return exit_code("local/cross_validate.sh", lambda: draw(args))


if __name__ == "__main__":
    sys.exit(main())
