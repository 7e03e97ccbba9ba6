"""About how long a job takes and how much memory it needs, from the sizes of its inputs.

Nothing but the standard library is needed, so that it can be asked before anything is installed. The rates were
measured on two cores at 2.5 GHz; on another machine, or beside other work, a job may take twice as long.
"""

import gzip
import io
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from mdi.errors import MdiError

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
    sample, used = _begin(path, SAMPLE)
    words = len(sample.split())
    return words if len(sample) < SAMPLE or not used else words * path.stat().st_size / used


def count_ngrams(path: Path) -> float:
    """N-grams of an ARPA model, as its header says; of a model in another form, what its size suggests."""
    found = re.findall(rb"^ngram +\d+ *= *(\d{1,18})", _begin(path, 4096)[0], re.MULTILINE)
    return float(sum(map(int, found))) if found else 0.0


def _begin(path: Path, size: int) -> tuple[bytes, int]:
    """How the content of a file begins, and the bytes of the file that hold it."""
    try:
        with open(path, "rb") as plain, _Sips(path) as sips:
            if plain.read(2) == b"\x1f\x8b":
                return gzip.GzipFile(fileobj=sips).read(size), sips.tell()  # what has been unpacked and a little more
            plain.seek(0)
            return plain.read(size), plain.tell()
    except (EOFError, zlib.error, OSError) as error:
        raise MdiError(f"{path}: cannot be read: {error}; copy it again") from error


def adapt_cost(ngrams: float, words: float, sets: int = 1) -> Cost:
    """Reading, solving and writing; the sets of a sweep share the first."""
    size = (ngrams + 0.4 * words) / MILLION  # about half of the text's n-grams are new to the background
    # one set is solved in the background's own arrays; several keep it beside the models that are made of it
    gigabytes = 0.12 + (0.031 if sets == 1 else 0.07) * size
    return Cost(1 + 0.2 * size + 0.15 * size * sets + 0.6 * words / MILLION, gigabytes)


def tune_cost(ngrams: float, words: float, settings: int) -> Cost:
    size = (ngrams + 0.4 * words) / MILLION
    return Cost(3 + size + settings * (0.2 + 0.2 * size), 0.3 + 0.18 * size)
