"""Options and settings of the scripts are data: bash runs nothing of them."""

import subprocess

import pytest
from recipe import ROOT


def script(tmp_path, *arguments):
    command = ["bash", str(ROOT / "run.sh"), "--dry-run", "true", *map(str, arguments)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)


def test_bash_runs_no_code_from_numbers(tmp_path):
    done = script(tmp_path, "--first-ngrams", "BASH_VERSINFO[$(touch ran)0]")
    assert done.returncode == 2
    assert "expected a number, such as 70000" in done.stderr
    (tmp_path / "num_jobs").write_text("a[$(touch ran)]\n")
    (tmp_path / "lat.1.gz").touch()
    done = subprocess.run(
        ["bash", str(ROOT / "steps/link_lattices.sh"), str(tmp_path), str(tmp_path / "to")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "expected a whole number" in done.stderr
    assert done.returncode == 1
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize(
    "line",
    ["nj=$(touch ran)", 'nj="`touch ran`"', "touch ran", "nj=2; touch ran", "nj=2 & touch ran", "PATH=x", "nj=x"],
)
def test_settings_are_data(line, tmp_path):
    (tmp_path / "my.conf").write_text(f"# mine\n{line}\n")
    done = script(tmp_path, "--conf", "my.conf")
    assert done.returncode != 0
    assert "my.conf:2: " in done.stderr
    assert not list(tmp_path.rglob("ran"))
