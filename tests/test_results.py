"""The table: figures in their places, the paper's beside them, every format."""

import csv
import gzip
import html
import io
import json
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import draw_gains
import draw_results
import pytest
import recipe_files
import report
import results


@pytest.fixture
def ami(tmp_path):
    """exp/ami as stage 7 leaves it: two models with WER, one without."""
    exp = tmp_path / "ami"
    (exp / "ppl").mkdir(parents=True)
    (exp / "lm").mkdir()
    for name, ppl in (("background", 300.0), ("in", 110.0), ("interpolated", 80.0), ("mdi.6-4-3", 78.25)):
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
    trained = {**certificate, "command": "train", "ngrams": [10], "words": 2000, "sentences": 300}
    (exp / "lm" / "in.arpa.gz.json").write_text(json.dumps(trained))
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
    frame = results.collect("ami", [ami]).frame.set_index(["test_set", "model"])
    assert list(frame.loc["dev"].index) == ["background", "in", "interpolated", "mdi.6-4-3"]
    assert frame.ppl["dev"].to_list() == [300.0, 110.0, 80.0, 78.25]
    row = frame.loc["eval", "mdi.6-4-3"]
    assert (row.wer, row.wer_low, row.wer_high, row.difference, row.p) == (19.0, 18.0, 20.0, -1.0, 0.01)
    assert (row.mark, row.test) == ("+", "paired permutation test")
    assert frame.ngrams["dev", "interpolated"] == 5_002_010
    assert frame.ngrams.isna().sum() == 4  # of the models that are not there


def test_folders_of_one_name_are_two_corpora(ami, tmp_path):
    shutil.copytree(ami, tmp_path / "other" / "ami")
    found = results.cells(results.collect("x", [ami, tmp_path / "other" / "ami", ami]))
    assert list(found.index.get_level_values(0).unique()) == [str(ami), str(tmp_path / "other" / "ami")]


def test_kaldis_own_comparison_is_understood(ami):
    folder = ami / "rescore" / "mdi.6-4-3" / "eval"
    text = "Set1: %WER 20.00 95% Conf Interval [ 18, 22 ]\nSet2: %WER 19.00 95% Conf Interval [ 17, 21 ]\n"
    path = folder / "scoring_kaldi" / "wer_details" / "comparison"
    path.write_text(f"{text}Probability of Set2 improving Set1: 98.50\n")
    assert recipe_files.read_wer(folder).comparisons[0].p == pytest.approx(0.03)  # two-sided: 2 x 1.5%
    assert recipe_files.read_wer(folder).comparisons[0].mark == "+"
    path.write_text(f"{text}Probability of Set2 improving Set1: 90.00\n")
    assert recipe_files.read_wer(folder).comparisons[0].mark == ""


def test_two_baselines_have_a_table_of_their_own(ami):
    assert results.comparison_cells(results.collect("ami", [ami])).empty
    folder = ami / "rescore" / "mdi.6-4-3" / "eval"
    (folder / "scoring_kaldi" / "wer_details" / "comparison").write_text(
        "".join(
            f"Set1: %WER {old} 95% Conf Interval [ 1, 2 ]\nSet2: %WER 19.00 95% Conf Interval [ 1, 2 ]\n"
            f"Difference of the WERs: {19 - old:+.2f}, p = {p} (paired permutation test, two-sided)\n"
            f"Set1 is exp/ami/{where}/eval, Set2 is {folder}\n"
            for old, p, where in ((20.0, "0.0600", "rescore/interpolated"), (25.0, "0.0001", "decode/default"))
        )
    )
    found = results.collect("ami", [ami])
    row = found.frame.set_index(["test_set", "model"]).loc["eval", "mdi.6-4-3"]
    assert (row.difference, row.p, row.mark) == (-1.0, 0.06, "")  # the first is the group's baseline
    assert (row.difference_default, row.p_default) == (-6.0, 0.0001)
    table = results.comparison_cells(found).loc["ami"]
    assert table.index.get_level_values(1).to_list() == ["MDI (6-4-3)"]
    shown = ["-6.0 (-24.0%)", "0.0001", "-1.0 (-5.0%)", "0.0600"]
    assert table["eval"].iloc[0].to_list() == shown
    for text in (results.as_text(found), results.as_markdown(found), results.as_latex(found).replace("\\%", "%")):
        assert all(cell in text for cell in shown)


