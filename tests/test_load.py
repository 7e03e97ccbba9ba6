"""Much of everything: what is large, long or many works, in time and memory that grow with it."""

import subprocess
import sys

import pytest
import recheck
from goldens import SHORT_TEXT

from mdi.cli import main
from mdi.lm.text import Text
from mdi.lm.vocabulary import GrowingVocabulary


@pytest.mark.parametrize("order", [1, 8])
def test_every_verb_at_the_ends_of_the_orders(order, tmp_path, capsys):
    text, more = tmp_path / "text", tmp_path / "more"
    text.write_text("a b c d e a b c d e\nb c d e a\n" * 20 + "a c e b d\n" * 5)
    more.write_text("a c e b d a c e b d\n" * 5 + "e d c b a\n")
    words, symbols = tmp_path / "words.txt", ["<eps>", *"abcde", "<unk>", "#0", "<s>", "</s>"]
    words.write_text("".join(f"{w} {i}\n" for i, w in enumerate(symbols)))
    model, other, adapted, mixed, pruned, back = (str(tmp_path / f"{i}.arpa") for i in range(6))
    g = str(tmp_path / "G.fst")
    for arguments in (
        ["train", "--order", str(order), str(text), model],
        ["train", "--order", str(order), str(more), other],
        ["adapt", "--min-counts", "1", "--sigma2", "1", model, str(more), adapted],
        ["mix", "--tune", str(more), model, other, mixed],
        ["prune", "--threshold", "1e-3", mixed, pruned],
        ["fst", "--words", str(words), adapted, g],
        ["convert", "--words", str(words), g, back],
        ["check", "--words", str(words), back],
        ["ppl", back, str(more)],
    ):
        assert main(arguments) == 0, capsys.readouterr().err
    for path in (model, other, adapted, mixed, pruned):
        assert recheck.worst_sum(recheck.read(path)) < 2e-6
    assert recheck.read(adapted).order == order
    sentences = [line.split() for line in more.read_text().splitlines()]
    assert recheck.score(recheck.read(back), sentences)[0] == pytest.approx(
        recheck.score(recheck.read(adapted), sentences)[0], rel=1e-5
    )


def test_a_long_line_takes_room_for_the_words_that_it_may_have(tmp_path):
    """Of at least two bytes, with the blank: room was made for twice as many."""
    path = tmp_path / "line"
    path.write_text("word " * 200_000)
    vocab = GrowingVocabulary(("<s>", "</s>"))
    assert sum(map(len, Text(str(path), vocab))) == 200_002
    assert len(vocab.offset) <= 2 + path.stat().st_size // 2 + 8
    assert len(vocab) == 3


def test_a_line_of_a_million_words_and_orders_one_and_eight(tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("a b c d\n" * 20 + " ".join(["a b b c"] * 250_000) + "\n")
    for order in ("1", "8"):
        out = str(tmp_path / f"{order}.arpa")
        assert main(["train", "--order", order, "--memory", "100M", str(text), out]) == 0
        assert main(["adapt", "--min-counts", "1", "--sigma2", "1", out, str(text), f"{out}.adapted"]) == 0
        assert main(["check", f"{out}.adapted"]) == 0


def test_ten_runs_at_once_leave_one_whole_model(tmp_path):
    command = [sys.executable, "-m", "mdi", "train", SHORT_TEXT, str(tmp_path / "out")]
    runs = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(10)]
    assert [run.wait() for run in runs] == [0] * 10
    assert main(["check", str(tmp_path / "out")]) == 0
    assert not list(tmp_path.glob(".*"))
