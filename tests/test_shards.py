"""Shards: the same n-grams, the same probabilities, the same bytes for any number of them."""

import contextlib
import errno
import fcntl
import gzip
import json
import os
import re
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, random_text, write_model, write_text

import mdi.lm.counts
from mdi import room
from mdi.adaptation.adapter import Adapter
from mdi.adaptation.solver import SolverSettings
from mdi.cli import main
from mdi.cluster import Runner
from mdi.errors import MdiError
from mdi.files import locked
from mdi.lm.arpa import read_arpa, write_arpa
from mdi.lm.counts import stream_blocks
from mdi.lm.estimate import estimate
from mdi.lm.normalise import worst_sum
from mdi.lm.shards import BYTES_PER_ROW, PROGRAM, Job, at_work, job_folder
from mdi.lm.text import SPECIAL
from mdi.lm.vocabulary import GrowingVocabulary


@pytest.fixture(autouse=True)
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small arrays are."""
    monkeypatch.setattr(room, "SMALL", 1)
    monkeypatch.setattr(room.empty, "__defaults__", (1,))


def same_bytes(a: Path, b: Path) -> bool:
    return a.read_bytes() == b.read_bytes()


def members(path: Path) -> list[bytes]:
    """The content of each gzip member: ISA-L packs a few lines now in one way, now in another."""
    data, found = path.read_bytes(), []
    while data and path.suffix == ".gz":
        unpacker = zlib.decompressobj(wbits=31)
        found.append(unpacker.decompress(data))
        data = unpacker.unused_data
    return found or [data]


MODELS = {"seed": st.integers(0, 2**32 - 1), "order": st.integers(2, 4), "closed": st.booleans()}


@settings(max_examples=12, deadline=None)
@given(**MODELS, n=st.integers(1, 6), block=st.sampled_from([3, 7, 1 << 15]), pack=st.booleans())
def test_a_model_goes_through_shards_unchanged(seed: int, order: int, closed: bool, n: int, block: int, pack: bool):
    rng = np.random.default_rng(seed)
    model = random_model(rng, order, 6, closed=closed)
    shuffled = dict(sorted(model.items(), key=lambda gram: (len(gram[0]), len(gram[0]) > 1 and rng.random())))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder, suffix = Path(name), ".gz" if pack else ""
        path = write_model(shuffled, folder / "a.arpa")
        patch.setattr(mdi.lm.arpa_write, "BLOCK", block)
        whole = read_arpa(path, quiet=True)
        write_arpa(whole, folder / f"one{suffix}")
        worst = worst_sum(whole)
        with at_work(Job(_made(folder / "file"), n_shards=n)):
            found = read_arpa(path, quiet=True)
            assert found == whole
            assert worst_sum(found) == worst
            write_arpa(found, folder / f"shards{suffix}")
        assert members(folder / f"one{suffix}") == members(folder / f"shards{suffix}")


def _made(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


@pytest.mark.filterwarnings("ignore::mdi.errors.ConvergenceWarning")
@settings(max_examples=12, deadline=None)
@given(**MODELS, n=st.integers(1, 9), prior=st.booleans(), sweep=st.booleans())
def test_adaptation_in_shards_is_that_in_one_piece(seed, order, closed, n, prior, sweep):
    """To the last bit, wherever shards begin."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_model(random_model(rng, order, 6, closed=closed), folder / "bg.arpa")
        text = write_text(random_text(rng, 6, 30), folder / "text")
        sets = ["1", "2-1", "3-2"] if sweep else ["2-1"]
        options = {"sigma2": 1.0 if prior else None, "settings": SolverSettings(max_iters=30)}
        try:
            results = list(Adapter(read_arpa(path, quiet=True), text).sweep(sets, **options))
        except MdiError as error:
            with at_work(Job(_made(folder / "shards"), n_shards=n)), pytest.raises(MdiError, match=str(error)[:20]):
                list(Adapter(read_arpa(path, quiet=True), text).sweep(sets, **options))
            return
        with at_work(Job(_made(folder / "shards"), n_shards=n)):
            many = Adapter(read_arpa(path, quiet=True), text)
            for mine, theirs in zip(results, many.sweep(sets, **options), strict=True):
                assert theirs.problem.ngrams() == mine.problem.ngrams()
                assert theirs.problem.dropped.reasons == mine.problem.dropped.reasons
                assert theirs.problem.dual.active_rows == mine.problem.dual.active_rows
                assert theirs.problem.dual.entries == mine.problem.dual.entries
                assert np.array_equal(theirs.solution.mu, mine.solution.mu)
                assert theirs.whole == mine.whole
                assert theirs.worst_sum() == mine.worst_sum()
                assert (theirs.counts, theirs.kl) == (mine.counts, mine.kl)


