"""What commands share: outputs that are refused before any work is done, records of settings."""

import shutil
from pathlib import Path

import pytest
from goldens import GOOD, HARDENING, SHORT_TEXT

from mdi import files
from mdi.cli import main
from mdi.errors import MdiError


@pytest.mark.parametrize(
    "arguments",
    [
        ["adapt", "--ppl", "OUT", "M", "T", "OUT"],
        ["adapt", "--counts", "OUT", "M", "OUT"],
        ["adapt", "--start", "OUT", "M", "T", "OUT"],
        ["adapt", "--targets-lm", "OUT", "M", "T", "OUT"],
        ["adapt", "--history", "OUT", "M", "T", "OUT"],
        ["adapt", "--constraints-out", "T", "M", "T", "NEW"],
        ["adapt", "--constraints-out", "OUT", "--ppl", "OUT", "M", "T", "NEW"],
        ["adapt", "--delta", "OUT", "--ppl", "OUT", "M", "T"],
        ["adapt", "--lattices", "LATS", "--words", "W", "M", "LATS/lat.1.gz"],
        ["match", "--history", "OUT", "M", "M", "T", "OUT"],
        ["tune", "--mix-with", "OUT", "M", "T", "T", "OUT"],
        ["train", "--vocab", "OUT", "T", "OUT"],
        ["train", "--counts-out", "T", "T", "NEW"],
        ["mix", "--weights", "0.5,0.5", "--delta", "OUT", "M", "M", "OUT"],
        ["prune", "--words", "OUT", "M", "OUT"],
        ["apply", "--words", "OUT", "M", "D", "OUT"],
        ["convert", "--words", "OUT", "M", "OUT"],
        ["fst", "--words", "W", "--delta", "OUT", "M", "OUT"],
        ["counts", "--words", "OUT", "LATS", "OUT"],
        ["counts", "--words", "W", "LATS", "LATS/lat.1.gz"],
        ["rescore", "--words", "OUT", "--new-lm", "M", "LATS/lat.1.gz", "OUT"],
        ["rescore", "--words", "W", "--new-lm", "OUT", "LATS/lat.1.gz", "OUT"],
        ["rescore", "--words", "W", "--new-lm", "LATS/lat.1.gz", "LATS", "LATS"],
        ["vocab", "--base", "OUT", "T", "OUT"],
    ],
    ids=" ".join,
)
def test_no_output_is_an_input(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOOD, "M")
    for name in ("T", "OUT", "D", "W"):
        shutil.copy(SHORT_TEXT, name)
    for name in ("LATS", "G"):
        Path(name).mkdir()
    Path("LATS/lat.1.gz").write_bytes((HARDENING / "t_only").read_bytes())
    Path("G/words.txt").write_text("<eps> 0\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(arguments) == 1
    assert "is also an input; write to another file" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_outputs_differ(tmp_path, capsys):
    out = str(tmp_path / "out")
    for arguments in (["adapt", "--constraints-out", out], ["adapt", "--constraints-out", f"{out}.json"]):
        assert main([*arguments, GOOD, SHORT_TEXT, out]) == 2
        assert "as two outputs" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "{", "[1]", "\xff", "[" * 100_000])
def test_damaged_records_are_refused(content, tmp_path):
    (tmp_path / "decode.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(MdiError, match=r"decode\.json: "):
        files.read_json(tmp_path / "decode.json")
