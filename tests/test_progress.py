"""What people see while they wait, on a terminal and in a log."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from mdi import progress
from mdi.progress import Progress, detail, say, set_verbose


def on_terminal(program: str) -> str:
    """What a program writes to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env=env) as child:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    assert child.returncode == 0
    return b"".join(parts).decode()


BARS = """
import time
from mdi.progress import Progress, detail, say, set_verbose
Progress.QUIET_SECONDS = 0.05
with Progress("reading", {total}, "n-grams") as bar:
    for n in range(1, 11):
        time.sleep(0.03)
        bar.update({step} * n, "L1 0.5")
        if n == 5:
            say("a line of news")
say("done")
"""


def test_a_bar_on_a_terminal_makes_way_for_lines() -> None:
    said = on_terminal(BARS.format(total=2_000_000, step=200_000))
    assert "reading:  50%|" in said
    assert "1.00M/2.00M [" in said
    assert "L1 0.5" in said
    # every line begins where the bar was wiped away
    for line in ("a line of news", "done"):
        assert f"\r{line}\r\n" in said
    assert said.rstrip().rsplit("\r", 1)[1].strip() == "done"


def test_an_unknown_total_counts() -> None:
    said = on_terminal(BARS.format(total=None, step=1))
    assert "reading: 5 n-grams [" in said
    assert "%|" not in said


def test_what_is_quick_says_nothing() -> None:
    quick = "from mdi.progress import Progress\nwith Progress('x', 10, 'y') as bar:\n    bar.update(5)"
    assert on_terminal(quick) == ""


@pytest.mark.parametrize(
    ("total", "expected"), [(10, "solving: 50% of 10 steps, L1 0.25, "), (None, "solving: 5 steps, L1 0.25, ")]
)
def test_a_log_gets_plain_lines(total, expected, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Progress, "QUIET_SECONDS", 0.0)
    with Progress("solving", total, "steps") as bar:
        bar.update(4, "L1 0.5")  # too early
        monkeypatch.setattr(Progress, "LOG_SECONDS", 0.0)
        bar.update(5, "L1 0.25")
    said = capsys.readouterr().err
    assert said.startswith(expected)
    assert said.count("\n") == 1
    assert "\r" not in said


def test_lines_of_two_threads_stay_whole() -> None:
    program = """
import sys, threading
from mdi.progress import say
sys.setswitchinterval(1e-6)
def talk(letter):
    for _ in range(2000):
        say(letter * 40)
threads = [threading.Thread(target=talk, args=(letter,)) for letter in "abc"]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert len(lines) == 6000
    assert set(lines) == {letter * 40 for letter in "abc"}


def test_details_are_for_those_who_ask(capsys) -> None:
    detail("iteration 1")
    set_verbose(True)
    try:
        detail("iteration 2")
    finally:
        set_verbose(False)
    say("news")
    assert capsys.readouterr().err == "iteration 2\nnews\n"


def test_a_verb_without_bars_does_not_load_the_library() -> None:
    program = "import sys\nfrom mdi.progress import say\nsay('x')\nsys.exit('tqdm' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert not progress._bars