def test_libvosks_words_and_its_lattices_are_two_groups(ami):
    """What it says at its own LM weight, and n-best lists at that of the development set."""
    for folder, rate in (("heard", 19.5), ("decode", 18.5)):
        details = ami / folder / "best" / "eval" / "scoring_kaldi" / "wer_details"
        details.mkdir(parents=True)
        (details.parent / "best_wer").write_text(f"%WER {rate:.2f} [ 20 / 100, 1 ins, 2 del, 17 sub ] wer_8_0.0\n")
    shutil.copy(ami / "ppl" / "in.jsonl", ami / "ppl" / "first.best.jsonl")
    found = results.collect("ami", [ami])
    rows = found.frame[found.frame.test_set == "eval"].set_index("model")
    assert rows.wer["first.best"] == 19.5
    assert rows.wer["weighted.best"] == 18.5
    groups = rows.group[["first.best", "weighted.best", "mdi.6-4-3"]]
    assert groups.to_list() == ["First pass", "LM weight", "Rescoring"]
    assert any("what libvosk says" in note for note in results.notes(found))


def test_the_note_says_how_words_were_counted_and_drawn(ami):
    def note():
        return results.notes(results.collect("ami", [ami]))[1]

    assert note().startswith("WER: word error rate; ")
    assert " In %, counted as by compute-wer, " in note()
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
    found = results.collect("ami", [ami])
    ours, paper = results.cells(found).loc["ami"], results.paper_cells(found).loc["ami"]
    assert list(ours.columns) == [("dev", "PPL"), ("eval", "PPL"), ("eval", "WER"), ("eval", "95%"), ("", "n-grams")]
    # eval: ours 301, 111, 81, 20.0, 79.25, 19.0; the paper's 408.8, none, 77.5, 20.0, 83.9, 19.6
    expected = {
        "No adapt.": (["301.0", "", ""], ["408.8", "-107.8", "", ""]),
        "In-domain": (["111.0", "", ""], None),
        "Interpolation": (["81.0", "20.0 ", "19.0-21.0"], ["77.5", "+3.5", "20.0", "+0.0"]),
        "MDI (6-4-3)": (["79.2", "19.0+", "18.0-20.0"], ["83.9", "-4.7", "19.6", "-0.6"]),
    }
    for label, (mine, published) in expected.items():
        assert ours.loc[("Rescoring", label), "eval"].to_list() == mine
        assert (label in paper.index.get_level_values(1)) == (published is not None)
        if published:
            assert paper.loc[("Rescoring", label), "eval"].to_list() == published
    # a corpus that is not the paper's has none
    assert not len(results.paper_cells(results.collect("mine", [ami])))


def test_significance_needs_a_small_p():
    assert recipe_files.Comparison(-1.0, 0.06, "test").mark == ""
    assert recipe_files.Comparison(1.0, 0.01, "test").mark == "-"


@pytest.mark.parametrize("kind", list(results.FORMATS))
def test_formats(ami, capsys, kind):
    assert results.main(["--format", kind, str(ami)]) == 0
    out = capsys.readouterr().out
    assert "In-domain" in out
    if kind == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert len(rows) == 8
        assert {row["ppl"] for row in rows if row["model"] == "mdi.6-4-3"} == {"78.25", "79.25"}
        assert {row["ngrams"] for row in rows if row["model"] == "interpolated"} == {"5002010"}
        assert {row["wer"] for row in rows if row["model"] == "in"} == {""}
        return
    lines = out.splitlines()
    if kind == "text":
        assert lines[:6] == [
            "                               dev   eval",
            "                               PPL    PPL    WER        95% n-grams",
            "ami Rescoring No adapt.      300.0  301.0",
            "              In-domain      110.0  111.0                        10",
            "              Interpolation   80.0   81.0  20.0   19.0-21.0      5M",
            "              MDI (6-4-3)     78.2   79.2  19.0+  18.0-20.0",
        ]
    if kind == "markdown":
        tables = out.split("\n\n")[:2]
        assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in tables)
    assert "not corrected for the number of comparisons" in " ".join(out.split())


