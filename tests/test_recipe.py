"""run.sh from data to the table: the demo in miniature, one's own text, Kaldi recipes from both roots,
interruptions."""

from __future__ import annotations

import csv
import gzip
import io
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from recipe import ROOT, leftovers, run

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data"
TEXT = DATA / "text"
QUICK = ("--thresholds", "2-2-2", "--max-settings", "1")


def figures(folder, corpus):
    """(test set, model) -> row of table.csv"""
    text = (Path(folder) / "exp" / corpus / "report" / "table.csv").read_text()
    return {(row["test_set"], row["model"]): row for row in csv.DictReader(io.StringIO(text))}


# ---- the demo, stage by stage: the fixture `tiny` is in conftest.py


def test_every_stage_leaves_its_files(tiny):
    folder, calls = tiny
    exp, data = folder / "exp/demo-tiny/commons", folder / "data/demo-tiny/commons"
    for path in ("train.txt.gz", "vocab.txt", "words.txt", "lexicon.txt", "speech/dev/wav.scp", "background.txt.gz"):
        assert (data / path).exists()
    for path in (
        "lm/in",
        "lm/background",
        "lm/interpolated",
        "mdi/mdi.2-2-2",
        "mdi/prior",
        "mdi/best",
        "first/default",
        "first/mdi",
        "first/best",
    ):
        assert (exp / f"{path}.arpa.gz.json").exists()
    for path in (
        "decode/default/eval",
        "decode/mdi/eval",
        "decode/best/eval",
        "rescore/best/eval",
        "rescore/interpolated/dev",
    ):
        assert (exp / path / "scoring_kaldi" / "best_wer").read_text().startswith("%WER ")
    assert "SYNTHETIC" in calls[7].stdout
    assert "SYNTHETIC" in (data / "speech/dev/README").read_text()
    # adaptation helps on a corpus that was made for it, and the first-pass model keeps its size
    found = figures(folder, "demo-tiny")
    for test_set in ("dev", "eval"):
        assert float(found[test_set, "best"]["ppl"]) < 0.1 * float(found[test_set, "background"]["ppl"])
        default, matched, cut = (float(found[test_set, f"first.{name}"]["ppl"]) for name in ("default", "mdi", "best"))
        assert max(cut, matched) < default
        assert float(found[test_set, "best"]["wer"]) < 35.0
    assert found["dev", "first.mdi"]["ngrams"] == found["dev", "first.default"]["ngrams"]
    assert int(found["dev", "first.best"]["ngrams"]) <= int(found["dev", "first.default"]["ngrams"])
    assert not leftovers(folder)


def test_a_second_run_does_nothing_and_ends_with_the_same_table(tiny):
    folder, calls = tiny
    again = run(folder, "--corpus", "demo", "--tiny", "true")
    assert again.returncode == 0, again.stderr
    assert again.stdout == calls[7].stdout
    assert "iteration" not in again.stderr
    assert again.stderr.count("up to date:") > 40


def test_other_speech_is_decoded_anew(tiny):
    folder, _ = tiny
    exp, data = folder / "exp/demo-tiny/commons", folder / "data/demo-tiny/commons"
    lines = (data / "speech/dev/text").read_text().splitlines(keepends=True)
    (data / "speech/dev/text").write_text("".join(lines[:2]))
    os.utime(data / "speech/dev/wav.scp")
    done = run(folder, "--corpus", "demo", "--tiny", "true", "--stage", 5, "--stop-stage", 5)
    assert done.returncode == 0, done.stderr
    assert "lattices of 2 utterances" in done.stderr
    assert (exp / "decode/mdi/dev/num_jobs").stat().st_mtime > (data / "speech/dev/wav.scp").stat().st_mtime
    assert not (exp / "decode/default/dev/scoring_kaldi").exists()
    assert "eval" not in [line.rsplit("/", 1)[-1] for line in done.stderr.splitlines() if "lattices of" in line]


def test_the_report_is_one_page(tiny):
    folder, _ = tiny
    page = (folder / "exp/demo-tiny/report/index.html").read_text()
    assert "synthetic" in page
    assert page.count("<svg") == 7  # WER and perplexity of two sets, the search for the best, two of convergence
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    for name in ("table.txt", "table.md", "table.tex"):
        assert "Interpolation" in (folder / "exp/demo-tiny/report" / name).read_text()


# ---- one's own text


@pytest.fixture
def own(tmp_path):
    """in.txt, bg.txt.gz, dev.txt: what a user has."""
    (tmp_path / "in.txt").write_bytes(gzip.decompress((TEXT / "in.txt.gz").read_bytes()))
    shutil.copy(TEXT / "bg.txt.gz", tmp_path)
    shutil.copy(TEXT / "dev.txt", tmp_path)
    return tmp_path


