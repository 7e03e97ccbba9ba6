"""What a finished recipe leaves behind: where its models and scores are, perplexities, WERs, sizes of models."""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdi.errors import MdiError
from mdi.files import read_json, read_lines, read_plain

SIGNIFICANT = 0.05
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
# what the WERs are compared with, and how the table calls it
BASELINES = {"default": "default", "interpolated": "interpolation"}
# models that decode: libvosk's words, or lattices at the LM weight of the development set ("first." of other decoders)
DECODING = ("first.", "weighted.")


def _number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and math.isfinite(value))


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _steps(value: Any) -> bool:
    rows = isinstance(value, list) and all(isinstance(row, dict) for row in value)
    return rows and all(_number(row.get(name)) for row in value for name in ("iteration", "l1", "objective"))


# What other programs look up in a certificate, with what it must be where it is there.
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "command": lambda value: isinstance(value, str),
    "file": lambda value: isinstance(value, dict),
    "ngrams": lambda value: isinstance(value, list) and all(map(_count, value)),
    **dict.fromkeys(("words", "sentences", "constraints", "iterations"), lambda value: value is None or _count(value)),
    **dict.fromkeys(("worst_sum_gap", "distance_to_targets", "kl_to_background", "seconds", "peak_memory_mb"), _number),
    "constraints_dropped": lambda value: isinstance(value, dict) and all(map(_count, value.values())),
    "steps": _steps,
}


def read_certificate(path: str | Path) -> dict[str, Any]:
    """A certificate that was written beside a model, refused where a field that is looked up is not what it says."""
    found = read_json(path)
    for name, good in _FIELDS.items():
        if name in found and not good(found[name]):
            raise MdiError(f"{path}: '{name}' is {str(found[name])[:40]!r}; the file is damaged, make the model again")
    return found


@dataclass(frozen=True)
class Comparison:
    """With another system on the same data."""

    difference: float
    p: float
    test: str  # what p comes from
    baseline: str = ""  # its name, where the file has it

    @property
    def mark(self) -> str:
        """+ significantly better, - significantly worse."""
        if self.p >= SIGNIFICANT or self.difference == 0:
            return ""
        return "+" if self.difference < 0 else "-"


@dataclass(frozen=True)
class Wer:
    rate: float
    low: float | None = None
    high: float | None = None
    comparisons: tuple[Comparison, ...] = ()  # the first: interpolation, or in the first pass the default model
    scorer: str = "compute-wer"
    unit: str = "utterances"  # what the bootstrap draws

    def row(self, usual: str) -> dict:
        """Its columns of the frame. `usual`: the baseline of a comparison that does not name it."""
        found = {"wer": self.rate, "wer_low": self.low, "wer_high": self.high, "scorer": self.scorer, "unit": self.unit}
        for one in self.comparisons[:1]:
            found |= {"difference": one.difference, "p": one.p, "mark": one.mark, "test": one.test}
        for one in self.comparisons:
            if (baseline := one.baseline or usual) in BASELINES:
                found |= {f"difference_{baseline}": one.difference, f"p_{baseline}": one.p}
        return found


def corpora(parts: list[Path]) -> dict[str, Path]:
    """The folders by the names that the table gives them: those of the folders, where these differ."""
    names = [part.name for part in dict.fromkeys(parts)]
    return {part.name if names.count(part.name) == 1 else str(part): part for part in dict.fromkeys(parts)}


def model_path(part: Path, model: str) -> Path:
    """Where the recipe keeps a model of the table."""
    model = model.replace("weighted.", "first.")
    if model == "first.new_words":
        return part / "graph" / "new_words"  # a whole recogniser
    if model.startswith("first.") and (data_folder(part) / "vosk-model").exists() and model != "first.default":
        model = model.removeprefix("first.")  # libvosk decodes with the large ones
    folder = "first" if model.startswith("first.") else "lm" if model in ("in", "background", "interpolated") else "mdi"
    name = f"{model.removeprefix('first.')}.arpa.gz"
    given = data_folder(part) / name  # a model that came with the data
    return given if not (part / folder / name).exists() and given.exists() else part / folder / name


def data_folder(part: Path) -> Path:
    """data/ami for exp/ami."""
    at = len(part.parts) - 1 - part.parts[::-1].index("exp") if "exp" in part.parts else 0
    return Path(*part.parts[:at], "data", *part.parts[at + 1 :])


