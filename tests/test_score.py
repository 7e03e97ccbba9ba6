"""Scoring against Kaldi's compute-wer, compute-wer-bootci and its files."""

import csv
import shutil

import numpy as np
import pytest
from lattice_data import LAT, WORDS, best_words

from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.symbols import read_symbols
from mdi.speech.data import read_text
from mdi.speech.wer import compute_wer, confidence, improvement, sign_flip_p

SYMBOLS = read_symbols(WORDS)
REFERENCES = read_text(str(LAT / "refs.txt"))


def kaldi_hypotheses(name, weight, penalty):
    key = (name, str(weight), penalty)
    return {k[3]: SYMBOLS.spell(words) for k, words in best_words().items() if k[:3] == key}


def said(mode_line):
    """The part of compute-wer.txt under '## --mode=...'."""
    parts = (LAT / "compute-wer.txt").read_text().split("## ")
    return next(part.split("\n", 1)[1] for part in parts if part.split("\n", 1)[0] == mode_line)


def test_counts_are_those_of_compute_wer():
    with open(LAT / "wer.tsv") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert len(rows) == 24
    for row in rows:
        errors = compute_wer(REFERENCES, kaldi_hypotheses(row["lats"], row["lmwt"], row["wip"]))
        expected = (row["wer"], row["errors"], row["words"], row["ins"], row["del"], row["sub"])
        assert errors.summary() == "%WER {} [ {} / {}, {} ins, {} del, {} sub ]".format(*expected)
        assert f"%SER {row['ser']} " in errors.report()


@pytest.mark.parametrize("mode", ["present", "all"])
def test_missing_and_empty_hypotheses(mode):
    missing = read_text(str(LAT / "hyp.missing.txt"))
    assert compute_wer(REFERENCES, missing, mode).report() == said(f"--mode={mode}, utt003 missing, utt005 empty")
    assert compute_wer(REFERENCES, kaldi_hypotheses("lats.carpa", 10, "0.0"), mode).report() == said(f"--mode={mode}")


def test_strict_names_what_is_missing():
    with pytest.raises(MdiError, match="no hypothesis for 1 utterances: 'utt003'"):
        compute_wer(REFERENCES, read_text(str(LAT / "hyp.missing.txt")))


def test_bootstrap_is_kaldis_digit_for_digit():
    first, second = (compute_wer(REFERENCES, kaldi_hypotheses(n, 10, "0.0")) for n in ("lats", "lats.carpa"))
    one = confidence(second).line("Set1")
    a, b, better = improvement(first, second)
    both = f"{a.line('Set1')}{b.line('Set2')}Probability of Set2 improving Set1: {better:.2f}\n"
    assert one + "## two systems: old then new\n" + both == (LAT / "compute-wer-bootci.txt").read_text()


def test_permutation_test_is_exact_where_it_can_be_counted():
    """Three utterances with one error less each: of the 8 ways to exchange, 2 are as far apart, so p = 1/4."""
    worse = compute_wer({u: ["a", "b"] for u in "xyz"}, {u: ["a"] for u in "xyz"})
    better = compute_wer({u: ["a", "b"] for u in "xyz"}, {u: ["a", "b"] for u in "xyz"})
    assert sign_flip_p(worse, better) == pytest.approx(0.25, abs=0.02)
    assert sign_flip_p(worse, worse) == 1.0


@pytest.fixture
def folder(tmp_path):
    """A decoding folder and its data."""
    for name in ("dev", "eval"):
        (tmp_path / name).mkdir()
        shutil.copy(LAT / ("lats.txt.gz" if name == "dev" else "lats.carpa.txt.gz"), tmp_path / name / "lat.1.gz")
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(LAT / "refs.txt", data / "text")
    (data / "utt2spk").write_text("".join(f"{u} spk{i % 2}\n" for i, u in enumerate(REFERENCES)))
    return tmp_path


