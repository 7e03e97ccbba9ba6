"""The command line: standard streams, interrupts, locales."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest
from goldens import GOOD, SHORT_TEXT
from recipe import ROOT, run_mdi

from mdi.cli import main


def test_standard_streams_that_are_full_or_closed(tmp_path):
    with open("/dev/full", "w") as full:
        for arguments in (["check", GOOD], ["train", SHORT_TEXT, "-"]):
            done = run_mdi(*arguments, stdout=full)
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1].endswith("No space left on device")
            assert "Traceback" not in done.stderr
    command, good, tiny = f"{shlex.quote(sys.executable)} -m mdi", shlex.quote(GOOD), shlex.quote(SHORT_TEXT)
    done = subprocess.run(f"{command} check {good} >&-", shell=True, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "mdi check: standard output: Bad file descriptor\n")
    out = tmp_path / "out"
    done = subprocess.run(f"{command} train {tiny} {out} 2>&-", shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert out.read_text().endswith("\\end\\\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["adapt", GOOD],  # arguments that are missing, or too many
        ["adapt", "--counts", "COUNTS", GOOD],
        ["tune", GOOD, SHORT_TEXT, "OUT"],
        ["mix", "--weights", "1", GOOD, "OUT"],
        ["train", "OUT"],
        ["ppl", GOOD],
        ["adapt", "--sigma2", "x", GOOD, SHORT_TEXT, "OUT"],  # options that make no sense, or do not exist
        ["mix", "--weights", "x", GOOD, GOOD, "OUT"],
        ["prune", "--threshold", "-1", GOOD, "OUT"],
        ["train", "--order", "9", SHORT_TEXT, "OUT"],
        ["train", "--no-such-option", SHORT_TEXT, "OUT"],
        ["tran", SHORT_TEXT, "OUT"],
    ],
)
def test_a_wrong_command_is_2_and_wrong_data_1(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse
        code = stop.code
    assert code == 2
    assert "mdi" in capsys.readouterr().err
    assert main(["adapt", "nowhere.arpa", SHORT_TEXT, "OUT"]) == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_nothing(tmp_path):
    os.mkfifo(tmp_path / "text")  # it waits for text that never comes
    process = subprocess.Popen(
        [sys.executable, "-m", "mdi", "train", str(tmp_path / "text"), str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    with open(tmp_path / "text", "wb") as text:  # opened by both: it is at work
        text.write(b"a b\n")
        text.flush()
        for _ in range(60):  # one that comes while a library is being loaded may get lost: people press it again
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=5)
                break
            except subprocess.TimeoutExpired:
                continue
        said = process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert b"interrupted" in said
    assert b"Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_an_interrupt_that_a_callback_swallows_comes_again():
    """As when a library is being loaded: Python prints what is raised in a finalizer, and goes on."""
    script = """if True:
        import os, signal, sys
        from mdi import cli
        class Dying:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(100_000): pass
        def main(**_):
            dying = Dying()
            del dying
            for _ in range(10_000_000): pass
            print("went on")
        cli.main = main
        cli.entry_point()
    """
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout) == (-signal.SIGINT, ""), done.stderr
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_any_locale_and_any_name(locale, tmp_path):
    if locale == "C" and not sys.prefix.isascii():
        pytest.skip("Python loads no libraries from such a directory in this locale, if its own UTF-8 mode is off")
    folder = tmp_path / "Ordner mit Umlauten äöü und Blanks"
    folder.mkdir()
    text = folder / "tèxt (1).txt"
    text.write_text("straße größe\nmaß straße\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0"}
    for arguments in (["train", text, folder / "m ü.arpa"], ["ppl", folder / "m ü.arpa", text]):
        done = run_mdi(*arguments, env=environment, encoding="utf-8", errors="replace")
        assert done.returncode == 0, done.stderr
    assert json.loads((folder / "m ü.arpa.json").read_text(encoding="utf-8"))["inputs"] == [str(text)]


def test_without_arguments_it_says_what_most_people_want() -> None:
    from mdi.cli import MOST_WANTED, VERBS

    done = run_mdi()
    assert done.returncode == 2
    at = [done.stderr.index(f"\n  {verb} ") for verb in (*(v for v in VERBS if v in MOST_WANTED), "vocab")]
    assert at == sorted(at)
    assert all(f"\n  {verb} " in done.stderr for verb in VERBS)


@pytest.mark.parametrize(("more", "code"), [([], 2), (["--help"], 0)])
def test_verbs_of_two_words_are_listed(more: list[str], code: int) -> None:
    done = run_mdi("vosk", *more)
    assert done.returncode == code
    said = done.stdout + done.stderr
    assert "usage: mdi vosk " in said
    assert all(f"\n  {verb} " in said for verb in ("adapt", "add-words", "replace-lm", "decode"))
    assert "tune" not in said


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["adpt"], "adapt"),
        (["vosc", "decode"], "vosk"),
        (["vosk", "decod"], "decode"),
        (["ppl", "--jsn", "true", "a", "b"], "--json"),
        (["adapt", "--targets", "smothed", "a", "b", "c"], "smoothed"),
    ],
)
def test_what_is_misspelt_is_guessed(arguments: list[str], meant: str) -> None:
    done = run_mdi(*arguments)
    assert done.returncode == 2
    assert done.stderr.endswith(f"did you mean {meant}?\n")


def test_verbs_are_listed_once() -> None:
    listed = run_mdi("xyz").stderr.split("choose from")[1]
    assert listed.count("vosk") == listed.count("g2p") == 1
