"""Every command, snippet and figure of README.md and the pages that it points to.

Commands are run as they stand on the page, with small files of the same names. What needs a network, a recogniser or
hours is parsed to its last option by the program itself, and `run.sh` plans it (--dry-run true)."""

import argparse
import gzip
import importlib
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from recipe import ROOT, environment
from test_recipe import make_tree
from toy_graph import FULL, Toy

from mdi.arguments import declare
from mdi.cli import VERBS, main

README, RESULTS = ROOT / "README.md", ROOT / "RESULTS.md"
PACKAGE, CORPORA, STEPS = (ROOT / name / "README.md" for name in ("mdi", "local", "steps"))
CONTRIBUTING = ROOT / "CONTRIBUTING.md"  # mdi/adaptation/README.md is a doctest: see test_paper.py
PAGES = (README, CONTRIBUTING, PACKAGE, CORPORA, STEPS, RESULTS)
DATA = ROOT / "tests" / "data"
REAL = os.environ.get("MDI_VOSK_MODEL", "")
PROGRAM = re.compile(r"(?:for .*; do )?(mdi|pip|(?:\./|utils/|local/|steps/)\w+\.(?:sh|py))(?=\s|$)")


def section(page: Path, title: str) -> str:
    return page.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str) -> list[str]:
    """The indented blocks."""
    found = re.findall(r"(?:^    [^\n]*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip() + "\n" for block in found]


def command_blocks(page: Path) -> list[str]:
    return [block for block in blocks(page.read_text()) if PROGRAM.match(block)]


def expanded(block: str) -> list[list[str]]:
    """The programs that a block calls, with their arguments, as bash has read them: loops, quotes, comments."""
    names = {found[1] for line in block.splitlines() if (found := PROGRAM.match(line))}
    functions = [f"{name}() {{ printf '%s\\0' {name} \"$@\" $'\\n'; }}\n" for name in names]
    script = "set -euo pipefail\n" + "".join(functions) + block
    found = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=True, env={}).stdout
    return [call.split("\0")[:-1] for call in found.split("\n\0")[:-1]]


def in_lines(page: Path) -> list[list[str]]:
    """Commands of mdi that stand in a line of the page, with at least one argument after the verb."""
    calls = [shlex.split(call) for call in re.findall(r"`(mdi [^`]+)`", re.sub(r"\n", " ", page.read_text()))]
    return [call for call in calls if call[1] != "VERB"]


def is_whole(call: list[str]) -> bool:
    """Whether it names what it reads, and not just a verb and some options."""
    rest = call[2 + (call[1] in ("vosk", "g2p", "lang")) :]
    return any(not word.startswith("-") and (i == 0 or rest[i - 1][:2] != "--") for i, word in enumerate(rest))


def test_all_blocks_are_known() -> None:
    """Each is commands, Python, or one of two others: what commands print, and the layout of the code."""
    others = []
    for page in PAGES:
        for block in blocks(page.read_text()):
            if not PROGRAM.match(block) and not block.startswith("import "):
                others.append((page, block.split(maxsplit=1)[0]))
    assert others == [(README, "in-domain:"), (CONTRIBUTING, "mdi/")]


