#!/usr/bin/env python3
"""Adaptation to what is recognised, without transcripts, cross-validated over scenes.

The own model's n-best lists (local/cross_validate.sh, stage 2) of all folds but one are adapted to, and those of the
one that is left are rescored. Its LM weight is the one of the least expected errors in the other folds, each under the
model that has not heard it. There is a system for each kind of counts, and for comparison one for the true text of the
same utterances. Prints perplexity, WER at libvosk's weight and at the tuned one, and p of a paired permutation test
over scenes against the own model at its tuned weight.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from cross_validate import Folds, Scored, by_scene, permutation_p

from mdi.adaptation.adapter import adapt
from mdi.errors import MdiError, exit_code
from mdi.fst.formats import load
from mdi.fst.symbols import read_symbols, words_of
from mdi.lm.counts import Counts, count_text
from mdi.lm.model import NgramModel
from mdi.lm.n_best import NBestLists
from mdi.lm.perplexity import perplexity
from mdi.progress import say
from mdi.speech.expected_counts import graph_counts
from mdi.speech.n_best import lists_of
from mdi.speech.rescore import CHEAPEST, lattice_model
from mdi.speech.vosk.outputs import n_best_lattice, with_graph_scores
from mdi.speech.vosk.results import Recognised, read_results, word_graphs
from mdi.speech.word_graph import Labels

Heard = Mapping[str, Recognised]
CONFIDENT = 0.7  # of the share of the likelihood that the best sequence has


def counted(own: NgramModel, heard: list[Recognised]) -> Counts:
    labels = Labels()
    graphs = list(word_graphs(heard, labels))
    return graph_counts(graphs, words_of(labels.of, own.vocab), own.vocab, own.order)


def confident(heard: list[Recognised]) -> list[Recognised]:
    """Utterances whose best sequence is likely."""
    return [one for one in heard if one.alternatives[0].words and share_of_best(one) >= CONFIDENT]


def share_of_best(one: Recognised) -> float:
    scores = np.array([each.score for each in one.alternatives])
    return float(1.0 / np.exp(scores - scores[0]).sum())


def systems(own: NgramModel, heard: Heard, references: Mapping[str, list[str]]) -> dict[str, Callable]:
    """What each adapts to, of these utterances, and its threshold; None: to nothing."""

    def results(utterances: list[str]) -> list[Recognised]:
        return [heard[u] for u in utterances]

    def best(utterances: list[str]) -> list[list[str]]:
        return [one.alternatives[0].text for one in results(utterances)]

    def expected(found: list[Recognised]) -> tuple[Counts, str] | None:
        return (counted(own, found), "0.5") if found else None

    return {
        "own": lambda _: None,
        "the words recognised": lambda us: (count_text(best(us), own.vocab, own.order), "1"),
        "expected counts": lambda us: expected(results(us)),
        "expected counts, sure utterances only": lambda us: expected(confident(results(us))),
        "the true text": lambda us: (count_text([references[u] for u in us], own.vocab, own.order), "1"),
    }


def tuned(lists: NBestLists, costs: dict[str, np.ndarray], sets: dict[str, list[str]], fold: str) -> float:
    others = [k for k in sets if k != fold]
    dev = lists.part([u for k in others for u in sets[k]])
    return dev.choose(np.concatenate([costs[k] for k in others])).lm_weight


def scored(
    lists: NBestLists, costs: dict[str, np.ndarray], sets: dict[str, list[str]], folds: Folds, weigh: bool
) -> tuple[Scored, list[float]]:
    utterances, words, errors, weights = [], [], [], []
    for fold, names in sets.items():
        part, weight = lists.part(names), tuned(lists, costs, sets, fold) if weigh else 1.0
        utterances += names
        words.append(part.reference_words)
        errors.append(part.errors[part.answers(costs[fold], weight)])
        weights.append(weight)
    scenes = np.array([folds.scenes[u] for u in utterances])
    return Scored(utterances, scenes, np.concatenate(words), np.concatenate(errors)), weights


def compare(args: argparse.Namespace) -> None:
    folds, decoded = Folds(Path(args.data)), Path(args.decoded)
    own = load(folds.path / "background.arpa.gz", quiet=True)
    heard = {u: one for u, one in read_results(decoded).items() if len(one.alternatives) > 1}
    sets = {fold: [u for u in folds.set(fold, "test") if u in heard] for fold in folds.numbers}
    if not all(sets.values()):
        raise MdiError(f"{decoded}: a fold has no n-best lists; decode with --n-best")
    symbols = read_symbols(str(folds.path / "words.txt"))
    lm = lattice_model(own, symbols)
    lattices = (with_graph_scores(n_best_lattice(one, symbols), lm, CHEAPEST) for one in heard.values())
    lists = lists_of(lattices, symbols, own, folds.references)
    total = sum(map(len, sets.values()))
    say(f"{total:,} utterances, {int(lists.reference_words.sum()):,} words")
    baseline = None
    print("adapted to\tperplexity\tWER at 1\tWER, tuned\tweights\tp over scenes")
    for name, counts_of in systems(own, heard, folds.references).items():
        costs, log_prob, tokens = {}, 0.0, 0
        for fold, names in sets.items():
            others = [u for k, us in sets.items() if k != fold for u in us]
            found = counts_of(others)
            model = (
                own if found is None else adapt(own, found[0], found[1], sigma2=1.0, new_words="map", threads=1).model
            )
            costs[fold] = lists.part(names).lm_costs(model)
            text = perplexity(model, [folds.references[u] for u in names])
            log_prob, tokens = log_prob + text.log_prob, tokens + text.scored + text.sentences
        plain, _ = scored(lists, costs, sets, folds, weigh=False)
        best, weights = scored(lists, costs, sets, folds, weigh=True)
        baseline = baseline or best
        p = permutation_p(by_scene(best, baseline.errors - best.errors))
        spread = f"{min(weights):g} to {max(weights):g}"
        ppl = np.exp(-log_prob / tokens)
        print(f"{name}\t{ppl:.1f}\t{plain.rate:.2f}\t{best.rate:.2f}\t{spread}\t{p:.5f}", flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA", help="of local/folds.py")
    parser.add_argument("decoded", metavar="DIR", help="the own model's decoding with --n-best")
    args = parser.parse_args(argv)
    return exit_code("local/untranscribed.py", lambda: compare(args))


if __name__ == "__main__":
    sys.exit(main())
