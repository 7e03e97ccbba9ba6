"""Kaldi's own lattices and what it says of them, for the tests of lattices, rescoring and scoring."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

from mdi.speech.lattice import Lattice
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
