"""Passes over a model, shard by shard.

A shard is a range of words: all histories that end in them, of every length, with their rows and back-off weights. The
histories h' that h backs off to end in the same word as h, so whatever follows suffixes stays inside a shard: sums, the
entries of the dual, scaling. Rows and histories of a shard lie side by side (mdi/lm/trie.py), so a pass over it reads
and writes slices of the model's arrays. Without a job there is one shard, all words, and this process passes over it;
with one the arrays are in files (mdi/room.py), and each shard may be passed over by another process.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mdi import room
from mdi.cluster import Runner
from mdi.errors import MdiError
from mdi.files import locked, make_folder
from mdi.lm.trie import Trie
from mdi.record import is_same, write_record
from mdi.threads import in_threads

# The words first .. end - 1.
Shard = tuple[int, int]
# What the busiest moment takes for each n-gram of a shard, and the program, in bytes.
BYTES_PER_ROW = 40
PROGRAM = 300 << 20
# Into how many parts work is cut for each worker.
PARTS = 8
# Where a job has its files, within the directory that it is given.
OWN_FOLDER = "mdi-job"
# Small pieces of work in one call at most: what they make is in memory together.
MOST_AT_ONCE = 32


@dataclass(frozen=True)
class Job:
    """Where large arrays lie, who passes over shards, and how many there are: as many as `memory` (bytes of a process)
    demands and workers can share, unless told."""

    folder: str
    runner: Runner = field(default_factory=Runner)
    memory: int | None = None
    n_shards: int | None = None

    def shards(self, trie: Trie) -> list[Shard]:
        """About equally many rows in each."""
        rows = np.zeros(trie.n_words + 1, np.int64)  # of the words before each
        for k in range(2, trie.order + 1):
            rows += trie.begin[k][trie.first_hists(k - 1)]
        number = self.n_shards or self.runner.workers
        if self.memory is not None and not self.n_shards:
            room_for = max(1, (self.memory - PROGRAM) // BYTES_PER_ROW)
            number *= max(1, -(-int(rows[-1]) // room_for // number))
        inner = np.searchsorted(rows, np.linspace(0, rows[-1], number + 1)[1:-1])
        cuts = np.unique([0, *inner, trie.n_words]).tolist()
        return list(pairwise(cuts))


_job: Job | None = None


@contextlib.contextmanager
def at_work(job: Job | None) -> Iterator[None]:
    """Meanwhile large arrays and passes are this job's."""
    global _job
    if job is None:
        yield
        return
    before, _job = _job, job
    memory = None if job.memory is None else max(job.memory - PROGRAM, job.memory // 4) // 2
    try:
        with room.arrays_in(job.folder, memory):
            yield
    finally:
        _job = before


def current() -> Job | None:
    return _job


def over_shards(function: Callable[..., Any], trie: Trie, *args: Any, label: str = "") -> list[Any]:
    """function(shard, ...) for all shards of a model with this trie, in their order."""
    if _job is None:
        return [function((0, trie.n_words), *args)]
    calls = [(shard, *args) for shard in _job.shards(trie)]
    return list(_job.runner.each(function, calls, _job.folder, label))


def in_order(calls: Sequence[tuple[Any, ...]], label: str = "") -> Iterator[Any]:
    """call[0](*call[1:]) for each of the calls, in their order, by the workers of the job or by threads here."""
    if _job is not None and _job.runner.workers > 1:
        yield from _job.runner.each(call_of, calls, _job.folder, label)
    else:
        yield from in_threads(lambda call: call_of(*call), calls)


def call_of(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def blocks_at_once(blocks: int) -> int:
    """How many of so many small pieces of work are worth a call: one, or what keeps messages to workers few."""
    if _job is None or _job.runner.workers < 2:
        return 1
    return min(MOST_AT_ONCE, max(1, blocks // (PARTS * _job.runner.workers)))


@contextlib.contextmanager
def job_folder(path: str, about: dict[str, Any], own: bool = True) -> Iterator[str]:
    """A folder of its own, within the one at `path`, for the arrays of a job. It goes when the job ends, unless that
    failed and has counted something: the same job, as `about` tells, need not count it again; another begins from
    scratch. What else lies at `path` is not touched. `own`: that goes, too, if nothing is left in it."""
    folder = Path(path, OWN_FOLDER)
    note, done = folder / "job.json", True
    with _alone(Path(path, f"{OWN_FOLDER}.lock"), own):
        make_folder(str(folder))
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            raise MdiError(f"{folder}: is somebody else's directory; expected one of yours. Give --shards-dir")
        if any(folder.iterdir()):
            if not note.exists():
                raise MdiError(f"{folder}: there is something in this directory; expected none, or what a job has left")
            same = is_same(note, about)
            for old in folder.iterdir():
                if not same or old.suffix == ".array":
                    old.unlink()
        write_record(note, about)
        try:
            yield str(folder.resolve())
        except BaseException:
            done = all(one.suffix == ".array" or one == note for one in folder.iterdir())
            raise
        finally:
            if done:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(lock: Path, own: bool) -> Iterator[None]:
    """Meanwhile this file, made with its folder, is locked. Afterwards it goes, and with `own` the folder, if empty."""
    while True:
        try:
            make_folder(str(lock.parent))
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # another job has removed the folder again
            continue
        try:
            if not locked(handle):
                raise MdiError(
                    f"{lock.parent}: another job is at work here; expected a directory for each. Give --shards-dir"
                )
            if os.fstat(handle).st_nlink:  # else another job has removed the file before it was locked
                try:
                    yield
                finally:
                    with contextlib.suppress(OSError):  # something else is there
                        lock.unlink()
                        if own:
                            lock.parent.rmdir()
                return
        finally:
            os.close(handle)