def test_latex_is_escaped_and_rectangular(ami, tmp_path):
    strange = tmp_path / "50%_of & #1"
    ami.rename(strange)
    text = results.as_latex(results.collect("ami", [strange]))
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert "50\\%\\_of \\& \\#1" in body
    assert "95\\%" in body
    tables = re.findall(r"\\begin{tabular}{(l+r+)}(.*?)\\end{tabular}", body, re.DOTALL)
    assert len(tables) == 2  # ours, and the paper's
    for columns, rows in tables:
        for row in re.findall(r"(.*)\\\\$", rows, re.MULTILINE):
            spans = sum(int(n) - 1 for n in re.findall(r"\\multicolumn{(\d+)}", row))
            assert len(re.split(r"(?<!\\)&", row)) + spans == len(columns)
    if shutil.which("pdflatex"):
        document = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}\n{text}\n\\end{{document}}\n"
        (tmp_path / "t.tex").write_text(document)
        done = subprocess.run(["pdflatex", "-interaction=batchmode", "t.tex"], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, (tmp_path / "t.log").read_text()


# ---- a picture


def test_a_picture_of_perplexities_or_wers(ami, tmp_path, capsys):
    table, out = tmp_path / "table.csv", tmp_path / "out.svg"
    found = results.collect("ami", [ami])
    table.write_text(results.as_csv(found))
    assert draw_results.main([str(table), "eval", str(out)]) == 0
    picture = out.read_text()
    assert all(text in picture for text in ("Interpolation", "79.2", "perplexity"))
    # no first pass in this table
    assert draw_results.main(["--measure", "wer", str(table), "eval", str(out)]) == 1
    assert "no WERs of the first pass of the test set eval" in capsys.readouterr().err
    found.frame["model"] = "first." + found.frame.model
    table.write_text(results.as_csv(found))
    assert draw_results.main(["--measure", "wer", str(table), "eval", str(out)]) == 0
    assert all(text in out.read_text() for text in ("20.0", "19.0", "WER in %, 95% interval"))


def test_the_picture_of_readme_has_the_figures_of_its_table(tmp_path):
    root = Path(__file__).parent.parent
    out = tmp_path / "out.svg"
    assert draw_gains.main([str(root / "README.md"), str(out)]) == 0
    models, panels = draw_gains.read_table(str(root / "README.md"), "Does it help?")
    assert len(panels) >= 4
    for picture in (out.read_text(), (root / "utils/figures/does-it-help.svg").read_text()):
        shown = re.findall(r">([^<>]+)</text>", picture)
        figures = [text for text in shown if re.fullmatch(r"[0-9.]+", text)]
        again = "draw it again: utils/draw_gains.py README.md utils/figures/does-it-help.svg"
        assert figures == [value for values in panels.values() for value in values.values()], again
        assert [text for text in shown if text in models] == models
        assert "prefers-color-scheme: dark" in picture


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("## Other\n| a |\n", "no table below a heading 'Does it help?'"),
        ("## Does it help?\nno\n", "no table below a heading"),
        ("## Does it help?\n| | | own |\n|---|---|---|\n| x | WER | much |\n", "'x' has ['much']; expected a figure"),
    ],
)
def test_a_page_without_figures_is_not_drawn(tmp_path, capsys, page, message):
    (tmp_path / "page.md").write_text(page)
    assert draw_gains.main([str(tmp_path / "page.md"), str(tmp_path / "out.svg")]) == 1
    assert message in capsys.readouterr().err


# ---- the page


def page_of(*parts, options=()):
    out = parts[0].parent / "report"
    assert report.main([*options, *map(str, parts), str(out)]) == 0
    return (out / "index.html").read_text()


def as_words(page):
    """Without its marks."""
    return " ".join(
        html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))).split()
    )


def test_the_headline(ami):
    """The best on dev, judged on eval: 79.25 against 81 and 111; WER 19.0 against 20.0."""
    page = page_of(ami, options=["--command", "./run.sh --x '<y>'"])
    words = as_words(page)
    assert f"The best model is {ami}/mdi/mdi.6-4-3.arpa.gz , “MDI (6-4-3)” in the table" in words
    assert 'href="../ami/mdi/mdi.6-4-3.arpa.gz"' in page
    assert "-73.7% perplexity of eval: 301.0 to 79.2, against the model as it was" in words
    assert "-2.2% perplexity of eval: 81.0 to 79.2, against interpolation" in words
    assert "-28.6% perplexity of eval: 111.0 to 79.2, against a model of the in-domain text alone" in words
    assert (
        "-5.0% word error rate of eval: 20.0 to 19.0%, against interpolation, the usual way to adapt (signif" in words
    )
    assert "Perplexity : a word is as hard to predict as one drawn from so many" in words
    assert "./run.sh --x '<y>'" in words
    assert "100 words, 5.00% outside the vocabulary" in words
    assert "in-domain text 2,000 words in 300 sentences" in words
    assert f"{datetime.now():%B %Y}" in words