# Verbs, with files of the folder below, that shards change nothing of.
VERBS = {
    "delta": "adapt --delta out --min-counts 1 --sigma2 1 bg.arpa text",
    "start": "adapt --start d.delta bg.arpa text out",
    "sweep": "adapt --min-counts 1,2 --sigma2 1 bg.arpa text out{}",
    "history": "adapt --history bg.arpa --sigma2 1 bg.arpa text out",
    "smoothed": "adapt --targets smoothed --sigma2 1 bg.arpa text out.gz",
    "fst": "adapt --format ngram --sigma2 1 bg.arpa text out",
    "apply": "apply bg.arpa d.delta out",
    "match": "match small.arpa bg.arpa text out",
    "tune": "tune --max-settings 2 bg.arpa text dev out",
    "mix": "mix --weights 0.5,0.5 --delta d.delta bg.arpa out",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made, rng = tmp_path_factory.mktemp("verbs"), np.random.default_rng(2)
    write_model(random_model(rng, 3, 8, closed=True), made / "bg.arpa")
    for name, size in (("text", 200), ("dev", 20)):
        write_text(random_text(rng, 8, size), made / name)
    calls = "adapt --delta d.delta --min-counts 1 --sigma2 1 bg.arpa text", "prune --threshold 1e-2 bg.arpa small.arpa"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        for call in calls:
            assert main(call.split()) == 0
    return made


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_in_shards(verb: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name, options in (("one", []), ("many", ["--shards", "3"])):
        (tmp_path / name).mkdir()
        call = [str(tmp_path / name / part) if part.startswith("out") else part for part in VERBS[verb].split()]
        assert main([call[0], *options, *call[1:]]) == 0
    made = [path.name for path in (tmp_path / "one").iterdir()]
    assert made
    assert sorted(made) == sorted(path.name for path in (tmp_path / "many").iterdir())
    for name in made:
        if not name.endswith((".json", ".tsv", ".svg")):
            assert members(tmp_path / "one" / name) == members(tmp_path / "many" / name)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), orders=st.lists(st.integers(2, 4), min_size=2, max_size=3), n=st.integers(1, 4))
