"""Kaldi's lang directories with more words: tests/data/lang.tar.gz has what its own prepare_lang.sh and extend_lang.sh
make of one lexicon with positions of phones, without them (_np), and without silence (_ns). Only fstaddselfloops, which
is a program of Kaldi's, was replaced by a few lines of pywrapfst that do what it does."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from mdi.cli import main
from mdi.errors import MdiError
from mdi.speech.given import given_lines, read_given
from mdi.speech.lang import CERTIFICATE, extend_lang, read_lang
from mdi.speech.lexicon import read_lexicon

fst = pytest.importorskip("pywrapfst")


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).parent / "data" / "lang.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def check_same(theirs: Path, ours: Path) -> None:
    """Files are the same bytes; FSTs have the same states with the same arcs, whatever OpenFst says of their
    properties."""
    assert set(files(ours)) - {Path(CERTIFICATE)} == set(files(theirs))
    for name in files(theirs):
        if name.suffix == ".fst":
            one, other = (fst.Fst.read(str(folder / name)) for folder in (theirs, ours))
            assert other.verify()
            assert sorted(one.print().splitlines()) == sorted(other.print().splitlines()), name
            assert other.properties(fst.O_LABEL_SORTED, True) == fst.O_LABEL_SORTED
        else:
            assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


@pytest.mark.parametrize("form", ["", "_np", "_ns"])
@pytest.mark.parametrize("lexicon", ["full/lexiconp.txt", "new.txt"])
def test_as_kaldi_extends_it(golden: Path, form: str, lexicon: str) -> None:
    """Kaldi's script needs the whole lexicon; ours reads what it lacks off L.fst, with its probabilities."""
    assert main(["lang", "extend", str(golden / f"lang{form}"), str(golden / lexicon), str(golden / "ours")]) == 0
    check_same(golden / f"extended{form}", golden / "ours")


def test_another_spelling_of_the_unknown_word_is_a_word(golden: Path) -> None:
    lang = read_lang(str(golden / "lang"))
    unknown = next(name for name in ("<unk>", "<UNK>") if name in lang.words.ids)
    other = {"<unk>": "<UNK>", "<UNK>": "<unk>"}[unknown]
    said = next(iter(lang.lexicon().values()))[0]
    assert extend_lang(lang, {other: [said]}, str(golden / "ours")) == [other]
    assert read_lang(str(golden / "ours")).lexicon()[other] == [said]


@pytest.mark.parametrize("form", ["", "_np", "_ns"])
def test_no_words_make_the_same_directory(golden: Path, form: str) -> None:
    lang = read_lang(str(golden / f"lang{form}"))
    assert extend_lang(lang, {}, str(golden / "ours")) == []
    again = read_lang(str(golden / "ours"))
    assert sorted(again.entries, key=str) == sorted(lang.entries, key=str)
    assert again.silence == lang.silence
    assert (golden / "ours" / "words.txt").read_bytes() == (golden / f"lang{form}" / "words.txt").read_bytes()


def test_the_lexicon_of_a_directory(golden: Path) -> None:
    wanted = read_lexicon(str(golden / "dict" / "lexiconp.txt"))
    for form in ("", "_np", "_ns"):
        found = read_lang(str(golden / f"lang{form}")).lexicon()
        assert {word: sorted(said) for word, said in found.items()} == {
            word: sorted(said) for word, said in wanted.items() if word not in ("!SIL", "<unk>")
        }


def test_words_that_sound_like_others(golden: Path) -> None:
    (golden / "mine.txt").write_text("tubaa = tube a\nbad B EH T\n")
    assert main(["lang", "extend", str(golden / "lang"), str(golden / "mine.txt"), str(golden / "ours")]) == 0
    found = read_lang(str(golden / "ours"))
    assert found.lexicon()["tubaa"] == [("T", "UW", "B", "AA")]
    assert found.lexicon()["bad"] == [("B", "EH", "T")]  # as the user says
    assert found.words.ids["tubaa"] == max(found.words.ids.values())


