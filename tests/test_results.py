"""The table: figures in their places, the paper's beside them, every format."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pytest
import report
import results


@pytest.fixture
def ami(tmp_path):
    """exp/ami as stage 7 leaves it: two models with WER, one without."""
    exp = tmp_path / "ami"
    (exp / "ppl").mkdir(parents=True)
    (exp / "lm").mkdir()
    for name, ppl in (("background", 300.0), ("interpolated", 80.0), ("mdi.6-4-3", 78.25)):
        rows = [
            {"text": f"data/ami/{s}.txt.gz", "ppl": ppl + i, "oov": 5, "words": 100}
            for i, s in enumerate(("dev", "eval"))
        ]
        (exp / "ppl" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (exp / "lm" / "interpolated.arpa.gz").write_text("")
    certificate = {
        "command": "mix",
        "ngrams": [10, 2000, 5_000_000],
        "worst_sum_gap": 1e-15,
        "seconds": 1,
        "peak_memory_mb": 9,
    }
    (exp / "lm" / "interpolated.arpa.gz.json").write_text(json.dumps(certificate))
    for name, rate, comparison in (
        ("interpolated", 20.0, None),
        ("mdi.6-4-3", 19.0, "Difference of the WERs: -1.00, p = 0.0100 ("),
    ):
        details = exp / "rescore" / name / "eval" / "scoring_kaldi" / "wer_details"
        details.mkdir(parents=True)
        (details.parent / "best_wer").write_text(f"%WER {rate:.2f} [ 20 / 100, 1 ins, 2 del, 17 sub ] wer_8_0.0\n")
        (details / "wer_bootci").write_text(f"Set1: %WER {rate} 95% Conf Interval [ {rate - 1}, {rate + 1} ]\n")
        if comparison:
            (details / "comparison").write_text(comparison)
    return exp


def test_figures_stand_in_their_columns(ami):
    found = results.collect("ami", [ami])
    assert [column.name for column in found.columns] == ["background", "interpolated", "mdi.6-4-3"]
    by_set = {row.test_set: row for row in found.rows}
    assert by_set["dev"].ppl == {"background": 300.0, "interpolated": 80.0, "mdi.6-4-3": 78.25}
    assert by_set["eval"].wer["mdi.6-4-3"] == results.Wer(19.0, 18.0, 20.0, -1.0, 0.01, test="paired permutation test")
    assert by_set["eval"].wer["mdi.6-4-3"].mark == "+"
    assert found.ngrams == {"ami": {"interpolated": 5_002_010}}


def test_kaldis_own_comparison_is_understood(ami):
    folder = ami / "rescore" / "mdi.6-4-3" / "eval"
    text = "Set1: %WER 20.00 95% Conf Interval [ 18, 22 ]\nSet2: %WER 19.00 95% Conf Interval [ 17, 21 ]\n"
    path = folder / "scoring_kaldi" / "wer_details" / "comparison"
    path.write_text(f"{text}Probability of Set2 improving Set1: 98.50\n")
    assert results.read_wer(folder).p == pytest.approx(0.03)  # two-sided: 2 x 1.5%
    assert results.read_wer(folder).mark == "+"
    path.write_text(f"{text}Probability of Set2 improving Set1: 90.00\n")
    assert results.read_wer(folder).mark == ""


def test_the_note_says_how_words_were_counted_and_drawn(ami):
    def note():
        return results.notes(results.collect("ami", [ami]))[0]

    assert note().startswith("WER in %, counted as by compute-wer, ")
    assert "by bootstrap over utterances. " in note()
    assert "paired permutation test, p < 0.05" in note()
    # the evaluation set by sclite, the development set not
    for name in ("interpolated", "mdi.6-4-3"):
        scored = ami / "rescore" / name
        (scored / "dev").mkdir()
        shutil.copytree(scored / "eval/scoring_kaldi", scored / "dev/scoring_kaldi")
        (scored / "eval/scoring_kaldi/best_wer").write_text(
            "%WER 20.00 [ 20 / 100, 1 ins, 2 del, 17 sub ] ascore_9/eval.ctm.filt.sys\n"
        )
    assert "counted as by compute-wer (dev) and sclite (eval)" in note()
    assert "over utterances (dev) and speakers (eval)" in note()
    assert "paired permutation test, p < 0.05" in note()
    (ami / "rescore/mdi.6-4-3/dev/scoring_kaldi/wer_details/comparison").write_text(
        "Set1: %WER 20.00 95% Conf Interval [ 18, 22 ]\nSet2: %WER 19.00 95% Conf Interval [ 17, 21 ]\n"
        "Probability of Set2 improving Set1: 98.50\n"
    )
    assert "paired bootstrap (dev) and paired permutation test (eval), p < 0.05" in note()
    for path in ami.rglob("comparison"):
        path.unlink()
    assert note().endswith("and speakers (eval).")


def test_the_paper_and_the_differences(ami):
    rows = results.lines(results.collect("ami", [ami]))
    fields = [(c.name, what) for c, what in results.fields(results.collect("ami", [ami]))]
    assert fields == [
        ("background", "PPL"),
        *((name, w) for name in ("interpolated", "mdi.6-4-3") for w in ("PPL", "WER")),
    ]
    # eval: ours 301, 81, 20.0, 79.25, 19.0; the paper's 408.8, 77.5, 20.0, 83.9, 19.6
    eval_at = next(i for i, row in enumerate(rows) if row[1] == "eval")
    assert rows[eval_at] == ["ami", "eval", "301.0", "81.0", "20.0", "79.2", "19.0+"]
    assert rows[eval_at + 1] == ["", "95%", "", "", "19.0-21.0", "", "18.0-20.0"]
    assert rows[eval_at + 2] == ["", "paper", "408.8", "77.5", "20.0", "83.9", "19.6"]
    assert rows[eval_at + 3] == ["", "difference", "-107.8", "+3.5", "+0.0", "-4.7", "-0.6"]
    # a corpus that is not the paper's has none
    assert not any(row[1] == "paper" for row in results.lines(results.collect("mine", [ami])))


def test_significance_needs_a_small_p():
    assert results.Wer(19.0, 18.0, 20.0, -1.0, 0.06).mark == ""
    assert results.Wer(21.0, 20.0, 22.0, 1.0, 0.01).mark == "-"
    assert results.Wer(21.0).mark == ""


@pytest.mark.parametrize("kind", list(results.FORMATS))
def test_formats(ami, capsys, kind):
    assert results.main(["--format", kind, str(ami)]) == 0
    out = capsys.readouterr().out
    if kind == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert len(rows) == 6
        assert {row["ppl"] for row in rows if row["model"] == "mdi.6-4-3"} == {"78.2500", "79.2500"}
        return
    lines = out.splitlines()
    if kind == "text":
        assert next(line for line in lines if line.startswith("ami") and " eval " in line).split()[-1] == "19.0+"
    if kind == "markdown":
        assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    if kind == "latex":
        # every line of the body has as many cells as the head
        assert {line.count("&") for line in lines if line.startswith(("ami", "Corpus", " & paper"))} == {6}
    assert "not corrected for the number of comparisons" in out


def test_synthetic_speech_is_called_so(ami, tmp_path):
    assert report.main(["--synthetic", "true", str(ami), str(tmp_path / "report")]) == 0
    for name in ("index.html", "table.txt", "table.md", "table.tex"):
        assert "synthetic" in (tmp_path / "report" / name).read_text().lower()


def test_nothing_to_show_says_which_stage_is_missing(tmp_path, capsys):
    assert results.main([str(tmp_path)]) == 1
    assert "stage 7 makes them" in capsys.readouterr().err
