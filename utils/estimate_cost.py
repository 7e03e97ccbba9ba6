#!/usr/bin/env python3
"""About how long each stage of run.sh takes and how much memory it needs, from the sizes of its inputs.

It needs no package, so that it works before anything is installed. The rates were measured on two cores at 2.5 GHz; a
run on another machine, or beside other work, may take twice as long.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cost import MILLION, adapt_cost, count_ngrams, count_words, spell_seconds, tune_cost

from mdi.errors import MdiError


@dataclass(frozen=True)
class StageCost:
    stage: int
    what: str
    seconds: float
    gigabytes: float


def is_model(path: Path) -> bool:
    return path.is_file() and count_ngrams(path) > 0


def seconds_of_speech(folder: Path) -> float:
    """From segments, or from the sizes of the files in wav.scp (16 kHz, 16 bits); 0 where only commands are named."""
    segments = folder / "segments"
    if segments.exists():
        try:
            return sum(float(row[3]) - float(row[2]) for row in _rows(segments) if len(row) == 4)
        except ValueError as error:
            raise MdiError(f"{segments}: {error}; expected utterance, recording, begin and end in seconds") from None
    if not (folder / "wav.scp").exists():
        return 0.0
    files = [Path(row[1]) for row in _rows(folder / "wav.scp") if len(row) == 2]
    return sum(file.stat().st_size for file in files if file.is_file()) / 32_000


def _rows(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text("utf-8", "replace").splitlines()]


def ngrams_of_text(words: float) -> float:
    """Trigrams seen twice, all shorter ones: 3.6M of 20M words of podcasts, 68M of 702M words of news."""
    return 3.6 * MILLION * (words / (20 * MILLION)) ** 0.83


def estimate(args: argparse.Namespace) -> list[StageCost]:
    background, in_words = Path(args.background), count_words(Path(args.in_text))
    ready = is_model(background)
    bg_words = 0.0 if ready else count_words(background)
    bg_ngrams = count_ngrams(background) if ready else ngrams_of_text(bg_words)
    # every n-gram of the in-domain text; about half of them are new to the background
    size = (bg_ngrams + 0.4 * in_words) / MILLION
    words, bg_words = (in_words + bg_words) / MILLION, bg_words / MILLION
    sets, speech = len(args.thresholds.split(",")), sum(seconds_of_speech(Path(folder)) for folder in args.speech)
    counting = min(2.0, 0.03 * bg_words)  # steps/train_lm.sh counts in 2 GB at most
    models = sets + 3  # interpolated, the sweep, prior, best
    normalizing = 4.0 * bg_words / args.nj if args.normalize else 0.0
    decoding = 0.0 if args.lattices else 3 * (20 + 0.33 * speech / args.nj)
    sweep, prior = adapt_cost(bg_ngrams, in_words, sets), adapt_cost(bg_ngrams, in_words)
    search = tune_cost(bg_ngrams, in_words, args.max_settings)
    costs = [
        StageCost(0, "data", 3 + 0.15 * words + normalizing, 0.4),
        StageCost(1, "language models", 2 + 0.4 * words, 0.2 + counting + 0.05 * size),
        StageCost(2, "interpolation", 2 + 0.6 * size, 0.12 + 0.034 * size),
        StageCost(3, "MDI", sweep.seconds + prior.seconds + search.seconds, search.gigabytes),
        StageCost(4, "first-pass models", 8 + 1.6 * size, 0.2 + 0.06 * size),
        StageCost(5, "decoding", decoding, 0.8),
        StageCost(6, "rescoring", (models * (2 + 0.4 * size) + 0.02 * speech) * len(args.speech), 0.2 + 0.1 * size),
        StageCost(7, "scores, table, report", 5 + 0.3 * size * models + 0.02 * models * speech, 0.2 + 0.05 * size),
    ]
    if not speech:
        costs = [cost for cost in costs if cost.stage not in (5, 6)]
    return [cost for cost in costs if args.stage <= cost.stage <= args.stop_stage]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--in-text", required=True, metavar="TEXT", help="in-domain text")
    add("--background", required=True, metavar="TEXT|ARPA", help="background: a text, a directory of texts or a model")
    add("--speech", action="append", default=[], metavar="DIR", help="Kaldi data directory of a test set")
    add("--lattices", choices=("true", "false"), default="false", help="lattices are there: no decoding (false)")
    add("--normalize", choices=("true", "false"), default="false", help="stage 0 normalises the background (false)")
    add("--thresholds", default="2-2-2,5-3-2,6-4-3", metavar="LIST", help="sets of the sweep (2-2-2,5-3-2,6-4-3)")
    add("--max-settings", type=int, default=32, metavar="N", help="settings that the search tries (32)")
    add("--nj", type=int, default=2, metavar="N", help="jobs at a time (2)")
    add("--stage", type=int, default=0, metavar="N", help="first stage (0)")
    add("--stop-stage", type=int, default=7, metavar="N", help="last stage (7)")
    args = parser.parse_args(argv)
    args.lattices, args.normalize = args.lattices == "true", args.normalize == "true"
    try:
        costs = estimate(args)
    except (OSError, ValueError, MdiError) as error:
        print(f"utils/estimate_cost.py: {error}", file=sys.stderr)
        return 1
    for cost in costs:
        print(f"  stage {cost.stage}  {cost.what:<24} {spell_seconds(cost.seconds):>8} {cost.gigabytes:6.1f} GB")
    if costs:
        most = max(cost.gigabytes for cost in costs)
        print(f"  in all  {'':<24} {spell_seconds(sum(cost.seconds for cost in costs)):>8} {most:6.1f} GB at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
