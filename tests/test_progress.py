"""What people see while they wait, on a terminal and in a log."""

import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mdi import progress
from mdi.cli import main
from mdi.progress import Progress, messages_shown, set_verbose

DATA = Path(__file__).parent / "data"


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
import logging, time
from mdi.progress import Progress, messages_shown
Progress.QUIET_SECONDS = 0.05
log = logging.getLogger("mdi.lm").info
with messages_shown():
    with Progress("reading", {total}, "n-grams") as bar:
        for n in range(1, 11):
            time.sleep(0.03)
            bar.update({step} * n, "L1 0.5")
            if n == 5:
                log("a line of news")
    log("done")
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
    quick = "from mdi.progress import *\nwith messages_shown(), Progress('x', 10, 'y') as bar:\n    bar.update(5)"
    assert on_terminal(quick) == ""


@pytest.mark.parametrize(
    ("total", "expected"), [(10, "solving: 50% of 10 steps, L1 0.25, "), (None, "solving: 5 steps, L1 0.25, ")]
)
def test_a_log_gets_plain_lines(total, expected, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Progress, "QUIET_SECONDS", 0.0)
    with messages_shown(), Progress("solving", total, "steps") as bar:
        bar.update(4, "L1 0.5")  # too early
        monkeypatch.setattr(Progress, "LOG_SECONDS", 0.0)
        bar.update(5, "L1 0.25")
    said = capsys.readouterr().err
    assert said.startswith(expected)
    assert said.count("\n") == 1
    assert "\r" not in said


def test_lines_of_two_threads_stay_whole() -> None:
    program = """
import logging, sys, threading
from mdi.progress import messages_shown
sys.setswitchinterval(1e-6)
def talk(letter):
    for _ in range(2000):
        logging.getLogger("mdi.lm").info(letter * 40)
threads = [threading.Thread(target=talk, args=(letter,)) for letter in "abc"]
with messages_shown():
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert len(lines) == 6000
    assert set(lines) == {letter * 40 for letter in "abc"}


def test_details_are_for_those_who_ask(capsys) -> None:
    logger = logging.getLogger("mdi.adaptation")
    with messages_shown():
        logger.debug("iteration 1")
        set_verbose(True)
        logger.debug("iteration 2")
        set_verbose(False)
        logger.info("news of %d%%", 50)
        logger.info("100% as it is")
    assert capsys.readouterr().err == "iteration 2\nnews of 50%\n100% as it is\n"


def test_a_program_that_uses_the_library_decides_what_is_shown(tmp_path) -> None:
    """Warnings only, unless it asks for more; nothing if it wants nothing; and a verb that it calls changes nothing."""
    program = f"""
import logging, sys, mdi
from mdi.cli import main
if sys.argv[1] == "all":
    logging.basicConfig(level=logging.INFO, format="mine: %(message)s")
if sys.argv[1] == "none":
    logging.getLogger("mdi").setLevel(logging.CRITICAL)
pruned = mdi.load({str(DATA / "srilm" / "bg.kn.prune1e-4.arpa.gz")!r})
logging.getLogger("mdi.lm").warning("beware")
"""
    said = {}
    for how in ("usual", "all", "none"):
        done = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True)
        said[how] = done.stderr
    assert said["usual"] == "beware\n"
    assert "mine: " in said["all"]
    assert "suffixes of n-grams are missing" in said["all"]
    assert "mine: beware\n" in said["all"]
    assert said["none"] == ""


def test_a_verb_leaves_logging_as_it_was(caplog, capsys) -> None:
    logger = logging.getLogger("mdi")
    before = logger.level, logger.propagate, list(logger.handlers)
    assert main(["ppl", str(DATA / "srilm" / "bg.kn.prune1e-4.arpa.gz"), str(DATA / "text" / "dev.txt")]) == 0
    assert "suffixes of n-grams are missing" in capsys.readouterr().err
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_a_verb_without_bars_does_not_load_the_library() -> None:
    program = "from mdi.progress import *\nwith messages_shown(): logger.info('x')\nsys.exit('tqdm' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert not progress._bars


def test_names_that_are_no_utf8_can_be_logged_anywhere(caplog) -> None:
    """A file of a user's log would refuse them."""
    progress.get_logger("mdi.lm").warning("m\udcff.arpa: damaged")
    assert caplog.messages == ["m\\udcff.arpa: damaged"]