def test_a_mixture_in_shards_is_that_in_one_piece(seed: int, orders: list[int], n: int) -> None:
    """Over different words, and of pruned models, too."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, order in enumerate(orders):
            write_model(random_model(rng, order, 4 + 2 * i, closed=bool(rng.integers(2))), folder / f"{i}.arpa")
        write_text(random_text(rng, 6, 8), folder / "dev")
        files = [str(folder / f"{i}.arpa") for i in range(len(orders))]
        for out, options in (("one", []), ("many", ["--shards", str(n)])):
            assert main(["mix", "--tune", str(folder / "dev"), *options, *files, str(folder / f"{out}.arpa")]) == 0
        assert same_bytes(folder / "one.arpa", folder / "many.arpa")
        one, many = (json.loads((folder / f"{out}.arpa.json").read_text()) for out in ("one", "many"))
        for field in ("weights", "ngrams", "development", "worst_sum_gap"):
            assert one[field] == many[field]


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(2, 4),
    n=st.integers(1, 4),
    known=st.booleans(),
    smoothing=st.sampled_from(["kn", "kn-interpolated", "wb"]),
    least=st.sampled_from(["1", "1-1-2", "1-2-2", "2-3-2"]),
    pack=st.booleans(),
)
def test_training_in_shards_is_that_in_one_piece(seed, order, n, known, smoothing, least, pack) -> None:
    """From blocks of a few lines, with and without a vocabulary, and with n-grams that are left out."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setattr(mdi.lm.counts, "TOKENS", int(rng.integers(5, 300)))
        patch.setattr(mdi.lm.counts, "PIECE", int(rng.integers(1, 20)))
        text = write_text(random_text(rng, 8, 60), folder / "text")
        if pack:
            Path(text).write_bytes(gzip.compress(Path(text).read_bytes()))
        (folder / "words").write_text("w0\nw1\nw2\nw3\nw4\nw5\n")
        options = ["--order", str(order), "--smoothing", smoothing, "--min-counts", least]
        options += ["--vocab", str(folder / "words"), "--oov", str(rng.choice(["map", "drop"]))] if known else []
        codes = []
        for out, more in (("one", []), ("many", ["--shards", str(n)])):
            codes.append(main(["train", *options, *more, text, str(folder / f"{out}.arpa")]))
        assert codes[0] == codes[1]
        if codes[0] == 0:
            assert same_bytes(folder / "one.arpa", folder / "many.arpa")
            one, many = (json.loads((folder / f"{out}.arpa.json").read_text()) for out in ("one", "many"))
            for told in (one, many):
                del told["seconds"], told["peak_memory_mb"]
            assert one == many


class Stopping(Runner):
    """Fails at the first call of a function."""

    def __init__(self, function: str) -> None:
        self.function = function

    def each(self, function, calls, folder, label=""):
        for call in calls:
            if self.function in (function.__name__, call[0].__name__ if callable(call[0]) else ""):
                raise MdiError("stopped")
            yield function(*call)


@pytest.mark.parametrize("where", ["_gaps_of_shard", "_extract_shard", "_rescale_shard"])
def test_a_job_that_failed_is_done_again(where: str, tmp_path: Path) -> None:
    """With the same result, also with another number of workers, and with nothing of the first one left."""
    rng = np.random.default_rng(5)
    path = write_model(random_model(rng, 3, 6, closed=False), tmp_path / "bg.arpa")
    text = write_text(random_text(rng, 6, 40), tmp_path / "text")

    def attempt(name: str, runner: Runner, shards: int | None) -> None:
        with job_folder(str(tmp_path / name), {"same": "job"}) as place, at_work(Job(place, runner, n_shards=shards)):
            model = read_arpa(path, quiet=True)
            worst_sum(model)
            write_arpa(
                Adapter(model, text).adapt("1", sigma2=1.0, settings=SolverSettings(1e-9)), tmp_path / f"{name}.arpa"
            )

    attempt("through", Runner(), 3)
    with pytest.raises(MdiError, match="stopped"):
        attempt("stopped", Stopping(where), 3)
    assert not (tmp_path / "stopped").exists()
    attempt("stopped", Runner(), None)
    assert same_bytes(tmp_path / "through.arpa", tmp_path / "stopped.arpa")
    assert not (tmp_path / "stopped").exists()