def test_own_text_in_another_folder(own):
    """Text only: the perplexity columns of the table."""
    done = run(
        own,
        "--corpus",
        "mine",
        "--in-text",
        "in.txt",
        "--background-text",
        "bg.txt.gz",
        "--dev-text",
        "dev.txt",
        *QUICK,
    )
    assert done.returncode == 0, done.stderr
    found = figures(own, "mine")
    assert (
        float(found["dev", "best"]["ppl"])
        < float(found["dev", "interpolated"]["ppl"])
        < float(found["dev", "background"]["ppl"])
    )
    assert found["dev", "best"]["wer"] == ""
    assert "WER" not in done.stdout
    assert not leftovers(own)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("1", "data/mine/train.txt.gz is missing; stage 0 makes it: run this again with --stage 0"),
        ("3", "is missing; stage 0 makes it"),
        ("7", "no ppl/*.jsonl; stage 7 makes them"),
    ],
)
def test_a_missing_input_names_the_stage_that_makes_it(tmp_path, stage, message):
    done = run(tmp_path, "--corpus", "mine", "--stage", stage)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--help"], 0, ""),
        (["--stgae", "3"], 2, "no option --stgae"),
        (["--stage", "9"], 2, "expected numbers from 0 to 7"),
        (["--corpus", "mine"], 1, "no --in-text"),
        (["--corpus", "mine", "--in-text", "nowhere.txt", "--dev-text", "x"], 1, "nowhere.txt: no such file"),
        (["--corpus", "ami"], 1, "no Kaldi recipe for ami"),
        (["--corpus", "demo", "--in-text", "x"], 2, "--corpus demo has its own texts"),
        (["--in-text", TEXT / "dev.txt", "--lattice-dir", "x"], 1, "--lattice-dir without --data-dir"),
        (["--in-text", TEXT / "dev.txt", "--dev-text", TEXT / "dev.txt"], 1, "no background"),
        (["three"], 2, "'three' is no option"),
    ],
)
def test_wrong_calls_say_what_is_wrong(tmp_path, options, code, message):
    done = run(tmp_path, *options)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    if options == ["--help"]:
        assert done.stdout.startswith("Usage: ./run.sh")


def test_text_in_another_case_is_not_taken(own):
    (own / "in.txt").write_text((own / "in.txt").read_text().upper())
    done = run(own, "--in-text", "in.txt", "--background-text", "bg.txt.gz", "--dev-text", "dev.txt")
    assert done.returncode == 1
    assert "most of the in-domain words do not occur in the background text" in done.stderr
    assert not (own / "exp/mine/lm").exists()


# ---- Kaldi's recipes: trees as the recipes leave them, small models and Kaldi's own lattices in them

TREES = {
    "ami": {
        "recipe": "s5b", "train": "data/ihm/train", "lang": "data/lang_ami_fsh.o3g.kn.pr1-7",
        "lm": "data/local/lm/ami_fsh.o3g.kn.pr1-7.gz",
        "sets": {"data/ihm/dev": "decode_dev", "data/ihm/eval": "decode_eval"},
        "model": "exp/ihm/chain_cleaned/tdnn1j_sp_bi",
    },
    "swbd": {
        "recipe": "s5c", "train": "data/train_nodup", "lang": "data/lang_sw1_tg", "lm": "data/local/lm/sw1.o3g.kn.gz",
        # the last one has its text, but has not been decoded yet
        "sets": {"data/train_dev": "decode_train_dev_sw1_tg", "data/eval2000": "decode_eval2000_sw1_tg",
                 "data/rt03": None},
        "model": "exp/chain/tdnn7q_sp",
    },
    "wsj": {
        "recipe": "s5", "train": "data/train_si284", "lang": "data/lang_test_tgpr",
        "lm": "data/local/nist_lm/lm_tgpr.arpa.gz",
        "sets": {"data/test_dev93": "decode_tgpr_dev93", "data/test_eval92": "decode_tgpr_eval92"},
        "model": "exp/chain/tdnn1g_sp",
    },
}  # fmt: skip


