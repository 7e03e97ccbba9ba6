"""The speech steps as scripts, with mdi and, where KALDI_ROOT has its programs, with Kaldi beside it."""

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from goldens import GOOD
from lattice_data import KALDI, LAT, WORDS, best_costs, best_words

from mdi.cli import main
from mdi.speech.lattice import best_path
from mdi.speech.lattice_files import read_lattices

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TEXT = ROOT / "tests" / "data" / "text" / "dev.txt"
OLD, NEW = str(KALDI / "bg.kn.arpa.gz"), str(KALDI / "mix.arpa.gz")


def has_kaldi() -> bool:
    root = os.environ.get("KALDI_ROOT", "")
    return bool(root) and (Path(root) / "src" / "latbin" / "lattice-lmrescore-const-arpa").exists()


def step(name, *arguments, kaldi_root=None):
    environment = {k: v for k, v in os.environ.items() if k not in ("KALDI_ROOT", "egs_dir")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    if kaldi_root:
        environment["KALDI_ROOT"] = kaldi_root
    command = ["bash", str(ROOT / "steps" / f"{name}.sh"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.fixture
def decoded(tmp_path):
    """A folder with Kaldi's lattices, its data beside it."""
    folder, data = tmp_path / "decoded", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    shutil.copy(LAT / "lats.txt.gz", folder / "lat.1.gz")
    (folder / "num_jobs").write_text("1\n")
    shutil.copy(LAT / "refs.txt", data / "text")
    (data / "utt2spk").write_text(
        "".join(f"{line.split()[0]} spk\n" for line in (LAT / "refs.txt").read_text().splitlines())
    )
    return tmp_path


def has_old_openfst() -> bool:
    """Whether OpenFst still spells its options as Kaldi's lmrescore_const_arpa.sh does."""
    program = shutil.which("fstproject")
    return (
        bool(program) and "project_output" in subprocess.run([program, "--help"], capture_output=True, text=True).stdout
    )


def backends():
    """Backend, and the recipe's script to rescore with."""
    no_kaldi = pytest.mark.skipif(not has_kaldi(), reason="KALDI_ROOT has no programs")
    no_script = pytest.mark.skipif(
        not (has_kaldi() and has_old_openfst()), reason="no Kaldi with the OpenFst that its script needs"
    )
    return [
        ("mdi", ""),
        pytest.param("kaldi", "", marks=no_kaldi),
        pytest.param("kaldi", "steps/lmrescore_const_arpa.sh", marks=no_script),
    ]


@pytest.mark.parametrize(("backend", "script"), backends())
def test_rescoring_and_scoring(decoded, backend, script):
    # what --cmd names runs the jobs; slurm.pl and queue.pl are called in the same way
    cmd = f"{ROOT}/utils/run_jobs.sh --max-jobs-run 2" if backend == "mdi" else "run.pl"
    options, root, suffix = ["--cmd", cmd, "--words", WORDS], None, ""
    own = []
    if backend == "kaldi":
        root, suffix, own = os.environ.get("KALDI_ROOT"), "_kaldi", ["--rescore-script", script]
    folders = decoded / "decoded", decoded / "rescored"
    done = step(f"rescore{suffix}", *options, *own, OLD, NEW, *folders, kaldi_root=root)
    assert done.returncode == 0, done.stderr
    for lattice in read_lattices(str(decoded / "rescored" / "lat.1.gz")):
        for weight in (8, 12):
            path, key = best_path(lattice, weight), ("lats.carpa", str(weight), "0.0", lattice.utterance)
            assert path.words.tolist() == best_words()[key]
            assert path.graph + path.acoustic / weight == pytest.approx(float(best_costs()[key]["total"]), abs=1e-3)
    sweep = ["--min-lmwt", "8", "--max-lmwt", "12", "--word-ins-penalty", "0.0,0.5"]
    done = step(f"score{suffix}", *options, *sweep, decoded / "data", decoded / "decoded", kaldi_root=root)
    assert done.returncode == 0, done.stderr
    # wer.tsv: lats at 8 / 0.0, lats.carpa at the same point
    assert done.stdout.startswith("%WER 25.40 [ 48 / 189, 6 ins, 7 del, 35 sub ]")
    tuned = ["--tuned-on", decoded / "decoded", "--compare-with", decoded / "decoded"]
    done = step(f"score{suffix}", *options, *tuned, decoded / "data", decoded / "rescored", kaldi_root=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("%WER 20.63 [ 39 / 189, 5 ins, 5 del, 29 sub ]")
    assert "Probability of Set2 improving Set1: 98.06" in done.stdout
    assert sorted(p.name for p in (decoded / "rescored").glob("wer_*")) == ["wer_8_0.0"]
    details = decoded / "rescored" / "scoring_kaldi" / "wer_details"
    assert (details / "lmwt").read_text() == "8\n"
    assert (details / "per_utt").read_text().count("#csid") == 20


def test_a_look_ahead_graph_gets_another_language_model(tmp_path):
    """Gr.fst with the numbers of the graph's own words, beside links to the rest; no program of Kaldi is needed."""
    from mdi.fst.formats import load

    graph, out = tmp_path / "graph", tmp_path / "out"
    (graph / "phones").mkdir(parents=True)
    for name in ("HCLr.fst", "disambig_tid.int"):
        (graph / name).write_text(name)
    done = step("make_graph_kaldi", "--lookahead", graph, NEW, out)
    assert (done.returncode, "words.txt: no such file" in done.stderr) == (1, True)
    shutil.copy(WORDS, graph / "words.txt")
    done = step("make_graph_kaldi", "--lookahead", graph, NEW, out)
    assert done.returncode == 0, done.stderr
    assert [(out / name).read_text() for name in ("HCLr.fst", "disambig_tid.int")] == ["HCLr.fst", "disambig_tid.int"]
    theirs, ours = load(NEW, closed=False), load(str(out / "Gr.fst"), WORDS, closed=False)
    assert ours.trie.counts == theirs.trie.counts
    (out / "Gr.fst").unlink()
    done = step("decode_kaldi", "--egs-dir", tmp_path, out, tmp_path, tmp_path / "decoded")
    assert (done.returncode, "Gr.fst: no such file" in done.stderr) == (1, True)


def test_words_as_they_were_recognised(decoded):
    """What libvosk said, beside its lattices: at its own LM weight, compared with another system."""
    lines = (decoded / "data" / "text").read_text().splitlines()
    for name, said in (("one", lines), ("two", [line.rsplit(" ", 1)[0] for line in lines])):
        (decoded / name).mkdir()
        (decoded / name / "text").write_text("".join(f"{line}\n" for line in said))
    done = step("score_vosk", decoded / "data", decoded / "one", decoded / "first")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("%WER 0.00 [ 0 / 189")
    compared = ("--compare-with", decoded / "first")
    done = step("score_vosk", *compared, decoded / "data", decoded / "two", decoded / "second")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("%WER 10.58 [ 20 / 189, 0 ins, 20 del, 0 sub ]")
    assert "Difference of the WERs: +10.58" in done.stdout


def test_jobs_without_kaldi(tmp_path: Path) -> None:
    """Numbered, with a log each, through a shell; a job that fails makes all fail, and its log is named."""
    run = [str(ROOT / "utils" / "run_jobs.sh")]
    done = subprocess.run([*run, "JOB=1:3", f"{tmp_path}/log/JOB.log", "echo", "a  b", "JOB", "|", "tr", "a", "c"])
    assert done.returncode == 0
    for n in (1, 2, 3):
        assert f"\nc  b {n}\n" in (tmp_path / "log" / f"{n}.log").read_text()
    call = [*run, "--max-jobs-run", "1", "JOB=1:3", f"{tmp_path}/JOB.log", "test", "JOB", "-ne", "2"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"its log: {tmp_path}/2.log" in done.stderr
    assert "ended (code 1)" in (tmp_path / "2.log").read_text()


@pytest.mark.parametrize(
    ("name", "arguments", "code", "message"),
    [
        ("rescore", ["--words", WORDS, "old.arpa"], 2, "Usage: steps/rescore.sh"),
        ("rescore", ["--wrods", WORDS], 2, "no option --wrods"),
        ("rescore", ["--words"], 2, "--words needs a value"),
        ("rescore", ["--words", WORDS, OLD, NEW, "nowhere", "out"], 1, "nowhere/lat.1.gz: no such file"),
        ("score_kaldi", ["--words", WORDS, "data", "decoded"], 1, "set KALDI_ROOT"),
        ("score_vosk", ["data", "nowhere", "out"], 1, "nowhere/text: no such file"),
        ("make_graph_kaldi", [OLD, "graph"], 2, "--lang DIR --model DIR"),
        ("decode_kaldi", ["graph", "data", "out"], 1, "graph/HCLG.fst: no such file"),
        ("decode_vosk", ["model", "data", "out"], 1, "model: no such file"),
        ("train_lm", ["--ordr", "3", "text", "out.arpa"], 2, "no option --ordr"),
        ("train_lm", ["text"], 2, "Usage: steps/train_lm.sh"),
        ("prune_lm", ["lm.arpa"], 2, "Usage: steps/prune_lm.sh"),
    ],
)
def test_wrong_calls_say_what_is_wrong(decoded, monkeypatch, name, arguments, code, message):
    monkeypatch.chdir(decoded)
    done = step(name, *arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr


def test_a_step_keeps_a_log(tmp_path):
    """Called by hand as from run.sh: command, output, exit code, beside what it makes."""
    lm = tmp_path / "lm.arpa"
    done = step("train_lm", "--smoothing", "wb", TEXT, lm)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "log/lm.log").read_text()
    assert "'--smoothing' 'wb'" in log.splitlines()[0]
    assert "sums to one" in log
    assert "sums to one" in done.stderr
    assert log.endswith(", exit code 0\n")
    (tmp_path / "empty.txt").write_text("")
    done = step("train_lm", tmp_path / "empty.txt", lm)
    assert done.returncode == 1
    assert f"exit code 1; its log: {tmp_path}/log/lm.log" in done.stderr
    assert (tmp_path / "log/lm.log").read_text().endswith(", exit code 1\n")


def test_the_log_keeps_standard_output_apart(tmp_path):
    command = [
        "bash",
        str(ROOT / "utils/run_logged.sh"),
        str(tmp_path / "a.log"),
        "bash",
        "-c",
        "echo out; echo err >&2; exit 3",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert done.stderr.startswith("err\n")
    assert {"out", "err"} < set((tmp_path / "a.log").read_text().splitlines())


def test_a_small_model_is_as_large_as_another_one(tmp_path):
    large, small, alike = tmp_path / "large.arpa", tmp_path / "small.arpa", tmp_path / "alike.arpa.gz"
    assert step("train_lm", "--min-counts", "1", TEXT, large).returncode == 0
    assert step("prune_lm", "--beside-words", "10", large, small).returncode == 0
    done = step("prune_lm", "--like", small, large, alike)
    assert done.returncode == 0, done.stderr

    def sizes(text):
        return [int(line.split("=")[1]) for line in text.splitlines() if line.startswith("ngram ")]

    words, *rest = sizes(small.read_text())
    assert words == sizes(large.read_text())[0]
    assert 0 < sum(rest) <= 10
    assert sum(sizes(gzip.decompress(alike.read_bytes()).decode())) <= words + sum(rest)
    cut = tmp_path / "cut.arpa.gz"
    cut.write_bytes(gzip.compress(b"\\data\\\nngram 1=3\n")[:-12])  # gzip fails; the number must not become 0
    done = step("prune_lm", cut, alike)
    assert done.returncode == 1
    assert "cut.arpa.gz: cannot be read up to its 1-grams" in done.stderr


def test_empty_archives_are_noticed(tmp_path):
    """What a broken pipe leaves behind looks like a file."""
    with gzip.open(tmp_path / "lat.1.gz", "wb"):
        pass
    script = f"set -euo pipefail; . {ROOT}/utils/script_common.sh; . {ROOT}/utils/kaldi.sh; check_lattices {tmp_path} 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds no lattice" in done.stderr


# ---- a recipe's own scoring, without Kaldi: its script leaves what Kaldi's scripts leave, and calls none of the
# programs

SCLITE = Path(__file__).parent / "data" / "sclite"
PROGRAMS = (
    "lattice-best-path",
    "lattice-scale",
    "lattice-add-penalty",
    "compute-wer",
    "compute-wer-bootci",
    "align-text",
)
# as local/score.sh of AMI: it finds the microphone in the path of the data, and has no penalty
AMI_SCORE = r"""#!/usr/bin/env bash
min_lmwt=7
max_lmwt=15
. parse_options.sh
[ "$(echo $1 | cut -d/ -f2)" = ihm ] || { echo "no ihm directory found"; exit 1; }
for f in $1/stm $2/words.txt $3/../final.mdl $3/lat.1.gz; do
  [ -f $f ] || { echo "$0: expecting file $f to exist"; exit 1; }
done
mkdir -p $3/ascoring/log
for weight in $(seq $min_lmwt $max_lmwt); do
  mkdir $3/ascore_$weight
  cp REPORTS/ascore_$weight/dev.ctm.filt.raw $3/ascore_$weight/$(basename $1).ctm.filt.raw
  echo "ended" > $3/ascoring/log/score.$weight.log
done
"""
PARSE = r"""while [[ $1 == --* ]]; do
  name=${1#--}; name=${name//-/_}
  [[ $name == cmd || -n ${!name} ]] || { echo "$0: invalid option $1"; exit 1; }
  printf -v $name %s "$2"; shift 2
done
"""
FALL_BACK = r"""#!/usr/bin/env bash
dir=${!#}
mkdir -p $dir/scoring_kaldi/wer_details
echo "%WER 12.34 [ 1 / 8, 0 ins, 0 del, 1 sub ] $dir/wer_9_0.0" > $dir/scoring_kaldi/best_wer
echo 12 > $dir/scoring_kaldi/wer_details/lmwt
echo "$@" > $dir/called
"""


@pytest.fixture
def ami(tmp_path, monkeypatch):
    """egs/ami/s5b with a decoded set, and a folder of ours with the same lattices; programs of Kaldi only by name."""
    recipe, ours, programs = tmp_path / "egs/ami/s5b", tmp_path / "exp/rescore/best/dev", tmp_path / "bin"
    for folder in ("data/ihm/dev", "data/lang", "exp/model", "local", "utils", "steps/scoring"):
        (recipe / folder).mkdir(parents=True)
    for path in (
        recipe / "data/ihm/dev/text",
        recipe / "data/ihm/dev/stm",
        recipe / "data/lang/words.txt",
        recipe / "exp/model/final.mdl",
    ):
        path.write_text("")
    (recipe / "utils/parse_options.sh").write_text(PARSE)
    for path, text in (
        (recipe / "local/score.sh", AMI_SCORE),
        (recipe / "steps/scoring/score_kaldi_wer.sh", FALL_BACK),
    ):
        path.write_text(text.replace("REPORTS", str(SCLITE / "interpolated")))
        path.chmod(0o755)
    ours.mkdir(parents=True)
    (ours / "lat.1.gz").write_bytes(b"")
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return recipe, ours


def score_ami(recipe, ours, *options):
    return step(
        "score_kaldi",
        "--score-script",
        "local/score.sh",
        "--egs-dir",
        recipe,
        "--lang",
        recipe / "data/lang",
        "--model",
        recipe / "exp/model",
        "--words",
        recipe / "data/lang/words.txt",
        *options,
        recipe / "data/ihm/dev",
        ours,
    )


def test_the_recipes_own_script_scores(ami):
    recipe, ours = ami
    done = score_ami(recipe, ours, "--min-lmwt", "12", "--max-lmwt", "13")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("%WER 8.09 [ 33 / 408, 1 ins, 8 del, 24 sub ]")
    assert "the best LM weight, 13, is at the edge of the range" in done.stderr
    # what the script wants to find above the lattices
    assert (ours.parent / "final.mdl").resolve() == (recipe / "exp/model/final.mdl").resolve()
    # another system, at the point that this one has chosen, and compared with it; no penalty is known there
    other = ours.parents[1] / "other" / "dev"
    shutil.copytree(ours, other)
    done = score_ami(recipe, other, "--tuned-on", ours, "--compare-with", ours)
    assert done.returncode == 0, done.stderr
    assert "edge of the range" not in done.stderr
    assert "Difference of the WERs: +0.00, p = 1.0000 (paired permutation test over 8 speakers" in done.stdout
    assert sorted(path.name for path in other.glob("ascore_*")) == ["ascore_12", "ascore_13"]
    assert (other / "scoring_kaldi/wer_details/wip").read_text() == "0.0\n"


def test_a_model_beside_the_lattices_is_left_alone(ami):
    recipe, ours = ami
    (ours.parent / "final.mdl").write_text("another model")
    assert score_ami(recipe, ours, "--min-lmwt", "12", "--max-lmwt", "13").returncode == 0
    assert (ours.parent / "final.mdl").read_text() == "another model"


@pytest.mark.parametrize("lacking", ["data/ihm/dev/stm", "exp/model/final.mdl", "local/score.sh"])
def test_where_the_recipes_script_cannot_work_another_one_does(ami, lacking):
    recipe, ours = ami
    (recipe / lacking).unlink()
    done = score_ami(recipe, ours, "--min-lmwt", "12", "--max-lmwt", "13", "--word-ins-penalty", "0.0,0.5")
    assert done.returncode == 0, done.stderr
    assert Path(lacking).name in done.stderr  # said by the script itself, or by ours if there is none
    assert "score_kaldi_wer.sh scores instead" in done.stderr
    assert done.stdout.startswith("%WER 12.34 ")
    # with all that was asked for, penalties too
    assert "--min-lmwt 12 --max-lmwt 13 --word-ins-penalty 0.0,0.5" in (ours / "called").read_text()


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (
            "echo 'ERROR (lattice-push[5.5]:main():lattice-push.cc:9) no' > $3/ascoring/log/get_ctm.12.1.log",
            "a program failed, see",
        ),
        ("echo 'hubscr.pl: no sclite'; exit 1", "local/score.sh failed: hubscr.pl: no sclite"),
        ("rm $3/ascore_13/*.raw", "no *score_13*/dev.ctm.filt.raw"),
    ],
)
def test_a_script_that_fails_later_is_an_error(ami, last, message):
    recipe, ours = ami
    script = recipe / "local/score.sh"
    script.write_text(script.read_text() + last + "\n")
    done = score_ami(recipe, ours, "--min-lmwt", "12", "--max-lmwt", "13")
    assert done.returncode == 1
    assert message in done.stderr
    assert not (ours / "scoring_kaldi" / "best_wer").exists()


HOSTILE = [
    "$(touch${IFS}ran)",
    "`touch${IFS}ran`",
    ";touch${IFS}ran;",
    "'\"&|>ran",
    "%s%n{0}\\x41",
    "-rf",
    "*",
    "../ran",
]


def test_names_of_utterances_and_words_are_data(tmp_path):
    """Through the steps of a recipe: no shell, format or path is made of them."""
    lattices, data = tmp_path / "lats", tmp_path / "data"
    lattices.mkdir()
    data.mkdir()
    names = ["<eps>", *HOSTILE, "<unk>", "#0", "<s>", "</s>"]
    (tmp_path / "words.txt").write_text("".join(f"{word} {i}\n" for i, word in enumerate(names)))
    said = {f"{word}-{i}": HOSTILE[i - 1] for i, word in enumerate(HOSTILE, 1)}
    (data / "text").write_text("".join(f"{name} {word} {word}\n" for name, word in sorted(said.items())))
    (data / "utt2spk").write_text("".join(f"{name} s{name.replace('/', '')}\n" for name in sorted(said)))
    archive = "".join(f"{name} \n0 1 {i} 1,1,1\n1 2 {i} 1,1,1\n2 0,0,\n\n" for i, name in enumerate(said, 1))
    (lattices / "lat.1.gz").write_text(archive)
    (lattices / "num_jobs").write_text("1\n")
    (tmp_path / "text").write_text("".join(f"{word} {word}\n" for word in HOSTILE))
    assert main(["train", "--order", "2", "--min-counts", "1", str(tmp_path / "text"), str(tmp_path / "lm")]) == 0
    calls = [
        ["rescore.sh", "--words", "words.txt", "lm", "lm", "lats", "new"],
        ["score.sh", "--words", "words.txt", "data", "new"],
        ["score.sh", "--words", "words.txt", "--compare-with", "new", "data", "new"],
        ["adapt_recordings.sh", "--words", "words.txt", "--data", "data", "lm", "lats", "own"],
    ]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    before = {path.name for path in ROOT.iterdir()}
    for name, *arguments in calls:
        command = ["bash", str(ROOT / "steps" / name), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
    assert "%WER 0.00 [ 0 / 16," in (tmp_path / "own" / "scoring_kaldi" / "best_wer").read_text()
    assert not list(tmp_path.rglob("ran"))
    assert {path.name for path in ROOT.iterdir()} == before


def test_bash_runs_no_code_from_results(tmp_path):
    details = tmp_path / "tuned" / "scoring_kaldi" / "wer_details"
    details.mkdir(parents=True)
    (details / "lmwt").write_text("a[$(touch ran)]\n")
    (details / "wip").write_text("0.0\n")
    for name in ("data", "new", "bin", "utils", "steps"):
        (tmp_path / name).mkdir()
    for name in ("words.txt", "data/text", "new/lat.1.gz", "new/num_jobs"):
        (tmp_path / name).touch()
    programs = "lattice-best-path lattice-scale lattice-add-penalty compute-wer compute-wer-bootci align-text"
    for program in programs.split():  # Kaldi's are looked for, and not called
        (tmp_path / "bin" / program).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / program).chmod(0o755)
    call = ["--egs-dir", ".", "--tuned-on", "tuned", "--words", "words.txt", "data", "new"]
    done = subprocess.run(
        ["bash", str(ROOT / "steps" / "score_kaldi.sh"), *call],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )
    assert done.returncode == 1
    assert "expected a whole number" in done.stderr, done.stderr
    assert not list(tmp_path.rglob("ran"))


def test_run_sh_refuses_commands_in_wav_scp(tmp_path):
    (tmp_path / "wav.scp").write_text("r touch ran; cat voice.wav |\n")
    (tmp_path / "HCLG.fst").touch()
    (tmp_path / "words.txt").touch()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    model = tmp_path / "vosk-model"
    for name in ("am/final.mdl", "graph/HCLr.fst"):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).touch()
    assert main(["convert", GOOD, str(model / "graph" / "Gr.fst")]) == 0
    calls = [
        ["steps/decode_kaldi.sh", "--allow-pipes", "false", "--egs-dir", ".", ".", ".", "out"],
        ["steps/decode_vosk.sh", "--allow-pipes", "false", "vosk-model", ".", "out"],
        ["run.sh", "--allow-pipes", "false", "--backend", "vosk", "--corpus", "mine", "--stage", "5"],
    ]
    data = tmp_path / "data" / "mine"
    (data / "speech" / "dev").mkdir(parents=True)
    (data / "sets").write_text("dev\n")
    (data / "speech" / "dev" / "wav.scp").write_text("r touch ran; cat voice.wav |\n")
    (data / "vosk-model").symlink_to(model)
    (data / "words.txt").touch()
    for name in ("data/mine/default", "exp/mine/lm/interpolated", "exp/mine/mdi/prior", "exp/mine/mdi/best"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(GOOD, tmp_path / f"{name}.arpa.gz")
    for script, *options in calls:
        command = ["bash", str(ROOT / script), *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 1
        assert "--allow-pipes" in done.stderr, done.stderr
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.skipif(
    not (has_kaldi() and os.environ.get("MDI_VOSK_MODEL")), reason="KALDI_ROOT has no programs, or MDI_VOSK_MODEL none"
)
def test_kaldi_decodes_with_a_vosk_model(tmp_path):
    """The recipe that utils/vosk_recipe.sh makes of it: features, i-vectors, graph and words fit together."""
    kaldi, model, sounds = os.environ["KALDI_ROOT"], os.environ["MDI_VOSK_MODEL"], ROOT / "tests" / "data" / "speech"
    data, egs = tmp_path / "data", tmp_path / "egs" / "vosk" / "s5"
    speech = data / "speech" / "eval"
    speech.mkdir(parents=True)
    texts = [
        line for line in (sounds / "text").read_text().splitlines() if (sounds / f"{line.split()[0]}.wav").exists()
    ]
    names = [line.split()[0] for line in texts]
    (speech / "text").write_text("".join(f"{line}\n" for line in texts))
    (speech / "wav.scp").write_text("".join(f"{name} {sounds / name}.wav\n" for name in names))
    (data / "vosk-model").symlink_to(Path(model).resolve())
    (data / "train.txt.gz").write_bytes(gzip.compress(b"a line of text\n"))
    lm = data / "default.arpa.gz"
    assert main(["convert", str(Path(model) / "graph" / "Gr.fst"), str(lm)]) == 0
    done = step("../utils/vosk_recipe", "--sets", "eval", data, egs, kaldi_root=kaldi)
    assert done.returncode == 0, done.stderr
    graph, decoded = egs / "exp/chain/graph_own", egs / "exp/chain/decode_eval"
    done = step("make_graph_kaldi", "--lookahead", egs / "exp/chain/graph", lm, graph, kaldi_root=kaldi)
    assert done.returncode == 0, done.stderr
    options = "--post-decode-acwt 10.0 --max-active 3000 --skip-diagnostics true --online-ivector-dir exp/ivectors_eval"
    done = step(
        "decode_kaldi",
        "--egs-dir",
        egs,
        "--beam",
        10,
        "--lattice-beam",
        4,
        "--acwt",
        1.0,
        "--decode-opts",
        options,
        "--decode-script",
        "steps/nnet3/decode_lookahead.sh",
        graph,
        egs / "data/eval",
        decoded,
        kaldi_root=kaldi,
    )
    assert done.returncode == 0, done.stderr
    words = egs / "data/lang/words.txt"
    done = step("score_kaldi", "--egs-dir", egs, "--words", words, egs / "data/eval", decoded, kaldi_root=kaldi)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[1]) < 40
