"""What a model is and how it came about, as JSON beside it."""

import contextlib
import json
import math
import os
import platform
import resource
import sys
from typing import Any

from mdi.errors import MdiError
from mdi.files import discard, is_stream, read_json, writing, written

_PACKAGES = ("mdi-lm", "numpy", "numba")


def certificate_of(path: str) -> list[str]:
    """The certificate beside a model; a stream has none."""
    return [] if is_stream(path) else [f"{path}.json"]


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
