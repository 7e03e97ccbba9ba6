"""Kaldi's files of what libvosk has recognised: text, ctm, n-best lists and lattices."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from mdi.files import write_file
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight
from mdi.fst.symbols import SymbolTable
from mdi.progress import say
from mdi.speech.lattice import Lattice, bundle, costs_from_start
from mdi.speech.lattice_files import lattice_writer
from mdi.speech.rescore import CHEAPEST, EXACT, LatticeModel, add_model, lattice_model
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.results import Recognised

# Chain models are decoded with an acoustic scale of 1. Kaldi's recipes multiply the acoustic costs of their lattices by
# this (--post-decode-acwt), so that LM weights are around 10 as with other models; then 10 is as it was decoded.
ACOUSTIC_FACTOR = 10.0
# libvosk multiplies the graph costs of its lattices by this before it looks for the best sequences.
GRAPH_SCALE = 0.9
FRAME = 0.03  # seconds, at a frame subsampling of 3


def n_best_lattice(found: Recognised, symbols: SymbolTable) -> Lattice:
    """One path per alternative from a common start: all of its score is acoustic, and at its end."""
    labels = [[symbols.require(word) for word in one.text] for one in found.alternatives]
    spans = [max(1, round((word.end - word.begin) / FRAME)) for one in found.alternatives for word in one.words]
    scores = np.array([-one.score for one in found.alternatives])
    return bundle(found.utterance, labels, scores, np.array(spans, np.int64))


def with_graph_scores(lattice: Lattice, lm: LatticeModel, scores: str, weight: GraphWeight = UNWEIGHTED) -> Lattice:
    """The model's score as graph cost, and as acoustic cost the rest of the total, in proportion: at an LM weight of
    ACOUSTIC_FACTOR times W, and a penalty of P / W, the order of the paths is that of

        total = GRAPH_SCALE * (W * model + P * words) + rest
    """
    scored = add_model(lattice, lm, 1.0, scores)
    path_cost = costs_from_start(scored, weight.lm_weight * scored.arcs.graph + weight.word_penalty)
    ends = np.isfinite(scored.finals.graph)
    rest = scored.finals.acoustic.copy()
    rest[ends] = ACOUSTIC_FACTOR * (
        rest[ends] / GRAPH_SCALE - path_cost[ends] - weight.lm_weight * scored.finals.graph[ends]
    )
    return replace(scored, finals=scored.finals._replace(acoustic=rest))


def write_outputs(folder: VoskFolder, results: list[Recognised], out: Path, n_best: int) -> None:
    """Kaldi's files, from what was recognised."""

    def write(name: str, lines: Iterable[str]) -> None:
        write_file(out / name, "".join(f"{line}\n" for line in lines))

    best = {one.utterance: one.alternatives[0] for one in results}
    write("text", (" ".join([utterance, *one.text]) for utterance, one in best.items()))
    timed = ((utterance, w) for utterance, one in best.items() for w in one.words)
    write("ctm", (f"{u} 1 {w.begin:.2f} {w.end - w.begin:.2f} {w.word} {w.confidence:.4f}" for u, w in timed))
    if not n_best:
        return
    ranked = ((one.utterance, rank, each) for one in results for rank, each in enumerate(one.alternatives, 1))
    write("nbest", (" ".join([u, str(rank), f"{each.score:.4f}", *each.text]) for u, rank, each in ranked))
    if folder.own_lm is None:
        say(f"{out}: no lattices, as the language model is within HCLG.fst, and its scores cannot be told from others")
        return
    symbols = folder.symbols
    write("words.txt", (f"{word} {i}" for i, word in sorted(symbols.words.items())))
    lm = lattice_model(folder.read(folder.own_lm), symbols)
    with lattice_writer(str(out / "lat.1.gz")) as write_lattice:
        for one in results:
            scores = EXACT if folder.rescores else CHEAPEST
            write_lattice(with_graph_scores(n_best_lattice(one, symbols), lm, scores, folder.weight))
    write("num_jobs", ["1"])
