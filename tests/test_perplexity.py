"""Perplexities against SRILM's and KenLM's, sentence by sentence and word by word."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from goldens import DATA, DEV, TEST, arpa_path, golden_model, sections

from mdi.cli import main
from mdi.lm.perplexity import perplexity

TEXTS = {"dev": DEV, "test": TEST}


def assert_same_lines(found: list[str], expected: list[str]) -> None:
    """Equal but for numbers, which may differ in the last of SRILM's seven digits (it computes in single precision)."""
    assert len(found) == len(expected)
    for line, golden in zip(found, expected, strict=True):
        assert len(line.split(" ")) == len(golden.split(" ")), (line, golden)
        for field, right in zip(line.split(" "), golden.split(" "), strict=True):
            if field != right:
                assert re.fullmatch(r"-?\d+\.\d+(e-\d+)?", field), (line, golden)
                assert float(field) == pytest.approx(float(right), rel=2e-6), (line, golden)


@pytest.mark.parametrize(
    ("name", "text", "printed"),
    [*sections("srilm/ppl.txt"), *sections("srilm/ppl.nounk.txt")],
    ids=lambda value: None if "\n" in value else value,
)
def test_srilms_figures(name: str, text: str, printed: str) -> None:
    """`ngram -ppl` with and without -unk: a model with <unk> scores OOVs either way."""
    first, second = printed.strip().split("\n")[-2:]
    found = perplexity(golden_model(name), TEXTS[text]).srilm_lines()
    assert_same_lines([f"file text/{text}.txt: {found[0]}", found[1]], [first, second])


@pytest.mark.parametrize(
    ("name", "text", "printed"), [part for part in sections("kenlm/query.txt") if "lmplz." not in part[0]]
)
def test_kenlms_figures(name: str, text: str, printed: str) -> None:
    golden = dict(line.split(":\t") for line in printed.strip().split("\n"))
    found = perplexity(golden_model(name.split("/")[1]), TEXTS[text])
    assert found.ppl == pytest.approx(float(golden["Perplexity including OOVs"]), rel=1e-6)
    assert found.ppl_without_oov == pytest.approx(float(golden["Perplexity excluding OOVs"]), rel=1e-6)
    assert found.oov == int(golden["OOVs"])
    assert found.words + found.sentences == int(golden["Tokens"])


@pytest.mark.parametrize(("name", "debug"), [("bg.kn", 1), ("mix", 2)])
def test_debug_output_is_srilms(name: str, debug: int, capsys: pytest.CaptureFixture) -> None:
    assert main(["ppl", "--debug", str(debug), arpa_path(name), TEST]) == 0
    found = capsys.readouterr().out.replace(TEST, "text/test.txt").split("\n")
    golden = gzip.decompress((DATA / "srilm" / f"{name}.test.debug{debug}.gz").read_bytes()).decode().split("\n")
    assert found[-2].startswith("19 words scored as <unk>; ppl without them= ")
    assert_same_lines([*found[:-2], ""], golden)


# 'a' follows <s> with 1/2; b is never predicted; 'c' is unknown. bow(<s>) = (1/2) / (1/2) = 1.
TINY = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-0.30103\t</s>
-99\t<s>\t0
-0.30103\ta\t0
-99\tb

\\2-grams:
-0.30103\t<s> a