@pytest.mark.parametrize("where", ["count_part", "_gaps_of_shard"])
def test_training_that_failed_goes_on(where: str, tmp_path: Path, monkeypatch) -> None:
    """What has been counted is not counted again."""
    monkeypatch.setattr(mdi.lm.counts, "TOKENS", 50)
    text = Path(write_text(random_text(np.random.default_rng(5), 8, 60), tmp_path / "text"))
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.read_bytes()))
    assert main(["train", str(text), str(tmp_path / "one.arpa")]) == 0
    counted, store = [], mdi.lm.counts.store
    monkeypatch.setattr(mdi.lm.counts, "store", lambda counts, prefix: counted.append(prefix) or store(counts, prefix))

    def attempt(runner: Runner) -> None:
        runner.workers = 2  # type: ignore[misc]
        with job_folder(str(tmp_path / "job"), {"same": "job"}) as place:
            job = Job(place, runner, n_shards=3)
            vocab = GrowingVocabulary(SPECIAL)
            with at_work(job), stream_blocks([tmp_path / "text.gz"], vocab, 3, "map", 1 << 24, job) as counts:
                found = estimate(counts).model
                worst_sum(found)
                write_arpa(found, tmp_path / "many.arpa")

    with pytest.raises(MdiError, match="stopped"):
        attempt(Stopping(where))
    attempt(Runner())
    assert len(counted) == len(set(counted)) > 3
    assert same_bytes(tmp_path / "one.arpa", tmp_path / "many.arpa")


@pytest.mark.parametrize("succeeds", [True, False])
def test_what_else_is_in_the_folder_is_left_alone(succeeds: bool, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "chapters").mkdir(parents=True)
    (mine / "thesis.tex").write_text("all my work")
    (mine / "job.json").write_text("{}")
    for about in ({"one": "job"}, {"another": "job"}):
        with contextlib.suppress(MdiError), job_folder(str(mine), about) as place:
            Path(place, "1.array").write_bytes(b"x")
            if not succeeds:
                raise MdiError("stopped")
    assert {path.name for path in mine.iterdir()} == {"chapters", "thesis.tex", "job.json"}
    (mine / "mdi-job").mkdir()
    (mine / "mdi-job" / "thesis.tex").write_text("all my work")
    with pytest.raises(MdiError, match="there is something in this directory"), job_folder(str(mine), {}):
        pass
    assert (mine / "mdi-job" / "thesis.tex").exists()


def test_a_directory_that_was_given_stays(tmp_path: Path) -> None:
    """Empty as it was; the one that a job makes for itself goes."""
    rng = np.random.default_rng(3)
    path = write_model(random_model(rng, 3, 6, closed=True), tmp_path / "bg.arpa")
    text = write_text(random_text(rng, 6, 60), tmp_path / "text")
    (tmp_path / "mine").mkdir()
    command = ["adapt", "--shards", "2", path, text, str(tmp_path / "out.arpa")]
    assert main([*command[:1], "--shards-dir", str(tmp_path / "mine"), *command[1:]]) == 0
    assert main(command) == 0
    names = {"bg.arpa", "text", "out.arpa", "out.arpa.json"}
    assert {one.name for one in tmp_path.iterdir()} == {*names, "mine"}
    assert not any((tmp_path / "mine").iterdir())


