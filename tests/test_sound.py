"""Recordings: formats that people have, and bytes that are none."""

import contextlib
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
from mdi.speech import audio_file
from mdi.speech.audio_file import audio_blocks, read_audio
from mdi.speech.data import DataFolder, Segment
from mdi.speech.rxfilename import Source
from mdi.speech.sound import NoSoundError, Sound

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
        ("a.wav", "PCM_16", 0),
        ("a.flac", "PCM_16", 0),
        ("a.wav", "PCM_24", 0),
        ("a.wav", "FLOAT", 0),
        ("a.wav", "DOUBLE", 0),
        ("a.wav", "PCM_U8", 256),
        ("a.wav", "ULAW", 512),
        ("a.aiff", "PCM_16", 0),
        ("a.ogg", "VORBIS", 1500),
        ("a.au", "PCM_16", 0),
        ("a.wav", "ALAW", 512),
        ("a.nist", "PCM_16", 0),
        ("a.nist", "ULAW", 512),
        ("a.caf", "PCM_16", 0),
        ("a.rf64", "PCM_16", 0),
        ("a.wav", "PCM_32", 0),
    ],
)
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
        assert read_audio(Source(str(path))).tolist() == SAMPLES.tolist()


@pytest.mark.filterwarnings("error")
def test_damaged_files_are_refused_in_silence(tmp_path, capfd):
    """libsndfile would look for bytes before the beginning, and Python print what it thinks of that."""
    soundfile.write(tmp_path / "a.w64", SAMPLES, 16000, format="W64")
    whole = (tmp_path / "a.w64").read_bytes()
    for at in range(16, 120, 8):
        (tmp_path / "a.w64").write_bytes(whole[:at] + struct.pack("<q", -(2**62)) + whole[at + 8 :])
        with contextlib.suppress(MdiError):
            read_audio(Source(str(tmp_path / "a.w64")))
    assert capfd.readouterr() == ("", "")


def test_what_is_not_finite_is_silence_and_what_is_too_loud_is_cut(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([np.nan, np.inf, -np.inf, 2.0, -2.0, 0.5]), 16000, subtype="FLOAT")
    assert read_audio(Source(str(tmp_path / "a.wav"))).tolist() == [0, 32767, -32768, 32767, -32768, 16384]


def test_hours_of_silence_in_a_few_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(audio_file, "LONGEST", 3600)
    soundfile.write(tmp_path / "a.flac", np.zeros(70 * 60 * 16000, np.int16), 16000)
    assert (tmp_path / "a.flac").stat().st_size < 1 << 20
    with pytest.raises(MdiError, match="is longer than 1 hours"):
        read_audio(Source(str(tmp_path / "a.flac")))


def tones(rate: int, seconds: float = 1.0) -> np.ndarray:
    """440 and 1500 Hz, which every rate here can hold."""
    t = np.arange(int(rate * seconds)) / rate
    return 0.3 * np.sin(2 * np.pi * 440 * t) + 0.2 * np.sin(2 * np.pi * 1500 * t)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000])
def test_other_rates_become_16_khz(rate, tmp_path):
    """The same tones, whatever they were sampled at; whole blocks and what is left of one."""
    soundfile.write(tmp_path / "a.flac", tones(rate, 5.03), rate)
    found = read_audio(Source(str(tmp_path / "a.flac")))
    expected = 32768 * tones(16000, 5.03)
    assert abs(len(found) - len(expected)) <= 1
    middle = slice(800, 79_000)  # at the ends a filter rings
    assert np.abs(found[middle] - expected[middle]).max() < 40  # of 16,384


def test_mp3(tmp_path):
    """As people have it: 44.1 kHz. The encoder adds some silence at the beginning."""
    soundfile.write(tmp_path / "a.mp3", tones(44100, 2.0), 44100)
    found = read_audio(Source(str(tmp_path / "a.mp3"))).astype(float)
    assert 2.0 <= len(found) / 16000 < 2.2
    spectrum = np.abs(np.fft.rfft(found[8000:24000]))
    assert set(np.argsort(spectrum)[-2:]) == {440, 1500}
    assert spectrum[440] == pytest.approx(0.15 * 32768 * 16000, rel=0.05)