def test_files_are_kaldis(folder, capsys):
    options = ["--words", WORDS, "--min-lmwt", "5", "--max-lmwt", "12", "--word-ins-penalty", "0.0,0.5"]
    assert main(["score", *options, str(folder / "data"), str(folder / "dev")]) == 0
    dev = folder / "dev"
    for weight in (5, 8, 10, 12):
        for penalty in ("0.0", "0.5"):
            errors = compute_wer(REFERENCES, kaldi_hypotheses("lats", weight, penalty))
            assert (dev / f"wer_{weight}_{penalty}").read_text() == errors.report()
    # wer.tsv: the lowest of the eight is 20.63 at 5 / 0.0, which every weight between 5 and 12 has to beat or leave
    best = (dev / "scoring_kaldi" / "best_wer").read_text()
    assert best == f"%WER 20.63 [ 39 / 189, 6 ins, 5 del, 28 sub ] {dev / 'wer_5_0.0'}\n"
    captured = capsys.readouterr()
    assert captured.out == best
    assert "at the edge of the range" in captured.err
    details = dev / "scoring_kaldi" / "wer_details"
    assert (details / "lmwt").read_text() == "5\n"
    assert (details / "wip").read_text() == "0.0\n"
    assert (details / "oracle_wer").read_text() == "%WER 0.00 [ 0 / 189 ]\n"
    assert (details / "depth").read_text() == "Overall density is 33.4646 over 1158 frames.\n"
    lines = (details / "per_utt").read_text().splitlines()
    assert len(lines) == 4 * 20
    counts = np.array([[int(x) for x in line.split()[2:]] for line in lines if " #csid " in line]).sum(0)
    assert counts.tolist() == [189 - 5 - 28, 28, 6, 5]
    operations = [line.split() for line in (details / "ops").read_text().splitlines()]
    assert sum(int(n) for name, *_, n in operations if name == "deletion") == 5
    assert sum(int(n) for name, r, h, n in operations if name == "correct" and r == h) == 189 - 5 - 28
    speakers = (details / "per_spk").read_text().splitlines()
    assert speakers[-1].split() == ["SUM", "sys", "20", "189", "82.54", "14.81", "3.17", "2.65", "20.63", "85.00"]


def test_evaluation_is_scored_only_at_the_point_of_the_development_set(folder, capsys):
    options = ["--words", WORDS, "--min-lmwt", "8", "--max-lmwt", "12", "--word-ins-penalty", "0.0"]
    for name in ("eval", "dev"):  # what a sweep of the evaluation set left behind must not be found
        assert main(["score", *options, str(folder / "data"), str(folder / name)]) == 0
    arguments = ["--tuned-on", str(folder / "dev"), "--compare-with", str(folder / "dev")]
    assert main(["score", "--words", WORDS, *arguments, str(folder / "data"), str(folder / "eval")]) == 0
    written = sorted(p.name for p in (folder / "eval").glob("wer_*"))
    assert written == ["wer_8_0.0"]
    # wer.tsv: lats.carpa at 8 / 0.0
    assert "%WER 20.63 [ 39 / 189, 5 ins, 5 del, 29 sub ]" in (folder / "eval" / "wer_8_0.0").read_text()
    out = capsys.readouterr().out
    assert "Difference of the WERs: -4.76, p = " in out  # 39 - 48 of 189 errors
    # as best_wer has them, and what the figures after them are
    assert f"WERs as scored: 20.63, against 25.40 of {folder / 'dev'}. Below, " in out
    assert out.index("the means of a bootstrap") < out.index("Set1: %WER ")
    assert (folder / "eval" / "scoring_kaldi" / "wer_details" / "comparison").read_text() in out


def test_filters_of_a_recipe(folder):
    program = folder / "wer_filter"
    program.write_text("#!/bin/sh\nsed 's/ w222//g'\n")
    program.chmod(0o755)
    options = ["--words", WORDS, "--min-lmwt", "8", "--max-lmwt", "8", "--word-ins-penalty", "0.0"]
    filters = ["--ref-filter", str(program), "--hyp-filter", str(program)]
    assert main(["score", *options, *filters, str(folder / "data"), str(folder / "dev")]) == 0
    removed = sum(words.count("w222") for words in REFERENCES.values())
    assert f"/ {189 - removed}," in (folder / "dev" / "wer_8_0.0").read_text()


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "data" / "text").write_text("utt999 a\n"), "no hypothesis for 1 utterances: 'utt999'"),
        (lambda f: (f / "data" / "text").write_text(""), "no utterances"),
        (lambda f: (f / "dev" / "lat.1.gz").unlink(), r"no lat\.1\.gz"),
        (lambda f: shutil.copy(f / "dev" / "lat.1.gz", f / "dev" / "lat.2.gz"), "two lattices of utterance utt000"),
    ],
)
def test_what_cannot_be_scored_is_an_error(folder, capsys, break_it, message):
    break_it(folder)
    assert main(["score", "--words", WORDS, str(folder / "data"), str(folder / "dev")]) == 1
    err = capsys.readouterr().err
    assert message.replace("\\", "") in err
    assert not (folder / "dev" / "scoring_kaldi" / "best_wer").exists()


