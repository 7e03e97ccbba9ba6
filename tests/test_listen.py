"""Utterances of the report: which ones, their words below each other, their sound."""

import base64
import shutil
import wave
from pathlib import Path

import listen
import pytest


def scored(folder: Path, references: dict[str, str], heard: dict[str, str]) -> Path:
    details = folder / "scoring_kaldi" / "wer_details"
    details.mkdir(parents=True)
    (details / "lmwt").write_text("10\n")
    (details / "wip").write_text("0.0\n")
    (folder / "scoring_kaldi" / "penalty_0.0").mkdir()
    for path, texts in (("test_filt.txt", references), ("penalty_0.0/10.txt", heard)):
        (folder / "scoring_kaldi" / path).write_text("".join(f"{name} {text}\n" for name, text in texts.items()))
    return folder


@pytest.fixture
def systems(tmp_path):
    said = {"u1": "where is the plane", "u2": "hello", "u3": "over there"}
    one = scored(tmp_path / "one", said, {"u1": "where the train", "u2": "hello", "u3": "over there"})
    two = scored(tmp_path / "two", said, {"u1": "well where is the plane to", "u2": "hello", "u3": "over where"})
    return {"default": one, "Best": two}


def test_words_are_below_each_other(systems, tmp_path):
    heard = listen.heard_by(systems)
    assert heard.utterances == ["u1", "u2", "u3"]
    assert heard.differ() == ["u1", "u3"]
    found = listen.examples(tmp_path, heard, listen.drawn(heard.differ()), {"plane"})
    assert {example.utterance for example in found} == {"u1", "u3"}
    example = next(example for example in found if example.utterance == "u1")
    shown = [(name, errors, [(cell.text, cell.kind) for cell in cells]) for name, errors, cells in example.rows]
    assert shown == [
        ("said", None, [("", ""), ("where", ""), ("is", ""), ("the", ""), ("plane", "new"), ("", "")]),
        ("default", 2, [("", ""), ("where", ""), ("is", "deleted"), ("the", ""), ("train", "wrong"), ("", "")]),
        ("Best", 2, [("well", "inserted"), ("where", ""), ("is", ""), ("the", ""), ("plane", ""), ("to", "inserted")]),
    ]
    assert example.sound == ""  # there is none


def test_the_sound_is_in_the_page_unless_it_comes_from_a_pipe(systems, tmp_path):
    sound = tmp_path / "sound.wav"
    with wave.open(str(sound), "wb") as stream:
        stream.setparams((1, 2, 16000, 0, "NONE", ""))
        stream.writeframes(bytes(range(256)) * 125)
    for name, entry in (("file", str(sound)), ("pipe", f"touch {tmp_path}/ran; cat {sound} |"), ("none", "gone.wav")):
        data = tmp_path / name
        data.mkdir()
        (data / "wav.scp").write_text("".join(f"u{i} {entry}\n" for i in (1, 2, 3)))
        found = listen.examples(data, listen.heard_by(systems), ["u1", "u3"])
        addresses = {example.sound for example in found}
        if name == "file":
            (address,) = addresses
            kind, content = address.split(",")
            assert kind == "data:audio/wav;base64"
            assert base64.b64decode(content)[44:] == sound.read_bytes()[44:]
        else:
            assert addresses == {""}
    assert not (tmp_path / "ran").exists()


def test_nothing_where_sclite_has_scored_or_nothing_differs(systems):
    shutil.rmtree(systems["Best"] / "scoring_kaldi" / "penalty_0.0")
    assert listen.heard_by(systems).models.keys() == {"default"}
    assert listen.heard_by(systems).differ() == []
    assert listen.heard_by({"a": systems["default"], "b": systems["default"]}).differ() == []
    assert listen.heard_by({}).differ() == []
