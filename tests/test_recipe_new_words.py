"""run.sh with words that the recogniser does not know: added to all models (--new-words add), and as one more model
beside the others."""

import os
import random
import shutil
import tarfile
from pathlib import Path

import pytest
from recipe import leftovers, run
from test_recipe import DATA, QUICK, figures

from mdi.fst.formats import load
from mdi.fst.symbols import read_symbols

pytestmark = pytest.mark.slow
REAL = os.environ.get("MDI_VOSK_MODEL", "")


def test_the_very_small_corpus(tmp_path):
    """Its lattices are there already: the language models learn the words, the recogniser does not."""
    done = run(tmp_path, "--tiny", "true", "--new-words", "add", *QUICK)
    assert done.returncode == 0, done.stderr
    exp, data = tmp_path / "exp/tiny-new-words", tmp_path / "data/tiny-new-words"
    rows = [row.split("\t") for row in (data / "new_words.tsv").read_text().splitlines()[1:]]
    new = [row[0] for row in rows]
    assert {"digium", "touchtone"} < set(new)
    assert not any(row[2] for row in rows)  # no pronunciations
    # at the end of the table: what the lattices call the others stays
    before = (Path(__file__).parent.parent / "local/tiny/words.txt").read_text().splitlines()
    after = (data / "words.txt").read_text().splitlines()
    assert sorted(after[: len(before)]) == sorted(before)
    assert {line.split()[0] for line in after[len(before) :]} == set(new)
    for name in ("lm/interpolated", "mdi/mdi.2-2-2", "mdi/prior", "mdi/best", "first/mdi", "first/best"):
        model = load(str(exp / f"{name}.arpa.gz"))
        assert all(word in model for word in new), name
    found = figures(tmp_path, "tiny-new-words")
    assert int(found["eval", "best"]["oov"]) < int(found["eval", "first.default"]["oov"])
    row = found["eval", "first.best"]
    assert (row["new_added"], row["new_right"], row["new_false"]) == ("0", "0", "0")
    assert int(row["new_said"]) > 0
    assert float(row["wer_with_new"]) > float(row["wer_without_new"])
    assert "new words said" in done.stdout
    assert not leftovers(tmp_path)


