"""Text with errors: as many as asked for, and confidences that are right."""

import subprocess
import sys
from pathlib import Path

import pytest

from mdi.speech.wer import compute_wer

SCRIPT = Path(__file__).parent.parent / "utils" / "corrupt_text.py"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(" ".join(f"w{(7 * i + j * j) % 97}" for j in range(12)) + "\n" for i in range(400)))
    return path


def made(text: Path, name: str) -> list[str]:
    out = text.parent / name
    subprocess.run([sys.executable, str(SCRIPT), "--wer", "0.2", str(text), str(out)], check=True)
    return out.read_text().splitlines()


def test_the_error_rate_is_as_asked(text: Path) -> None:
    spoken = {str(i): line.split() for i, line in enumerate(text.read_text().splitlines())}
    heard = {str(i): line.split() for i, line in enumerate(made(text, "out.txt"))}
    errors = compute_wer(spoken, heard)
    assert errors.rate == pytest.approx(20, abs=2)


def test_confidences_are_right(text: Path) -> None:
    spoken = [word for line in text.read_text().splitlines() for word in line.split()]
    heard = [line.split() for line in made(text, "out.ctm")]
    right = [fields[4] == word for fields, word in zip(heard, spoken, strict=True)]
    assert sum(right) / len(right) == pytest.approx(0.8, abs=0.03)
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 0.95), (0.95, 1.01)):
        part = [(ok, float(f[5])) for ok, f in zip(right, heard, strict=True) if low <= float(f[5]) < high]
        sure = sum(value for _, value in part) / len(part)
        assert sum(ok for ok, _ in part) / len(part) == pytest.approx(sure, abs=0.1)
