"""The tables of local/new_words.py and utils/bench/g2p.py: what counts as right."""

from collections import Counter
from pathlib import Path

import g2p as bench
import new_words as study
import pytest

from mdi.speech.given import COLUMNS


def test_new_words_are_counted_by_fold(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    said = ["go floda go", "see azura's home", "go home", "see nuk"]
    heard = {
        "old": ["go home go", "see home", "go home", "see go"],
        "new": ["go floda go", "see azura is home", "go floda", "see floda"],
    }
    for k, first in ((1, 0), (2, 2)):
        fold = tmp_path / f"fold.{k}"
        rows = range(first, first + 2)
        for name in ("speech", "new", *(f"{name}.decoded" for name in heard)):
            (fold / name).mkdir(parents=True)
        (fold / "speech" / "text").write_text("".join(f"u{i} {said[i]}\n" for i in rows))
        (fold / "new" / "new_words.tsv").write_text("\t".join(COLUMNS) + "\nfloda\t3\nazura\t1\n")
        for name, lines in heard.items():
            (fold / f"{name}.decoded" / "text").write_text("".join(f"u{i} {lines[i]}\n" for i in rows))
    study.summary(tmp_path, 2, {"go", "see", "home", "is"})
    table = capsys.readouterr().out
    assert "3 utterances with new words, 1 without" in table
    assert "| old | 0 of 1 (0.0%) | 0.0% of 3 | 0 of 0 (0.0%), 0 of them another form of the word |" in table
    assert "| new | 1 of 1 (100.0%) | 33.3% of 3 | 3 of 4 (75.0%), 1 of them another form of the word |" in table


def test_other_forms_of_a_word() -> None:
    assert study.other_forms(Counter(["floda's", "azura"]), Counter(["floda", "floda", "azura"])) == 1
    assert study.other_forms(Counter(["floda", "floda"]), Counter(["floda's", "azura"])) == 1


def test_relatives_are_held_out_too() -> None:
    for relatives in ("glow glows glowing glowed glower", "nation nation's nations national nationally"):
        assert len({bench.without_endings(word) for word in relatives.split()}) == 1
    assert bench.without_endings("floda") != bench.without_endings("azura")
    ways = {f"{stem}{ending}": [("A",)] for stem in ("abcd", "efgh", "ijkl", "mnop") for ending in ("", "s", "ing")}
    sets = bench.parts(ways, ways, 1, False)
    assert [len(sets[name]) for name in ("train", "dev", "test")] == [6, 1, 1]
    assert len({bench.without_endings(word) for words in sets.values() for word in words}) == 4
    assert [len(words) for words in bench.parts(ways, ways, 1, True).values()] == [10, 1, 1]
    listed = bench.parts(ways, ["abcd", "efgh"], 1, True)
    assert {*listed["test"], *listed["dev"]} == {"abcd", "efgh"}


def test_rates_of_a_lexicon(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cmudict.dict"
    path.write_text("ba B AA1\nba(2) B EY0\ndab D AA1 B # a remark\nabad AA0 B AA1 D\nad AA1 D\nda D AA1\n3d TH\n")
    assert bench.read_ways(str(path))["ba"] == [("B", "AA"), ("B", "EY")]
    monkeypatch.setattr("sys.argv", ["g2p.py", "--words", "1", str(path)])
    bench.main()
    assert "train: 3 words, dev: 1 words, test: 1 words" in (table := capsys.readouterr().out)
    assert "| mdi g2p | " in table
