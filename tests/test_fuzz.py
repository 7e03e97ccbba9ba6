"""utils/fuzz.py for a little while: every reader, bounds checks on. A run of an hour is for people."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent.parent / "utils" / "fuzz.py"


@pytest.mark.slow
def test_readers_accept_or_refuse(tmp_path: Path) -> None:
    command = [sys.executable, str(FUZZ), "--seconds", "30", "--inputs", "400", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split("\t") for line in done.stdout.splitlines()[1:]]
    assert len(rows) > 20
    assert all(int(wrong) == 0 for *_, wrong in rows)
    assert sum(int(accepted) for _, _, accepted, _, _ in rows) > 100
    assert sum(int(refused) for _, _, _, refused, _ in rows) > 500


def test_what_is_no_reader_is_said() -> None:
    command = [sys.executable, str(FUZZ), "--help"]
    assert "READER" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
