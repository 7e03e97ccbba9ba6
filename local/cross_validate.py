#!/usr/bin/env python3
"""Cross-validation over scenes: LM weights of the folds' models, their errors, and the table.

weigh   the own model's n-best lists under another model of every fold: the LM weight is chosen on development scenes by
        expected errors, and the test scenes are scored, as decoded and at the choice
score   words of a first pass
table   WER of all systems, and paired permutation tests over scenes and over utterances

A system's errors are a table, SCORES/NAME.tsv: utterance, fold, scene, words, errors.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from prepare_corpus import write_lines

from mdi.errors import MdiError, exit_code
from mdi.files import writing
from mdi.fst.formats import load
from mdi.fst.symbols import read_symbols
from mdi.lm.n_best import NBestLists
from mdi.progress import say
from mdi.speech.data import DataFolder, read_groups, read_text
from mdi.speech.n_best import read_lists
from mdi.speech.wer import compute_wer

REPLICATIONS = 100_000


@dataclass(frozen=True)
class Folds:
    """What local/folds.py has drawn."""

    path: Path

    @property
    def numbers(self) -> list[str]:
        return (self.path / "folds").read_text().split()

    def set(self, fold: str, name: str) -> list[str]:
        return list(self.data(fold, name).text())

    def data(self, fold: str, name: str) -> DataFolder:
        return DataFolder(self.path / f"fold.{fold}" / "speech" / name)

    @cached_property
    def scenes(self) -> dict[str, str]:
        return read_groups(self.path / "speech" / "utt2scene", "utterance")

    @cached_property
    def references(self) -> dict[str, list[str]]:
        return DataFolder(self.path / "speech").text()


def write_errors(folds: Folds, path: Path, rows: list[tuple[str, str, int, int]]) -> None:
    """`rows`: utterance, fold, words, errors."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{u}\t{fold}\t{folds.scenes[u]}\t{words}\t{errors}" for u, fold, words, errors in rows]
    write_lines(path, ["utterance\tfold\tscene\twords\terrors", *lines])


def own_lists(folds: Folds, decoded: Path) -> NBestLists:
    """Of all utterances; kept beside the decoding, as they take a minute."""
    kept, own = decoded / "lists.npz", load(folds.path / "background.arpa.gz", quiet=True)
    if not kept.exists():
        lists = read_lists(decoded, read_symbols(str(decoded / "words.txt")), own, folds.references)
        with writing(str(kept)) as stream:
            np.savez_compressed(
                stream,
                utterances=lists.utterances,
                begin=lists.begin,
                rest=lists.rest,
                errors=lists.errors,
                reference_words=lists.reference_words,
                words=[" ".join(words) for words in lists.words],
            )
    found = np.load(kept)
    words = [line.split() for line in found["words"].tolist()]
    parts = (found[name] for name in ("rest", "errors", "reference_words"))
    return NBestLists(found["utterances"].tolist(), found["begin"], words, *parts)


def weigh(args: argparse.Namespace) -> None:
    """One development set of 200 utterances is too small to choose a weight on: each fold takes those of all folds,
    each under the model of its own fold, but for the one that has scenes of its test."""
    folds, scores, rows = Folds(Path(args.data)), Path(args.scores), {"nbest.1": [], "nbest.tuned": []}
    lists = own_lists(folds, Path(args.decoded))
    dev_costs, test_costs = {}, {}
    for fold in folds.numbers:
        model = load(args.model.replace("{}", fold), quiet=True)
        dev_costs[fold] = lists.part(folds.set(fold, "dev")).lm_costs(model)
        test_costs[fold] = lists.part(folds.set(fold, "test")).lm_costs(model)
    for fold in folds.numbers:
        scenes = {folds.scenes[u] for u in folds.set(fold, "test")}
        pool = [k for k in folds.numbers if scenes.isdisjoint(folds.scenes[u] for u in folds.set(k, "dev"))]
        dev = lists.part([u for k in pool for u in folds.set(k, "dev")])
        lm = np.concatenate([dev_costs[k] for k in pool])
        choice, as_decoded = dev.choose(lm), int(dev.errors[dev.answers(lm)].sum())
        words = int(dev.reference_words.sum())
        out = args.out.replace("{}", fold)
        found = {
            "lm_weight": choice.lm_weight,
            "dev_words": words,
            "dev_errors_as_decoded": as_decoded,
            "dev_errors": choice.errors,
            "dev_expected": round(choice.expected, 2),
        }
        write_lines(Path(f"{out}.weight.json"), [json.dumps(found)])
        write_lines(Path(f"{out}.weight"), [f"--lm-weight {choice.lm_weight}"])
        say(
            f"{args.name}, fold {fold}: LM weight {choice.lm_weight:g}; errors of the development sets {as_decoded} -> "
            f"{choice.errors} of {words} words"
        )
        test = lists.part(folds.set(fold, "test"))
        for name, weight in (("nbest.1", 1.0), ("nbest.tuned", choice.lm_weight)):
            errors = test.errors[test.answers(test_costs[fold], weight)].tolist()
            rows[name] += zip(test.utterances, [fold] * len(errors), test.reference_words.tolist(), errors, strict=True)
    for name, found in rows.items():
        write_errors(folds, scores / f"{args.name}.{name}.tsv", found)