\\end\\
"""


def test_zero_probabilities_unknown_words_and_odd_lines(tmp_path: Path, capsysbinary: pytest.CaptureFixture) -> None:
    """Layout as in SRILM: a word without probability is a zeroprob, an unknown one an OOV; markers and blank lines
    vanish."""
    lm, text = tmp_path / "lm", tmp_path / "text"
    lm.write_text(TINY)
    text.write_bytes(b"\xef\xbb\xbf<s> a\tb  </s>\r\n \t\r\n\xff c\n")
    assert main(["ppl", "--debug", "2", str(lm), str(text)]) == 0
    assert capsysbinary.readouterr().out.decode("latin-1") == (
        "a b\n"
        "\tp( a | <s> ) \t= [2gram] 0.5 [ -0.30103 ]\n"
        "\tp( b | a ...) \t= [1gram] 0 [ -inf ]\n"
        "\tp( </s> | b ...) \t= [1gram] 0.5 [ -0.30103 ]\n"
        "1 sentences, 2 words, 0 OOVs\n"
        "1 zeroprobs, logprob= -0.60206 ppl= 2 ppl1= 4\n"
        "\n"
        "\xff c\n"
        "\tp( <unk> | <s> ) \t= [OOV] 0 [ -inf ]\n"
        "\tp( <unk> | <unk> ...) \t= [OOV] 0 [ -inf ]\n"
        "\tp( </s> | <unk> ...) \t= [1gram] 0.5 [ -0.30103 ]\n"
        "1 sentences, 2 words, 2 OOVs\n"
        "0 zeroprobs, logprob= -0.30103 ppl= 2 ppl1= undefined\n"
        "\n"
        f"file {text}: 2 sentences, 4 words, 2 OOVs\n"
        "1 zeroprobs, logprob= -0.90309 ppl= 2 ppl1= 8\n"
        "OOVs skipped; ppl without them= 2\n"
    )


def test_a_perplexity_of_no_tokens_is_null(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "lm").write_text(TINY)
    (tmp_path / "text").write_text("b\n")
    assert main(["ppl", "--json", "true", str(tmp_path / "lm"), str(tmp_path / "text")]) == 0
    result = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (result["zeroprobs"], result["ppl"], result["ppl1"]) == (1, pytest.approx(2.0, rel=1e-6), None)


def test_json(capsys: pytest.CaptureFixture) -> None:
    assert main(["ppl", "--json", "true", arpa_path("bg.kn.closed"), DEV, TEST]) == 0
    dev, test = map(json.loads, capsys.readouterr().out.splitlines())
    assert (dev["text"], dev["sentences"], dev["words"], dev["oov"], dev["zeroprobs"]) == (DEV, 200, 1840, 20, 0)
    assert test["ppl"] == pytest.approx(34.73513, rel=1e-6)
    assert test["ppl_without_oov"] == test["ppl"]
    assert main(["ppl", "--json", "true", "--debug", "1", arpa_path("bg.kn.closed"), DEV]) == 2
    assert "expected no --json" in capsys.readouterr().err


@pytest.mark.slow
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """`... | mdi ppl --debug 2 LM /dev/stdin` shows the sentences and their words."""
    lm, text = arpa_path("bg.kn"), Path(TEST).read_bytes()
    for name in ("/dev/stdin", "-"):
        command = [sys.executable, "-m", "mdi", "ppl", "--debug", "2", lm, name]
        done = subprocess.run(command, input=text, capture_output=True)
        assert done.returncode == 0, done.stderr
        plain = subprocess.run([*command[:-1], TEST], capture_output=True)
        assert done.stdout.replace(f"file {name}:".encode(), b"") == plain.stdout.replace(f"file {TEST}:".encode(), b"")


def test_much_that_is_unknown_is_said_aloud(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "text").write_text("w001 w002 zebra\n")
    assert main(["ppl", arpa_path("bg.kn"), str(tmp_path / "text")]) == 0
    said = capsys.readouterr()
    assert "33.3% of the words are outside the vocabulary. <unk> is easy to predict" in said.err
    # one notion of OOV: a word that is skipped. One that is scored as <unk> is not counted as an OOV anywhere
    assert re.findall(r"(\d+) (OOVs|words scored as)", said.out) == [("0", "OOVs"), ("1", "words scored as")]
    assert main(["ppl", "--oov", "drop", arpa_path("bg.kn"), str(tmp_path / "text")]) == 0
    said = capsys.readouterr()
    assert "3 words, 1 OOVs\n" in said.out
    assert "OOVs skipped; ppl without them= " in said.out
    assert "33.3% of the words are outside the vocabulary. They are skipped" in said.err  # <unk> is not scored
    assert "<unk> is easy" not in said.err
    assert main(["ppl", "--oov", "error", arpa_path("bg.kn"), str(tmp_path / "text")]) == 1
    assert "words outside the vocabulary, the first: 'zebra'" in capsys.readouterr().err
