"""A wheel of the tree, installed outside the clone: every verb works there, and nothing reads the clone."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
# Opening a file of the clone is an error, except in the environment, which may lie within it.
GUARD = """
import sys
def guard(event, args, root={root!r}, allowed={allowed!r}):
    if event == "open" and isinstance(args[0], str) and args[0].startswith(root) and not args[0].startswith(allowed):
        raise RuntimeError(f"reads the clone: {{args[0]}}")
sys.addaudithook(guard)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """(a folder to work in, the environment in which `python3 -m mdi` is the wheel's)"""
    root = tmp_path_factory.mktemp("wheel")
    clone = root / "source"  # building leaves files behind: not in the clone
    ignore = shutil.ignore_patterns(".venv", ".git", "exp", "data", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "mdi", clone / "mdi", ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(root), str(clone)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = root.glob("mdi_lm-*.whl")
    site = root / "site"
    subprocess.run(
        [*pip, "install", "-q", "--no-deps", "--target", str(site), str(wheel)], check=True, capture_output=True
    )
    allowed = os.path.realpath(Path(sys.executable).parent.parent)
    (site / "sitecustomize.py").write_text(GUARD.format(root=f"{ROOT}{os.sep}", allowed=(allowed, sys.prefix)))
    work = root / "work"
    work.mkdir()
    data = ROOT / "tests" / "data"
    for source in ("kaldi/bg.kn.arpa.gz", "kaldi/words.txt", "text/in.txt.gz", "text/dev.txt", "srilm/in.kn.arpa.gz"):
        shutil.copy(data / source, work)
    (work / "speech").mkdir()
    (work / "decoded").mkdir()
    for source, target in (("lats.txt.gz", "decoded/lat.1.gz"), ("refs.txt", "speech/text")):
        shutil.copy(data / "lat" / source, work / target)
    utterances = [line.split()[0] for line in (work / "speech" / "text").read_text().splitlines()]
    (work / "speech" / "utt2spk").write_text("".join(f"{name} spk\n" for name in utterances))
    (work / "decoded" / "num_jobs").write_text("1\n")
    return work, {**os.environ, "PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(root / "cache")}


def test_every_verb_works_outside_the_clone(installed: tuple[Path, dict[str, str]]) -> None:
    from mdi.cli import VERBS

    work, environment = installed
    tried = set()

    def mdi(*arguments: str) -> str:
        command = [sys.executable, "-m", "mdi", *arguments]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (arguments, done.stderr)
        tried.add(arguments[0])
        return done.stdout

    where = "import mdi; print(mdi.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=work, env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(environment["PYTHONPATH"])
    assert (Path(environment["PYTHONPATH"]) / "mdi" / "py.typed").exists()
    background, text, dev = "bg.kn.arpa.gz", "in.txt.gz", "dev.txt"
    assert "adapted.arpa.gz" in mdi("demo")
    mdi("vocab", text, "list.txt")
    mdi("train", "--vocab", "list.txt", text, "in.arpa.gz")
    mdi("adapt", "--min-counts", "5-3-2", background, text, "adapted.arpa.gz")
    mdi("counts", "--order", "2", dev, "dev.counts")
    mdi("adapt", "--min-counts", "5-3-2", "--delta", "a.delta", background, text)
    mdi("apply", background, "a.delta", "applied.arpa.gz")
    assert (work / "applied.arpa.gz").read_bytes() == (work / "adapted.arpa.gz").read_bytes()
    assert "a.delta" in mdi("list-deltas", ".")
    mdi("tune", "--max-settings", "2", background, text, dev, "best.arpa.gz")
    mdi("match", "in.kn.arpa.gz", background, text, "matched.arpa.gz")
    mdi("mix", "--weights", "0.5,0.5", "in.kn.arpa.gz", background, "mixed.arpa.gz")
    mdi("prune", "--threshold", "1e-4", background, "pruned.arpa.gz")
    assert "ppl=" in mdi("ppl", "adapted.arpa.gz", dev)
    assert "nothing is wrong" in mdi("check", "adapted.arpa.gz")
    mdi("fst", "--words", "words.txt", background, "G.fst")
    mdi("convert", "--words", "words.txt", background, "G.carpa")
    for name in ("am/final.mdl", "graph/HCLr.fst"):
        (work / "vosk" / name).parent.mkdir(parents=True)
        (work / "vosk" / name).write_text("")
    (work / "lexicon.txt").write_text("bad B AA D\nbed B EH D\ncab K AA B\n")
    (work / "new.txt").write_text("cad\ndab 3\n")
    mdi("g2p", "train", "lexicon.txt", "model.g2p")
    assert "cad " in mdi("g2p", "apply", "model.g2p", "new.txt")
    with tarfile.open(Path(__file__).parent / "data" / "lang.tar.gz") as archive:
        archive.extractall(work / "kaldi", filter="data")
    mdi("lang", "extend", "kaldi/lang", "kaldi/new.txt", "kaldi/lang_more")
    mdi("convert", background, "vosk/graph/Gr.fst")
    mdi("vosk", "replace-lm", "vosk", "adapted.arpa.gz", "vosk-adapted")
    words = ["--words", "words.txt"]
    mdi("rescore", *words, "--old-lm", background, "--new-lm", "adapted.arpa.gz", "decoded", "rescored")
    assert "%WER" in mdi("score", *words, "speech", "rescored")
    mdi("adapt-recordings", *words, "--data", "speech", background, "decoded", "recordings")
    assert tried == {verb.split()[0] for verb in VERBS}


def test_one_version_number(installed: tuple[Path, dict[str, str]]) -> None:
    """That of the wheel, which citations and the change log name as the last release, on the same day."""
    work, environment = installed
    (of_wheel,) = Path(environment["PYTHONPATH"]).glob("mdi_lm-*.dist-info")
    version = Distribution.at(of_wheel).version
    (released,) = re.findall(r"^## \[(.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:1]
    citation = dict(re.findall(r"^([a-z-]+): (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert released == (version, citation["date-released"])
    assert citation["version"] == version
    command = [sys.executable, "-m", "mdi", "--version"]
    assert subprocess.check_output(command, cwd=work, env=environment, text=True) == f"mdi {version}\n"


def test_building_leaves_nothing_that_git_would_take() -> None:
    ignored = subprocess.run(["git", "check-ignore", "build/lib/mdi", "dist/x.whl"], cwd=ROOT, capture_output=True)
    if ignored.returncode == 128:
        pytest.skip("no clone of git's")
    assert len(ignored.stdout.splitlines()) == 2
