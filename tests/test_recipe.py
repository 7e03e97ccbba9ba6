"""run.sh from data to the table: the very small corpus, one's own text, Kaldi recipes from both roots,
interruptions."""

import csv
import gzip
import io
import os
import re
import shutil
import subprocess
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


# ---- the very small corpus, stage by stage: the fixture `tiny` is in conftest.py


def test_every_stage_leaves_its_files(tiny):
    folder, calls = tiny
    exp, data = folder / "exp/tiny", folder / "data/tiny"
    for path in ("train.txt.gz", "vocab.txt", "words.txt", "lattices/dev/lat.1.gz", "background.txt.gz"):
        assert (data / path).exists()
    for path in (
        "lm/in",
        "lm/background",
        "lm/interpolated",
        "mdi/mdi.2-2-2",
        "mdi/prior",
        "mdi/best",
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
    assert "synthetic" not in calls[7].stdout.lower()  # people have spoken it
    # adaptation helps, in perplexity and in WER, and the first-pass model keeps its size
    found = figures(folder, "tiny")
    for test_set in ("dev", "eval"):
        assert float(found[test_set, "best"]["ppl"]) < 0.12 * float(found[test_set, "background"]["ppl"])
        default, matched, cut = (float(found[test_set, f"first.{name}"]["ppl"]) for name in ("default", "mdi", "best"))
        assert cut < 0.5 * matched < 0.25 * default
        wers = [float(found[test_set, name]["wer"]) for name in ("first.default", "first.best", "best")]
        assert wers[0] > wers[1] >= wers[2]
        assert wers[2] < 20.0
    assert found["dev", "first.mdi"]["ngrams"] == found["dev", "first.default"]["ngrams"]
    assert int(found["dev", "first.best"]["ngrams"]) <= int(found["dev", "first.default"]["ngrams"])
    assert not leftovers(folder)


def test_a_second_run_does_nothing_and_ends_with_the_same_table(tiny):
    folder, calls = tiny
    again = run(folder, "--corpus", "tiny")
    assert again.returncode == 0, again.stderr
    assert again.stdout == calls[7].stdout
    assert "iteration" not in again.stderr
    assert again.stderr.count("up to date:") > 40


def test_the_report_is_one_page(tiny):
    folder, _ = tiny
    page = (folder / "exp/tiny/report/index.html").read_text()
    assert "synthetic" not in page
    assert page.count("<svg") == 7  # WER and perplexity of two sets, the search for the best, two of convergence
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    for name in ("table.txt", "table.md", "table.tex"):
        assert "Interpolation" in (folder / "exp/tiny/report" / name).read_text()


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
        (["--corpus", ".."], 2, "--corpus ..; expected letters, digits, dots and dashes, a letter or digit first"),
        (["--tiny", "yes"], 2, "--tiny yes; expected true or false"),
        (["--in-text", TEXT / "dev.txt", "--tiny", "true"], 2, "--corpus tiny has its own texts"),
        (["--corpus", "demo", "--tiny", "true"], 2, "--tiny true is a corpus of its own"),
        (["--corpus", "mine", "--backend", "sphinx"], 2, "--backend sphinx; expected one of kaldi mdi vosk"),
        (["--corpus", "demo", "--in-text", "x"], 2, "--corpus demo has its own texts"),
        (["--corpus", "dialogue", "--language", "fr"], 2, "--language fr; only --corpus prompts speaks it"),
        (["--corpus", "prompts", "--language", "xx"], 1, "--language xx; expected en, fr or ru"),
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


def test_every_language_has_folders_of_its_own(tmp_path):
    for options, corpus in (([], "prompts"), (["--language", "ru"], "prompts-ru")):
        done = run(tmp_path, "--corpus", "prompts", *options, "--dry-run", "true", "--stop-stage", 0)
        assert f"data ({corpus}," in done.stderr
        assert f"data/{corpus}/prepared" in done.stdout + done.stderr


def test_text_in_another_case_is_not_taken(own):
    (own / "in.txt").write_text((own / "in.txt").read_text().upper())
    done = run(own, "--in-text", "in.txt", "--background-text", "bg.txt.gz", "--dev-text", "dev.txt")
    assert done.returncode == 1
    assert "most of the in-domain words do not occur in the background text" in done.stderr
    assert not (own / "exp/mine/lm").exists()


def test_a_folder_above_is_nobodys_corpus(tmp_path):
    """`--corpus ..` worked in exp/.., whose temporary files it took for its own."""
    (tmp_path / "exp").mkdir()
    (tmp_path / ".of-the-user.tmp").write_text("")
    assert run(tmp_path, "--corpus", "..", "--stage", 7).returncode == 2
    assert (tmp_path / ".of-the-user.tmp").exists()


# ---- options: a variable that is declared is an option, and has its line in --help

SCRIPTS = [
    path.relative_to(ROOT)
    for path in sorted([ROOT / "run.sh", *ROOT.glob("steps/*.sh"), *ROOT.glob("utils/*.sh"), *ROOT.glob("local/*.sh")])
    if re.search(r"^parse_options ", path.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_every_option_is_in_help_with_its_default(script):
    text = (ROOT / script).read_text().split("\nparse_options ")[0]
    declared = re.findall(r"^([a-z][a-z0-9_]*)=(\S*|\"[^\"]*\")  # (.*)$", text, re.MULTILINE)
    done = run(ROOT, "--help", script=ROOT / script)
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: {'./' if str(script) == 'run.sh' else ''}{script}")
    shown = re.findall(r"^  (--[a-z0-9-]+) ", done.stdout, re.MULTILINE)
    assert shown == [f"--{name.replace('_', '-')}" for name, _, _ in declared]
    for name, default, comment in declared:
        line = next(row for row in done.stdout.splitlines() if row.startswith(f"  --{name.replace('_', '-')} "))
        assert comment in line
        if default.strip('"') and "$" not in default and "\n " not in done.stdout.split(comment)[1][:30]:
            assert line.endswith(f"({default})")
    # nothing that looks like an option is left undocumented: declarations have their comment
    top = text[text.index("set -euo pipefail") :]
    assert re.findall(r"^[a-z][a-z0-9_]*=\S* [a-z]\S*=.*  # ", top, re.MULTILINE) == []


def test_help_fits_two_screens_and_settings_of_recipes_are_options_too(tmp_path):
    assert len(run(ROOT, "--help").stdout.splitlines()) <= 48
    done = run(tmp_path, "--min-lmwt", "many", "--dry-run", "true")
    assert (done.returncode, "--min-lmwt many; expected a number, such as 7" in done.stderr) == (2, True)
    (tmp_path / "mine.conf").write_text("min_lmwt=5 decode_step=x.sh\nno_such=1\n")
    done = run(tmp_path, "--conf", tmp_path / "mine.conf", "--corpus", "mine")
    assert done.returncode == 1
    assert "mine.conf:2: 'no_such=1'; no option --no-such" in done.stderr


def test_all_scripts_share_the_parser():
    assert len(SCRIPTS) >= 12
    for path in [ROOT / "run.sh", *ROOT.glob("steps/*.sh"), *ROOT.glob("local/*.sh")]:
        assert path.relative_to(ROOT) in SCRIPTS


# ---- what is up to date, and what is not


def stage_0(folder, *options):
    """Whether stage 0 was done (again)."""
    done = run(folder, *options, "--stop-stage", 0)
    assert done.returncode == 0, done.stderr
    return "up to date: data/mine/prepared" not in done.stderr


def test_stage_0_is_done_again_when_something_changes(own):
    texts = ("--in-text", "in.txt", "--dev-text", "dev.txt")
    background = own / "background"
    background.mkdir()
    spelled = str.maketrans("0123456789", "abcdefghij")  # digits would be read out
    for name in ("in.txt", "dev.txt"):
        (own / name).write_text((own / name).read_text().translate(spelled))
    text = gzip.decompress((own / "bg.txt.gz").read_bytes()).decode().translate(spelled)
    for path in (own / "bg.txt.gz", background / "one.txt.gz"):
        path.write_bytes(gzip.compress(text.encode()))
    folder = (*texts, "--background-text", "background", "--case", "lower")
    assert stage_0(own, *folder)
    assert not stage_0(own, *folder)
    assert not stage_0(own, *folder, "--nj", "1")  # the same result
    shutil.copy(background / "one.txt.gz", background / "two.txt.gz")  # one more file
    assert stage_0(own, *folder)
    (background / "two.txt.gz").unlink()
    assert stage_0(own, *folder)
    file = (*texts, "--background-text", "bg.txt.gz")
    assert stage_0(own, *file)
    assert stage_0(own, *file, "--case", "lower")
    # an older file in its place
    shutil.copy(own / "dev.txt", own / "other.txt")
    (own / "other.txt").write_text((own / "other.txt").read_text() * 2)
    os.utime(own / "other.txt", (1, 1))
    (own / "other.txt").rename(own / "dev.txt")
    assert stage_0(own, *file, "--case", "lower")


def test_other_lattices_or_other_references_are_noticed(own):
    data, lattices = own / "speech", own / "decoded"
    data.mkdir()
    lattices.mkdir()
    shutil.copy(DATA / "lat/refs.txt", data / "text")
    names = [line.split()[0] for line in (DATA / "lat/refs.txt").read_text().splitlines()]
    (data / "utt2spk").write_text("".join(f"{name} {name}\n" for name in names))
    shutil.copy(DATA / "lat/lats.txt.gz", lattices / "lat.1.gz")
    options = (
        "--in-text",
        "in.txt",
        "--background-text",
        "bg.txt.gz",
        "--data-dir",
        "speech",
        "--lattice-dir",
        "decoded",
        "--words",
        DATA / "kaldi/words.txt",
        "--default-lm",
        DATA / "kaldi/bg.kn.arpa.gz",
    )
    assert stage_0(own, *options)
    (lattices / "log").mkdir()  # of no interest
    assert not stage_0(own, *options)
    os.utime(lattices / "lat.1.gz")
    assert stage_0(own, *options)
    (data / "text").write_text((data / "text").read_text().replace(" w0", " w0", 1))
    assert stage_0(own, *options)
    assert not stage_0(own, *options)


@pytest.fixture
def adapted(own):
    """One's own text up to stage 3, with two sets of thresholds."""
    options = ("--in-text", "in.txt", "--background-text", "bg.txt.gz", "--dev-text", "dev.txt")
    options = (*options, "--thresholds", "2-2-2,5-3-2", "--max-settings", "1")
    done = run(own, *options, "--stop-stage", 3)
    assert done.returncode == 0, done.stderr
    return own, options


def test_a_model_that_was_removed_is_made_again(adapted):
    own, options = adapted
    gone = own / "exp/mine/mdi/mdi.5-3-2.arpa.gz"
    gone.unlink()
    done = run(own, *options, "--stage", 3, "--stop-stage", 3)
    assert done.returncode == 0, done.stderr
    assert gone.exists()
    assert "up to date: exp/mine/mdi/best.arpa.gz" in done.stderr


def test_every_step_has_a_log(adapted):
    own, options = adapted
    for name in ("lm/log/in", "lm/log/background", "lm/log/interpolated", "mdi/log/adapt_mdi", "mdi/log/best"):
        lines = (own / f"exp/mine/{name}.log").read_text().splitlines()
        assert lines[0].startswith("# '")
        assert re.fullmatch(r"# in \S+, began \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", lines[1])
        assert re.fullmatch(r"# ended \d{4}-\d\d-\d\d \d\d:\d\d:\d\d after \d+ s, exit code 0", lines[-1])
        assert len(lines) > 3
    assert "is in order" in (own / "data/mine/log/prepare_and_validate.log").read_text()
    # what goes wrong is in a log that the message names
    (own / "data/mine/train.txt.gz").write_bytes(b"\x1f\x8b broken")
    done = run(own, *options, "--stage", 1, "--stop-stage", 1)
    assert done.returncode == 1
    log = re.search(r"exit code 1; its log: (\S+)", done.stderr)[1]
    assert "broken gzip stream" in (own / log).read_text()
    assert (own / log).read_text().endswith("exit code 1\n")
    assert "broken gzip stream" in done.stderr


def test_a_corpus_that_is_called_like_the_demo_is_ones_own(own):
    texts = ("--in-text", "in.txt", "--background-text", "bg.txt.gz", "--dev-text", "dev.txt")
    done = run(own, "--corpus", "demo2", *texts, "--stop-stage", 0)
    assert done.returncode == 0, done.stderr
    assert gzip.decompress((own / "data/demo2/train.txt.gz").read_bytes()) == (own / "in.txt").read_bytes()


def test_words_end_at_blanks_and_tabs_alone(own):
    """As for mdi adapt: an ideographic space is part of a word."""
    (own / "in.txt").write_text((own / "in.txt").read_text() + "w000\u3000w001\tw002  w003\r\n")
    done = run(own, "--in-text", "in.txt", "--background-text", "bg.txt.gz", "--dev-text", "dev.txt", "--stop-stage", 0)
    assert done.returncode == 0, done.stderr
    vocabulary = (own / "data/mine/vocab.txt").read_text().split("\n")
    assert "w000\u3000w001" in vocabulary
    assert "w003" in vocabulary


def test_text_that_is_not_utf8_is_named(own):
    (own / "in.txt").write_bytes((own / "in.txt").read_bytes() + "caf\u00e9 olé\n".encode("latin-1"))
    line = (own / "in.txt").read_bytes().count(b"\n")
    done = run(own, "--in-text", "in.txt", "--background-text", "bg.txt.gz", "--dev-text", "dev.txt")
    assert done.returncode == 1
    assert f"in.txt:{line}: not UTF-8: 'café olé' if it is Latin-1; expected text in UTF-8" in done.stderr
    assert "letter case" not in done.stderr


def test_a_large_vocabulary_takes_no_longer_than_reading(tmp_path, monkeypatch):
    """The set of all words was made again for every in-domain word: with 40,000 of them, for half a minute."""
    import time

    import prepare_corpus

    words = [f"word{i}" for i in range(40_000)]
    for name in ("in", "bg", "dev"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{' '.join(words[i : i + 20])}\n" for i in range(0, 40_000, 20)))
    monkeypatch.chdir(tmp_path)
    start = time.process_time()
    options = ["--in-text", "in.txt", "--background-text", "bg.txt", "--text", "dev=dev.txt"]
    assert prepare_corpus.main([*options, "out"]) == 0
    assert time.process_time() - start < 5
    assert len((tmp_path / "out/vocab.txt").read_text().split()) == 40_000


def test_prepare_data_is_told_by_options(own):
    done = run(
        own,
        "--in-text",
        "in.txt",
        "--background-text",
        "bg.txt.gz",
        "--dev-text",
        "dev.txt",
        "--vocab-size",
        "10",
        "out",
        script=ROOT / "local/prepare_data.sh",
        in_text="nowhere.txt",
        corpus="demo",
    )
    assert done.returncode == 0, done.stderr
    checked = run(own, "out", script=ROOT / "utils/validate_data.sh")
    assert checked.returncode == 0, checked.stderr


# ---- a look ahead


def test_dry_run_names_all_that_is_missing_and_makes_nothing(tmp_path):
    done = run(tmp_path, "--dry-run", "true", "--in-text", "nowhere.txt", "--lattice-dir", "x", "--backend", "kaldi")
    assert done.returncode == 1
    for message in (
        "nowhere.txt: no such file",
        "no background: give --background-text",
        "no development set",
        "--lattice-dir without --data-dir",
        "--lattice-dir without --words",
        "--lattice-dir without --default-lm",
        "programs that are not on PATH: arpa2fst",
    ):
        assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_dry_run_says_what_would_be_done_and_what_it_costs(adapted):
    own, options = adapted
    before = {path: path.stat().st_mtime_ns for path in own.rglob("*")}
    (own / "exp/mine/mdi/prior.arpa.gz").unlink()
    del before[own / "exp/mine/mdi/prior.arpa.gz"], before[own / "exp/mine/mdi"]
    done = run(own, "--dry-run", "true", *options)
    assert done.returncode == 0, done.stderr
    assert "up to date: lm/in.arpa.gz lm/background.arpa.gz" in done.stderr
    assert "to be made: mdi/prior.arpa.gz" in done.stderr
    assert "to be made: first/default.arpa.gz" in done.stderr
    assert re.search(r"stage 3 +MDI +\d+ s +0\.\d GB", done.stderr)
    after = {path: path.stat().st_mtime_ns for path in own.rglob("*")}
    del after[own / "exp/mine/mdi"]
    assert after == before
    # of what a later stage needs, the first thing
    done = run(own, "--dry-run", "true", "--corpus", "other", "--stage", 3)
    assert done.returncode == 1
    assert "data/other/train.txt.gz is missing; stage 0 makes it" in done.stderr


def test_another_clone_leaves_the_environment_alone(tmp_path):
    (tmp_path / ".installed-from").write_text("/of/another/clone\n")
    command = f"set -euo pipefail; . {ROOT}/utils/setup.sh; echo went on"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "MDI_VENV": str(tmp_path)}
    )
    assert done.returncode == 1
    assert f"{tmp_path} is the environment of /of/another/clone, not of {ROOT}" in done.stderr
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == [".installed-from"]


# ---- Kaldi's recipes: trees as the recipes leave them, small models and Kaldi's own lattices in them

TREES = {
    "ami": {
        "recipe": "s5b",
        "train": "data/ihm/train",
        "lang": "data/lang_ami_fsh.o3g.kn.pr1-7",
        "lm": "data/local/lm/ami_fsh.o3g.kn.pr1-7.gz",
        "sets": {"data/ihm/dev": "decode_dev", "data/ihm/eval": "decode_eval"},
        "model": "exp/ihm/chain_cleaned/tdnn1j_sp_bi",
    },
    "swbd": {
        "recipe": "s5c",
        "train": "data/train_nodup",
        "lang": "data/lang_sw1_tg",
        "lm": "data/local/lm/sw1.o3g.kn.gz",
        # the last one has its text, but has not been decoded yet
        "sets": {
            "data/train_dev": "decode_train_dev_sw1_tg",
            "data/eval2000": "decode_eval2000_sw1_tg",
            "data/rt03": None,
        },
        "model": "exp/chain/tdnn7q_sp",
    },
    "wsj": {
        "recipe": "s5",
        "train": "data/train_si284",
        "lang": "data/lang_test_tgpr",
        "lm": "data/local/nist_lm/lm_tgpr.arpa.gz",
        "sets": {"data/test_dev93": "decode_tgpr_dev93", "data/test_eval92": "decode_tgpr_eval92"},
        "model": "exp/chain/tdnn1g_sp",
    },
}


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
    *_, compared = (line.split() for line in table.splitlines() if "MDI (2-2-2)" in line)  # the second table
    assert f"{float(row['ppl']) - float(published[0]):+.1f}" in compared
    assert f"{float(row['wer']) - float(published[1]):+.1f}" in compared
    # the LM weights that the recipe itself tries
    least, most = {"ami": (5, 15), "swbd": (5, 17), "wsj": (7, 17)}[corpus]
    weights = sorted(int(path.name.split("_")[1]) for path in first.glob("wer_*_0.0"))
    assert (weights[0], weights[-1]) == (least, most)
    if corpus == "swbd":
        assert "left out: the WER of rt03: no lattices in" in calls[0].stderr
        assert found["rt03", "best"]["wer"] == ""
        assert float(found["rt03", "best"]["ppl"]) > 1.0
    if corpus == "wsj":
        assert ("dev93", "interpolated") not in found
        assert re.search(r"left out: the set eval93, as there is no \S+/data/test_eval93/text", calls[0].stderr)


def test_ambiguous_recipes_are_not_guessed(recipes):
    folder, _ = recipes["swbd"]
    (folder / "exp/chain/tdnn7r_sp").mkdir()
    done = run(folder, "--stage", 3)
    (folder / "exp/chain/tdnn7r_sp").rmdir()
    assert done.returncode == 1
    assert "choose with --model-dir" in done.stderr


def empty_tree(top: Path) -> Path:
    """A recipe of which nothing was run."""
    for folder in ("steps", "utils", "local"):
        (top / folder).mkdir(parents=True)
    return top


def test_all_that_a_recipe_lacks_is_named_at_once(tmp_path):
    top = empty_tree(tmp_path / "egs/ami/s5b")
    done = run(top, "--stop-stage", 2)
    assert done.returncode == 1
    assert "data/lang_*.pr1-7/words.txt is not there; the recipe's run_prepare_shared.sh makes it" in done.stderr
    assert "data/ihm/train/text is not there; the recipe's run.sh --mic ihm makes it" in done.stderr
    assert "data/ihm/dev/text is not there" in done.stderr
    assert "the WER of dev: no lattices in" in done.stderr
    assert "(local/chain/run_tdnn.sh --mic ihm makes them)" in done.stderr
    assert "no background: give --background-text" in done.stderr
    assert not (top / "exp").exists()
    done = run(top, "--dry-run", "true", "--backend", "kaldi")
    assert "run_prepare_shared.sh" in done.stderr
    assert "no acoustic model" in done.stderr
    assert "programs that are not on PATH: arpa2fst" in done.stderr
    assert "to be made: lm/in.arpa.gz" in done.stderr
    assert not (top / "exp").exists()
    done = run(top, "--dry-run", "true", "--background-text", TEXT / "bg.txt.gz")
    assert "data/ihm/train/text is not there" in done.stderr
    assert "time and memory: unknown, as there are no texts yet" in done.stderr
    assert "Errno" not in done.stderr


def test_a_recipe_without_its_model_is_not_sent_in_a_circle(tmp_path):
    """It was: "stage 1 makes it", and stage 1 said "stage 0 makes it"."""
    top = make_tree(tmp_path, "ami")
    (top / TREES["ami"]["lm"]).unlink()
    background = ("--background-text", TEXT / "bg.txt.gz", "--case", "")
    for options in (("--dry-run", "true"), ("--dry-run", "true", "--stage", "3"), ()):
        done = run(top, *background, *options)
        assert done.returncode == 1
        assert (
            "the model of the lattices, is not there; run_prepare_shared.sh makes it, or give --default-lm"
            in done.stderr
        )
        assert "stage 1 makes it" not in done.stderr
    # without lattices nobody needs it: perplexities
    for path in top.rglob("lat.1.gz"):
        path.unlink()
    for lang in ((), ("--lang", TREES["ami"]["lang"])):
        done = run(top, *background, *lang, "--dry-run", "true")
        assert done.returncode == 0, done.stderr
        assert "left out:\n  - the WER of dev: no lattices in" in done.stderr
        assert "is missing" not in done.stderr


def test_a_dry_run_of_a_later_stage_names_what_the_first_one_lacks(tmp_path):
    top = empty_tree(tmp_path / "egs/ami/s5b")
    done = run(top, "--dry-run", "true", "--stage", "3")
    assert done.returncode == 1
    assert f"{top}/data/ihm/train/text is not there; the recipe's run.sh --mic ihm makes it" in done.stderr
    assert "no background: give --background-text" in done.stderr
    assert "data/ami/train.txt.gz is missing; stage 0 makes it" in done.stderr


def test_another_recipe_of_the_same_corpus_is_not_taken(tmp_path):
    """egs/swbd/s5 is not egs/swbd/s5c."""
    top = empty_tree(tmp_path / "egs/swbd/s5")
    done = run(top, "--stop-stage", 0)
    assert done.returncode == 1
    assert f"{top} is not s5c" in done.stderr
    # unless one says that it is laid out in the same way
    assert "data/lang_sw1_tg/words.txt is not there" in run(top, "--recipe", "s5", "--stop-stage", 0).stderr
