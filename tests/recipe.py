"""run.sh as users call it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TINY = ("--corpus", "demo", "--tiny", "true")


def environment() -> dict[str, str]:
    variables = {k: v for k, v in os.environ.items() if k not in ("KALDI_ROOT", "egs_dir")}
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    return variables


def run(
    folder: Path, *options: object, script: Path | str = ROOT / "run.sh", **variables: str
) -> subprocess.CompletedProcess:
    command = ["bash", str(script), *map(str, options)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment() | variables, timeout=1800
    )


def leftovers(folder: Path) -> list[Path]:
    """What an interrupted write leaves under its temporary name."""
    return list(Path(folder).rglob("*.tmp"))
