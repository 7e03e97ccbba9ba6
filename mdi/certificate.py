"""What a model is and how it came about, as JSON beside it."""

from __future__ import annotations

import json
import platform
import resource
import sys
import time
from importlib import metadata
from typing import Any

from mdi.files import writing

# Commands import this module at their top: the clock starts with the work.
_START = time.monotonic()
_PACKAGES = ("mdi-lm", "numpy", "numba", "scipy")


def write_certificate(path: str, fields: dict[str, Any]) -> None:
    """Writes PATH.json beside the model PATH (nothing for standard output): the fields, seconds, peak memory, versions."""
    if path == "-":
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    versions = {"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}}
    content = {**fields, "seconds": round(time.monotonic() - _START, 2), "peak_memory_mb": round(peak, 1), "versions": versions}
    with writing(f"{path}.json") as stream:
        # numpy's numbers and arrays become plain ones; there is no infinity in JSON
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=lambda value: value.tolist())
        stream.write(text.encode("utf-8", "surrogateescape") + b"\n")
