"""Recordings: formats that people have, and bytes that are none."""

from __future__ import annotations

import os
import pickle
import resource
import struct
from pathlib import Path

import kaldiio
import numpy as np
import pytest
import soundfile

from mdi.errors import MdiError
from mdi.speech import sound as sound_module
from mdi.speech.data import DataFolder, Segment
from mdi.speech.rxfilename import Source
from mdi.speech.sound import Sound, read_sound

SAMPLES = (8000 * np.sin(np.arange(4000) / 5)).astype(np.int16)


class Evil:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["a.wav", "a.wav:0", "a.ark:3"])
@pytest.mark.parametrize("head", [b"PKL", b"u1 PKL", b"NPY", b"AUDIO", b"RIFFPKL", b"\0BPKL"])
def test_bytes_that_a_pickle_begins_are_no_sound(head, name, tmp_path):
    ran = tmp_path / "ran"
    (tmp_path / name.split(":")[0]).write_bytes(head + pickle.dumps(Evil(ran)))
    (tmp_path / "wav.scp").write_text(f"u1 {tmp_path}/{name}\n")
    with pytest.raises(MdiError, match="utterance u1 cannot be read"):
        Sound(DataFolder(tmp_path)).samples("u1")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("name", "subtype", "error"),
    [
        ("a.wav", "PCM_16", 0), ("a.flac", "PCM_16", 0), ("a.wav", "PCM_24", 0), ("a.wav", "FLOAT", 0),
        ("a.wav", "DOUBLE", 0), ("a.wav", "PCM_U8", 256), ("a.wav", "ULAW", 512), ("a.aiff", "PCM_16", 0),
        ("a.ogg", "VORBIS", 1500), ("a.au", "PCM_16", 0),
    ],
)  # fmt: skip
def test_formats_that_people_have(name, subtype, error, tmp_path):
    path = str(tmp_path / name)
    soundfile.write(path, SAMPLES / 32768, 16000, subtype=subtype)
    (tmp_path / "wav.scp").write_text(f"u1 {path}\nu2 cat {path} |\n")
    sound = Sound(DataFolder(tmp_path), allow_pipes=True)
    for utterance in ("u1", "u2"):
        found = sound.samples(utterance)
        assert found.dtype == np.int16
        assert found.shape == SAMPLES.shape
        assert np.abs(found.astype(int) - SAMPLES).max() <= error


def test_a_recording_in_an_archive(tmp_path):
    ark, scp = tmp_path / "wav.ark", tmp_path / "wav.scp"
    parts = {"u1": SAMPLES[:1000], "u2": SAMPLES[1000:]}
    with kaldiio.WriteHelper(f"ark,scp:{ark},{scp}") as write:
        for name, part in parts.items():
            write[name] = 16000, part
    sound = Sound(DataFolder(tmp_path))
    for name, part in parts.items():
        assert sound.samples(name).tolist() == part.tolist()
    scp.write_text(f"u1 {ark}:7\nu2 {ark}:{10**18}\nu3 {ark}:{10**30}\n")
    for name in ("u1", "u2", "u3"):
        with pytest.raises(MdiError, match=f"utterance {name} cannot be read"):
            Sound(DataFolder(tmp_path)).samples(name)


def test_a_header_may_promise_anything(tmp_path):
    """Programs that write into a pipe do not know the length."""
    path = tmp_path / "a.wav"
    soundfile.write(path, SAMPLES, 16000)
    whole = bytearray(path.read_bytes())
    for length in (0x7FFFF000, 0xFFFFFFFF):
        whole[40:44] = struct.pack("<I", length)
        path.write_bytes(whole)
        assert read_sound(Source(str(path))).tolist() == SAMPLES.tolist()


def test_what_is_not_finite_is_silence_and_what_is_too_loud_is_cut(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([np.nan, np.inf, -np.inf, 2.0, -2.0, 0.5]), 16000, subtype="FLOAT")
    assert read_sound(Source(str(tmp_path / "a.wav"))).tolist() == [0, 32767, -32768, 32767, -32768, 16384]


def test_hours_of_silence_in_a_few_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(sound_module, "LONGEST", 3600)
    soundfile.write(tmp_path / "a.flac", np.zeros(70 * 60 * 16000, np.int16), 16000)
    assert (tmp_path / "a.flac").stat().st_size < 1 << 20
    with pytest.raises(MdiError, match="is longer than 1 hours"):
        read_sound(Source(str(tmp_path / "a.flac")))


def test_other_rates_and_channels_are_named(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.stack([SAMPLES, SAMPLES], 1), 8000)
    (tmp_path / "wav.scp").write_text(f"u1 {tmp_path}/a.wav\n")
    with pytest.raises(MdiError, match=r"utterance u1 .*: 8000 Hz, 2 channels; expected 16000 Hz, one channel"):
        Sound(DataFolder(tmp_path)).samples("u1")


def test_a_few_bytes_do_not_become_gigabytes(tmp_path):
    """Silence at another rate in many channels: refused by its head, before it is unpacked."""
    path = tmp_path / "bomb.flac"
    with soundfile.SoundFile(path, "w", 655350, 8, format="FLAC") as out:
        for _ in range(8):
            out.write(np.zeros((1 << 20, 8), np.int16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MdiError, match="655350 Hz, 8 channels"):
        read_sound(Source(str(path)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB; unpacked it has 134 MB


def test_errors_show_no_bytes_of_a_file(tmp_path):
    (tmp_path / "secret").write_text("-----BEGIN PRIVATE KEY-----")
    for offset in (None, 5):
        with pytest.raises(MdiError) as caught:
            read_sound(Source(str(tmp_path / "secret"), offset))
        assert "PRIVATE" not in str(caught.value)


def sound(tmp_path, segments="", scp="r voice.wav\n"):
    import wave

    with wave.open(str(tmp_path / "voice.wav"), "wb") as stream:
        stream.setparams((1, 2, 16000, 0, "NONE", ""))
        stream.writeframes(bytes(32000))
    (tmp_path / "wav.scp").write_text(scp.replace("voice", str(tmp_path / "voice")))
    if segments:
        (tmp_path / "segments").write_text(segments)
    return DataFolder(tmp_path)


def test_a_segment_lies_within_its_recording(tmp_path):
    assert len(Sound(sound(tmp_path, "u r 0 1.3\n")).samples("u")) == 16000  # Kaldi, too, lets it be a little longer
    for line in ("u r 0 99999\n", "u r 1.2 1.3\n"):
        with pytest.raises(MdiError, match=r"which has 1\.00 s"):
            Sound(sound(tmp_path, line)).samples("u")
    with pytest.raises(MdiError, match="no recording x"):
        Sound(sound(tmp_path, "u x 0 1\n"))
    assert sound(tmp_path, "u r 0 -1\n").segments() == {"u": Segment("r", 0.0, -1.0)}


def test_commands_of_wav_scp_are_refused_if_so_wished(tmp_path):
    folder = sound(tmp_path, scp="r touch ran; cat voice.wav |\n")
    with pytest.raises(MdiError, match="recording r is a command"):
        folder.check_no_pipes()
    sound(tmp_path).check_no_pipes()