def score(args: argparse.Namespace) -> None:
    folds, rows = Folds(Path(args.data)), []
    for fold in folds.numbers:
        references = folds.data(fold, "test").text()
        found = compute_wer(references, read_text(Path(args.decoded.replace("{}", fold)) / "text"))
        sizes = found.words.tolist()
        rows += zip(found.utterances, [fold] * len(sizes), sizes, found.total.tolist(), strict=True)
    write_errors(folds, Path(args.scores) / f"{args.name}.tsv", rows)


@dataclass(frozen=True)
class Scored:
    """A system's errors, utterances in order."""

    utterances: list[str]
    scenes: np.ndarray
    words: np.ndarray
    errors: np.ndarray

    @property
    def rate(self) -> float:
        return 100.0 * self.errors.sum() / self.words.sum()


def read_errors(path: Path) -> Scored:
    rows = sorted(line.split("\t") for line in path.read_text().splitlines()[1:])
    utterances, _, scenes, words, errors = (list(column) for column in zip(*rows, strict=True))
    return Scored(utterances, np.array(scenes), np.array(words, int), np.array(errors, int))


def permutation_p(gain: np.ndarray, seed: int = 1) -> float:
    """Two-sided: had the two systems been exchanged at random, block by block, how often would the totals be as far
    apart?"""
    gain = gain[gain != 0].astype(np.int64)
    if not len(gain):
        return 1.0
    random, far = np.random.default_rng(seed), 0
    for _ in range(REPLICATIONS // 1000):
        signs = 2 * random.integers(0, 2, (1000, len(gain)), dtype=np.int8).astype(np.int64) - 1
        far += int((np.abs(signs @ gain) >= abs(int(gain.sum()))).sum())
    return (1 + far) / (1 + REPLICATIONS)


def by_scene(scored: Scored, gain: np.ndarray) -> np.ndarray:
    _, block = np.unique(scored.scenes, return_inverse=True)
    return np.bincount(block, weights=gain).astype(np.int64)


def interval(scored: Scored, other: Scored, seed: int = 1) -> tuple[float, float]:
    """95% of the relative change of the errors, in percent, over draws of scenes with replacement."""
    _, block = np.unique(scored.scenes, return_inverse=True)
    mine, theirs = (np.bincount(block, weights=one.errors) for one in (scored, other))
    drawn = np.random.default_rng(seed).integers(0, len(mine), (10_000, len(mine)))
    change = 100.0 * (mine[drawn].sum(1) / theirs[drawn].sum(1) - 1.0)
    return float(np.quantile(change, 0.025)), float(np.quantile(change, 0.975))


def comparisons(systems: dict[str, Scored], baselines: list[str]) -> Iterator[str]:
    yield "system\tWER\tbaseline\trelative\tlow\thigh\tp_scenes\tp_utterances"
    for name, scored in systems.items():
        for other_name in baselines:
            other = systems.get(other_name)
            if other is None or other is scored or other.utterances != scored.utterances:
                continue
            gain = other.errors - scored.errors
            low, high = interval(scored, other)
            change = 100.0 * (scored.rate / other.rate - 1.0)
            yield (
                f"{name}\t{scored.rate:.2f}\t{other_name}\t{change:+.1f}%\t{low:+.1f}\t{high:+.1f}\t"
                f"{permutation_p(by_scene(scored, gain)):.5f}\t{permutation_p(gain):.5f}"
            )


def table(args: argparse.Namespace) -> None:
    systems = {path.stem: read_errors(path) for path in sorted(Path(args.scores).glob("*.tsv"))}
    if not systems:
        raise MdiError(f"{args.scores}: no tables of errors; weigh and score first")
    lines = [f"{name}\t{one.rate:.2f}\t{one.errors.sum()} / {one.words.sum()}" for name, one in systems.items()]
    for line in [*lines, "", *comparisons(systems, args.baseline)]:
        print(line)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="weigh|score|table")
    add = commands.add_parser("weigh").add_argument
    add("data", metavar="DATA", help="of local/folds.py")
    add("decoded", metavar="DIR", help="the own model's decoding with --n-best, of all utterances")
    add("model", metavar="LM", help="{} stands for the fold")
    add("out", metavar="OUT", help="OUT.weight: weight and penalty as options; {} stands for the fold")
    add("scores", metavar="SCORES")
    add("name", metavar="NAME")
    commands.choices["weigh"].set_defaults(run=weigh)
    add = commands.add_parser("score").add_argument
    add("data", metavar="DATA", help="of local/folds.py")
    add("decoded", metavar="DIR", help="{} stands for the fold")
    add("scores", metavar="SCORES")
    add("name", metavar="NAME")
    commands.choices["score"].set_defaults(run=score)
    add = commands.add_parser("table").add_argument
    add("scores", metavar="SCORES")
    add("--baseline", metavar="NAME", action="append", default=[], help="compare with it; may be repeated")
    commands.choices["table"].set_defaults(run=table)
    args = parser.parse_args(argv)
    return exit_code("local/cross_validate.py", lambda: args.run(args))


if __name__ == "__main__":
    sys.exit(main())
