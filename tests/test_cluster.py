"""Shards on the workers of a real Dask cluster: processes of this machine, some of which get killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cluster_kills import workers_of
from random_models import random_model, random_text, write_model, write_text

import mdi
import mdi.lm.arpa
from mdi.cli import main
from mdi.cluster import OnDask, connected
from mdi.errors import MdiError, OptionError
from mdi.lm import blocks
from mdi.lm.estimate import estimate
from mdi.lm.shards import Job, at_work, job_folder
from mdi.lm.text import SPECIAL
from mdi.lm.vocabulary import GrowingVocabulary

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with connected("local:2") as runner:
        yield runner.client


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, str, str]:
    """A folder with a model and a text, and the adapted model that one process makes of them."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(8)
    path = write_model(random_model(rng, 3, 12, closed=False), folder / "bg.arpa")
    text = write_text(random_text(rng, 12, 60), folder / "text")
    mdi.write_arpa(mdi.adapt(path, text, 1, sigma2=1), folder / "one.arpa")
    return folder, path, text


class Killing(OnDask):
    """Kills a worker while a function is at work, once."""

    def __init__(self, client, function: str) -> None:
        client.wait_for_workers(2, timeout=60)
        super().__init__(client)
        self.function = function

    def each(self, function, calls, folder, label=""):
        if self.function in (function.__name__, *(getattr(call[0], "__name__", "") for call in calls)):
            self.function = ""
            os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
        return super().each(function, calls, folder, label)


@pytest.mark.slow
def test_adapting_with_a_client(client, files, tmp_path: Path) -> None:
    folder, path, text = files
    for i, background in enumerate((path, mdi.read_arpa(path, quiet=True))):
        adapted = mdi.adapt(background, text, 1, sigma2=1, cluster=client, shards=tmp_path / f"job{i}")
        mdi.write_arpa(adapted, tmp_path / "many.arpa")
        assert (tmp_path / "many.arpa").read_bytes() == (folder / "one.arpa").read_bytes()
    with pytest.raises(MdiError, match="shards="):
        mdi.adapt(path, text, cluster=client)


@pytest.mark.slow
def test_verbs_on_a_scheduler(client, files, tmp_path: Path, capsys) -> None:
    """--cluster tcp://..., as for a cluster that is there already."""
    folder, path, text = files
    where = ["--cluster", client.scheduler.address]
    out = tmp_path / "many.arpa"
    assert main(["adapt", "--min-counts", "1", "--sigma2", "1", *where, "--ppl", text, path, text, str(out)]) == 0
    assert out.read_bytes() == (folder / "one.arpa").read_bytes()
    assert (tmp_path / "many.arpa.workers.log").exists()
    assert not (tmp_path / "many.arpa.shards").exists()
    said = capsys.readouterr()
    assert "dashboard http" in said.err
    assert main(["ppl", str(out), text]) == 0
    one = capsys.readouterr().out
    assert f"ppl= {said.out.split()[2]} " in one
    assert main(["ppl", *where, "--shards-dir", str(tmp_path / "ppl"), str(out), text]) == 0
    assert capsys.readouterr().out == one


@pytest.mark.slow
@pytest.mark.parametrize("where", ["_worst_of_shard", "_extract_shard", "_rescale_shard", "_format_blocks"])
def test_a_killed_worker_changes_nothing(where: str, client, files, tmp_path: Path) -> None:
    """Those that are left do its work, until there is another one in its place."""
    folder, path, text = files
    runner = Killing(client, where)
    with job_folder(str(tmp_path / "job"), {}) as place, at_work(Job(place, runner, n_shards=3)):
        adapted = mdi.adapt(path, text, 1, sigma2=1)
        adapted.worst_sum()
        mdi.write_arpa(adapted, tmp_path / "many.arpa")
        assert runner.function == ""
    assert (tmp_path / "many.arpa").read_bytes() == (folder / "one.arpa").read_bytes()


@pytest.mark.slow
def test_a_worker_killed_while_counting_changes_nothing(client, files, tmp_path: Path, monkeypatch) -> None:
    _, _, text = files
    monkeypatch.setattr(blocks, "BLOCK", 200)
    mdi.write_arpa(mdi.train(text), tmp_path / "one.arpa")
    runner, vocab = Killing(client, "count_block"), GrowingVocabulary(SPECIAL)
    with job_folder(str(tmp_path / "job"), {}) as place:
        job = Job(place, runner, n_shards=3)
        with at_work(job), blocks.stream_blocks([text], vocab, 3, "map", 1 << 24, job) as counts:
            mdi.write_arpa(estimate(counts).model, tmp_path / "many.arpa")
        assert runner.function == ""
    assert (tmp_path / "many.arpa").read_bytes() == (tmp_path / "one.arpa").read_bytes()


