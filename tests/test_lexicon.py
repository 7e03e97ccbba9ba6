"""Lexicons as Kaldi has them, and what users say of words."""

from pathlib import Path

import pytest

from mdi.errors import MdiError, OptionError
from mdi.lm.new_words import as_new_words
from mdi.speech.given import Given, given_lines, read_given, write_new_words
from mdi.speech.lexicon import Lexicon, listed_words, read_lexicon, write_lexicon
from mdi.speech.pronounce import Pronounced

KNOWN = Lexicon({"dog": [("D", "AO", "G")], "read": [("R", "IY", "D"), ("R", "EH", "D")], "a": [("AH",)]})


def given(tmp_path: Path, text: str) -> dict[str, list[Given]]:
    (tmp_path / "mine.txt").write_text(text)
    return read_given(given_lines(str(tmp_path / "mine.txt")), KNOWN)


def test_kaldis_lexicon_is_read_without_positions(tmp_path: Path) -> None:
    (tmp_path / "lexicon.txt").write_text("dog D_B AO_I G_E\nread R IY D\nread\tR EH D\ndog D AO G\n")
    assert read_lexicon(str(tmp_path / "lexicon.txt")) == Lexicon(
        {"dog": [("D", "AO", "G")], "read": [("R", "IY", "D"), ("R", "EH", "D")]}
    )


def test_probabilities_are_read_where_every_line_has_one(tmp_path: Path) -> None:
    path = str(tmp_path / "lexiconp.txt")
    Path(path).write_text("read 1.0 R IY D\nread 0.25 R EH D\n")
    lexicon = read_lexicon(path)
    assert lexicon["read"] == KNOWN["read"]
    assert lexicon.probability == {"read": [1.0, 0.25]}
    write_lexicon(lexicon, path)
    assert read_lexicon(path) == lexicon
    assert read_lexicon(path).probability == lexicon.probability
    Path(path).write_text("one 1 2\ntwo T UW\n")  # phones may be numbers
    assert read_lexicon(path)["one"] == [("1", "2")]


def test_a_lexicon_is_written_as_it_is_read(tmp_path: Path) -> None:
    write_lexicon(KNOWN, str(tmp_path / "lexicon.txt"))
    assert read_lexicon(str(tmp_path / "lexicon.txt")) == KNOWN


@pytest.mark.parametrize(
    ("text", "said"),
    [("dog D\ncat\n", "lexicon.txt:2: 'cat' without phones"), ("", "no words"), ("dog = cat\n", "expected phones")],
)
def test_a_lexicon_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "lexicon.txt").write_text(text)
    with pytest.raises(MdiError, match=said):
        read_lexicon(str(tmp_path / "lexicon.txt"))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "lexicon.txt").write_bytes(b"dog D AO G\nnaj\xefve N\n")
    with pytest.raises(MdiError, match=r"lexicon\.txt:2: not UTF-8"):
        read_lexicon(str(tmp_path / "lexicon.txt"))


def test_what_users_give(tmp_path: Path) -> None:
    found = given(tmp_path, "# mine\nadog AH D AO G\nreader = Read a\nreader 0.5 R D\n")
    assert found["adog"] == [Given(("AH", "D", "AO", "G"))]
    assert found["reader"] == [
        Given(("R", "IY", "D", "AH"), "Read a"),
        Given(("R", "EH", "D", "AH"), "Read a"),
        Given(("R", "D")),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x D AO1 G\n", "mine.txt:1: no word is said with the phones 'AO1'; expected them without stress"),
        ("y D\nx D QQ\n", "mine.txt:2: no word is said with the phones 'QQ'; expected phones of the model, such as"),
        ("x\n", "mine.txt:1: 'x' alone"),
        (f"x{' D' * 201}\n", "mine.txt:1: 201 phones; expected at most 200"),
        (f"x ={' dog' * 67}\n", "mine.txt:1: 201 phones; expected at most 200"),
        ("x =\n", "mine.txt:1: nothing after '='"),
        ("x = dogg\n", "sounds like 'dogg', which the model does not know itself; expected known words, such as 'dog'"),
        ("word\tcount\tpronunciations\nx\n", "mine.txt:2: 'x'; expected word, count and pronunciations"),
    ],
)
def test_what_users_should_not_give(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(MdiError, match=said):
        given(tmp_path, text)


def test_new_words_can_be_given_back(tmp_path: Path) -> None:
    said = [
        Pronounced("dogs", (("D", "AO", "G"), ("D", "G")), "g2p", 0.4, ("dog", "")),
        Pronounced("ш", (), "cannot be said: no known word has the letters 'ш'", 0.0),
        Pronounced("adog", (("AH", "D", "AO", "G"),), "parts: a dog", 0.9, ("a dog",)),
    ]
    path = tmp_path / "new_words.tsv"
    write_new_words(str(path), said, {"adog": 3, "dogs": 1})
    assert path.read_text().splitlines()[:3] == [
        "word\tcount\tpronunciations\tcertainty\thow\tsounds like",
        "adog\t3\tAH D AO G\t0.90\tparts: a dog\ta dog",
        "dogs\t1\tD AO G | D G\t0.40\tg2p\tdog | ",
    ]
    assert read_given(given_lines(str(path)), KNOWN) == {
        "adog": [Given(("AH", "D", "AO", "G"))],
        "dogs": [Given(("D", "AO", "G")), Given(("D", "G"))],
        "ш": [],
    }
    path.write_text(path.read_text().replace("AH D AO G", "= a dog | = dog"))
    assert read_given(given_lines(str(path)), KNOWN)["adog"] == [
        Given(("AH", "D", "AO", "G"), "a dog"),
        Given(("D", "AO", "G"), "dog"),
    ]


def test_a_count_that_is_too_long_is_none(tmp_path: Path) -> None:
    """Python reads no number of more than 4,300 digits."""
    (tmp_path / "list").write_text(f"floda 3\nazura {'9' * 5000}\nfloda\n")
    assert listed_words(str(tmp_path / "list")) == {"floda": 4, "azura": 1}
    with pytest.raises(OptionError, match="expected add, "):
        as_new_words("9" * 5000)
