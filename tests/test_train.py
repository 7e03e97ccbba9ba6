"""mdi train: options, messages, certificates; nothing is written where something is wrong."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import oracle
import pytest
from goldens import DATA, worst_gap

from mdi.cli import main
from mdi.lm.arpa import read_arpa
from mdi.lm.normalise import worst_sum

IN, VOCAB = str(DATA / "text" / "in.txt.gz"), str(DATA / "text" / "vocab.txt")


def train(*args: object) -> int:
    return main(["train", *map(str, args)])


def data_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_model_and_certificate(tmp_path, capsys):
    out = tmp_path / "x.arpa.gz"
    assert train("--vocab", VOCAB, IN, out) == 0
    model, golden = oracle.read(out), oracle.read(DATA / "srilm" / "in.kn.arpa.gz")
    assert model.keys() == golden.keys()
    assert all(model[ngram] == pytest.approx(golden[ngram], rel=1e-5) for ngram in golden)
    certificate = json.loads((tmp_path / "x.arpa.gz.json").read_text())
    assert certificate["ngrams"] == [303, 2116, 962]
    assert (certificate["sentences"], certificate["words"], certificate["oov"]) == (800, 7272, 0)
    assert certificate["min_counts"] == [1, 1, 2]
    assert certificate["discounts"][2] == pytest.approx(
        {"n1": 3707, "n2": 482, "n3": 209, "n4": 98, "D1": 0.793620209805, "D2": 0.967635121270, "D3+": 1.511487453380}
        | {"fallback": None}
    )
    assert certificate["worst_sum_gap"] < 1e-6  # of the file
    assert certificate["left_over"]["words"] == 80  # SRILM's log: "over 80 zeroton words"
    assert certificate["seconds"] > 0
    assert certificate["peak_memory_mb"] > 10
    said = capsys.readouterr()
    assert not said.out
    assert "3-grams: D1=0.79362, D2=0.967635, D3+=1.51149 (n1=3707 n2=482 n3=209 n4=98)" in said.err


def test_memory_counts_and_texts_do_not_matter(tmp_path):
    """Little memory, counts instead of text, the text in two files: the same model."""
    lines = data_of(Path(IN)).decode().splitlines(keepends=True)
    (tmp_path / "a.txt").write_text("".join(lines[:300]))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("".join(lines[300:]).encode()))
    whole, counts = tmp_path / "whole.arpa", tmp_path / "counts.gz"
    options = ["--order", 4, "--vocab", VOCAB, "--smoothing", "kn-interpolated", "--min-counts", "1-1-1-2"]
    assert train(*options, "--counts-out", counts, IN, whole) == 0
    assert (
        train(
            *options,
            "--memory",
            "1M",
            "--tmp",
            tmp_path,
            tmp_path / "a.txt",
            tmp_path / "b.txt.gz",
            tmp_path / "x.arpa",
        )
        == 0
    )
    assert train(*options, "--counts", counts, tmp_path / "y.arpa") == 0
    assert (tmp_path / "x.arpa").read_bytes() == whole.read_bytes()
    assert (tmp_path / "y.arpa").read_bytes() == whole.read_bytes()


def test_standard_streams(tmp_path, capsysbinary, monkeypatch):
    out = tmp_path / "x.arpa"
    assert train(IN, out) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(IN).read_bytes())))
    assert train("-", "-") == 0
    assert capsysbinary.readouterr().out == out.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.arpa", "x.arpa.json"]


def words_of(path: Path) -> set[str]:
    return {ngram[0] for ngram in oracle.read(path) if len(ngram) == 1}


@pytest.mark.parametrize(
    ("vocab", "oov", "words"),
    [
        ("a\nb\n", "map", {"a", "b", "<unk>"}),
        ("<s>\n</s>\n<unk>\na\nb\n", "map", {"a", "b", "<unk>"}),
        ("a\r\n\n b \n<UNK>\n", "map", {"a", "b", "<UNK>"}),
        ("<eps> 0\n<s> 1\n</s> 2\n<UNK> 3\na 4\nb 5\n#0 6\n", "map", {"a", "b", "<UNK>"}),
        ("a\nb\n", "drop", {"a", "b"}),
    ],
)
def test_word_lists(tmp_path, capsys, vocab, oov, words):
    (tmp_path / "words").write_text(vocab)
    (tmp_path / "text").write_text("a b\nb c\na a b\n")
    assert train("--order", 2, "--vocab", tmp_path / "words", "--oov", oov, tmp_path / "text", tmp_path / "x.arpa") == 0
    assert words_of(tmp_path / "x.arpa") == words | {"<s>", "</s>"}
    assert "1 words outside it, such as 'c'" in capsys.readouterr().err
    assert worst_gap(oracle.read(tmp_path / "x.arpa")) < 1e-5


def test_without_a_word_list_every_word_is_in(tmp_path):
    (tmp_path / "text").write_text("a b\nb \xe9 c\n", encoding="latin-1")  # not UTF-8: bytes stay bytes
    assert train("--order", 1, tmp_path / "text", tmp_path / "x.arpa") == 0
    assert b"\t\xe9\n" in (tmp_path / "x.arpa").read_bytes()


def test_many_words_are_read_back(tmp_path):
    """More words than any array begins with."""
    (tmp_path / "text").write_text("".join(f"word{i} word{i // 2}\n" for i in range(20000)))
    assert train("--order", 2, tmp_path / "text", tmp_path / "x.arpa.gz") == 0
    model = read_arpa(str(tmp_path / "x.arpa.gz"))
    assert model.trie.counts == [20003, 20000 + 20000 + 10000]  # <s> x, x y, y </s>
    assert worst_sum(model)[0] < 1e-5


def test_fixed_discounts_are_announced(tmp_path, capsys):
    (tmp_path / "text").write_text("a b c\na b\n")
    assert train(tmp_path / "text", tmp_path / "x.arpa") == 0
    assert (
        "2-grams: D1=0.5, D2=1, D3+=1.5 (n1=4 n2=1 n3=0 n4=0); no n-gram has a count of 3: the fixed"
        in capsys.readouterr().err
    )
    fallback = [d["fallback"] for d in json.loads((tmp_path / "x.arpa.json").read_text())["discounts"]]
    assert fallback[1] == "no n-gram has a count of 3"
    assert worst_gap(oracle.read(tmp_path / "x.arpa")) < 1e-5


GOOD = "a b c\nb c a\n"


@pytest.mark.parametrize(
    ("files", "args", "message", "code"),
    [
        ({"text": ""}, ["text"], "text: no text", 1),
        ({"text": "\n \n"}, ["text"], "text: no text", 1),
        ({"text": GOOD, "more": ""}, ["text", "more"], "more: no text", 1),
        ({"text": GOOD + "a <s> b\n"}, ["text"], "text:3: <s> or </s> inside the line 'a <s> b'", 1),
        ({"text": "a \0\1\2 b\n"}, ["text"], "text:1: a NUL byte", 1),
        ({"text": "BZh91AY junk"}, ["text"], "text: is bzip2", 1),
        ({}, ["text"], "text: No such file", 1),
        ({"text": GOOD}, ["."], ".: Is a directory", 1),
        (
            {"text": GOOD, "words": "a\nb\na\n"},
            ["--vocab", "words", "text"],
            "words:3: the word 'a' appears twice, here and on line 1",
            1,
        ),
        ({"text": GOOD, "words": "\n"}, ["--vocab", "words", "text"], "words: no words", 1),
        (
            {"text": GOOD, "words": "a\nb c\n"},
            ["--vocab", "words", "text"],
            "words:2: 'b c'; expected one word per line",
            1,
        ),
        ({"text": GOOD, "words": "a\n\0\n"}, ["--vocab", "words", "text"], "words:2: a NUL byte", 1),
        ({"text": GOOD}, ["--vocab", "words", "text"], "words: No such file", 1),
        ({"text": GOOD, "words": "x\n"}, ["--vocab", "words", "--oov", "drop", "text"], "nothing to estimate from", 1),
        (
            {"text": GOOD, "words": "a\nb\n"},
            ["--vocab", "words", "--oov", "error", "text"],
            "outside the vocabulary, the first: 'c'",
            1,
        ),
        ({"counts": "a b\n"}, ["--counts", "counts"], "counts:1: 'a b'", 1),
        ({"counts": "a 1\n</s> 1\n"}, ["--counts", "counts"], "counts: no 2-grams", 1),
        ({}, ["--counts", "counts"], "counts: No such file", 1),
        ({}, ["--counts", "."], ".: Is a directory", 1),
        ({"text": GOOD, "counts": "a 1\n"}, ["--counts", "counts", "text"], "expected TEXT OUT, or --counts", 2),
        ({}, [], "expected TEXT OUT, or --counts", 2),
        ({"text": GOOD}, ["--order", "0", "text"], "--order 0; expected 1 to 8", 2),
        ({"text": GOOD}, ["--order", "9", "text"], "--order 9; expected 1 to 8", 2),
        ({"text": GOOD}, ["--min-counts", "1-0", "text"], "--min-counts 1-0; expected", 2),
        ({"text": GOOD}, ["--min-counts", "1-x", "text"], "--min-counts 1-x; expected", 2),
        ({"text": GOOD}, ["--memory", "10", "text"], "--memory 10; expected", 2),
        ({"text": GOOD}, ["--memory", "2Q", "text"], "--memory 2Q; expected", 2),
        ({"text": GOOD}, ["--counts-out", "no/where", "text"], "no/where: the directory no does not exist", 1),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(tmp_path, monkeypatch, capsys, files, args, message, code):
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert train(*args, "x.arpa") == code
    assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == set(files)


def test_output_that_is_an_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text(GOOD)
    assert train("text", "text") == 1
    assert "is also an input" in capsys.readouterr().err
    assert Path("text").read_text() == GOOD


SCRIPT = Path(__file__).parent.parent / "steps" / "train_lm.sh"


def step(*args: object) -> subprocess.CompletedProcess:
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": folders}
    return subprocess.run([SCRIPT, *map(str, args)], capture_output=True, text=True, check=False, env=env)


def test_step_script(tmp_path):
    assert "Usage" in step("--help").stdout
    assert step().returncode == 2
    assert step("--what", "x").returncode == 2
    done = step("--order", 2, "--vocab", VOCAB, IN, tmp_path / "x.arpa.gz")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"{SCRIPT} --order 2")
    assert train("--order", 2, "--vocab", VOCAB, IN, tmp_path / "y.arpa.gz") == 0
    assert data_of(tmp_path / "x.arpa.gz") == data_of(tmp_path / "y.arpa.gz")
    for args, message in (
        (["nothing", "x.arpa"], "nothing: no such file"),
        ([IN, "no/x.arpa"], "its directory does not exist"),
    ):
        failed = step(*args)
        assert failed.returncode == 1
        assert message in failed.stderr


def test_a_full_disk_for_counts_is_named(tmp_path, capsys):
    place = tmp_path / "small"
    place.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(small, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    (tmp_path / "text").write_text("".join(f"w{i % 977} w{i % 1009} w{i % 1013}\n" for i in range(100_000)))
    try:
        command = ["train", "--memory", "2M", "--tmp", str(place), str(tmp_path / "text"), str(tmp_path / "out.arpa")]
        assert main(command) == 1
        assert "cannot write counts: No space left on device; use another --tmp" in capsys.readouterr().err
        assert not any(place.iterdir())
        assert not (tmp_path / "out.arpa").exists()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
