"""Kaldi's own lattices and what it says of them, for the tests of lattices, rescoring and scoring."""

import csv
import gzip
from functools import cache
from pathlib import Path

import numpy as np

from mdi.kernels.lattice import LatticeArcs, LatticeFinals
from mdi.speech.lattice import Lattice, finals_at
from mdi.speech.lattice_files import read_lattices

LAT = Path(__file__).parent / "data" / "lat"
KALDI = Path(__file__).parent / "data" / "kaldi"
WORDS = str(KALDI / "words.txt")
WEIGHTS, PENALTIES = (5, 8, 10, 12), ("0.0", "0.5")


@cache
def lattices(name: str) -> dict[str, Lattice]:
    return {lattice.utterance: lattice for lattice in read_lattices(str(LAT / f"{name}.txt.gz"))}


def table(name: str) -> dict[str, list[str]]:
    """Lines of 'key values ...'."""
    return {line.split()[0]: line.split()[1:] for line in (LAT / name).read_text().splitlines()}


@cache
def best_costs() -> dict[tuple[str, str, str, str], dict[str, str]]:
    with open(LAT / "best-costs.tsv") as stream:
        return {(r["lats"], r["lmwt"], r["wip"], r["utt"]): r for r in csv.DictReader(stream, delimiter="\t")}


@cache
def best_words() -> dict[tuple[str, str, str, str], list[int]]:
    with gzip.open(LAT / "best.tsv.gz", "rt") as stream:
        rows = (line.rstrip("\n").split("\t") for line in stream)
        return {tuple(row[:4]): [int(w) for w in row[4].split()] for row in rows}


def lattice_of(source, dest, word, graph, acoustic, frame, finals: dict[int, float]) -> Lattice:
    """A lattice from its arcs, by ascending source, each with at most one frame (0: none), and what its ends cost."""
    n = 1 + max([*dest, *finals])
    begin = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(np.array(source, np.int64), minlength=n), out=begin[1:])
    frame = np.array(frame, np.int32)
    stop = np.cumsum(frame > 0)
    ends, none = list(finals), np.zeros(len(finals), np.int64)
    return Lattice(
        utterance="u",
        begin=begin,
        arcs=LatticeArcs(
            label=np.array(word, np.int32),
            dest=np.array(dest, np.int32),
            graph=np.array(graph, float),
            acoustic=np.array(acoustic, float),
            first=stop - (frame > 0),
            stop=stop,
        ),
        finals=finals_at(n, ends, LatticeFinals(np.array(list(finals.values())), 0.0 * none, none, none)),
        frames=frame[frame > 0],
    )