def ready(folder: Path) -> Path:
    """The files that pages speak of, small ones."""
    with tarfile.open(DATA / "lang.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (folder / "lang").rename(folder / "LANG")
    (folder / "new.txt").rename(folder / "LEXICON")
    texts = {name: gzip.decompress((DATA / f"text/{name}.txt.gz").read_bytes()) for name in ("in", "bg")}
    texts["dev"] = (DATA / "text/dev.txt").read_bytes()
    names = {
        "in": "TEXT a.txt meetings.txt calls.txt lectures.txt more.txt ami/train.txt.gz",
        "bg": "DIR/news.txt b.txt.gz podcasts/train.txt.gz",
        "dev": "DEV c.txt d.txt dev.txt ami/dev.txt.gz ami/eval.txt.gz",
    }
    for text, content in texts.items():
        for name in names[text].split():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for source, copies in {
        "kaldi/bg.kn.arpa.gz": "bg.arpa.gz pod.arpa.gz",
        "kaldi/words.txt": "words.txt data/lang/words.txt",
        "text/vocab.txt": "words50k.txt new.txt",
        "lat/lats.txt.gz": "LATTICES/lat.1.gz exp/decode_calls/lat.1.gz exp/decode_yesterday/lat.1.gz",
        "lat/refs.txt": "data/calls/text",
    }.items():
        for copy in copies.split():
            (folder / copy).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(DATA / source, folder / copy)
    for copy in ("BG", "LM", "LARGE", "IN"):
        (folder / copy).write_bytes(gzip.decompress((DATA / "kaldi/bg.kn.arpa.gz").read_bytes()))
    (folder / "SMALL").write_bytes(gzip.decompress((DATA / "srilm/in.kn.arpa.gz").read_bytes()))
    utterances = [line.split()[0] for line in (folder / "data/calls/text").read_text().splitlines()]
    (folder / "data/calls/utt2spk").write_text("".join(f"{name} speaker\n" for name in utterances))
    for decoded in ("LATTICES", "exp/decode_calls", "exp/decode_yesterday"):
        (folder / decoded / "num_jobs").write_text("1\n")
    return folder


def vosk_ready(folder: Path) -> None:
    """A Vosk directory, small or, where there is one, a real one, under both of its names, and words for it."""
    for name in ("MODEL", "vosk-model-small-en-us-0.15"):
        if REAL:
            (folder / name).symlink_to(REAL)
        else:
            Toy(FULL).write(folder / name)
    known = [word for word in FULL if word.isalpha()]
    (folder / "domain.txt").write_text("".join(f"{' '.join(known[i : i + 5])} dabba\n" for i in range(10)))
    (folder / "LIST").write_text("dabba\n")
    for name in ("DATA", "data/calls"):
        shutil.copytree(DATA / "speech", folder / name, dirs_exist_ok=True)
        wavs = sorted((folder / name).glob("*.wav"))
        (folder / name / "wav.scp").write_text("".join(f"{wav.stem} {wav}\n" for wav in wavs))
        (folder / name / "utt2spk").write_text("".join(f"{wav.stem} {wav.stem}\n" for wav in wavs))


def command_of(call: list[str]) -> argparse.Namespace:
    """Its module, and the arguments after the verb."""
    (words,) = (verb.split() for verb in VERBS if call[1 : 1 + len(verb.split())] == verb.split())
    module = importlib.import_module(f"mdi.commands.{'_'.join(words).replace('-', '_')}")
    return argparse.Namespace(module=module, rest=call[1 + len(words) :])


def parse(call: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real parser, to the last argument."""
    with monkeypatch.context() as patched:
        patched.setattr(command_of(call).module, "run", lambda args: 0)
        assert main(call[1:]) == 0, call


def perform(call: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hears = call[1] == "vosk" and (call[2] == "decode" or "--recordings" in call)
    if hears and not REAL:
        parse(call, monkeypatch)
    else:
        assert main(call[1:]) == 0, call


def run(arguments: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        arguments, cwd=folder, env=environment() | variables, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


# ---- README


@pytest.mark.slow
def test_thirty_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    """The commands print what the page says they print, and so does Python."""
    seconds = section(README, "Thirty seconds")
    commands, printed = blocks(seconds)
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    shown = capfd.readouterr().out
    folder = tmp_path / "mdi-demo"
    (folder / "adapted.arpa.gz").unlink()
    monkeypatch.chdir(folder)
    for call in expanded(commands):
        assert main(call[1:]) == 0
    found = capfd.readouterr()
    for line in printed.splitlines():
        assert line.removesuffix("...") in found.out + found.err
    before, after = (float(ppl) for ppl in re.findall(r"ppl= ([\d.]+) ppl1", printed))
    for text in (shown, seconds):
        assert f"{before:.1f}" in text
        assert f"{after:.1f}" in text
    (snippet,) = blocks(section(README, "Python"))
    assert float(run([sys.executable, "-c", snippet], folder).split()[0]) == pytest.approx(after, rel=1e-4)


@pytest.mark.slow
def test_a_vosk_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vosk_ready(tmp_path)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(section(README, "A Vosk model"))
    for call in expanded(block):
        perform(call, monkeypatch)
    assert "dabba" in (tmp_path / "adapted-model/new_words.tsv").read_text()
    for call in in_lines(README):
        if call[1] == "vosk" and is_whole(call):
            perform(call, monkeypatch)
            shutil.rmtree("OUT", ignore_errors=True)


@pytest.mark.slow
def test_beside_a_kaldi_recipe(tmp_path: Path) -> None:
    """The clone plans its stages there, for README and for local/README.md."""
    recipe = make_tree(tmp_path / "egs", "ami")
    clone = recipe.parent / "mdi"
    for name in ("local", "steps", "utils", "mdi"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "run.sh", clone)
    ready(clone)
    calls = [call for page, title in ((README, "Kaldi"), (CORPORA, "Kaldi recipes")) for call in planned(page, title)]
    assert len(calls) == 4
    for call in calls:
        if "kaldi" in call:  # which needs a build of Kaldi, and says so
            done = subprocess.run([*call, "--dry-run", "true"], cwd=clone, env=environment(), capture_output=True)
            assert b"set KALDI_ROOT" in done.stderr
        else:
            assert "stage 3" in run([*call, "--dry-run", "true"], clone)


def planned(page: Path, title: str) -> list[list[str]]:
    return [call for block in blocks(section(page, title)) for call in expanded(block)]


# ---- the other pages


@pytest.mark.slow
def test_every_whole_command_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mdi adapt BG TEXT OUT` and the like, with files of these names."""
    monkeypatch.chdir(ready(tmp_path))
    assert main(["adapt", "--delta", "A.delta", "BG", "TEXT"]) == 0
    shutil.copy("A.delta", "DIR")
    assert main(["counts", "a.txt", "FILE"]) == 0
    seen = []
    for page in PAGES:
        for call in in_lines(page):
            if is_whole(call) and call[1] != "vosk" and call not in seen:
                seen.append(call)
                perform(call, monkeypatch)
    assert len(seen) > 8


@pytest.mark.slow
@pytest.mark.parametrize("page", [PACKAGE, RESULTS], ids=["mdi", "RESULTS"])
def test_every_block_of_commands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ready(tmp_path))
    vosk_ready(tmp_path)
    for call in (call for block in command_blocks(page) for call in expanded(block)):
        if call[0] == "mdi" and call[1] == "vosk" and not REAL:
            parse(call, monkeypatch)
        elif call[0] == "mdi":
            perform(call, monkeypatch)
        else:
            plan(call, tmp_path)


def plan(call: list[str], folder: Path) -> None:
    """A script as far as it goes without a network: run.sh lists what it would do, others name their options."""
    script = ROOT / call[0]
    if script.name == "run.sh":
        assert "to be made" in run([str(script), *call[1:], "--dry-run", "true"], folder)
    else:
        options = run([str(script), "--help"], folder)
        assert [word for word in call[1:] if word.startswith("--") and word not in options] == []


@pytest.mark.slow
def test_own_text(tmp_path: Path) -> None:
    """Down to the baseline; test_recipe.py goes on from there to the table."""
    ready(tmp_path)
    (call,) = planned(CORPORA, "Your own text")
    run([str(ROOT / "run.sh"), *call[1:], "--stop-stage", "2"], tmp_path)
    assert (tmp_path / "exp/mine/lm/interpolated.arpa.gz").exists()
    plan(call, tmp_path)


@pytest.mark.slow
def test_without_transcripts(tmp_path: Path) -> None:
    ready(tmp_path)
    (call,) = planned(STEPS, "Without transcripts")
    run([str(ROOT / call[0]), *call[1:]], tmp_path)
    assert (tmp_path / "exp/calls/lat.1.gz").exists()


@pytest.mark.slow
def test_many_domains(tmp_path: Path) -> None:
    domains = section(PACKAGE, "One background, many domains")
    run([str(ROOT / "run.sh"), "--tiny", "true", "--stop-stage", "0"], tmp_path)
    folder = tmp_path / "data/tiny"
    run(["mdi", "train", "--vocab", "vocab.txt", "background.txt.gz", "background.arpa.gz"], folder)
    printed = run([sys.executable, "-c", blocks(domains)[1]], folder)
    assert [f"| {line} |" for line in printed.splitlines()] == re.findall(r"^\| [a-z]+ \|.*\d \|$", domains, re.M)
    assert len(list(folder.glob("*.delta"))) == 3


def test_scripts_that_set_themselves_up(tmp_path: Path) -> None:
    """README and CONTRIBUTING name run.sh, which is planned, and run_tests.sh: in an environment whose programs do no
    more than say how they were called."""
    programs = tmp_path / "venv/bin"
    programs.mkdir(parents=True)
    (tmp_path / "venv/.installed-test").touch()
    for name in ("ruff", "mypy", "shellcheck", "python3"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)
    expected = {
        "": "--dist loadfile",
        "--quick": "--dist loadfile -m not slow",
        "--lint": None,
        "--coverage": "--dist loadfile --cov=mdi",
        "tests/test_dual.py": "--dist loadfile tests/test_dual.py -k gradient",
    }
    tried = set()
    for page, title in ((README, "Install"), (CONTRIBUTING, "Set-up and tests")):
        for call in planned(page, title):
            if call[0] == "pip":
                check_extras(call)
            elif call[0] == "./run.sh":
                plan(call, tmp_path)
            else:
                tried.add(first := " ".join(call[1:2]))
                said = run([str(ROOT / call[0]), *call[1:]], tmp_path, MDI_VENV=str(tmp_path / "venv"))
                assert said.count("ruff format --check") == 1
                tests = re.findall(r"python3 -m pytest.* (--dist loadfile.*)", said)
                assert tests == [] if expected[first] is None else tests[0].startswith(expected[first])
    assert tried == set(expected)


def check_extras(call: list[str]) -> None:
    (extras,) = re.findall(r"\[(.*)\]", call[-1])
    assert set(extras.split(",")) <= set(importlib.metadata.metadata("mdi-lm").get_all("Provides-Extra") or ())


def test_extras_that_are_named_exist() -> None:
    named = [call for page in PAGES for call in re.findall(r"`(pip install [^`]+)`", page.read_text())]
    assert named
    for call in named:
        check_extras(shlex.split(call))


def options_of(call: list[str]) -> set[str]:
    """Of the verb that a command calls, or of all that begin with it."""
    if more := [verb.split() for verb in VERBS if verb.startswith(f"{' '.join(call[1:])} ")]:
        return {option for words in more for option in options_of(["mdi", *words])}
    parser = argparse.ArgumentParser()
    declare(parser, command_of(call).module.OPTIONS)
    return set(parser._option_string_actions)


def test_every_verb_and_option_that_is_named_exists() -> None:
    """Where a line names a verb and options, but not what to read."""
    named = set()
    for call in (call for page in PAGES for call in in_lines(page)):
        named.add(call[1])
        assert {word for word in call if word.startswith("--")} <= options_of(call), call
    assert {verb.split()[0] for verb in VERBS} - named == set()


def test_every_option_alone_is_one_of_a_verb_or_a_script() -> None:
    scripts = [ROOT / "run.sh", ROOT / "local/conf/schema.sh", *ROOT.glob("steps/*.sh"), *ROOT.glob("local/*.sh")]
    declared = [name for path in scripts for name in re.findall(r"^(\w+)=", path.read_text(), re.MULTILINE)]
    options = {f"--{name.replace('_', '-')}" for name in declared}.union(
        *(options_of(["mdi", *verb.split()]) for verb in VERBS)
    )
    options |= {
        "--quick",
        "--lint",
        "--coverage",
        "--results",
        "--peer",
        "--relatives",
    }  # of run_tests.sh and of the benchmarks
    for page in PAGES:
        for named in re.findall(r"`[^`\n]*?(?<![\w-])(--[a-z][a-z0-9-]*)", page.read_text()):
            assert named in options, page


def test_what_the_pages_name_is_there() -> None:
    for page in PAGES:
        text = page.read_text()
        for name in re.findall(r"`((?:mdi|utils|local|steps|tests)/[\w./*-]+)`", text):
            # local/score.sh is Kaldi's, NAME stands for a new one
            assert list(ROOT.glob(name)) or name == "local/score.sh" or "NAME" in name, (page, name)
        for name in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text):
            assert (page.parent / name).exists(), (page, name)
        for name in re.findall(r"`((?:lm|adaptation|fst|speech)/\w+)`", text):
            assert (ROOT / "mdi" / f"{name}.py").exists(), (page, name)


def test_figures_of_readme_stand_in_results() -> None:
    """Every figure with a decimal point in README's tables, to the digits that it has."""
    results = re.findall(r"(?<![\d.])\d[\d,]*\.\d+", RESULTS.read_text())
    for line in re.findall(
        r"^\|.*\|$", section(README, "A Vosk model") + section(README, "Does it help?"), re.MULTILINE
    ):
        for figure in re.findall(r"(?<![\d.-])\d+\.\d+(?![\d.]*-)", line):
            digits = len(figure.split(".")[1])
            assert any(f"{float(value.replace(',', '')):.{digits}f}" == figure for value in results), (figure, line)