def test_a_kaldi_recipe(tmp_path):
    """Its lang folder gets the words, with their sounds, and every model is over the larger words.txt. Without Kaldi
    there is nothing to decode with: perplexities."""
    top = tmp_path / "egs/wsj/s5"
    with tarfile.open(DATA / "lang.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    for name in ("steps", "utils", "local", "data/train_si284", "data/test_dev93", "data/test_eval92"):
        (top / name).mkdir(parents=True)
    shutil.copytree(tmp_path / "lang", top / "data/lang_test_tgpr")
    draw = random.Random(1)
    known = ["a", "bad", "bade", "be", "bed", "bet", "tube"]
    for name, words, number in (
        ("train_si284", [*known, "tubed"], 300),
        ("test_dev93", [*known, "tubed"], 60),
        ("test_eval92", [*known, "tubed", "never"], 60),
    ):
        lines = [f"{name}-{i:03d} {' '.join(draw.choices(words, k=draw.randint(2, 6)))}\n" for i in range(number)]
        (top / "data" / name / "text").write_text("".join(lines))
        (top / "data" / name / "utt2spk").write_text("".join(f"{line.split()[0]} x\n" for line in lines))
    (tmp_path / "bg.txt").write_text("".join(f"{' '.join(draw.choices(known, k=5))}\n" for _ in range(300)))
    lexicon = tmp_path / "mine.txt"
    lexicon.write_text("tubed T UW B D\n")
    options = ("--background-text", tmp_path / "bg.txt", "--case", "", "--new-words", "add", "--lexicon", lexicon)
    done = run(top, *options, *QUICK)
    assert done.returncode == 0, done.stderr
    assert read_symbols(str(top / "data/lang_test_tgpr_mdi/words.txt")).ids["tubed"] == 13  # after those of before
    assert "tubed" not in read_symbols(str(top / "data/lang_test_tgpr/words.txt")).ids
    assert (top / "data/wsj/new_words.tsv").read_text().splitlines()[1].startswith("tubed\t")
    assert "T UW B D" in (top / "data/wsj/new_words.tsv").read_text()
    for name in ("lm/in", "lm/background", "lm/interpolated", "mdi/mdi.2-2-2", "mdi/prior", "mdi/best", "first/best"):
        model = load(str(top / f"exp/wsj/{name}.arpa.gz"))
        assert "tubed" in model, name
        assert "never" not in model
    found = figures(top, "wsj")
    assert found["dev93", "best"]["oov"] == "0"
    assert float(found["dev93", "prior"]["ppl"]) < float(found["dev93", "background"]["ppl"])
    # what is up to date is not made again
    again = run(top, *options, *QUICK, "--stop-stage", 3)
    assert again.returncode == 0, again.stderr
    assert "iteration" not in again.stderr


def test_the_demo_has_no_new_words(tmp_path):
    done = run(tmp_path, "--corpus", "demo", "--new-words", "add", "--backend", "mdi")
    assert done.returncode == 1
    assert "--new-words add: the texts of the demo have no new words" in done.stderr


@pytest.mark.skipif(not REAL, reason="MDI_VOSK_MODEL names no directory of a Vosk model")
@pytest.mark.parametrize("new_words", ["map", "add"])
def test_a_vosk_model(tmp_path, new_words):
    """One more model beside the others, which knows the words; or all of them do."""
    speech = tmp_path / "speech"
    speech.mkdir()
    sounds = sorted((DATA / "speech").glob("*.wav"))
    (speech / "wav.scp").write_text("".join(f"{sound.stem} {sound}\n" for sound in sounds))
    (speech / "utt2spk").write_text("".join(f"{sound.stem} {sound.stem}\n" for sound in sounds))
    texts = (DATA / "speech/text").read_text()
    (speech / "text").write_text(texts)
    said = [" ".join(line.split()[1:]) for line in texts.splitlines()]
    (tmp_path / "in.txt").write_text("".join(f"{line}\nthe zamboodle said {line}\n" for line in said) * 3)
    done = run(
        tmp_path,
        *("--in-text", "in.txt", "--data-dir", "speech", "--vosk-model", REAL, "--new-words", new_words),
        *("--min-lmwt", 9, "--max-lmwt", 11, *QUICK),
    )
    assert done.returncode == 0, done.stderr
    corpus = "mine" if new_words == "map" else "mine-new-words"
    found = figures(tmp_path, corpus)
    exp, data = tmp_path / "exp" / corpus, tmp_path / "data" / corpus
    assert ("first.new_words" in {model for _, model in found}) == (new_words == "map")
    table = (exp / "graph/new_words" if new_words == "map" else data) / "new_words.tsv"
    word, count, pronounced, *_ = table.read_text().splitlines()[1].split("\t")
    assert (word, count) == ("zamboodle", str(3 * len(said)))
    assert pronounced
    for name in ("prior", "best"):
        assert ("zamboodle" in load(str(exp / f"mdi/{name}.arpa.gz"))) == (new_words == "add")
        assert found["dev", f"first.{name}"]["new_said"] == "0"  # nobody says it here
    taught = exp / "graph" / ("new_words" if new_words == "map" else "best") / "graph"
    assert "zamboodle" in read_symbols(str(taught / "Gr.fst")).ids
    row = found["dev", "first.new_words" if new_words == "map" else "first.best"]
    assert (row["new_right"], row["new_false"]) == ("0", "0")
    assert float(row["wer"]) <= float(found["dev", "first.default"]["wer"])
    assert ("ANOTHER VOCABULARY" in done.stdout) == (new_words == "map")
    assert "New words" in (exp / "report/index.html").read_text()