def _no_second_try(dask_scheduler) -> None:
    dask_scheduler.allowed_failures = 0


@pytest.mark.slow
def test_a_worker_that_fails_says_why(client, files, tmp_path: Path) -> None:
    runner, place = OnDask(client), str(tmp_path)
    with pytest.raises(MdiError, match=r"/nowhere/a\.arpa: No such file"):
        list(runner.each(mdi.read_arpa, [("/nowhere/a.arpa",)], place))
    client.wait_for_workers(1, timeout=60)
    client.run_on_scheduler(_no_second_try)
    with pytest.raises(MdiError, match=r"exit: its worker died, and so did those.*goes on from here"):
        list(runner.each(os._exit, [(3,)], place, "exit"))


def _eat(size: int) -> float:
    eaten = np.ones(size, np.uint8)
    time.sleep(30)  # until whoever looks after the worker has seen it
    return float(eaten[-1])


@pytest.mark.slow
def test_a_worker_that_runs_out_of_memory_says_so(client, tmp_path: Path) -> None:
    client.wait_for_workers(1, timeout=60)
    with pytest.raises(MdiError, match=r"too much: a worker is out of memory.*--shards.*goes on from here"):
        list(OnDask(client).each(np.zeros, [(1 << 55,)], str(tmp_path), "too much"))
    with connected("local:1", 400 << 20) as runner:
        runner.client.run_on_scheduler(_no_second_try)
        with pytest.raises(MdiError, match=r"eating: its worker died.*out of memory.*--shards.*goes on from here"):
            list(runner.each(_eat, [(500 << 20,)], str(tmp_path), "eating"))


def _dask(name: str, *args: str) -> subprocess.Popen:
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *args, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_scheduler_that_goes_away(files, tmp_path: Path, capsys, monkeypatch) -> None:
    """A clear error, no half file, nobody left at work; the next one goes on, with what there is."""
    folder, path, text = files
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scheduler = _dask("scheduler", "--host", "127.0.0.1", "--port", str(port))
    worker = _dask(
        "worker",
        f"tcp://127.0.0.1:{port}",
        "--nthreads",
        "1",
        "--death-timeout",
        "3",
        "--local-directory",
        str(tmp_path),
    )
    each_of = OnDask.each

    def each(self, function, calls, folder, label=""):
        if function.__name__ == "_rescale_shard":
            scheduler.kill()
        return each_of(self, function, calls, folder, label)

    monkeypatch.setattr(OnDask, "each", each)
    monkeypatch.setitem(dask.config.config["distributed"]["comm"]["timeouts"], "connect", "2s")
    out = tmp_path / "many.arpa"
    command = ["adapt", "--min-counts", "1", "--sigma2", "1", "--shards", "2", path, text, str(out)]
    try:
        assert main([*command[:1], "--cluster", f"tcp://127.0.0.1:{port}", *command[1:]]) == 1
        said = capsys.readouterr().err
        assert "the scheduler has gone" in said
        assert "the same command goes on from here" in said
        assert sorted(one.name for one in tmp_path.glob("many*")) == ["many.arpa.shards"]
        assert worker.wait(60) is not None
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    monkeypatch.setattr(mdi.lm.arpa, "_read_text", None)  # what has been read is not read again
    assert main(command) == 0
    assert out.read_bytes() == (folder / "one.arpa").read_bytes()


@pytest.mark.slow
def test_a_full_disk(client, files, tmp_path: Path, capsys) -> None:
    """Under the shards: an error that says so, and with more room the job goes on."""
    folder, path, text = files
    place = tmp_path / "small"
    place.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=48k", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(small, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    out = tmp_path / "many.arpa"
    command = ["adapt", "--min-counts", "1", "--sigma2", "1", "--cluster", client.scheduler.address]
    command += ["--shards-dir", str(place / "shards"), path, text, str(out)]
    try:
        assert main(command) == 1
        said = capsys.readouterr().err
        assert "No space left on device" in said
        assert str(place / "shards") in said
        assert not list(tmp_path.glob("many.arpa*[!g]"))
        assert not list((place / "shards").glob(".*.tmp"))
        subprocess.run(["mount", "-o", "remount,size=16m", str(place)], check=True)
        assert main(command) == 0
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert out.read_bytes() == (folder / "one.arpa").read_bytes()


def test_places_that_are_none(tmp_path: Path) -> None:
    for spec in ("locale:2", "local:0", "local", "local:many"):
        with pytest.raises(OptionError), connected(spec):
            pass
    with pytest.raises(MdiError, match=r"as in local/conf/slurm\.yaml"), connected("slurm:/nowhere.yaml"):
        pass
    (tmp_path / "odd.yaml").write_text("queue: main\n")
    with pytest.raises(MdiError, match="no 'workers: N'"), connected(f"sge:{tmp_path}/odd.yaml"):
        pass
