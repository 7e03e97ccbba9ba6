"""Kaldi data folders: what is read, and each fault with its file and line."""

import wave

import numpy as np
import pytest

from mdi.errors import MdiError
from mdi.speech import sound as sound_module
from mdi.speech.data import DataFolder, Segment, fields, read_text
from mdi.speech.rxfilename import Source
from mdi.speech.sound import Sound


@pytest.fixture
def folder(tmp_path):
    """Two utterances in one recording, and one that is whole."""
    (tmp_path / "text").write_text("utt1 a b\nutt2\tc\u3000d  e \r\n\nutt3\n")
    (tmp_path / "utt2spk").write_text("utt1 one\nutt2 one\nutt3 two\n")
    (tmp_path / "spk2utt").write_text("one utt1 utt2\ntwo utt3\n")
    (tmp_path / "segments").write_text("utt1 long 0.0 0.5\nutt2 long 0.5 -1\nutt3 short 0 0.25\n")
    samples = np.arange(16_000, dtype=np.int16)
    for name, part in (("long", samples), ("short", samples[:4000])):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as sound:
            sound.setparams((1, 2, 16_000, 0, "NONE", ""))
            sound.writeframes(part.tobytes())
    (tmp_path / "wav.scp").write_text(f"long {tmp_path}/long.wav\nshort cat {tmp_path}/short.wav |\n")
    return tmp_path


def test_fields_end_at_blanks_and_tabs_alone():
    assert fields(" a\tb\u3000c \x0bd\r\n".encode()) == ["a", "b\u3000c", "\x0bd"]


def test_a_folder_is_read(folder):
    data = DataFolder(folder)
    assert data.text() == {"utt1": ["a", "b"], "utt2": ["c\u3000d", "e"], "utt3": []}
    assert data.speakers() == {"utt1": "one", "utt2": "one", "utt3": "two"}
    assert data.utterances_of_speakers() == {"one": ["utt1", "utt2"], "two": ["utt3"]}
    assert data.recordings() == {
        "long": Source(f"{folder}/long.wav"),
        "short": Source(command=f"cat {folder}/short.wav "),
    }
    assert data.segments()["utt2"] == Segment("long", 0.5, -1.0)
    assert data.utterances() == ["utt1", "utt2", "utt3"]
    (folder / "text").unlink()
    (folder / "utt2spk").unlink()
    assert data.utterances() == ["utt1", "utt2", "utt3"]
    (folder / "segments").unlink()
    assert data.utterances() == ["long", "short"]
    assert data.channels() == {}
    (folder / "reco2file_and_channel").write_text("long call A\nshort call 2\n")
    assert data.channels() == {"long": 0, "short": 1}
    assert data.segments()["short"] == Segment("short", 0.0, -1.0)
    assert data.speakers() == {}


def test_utterances_are_cut_out_of_recordings_that_are_read_once(folder, monkeypatch):
    read = []
    load = sound_module.read_audio
    monkeypatch.setattr(sound_module, "read_audio", lambda *of: (read.append(of), load(*of))[1])
    sound = Sound(DataFolder(folder), allow_pipes=True)
    assert sound.samples("utt1").tolist() == list(range(8000))
    assert sound.samples("utt2").tolist() == list(range(8000, 16_000))
    assert sound.samples("utt3").tolist() == list(range(4000))
    assert len(read) == 2


FAULTS = [
    ("text", "utt1 a\nutt2 b\nutt1 c\n", "text:3: utterance utt1 appears twice, first on line 1; keep one"),
    ("text", "\n \t\n", "text: no utterances; expected one per line"),
    ("utt2spk", "utt1 one\nutt2 one two\n", "utt2spk:2: 2 fields after the name; expected one speaker"),
    ("spk2utt", "one utt1\none utt2\n", "spk2utt:2: speaker one appears twice"),
    ("wav.scp", "long a.wav\nlong b.wav\n", "wav.scp:2: recording long appears twice, first on line 1"),
    ("wav.scp", "\nlong\n", "wav.scp:2: long has no file"),
    ("segments", "utt1 long 0 1 0 0\n", "segments:1: 'long 0 1 0 0' after the name; expected a recording"),
    ("segments", "utt1 long 0 1 A\n", "segments:1: 'long 0 1 A' after the name; expected a recording"),
    ("reco2file_and_channel", "long x\n", "reco2file_and_channel:1: 'x' after the name; expected a file and a"),
    ("reco2file_and_channel", "short x 1\nlong x 0\n", "reco2file_and_channel:2: 'x 0' after the name"),
    ("segments", "utt1 long 0 nan\n", "segments:1: 'long 0 nan' after the name"),
    ("segments", "utt1 long 0\n", "segments:1: 'long 0' after the name"),
    ("segments", "utt1 other 0 1\n", "segments:1: no recording other in "),
]


@pytest.mark.parametrize(("name", "content", "message"), FAULTS, ids=[message[:40] for *_, message in FAULTS])
def test_faults_have_a_file_and_a_line(folder, name, content, message):
    (folder / name).write_text(content)
    data = DataFolder(folder)
    with pytest.raises(MdiError) as caught:
        (data.text(), data.speakers(), data.utterances_of_speakers(), data.segments(), data.channels())
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{folder}/{name}")


def test_files_that_are_missing_are_named(tmp_path):
    with pytest.raises(MdiError, match="text: No such file"):
        read_text(tmp_path / "text")
    with pytest.raises(MdiError, match=r"no text, utt2spk, segments or wav\.scp"):
        DataFolder(tmp_path).utterances()
