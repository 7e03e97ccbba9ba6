"""A corpus as files: data folders that are right wherever one stands, and the recogniser that decodes them."""

import gzip
import os
from pathlib import Path

import prepare_corpus
import pytest
from goldens import DATA

from mdi.cli import main
from mdi.lm.arpa import read_arpa

TEXT = DATA / "text"


@pytest.fixture
def speech(tmp_path, monkeypatch):
    """A data folder with every kind of entry, and what mdi sees of a Vosk model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text").write_text("u1 w001 w002\nu2 w003\nu3 w001\n")
    (tmp_path / "data" / "wav.scp").write_text("u1 a.wav\nu2 sox a.wav - |\nu3 b.ark:12\n")
    for name in ("am/final.mdl", "graph/HCLr.fst"):
        (tmp_path / "model" / name).parent.mkdir(parents=True)
        (tmp_path / "model" / name).write_text("")
    assert main(["convert", str(DATA / "kaldi" / "bg.kn.arpa.gz"), "model/graph/Gr.fst"]) == 0
    return tmp_path


def prepare(*options: str) -> int:
    common = ["--in-text", str(TEXT / "in.txt.gz"), "--speech", "dev=data", "--vosk", "true", "--vosk-model", "model"]
    return prepare_corpus.main([*common, *options, "out"])


def test_entries_of_wav_scp_stay_right_wherever_one_stands(speech):
    assert prepare() == 0
    assert (speech / "out/speech/dev/wav.scp").read_text().splitlines() == [
        f"u1 {speech}/a.wav",
        "u2 sox a.wav - |",
        f"u3 {speech}/b.ark:12",
    ]


def test_the_recognisers_own_model_is_the_background_where_none_is_given(speech, capsys):
    assert prepare() == 0
    own = read_arpa(str(speech / "out/default.arpa.gz"), quiet=True)
    words = (speech / "out/vocab.txt").read_text().split()
    assert set(words) == set(own.vocab.words) - {"<s>", "</s>"}
    assert (speech / "out/background.arpa.gz").resolve() == (speech / "out/default.arpa.gz").resolve()
    assert (speech / "out/vosk-model").resolve() == speech / "model"
    table = dict(line.split() for line in (speech / "out/words.txt").read_text().splitlines())
    assert table["<eps>"] == "0"
    assert set(words) <= set(table)
    # with a text of its own the words are still those that can be recognised
    assert prepare("--background-text", str(TEXT / "bg.txt.gz")) == 0
    assert (speech / "out/vocab.txt").read_text().split() == words
    assert not (speech / "out/background.arpa.gz").exists()
    assert gzip.decompress((speech / "out/background.txt.gz").read_bytes())
    # a graph that cannot be changed is of no use here
    os.rename("model/graph/HCLr.fst", "model/graph/HCLG.fst")
    assert prepare() == 1
    assert "a static graph; expected one with HCLr.fst and Gr.fst" in capsys.readouterr().err


def test_without_a_recogniser_a_background_is_asked_for(tmp_path, capsys):
    options = ["--in-text", str(TEXT / "in.txt.gz"), "--text", f"dev={TEXT / 'dev.txt'}", str(tmp_path / "out")]
    assert prepare_corpus.main(options) == 1
    assert "--background-text and --background-lm; expected one of them" in capsys.readouterr().err
    assert not Path(tmp_path / "out").exists()
