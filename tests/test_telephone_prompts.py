"""Recorded speech out of two little packages of Debian, made here as the real ones are."""

import gzip
import hashlib
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import recorded_speech as recorded
import telephone_prompts as prompts

from mdi.errors import MdiError
from mdi.speech.data import DataFolder
from mdi.spoken.speller import Speller

TEXTS = """; Core Asterisk Sounds in English

agent-loggedoff: Agent Logged off.
agent-pass: Please enter your password [pause] followed by the # key.
beep: [this is a simple beep tone]
digits/1: 1
vm-goodbye: Goodbye.
vm-login: Comedian Mail. Mailbox?
vm-silent: There is no sound of this.
"""


def g722(seconds: float) -> bytes:
    codec = pytest.importorskip("G722", reason="the package G722 is not installed; pip install 'mdi-lm[prompts]'")
    tone = 8000 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * 16000)) / 16000)
    return codec.G722(16000, 64000).encode(tone.astype(np.int16))


RUSSIAN = """; Core Asterisk Sounds in Russian

agent-pass: Введите пароль и нажмите решетку.
confbridge-leave-in: Что бы выйти ещё раз, нажмите 2...
vm-goodbye: «ПИН-код» — всё.
vm-login: Астериск кольцевое.
"""


def make_packages(tmp_path: Path, release: prompts.Release, texts: str) -> Path:
    """A folder with both."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb to make packages with")
    out = tmp_path / "packages"
    out.mkdir()
    names = [line.split(":")[0] for line in texts.splitlines() if ":" in line and "silent" not in line]
    for package, inside in release.packages.items():
        root = tmp_path / package
        (root / "DEBIAN").mkdir(parents=True)
        control = f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
        (root / "DEBIAN" / "control").write_text(control)
        if inside.endswith(".gz"):
            (root / inside).parent.mkdir(parents=True)
            (root / inside).write_bytes(gzip.compress(texts.encode()))
        else:
            (root / inside / "digits").mkdir(parents=True)
            for name in names:
                (root / inside / f"{name}.g722").write_bytes(g722(0.5))
        done = subprocess.run(["dpkg-deb", "-b", str(root), str(out / f"{package}_1_all.deb")], capture_output=True)
        assert done.returncode == 0, done.stderr
    return out


def known_release(monkeypatch: pytest.MonkeyPatch, language: str, texts: str) -> None:
    """These texts are the ones that the repository knows."""
    release = replace(prompts.RELEASES[language], sha256=hashlib.sha256(texts.encode()).hexdigest())
    monkeypatch.setitem(prompts.RELEASES, language, release)


def test_from_the_packages_to_the_folder(tmp_path, monkeypatch):
    packages, down = make_packages(tmp_path, prompts.RELEASES["en"], TEXTS), tmp_path / "down"
    with pytest.raises(MdiError, match="another SHA-256 than expected"):
        prompts.recordings(str(packages), down)
    known_release(monkeypatch, "en", TEXTS)
    found = prompts.recordings(str(packages), down)
    assert {u.name: u.scene for u in found.utterances} == {
        "agent-loggedoff": "agent",
        "agent-pass": "agent",
        "beep": "beep",
        "digits-1": "digits",
        "vm-goodbye": "vm",
        "vm-login": "vm",
    }
    words = "<eps> agent logged off please enter your password followed by the key one goodbye mail mailbox"
    (tmp_path / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(words.split())))
    recorded.write_sets(tmp_path / "data", found, str(tmp_path / "words.txt"))
    folders = [DataFolder(tmp_path / "data" / "speech" / name) for name in ("dev", "eval")]
    said = {name: text for folder in folders for name, text in folder.text().items()}
    # neither the tone nor, with one known word of three, the mailbox
    assert said.keys() == {f"allison-{name}" for name in ("agent-loggedoff", "agent-pass", "digits-1", "vm-goodbye")}
    assert said["allison-agent-pass"] == ["please", "enter", "your", "password", "followed", "by", "the", "key"]
    assert said["allison-digits-1"] == ["one"]
    samples, rate = found.utterances[0].samples()
    assert (rate, len(samples)) == (16000, 8000)
    assert 0.2 < np.abs(samples).max() < 0.3
    assert prompts.recordings(None, down).utterances[0].name == "agent-loggedoff"  # once is enough


def test_russian_words_are_those_of_the_recogniser(tmp_path, monkeypatch):
    """Another script, the letter ё where the texts lack it, hyphens where it has none, two words that are one."""
    packages = make_packages(tmp_path, prompts.RELEASES["ru"], RUSSIAN)
    known_release(monkeypatch, "ru", RUSSIAN)
    found = prompts.recordings(str(packages), tmp_path / "down", "ru")
    words = "<eps> введите пароль и нажмите решётку чтобы выйти ещё раз два пин код всё все"
    (tmp_path / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(words.split())), "utf-8")
    recorded.write_sets(tmp_path / "data", found, str(tmp_path / "words.txt"), train_spoken=9)
    folders = [DataFolder(tmp_path / "data" / "speech" / name) for name in recorded.SETS]
    said = {name: " ".join(text) for folder in folders for name, text in folder.text().items()}
    assert said == {
        "ivrvoiceru-agent-pass": "введите пароль и нажмите решётку",
        "ivrvoiceru-confbridge-leave-in": "чтобы выйти ещё раз нажмите два",
        "ivrvoiceru-vm-goodbye": "пин код всё",
    }
    assert (tmp_path / "down" / "telephone-prompts-ru").is_dir()  # beside those of other languages


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("Composez votre numéro d’agent.", ["d'agent"], "composez votre numéro d'agent"),  # a typographic apostrophe
        ("E\u0301CHEC à l'ouverture", ["échec", "l'ouverture"], "échec à l'ouverture"),  # an accent of its own
        ("Rendez-vous : appelez-moi", ["rendez-vous", "appelez", "moi"], "rendez-vous appelez moi"),
        ("Appuyez sur 1 ou 71.", ["un", "soixante", "et", "onze"], "appuyez sur un ou soixante et onze"),
        ("(beep) <bip> œuvre", ["œuvre"], "œuvre"),
    ],
)
def test_french_words(text, known, expected):
    assert " ".join(recorded.spoken_words(text, Speller(known, "fr"))) == expected


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(MdiError, match="no such directory; expected one with Debian's packages"):
        prompts.find_prompts(str(tmp_path / "gone"), tmp_path / "down", prompts.RELEASES["fr"])
    with pytest.raises(MdiError, match=r"no asterisk-core-sounds-fr_\*\.deb; give a directory"):
        prompts.find_prompts(str(tmp_path), tmp_path / "down", prompts.RELEASES["fr"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MdiError, match=r"no program apt-get.*--prompts DIR"):
        prompts.find_prompts(None, tmp_path / "down", prompts.RELEASES["fr"])
