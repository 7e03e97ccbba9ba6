"""utils/setup.sh, sourced as people source it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from recipe import ROOT


@pytest.mark.parametrize(
    ("arguments", "extra"), [("", ""), ("'foo bar'", ""), ("--stage", ""), ("speech,text", "speech,text")]
)
def test_arguments_of_whoever_sources_it_are_no_extras(arguments: str, extra: str, tmp_path: Path) -> None:
    """In an environment that is ready, so that nothing is installed."""
    for stamp in ("", "-speech,text"):
        (tmp_path / f".installed{stamp}").touch()
    script = f'set -- {arguments}; . "{ROOT}/utils/setup.sh"; echo "[$mdi_extra]"'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env={**os.environ, "MDI_VENV": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"[{extra}]\n"
