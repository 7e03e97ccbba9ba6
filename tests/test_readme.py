"""The commands, snippets and figures of README.md and the pages that it points to."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from recipe import ROOT, environment

from mdi.arguments import declare
from mdi.cli import VERBS

PAGES = ("README.md", "CONTRIBUTING.md", "mdi/README.md", "local/README.md", "steps/README.md", "RESULTS.md")
README = (ROOT / "README.md").read_text()


def section(title: str, page: str = README) -> str:
    return page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str) -> list[str]:
    """The indented blocks."""
    found = re.findall(r"(?:^    [^\n]*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip() + "\n" for block in found]


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(arguments, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_thirty_seconds(tmp_path: Path) -> None:
    seconds = section("Thirty seconds")
    shown = run(["mdi", "demo"], tmp_path)
    folder = tmp_path / "mdi-demo"
    (folder / "adapted.arpa.gz").unlink()
    printed = run(["bash", "-euo", "pipefail", "-c", blocks(seconds)[0]], folder)
    before, after = (float(ppl) for ppl in re.findall(r"ppl= ([\d.]+) ppl1", printed))
    unknown, words = re.findall(r"(\d+) of (\d+) words", shown)[0]
    for figure in (f"{before:.1f}", f"{after:.1f}"):
        assert figure in shown
    said = f"from\n{before:.1f} to {after:.1f}, and knows the {unknown} of their {words} words"
    assert said.replace("\n", " ") in seconds.replace("\n", " ")
    (snippet,) = blocks(section("Python"))
    assert float(run([sys.executable, "-c", snippet], folder).split()[0]) == pytest.approx(after, rel=1e-4)


@pytest.mark.slow
def test_many_domains(tmp_path: Path) -> None:
    domains = section("One background, many domains", (ROOT / "mdi/README.md").read_text())
    run([str(ROOT / "run.sh"), "--tiny", "true", "--stop-stage", "0"], tmp_path)
    folder = tmp_path / "data/tiny"
    run(["mdi", "train", "--vocab", "vocab.txt", "background.txt.gz", "background.arpa.gz"], folder)
    printed = run([sys.executable, "-c", blocks(domains)[1]], folder)
    assert [f"| {line} |" for line in printed.splitlines()] == re.findall(r"^\| [a-z]+ \|.*\d \|$", domains, re.M)
    assert len(list(folder.glob("*.delta"))) == 3


def calls() -> Iterator[tuple[str, str]]:
    """(page, command) of every `mdi` command on the pages, in a block or in a line."""
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in blocks(text):
            lines = re.sub(r"\\\n\s*", "", block).splitlines()
            yield from ((page, found[1]) for line in lines if (found := re.match(r"(?:for .* do )?(mdi [^;#]+)", line)))
        yield from ((page, call) for call in re.findall(r"`(mdi [^`]+)`", text))


def test_every_verb_and_option_that_is_named_exists() -> None:
    named = set()
    for page, call in calls():
        _, verb, *rest = shlex.split(call.replace("[", "").replace("]", ""))
        if verb == "VERB":
            continue
        command = importlib.import_module(f"mdi.commands.{verb.replace('-', '_')}")
        named.add(verb)
        if hasattr(command, "ACTIONS"):
            if not rest:  # all of its actions
                continue
            assert rest[0] in command.ACTIONS, (page, call)
            command = importlib.import_module(f"mdi.commands.{verb}_{rest.pop(0).replace('-', '_')}")
        parser = argparse.ArgumentParser()
        declare(parser, command.OPTIONS)
        for option in (word for word in rest if word.startswith("--")):
            assert option in parser._option_string_actions, (page, call)
    assert set(VERBS) - named == set()


def test_every_option_of_the_recipe_that_is_named_exists() -> None:
    declared = (ROOT / "run.sh").read_text() + (ROOT / "local/conf/schema.sh").read_text()
    options = set(re.findall(r"^(\w+)=", declared, re.MULTILINE))
    for page in PAGES:
        for call in re.findall(r"\./run\.sh((?: +--[a-z][a-z-]*(?: +[^\s`#-][^\s`#]*)?)+)", (ROOT / page).read_text()):
            for option in re.findall(r"--([a-z][a-z-]*)", call):
                assert option.replace("-", "_") in options, (page, option)


def test_what_the_pages_name_is_there() -> None:
    for page in PAGES:
        text, folder = (ROOT / page).read_text(), (ROOT / page).parent
        for name in re.findall(r"`((?:mdi|utils|local|steps|tests)/[\w./*-]+)`", text):
            # local/score.sh is Kaldi's, NAME stands for a new one
            assert list(ROOT.glob(name)) or name == "local/score.sh" or "NAME" in name, (page, name)
        for name in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text):
            assert (folder / name).exists(), (page, name)
        for name in re.findall(r"`((?:lm|adaptation|fst|speech)/\w+)`", text):
            assert (ROOT / "mdi" / f"{name}.py").exists(), (page, name)


def test_figures_of_readme_stand_in_results() -> None:
    """Every figure with a decimal point in README's tables, to the digits that it has."""
    results = re.findall(r"(?<![\d.])\d[\d,]*\.\d+", (ROOT / "RESULTS.md").read_text())
    for line in re.findall(r"^\|.*\|$", section("A Vosk model") + section("Does it help?"), re.MULTILINE):
        for figure in re.findall(r"(?<![\d.-])\d+\.\d+(?![\d.]*-)", line):
            digits = len(figure.split(".")[1])
            assert any(f"{float(value.replace(',', '')):.{digits}f}" == figure for value in results), (figure, line)
