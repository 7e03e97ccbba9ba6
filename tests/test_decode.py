"""Decodings: each utterance alone, whatever else is decoded; dirty data, mended data, long recordings. In place of
libvosk there is something that remembers all that it has heard; what needs a real model is in test_vosk.py."""

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from mdi.cli import main
from mdi.errors import MdiError
from mdi.process import in_copies
from mdi.progress import Progress
from mdi.speech.data import read_text
from mdi.speech.vosk import decode

KILLS = 12345  # a sample after which the recogniser breaks


class Remembers:
    """A recogniser that says how many answers it has given before, counts time from its first sound as libvosk does,
    and hears a pause where a step is silent."""

    def __init__(self, model: object, rate: int) -> None:
        self.answers, self.total, self.begin, self.spoke = 0, 0, 0, False

    def SetWords(self, on: bool) -> None:
        pass

    def SetMaxAlternatives(self, n: int) -> None:
        pass

    def AcceptWaveform(self, data: bytes) -> bool:
        samples = np.frombuffer(data, "<i2")
        if KILLS in samples:
            os.kill(os.getpid(), signal.SIGKILL)
        self.total += len(samples)
        self.spoke |= bool(samples.any())
        return self.spoke and not samples.any()

    def Result(self) -> str:
        self.answers += 1
        word = {"word": f"answer{self.answers}", "start": self.begin / 16000, "end": self.total / 16000, "conf": 0.5}
        found = {"text": word["word"], "result": [word]} if self.spoke else {"text": ""}
        self.begin, self.spoke = self.total, False
        return json.dumps(found)

    FinalResult = Result


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that looks like a Vosk model, and a libvosk that asks no more."""
    fake = SimpleNamespace(Model=lambda path: None, KaldiRecognizer=Remembers, SetLogLevel=lambda level: None)
    monkeypatch.setitem(sys.modules, "vosk", fake)
    monkeypatch.setattr(decode, "call_apart", lambda function, what, **given: decode.decode(**given))
    for name in ("am/final.mdl", "graph/HCLG.fst", "conf/mfcc.conf"):
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text("")
    return str(tmp_path / "model")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Five recordings of 0.1 to 0.5 seconds."""
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(1, 6):
        soundfile.write(folder / f"r{i}.wav", np.full(1600 * i, 100, np.int16), 16000)
    (folder / "wav.scp").write_text("".join(f"r{i} {folder}/r{i}.wav\n" for i in range(1, 6)))
    return folder


def ctm(out: Path) -> list[list[str]]:
    return [line.split() for line in (out / "ctm").read_text().splitlines()]


@pytest.mark.parametrize("nj", [1, 3, 8])
def test_no_utterance_knows_of_another(nj, model, data, tmp_path):
    """Each is the second answer of its recogniser, after the silence, and begins at 0, in whatever order they come."""
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)
    for order in (lines, lines[::-1]):
        (data / "wav.scp").write_text("".join(order))
        out = tmp_path / f"out{order[0][:2]}"
        assert main(["vosk", "decode", "--nj", str(nj), model, str(data), str(out)]) == 0
        assert [row[0] for row in ctm(out)] == [line[:2] for line in order]
        expected = [[f"r{i}", "1", "0.00", f"{i / 10:.2f}", "answer2", "0.5000"] for i in range(1, 6)]
        assert sorted(ctm(out)) == expected


def test_dirty_segments_are_counted_and_have_no_words(model, data, tmp_path, capsys):
    (data / "segments").write_text(
        "u1 r5 0 0.5\nu2 r5 0.1 0.7\nu3 r5 0.1 9\nu4 r5 0.3 0.2\nu5 r5 0.6 0.7\nu6 r5 0.1 0.1\nu7 r4 0 0.45\n"
    )
    out = tmp_path / "out"
    command = ["vosk", "decode", model, str(data)]
    for _ in range(2):  # the second time nothing is left to be decoded, and as much is said
        assert main([*command, str(out)]) == 0
        said = capsys.readouterr().err
        assert f"{data}/segments: 2 utterances end after their recording, and were cut: 'u2', 'u7'\n" in said
        assert "1 utterances have a segment that ends 0.5 s or more after its recording, and no words: 'u3'\n" in said
        assert "2 utterances have an empty segment, and no words: 'u4', 'u6'\n" in said
        assert "1 utterances have a segment after the end of its recording, and no words: 'u5'\n" in said
        words = {u: ["answer2"] if u in ("u1", "u2", "u7") else [] for u in (f"u{i}" for i in range(1, 8))}
        assert read_text(out / "text") == words
    durations = {row[0]: row[3] for row in ctm(out)}
    assert durations == {"u1": "0.50", "u2": "0.40", "u7": "0.40"}
    # what may be is an option, and what is known is decoded again only where that matters
    for overshoot, cut, heard in (("0.05", 0, 1), ("0.1", 1, 2), ("100", 3, 4)):
        assert main([*command, "--max-overshoot", overshoot, str(out)]) == 0
        said = capsys.readouterr().err
        assert (f" {cut} utterances end after" in said) == (cut > 0)
        assert sum(map(bool, read_text(out / "text").values())) == heard


def test_an_utterance_without_samples_has_no_words(model, data, tmp_path):
    soundfile.write(data / "r2.wav", np.zeros(0, np.int16), 16000)
    soundfile.write(data / "r3.wav", np.full(1, 100, np.int16), 16000)
    assert main(["vosk", "decode", model, str(data), str(tmp_path / "out")]) == 0
    words = read_text(tmp_path / "out" / "text")
    assert (words["r1"], words["r2"], words["r3"]) == (["answer2"], [], ["answer2"])


