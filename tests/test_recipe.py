"""run.sh from data to the table: the demo in miniature, one's own text, Kaldi recipes from both roots, interruptions."""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
TEXT = DATA / "text"
QUICK = ("--thresholds", "2-2-2", "--max-settings", "1")


def environment():
    variables = {k: v for k, v in os.environ.items() if k not in ("KALDI_ROOT", "egs_dir")}
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    return variables


def run(folder, *options, script=ROOT / "run.sh"):
    command = ["bash", str(script), *map(str, options)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment(), timeout=600)


def figures(folder, corpus):
    """(test set, model) -> row of table.csv"""
    text = (Path(folder) / "exp" / corpus / "report" / "table.csv").read_text()
    return {(row["test_set"], row["model"]): row for row in csv.DictReader(io.StringIO(text))}


def leftovers(folder):
    """Files of the kind that an interrupted write leaves under its temporary name, other than records of what ran."""
    return [p for p in Path(folder).rglob("*.tmp") if not p.name.endswith(".made.tmp")]


# ---- the demo, stage by stage


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The tiny demo, one call a stage."""
    folder = tmp_path_factory.mktemp("tiny")
    calls = []
    for stage in range(8):
        calls.append(run(folder, "--corpus", "demo", "--tiny", "true", "--stage", stage, "--stop-stage", stage))
        assert calls[-1].returncode == 0, calls[-1].stderr
    return folder, calls


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
    ):
        assert (exp / f"{path}.arpa.gz.json").exists()
    for path in ("decode/default/eval", "decode/mdi/eval", "rescore/best/eval", "rescore/interpolated/dev"):
        assert (exp / path / "scoring_kaldi" / "best_wer").read_text().startswith("%WER ")
    assert "SYNTHETIC" in calls[7].stdout
    assert "SYNTHETIC" in (data / "speech/dev/README").read_text()
    # adaptation helps on a corpus that was made for it, and the first-pass model keeps its size
    found = figures(folder, "demo-tiny")
    for test_set in ("dev", "eval"):
        assert float(found[test_set, "best"]["ppl"]) < 0.1 * float(found[test_set, "background"]["ppl"])
        assert float(found[test_set, "first"]["ppl"]) < float(found[test_set, "default"]["ppl"])
        assert float(found[test_set, "best"]["wer"]) < 35.0
    assert found["dev", "first"]["ngrams"] == found["dev", "default"]["ngrams"]
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
    assert page.count("<svg") == 5  # WER of two sets, the search for the best, two of convergence
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


OWN = ("--corpus", "mine", "--in-text", "in.txt", "--background-text", "bg.txt.gz", "--dev-text", "dev.txt", *QUICK)


def test_killed_at_any_time_it_goes_on_to_the_same_table(own, tmp_path_factory):
    whole = tmp_path_factory.mktemp("whole")
    for name in ("in.txt", "bg.txt.gz", "dev.txt"):
        shutil.copy(own / name, whole)
    begun = time.monotonic()
    expected = run(whole, *OWN)
    seconds = time.monotonic() - begun
    assert expected.returncode == 0, expected.stderr
    chance = random.Random(1)
    for share in (0.2, 0.7):
        command = ["bash", str(ROOT / "run.sh"), *OWN]
        process = subprocess.Popen(
            command, cwd=own, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(seconds * 0.4 * (share + 0.1 * chance.random()))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = run(own, *OWN)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected.stdout
    # no half-written model: each of them is read and sums to one
    for path in (own / "exp").rglob("*.arpa.gz"):
        checked = subprocess.run(["mdi", "check", path], capture_output=True, text=True, env=environment())
        assert checked.returncode == 0, checked.stdout


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
        (["three"], 2, "'three' is no option"),
    ],
)
def test_wrong_calls_say_what_is_wrong(tmp_path, options, code, message):
    done = run(tmp_path, *options)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    if options == ["--help"]:
        assert done.stdout.startswith("Usage: ./run.sh")


# ---- Kaldi's recipes: trees as the recipes leave them, small models and Kaldi's own lattices in them

TREES = {
    "ami": {
        "recipe": "s5b", "train": "data/ihm/train", "lang": "data/lang_ami_fsh.o3g.kn.pr1-7",
        "lm": "data/local/lm/ami_fsh.o3g.kn.pr1-7.gz", "sets": {"data/ihm/dev": "decode_dev", "data/ihm/eval": "decode_eval"},
        "model": "exp/ihm/chain_cleaned/tdnn1j_sp_bi",
    },
    "swbd": {
        "recipe": "s5c", "train": "data/train_nodup", "lang": "data/lang_sw1_tg", "lm": "data/local/lm/sw1.o3g.kn.gz",
        "sets": {"data/train_dev": "decode_train_dev_sw1_tg", "data/eval2000": None},  # not decoded yet
        "model": "exp/chain/tdnn7q_sp",
    },
    "wsj": {
        "recipe": "s5", "train": "data/train_si284", "lang": "data/lang_test_tgpr", "lm": "data/local/nist_lm/lm_tgpr.arpa.gz",
        "sets": {"data/test_dev93": "decode_tgpr_dev93", "data/test_eval92": None},
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

    def wsj():  # a ready background model: stage 3 alone
        ready = ("--background-lm", DATA / "srilm/bg.kni.arpa.gz")
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
    if corpus != "ami":
        assert f"no WER of {evaluation}" in calls[0].stderr
        assert found[evaluation, "best"]["wer"] == ""
        assert float(found[evaluation, "best"]["ppl"]) > 1.0
    else:
        assert 0.0 < float(found[evaluation, "best"]["wer"]) < 30.0
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
        assert "data/rt03/text: the set rt03 is left out" in calls[0].stderr
    if corpus == "wsj":
        assert ("dev93", "interpolated") not in found


def test_ambiguous_recipes_are_not_guessed(recipes):
    folder, _ = recipes["swbd"]
    (folder / "exp/chain/tdnn7r_sp").mkdir()
    done = run(folder, "--stage", 3)
    (folder / "exp/chain/tdnn7r_sp").rmdir()
    assert done.returncode == 1
    assert "choose with --model-dir" in done.stderr
