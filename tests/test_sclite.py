"""Reports of NIST's sclite and asclite, which Kaldi's recipes of AMI and Switchboard made from synthetic speech."""

import re
import shutil
from pathlib import Path

import pytest
import results
import sclite
import score_reports

from mdi.errors import MdiError
from mdi.speech.wer import confidence, sign_flip_p

REPORTS = Path(__file__).parent / "data" / "sclite"
ALL = sorted(REPORTS.rglob("*.raw"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_rates_are_those_of_the_report_in_percent(path):
    """.sys has the same rows as .raw, in percent with one digit."""
    errors = sclite.read_report(path)
    rows = [re.findall(r"[^\s|]+", line) for line in path.with_suffix(".sys").read_text().splitlines() if "|" in line]
    expected = {row[0].lower(): row[1:] for row in rows if len(row) >= 9}
    assert len(errors.utterances) >= 8
    for i, speaker in enumerate(errors.utterances):
        sentences_words, rate = expected[speaker][:2], expected[speaker][6]
        assert int(sentences_words[1]) == errors.words[i]
        if errors.words[i]:
            assert 100.0 * errors.total[i] / errors.words[i] == pytest.approx(float(rate), abs=0.0501)
    assert errors.rate == pytest.approx(float(expected["sum/avg"][6]), abs=0.0501)


def test_counts_of_a_report():
    # | Sum | 48 408 | 375 25 8 1 34 20 |
    errors = sclite.read_report(REPORTS / "interpolated/ascore_12/dev.ctm.filt.raw")
    assert errors.summary() == "%WER 8.33 [ 34 / 408, 1 ins, 8 del, 25 sub ]"
    assert errors.wrong == 20


def scored(tmp_path, name):
    shutil.copytree(REPORTS / name, tmp_path / name)
    return tmp_path / name


def test_the_best_point_and_its_interval(tmp_path, capsys):
    folder = scored(tmp_path, "interpolated")
    assert score_reports.main(["--points", "12:0.0,13:0.0", "dev", str(folder)]) == 0
    # 34 errors at 12, 33 at 13
    line = f"%WER 8.09 [ 33 / 408, 1 ins, 8 del, 24 sub ] {folder}/ascore_13/dev.ctm.filt.sys\n"
    assert capsys.readouterr().out == line
    details = folder / "scoring_kaldi/wer_details"
    assert (details / "lmwt").read_text() == "13\n"
    assert (details / "wip").read_text() == "0.0\n"
    interval = confidence(sclite.read_report(folder / "ascore_13/dev.ctm.filt.raw"))
    assert (details / "wer_bootci").read_text() == interval.line("Set1").rstrip() + " over 8 speakers\n"
    wer = results.read_wer(folder)
    assert (wer.rate, wer.scorer, wer.unit) == (8.09, "sclite", "speakers")
    assert wer.low < 8.09 < wer.high


def test_the_point_of_another_set_is_the_only_one_looked_at(tmp_path):
    folder = scored(tmp_path, "interpolated")
    sclite.write_scores(folder, "dev", [(12, "0.0")])
    assert (folder / "scoring_kaldi/best_wer").read_text().startswith("%WER 8.33 ")


def test_comparison_is_paired_by_speaker(tmp_path, capsys):
    first, second = scored(tmp_path, "interpolated"), scored(tmp_path, "mdi.2-2-2")
    assert score_reports.main(["--points", "12:0.0,13:0.0", "dev", str(first)]) == 0
    assert score_reports.main(["--points", "12:0.0,13:0.0", "--compare-with", str(first), "dev", str(second)]) == 0
    # each at its own best weight, 13 and 12 (the first of equals): 33 errors and 29, of 408 words
    one = sclite.read_report(first / "ascore_13/dev.ctm.filt.raw")
    two = sclite.read_report(second / "ascore_12/dev.ctm.filt.raw")
    (wer,) = results.read_wer(second).comparisons
    assert wer.difference == pytest.approx(100 * (29 - 33) / 408, abs=0.005)
    assert wer.p == pytest.approx(sign_flip_p(one, two), abs=1e-4)
    assert wer.test == "paired permutation test"
    assert "over 8 speakers" in capsys.readouterr().out


def test_penalties_and_parts_of_a_set(tmp_path):
    """Switchboard: a penalty in the folder's name, and reports of CallHome and Switchboard alone beside that of
    eval2000."""
    folder = scored(tmp_path, "swbd")
    here = folder / "score_16_0.5"
    shutil.copy(here / "eval2000.ctm.filt.raw", here / "eval2000.ctm.swbd.filt.raw")
    shutil.copy(here / "eval2000.ctm.filt.raw", here / "eval2000x.ctm.filt.raw")
    assert sclite.find_report(folder, "eval2000", (16, "0.5")) == here / "eval2000.ctm.filt.raw"
    with pytest.raises(MdiError, match="has failed at this weight"):
        sclite.find_report(folder, "eval2000", (16, "0.0"))


def test_asclite_may_have_words_in_gaps(tmp_path):
    folder = scored(tmp_path, "sdm")
    path = sclite.find_report(folder, "dev", (12, "0.0"))
    assert path.name == "dev_o4.ctm.filt.raw"
    errors = sclite.read_report(path)
    assert errors.utterances[-1] == sclite.GAP
    # another system has none there: the row is empty, and the two can be compared
    lines = path.read_text().splitlines(keepends=True)
    without = [line.replace("   53    408 ", "   48    408 ") for line in lines if "gap" not in line]
    path.write_text("".join(without))
    assert sclite.read_report(path).utterances == errors.utterances
    sclite.write_scores(folder, "dev", [(12, "0.0")])
    assert results.read_wer(folder).scorer == "asclite"
    assert "over 8 speakers" in (folder / "scoring_kaldi/wer_details/wer_bootci").read_text()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace("|    6     56 |", "|    6     57 |"), "do not add up to the Sum"),
        (lambda text: text[: text.index("| Sum")], "no speakers with a Sum"),
        (
            lambda text: text.replace(" 0      3      2 |", " 0      3.5    2 |"),
            "expected a whole number for each of #Snt #Wrd Corr",
        ),
        (lambda text: text.replace(" 0      3      2 |", " 0      3 |"), "expected a whole number for each of #Snt"),
        (
            lambda text: text.replace(" 2      0      3      2 |", " 2      0      4      2 |").replace(
                "   34     20 |", "   35     20 |"
            ),
            "do not add up to Err",
        ),
    ],
)
def test_a_damaged_report_is_refused(tmp_path, capsys, damage, message):
    folder = scored(tmp_path, "interpolated")
    path = folder / "ascore_12/dev.ctm.filt.raw"
    path.write_text(damage(path.read_text()))
    assert score_reports.main(["--points", "12:0.0", "dev", str(folder)]) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "scoring_kaldi").exists()


def test_two_ways_of_scoring_are_not_compared(tmp_path):
    folder, other = scored(tmp_path, "interpolated"), tmp_path / "other"
    sclite.write_scores(folder, "dev", [(12, "0.0")])
    (other / "scoring_kaldi").mkdir(parents=True)
    (other / "scoring_kaldi/best_wer").write_text(f"%WER 9.00 [ 9 / 100, 0 ins, 0 del, 9 sub ] {other}/wer_12_0.0\n")
    with pytest.raises(MdiError, match="not of sclite; to compare with it, remove"):
        sclite.compare(folder, [other])
    shutil.copytree(REPORTS / "swbd", other, dirs_exist_ok=True)
    sclite.write_scores(other, "eval2000", [(16, "0.5")])
    with pytest.raises(MdiError, match="scored on different speakers"):
        sclite.compare(folder, [other])