def test_an_unscored_development_set_is_an_error(folder, capsys):
    arguments = [
        "score",
        "--words",
        WORDS,
        "--tuned-on",
        str(folder / "dev"),
        str(folder / "data"),
        str(folder / "eval"),
    ]
    assert main(arguments) == 1
    assert "Run mdi score on it" in capsys.readouterr().err


@pytest.fixture
def heard(tmp_path):
    """A data folder, and words that two recognisers gave."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text").write_text("u1 a b c\nu2 d e\nu3 f\n")
    (tmp_path / "data" / "utt2spk").write_text("u1 s\nu2 s\nu3 s\n")
    for name, text in (("one", "u1 a b c\nu2 d x\nu3\n"), ("two", "u1 a b c\nu2 d e\nu3\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text(text)
    return tmp_path


def test_words_are_scored_in_the_same_files(heard, capsys):
    data, one, two = (str(heard / name) for name in ("data", "one", "two"))
    assert main(["score", "--hyp", "text", data, one]) == 0
    assert main(["score", "--hyp", "text", "--compare-with", one, data, two]) == 0
    said = capsys.readouterr()
    # of six words e is wrong and f is missing; then only f is
    assert f"%WER 33.33 [ 2 / 6, 0 ins, 1 del, 1 sub ] {one}/wer_1_0.0\n" in said.out
    assert f"%WER 16.67 [ 1 / 6, 0 ins, 1 del, 0 sub ] {two}/wer_1_0.0\n" in said.out
    assert "Difference of the WERs: -16.67" in said.out
    assert "oracle" not in said.err
    details = heard / "two" / "scoring_kaldi" / "wer_details"
    assert {path.name for path in details.iterdir()} == {
        "lmwt",
        "wip",
        "per_utt",
        "per_spk",
        "ops",
        "wer_bootci",
        "comparison",
    }


@pytest.mark.parametrize("recordings", [False, True])
def test_a_ctm_is_scored_as_its_text(heard, recordings):
    """u2 begins at 10 s of the recording r that segments cut u1 and u2 from; one word lies where nobody is scored."""
    if recordings:
        (heard / "data" / "wav.scp").write_text("r r.wav\nu3 u3.wav\n")
        (heard / "data" / "segments").write_text("u1 r 0 3\nu2 r 10 -1\nu3 u3 0 -1\n")
        ctm = ";; words\nr 1 10.5 0.2 x 0.5\nr 1 10.1 0.2 d\nr 1 5.0 0.2 noise\n"
        ctm += "r 1 0.1 0.2 a 1\nr 1 0.5 0.2 b 1\nr 1 2.9 0.1 c 1\n"
    else:
        ctm = "u1 1 0.1 0.2 a 1\nu1 1 0.5 0.2 b 1\nu1 1 2.9 0.2 c 1\nu2 1 0.5 0.2 x\nu2 1 0.1 0.2 d\n"
    (heard / "one" / "ctm").write_text(ctm)
    assert main(["score", "--hyp", "ctm", str(heard / "data"), str(heard / "one")]) == 0
    assert (heard / "one" / "wer_1_0.0").read_text().startswith("%WER 33.33 [ 2 / 6, 0 ins, 1 del, 1 sub ]\n")


def test_words_that_cannot_be_scored(heard, capsys):
    data, one = str(heard / "data"), heard / "one"
    for line, message in (
        ("u1 1 0.1 a", "one/ctm:1: 'u1 1 0.1 a'; expected utterance"),
        ("u9 1 0 1 a", "u9 is no utterance"),
    ):
        (one / "ctm").write_text(line + "\n")
        assert main(["score", "--hyp", "ctm", data, str(one)]) == 1
        assert message in capsys.readouterr().err
    assert main(["score", "--hyp", "text", "--tuned-on", str(one), data, str(one)]) == 2
    assert "--tuned-on is for lattices" in capsys.readouterr().err
    assert main(["score", data, str(one)]) == 2
    assert "no --words" in capsys.readouterr().err
