"""A corpus as files: data folders that are right wherever one stands, and the recogniser that decodes them."""

import gzip
import os
from pathlib import Path

import prepare_corpus
import pytest
from goldens import DATA

import mdi
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


def read(name: str) -> list[str]:
    return gzip.decompress(Path("out", name).read_bytes()).decode().splitlines()


@pytest.mark.parametrize("given", ["model", "words"])
def test_texts_are_put_into_the_words_of_the_recogniser(speech, capsys, monkeypatch, given):
    """As mdi.as_spoken puts them; those that are, and recipes' own, stay as they are."""
    prose = speech / "prose"
    prose.write_text('W001 w002. W003!\n(w001) "w004," <s> w005 </s>\n')
    known = mdi.load("model/graph/Gr.fst") if given == "model" else ["<eps>", *(f"w{n:03}" for n in range(300)), "#0"]
    background = ["--background-lm", str(DATA / "kaldi" / "bg.kn.arpa.gz")]
    if given == "words":
        Path("words.txt").write_text("".join(f"{word} {i}\n" for i, word in enumerate(known)))
        options = ["--words", "words.txt"]
    else:
        options = ["--vosk", "true", "--vosk-model", "model"]
    texts = ["--in-text", str(prose), "--text", f"dev={prose}"]
    assert prepare_corpus.main([*options, *background, *texts, "out"]) == 0
    wanted = ["w001 w002", "w003", "w001 w004 w005"]
    assert read("train.txt.gz") == read("dev.txt.gz") == wanted
    assert mdi.as_spoken(prose.read_text().replace("<s>", "").replace("</s>", "").splitlines(), known) == wanted
    assert "were changed" in capsys.readouterr().err
    assert prepare_corpus.main([*options, *background, *texts, "--normalise", "none", "out"]) == 1
    assert "most of the in-domain words are not in the vocabulary" in capsys.readouterr().err
    fine = speech / "fine"
    fine.write_text("w001  w002\nw003 nobody\n")
    texts = ["--in-text", str(fine), "--text", f"dev={prose}"]
    assert prepare_corpus.main([*options, *background, *texts, "out"]) == 0
    assert read("train.txt.gz") == fine.read_text().splitlines()
    (speech / "data" / "text").write_text("u1 W001 w002.\nu2 w003\nu3 w001\n")
    assert prepare_corpus.main([*options, *background, "--in-text", str(fine), "--speech", "dev=data", "out"]) == 0
    assert read("dev.txt.gz") == ["w001 w002", "w003", "w001"]
    assert Path("out/speech/dev/text").read_text() == "u1 w001 w002\nu2 w003\nu3 w001\n"  # what WERs are computed of
    with_text = [*options, "--background-text", str(prose), "--in-text", str(fine), "--text", f"dev={fine}", "out"]
    assert prepare_corpus.main(with_text) == 0
    assert read("background.txt.gz") == wanted
    monkeypatch.setattr(prepare_corpus, "CHUNK", 16)  # in several blocks
    prose.write_text(prose.read_text() + "W007 w008.\n" * 3)
    capsys.readouterr()
    assert prepare_corpus.main(with_text) == 0
    assert read("background.txt.gz") == [*wanted, *["w007 w008"] * 3]
    said = capsys.readouterr().err
    assert said.count("background.txt.gz: 11 of 12 words are not as the model spells them") == 1
    recipe = ["--in-data", "data", "--speech", "dev=data", "--decodes", "true"]
    assert prepare_corpus.main([*options, *background, *recipe, "out"]) == 0
    assert read("train.txt.gz") == read("dev.txt.gz") == ["W001 w002.", "w003", "w001"]
    assert Path("out/speech/dev/text").is_symlink()


def test_without_a_recogniser_a_background_is_asked_for(tmp_path, capsys):
    options = ["--in-text", str(TEXT / "in.txt.gz"), "--text", f"dev={TEXT / 'dev.txt'}", str(tmp_path / "out")]
    assert prepare_corpus.main(options) == 1
    assert "--background-text and --background-lm; expected one of them" in capsys.readouterr().err
    assert not Path(tmp_path / "out").exists()