def test_a_list_of_words_is_said_by_letters(golden: Path, capfd: pytest.CaptureFixture) -> None:
    (golden / "list.txt").write_text("dab 3\nbad 2\nbe-bad\nшш\n31\n")
    assert (
        main(["lang", "extend", "--words", str(golden / "list.txt"), str(golden / "lang"), str(golden / "ours")]) == 0
    )
    assert "2 words are left out" in capfd.readouterr().err
    assert read_lang(str(golden / "ours")).lexicon()["dab"]
    rows = [line.split("\t") for line in (golden / "ours.new_words.tsv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["word", "count"], ["dab", "3"], ["31", "1"], ["be-bad", "1"], ["шш", "1"]]
    given = read_given(given_lines(str(golden / "ours.new_words.tsv")), read_lang(str(golden / "lang")).lexicon())
    assert given["шш"] == []
    assert given["dab"]


def test_a_word_without_pronunciation_is_left_out(golden: Path, capfd: pytest.CaptureFixture) -> None:
    """As mdi vosk adapt leaves it out: new_words.tsv is edited and given back."""
    (golden / "list").write_text("dab\nbeb\n")
    call = ["lang", "extend", "--words", str(golden / "list"), str(golden / "lang")]
    assert main([*call, str(golden / "ours")]) == 0
    table = golden / "ours.new_words.tsv"
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    edited = golden / "edited.tsv"
    edited.write_text(
        "".join("\t".join([*row[:2], "" if row[0] == "dab" else row[2], *row[3:]]) + "\n" for row in rows)
    )
    assert main([*call, str(edited), str(golden / "ours")]) == 0
    assert "1 words are left out: 'dab: left out" in capfd.readouterr().err
    assert {"dab", "beb"} & read_lang(str(golden / "ours")).words.ids.keys() == {"beb"}
    assert {line.split("\t")[0]: line.split("\t")[2] for line in table.read_text().splitlines()}["dab"] == ""


def test_the_step_adds_the_words_of_a_text(golden: Path) -> None:
    """What run.sh --new-words add does before anything else in a recipe."""
    (golden / "text").write_text("utt1 bad dab be\nutt2 dab <noise> beb\nbade\n")
    (golden / "mine.txt").write_text("beb = be bed\n")
    step = Path(__file__).parent.parent / "steps" / "extend_lang.sh"
    call = [step, "--lexicon", golden / "mine.txt", golden / "lang", golden / "text", golden / "lang_mdi"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = read_lang(str(golden / "lang_mdi"))
    assert set(found.words.ids) - set(read_lang(str(golden / "lang")).words.ids) == {"dab", "beb"}
    assert found.lexicon()["beb"] == [("B", "EH", "B", "EH", "D")]
    assert "1 words are left out: '<noise>: cannot be said" in done.stderr
    assert (golden / "log" / "lang_mdi.log").exists()


def test_what_is_wrong_is_said(golden: Path) -> None:
    lang = str(golden / "lang")
    with pytest.raises(MdiError, match=r"'new' is said with 'QQ', which .*phones\.txt lacks"):
        extend_lang(read_lang(lang), {"new": [("B", "QQ")]}, str(golden / "ours"))
    assert not (golden / "ours").exists()
    for name in ("L.fst", "phones/disambig.txt"):
        shutil.copytree(lang, golden / "broken", dirs_exist_ok=True)
        (golden / "broken" / name).unlink()
        with pytest.raises(MdiError, match=f"no '{name}'; expected a lang directory"):
            read_lang(str(golden / "broken"))
    shutil.copytree(lang, golden / "broken", dirs_exist_ok=True)
    shutil.copyfile(golden / "lang" / "L_disambig.fst", golden / "broken" / "L.fst")
    with pytest.raises(MdiError, match=r"not in the form of Kaldi's make_lexicon_fst\.py"):
        read_lang(str(golden / "broken"))
    (golden / "broken" / "phones" / "nonterminals.txt").write_text("#nonterm:name\n")
    with pytest.raises(MdiError, match="for grammars"):
        read_lang(str(golden / "broken"))


def test_the_old_directory_is_kept(golden: Path, capfd: pytest.CaptureFixture) -> None:
    lang, before = golden / "lang", {name: (golden / "lang" / name).read_bytes() for name in files(golden / "lang")}
    assert main(["lang", "extend", str(lang), str(golden / "new.txt"), str(lang)]) == 1
    assert "is also what it is made from" in capfd.readouterr().err
    assert main(["lang", "extend", str(lang), str(golden / "ours")]) == 2
    assert "expected LANG LEXICON OUT" in capfd.readouterr().err
    assert {name: (lang / name).read_bytes() for name in files(lang)} == before


@pytest.mark.parametrize("out", ["precious", "thesis.txt", "vosk", "lang/in", ".", "link"])
def test_what_it_has_not_made_is_not_replaced(golden: Path, out: str, capfd: pytest.CaptureFixture) -> None:
    for folder, name in (("precious", "notes"), ("vosk", "mdi.json")):
        (golden / folder).mkdir()
        (golden / folder / name).write_text("{}")
    (golden / "thesis.txt").write_text("thesis")
    (golden / "link").symlink_to(golden / "precious")
    before = {name: (golden / name).read_bytes() for name in files(golden)}
    (golden / "list").write_text("dab\n")
    for options in (
        [str(golden / "lang"), str(golden / "new.txt")],
        ["--words", str(golden / "list"), str(golden / "lang")],
    ):
        assert main(["lang", "extend", *options, str(golden / out)]) == 1
        assert str(golden / out) in capfd.readouterr().err
    (golden / "list").unlink()
    assert {name: (golden / name).read_bytes() for name in files(golden)} == before


def test_what_it_has_made_is_made_again(golden: Path) -> None:
    (golden / "list").write_text("dab\n")
    call = ["lang", "extend", "--words", str(golden / "list"), str(golden / "lang"), f"{golden / 'ours'}/"]
    assert main(call) == 0
    (golden / "list").write_text("dab\ndeb\n")
    assert main(call) == 0
    (golden / "list").write_text("beb\n")
    assert main(call) == 0
    assert {"dab", "beb"} & set(read_lang(str(golden / "ours")).words.ids) == {"beb"}
    (golden / "ours.new_words.tsv").unlink()
    assert main(call) == 0


def test_a_list_beside_somebody_elses_directory_does_not_make_it_ours(
    golden: Path, capfd: pytest.CaptureFixture
) -> None:
    (golden / "lang.new_words.tsv").write_text("word\tcount\tpronunciations\n")
    before = {name: (golden / "lang" / name).read_bytes() for name in files(golden / "lang")}
    assert main(["lang", "extend", str(golden / "lang_np"), str(golden / "new.txt"), str(golden / "lang")]) == 1
    assert "was not made by mdi lang extend" in capfd.readouterr().err
    assert {name: (golden / "lang" / name).read_bytes() for name in files(golden / "lang")} == before


def test_pipes(golden: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    """The lexicon may be one; in the directory nobody would ever write into it."""
    with open(golden / "new.txt") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["lang", "extend", str(golden / "lang"), "-", str(golden / "ours")]) == 0
    check_same(golden / "extended", golden / "ours")
    os.mkfifo(golden / "lang" / "phones" / "pipe")
    assert main(["lang", "extend", str(golden / "lang"), str(golden / "new.txt"), str(golden / "ours")]) == 1
    assert "phones/pipe: is a pipe; expected a file" in capfd.readouterr().err
