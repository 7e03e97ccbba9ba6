#!/usr/bin/env python3
"""New words of a recogniser, by cross-validation over scenes of recorded dialogue: are they recognised?

Every line with a word that the Vosk model does not know is recognised once, and as many lines without one, by a model
that is adapted to the lines of other scenes: with `mdi vosk adapt` as it is (new), and with --new-words none (old). No
test line is in that text.

DIR/fold.K/{train.txt.gz,speech}     the text, and a data folder of the test lines
DIR/fold.K/{old,new}, .../decoded    the models, and what they recognise
DIR/result.tsv                       errors by utterance; the summary is printed
"""

import argparse
import hashlib
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import game_dialogue
import vosk_model
from folds import fold_scenes
from prepare_corpus import write_lines
from recorded_speech import Line, recognisable, speech_parser, write_data_folder
from word_recall import NewWords, read_rows, recall

from mdi.errors import exit_code
from mdi.fst.symbols import read_symbols
from mdi.progress import say
from mdi.speech.data import read_text
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.wer import compute_wer, confidence, sign_flip_p

MODELS = {"old": ["--new-words", "none"], "new": []}


@dataclass(frozen=True)
class Fold:
    train: list[Line]
    test: list[Line]


def make_folds(lines: list[Line], for_training: list[str], known: set[str], n_folds: int, seed: int) -> list[Fold]:
    scenes, fresh = fold_scenes(lines, for_training, n_folds, seed)
    folds = []
    for here in scenes:
        mine = [line for scene in here for line in fresh.get(scene, [])]
        new = [line for line in mine if any(word not in known for word in line[1])]
        others = [line for line in mine if all(word in known for word in line[1])]
        others.sort(key=lambda line: hashlib.sha256(f"{seed} {line[0].name}".encode()).digest())
        train = [line for line in lines if line[0].scene not in here]
        folds.append(Fold(train, new + others[: len(new)]))
    return folds


def run(folder: Path, fold: Fold, model: str, options: list[str]) -> None:
    """What is up to date is not made again."""
    if not (folder / "speech" / "text").exists():
        write_lines(folder / "train.txt.gz", [" ".join(words) for _, words in fold.train])
        write_data_folder(folder / "speech", fold.test)
    for name, more in MODELS.items():
        made = folder / name
        if not (made / "mdi.json").exists():
            _mdi("vosk", "adapt", *more, *options, model, folder / "train.txt.gz", made)
        if not (folder / f"{name}.decoded" / "text").exists():
            _mdi("vosk", "decode", made, folder / "speech", folder / f"{name}.decoded")


def _mdi(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "mdi", *map(str, arguments)], check=True)  # noqa: S603 - ours, no shell


def summary(folder: Path, n_folds: int, known: set[str]) -> None:
    places = [folder / f"fold.{k}" for k in range(1, n_folds + 1)]
    texts = [read_text(here / "speech" / "text") for here in places]
    words = [NewWords(known, {row.word: row for row in read_rows(here / "new" / "new_words.tsv")}) for here in places]
    references = {u: said for text in texts for u, said in text.items()}
    with_new = {u for u, said in references.items() if words[0].among(said)}
    print(f"{len(with_new):,} utterances with new words, {len(references) - len(with_new):,} without")
    print("| | new words right, of those in the text | of all | false among its new words | WER with | without |")
    print("|---|---|---|---|---|---|")
    errors, rows = {}, []
    for name in MODELS:
        heard = [read_text(here / f"{name}.decoded" / "text") for here in places]
        found = {u: got for text in heard for u, got in text.items()}
        rows += ["\t".join((name, u, " ".join(said), " ".join(found.get(u, [])))) for u, said in references.items()]
        recalls = [recall(*fold) for fold in zip(words, texts, heard, strict=True)]
        right, false, total = (
            sum(getattr(one, what).total() for one in recalls) for what in ("right", "false", "said")
        )
        may = sum(
            n for new, one in zip(words, recalls, strict=True) for word, n in one.said.items() if word in new.rows
        )
        forms = sum(
            other_forms(words[0].among(said), words[0].among(found.get(u, []))) for u, said in references.items()
        )
        rates = []
        for wanted in (True, False):
            part = {u: said for u, said in references.items() if (u in with_new) is wanted}
            errors[name, wanted] = compute_wer(part, {u: found.get(u, []) for u in part})
            interval = confidence(errors[name, wanted])
            low, high = interval.mean - interval.half, interval.mean + interval.half
            rates.append(f"{errors[name, wanted].rate:.2f} ({low:.1f}-{high:.1f})")
        print(
            f"| {name} | {right} of {may} ({100 * right / max(1, may):.1f}%) | {100 * right / max(1, total):.1f}% of "
            f"{total} | {false} of {right + false} ({100 * false / max(1, right + false):.1f}%), "
            f"{forms} of them another form of the word | "
            f"{' | '.join(rates)} |"
        )
    write_lines(folder / "result.tsv", rows)
    for wanted in (True, False):
        p = sign_flip_p(errors["new", wanted], errors["old", wanted])
        print(f"{'with' if wanted else 'without'} new words: p = {p:.4f}")


def other_forms(said: Counter[str], got: Counter[str]) -> int:
    """Words that are false only in their ending: x where x's was said, or the other way round."""
    stems = Counter[str]()
    for word, n in (said - got).items():
        stems[word.split("'")[0]] += n
    false = Counter[str]()
    for word, n in (got - said).items():
        false[word.split("'")[0]] += n
    return sum((stems & false).values())


def study(args: argparse.Namespace) -> None:
    folder, downloads = Path(args.out), Path(args.downloads)
    model = vosk_model.find_model(args.vosk_model, downloads)
    known = set(read_symbols(str(VoskFolder(Path(model)).words)).ids)
    recordings = game_dialogue.recordings(args.game, downloads)
    lines = recognisable(recordings.utterances, known)
    folds = make_folds(lines, list(recordings.for_training), known, args.folds, args.seed)
    say(f"{sum(len(fold.test) for fold in folds):,} lines to recognise in {args.folds} folds")
    for k, fold in enumerate(folds, 1):
        (folder / f"fold.{k}").mkdir(parents=True, exist_ok=True)
        run(folder / f"fold.{k}", fold, str(model), args.options.split())
    summary(folder, args.folds, known)


def main(argv: list[str] | None = None) -> int:
    parser = speech_parser(__doc__)
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="(5)")
    parser.add_argument("--options", default="", metavar="TEXT", help="more options for both models' mdi vosk adapt")
    args = parser.parse_args(argv)
    return exit_code("local/new_words.py", lambda: study(args))


if __name__ == "__main__":
    sys.exit(main())
