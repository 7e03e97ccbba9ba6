"""The speech steps as scripts, with mdi and, where KALDI_ROOT has its programs, with Kaldi beside it."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lattice_data import KALDI, LAT, WORDS, best_costs, best_words

from mdi.lattice import best_path
from mdi.lattice_files import read_lattices

ROOT = Path(__file__).parent.parent
SPEECH = Path(__file__).parent / "data" / "speech"
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
    (data / "utt2spk").write_text("".join(f"{line.split()[0]} spk\n" for line in (LAT / "refs.txt").read_text().splitlines()))
    return tmp_path


def backends():
    return ["mdi", pytest.param("kaldi", marks=pytest.mark.skipif(not has_kaldi(), reason="KALDI_ROOT has no programs"))]


@pytest.mark.parametrize("backend", backends())
def test_rescoring_and_scoring(decoded, backend):
    options, root = ["--backend", backend, "--words", WORDS], os.environ.get("KALDI_ROOT") if backend == "kaldi" else None
    done = step("rescore", *options, OLD, NEW, decoded / "decoded", decoded / "rescored", kaldi_root=root)
    assert done.returncode == 0, done.stderr
    for lattice in read_lattices(str(decoded / "rescored" / "lat.1.gz")):
        for weight in (8, 12):
            path, key = best_path(lattice, weight), ("lats.carpa", str(weight), "0.0", lattice.utterance)
            assert path.words.tolist() == best_words()[key]
            assert path.graph + path.acoustic / weight == pytest.approx(float(best_costs()[key]["total"]), abs=1e-3)
    sweep = ["--min-lmwt", "8", "--max-lmwt", "12", "--word-ins-penalty", "0.0,0.5"]
    done = step("score", *options, *sweep, decoded / "data", decoded / "decoded", kaldi_root=root)
    assert done.returncode == 0, done.stderr
    # wer.tsv: lats at 8 / 0.0, lats.carpa at the same point
    assert done.stdout.startswith("%WER 25.40 [ 48 / 189, 6 ins, 7 del, 35 sub ]")
    tuned = ["--tuned-on", decoded / "decoded", "--compare-with", decoded / "decoded"]
    done = step("score", *options, *tuned, decoded / "data", decoded / "rescored", kaldi_root=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("%WER 20.63 [ 39 / 189, 5 ins, 5 del, 29 sub ]")
    assert "Probability of Set2 improving Set1: 98.06" in done.stdout
    assert sorted(p.name for p in (decoded / "rescored").glob("wer_*")) == ["wer_8_0.0"]
    details = decoded / "rescored" / "scoring_kaldi" / "wer_details"
    assert (details / "lmwt").read_text() == "8\n"
    assert (details / "per_utt").read_text().count("#csid") == 20


def test_from_text_to_words(tmp_path):
    data, lm = tmp_path / "data", tmp_path / "lm.arpa"
    data.mkdir()
    for name in ("text", "utt2spk"):
        (data / name).write_text("".join((SPEECH / name).read_text().splitlines(keepends=True)[:2]))
    (data / "wav.scp").write_text("".join(f"{f.stem} {f}\n" for f in sorted(SPEECH.glob("*.wav"))))
    assert step("train_lm", "--smoothing", "wb", SPEECH / "lm.txt", lm).returncode == 0
    done = step("make_graph", lm, tmp_path / "graph")
    assert done.returncode == 0, done.stderr
    done = step("decode", "--nj", "2", tmp_path / "graph", data, tmp_path / "decoded")
    assert done.returncode == 0, done.stderr
    done = step("score", "--words", tmp_path / "graph" / "words.txt", data, tmp_path / "decoded")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("%WER 0.00 [ 0 / 15")


@pytest.mark.parametrize(
    ("name", "arguments", "code", "message"),
    [
        ("rescore", ["--words", WORDS, "old.arpa"], 2, "Usage: steps/rescore.sh"),
        ("rescore", ["--wrods", WORDS], 2, "no option --wrods"),
        ("rescore", ["--words"], 2, "--words needs a value"),
        ("rescore", ["--words", WORDS, OLD, NEW, "nowhere", "out"], 1, "nowhere/lat.1.gz: no such file"),
        ("score", ["--backend", "other", "--words", WORDS, "data", "decoded"], 2, "expected mdi or kaldi"),
        ("score", ["--backend", "kaldi", "--words", WORDS, "data", "decoded"], 1, "set KALDI_ROOT"),
        ("make_graph", ["--backend", "kaldi", OLD, "graph"], 2, "needs --lang and --model"),
        ("decode", ["graph", "data", "out"], 1, "graph/HCLG.fst: no such file"),
    ],
)
def test_wrong_calls_say_what_is_wrong(decoded, monkeypatch, name, arguments, code, message):
    monkeypatch.chdir(decoded)
    done = step(name, *arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr


def test_empty_archives_are_noticed(tmp_path):
    """What a broken pipe leaves behind looks like a file."""
    with gzip.open(tmp_path / "lat.1.gz", "wb"):
        pass
    script = f"set -euo pipefail; . {ROOT}/utils/step.sh; check_lattices {tmp_path} 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds no lattice" in done.stderr