def test_no_cluster_is_started_where_another_job_is_at_work(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("mdi.cluster.connected", None)
    with job_folder(str(tmp_path / "out.shards"), {}):
        bg, text = (str(Path(__file__).parent / "data" / "bad" / name) for name in ("good.arpa", "tiny.txt"))
        assert main(["adapt", "--cluster", "local:2", bg, text, str(tmp_path / "out")]) == 1
    assert "another job is at work here" in capsys.readouterr().err


def test_a_folder_that_goes_before_it_is_locked_is_made_again(tmp_path: Path, monkeypatch) -> None:
    """By a job that ends at that moment."""
    outer, before = tmp_path / "job", []

    def late(handle: int) -> bool:
        before.append(handle)
        if len(before) == 1:
            shutil.rmtree(outer)
        return locked(handle)

    monkeypatch.setattr("mdi.lm.shards.locked", late)
    with job_folder(str(outer), {}) as place:
        with pytest.raises(MdiError, match="another job is at work here"), job_folder(str(outer), {}):
            pass
        assert Path(place, "job.json").exists()
    assert not outer.exists()


@pytest.mark.parametrize("on_nfs", [False, True])
def test_one_job_in_a_folder_at_a_time(on_nfs: bool, tmp_path: Path, monkeypatch) -> None:
    def as_on_nfs(handle: int, how: int) -> None:
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(handle, how)

    flock = fcntl.flock
    if on_nfs:
        monkeypatch.setattr(fcntl, "flock", as_on_nfs)
    with job_folder(str(tmp_path / "job"), {"one": "job"}) as place:
        with pytest.raises(MdiError, match="another job is at work here"), job_folder(str(tmp_path / "job"), {}):
            pass
        assert Path(place, "job.json").exists()
    assert not (tmp_path / "job").exists()


def test_shards_fit_into_memory(tmp_path: Path) -> None:
    trie = read_arpa(write_model(random_model(np.random.default_rng(1), 3, 40, closed=True), tmp_path / "a.arpa")).trie
    rows = sum(trie.counts[1:])
    for wanted in (1, 3, 10):
        memory = PROGRAM + BYTES_PER_ROW * (rows // wanted)
        shards = Job(str(tmp_path), memory=memory).shards(trie)
        assert wanted <= len(shards) <= wanted + 2
        assert [first for first, _ in shards[1:]] == [end for _, end in shards[:-1]]
        assert (shards[0][0], shards[-1][1]) == (0, trie.n_words)


LINES = [
    ("-1 w0 w1 w9", "the word 'w9' in '-1 w0 w1 w9' is not among the 1-grams"),
    ("-1 w1 w1 w0", "'-1 w1 w1 w0': its history 'w1 w1' is not among the 2-grams"),
    ("-1 w0 w0 w0", "the 3-gram 'w0 w0 w0' appears twice"),
    ("1 w0 w0 w1", "the log10 probability 1 is positive"),
]


@pytest.mark.parametrize(("line", "message"), LINES)
def test_what_is_wrong_with_a_file_is_said(line: str, message: str, tmp_path: Path) -> None:
    words = "".join(f"-1 {w} -1\n" for w in ("<s>", "</s>", "w0", "w1"))
    text = f"\\data\\\nngram 1=4\nngram 2=1\nngram 3=2\n\n\\1-grams:\n{words}\n\\2-grams:\n-1 w0 w0 0\n\n\\3-grams:\n"
    (tmp_path / "a.arpa").write_text(f"{text}-1 w0 w0 w0\n{line}\n\n\\end\\\n")
    with pytest.raises(MdiError, match=re.escape(f"a.arpa:17: {message}")):
        read_arpa(tmp_path / "a.arpa")
    with at_work(Job(_made(tmp_path / "job"), n_shards=2)), pytest.raises(MdiError, match=re.escape(message)) as found:
        read_arpa(tmp_path / "a.arpa")
    assert "a.arpa:17: " in str(found.value)


def test_too_little_memory_for_the_program_itself(tmp_path, capsys):
    """The true reason, whatever the model; and a job that has begun nothing leaves nothing."""
    rng = np.random.default_rng(3)
    path = write_model(random_model(rng, 3, 12, closed=True), tmp_path / "bg.arpa")
    text = write_text(random_text(rng, 12, 60), tmp_path / "text")
    out = str(tmp_path / "out.arpa")
    assert main(["adapt", "--memory", "300M", path, text, out]) == 2
    assert "expected more than 300M, which the program itself takes" in capsys.readouterr().err
    before = sorted(tmp_path.iterdir())
    for where, code in (("tcp:foo", 2), ("tcp://127.0.0.1:1", 1), ("slurm:/nowhere.yaml", 1)):
        assert main(["adapt", "--cluster", where, path, text, str(tmp_path / "other.arpa")]) == code
    assert sorted(tmp_path.iterdir()) == before
    assert {one.name for one in before} == {"bg.arpa", "text"}
