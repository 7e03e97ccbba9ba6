"""mdi check: what is said about sound and unsound models."""

from pathlib import Path

import pytest

from mdi.cli import main

DATA = Path(__file__).parent / "data"
WORDS = str(DATA / "kaldi" / "words.txt")


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["check", *arguments])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_a_sound_model(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = check(capsys, "--words", WORDS, str(DATA / "kaldi" / "bg.kn.arpa.gz"))
    assert code == 0
    assert "303 / 5,657 / 5,825 n-grams" in said
    assert "over all 5,961 histories" in said
    assert "nothing is wrong" in said
    assert "warning" not in said


def test_a_pruned_model_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = check(capsys, str(DATA / "srilm" / "bg.kn.prune1e-4.arpa.gz"))
    assert code == 0
    assert "300 n-grams lack their suffix, such as 'w031 w003 w014'" in said


def test_sums(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = check(capsys, str(DATA / "bad" / "missing-backoff-bigram.arpa"))
    assert code == 1
    assert "after 'w001 w000'" in said
    assert "1 are off by more than 0.001" in said


def test_an_unreadable_model(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = check(capsys, str(DATA / "bad" / "nan-logprob.arpa"))
    assert code == 1
    assert "nan-logprob.arpa:29: 'nan'" in said


ODD = """\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-99\t<s>\t-0.1
-0.5\t</s>
-0.5\ta\t-0.2
-0.5\tb
-99\tc
-0.5\t<eps>

\\2-grams:
-0.3\t<s> a
-0.3\ta <s>
-0.3\t</s> b
-0.3\ta c

\\end\\
"""


def test_everything_that_can_be_odd(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "odd.arpa").write_text(ODD)
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nz 2\n")
    code, said = check(capsys, "--words", str(tmp_path / "words.txt"), str(tmp_path / "odd.arpa"))
    assert code == 1
    assert "error: '<eps>' is a word of the model" in said
    assert "1 1-grams have probability 0: 'c'" in said
    assert "1 2-grams predict <s>: 'a <s>'" in said
    assert "1 2-grams have </s> in their history: '</s> b'" in said
    assert "words.txt has no '#0'" in said
    assert "words.txt has no <s> and no </s>" in said
    assert "2 words are not in words.txt: 'b', 'c'; arpa2fst drops 4 n-grams" in said
    assert "1 words of words.txt are not in the model ('z')" in said


def test_check_adds_up_where_a_difference_would_have_no_digits(tmp_path, capsys):
    """After 'a' the weight is 10^13: p(b) = 10^-13 is left. A sum as a difference would be wrong in the third digit."""
    model = "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n{}\ta\t{}\n-13\tb\n-0.30103\t</s>\n-99\t<s>\n\n"
    model += "\\2-grams:\n-0.30103\ta a\n-0.60206\ta </s>\n\n\\end\\\n"
    path = tmp_path / "lm"
    path.write_text(model.format("-0.3010300", "12.39794"))
    assert main(["check", str(path)]) == 0
    path.write_text(model.format("-0.3010300", "12.4"))  # 0.5% too much of a quarter
    assert main(["check", str(path)]) == 1
    assert "0.0012 (after 'a')" in capsys.readouterr().out