def test_it_goes_on_when_the_data_are_mended(model, data, tmp_path, capsys):
    """With what was decoded, unless that was something else."""
    out, results = tmp_path / "out", tmp_path / "out" / "results.1.jsonl"
    command = ["vosk", "decode", model, str(data), str(out)]
    table = (data / "wav.scp").read_text()
    (data / "wav.scp").write_text(table.replace("r1.wav", "gone.wav"))
    assert main(command) == 1  # nothing was decoded
    assert "utterance r1 cannot be read" in capsys.readouterr().err
    (data / "r4.wav").write_text("no sound")
    (data / "wav.scp").write_text(table)
    assert main(command) == 1
    assert f"utterance r4 cannot be read: {data}/r4.wav: no sound" in capsys.readouterr().err
    known = results.read_bytes()
    assert known.count(b"\n") == 3
    # a recording is mended, another one is taken away, and there is a new one
    soundfile.write(data / "r4.wav", np.full(8000, 100, np.int16), 16000)
    soundfile.write(data / "r6.wav", np.full(9600, 100, np.int16), 16000)
    (data / "wav.scp").write_text(table.replace(f"r2 {data}/r2.wav\n", "") + f"r6 {data}/r6.wav\n")
    assert main(command) == 0
    assert list(read_text(out / "text")) == ["r1", "r3", "r4", "r5", "r6"]
    now = results.read_bytes()
    assert now.startswith(known)
    assert now.count(b"\n") == 6
    # the same name, but another sound
    soundfile.write(data / "r3.wav", np.full(16000, 100, np.int16), 16000)
    assert main(command) == 0
    assert results.read_bytes().count(b"\n") == 7
    assert [row[3] for row in ctm(out)] == ["0.10", "1.00", "0.50", "0.50", "0.60"]
    assert main(["vosk", "decode", "--dither", "true", model, str(data), str(out)]) == 1
    assert "holds a decoding with another model, --n-best, --lattice-beam, --dither" in capsys.readouterr().err
    # unless it is to begin anew: then nothing of the other one is left
    (out / "wer_7").write_text("of the other one")
    assert main(["vosk", "decode", "--restart", "true", "--dither", "true", model, str(data), str(out)]) == 0
    assert results.read_bytes().count(b"\n") == 5
    assert not (out / "wer_7").exists()
    anew = results.stat().st_mtime_ns
    assert main(["vosk", "decode", "--restart", "true", "--dither", "true", model, str(data), str(out)]) == 0
    assert results.stat().st_mtime_ns == anew  # with the same settings it goes on


def test_a_long_recording_is_cut_at_pauses(model, data, tmp_path, capsys, monkeypatch):
    """Four stretches of speech of 1 to 4 seconds, each followed by a second without: text is one line, times are those
    of the recording, and what is left is told."""
    monkeypatch.setattr(decode, "LONG", 2)
    monkeypatch.setattr(Progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(Progress, "LOG_SECONDS", 0.0)
    sound = np.concatenate([np.repeat(np.array([100, 0], np.int16), [16000 * i, 16000]) for i in (1, 2, 3, 4)])
    soundfile.write(data / "long.flac", sound, 16000)
    (data / "wav.scp").write_text(f"long {data}/long.flac\nr5 {data}/r5.wav\n")
    out = tmp_path / "out"
    assert main(["vosk", "decode", model, str(data), str(out)]) == 0
    words = read_text(out / "text")
    assert words == {"long": ["answer2", "answer3", "answer4", "answer5"], "r5": ["answer2"]}
    ends = [float(row[2]) + float(row[3]) for row in ctm(out) if row[0] == "long"]
    assert ends == pytest.approx([1.2, 4.2, 8.2, 13.2], abs=0.011)  # at the first look after speech has ended
    said = capsys.readouterr().err
    assert "recognising: 24% of 2 utterances" in said
    assert " s left" in said
    # a segment may be long, too; it is cut in the same places
    (data / "segments").write_text("u1 long 0 -1\nu2 long 0 14\n")
    assert main(["vosk", "decode", model, str(data), str(out)]) == 0
    assert [row[2:5] for row in ctm(out) if row[0] == "u1"] == [row[2:5] for row in ctm(out) if row[0] == "u2"]


def test_what_breaks_names_the_utterance_and_spoils_nothing(model, data, tmp_path, capsys):
    soundfile.write(data / "r3.wav", np.full(1600, KILLS, np.int16), 16000)
    out = tmp_path / "out"
    assert main(["vosk", "decode", model, str(data), str(out)]) == 1
    assert "utterance r3: the process was ended by SIGKILL" in capsys.readouterr().err
    assert (out / "results.1.jsonl").read_bytes().count(b"\n") == 2
    soundfile.write(data / "r3.wav", np.full(1600, 1, np.int16), 16000)
    assert main(["vosk", "decode", model, str(data), str(out)]) == 0


def test_copies_do_not_outlive_an_error():
    """What one raises comes here; the others are ended, by their numbers."""
    began: list[int] = []

    def work(task: int):
        yield os.getpid()
        if task == 2:
            raise MdiError("two")
        signal.pause()

    with pytest.raises(MdiError, match="two"):
        began.extend(pid for _, pid in in_copies(work, [(str(i), i) for i in range(5)], 3))
    for pid in began:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
