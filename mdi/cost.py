"""About how long a job takes and how much memory it needs, from the sizes of its inputs.

Nothing but the standard library is needed, so that it can be asked before anything is installed. The rates were
measured on two cores at 2.5 GHz; on another machine, or beside other work, a job may take twice as long.
"""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import dataclass
from pathlib import Path

SAMPLE = 1 << 22  # bytes of a text from which its words are estimated
MILLION = 1e6


@dataclass(frozen=True)
class Cost:
    seconds: float
    gigabytes: float

    def __str__(self) -> str:
        return f"about {spell_seconds(self.seconds)} and {self.gigabytes:.1f} GB"


def spell_seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class _Sips(io.FileIO):
    """A file that is read a little at a time, however much is asked for: from Python 3.12 on gzip reads far ahead."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(1 << 14 if size is None or size < 0 else min(size, 1 << 14)) or b""


def count_words(path: Path) -> float:
    """Words of a text or of a folder of texts: those of a sample, times how much more there is."""
    if path.is_dir():
        return sum(count_words(file) for file in sorted(path.iterdir()) if file.is_file())
    size = path.stat().st_size
    with open(path, "rb") as plain, _Sips(path) as sips:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        sample = (gzip.GzipFile(fileobj=sips) if packed else plain).read(SAMPLE)
        used = (sips if packed else plain).tell()  # of a packed file, what has been unpacked and a little more
    words = len(sample.split())
    return words if len(sample) < SAMPLE or not used else words * size / used


def count_ngrams(path: Path) -> float:
    """N-grams of an ARPA model, as its header says; of a model in another form, what its size suggests."""
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        head = (gzip.GzipFile(fileobj=raw) if packed else raw).read(4096)
    found = re.findall(rb"^ngram +\d+ *= *(\d+)", head, re.MULTILINE)
    return float(sum(map(int, found))) if found else 0.0


def adapt_cost(ngrams: float, words: float, sets: int = 1) -> Cost:
    """Reading, solving and writing; the sets of a sweep share the first."""
    size = (ngrams + 0.4 * words) / MILLION  # about half of the text's n-grams are new to the background
    # one set is solved in the background's own arrays; several keep it beside the models that are made of it
    gigabytes = 0.12 + (0.031 if sets == 1 else 0.07) * size
    return Cost(1 + 0.4 * size + 0.25 * size * sets + 0.6 * words / MILLION, gigabytes)


def tune_cost(ngrams: float, words: float, settings: int) -> Cost:
    size = (ngrams + 0.4 * words) / MILLION
    return Cost(3 + size + settings * (0.2 + 0.2 * size), 0.3 + 0.18 * size)
