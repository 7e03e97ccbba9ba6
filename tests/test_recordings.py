"""Adaptation to each recording's own lattices: what adapt and rescore would do one by one, in one pass."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lattice_data import KALDI, LAT, WORDS, lattices

from mdi.adaptation.delta import read_delta
from mdi.cli import main
from mdi.errors import MdiError
from mdi.speech.data import DataFolder
from mdi.speech.lattice_files import lattice_writer, read_lattices
from mdi.speech.recordings import file_names, grouped, utterance_groups

ROOT = Path(__file__).parent.parent
LM = str(KALDI / "bg.kn.arpa.gz")


@pytest.fixture
def decoded(tmp_path: Path) -> Path:
    """Three recordings in two archives, one of them in both; references."""
    (tmp_path / "decoded").mkdir()
    (tmp_path / "data").mkdir()
    every = list(lattices("lats").values())
    for number, part in ((1, every[:12]), (2, every[12:])):
        with lattice_writer(str(tmp_path / "decoded" / f"lat.{number}.gz")) as write:
            for lattice in part:
                write(lattice)
    (tmp_path / "decoded" / "num_jobs").write_text("2\n")
    names = [lattice.utterance for lattice in every]
    speakers = ["anna"] * 6 + ["bert"] * 8 + ["cleo"] * 6
    (tmp_path / "data" / "utt2spk").write_text("".join(f"{u} {s}\n" for u, s in zip(names, speakers, strict=True)))
    (tmp_path / "data" / "text").write_text((LAT / "refs.txt").read_text())
    return tmp_path


def arguments(decoded: Path, out: Path, *more: str) -> list[str]:
    return [
        "adapt-recordings",
        "--words",
        WORDS,
        "--data",
        str(decoded / "data"),
        *more,
        LM,
        str(decoded / "decoded"),
        str(out),
    ]


@pytest.mark.parametrize("text", [False, True])
def test_the_same_as_one_by_one(decoded: Path, tmp_path: Path, text: bool) -> None:
    out, in_domain = tmp_path / "out", tmp_path / "in.txt"
    in_domain.write_text("the government has not said so\n" * 3)
    more = ["--text", str(in_domain)] if text else []
    assert main(arguments(decoded, out, "--leave-out", "false", "--nj", "2", "--count-weight", "0.8", *more)) == 0
    assert (out / "num_jobs").read_text() == "3\n"
    assert sorted(path.name for path in (out / "deltas").iterdir()) == ["anna.delta", "bert.delta", "cleo.delta"]
    by_name = lattices("lats")
    for number, name in enumerate(("anna", "bert", "cleo"), 1):
        own = tmp_path / f"lat.{name}"
        group_of = DataFolder(decoded / "data").speakers()
        with lattice_writer(str(own)) as write:
            for utterance, speaker in group_of.items():
                if speaker == name:
                    write(by_name[utterance])
        common = ["--min-counts", "0.5", "--sigma2", "1", "--count-weight", "0.8", "--words", WORDS]
        common += ["--new-words", "map"]  # lattices are over the words of words.txt
        delta, rescored = str(tmp_path / f"{name}.delta"), str(tmp_path / f"{name}.lat")
        texts = [str(in_domain)] if text else []
        assert main(["adapt", *common, "--delta", delta, "--lattices", str(own), LM, *texts]) == 0
        one, other = read_delta(delta), read_delta(out / "deltas" / f"{name}.delta")
        assert one.constraints.total == other.constraints.total
        np.testing.assert_allclose(one.mu, other.mu, atol=0.05 if text else 1e-12)  # the start is another with text
        assert other.made["recording"] == name
        given = str(out / "deltas" / f"{name}.delta")
        command = ["rescore", "--words", WORDS, "--old-lm", LM, "--new-lm", LM, "--delta", given, str(own), rescored]
        assert main(command) == 0
        found = {one.utterance: one for one in read_lattices(str(out / f"lat.{number}.gz"))}
        expected = {one.utterance: one for one in read_lattices(rescored)}
        assert list(found) == list(expected)
        for utterance, lattice in found.items():
            np.testing.assert_array_equal(lattice.arcs.graph, expected[utterance].arcs.graph)


def test_an_utterance_has_no_say_in_its_own_model(decoded: Path, tmp_path: Path) -> None:
    """The lattice of the first utterance is what rescoring with an adaptation to the other five gives."""
    out, every = tmp_path / "out", list(lattices("lats").values())
    assert main(arguments(decoded, out)) == 0
    for name, part in (("first", every[:1]), ("others", every[1:6])):
        with lattice_writer(str(tmp_path / f"lat.{name}")) as write:
            for lattice in part:
                write(lattice)
    delta, rescored = str(tmp_path / "x.delta"), str(tmp_path / "x.lat")
    common = ["--min-counts", "0.5", "--sigma2", "1", "--tolerance", "1e-6", "--words", WORDS]
    assert main(["adapt", *common, "--delta", delta, "--lattices", str(tmp_path / "lat.others"), LM]) == 0
    command = ["rescore", "--words", WORDS, "--old-lm", LM, "--new-lm", LM, "--delta", delta]
    assert main([*command, str(tmp_path / "lat.first"), rescored]) == 0
    found, expected = next(read_lattices(str(out / "lat.1.gz"))), next(read_lattices(rescored))
    assert found.utterance == expected.utterance
    np.testing.assert_allclose(found.arcs.graph, expected.arcs.graph, atol=0.02)
    # and not what the whole recording's adaptation gives
    given = ["--delta", str(out / "deltas" / "anna.delta")]
    assert main([*command[:-2], *given, str(tmp_path / "lat.first"), rescored]) == 0
    assert np.abs(found.arcs.graph - next(read_lattices(rescored)).arcs.graph).max() > 0.5


def test_a_stopped_run_goes_on(decoded: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "out"
    assert main(arguments(decoded, out)) == 0
    before = {path: path.stat().st_mtime_ns for path in out.glob("lat.*.gz")}
    (out / "lat.2.gz").unlink()
    (out / "num_jobs").unlink()
    capsys.readouterr()
    assert main(arguments(decoded, out)) == 0
    assert "2 of 3 recordings are there already" in capsys.readouterr().err
    assert (out / "num_jobs").exists()
    again = {path: path.stat().st_mtime_ns for path in out.glob("lat.*.gz")}
    assert {path.name for path in before if before[path] != again[path]} == {"lat.2.gz"}
    assert main(arguments(decoded, out, "--sigma2", "2")) == 1
    assert "with other options; remove the directory" in capsys.readouterr().err


def test_what_is_missing(decoded: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A recording without any lattice has an empty archive; one of whose lattices some are missing goes without."""
    table = decoded / "data" / "utt2spk"
    table.write_text(table.read_text() + "utt900 dora\nutt901 anna\n")
    out = tmp_path / "out"
    assert main(arguments(decoded, out)) == 0
    said = capsys.readouterr().err
    assert "no lattices of 2 utterances, such as 'utt900', 'utt901'" in said
    assert "no lattices of dora" in said
    assert gzip.decompress((out / "lat.4.gz").read_bytes()) == b""
    assert [len(list(read_lattices(str(out / f"lat.{n}.gz")))) for n in (1, 2, 3)] == [6, 8, 6]
    table.write_text("\n".join(table.read_text().splitlines()[1:]))
    assert main(arguments(decoded, tmp_path / "other")) == 1
    assert "utterance utt000: in no group" in capsys.readouterr().err