def make_tree(egs, corpus):
    """egs/<corpus>/<recipe> after its own run.sh and chain training."""
    tree = TREES[corpus]
    top = egs / corpus / tree["recipe"]
    for folder in ("steps", "utils", "local", tree["train"], tree["lang"], Path(tree["lm"]).parent):
        (top / folder).mkdir(parents=True, exist_ok=True)
    lines = gzip.decompress((TEXT / "in.txt.gz").read_bytes()).decode().splitlines()
    (top / tree["train"] / "text").write_text("".join(f"train{i:05d} {line}\n" for i, line in enumerate(lines)))
    shutil.copy(DATA / "kaldi/words.txt", top / tree["lang"])
    shutil.copy(DATA / "kaldi/bg.kn.arpa.gz", top / tree["lm"])
    for data, decoded in tree["sets"].items():
        (top / data).mkdir(parents=True)
        shutil.copy(DATA / "lat/refs.txt", top / data / "text")
        utterances = [line.split()[0] for line in (DATA / "lat/refs.txt").read_text().splitlines()]
        (top / data / "utt2spk").write_text("".join(f"{utterance} {utterance}\n" for utterance in utterances))
        if not decoded:
            continue
        (top / tree["model"] / decoded).mkdir(parents=True)
        shutil.copy(DATA / "lat/lats.txt.gz", top / tree["model"] / decoded / "lat.1.gz")
        (top / tree["model"] / decoded / "num_jobs").write_text("1\n")
    return top


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """The three recipes, each called in its own way, at the same time: name -> (folder with exp/, calls)."""
    egs = tmp_path_factory.mktemp("egs")
    tops = {corpus: make_tree(egs, corpus) for corpus in TREES}
    background = ("--background-text", TEXT / "bg.txt.gz", "--case", "")

    def ami():  # cloned beside the recipe: the corpus is the parent folder's name
        clone = egs / "ami" / "mdi"
        for name in ("local", "steps", "utils"):
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "run.sh", clone)
        return clone, [run(clone, *background, *QUICK, script="./run.sh")]

    def swbd():  # standing in the recipe, called by path: first the models, then from stage 3 on
        calls = [run(tops["swbd"], *background, *QUICK, "--stop-stage", 2)]
        return tops["swbd"], [*calls, run(tops["swbd"], *QUICK, "--stage", 3)]

    def wsj():  # a ready background model: stage 3 alone; and a set that the recipe does not have
        sets = "dev93=data/test_dev93 eval92=data/test_eval92 eval93=data/test_eval93"
        ready = ("--background-lm", DATA / "srilm/bg.kni.arpa.gz", "--set-data", sets)
        return tops["wsj"], [
            run(tops["wsj"], *ready, *QUICK, "--stage", 0, "--stop-stage", 0),
            run(tops["wsj"], *ready, *QUICK, "--stage", 3),
        ]

    with ThreadPoolExecutor(3) as pool:
        futures = {name: pool.submit(call) for name, call in (("ami", ami), ("swbd", swbd), ("wsj", wsj))}
        return {name: future.result() for name, future in futures.items()}


@pytest.mark.parametrize(
    ("corpus", "dev", "evaluation"), [("ami", "dev", "eval"), ("swbd", "dev", "eval2000"), ("wsj", "dev93", "eval92")]
)
def test_kaldi_recipes_run_to_the_table(recipes, corpus, dev, evaluation):
    folder, calls = recipes[corpus]
    for call in calls:
        assert call.returncode == 0, call.stderr
    found = figures(folder, corpus)
    # the recipe's lattices at one point, as Kaldi itself scores them (wer.tsv)
    first = folder / "exp" / corpus / "decode/default" / dev
    assert (first / "wer_8_0.0").read_text().startswith("%WER 25.40 [ 48 / 189, 6 ins, 7 del, 35 sub ]")
    assert 0.0 < float(found[evaluation, "best"]["wer"]) < 30.0
    # the same lattices and texts for both sets here: at the point of the development set, the same WER
    assert found[evaluation, "best"]["wer"] == found[dev, "best"]["wer"]
    table = calls[-1].stdout
    assert "paper: Huang et al." in table
    # the difference to the paper's figure is ours minus theirs
    row = found[dev, "mdi.2-2-2"]
    published = {"ami": ("86.6", "19.4"), "swbd": ("94.5", "11.7"), "wsj": ("134.8", "6.2")}[corpus]
    assert (row["paper_ppl"], row["paper_wer"]) == published
    difference = next(line for line in table.splitlines() if " difference " in line).split()
    assert f"{float(row['ppl']) - float(published[0]):+.1f}" in difference
    assert f"{float(row['wer']) - float(published[1]):+.1f}" in difference
    if corpus == "swbd":
        assert "no WER of rt03" in calls[0].stderr
        assert found["rt03", "best"]["wer"] == ""
        assert float(found["rt03", "best"]["ppl"]) > 1.0
    if corpus == "wsj":
        assert ("dev93", "interpolated") not in found
        assert "data/test_eval93/text: the set eval93 is left out" in calls[0].stderr


def test_ambiguous_recipes_are_not_guessed(recipes):
    folder, _ = recipes["swbd"]
    (folder / "exp/chain/tdnn7r_sp").mkdir()
    done = run(folder, "--stage", 3)
    (folder / "exp/chain/tdnn7r_sp").rmdir()
    assert done.returncode == 1
    assert "choose with --model-dir" in done.stderr
