"""Text in another encoding than UTF-8: every verb that reads text names the line and the command that converts it."""

import gzip
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from recipe import run
from toy_graph import FULL, Toy

from mdi.cli import main
from mdi.files import not_utf8

DATA = Path(__file__).parent / "data"
LINES = gzip.decompress((DATA / "text/in.txt.gz").read_bytes()).decode().splitlines()[:50]
UNKNOWN = "un café noir"
VERBS = {
    "adapt": "adapt bg.arpa.gz text.txt out.arpa",
    "adapt --ppl": "adapt --ppl text.txt bg.arpa.gz good.txt out.arpa",
    "counts": "counts text.txt out.counts",
    "match": "match in.arpa.gz bg.arpa.gz text.txt out.arpa",
    "mix": "mix --tune text.txt in.arpa.gz bg.arpa.gz out.arpa",
    "ppl": "ppl bg.arpa.gz text.txt",
    "train": "train text.txt out.arpa",
    "tune, dev": "tune --max-settings 1 bg.arpa.gz good.txt text.txt out.arpa",
    "tune, text": "tune --max-settings 1 bg.arpa.gz text.txt good.txt out.arpa",
    "vocab": "vocab text.txt out.txt",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(DATA / "kaldi/bg.kn.arpa.gz", tmp_path / "bg.arpa.gz")
    shutil.copy(DATA / "srilm/in.kn.arpa.gz", tmp_path / "in.arpa.gz")
    (tmp_path / "good.txt").write_text("\n".join(LINES) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, lines: list[str], encoding: str) -> None:
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))


@pytest.mark.parametrize("call", VERBS.values(), ids=VERBS)
def test_verbs_that_read_text(call: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    write(folder / "text.txt", [*LINES, UNKNOWN, *LINES], "latin-1")
    main(call.split())
    said = capsys.readouterr().err
    # it may be a warning only: text is read as it is, for vocabularies of the same encoding
    named = f"text.txt:51: not UTF-8: '{UNKNOWN}' if it is Latin-1; expected text in UTF-8. Convert it: "
    assert said.count(named + "iconv -f latin1 -t utf-8 text.txt > text.txt.utf8") == 1  # however often it is read
    write(folder / "text.txt", LINES, "utf-16")
    assert main(call.split()) == 1
    said = capsys.readouterr().err
    assert "text.txt: UTF-16; expected text in UTF-8. Convert it: iconv -f utf-16 -t utf-8 text.txt" in said


def test_the_commands_convert(folder: Path) -> None:
    for encoding in ("latin-1", "utf-16"):
        write(folder / "a text.txt", [UNKNOWN], encoding)
        command = not_utf8("a text.txt", (folder / "a text.txt").read_bytes()).split("Convert it: ")[1]
        subprocess.run(["bash", "-c", command], check=True)
        assert (folder / "a text.txt.utf8").read_text() == UNKNOWN + "\n"
    (folder / "b.gz").write_bytes(gzip.compress(f"{UNKNOWN}\n".encode("latin-1")))
    command = not_utf8("b.gz", f"{UNKNOWN}\n".encode("latin-1")).split("Convert it: ")[1]
    subprocess.run(["bash", "-c", command], check=True)
    assert (folder / "b.utf8").read_text() == UNKNOWN + "\n"


def test_a_vocabulary_of_the_same_encoding(folder: Path, capsys: pytest.CaptureFixture) -> None:
    """Nothing to convert: it has the words."""
    write(folder / "text.txt", [*LINES, UNKNOWN], "latin-1")
    assert main(["train", "text.txt", "out.arpa"]) == 0
    capsys.readouterr()
    assert main(["ppl", "out.arpa", "text.txt"]) == 0
    said = capsys.readouterr()
    assert "0 words scored as <unk>" in said.out
    assert "UTF-8" not in said.err


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_lexicons(encoding: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    with tarfile.open(DATA / "lang.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    write(folder / "lexicon.txt", ["bad B AA D", "café B AA"], encoding)
    found = "lexicon.txt:2: not UTF-8: 'café B AA'" if encoding == "latin-1" else "lexicon.txt: UTF-16"
    for call in ("g2p train lexicon.txt model.g2p", "lang extend lang lexicon.txt out"):
        assert main(call.split()) == 1
        said = capsys.readouterr().err
        assert found in said
        assert "iconv -f " in said


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_references(encoding: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    (folder / "data").mkdir()
    write(folder / "data/text", ["u1 one two", "u2 un café"], encoding)
    (folder / "decoded").mkdir()
    (folder / "decoded/text").write_text("u1 one two\nu2 un café\n")
    code = main(["score", "--hyp", "text", "data", "decoded"])
    said = capsys.readouterr().err
    if encoding == "latin-1":
        assert "data/text:2: not UTF-8: 'u2 un café' if it is Latin-1" in said
    else:
        assert code == 1
        assert "data/text: UTF-16; expected" in said


def test_prose_for_a_vosk_model(folder: Path, capsys: pytest.CaptureFixture) -> None:
    """Is converted by itself, if that makes words of it; otherwise it is named."""
    Toy(FULL).write(folder / "model")
    write(folder / "text.txt", ["ab abc café", "ba ab é"], "latin-1")
    assert main(["vosk", "adapt", "model", "text.txt", "out"]) == 1
    said = capsys.readouterr().err
    assert "text.txt: is neither UTF-8 nor" in said
    assert "iconv" in said
    write(folder / "text.txt", ["ab abc bad", "ba ab dab"], "utf-16")
    assert main(["vosk", "adapt", "model", "text.txt", "out"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("option", ["in", "background", "dev", "eval"])
def test_texts_of_the_recipe(option: str, folder: Path) -> None:
    write(folder / "text.txt", [*LINES, UNKNOWN], "latin-1")
    options = {name: "text.txt" if name == option else "good.txt" for name in ("in", "background", "dev", "eval")}
    done = run(
        folder, *(part for name, text in options.items() for part in (f"--{name}-text", text)), "--stop-stage", 0
    )
    assert done.returncode == 1
    assert f"text.txt:51: not UTF-8: '{UNKNOWN}'" in done.stderr
