"""utils/setup.sh, sourced as people source it."""

import os
import subprocess
import sys
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


def test_what_the_tests_need_is_all_there_is(tmp_path: Path) -> None:
    """So whoever has run the tests runs the recipe without a network."""
    (tmp_path / ".installed-test").touch()
    done = sourced("dialogue", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_packages_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "python3").chmod(0o755)
    done = sourced("speech", tmp_path)
    assert done.returncode == 1
    assert "is there a network" in done.stderr
    assert not (tmp_path / ".installed-speech").exists()


def sourced(extra: str, environment: Path) -> subprocess.CompletedProcess:
    script = f'. "{ROOT}/utils/setup.sh" {extra}'
    variables = {**os.environ, "MDI_VENV": str(environment)}
    return subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=variables, capture_output=True, text=True)


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    """Whoever calls a script stands anywhere, and what lies there is data."""
    here = tmp_path / "here"
    here.mkdir()
    for name in ("venv", "pip", "mdi", "importlib", "argparse", "numpy", "json", "pathlib"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write({name!r})\n")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'. "{ROOT}/utils/setup.sh" text'],
        cwd=here,
        capture_output=True,
        text=True,
        env={**os.environ, "MDI_VENV": "venv-of-mine", "PIP_NO_INDEX": "1"},
    )
    assert "pip could not install" in done.stderr
    assert (here / "venv-of-mine" / "bin" / "python3").exists()
    found = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'mdi_root="{ROOT}"; . "{ROOT}/utils/packages.sh"; lacking_packages text'],
        cwd=here,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == ""
    for script in ("utils/score_reports.py", "utils/report.py", "local/prepare_corpus.py"):
        done = subprocess.run([sys.executable, str(ROOT / script), "--help"], cwd=here, capture_output=True, text=True)
        assert "usage" in done.stdout, done.stderr
    assert not (tmp_path / "ran").exists()
