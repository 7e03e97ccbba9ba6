"""README's commands and snippets, run as they stand there."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from recipe import ROOT, environment

from mdi.cli import VERBS

README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str) -> list[str]:
    """The indented blocks."""
    found = re.findall(r"(?:^    [^\n]*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip() + "\n" for block in found]


@pytest.mark.slow
def test_the_first_five_minutes(tmp_path: Path) -> None:
    first = section("The first five minutes")
    shell, python = blocks(first)
    assert shell.splitlines()[0].startswith(". utils/setup.sh")  # done already, by who runs the tests
    script = shell.split("\n", 1)[1].replace("./run.sh", str(ROOT / "run.sh"))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    before, after = (float(ppl) for ppl in re.findall(r"ppl= ([\d.]+) ppl1", done.stdout))
    said = re.search(r"falls from (\d+) to ([\d.]+)", first)
    assert said
    assert f"{before:.0f}" == said[1]
    assert f"{after:.1f}" == said[2]
    folder = tmp_path / "data/tiny"
    done = subprocess.run([sys.executable, "-c", python], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[0]) == pytest.approx(after, rel=1e-4)
    domains = section("One background, many domains")
    done = subprocess.run([sys.executable, "-c", blocks(domains)[1]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [f"| {line} |" for line in done.stdout.splitlines()] == re.findall(r"^\| [a-z]+ \|.*\d \|$", domains, re.M)
    assert len(list(folder.glob("*.delta"))) == 3


def test_every_verb_and_option_in_the_table_exists() -> None:
    calls = re.findall(r"`(mdi [^`]+)`", section("Commands"))
    named = {call.split()[1] for call in calls}
    assert set(VERBS) - named == set()
    for call in calls:
        _, verb, *rest = shlex.split(call.replace("[", "").replace("]", ""))
        if verb == "VERB":
            continue
        parser = argparse.ArgumentParser()
        command = importlib.import_module(f"mdi.commands.{verb.replace('-', '_')}")
        if hasattr(command, "ACTIONS"):
            assert rest[0] in command.ACTIONS, call
            command = importlib.import_module(f"mdi.commands.{verb}_{rest.pop(0).replace('-', '_')}")
        command.add_arguments(parser)
        for option in (word for word in rest if word.startswith("--")):
            assert option in parser._option_string_actions, call


def test_what_readme_names_is_there() -> None:
    for name in re.findall(r"`((?:mdi|utils|local|steps|tests)/[\w./*-]+)`", README):
        # local/score.sh is Kaldi's, NAME stands for a new one
        assert list(ROOT.glob(name)) or name == "local/score.sh" or "NAME" in name, name
    for name in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`((?:lm|adaptation|fst|speech)/\w+)`", section("The house")):
        assert (ROOT / "mdi" / f"{name}.py").exists(), name
    declared = (ROOT / "run.sh").read_text() + (ROOT / "local/conf/schema.sh").read_text()
    options = re.findall(r"^(\w+)=", declared, re.MULTILINE)
    for option in re.findall(r"--([a-z][a-z-]*)", section("The recipe")):
        assert option.replace("-", "_") in options or option == "help", option