def stereo(tmp_path: Path, name: str = "a.wav") -> np.ndarray:
    both = np.stack([SAMPLES, SAMPLES[::-1] // 2], 1)
    soundfile.write(tmp_path / name, both, 16000)
    return both


def test_channels_are_chosen_and_never_mixed(tmp_path):
    both = stereo(tmp_path)
    soundfile.write(tmp_path / "b.wav", SAMPLES, 16000)
    (tmp_path / "wav.scp").write_text(f"r1 {tmp_path}/a.wav\nr2 {tmp_path}/a.wav\nr3 {tmp_path}/b.wav\n")

    def heard(utterance: str, channel: int | None = None) -> list[int]:
        return Sound(DataFolder(tmp_path), channel=channel).samples(utterance).tolist()

    with pytest.raises(MdiError, match=r"utterance r1 .* 2 channels; .*--channel N.*reco2file_and_channel"):
        heard("r1")
    assert [heard("r1", 1), heard("r1", 2)] == both.T.tolist()
    assert heard("r3", 2) == SAMPLES.tolist()  # there is one
    with pytest.raises(MdiError, match="2 channels; expected a channel 3"):
        heard("r1", 3)
    (tmp_path / "reco2file_and_channel").write_text("r1 a A\nr2 a B\nr3 b B\n")
    assert [heard("r1", 2), heard("r2", 1), heard("r3")] == [*both.T.tolist(), SAMPLES.tolist()]
    # the fifth field of segments, which Kaldi counts from 0
    (tmp_path / "segments").write_text("u1 r1 0 0.1 1\nu2 r1 0 0.1 0\nu3 r2 0 0.1\nu4 r1 0 0.1 1\n")
    assert [heard(f"u{i}") for i in (1, 2, 3, 4)] == [both[:1600, c].tolist() for c in (1, 0, 1, 1)]


def test_a_few_bytes_do_not_become_gigabytes(tmp_path):
    """Rates and channels that nobody has are refused by the head, before anything is unpacked; of others only a block
    is in memory."""
    path = tmp_path / "bomb.flac"
    for rate, channels, channel, message in ((655350, 8, 0, "655350 Hz"), (96000, 8, None, "8 channels")):
        with soundfile.SoundFile(path, "w", rate, channels, format="FLAC") as out:
            for _ in range(8):
                out.write(np.zeros((1 << 20, channels), np.int16))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(MdiError, match=message):
            read_audio(Source(str(path)), channel=channel)
        assert sum(map(len, audio_blocks(Source(str(path)), channel=7))) > 10**6 if channel is None else True
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB; unpacked it has 134 MB


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        (
            "it's.m4a",
            b"\0\0\0 ftypM4A " + bytes(100),
            """ffmpeg -i '{}/it'"'"'s.m4a' -ar 16000 'it'"'"'s.converted.wav'""",
        ),
        (
            "a.sph",
            b"NIST_1A\n   1024\nsample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n".ljust(2048),
            "sph2pipe -f wav {}/a.sph a.converted.wav",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_the_command_that_converts_it(name, content, command, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MdiError, match="no sound that can be read") as caught:
        read_audio(Source(str(tmp_path / name)))
    assert str(caught.value).endswith(command.format(tmp_path))
    with pytest.raises(MdiError) as caught:
        read_audio(Source(command=f"cat '{tmp_path}/{name.replace(chr(39), '?')}' "), True)
    assert "convert" not in str(caught.value)


@pytest.mark.parametrize(("subtype", "rate", "channels"), [("FLOAT", 8000, 1), ("ULAW", 8000, 2), ("PCM_24", 16000, 1)])
def test_any_wav_in_an_archive(subtype, rate, channels, tmp_path):
    """As it is in a file of its own, whatever follows it."""
    path, archive = tmp_path / "a.wav", tmp_path / "a.ark"
    soundfile.write(path, np.stack([SAMPLES] * channels, 1), rate, subtype=subtype)
    alone = path.read_bytes()
    archive.write_bytes(b"u1 " + alone + b"u2 " + alone + b"u3 RIFF")
    expected = read_audio(Source(str(path)), channel=0).tolist()
    for offset in (3, 6 + len(alone)):
        assert read_audio(Source(str(archive), offset), channel=0).tolist() == expected


def test_errors_show_no_bytes_of_a_file(tmp_path):
    (tmp_path / "secret").write_text("-----BEGIN PRIVATE KEY-----")
    for offset in (None, 5):
        with pytest.raises(MdiError) as caught:
            read_audio(Source(str(tmp_path / "secret"), offset))
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


@pytest.mark.parametrize(
    ("segment", "length"),
    [
        ("0 1", 16000),
        ("0.25 -1", 12000),
        ("0 1.49", 16000),
        ("0.9 1.2", 1600),
        ("0.5 0.5001", 1),
        ("0 1.5", "ends 0.5 s or more"),
        ("0 99", "ends 0.5 s or more"),
        ("1 1.2", "after the end"),
        ("1.2 -1", "after"),
        ("0.5 0.5", "empty"),
        ("0.5 0.25", "empty"),
        ("-1 0.5", "empty"),
        ("0 0", "empty"),
        ("0.5 -2", "empty"),
    ],
)
def test_segments_are_cut_as_kaldi_does_it(segment, length, tmp_path):
    """extract-segments: `end_samp >= num_samp + max_overshoot * samp_freq` is passed over, what is less is cut."""
    found = Sound(sound(tmp_path, f"u r {segment}\n"))
    if isinstance(length, int):
        assert len(found.samples("u")) == length
    else:
        with pytest.raises(NoSoundError, match=length):
            found.samples("u")


def test_how_far_a_segment_may_go_is_an_option(tmp_path):
    folder = sound(tmp_path, "u r 0 1.3\n")
    assert len(Sound(folder, max_overshoot=0.31).samples("u")) == 16000
    assert Sound(folder).overshoot("u", 1.0) == 0.3
    with pytest.raises(NoSoundError, match=r"ends 0\.3 s or more"):
        Sound(folder, max_overshoot=0.3).samples("u")
    with pytest.raises(MdiError, match="no recording x"):
        Sound(sound(tmp_path, "u x 0 1\n"))
    assert sound(tmp_path, "u r 0 -1\n").segments() == {"u": Segment("r", 0.0, -1.0)}


def test_another_sound_has_another_identity(tmp_path):
    folder = sound(tmp_path, "u r 0 1\n")
    before = Sound(folder).identity("u")
    assert Sound(folder).identity("u") == before
    assert Sound(folder, channel=2).identity("u") != before
    assert Sound(sound(tmp_path, "u r 0 0.5\n")).identity("u") != before
    os.utime(tmp_path / "voice.wav", (1, 1))
    assert Sound(sound(tmp_path, "u r 0 1\n")).identity("u") != before
    with pytest.raises(MdiError, match="no utterance v"):
        Sound(folder).identity("v")


def test_commands_of_wav_scp_are_refused_if_so_wished(tmp_path):
    folder = sound(tmp_path, scp="r touch ran; cat voice.wav |\n")
    with pytest.raises(MdiError, match="recording r is a command"):
        folder.check_no_pipes()
    sound(tmp_path).check_no_pipes()