def scored_folder(part: Path, column: str, test_set: str) -> Path:
    if column.startswith(DECODING):
        heard = column.startswith("first.") and (part / "heard").is_dir()
        return part / ("heard" if heard else "decode") / column.split(".", 1)[1] / test_set
    return part / "rescore" / column / test_set


def _text(path: Path) -> str:
    return read_plain(str(path)).decode("utf-8", "surrogateescape")


def read_wer(folder: Path) -> Wer | None:
    """What steps/score.sh left in a folder, by either backend."""
    best = folder / "scoring_kaldi" / "best_wer"
    if not best.exists():
        return None
    line = _text(best)
    match = re.search(rf"%WER ({_NUMBER})", line)
    if not match:
        raise MdiError(f"{best}: no %WER in it; score again (stage 7)")
    details = folder / "scoring_kaldi" / "wer_details"
    report = re.search(r"(_o\d+)?\.ctm\.filt\.sys$", line.strip())  # asclite's name the number of overlapping speakers
    scorer = ("asclite" if report[1] else "sclite") if report else Wer.scorer
    low = high = None
    if (details / "wer_bootci").exists():
        interval = re.search(rf"\[ (-?{_NUMBER}), (-?{_NUMBER}) \]", _text(details / "wer_bootci"))
        low, high = (float(interval[1]), float(interval[2])) if interval else (None, None)
    comparisons: tuple[Comparison, ...] = ()
    if (details / "comparison").exists():
        comparisons = tuple(read_comparisons(_text(details / "comparison")))
    return Wer(float(match[1]), low, high, comparisons, scorer, "speakers" if report else Wer.unit)


def read_comparisons(text: str) -> Iterator[Comparison]:
    """One for each other system, in the order of the file."""
    for block in re.split(r"(?<=\n)(?=Set1: )", text):
        tested = re.search(rf"Difference of the WERs: ([+-]{_NUMBER}), p = ({_NUMBER})", block)
        means, better = re.findall(rf"%WER ({_NUMBER})", block), re.search(rf"improving Set1: ({_NUMBER})", block)
        named = re.search(r"^Set1 is (.+), Set2 is ", block, re.MULTILINE)
        baseline = Path(named[1]).parent.name if named else ""  # .../decode/default/eval
        if tested:
            yield Comparison(float(tested[1]), float(tested[2]), "paired permutation test", baseline)
        elif better and len(means) == 2:  # Kaldi's compute-wer-bootci: how often of 100 the second was better
            p = min(1.0, 2 * min(float(better[1]), 100 - float(better[1])) / 100)
            yield Comparison(float(means[1]) - float(means[0]), p, "paired bootstrap", baseline)


def read_ngrams(model: Path) -> int | None:
    """From the certificate beside the model, or from the ARPA's header."""
    if model.is_dir():
        adapted = read_certificate(model / "mdi.json").get("adapted")
        ngrams = adapted.get("graph/Gr.fst", {}).get("ngrams") if isinstance(adapted, dict) else None
        return sum(ngrams) if ngrams else None
    certificate = Path(f"{model}.json")
    if certificate.exists():
        ngrams = read_certificate(certificate).get("ngrams")
        return sum(ngrams) if ngrams is not None else None
    if not model.exists():
        return None
    total = 0
    for line in read_lines(str(model)):
        if line.startswith(b"ngram "):
            count = line.split(b"=")[-1].strip()
            if not re.fullmatch(rb"[0-9]{1,18}", count):
                found = line[:40].decode(errors="replace")
                raise MdiError(f"{model}: '{found}'; expected such as 'ngram 1=70000'. Make it again")
            total += int(count)
        elif line.startswith(b"\\1-grams"):
            break
    return total


def read_perplexities(path: Path) -> Iterator[dict]:
    """Lines of mdi ppl --json true; nothing if there is no such file."""
    for number, line in enumerate(read_lines(str(path)) if path.exists() else (), 1):
        try:
            entry = json.loads(line)
            whole = all(type(entry[key]) is int and 0 <= entry[key] < 1 << 62 for key in ("words", "oov"))
            if not (whole and type(entry["ppl"]) in (int, float) and isinstance(entry["text"], str)):
                raise ValueError("another kind of value")
            float(entry["ppl"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise MdiError(
                f"{path}:{number}: not a line of mdi ppl ({error}); remove the file, stage 7 makes it again"
            ) from None
        yield entry
