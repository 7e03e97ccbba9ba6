"""kill -9 in every stage of run.sh: the next run goes on to the same table, and nothing is left half-written."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recipe import ROOT, TINY, environment, leftovers, run

pytestmark = pytest.mark.slow


def killed_in(folder, stage, pause, whole):
    """Runs up to the stage and kills the run a little after that stage has begun: all its processes, or the shell
    alone."""
    command = ["bash", str(ROOT / "run.sh"), *TINY, "--stop-stage", str(stage)]
    log = folder / f"log.{stage}"
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=stream, stderr=stream, start_new_session=True
        )
    while process.poll() is None and f"--- stage {stage}:" not in log.read_text():
        time.sleep(0.02)
    time.sleep(pause)
    (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
    return process.wait()


def test_killed_in_every_stage_it_goes_on_to_the_same_table(tiny, tmp_path):
    _, calls = tiny
    chance = random.Random(1)
    for stage in range(8):
        # a shell that dies alone leaves its jobs at work; the next run has to wait for them
        code = killed_in(tmp_path, stage, 0.3 * chance.random(), whole=stage % 3 != 1)
        assert code == -signal.SIGKILL, f"stage {stage} ended before it was killed"
    done = run(tmp_path, *TINY)
    assert done.returncode == 0, done.stderr
    assert done.stdout == calls[7].stdout
    # every model is read and sums to one
    for path in (tmp_path / "exp").rglob("*.arpa.gz"):
        checked = subprocess.run(["mdi", "check", path], capture_output=True, text=True, env=environment())
        assert checked.returncode == 0, checked.stdout
    assert not leftovers(tmp_path)


def test_verbs_killed_at_any_moment():
    """Hundreds of times: python3 tests/stress/kills.py."""
    command = [sys.executable, str(ROOT / "tests" / "stress" / "kills.py"), "--times", "3", "adapt", "vosk"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split("\t")[3] for line in done.stdout.splitlines()] == ["0", "0"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_verbs_on_a_machine_that_fails():
    """All verbs, at every call: python3 tests/stress/faults.py."""
    command = [
        sys.executable,
        str(Path(__file__).parent / "stress" / "faults.py"),
        "vocab",
        "prune",
        "delta",
        "vosk-replace-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split("\t")[2] for line in done.stdout.splitlines()] == ["0"] * 4
