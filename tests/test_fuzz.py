"""tests/stress/fuzz.py for a little while: every reader, bounds checks on. A run of an hour is for people. What such
runs have found is here too."""

import contextlib
import gzip
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import cost
import estimate_cost
import fuzz
import prepare_corpus
import pytest
import recipe_files
import report
import results
import validate_data
from fuzz_readers import Reader

from mdi.cluster import queue_settings
from mdi.errors import MdiError
from mdi.lm.shards import job_folder
from mdi.lm.vocabulary import to_bytes
from mdi.speech.expected_counts import expected_counts
from mdi.speech.lattice_files import read_lattices, to_binary
from mdi.speech.recordings import file_names
from mdi.speech.vosk.folder import LATTICE_BEAM, VoskFolder, with_option
from mdi.speech.vosk.results import read_results

FUZZ = Path(__file__).parent / "stress" / "fuzz.py"


@pytest.mark.slow
def test_readers_accept_or_refuse(tmp_path: Path) -> None:
    command = [sys.executable, str(FUZZ), "--seconds", "60", "--inputs", "200", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split("\t") for line in done.stdout.splitlines()[1:]]
    assert len(rows) > 50
    assert all(int(wrong) == 0 for *_, wrong in rows)
    assert sum(int(accepted) for _, _, accepted, _, _ in rows) > 100
    assert sum(int(refused) for _, _, _, refused, _ in rows) > 500


def _unpickles(path: str) -> None:
    import kaldiio

    with contextlib.suppress(Exception):
        kaldiio.load_mat(path)


def _runs(path: str) -> None:
    subprocess.run(["true"], check=True)


def _writes(path: str) -> None:
    (Path(path).parent.parent / "elsewhere").write_text("x")


@pytest.mark.parametrize(
    ("read", "what"),
    [(_unpickles, "pickle.find_class"), (_runs, "subprocess.Popen"), (_writes, "writes"), (Path.read_bytes, "")],
)
def test_what_a_reader_does_beside_reading_is_seen(read, what, tmp_path: Path) -> None:
    """As the reader of recordings once did."""
    (tmp_path / "folder").mkdir()
    hostile = [b"PKLcposix\nsystem\n(S'touch ran'\ntR."] * 50
    reader = Reader(
        lambda path: read(Path(path)) if read is Path.read_bytes else read(path), [b"text"], hostile=hostile
    )
    found = fuzz.batch("x", reader, range(60), tmp_path / "folder")
    assert found.inputs == 60
    if what:
        assert any(what in wrong for wrong in found.wrong), found.wrong[:3]
    else:
        assert not found.wrong


def test_what_is_no_reader_is_said() -> None:
    command = [sys.executable, str(FUZZ), "--help"]
    assert "READER" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


# ---- inputs that found something


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ngrams", 7),
        ("ngrams", [1, "2"]),
        ("ngrams", [-1]),
        ("command", 3),
        ("worst_sum_gap", "1e-7"),
        ("worst_sum_gap", math.nan),
        ("constraints", 1.5),
        ("constraints_dropped", [1]),
        ("steps", {}),
        ("steps", [{"l1": "x"}]),
        ("seconds", True),
        ("file", "sha"),
    ],
)
def test_certificates_are_what_they_say(field: str, value: object, tmp_path: Path) -> None:
    (tmp_path / "mdi").mkdir()
    path = tmp_path / "mdi" / "x.arpa.gz.json"
    good = {"command": "adapt", "ngrams": [1, 2], "worst_sum_gap": 1e-7, "steps": [{"l1": 0.5, "iteration": 1}]}
    path.write_text(json.dumps(good))
    assert "adapt" in report.certificate_table(tmp_path, tmp_path)
    path.write_text(json.dumps({**good, field: value}))
    with pytest.raises(MdiError, match=f"'{field}' is"):
        report.certificate_table(tmp_path, tmp_path)


def test_certificates_are_no_html(tmp_path: Path) -> None:
    (tmp_path / "mdi").mkdir()
    (tmp_path / "mdi" / "x.arpa.gz.json").write_text('{"command": "<script>x</script>"}')
    assert "<script>" not in report.certificate_table(tmp_path, tmp_path)


@pytest.mark.parametrize("line", ["{", "[]", '{"text": 1, "words": 1, "oov": 0, "ppl": 2}', "[" * 100_000])
def test_lines_of_perplexities(line: str, tmp_path: Path) -> None:
    (tmp_path / "ppl").mkdir()
    (tmp_path / "ppl" / "background.jsonl").write_text(line)
    with pytest.raises(MdiError, match=r"background\.jsonl:1: not a line of mdi ppl"):
        results.collect("x", [tmp_path])


def test_scores_that_are_no_numbers(tmp_path: Path) -> None:
    scored = tmp_path / "scoring_kaldi"
    (scored / "wer_details").mkdir(parents=True)
    (scored / "wer_details" / "wer_bootci").write_bytes(b"[ 1.2.3, - ] \xff")
    (scored / "wer_details" / "comparison").write_text("Difference of the WERs: +-., p = .\nimproving Set1: 1..2\n")
    (scored / "best_wer").write_bytes(b"%WER 12.5 [ \xff ]")
    found = recipe_files.read_wer(tmp_path)
    assert found
    assert (found.rate, found.low, found.comparisons) == (12.5, None, ())
    (scored / "best_wer").write_text("%WER ..5")
    with pytest.raises(MdiError, match="no %WER in it"):
        recipe_files.read_wer(tmp_path)


