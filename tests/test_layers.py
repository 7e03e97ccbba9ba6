"""Imports go one way, downwards; a module of kernels serves a module of its name."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent / "mdi"
BASE = {"errors", "files", "progress", "certificate", "charts", "cluster", "memory", "process", "record", "room"}
BASE |= {"threads", ""}
# package: what it may import, beside itself and the base
ALLOWED = {
    "files": set(),
    "kernels": set(),
    "lm": {"kernels"},
    "spoken": {"lm", "kernels"},
    "fst": {"lm", "kernels"},
    "adaptation": {"fst", "lm", "kernels"},  # a background may be a file of any form
    "speech": {"adaptation", "spoken", "fst", "lm", "kernels"},
    "commands": {"speech", "spoken", "saving", "from_files", "fst", "adaptation", "lm", "kernels", "cli"},
}


def imports(path: Path) -> set[str]:
    """First parts below mdi of what a module imports at run time; what is under TYPE_CHECKING is for readers."""
    tree = ast.parse(path.read_text())
    hidden = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test)
        for node in ast.walk(branch)
    }
    names = []
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [f"{node.module}.{alias.name}" if node.module == "mdi" else node.module for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("mdi.")}


def test_imports_go_downwards() -> None:
    wrong = []
    for package, allowed in ALLOWED.items():
        for path in (ROOT / package).rglob("*.py"):
            wrong += [(str(path), name) for name in imports(path) - allowed - BASE - {package, "__version__"}]
    for path in ROOT.glob("*.py"):
        if path.stem in BASE:
            wrong += [(str(path), name) for name in imports(path) - BASE]
    assert not wrong


def test_kernels_know_nothing_else() -> None:
    for path in (ROOT / "kernels").glob("*.py"):
        assert imports(path) <= {"kernels"}, path


PACKAGES = ("lm", "spoken", "adaptation", "fst", "speech")


def test_kernels_are_named_after_what_they_serve() -> None:
    modules = {path.stem for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    shared = {"__init__", "memory", "numbering", "types"}
    assert {path.stem for path in (ROOT / "kernels").glob("*.py")} - shared <= modules


# what several verbs share
SHARED = ("options", "inputs", "outputs", "vosk_folders", "vosk_weight")


def test_every_verb_has_its_module() -> None:
    from mdi.cli import VERBS

    modules = {path.stem for path in (ROOT / "commands").glob("*.py")} - {"__init__", *SHARED}
    assert modules == {re.sub("[ -]", "_", name) for name in VERBS}