def test_too_little_to_adapt_to(decoded: Path, tmp_path: Path) -> None:
    """The background's scores, and no delta."""
    out = tmp_path / "out"
    assert main(arguments(decoded, out, "--min-counts", "1000")) == 0
    assert not list((out / "deltas").iterdir())
    same = str(tmp_path / "same")
    assert main(["rescore", "--words", WORDS, "--old-lm", LM, "--new-lm", LM, str(LAT / "lats.txt.gz"), same]) == 0
    expected = {one.utterance: one.arcs.graph for one in read_lattices(same)}
    for n in (1, 2, 3):
        for one in read_lattices(str(out / f"lat.{n}.gz")):
            np.testing.assert_allclose(
                one.arcs.graph, expected[one.utterance], rtol=1e-6
            )  # written as single precision


def test_groups(tmp_path: Path) -> None:
    (tmp_path / "utt2spk").write_text("u1 anna\nu2 anna\nu3 bert\n")
    data = DataFolder(tmp_path)
    assert utterance_groups(None, data) == {"u1": "anna", "u2": "anna", "u3": "bert"}
    (tmp_path / "segments").write_text("u1 r1 0 1\nu2 r1 1 2\nu3 r1 2 3\n")
    assert utterance_groups(None, data) == dict.fromkeys(("u1", "u2", "u3"), "r1")
    assert utterance_groups("speaker", data)["u3"] == "bert"
    (tmp_path / "mine").write_text("u1 x\nu2 x y\n")
    with pytest.raises(MdiError, match="mine:2: 2 fields after the name; expected one group"):
        utterance_groups(str(tmp_path / "mine"), None)
    with pytest.raises(MdiError, match="give --data DATA or --groups FILE"):
        utterance_groups(None, None)
    (tmp_path / "segments").unlink()
    with pytest.raises(MdiError, match="segments: not there"):
        utterance_groups("recording", data)
    with pytest.raises(MdiError, match="names that files can have"):
        file_names(["a", "b/c"])


def test_groups_come_as_soon_as_they_are_complete() -> None:
    every = list(lattices("lats").values())[:4]
    names = [lattice.utterance for lattice in every]
    taken = []

    def source():
        for lattice in every:
            taken.append(lattice.utterance)
            yield lattice

    first, *rest = grouped(source(), {names[0]: "a", names[1]: "b", names[2]: "a", names[3]: "b"})
    assert (first[0], [one.utterance for one in first[1]]) == ("a", [names[0], names[2]])
    assert [name for name, _ in rest] == ["b"]
    stream = grouped(source(), dict.fromkeys(names[:2], "a") | dict.fromkeys(names[2:], "b"))
    taken.clear()
    next(stream)
    assert taken == names[:2]
    with pytest.raises(MdiError, match="two lattices of utterance"):
        list(grouped([every[0], every[1], every[0]], dict.fromkeys(names, "a")))


@pytest.mark.slow
def test_the_step_scores_before_and_after(decoded: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    options = [
        "--words",
        WORDS,
        "--data",
        str(decoded / "data"),
        "--min-lmwt",
        "8",
        "--max-lmwt",
        "10",
        "--word-ins-penalty",
        "0.0",
    ]
    command = [
        "bash",
        str(ROOT / "steps" / "adapt_recordings.sh"),
        *options,
        LM,
        str(decoded / "decoded"),
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    # wer.tsv: lats at 8 / 0.0
    assert done.stdout.startswith("%WER 25.40 [ 48 / 189, 6 ins, 7 del, 35 sub ]")
    assert "paired permutation test" in done.stdout
    assert not (decoded / "decoded" / "scoring_kaldi").exists()
    assert (tmp_path / "out" / "scoring_kaldi" / "wer_details" / "comparison").exists()
