"""What a model is and how it came about, as JSON beside it."""

import contextlib
import json
import math
import os
import platform
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdi.errors import MdiError
from mdi.files import discard, is_stream, read_json, writing, written

_PACKAGES = ("mdi-lm", "numpy", "numba")


def certificate_of(path: str) -> list[str]:
    """The certificate beside a model; a stream has none."""
    return [] if is_stream(path) else [f"{path}.json"]


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


def discard_certificate(path: str) -> None:
    """A model is written at PATH without a certificate: that of the file which was there before, if it is one, goes
    with it. To be called inside `together`."""
    for beside in certificate_of(path):
        with contextlib.suppress(MdiError):  # somebody else's file
            if os.path.isfile(beside) and "mdi-lm" in read_json(beside).get("versions", ()):
                discard(beside)


def write_certificate(path: str, fields: dict[str, Any], seconds: float) -> None:
    """Writes PATH.json beside the model PATH (nothing for a stream): the fields, seconds, peak memory, versions, and
    the size and SHA-256 of the model where both are written `together`."""
    if is_stream(path):
        return
    from importlib import metadata  # slow, and there are verbs that write none

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    versions = {"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}}
    content = {**fields, "seconds": round(seconds, 2), "peak_memory_mb": round(peak, 1), "versions": versions}
    if (file := written(path)) is not None:
        content["file"] = file
    with writing(f"{path}.json") as stream:
        text = json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)
        stream.write(text.encode("utf-8", "surrogateescape") + b"\n")


def plain(value: Any) -> Any:
    """Numpy's numbers and arrays as Python's; JSON knows neither infinity nor NaN, so these become null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