def test_no_gain_is_called_so(ami):
    """The in-domain model alone is the best: the page does not hide it."""
    rows = [json.loads(line) for line in (ami / "ppl" / "in.jsonl").read_text().splitlines()]
    for row in rows:
        row["ppl"] = 70.0
    (ami / "ppl" / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = as_words(page_of(ami))
    assert "lm/in.arpa.gz , “In-domain” in the table" in words
    assert "Adaptation gained nothing here" in words


def test_a_run_without_speech_is_not_headed_by_rescoring(ami):
    shutil.rmtree(ami / "rescore")
    for path in (ami / "ppl").iterdir():  # and with a development set only
        path.write_text(path.read_text().splitlines()[0])
    words = as_words(page_of(ami, options=["--corpus", "mine"]))
    assert "Large models" in words
    assert "Rescoring" not in words
    assert "WER" not in words
    assert "There is no evaluation set: the figures are of dev" in words


def test_every_figure_shows_the_in_domain_model(ami):
    certificate = {
        "command": "adapt",
        "ngrams": [9],
        "worst_sum_gap": 0,
        "seconds": 1,
        "peak_memory_mb": 9,
        "constraints": 7,
    }
    (ami / "mdi").mkdir()
    for name, constraints in (("mdi.6-4-3", 70), ("mdi.2-2-2", 7000), ("best", 80)):
        (ami / "mdi" / f"{name}.arpa.gz.json").write_text(json.dumps({**certificate, "constraints": constraints}))
    for name in ("mdi.2-2-2", "best"):
        shutil.copy(ami / "ppl" / "mdi.6-4-3.jsonl", ami / "ppl" / f"{name}.jsonl")
    (ami / "mdi" / "best.arpa.gz.search.tsv").write_text(
        "min_counts\tsigma2\tppl_mixed\tchosen\n2-2-2\tnone\t77.5\t\n6-4-3\t1\t77.25\t*\n"
    )
    page = page_of(ami)
    figures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(figures) == 6  # WER of eval; perplexity and thresholds of dev and eval; the search
    assert sum("In-domain" in figure for figure in figures) == 5
    assert "2-2-2" in figures[3]
    assert "6-4-3, sigma2 1" in figures[5]
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_two_distances_have_two_names(ami):
    """With a prior the solver's L1 is small and the distance to the targets is not."""
    (ami / "mdi").mkdir()
    steps = [{"iteration": i, "objective": 0.1 * i, "l1": 10.0**-i, "seconds": 0.1} for i in (1, 2, 3)]
    certificate = {
        "command": "adapt",
        "ngrams": [9],
        "worst_sum_gap": 0,
        "seconds": 1,
        "peak_memory_mb": 9,
        "constraints": 7,
        "constraints_dropped": {"why": 2},
        "iterations": 3,
        "distance_to_targets": 0.56,
        "steps": steps,
        "kl_to_background": 0.5,
    }
    (ami / "mdi" / "prior.arpa.gz.json").write_text(json.dumps(certificate))
    page = page_of(ami)
    words = as_words(page)
    assert "constraints dropped iterations solver's L1 distance to targets KL to background seconds" in words
    assert "mdi/prior.arpa.gz mdi adapt 9 0.0e+00 7 2 3 0.001 0.56 0.500 1.0" in words
    assert 'href="../ami/mdi/prior.arpa.gz.json"' in page
    assert "a prior keeps the model away from the targets of rare n-grams on purpose" in words


def test_what_moved_most_is_of_the_best_model_that_has_a_table(ami):
    (ami / "mdi").mkdir()
    header = "ngram\torder\tcount\ttarget\tmarginal_before\tmarginal_after\tlambda\n"
    for name, ppl, word in (("2-2-2", 90.0, "worse"), ("prior", 77.0, '<s> "quoted'), ("6-4-3", None, "middle")):
        with gzip.open(ami / "mdi" / f"constraints.{name}.tsv.gz", "wt") as stream:
            stream.write(f"{header}{word}\t1\t5\t0.5\t0.1\t0.4\t1.5\nNA\t1\t5\t0.5\t0\t0.01\t1.5\n")
        if ppl:
            rows = [{"text": f"{s}.txt", "ppl": ppl, "oov": 0, "words": 9} for s in ("dev", "eval")]
            model = name if name == "prior" else f"mdi.{name}"
            (ami / "ppl" / f"{model}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = page_of(ami)
    words = as_words(page)
    assert "The largest changes of the model “MDI, prior”: " in words
    assert '<s> "quoted 5 0.5 0.1 0.4 +0.3 4 1.500 NA 5 0.5 0 0.01 +0.01 1.500' in words
    assert 'href="../ami/mdi/constraints.prior.tsv.gz"' in page
    # another model is better, but has no table
    (ami / "mdi" / "constraints.prior.tsv.gz").unlink()
    assert "of the model “MDI (6-4-3)”, the best on dev of those for which" in as_words(page_of(ami))


def test_words_of_the_domain_come_first(ami):
    """The largest changes are of uh and the; what the text is about has become many times likelier."""
    (ami / "mdi").mkdir()
    with gzip.open(ami / "mdi" / "constraints.6-4-3.tsv.gz", "wt") as stream:
        stream.write(
            "ngram\torder\tcount\ttarget\tmarginal_before\tmarginal_after\tlambda\n"
            "uh\t1\t90\t0.09\t0.03\t0.08\t1\n"  # not five times as likely
            "<unk>\t1\t80\t0.08\t0.001\t0.07\t1\n"  # no word
            "the remote\t2\t70\t0.07\t0.0001\t0.06\t1\n"  # no single word
            "remote\t1\t40\t0.04\t0.0001\t0.02\t1\n"
            "lcd\t1\t50\t0.05\t0.0002\t0.01\t1\n"
            "typo\t1\t2\t0.002\t0.00001\t0.001\t1\n"  # too rare
        )
    words = as_words(page_of(ami))
    shown = words[words.index("Words of the domain: ") : words.index("Words and sequences of words of all kinds")]
    assert shown.endswith("lcd 50 1 in 5,000 1 in 100 50 remote 40 1 in 10,000 1 in 50 200 ")


def test_a_page_of_few_models(ami):
    """A ready background and no in-domain model; one part is not there yet, one perplexity is infinite."""
    (ami.parent / "later").mkdir()
    for name in ("in", "interpolated"):
        (ami / "ppl" / f"{name}.jsonl").unlink()
    rows = [{"text": f"{s}.txt", "ppl": float("inf"), "oov": 0, "words": 9} for s in ("dev", "eval")]
    (ami / "ppl" / "background.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (ami / "mdi").mkdir()
    (ami / "mdi" / "best.arpa.gz.search.tsv").write_text(
        "min_counts\tsigma2\tppl_mixed\tchosen\n2-2-2\tnone\t77.5\t*\n"
    )
    words = as_words(page_of(ami, ami.parent / "later", options=["--corpus", "mine"]))
    assert "mdi/mdi.6-4-3.arpa.gz , “MDI (6-4-3)” in the table" in words
    assert "against the in-domain model" not in words
    assert "In-domain: " not in words


def test_links_of_the_page_lead_somewhere(ami):
    (ami / "mdi").mkdir()
    (ami / "mdi" / "mdi.6-4-3.arpa.gz").write_text("")
    page = page_of(ami)
    links = re.findall(r'<a href="([^"]+)"', page)
    assert len(links) >= 6
    for link in links:
        assert (ami.parent / "report" / link).exists(), link


def test_without_matplotlib_there_are_tables_and_a_message(ami, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report.charts, "available", lambda: False)
    assert report.main([str(ami), str(tmp_path / "report")]) == 1
    assert "pip install 'mdi-lm[report]'" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == sorted(report.FILES.values())


def test_synthetic_speech_is_called_so(ami, tmp_path):
    assert report.main(["--synthetic", "true", str(ami), str(tmp_path / "report")]) == 0
    for name in ("index.html", "table.txt", "table.md", "table.tex"):
        assert "synthetic" in (tmp_path / "report" / name).read_text().lower()


def test_nothing_to_show_says_which_stage_is_missing(tmp_path, capsys):
    assert results.main([str(tmp_path)]) == 1
    assert "stage 7 makes them" in capsys.readouterr().err


def test_words_are_no_html(tmp_path):
    import mdi as package

    (tmp_path / "text").write_text("<script>x</script> a\na <script>x</script>\n" * 5)
    background = package.train([tmp_path / "text"], order=2)
    adapted = package.adapt(background, tmp_path / "text", 1, sigma2=1)
    assert "<script>" not in adapted._repr_html_()
    assert "&lt;script&gt;" in adapted._repr_html_()
