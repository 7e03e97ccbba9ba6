"""Folds of scenes, and the table of a cross-validation."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "local"))
import cross_validate
import folds
import untranscribed
from recorded_speech import Line, Utterance

import mdi
from mdi.errors import MdiError
from mdi.lm.train import train


def lines_of(seed: int, scenes: int) -> list[Line]:
    """Short lines, many of which occur more than once, in scenes of different sizes and one of descriptions."""
    rng, found = np.random.default_rng(seed), []
    for scene in [*(f"S{i}" for i in range(scenes)), "JOE"]:
        for i in range(int(rng.integers(1, 25))):
            words = [f"w{w}" for w in rng.integers(0, 6, rng.integers(1, 5))]
            name = f"{scene}{i:03d}"
            sound = (np.zeros(160), 16000)
            found.append((Utterance(scene, "someone", name, " ".join(words), lambda sound=sound: sound), words))
    return found


def text(line: Line) -> str:
    return " ".join(line[1])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(2, 6), wanted=st.integers(5, 60))
def test_a_fold_shares_no_scene_and_no_line_with_its_text(seed, n, wanted):
    lines = lines_of(seed, 40)
    try:
        made = folds.make_folds(lines, ("JOE",), n, wanted, 0, 0.35, seed)
    except MdiError:  # too few lines that occur in one fold alone
        reject()
    tests = [{line[0].name for line in fold.test} for fold in made]
    assert len(set.union(*tests)) == sum(map(len, tests)) >= wanted
    every = [text(line) for fold in made for line in fold.test]
    assert len(every) == len(set(every))
    for k, fold in enumerate(made):
        scenes = {part: {line[0].scene for line in getattr(fold, part)} for part in ("train", "dev", "test")}
        texts = {part: {text(line) for line in getattr(fold, part)} for part in ("train", "dev", "test")}
        for one, other in itertools.combinations(("train", "dev", "test"), 2):
            assert not scenes[one] & scenes[other]
            assert not texts[one] & texts[other]
        assert "JOE" in scenes["train"]
        # what is developed on is decoded for another fold's test anyway
        assert {line[0].name for line in fold.dev} <= tests[(k + 1) % n]
    assert made == folds.make_folds(lines, ("JOE",), n, wanted, 0, 0.35, seed)


def test_more_than_there_is():
    with pytest.raises(MdiError, match="fewer than 10,000 utterances are fit for a test"):
        folds.make_folds(lines_of(1, 30), ("JOE",), 3, 10_000, 0, 0.35, 1)


def test_folders_are_written(tmp_path):
    made = folds.make_folds(lines_of(1, 30), ("JOE",), 3, 12, 0, 0.35, 1)
    folds.write_folds(tmp_path, made, {f"w{i}" for i in range(5)})
    (tmp_path / "folds").write_text("1 2 3\n")
    found = cross_validate.Folds(tmp_path)
    assert found.numbers == ["1", "2", "3"]
    assert sorted(found.references) == sorted(u for k in found.numbers for u in found.set(k, "test"))
    for k, fold in zip(found.numbers, made, strict=True):
        for name in ("dev", "test"):
            expected = {f"someone-{line[0].name}": line[1] for line in getattr(fold, name)}
            assert found.data(k, name).text() == expected
            assert {found.scenes[u] for u in expected} == {line[0].scene for line in getattr(fold, name)}
            for recording in found.data(k, name).recordings().values():
                assert Path(recording.absolute()).exists()


def write_scores(folder: Path, name: str, errors: list[int], scenes: str) -> None:
    folder.mkdir(exist_ok=True)
    rows = [f"u{i:02d}\t1\t{scene}\t10\t{n}" for i, (scene, n) in enumerate(zip(scenes, errors, strict=True))]
    (folder / f"{name}.tsv").write_text("\n".join(["utterance\tfold\tscene\twords\terrors", *rows]) + "\n")


def test_permutations_by_scene_are_those_that_can_be_counted():
    """Exact: all ways to exchange the two systems in whole scenes."""
    gain = np.array([3, -1, 2, 4, 0, 1])
    signs = np.array(list(itertools.product((-1, 1), repeat=6)))
    exact = float((np.abs(signs @ gain) >= abs(gain.sum())).mean())
    assert cross_validate.permutation_p(gain) == pytest.approx(exact, abs=0.005)
    assert cross_validate.permutation_p(np.zeros(5, int)) == 1.0


def test_the_table(tmp_path, capsys):
    scores = tmp_path / "scores"
    write_scores(scores, "own", [4, 4, 4, 4], "aabb")
    write_scores(scores, "best", [2, 2, 4, 4], "aabb")
    assert cross_validate.main(["table", "--baseline", "own", str(scores)]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert ["best", "30.00", "12 / 40"] in rows
    (row,) = (row for row in rows if row[0] == "best" and len(row) == 8)
    # of two scenes one differs: either sign is as far; of four utterances two: half of the signs
    assert row[:4] == ["best", "30.00", "own", "-25.0%"]
    assert float(row[6]) == pytest.approx(1.0)
    assert float(row[7]) == pytest.approx(0.5, abs=0.01)
    assert cross_validate.main(["table", str(tmp_path)]) == 1


def test_words_of_a_first_pass_are_scored_by_fold(tmp_path):
    made = folds.make_folds(lines_of(2, 30), ("JOE",), 3, 12, 0, 0.35, 1)
    folds.write_folds(tmp_path / "data", made, set())
    (tmp_path / "data" / "folds").write_text("1 2 3\n")
    found = cross_validate.Folds(tmp_path / "data")
    for k in found.numbers:
        (tmp_path / k).mkdir()
        rows = [f"{u} {' '.join(words[1:])}\n" for u, words in found.data(k, "test").text().items()]
        (tmp_path / k / "text").write_text("".join(rows))
    command = ["score", str(tmp_path / "data"), str(tmp_path / "{}"), str(tmp_path / "scores"), "x"]
    assert cross_validate.main(command) == 0
    scored = cross_validate.read_errors(tmp_path / "scores" / "x.tsv")
    assert scored.errors.tolist() == [1] * len(found.references)  # the first word of each is missing
    assert scored.words.sum() == sum(map(len, found.references.values()))
    assert json.dumps(sorted(scored.utterances)) == json.dumps(sorted(found.references))


def test_adaptation_to_what_was_recognised(tmp_path, capsys):
    """Of each utterance the recogniser prefers a sequence without its first word to the right one, by little: at its
    own weight the own model has these errors, and no utterance is sure."""
    data, decoded = tmp_path / "data", tmp_path / "decoded"
    folds.write_folds(data, folds.make_folds(lines_of(2, 30), ("JOE",), 3, 12, 0, 0.35, 1), {"w0"})
    (data / "folds").write_text("1 2 3\n")
    found = cross_validate.Folds(data)
    words = ["<eps>", *(f"w{i}" for i in range(6)), "#0", "<s>", "</s>"]
    (data / "words.txt").write_text("".join(f"{word} {i}\n" for i, word in enumerate(words)))
    sentences = [[f"w{i}", f"w{j}"] for i in range(6) for j in range(6)]
    mdi.save(train(sentences, order=2, smoothing="wb"), data / "background.arpa.gz")
    decoded.mkdir()
    rows = []
    for utterance, said in found.references.items():
        heard = [(said[1:], 20.0), (said, 19.9)]
        alternatives = [
            {"confidence": score, "result": [{"word": w, "start": i, "end": i + 1} for i, w in enumerate(text)]}
            for text, score in heard
        ]
        row = {"utterance": utterance, "sound": [], "seconds": 1.0, "overshoot": 0.0}
        rows.append(json.dumps(row | {"answers": [{"alternatives": alternatives}]}) + "\n")
    (decoded / "results.1.jsonl").write_text("".join(rows))
    assert untranscribed.main([str(data), str(decoded)]) == 0
    table = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    rate = 100 * len(found.references) / sum(map(len, found.references.values()))
    assert table[0][0] == "own"
    assert float(table[0][2]) == pytest.approx(rate, abs=0.01)
    by_name = {name: figures for name, *figures in table}
    assert by_name["expected counts, sure utterances only"] == by_name["own"]  # none is
    assert len({tuple(figures) for figures in by_name.values()}) == len(by_name) - 1
    (decoded / "results.1.jsonl").write_text(rows[0])
    assert untranscribed.main([str(data), str(decoded)]) == 1
    assert "a fold has no n-best lists" in capsys.readouterr().err
