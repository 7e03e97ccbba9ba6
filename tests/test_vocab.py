"""mdi vocab: which words, in which order, and how much of a text they cover."""

from pathlib import Path

import pytest

from mdi.cli import main
from mdi.lm.vocabulary import read_word_file, read_words
from mdi.lm.word_counts import choose_words, count_words


def test_in_domain_words_then_the_commonest_of_the_background(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("b a a\nc b a\n")
    (tmp_path / "bg").write_text("x y x z x y a\n")
    (tmp_path / "dev").write_text("a x q q\n")
    arguments = ["--background", "bg", "--size", "5", "--dev", "dev", "in", "out"]
    assert main(["vocab", *(str(tmp_path / a) if (tmp_path / a).exists() or a == "out" else a for a in arguments)]) == 0
    assert (tmp_path / "out").read_text().split() == ["a", "b", "c", "x", "y"]
    said = capsys.readouterr().err
    assert "in-domain: 6 words, 100.00% covered" in said
    assert "4 words, 50.00% covered; missing: 'q'" in said


def test_a_table_for_kaldi_keeps_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("<eps> 0\nb 7\n#0 8\n<s> 9\n</s> 10\n")
    (tmp_path / "in").write_text("b a\nc a\n")
    assert main(["vocab", "--base", str(tmp_path / "old.txt"), str(tmp_path / "in"), str(tmp_path / "words.txt")]) == 0
    words, numbers = read_word_file(str(tmp_path / "words.txt"))
    assert dict(zip(words, numbers, strict=True)) == {
        "<eps>": 0,
        "b": 7,
        "#0": 8,
        "<s>": 9,
        "</s>": 10,
        "a": 11,
        "c": 12,
    }
    assert main(["vocab", str(tmp_path / "in"), str(tmp_path / "words.txt")]) == 0
    assert read_words(str(tmp_path / "words.txt")) == ["a", "b", "c", "<unk>", "<s>", "</s>"]


def test_counting_is_independent_of_blocks(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("".join(f"w{i % 7} w{i % 3} <unk>\n" for i in range(1000)))
    counts = count_words(text)
    expected = {f"w{k}": sum((i % 7 == k) + (i % 3 == k) for i in range(1000)) for k in range(7)}
    assert dict(zip(counts.words, counts.count.tolist(), strict=True)) == expected
    assert choose_words(counts, min_count=400) == sorted(
        (w for w, n in expected.items() if n >= 400), key=lambda w: -expected[w]
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nb\na\n", ":3: the word 'a' appears twice, here and on line 1"),
        ("a 1\nb 1\n", ":2: the number 1 appears twice, here and on line 1"),
        ("a 1\nb\n", ":2: 'b'; expected one word per line"),
        ("a \u00b2\n", "; expected one word per line"),
        ("a 2147483648\n", "; expected one word per line"),
        ("a " + "1" * 5000 + "\n", "; expected one word per line"),
        ("", "no words"),
        ("a b c\n", ":1: 'a b c'"),
    ],
)
def test_bad_word_files(content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "words").write_text(content)
    (tmp_path / "in").write_text("a\n")
    assert main(["vocab", "--base", str(tmp_path / "words"), str(tmp_path / "in"), str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path: Path) -> None:
    (tmp_path / "words").write_bytes(b"\xef\xbb\xbfa\nb\n")
    assert read_words(str(tmp_path / "words")) == ["a", "b"]