ROW = '{"utterance": "u", "seconds": 1, "sound": [], "overshoot": 0, "answers": ANSWERS}'


@pytest.mark.parametrize(
    "row",
    [
        ROW.replace("ANSWERS", "[[]]"),
        ROW.replace("ANSWERS", "1"),
        ROW.replace("ANSWERS", "[]").replace('"seconds": 1', '"seconds": null'),
        ROW.replace("ANSWERS", '[{"alternatives": [1]}]'),
        ROW.replace("ANSWERS", '[{"alternatives": [{"confidence": 1e999}]}]'),
        ROW.replace("ANSWERS", '[{"result": [{"word": 1, "start": 1, "end": 2}]}]'),
        "[" * 100_000,
    ],
)
def test_results_of_vosk_that_are_none(row: str, tmp_path: Path) -> None:
    (tmp_path / "results.1.jsonl").write_text(row + "\n")
    with pytest.raises(MdiError, match=r"results\.1\.jsonl:1: not a line"):
        read_results(tmp_path)


def test_answers_of_vosk_that_never_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"text": ' + "[" * 100_000)
    with pytest.raises(MdiError, match="not JSON"):
        expected_counts([str(tmp_path / "x")], None, 2, kind="vosk")


def test_settings_of_a_vosk_model(tmp_path: Path) -> None:
    for name, content in {"am/final.mdl": b"", "conf/model.conf": b"# \xff\n--lattice-beam=6..0\n"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    with pytest.raises(MdiError, match="expected a number, such as --lattice-beam"):
        assert VoskFolder(tmp_path).lattice_beam
    assert to_bytes(with_option(VoskFolder(tmp_path).settings(), LATTICE_BEAM, 4.0)) == b"# \xff\n--lattice-beam=4\n"


def test_what_is_asked_for_its_cost(tmp_path: Path) -> None:
    (tmp_path / "lm").write_bytes(gzip.compress(b"ngram 1=5\n" * 100)[:-12])
    with pytest.raises(MdiError, match="cannot be read"):
        cost.count_words(tmp_path / "lm")
    (tmp_path / "segments").write_bytes(b"u r 0 L1\n\xff\n")
    with pytest.raises(MdiError, match="expected utterance, recording, begin and end"):
        estimate_cost.seconds_of_speech(tmp_path)


@pytest.mark.parametrize("name", ["../x", "a" * 300, "a/b", "\udcff/"])
def test_names_of_test_sets(name: str, tmp_path: Path) -> None:
    for text in ("train", "background"):
        (tmp_path / f"{text}.txt.gz").write_text("a\n")
    (tmp_path / "vocab.txt").write_text("a\n")
    (tmp_path / "sets").write_bytes(name.encode("utf-8", "surrogateescape"))
    assert "expected short names" in validate_data.check(tmp_path)[-1]


def test_a_note_of_a_job_with_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "mdi-job").mkdir()
    (tmp_path / "mdi-job" / "job.json").write_bytes(b"\xff{")
    (tmp_path / "mdi-job" / "old.0.mdi").write_bytes(b"x")
    with job_folder(str(tmp_path), {"texts": ["é"]}) as folder:
        assert [path.name for path in Path(folder).iterdir()] == ["job.json"]


@pytest.mark.parametrize("content", [b"\xff\xfe\xff", b"workers: x\n", b"a: [", b"- 1\n", b"[" * 10_000])
def test_settings_of_a_queue(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "q.yaml").write_bytes(content)
    with pytest.raises(MdiError, match=r"as in local/conf/slurm\.yaml"):
        queue_settings(str(tmp_path / "q.yaml"), "slurm")


def test_a_state_that_is_not_final_has_no_other_cost(tmp_path: Path) -> None:
    (tmp_path / "lat").write_bytes(b"u \n0 1 1 1,1,1\n1 0,0,\n\n")
    (lattice,) = read_lattices(str(tmp_path / "lat"))
    data = to_binary(lattice)
    infinite, less = struct.pack("<ff", math.inf, math.inf), struct.pack("<ff", math.inf, -math.inf)
    assert infinite in data
    (tmp_path / "lat").write_bytes(data.replace(infinite, less))
    with pytest.raises(MdiError, match="a cost that is no number"):
        list(read_lattices(str(tmp_path / "lat")))


def test_recordings_are_named_as_files_can_be() -> None:
    for name in ("a\0b", "a" * 300, "a/b", "."):
        with pytest.raises(MdiError, match="expected names that files can have"):
            file_names(["r1", name])
    assert file_names(["..", "-", "$(x)"]) == {"..": 1, "-": 2, "$(x)": 3}


def test_a_number_of_jobs_that_is_none(tmp_path: Path) -> None:
    for name in ("data", "lats"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "text").write_text("u a\n")
    (tmp_path / "lats" / "num_jobs").write_bytes(b"\xff2")
    with pytest.raises(MdiError, match="expected a whole number"):
        prepare_corpus.prepare_speech("dev", tmp_path / "data", str(tmp_path / "lats"), tmp_path)
