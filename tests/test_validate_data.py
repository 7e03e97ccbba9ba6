"""utils/validate_data.py: a good folder passes, and each fault is named."""

import gzip
import shutil

import pytest
import validate_data
from lattice_data import LAT


def text(path, *lines):
    with gzip.open(path, "wt") as stream:
        stream.write("".join(f"{line}\n" for line in lines))


@pytest.fixture
def folder(tmp_path):
    text(tmp_path / "train.txt.gz", "a b", "b c a")
    text(tmp_path / "background.txt.gz", "a b c", "other words")
    text(tmp_path / "dev.txt.gz", "a c")
    (tmp_path / "vocab.txt").write_text("a\nb\nc\n")
    (tmp_path / "sets").write_text("dev\n")
    speech = tmp_path / "speech" / "dev"
    speech.mkdir(parents=True)
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nb 2\nc 3\n#0 4\n")
    (tmp_path / "vosk-model").mkdir()
    (speech / "text").write_text("utt1 a c\nutt2 b\n")
    (speech / "utt2spk").write_text("utt1 s\nutt2 s\n")
    for n in (1, 2):
        (speech / f"{n}.wav").touch()
    (speech / "wav.scp").write_text(f"utt1 {speech}/1.wav\nutt2 sox {speech}/2.wav -t wav - |\n")
    return tmp_path


def test_a_good_folder(folder, capsys):
    assert validate_data.main([str(folder)]) == 0
    assert "is in order" in capsys.readouterr().err


def append(path, line):
    path.write_text(f"{path.read_text()}{line}\n")


def unsorted(folder):
    (folder / "speech/dev/text").write_text("utt2 b\nutt1 a c\n")


def others(folder):
    """Lattices of other utterances."""
    (folder / "lattices/dev").mkdir(parents=True)
    shutil.copy(LAT / "lats.txt.gz", folder / "lattices/dev/lat.1.gz")
    (folder / "lattices/dev/num_jobs").write_text("1\n")


FAULTS = [
    (lambda f: (f / "sets").unlink(), "sets: missing"),
    (lambda f: (f / "sets").write_text("dev eval\n"), "eval.txt.gz: missing; expected the text of 'eval'"),
    (lambda f: text(f / "dev.txt.gz"), "dev.txt.gz: no words in it"),
    (lambda f: text(f / "dev.txt.gz", "A C B"), "3 of 3 words are not in vocab.txt, such as 'A', 'C', 'B'"),
    (lambda f: text(f / "train.txt.gz", "a b", "<s> a </s>"), "train.txt.gz:2: has <s> or </s>"),
    (lambda f: text(f / "background.txt.gz", "\\data\\", "ngram 1=3"), "is an ARPA model; expected text"),
    (lambda f: text(f / "background.arpa.gz", "\\data\\"), "both of background.txt.gz and background.arpa.gz"),
    (lambda f: (f / "background.txt.gz").unlink(), "neither of background.txt.gz and background.arpa.gz"),
    (lambda f: (f / "vocab.txt").write_text("a 1\nb 2\n"), "vocab.txt:1: 'a 1'; expected one word per line"),
    (lambda f: (f / "train.txt.gz").write_bytes(b"\x1f\x8b\x08broken"), "broken gzip stream"),
    (
        lambda f: (f / "dev.txt.gz").write_bytes(gzip.compress("a caf\u00e9\n".encode("latin-1"))),
        "dev.txt.gz:1: not UTF-8",
    ),
    (lambda f: append(f / "speech/dev/text", "utt2 c"), "text:3: utterance utt2 appears twice, first on line 2"),
    (lambda f: append(f / "speech/dev/wav.scp", "utt1 x.wav"), "wav.scp:3: recording utt1 appears twice"),
    (lambda f: (f / "speech/dev/segments").write_text("utt1 utt1 0 1\n"), "segments: 1 utterances are not there"),
    (lambda f: (f / "speech/dev/spk2utt").write_text("s utt1\n"), "spk2utt and utt2spk differ for 'utt2'"),
    (unsorted, "not sorted; run: LC_ALL=C sort"),
    (lambda f: (f / "speech/dev/utt2spk").write_text("utt1 s\n"), "1 utterances of text are not in utt2spk: 'utt2'"),
    (lambda f: (f / "speech/dev/wav.scp").unlink(), "wav.scp: missing"),
    (lambda f: (f / "speech/dev/1.wav").unlink(), "1 of 1 sound files are not there"),
    (lambda f: (f / "vosk-model").rmdir(), "vosk-model: missing"),
    (lambda f: (f / "words.txt").unlink(), "words.txt: missing"),
    (lambda f: (f / "speech/dev").rename(f / "speech/test"), "no test set of that name"),
    (lambda f: (f / "lattices/dev").mkdir(parents=True), "no num_jobs or no lat.N.gz"),
    (others, "which {0}/speech/dev/text has not; expected those of the same test set"),
]


@pytest.mark.parametrize(("break_it", "message"), FAULTS, ids=[message[:30] for _, message in FAULTS])
def test_faults_are_named(folder, capsys, break_it, message):
    break_it(folder)
    assert validate_data.main([str(folder)]) == 1
    assert message.format(folder) in capsys.readouterr().err
