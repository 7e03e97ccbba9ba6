"""A model of which this process has the words only; the rest is in shards, on which others may work."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdi.cluster import Here, Runner
from mdi.errors import MdiError
from mdi.files import make_folder, replacing, writing
from mdi.lm import shard_read, shard_write, shards
from mdi.lm.cache import write_arrays
from mdi.lm.model import NgramModel
from mdi.lm.shard_read import Head, Target, Words
from mdi.lm.shard_write import Exported
from mdi.lm.shards import Kept, Shard, Source, ranges
from mdi.lm.trie import NONE, Array, Trie, unigram_trie
from mdi.lm.vocabulary import Vocabulary, join_vocabularies
from mdi.progress import say

# Bytes that the busiest moment of a shard takes for each of its rows, from measurements, and those of the program.
BYTES_PER_ROW = 125
PROGRAM = 300 << 20
# Into how many parts a file is cut for each worker that reads it.
SHARES = 8


@dataclass(frozen=True)
class Job:
    """Where the shards are, who works on them, and how many there are to be: as many as `memory` (bytes of a process)
    demands and workers can share, unless told."""

    folder: str
    runner: Runner = field(default_factory=Here)
    memory: int | None = None
    n_shards: int | None = None

    def ranges(self, weight: Array, cuts: Array | Sequence[int] = ()) -> list[Shard]:
        """Shards of words with so many rows each; those that an interrupted job has left, if it has."""
        known = Path(self.folder) / "ranges.mdi"
        if not known.exists():
            begins = np.array([one.first for one in self._ranges(weight, cuts)])
            with replacing(str(known), sync=False) as stream:
                write_arrays(stream, {}, {"begins": [begins]})
        begins = shards.read_kept(known)["begins"][0].tolist()
        ends = [*begins[1:], len(weight)]
        return [Shard(self.folder, i, a, b) for i, (a, b) in enumerate(zip(begins, ends, strict=True))]

    def _ranges(self, weight: Array, cuts: Array | Sequence[int]) -> list[Shard]:
        if self.n_shards or self.memory is None:
            return ranges(self.folder, weight, self.n_shards or self.runner.workers, cuts)
        room = (self.memory - PROGRAM) // BYTES_PER_ROW
        if room < weight.max(initial=1):
            least = int(weight.max()) * BYTES_PER_ROW + PROGRAM
            raise MdiError(
                f"{self.memory >> 20} MB of memory for a process; expected at least {(least >> 20) + 1} MB: the "
                f"program itself takes {PROGRAM >> 20} MB, and the n-grams after one word must fit beside it"
            )
        number = max(1, -(-int(weight.sum()) // room // self.runner.workers)) * self.runner.workers
        while True:
            found = ranges(self.folder, weight, number, cuts)
            if max(int(weight[one.first : one.end].sum()) for one in found) <= room:
                return found
            number += self.runner.workers


@dataclass(frozen=True, repr=False, eq=False)
class ShardedModel:
    """`name`: which files of the shards. `p`: [filler, that of the words]; `trie`: of the words, no more. `sources`:
    how each shard's model is had, if not from a file of that name. `exported`: what `export_weights` has said, if it
    has."""

    job: Job
    shards: list[Shard]
    name: str
    vocab: Vocabulary
    order: int
    p: list[Array]
    sources: Sequence[Source] = ()
    exported: Sequence[Exported] = ()

    def parts(self) -> list[tuple[Shard, Source]]:
        return list(zip(self.shards, self.sources or [Kept(self.name)] * len(self.shards), strict=True))

    @property
    def trie(self) -> Trie:
        return unigram_trie(len(self.vocab))

    @property
    def words(self) -> NgramModel:
        """Order 1 as a model of its own."""
        return NgramModel(self.vocab, self.trie, self.p, [np.ones(1)])

    def run(self, function: Any, calls: Sequence[tuple], label: str = "") -> list[Any]:
        return self.job.runner.run(function, calls, label)

    def __repr__(self) -> str:
        return f"<ShardedModel of order {self.order} in {len(self.shards)} shards of {self.job.folder}>"

    def worst_sum(self) -> tuple[float, str]:
        """As mdi.lm.normalise.worst_sum."""
        return worst_of(self.vocab, self.run(shards.worst_gaps, self.parts(), "checking"))

    def token_probs(self, ids: Array) -> tuple[Array, Array]:
        """As mdi.lm.perplexity.token_probs: every event goes to the shard of the last word of its history."""
        events = shards.Events.of(ids, self.order, self.vocab.bos)
        begins = np.array([one.first for one in self.shards])
        owner = np.searchsorted(begins, events.last, side="right") - 1
        calls = []
        for i, one in enumerate(self.parts()):
            calls.append((*one, np.ascontiguousarray(events.ids[owner == i])))
        prob, used = np.zeros(len(ids)), np.zeros(len(ids), np.int8)
        for i, found in enumerate(self.run(shards.score, calls)):
            prob[events.at[owner == i]], used[events.at[owner == i]] = found
        prob[events.first], used[events.first] = self.p[1][ids[events.first]], 1  # nothing before them
        return prob, used

    def write(self, path: str) -> list[int]:
        """Writes the model as `write_arpa` would, byte for byte; returns its n-grams by order."""
        everybody = self.shards
        exported = self.exported or self.run(
            shard_write.export_weights, [(one, everybody, source) for one, source in self.parts()],
            f"{path}: back-off weights",
        )  # fmt: skip
        first = np.cumsum([[0] * (self.order - 1), *(part.rows for part in exported)], axis=0).tolist()
        orders, numbers = range(2, self.order + 1), range(len(everybody))
        keys = [(k, i) for k in orders for i in numbers]
        if len(everybody) > self.job.runner.workers:  # a shard is loaded once, rather than written as soon as possible
            keys = [(k, i) for i in numbers for k in orders]
        parts, pack = self.parts(), path.endswith(".gz")
        calls = [(parts[i][0], everybody, parts[i][1], k, first[i][k - 2], pack) for k, i in keys]
        made = self.job.runner.each(shard_write.format_shard, calls, f"{path}: formatting")
        formatted = shard_write.InOrder(zip(keys, made, strict=True))
        shard_write.assemble(path, self.words, exported, formatted, everybody, self.name, self.order)
        return [len(self.vocab), *(sum(part.kept[k] for part in exported) for k in range(self.order - 1))]

    def remove(self) -> None:
        """The files of this model."""
        for one in self.shards:
            for pattern in (f"{self.name}.{one.index}.mdi", f"{self.name}-*.{one.index}*"):
                for path in Path(one.folder).glob(pattern):
                    path.unlink()


def worst_of(vocab: Vocabulary, found: list[list[tuple[float, list[int]]]]) -> tuple[float, str]:
    """The worst of what `shards.worst_gaps` says of each shard, the first of those that are equally bad."""
    by_length = [max(parts, key=lambda part: part[0]) for parts in zip(*found, strict=True)]
    gap, words = max(by_length, key=lambda part: part[0])
    return gap, f"'{vocab.spell(words)}'" if words else "the empty history"


def read_sharded(path: str, job: Job, cuts: Array | Sequence[int] = (), quiet: bool = False) -> ShardedModel:
    """Cuts an ARPA file into shards, without the whole in memory anywhere."""
    words = cut_files([path], job)
    return build_shards([path], job, words, cuts, quiet)[0]


def read_heads(paths: Sequence[str], job: Job) -> list[Head]:
    """The words of ARPA files, each over its own."""
    if "-" in paths:
        raise MdiError("a model from standard input; expected a file, which workers can read")
    calls = [(os.path.abspath(path), job.folder, f"m{i}") for i, path in enumerate(paths)]
    return job.runner.run(shard_read.read_head, calls)


def cut_files(paths: Sequence[str], job: Job, heads: list[Head] | None = None) -> list[Words]:
    """The words of ARPA files, over one vocabulary; their n-grams are left in pieces. What an interrupted job has left
    is used again."""
    heads = heads or read_heads(paths, job)
    order, vocab = max(len(head.counts) for head in heads), heads[0].vocab
    labels: Sequence[Array | None] = [None]
    if len(paths) > 1:
        vocab, labels = join_vocabularies([head.vocab for head in heads])
    targets = [Target(job.folder, f"m{i}", order, len(vocab), part) for i, part in enumerate(labels)]
    files = [os.path.abspath(path) for path in paths]
    words = [_cut_file(*one, vocab, job.runner) for one in zip(files, heads, targets, strict=True)]
    for path, one in zip(paths, words, strict=True):
        if len(one.counts) < 2:
            raise MdiError(f"{path}: words only; expected n-grams of two words and more, which shards are made of. "
                           f"Leave out --cluster and --memory")  # fmt: skip
    return words


def _cut_file(path: str, head: Head, target: Target, vocab: Vocabulary, runner: Runner) -> Words:
    """The windows of a plain file are shared out; a packed one, or one that has something odd in it, is read by one
    process, which says what."""
    done = shard_read.cut_words(target.folder, target.name)
    if done is not None:
        return done
    if head.begin >= 0:
        windows = shard_read.windows_of(path, head)
        size = -(-len(windows) // (SHARES * runner.workers)) if runner.workers > 1 else len(windows)
        shares = [windows[i : i + size] for i in range(0, len(windows), size)]
        calls = [(path, target, share, runner.threads) for share in shares]
        found = runner.run(shard_read.cut_windows, calls, f"reading {path}")
        cuts = [cut for _, part in found for cut in part]
        if shard_read.as_expected(head, cuts):
            weight = np.sum([part for part, _ in found], axis=0)
            orders = range(len(head.counts) + 1)
            numbers = [[i for i, cut in enumerate(cuts) if cut.found[k]] for k in orders]
            return target.finish(head, vocab, weight, numbers)
        shard_read.remove_pieces(target.folder, target.name)
    return runner.run(shard_read.cut_arpa, [(path, target, vocab)], f"reading {path}")[0]


def build_shards(
    paths: Sequence[str],
    job: Job,
    words: list[Words],
    cuts: Array | Sequence[int] = (),
    quiet: bool = False,
    closed: bool = True,
) -> list[ShardedModel]:
    """The pieces of models over one vocabulary to shards, which begin at some of `cuts` if there are enough of them.
    With `closed` false suffixes that the files lack stay missing."""
    parts = job.ranges(sum(one.weight for one in words), cuts)  # type: ignore[arg-type]
    models, order = [], max(len(one.counts) for one in words)
    for i, (path, one) in enumerate(zip(paths, words, strict=True)):
        name, source = f"read{i}", f"m{i}"
        calls = [(part, source, name) for part in parts]
        lacking = sum(job.runner.run(shard_read.build, calls, f"{path}: building shards"))
        if lacking and closed:
            if not quiet:
                say(f"{path}: {lacking:,} suffixes of n-grams are missing (a pruned model); added with their "
                    f"backed-off probabilities")  # fmt: skip
            _close(job, parts, name, f"closed{i}")
            name = f"closed{i}"
        shard_read.remove_pieces(job.folder, source)
        models.append(ShardedModel(job, parts, name, one.vocab, order, [NONE, np.array(one.p)]))
    return models


def _close(job: Job, parts: list[Shard], source: str, name: str) -> None:
    if all(one.has(name) for one in parts):
        return
    for turn in range(100):
        new = sum(job.runner.run(shards.close, [(one, parts, source, name, turn) for one in parts], "closing"))
        if not new:
            break
    job.runner.run(shards.settle, [(one, f"{name}-{turn}", name) for one in parts])


def cut(model: NgramModel, job: Job, cuts: Array | Sequence[int] = ()) -> ShardedModel:
    """A model that is in memory, in shards."""
    parts = job.ranges(shards.weights_by_word(model.trie), cuts)
    for one in parts:
        shards.cut_model(model, one, "cut")
    return ShardedModel(job, parts, "cut", model.vocab, model.order, [NONE, model.p[1]])


@contextlib.contextmanager
def job_folder(path: str, about: dict[str, Any]) -> Iterator[str]:
    """A folder at `path` for the shards of a job. It goes when the job is done, and stays when it is not: the same job,
    as `about` tells, goes on with what is there; another begins from scratch."""
    folder = make_folder(path)
    note = folder / "job.json"
    mine = json.dumps(about, sort_keys=True, default=str)
    if any(folder.iterdir()):
        if not note.exists():
            raise MdiError(f"{path}: there is something in this folder; expected none, or what a job has left in it")
        if note.read_bytes() != mine.encode():
            for old in folder.iterdir():
                old.unlink()
    with writing(str(note)) as stream:
        stream.write(mine.encode())
    try:
        yield str(folder.resolve())
    except BaseException:
        if [one.name for one in folder.iterdir()] == [note.name]:  # nothing has been done that could be used again
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def source_of(path: str) -> dict[str, Any]:
    """What tells one input file from another."""
    if path == "-" or not os.path.exists(path):
        return {"path": path, "random": os.urandom(8).hex()}
    status = os.stat(path)
    return {"path": os.path.realpath(path), "size": status.st_size, "time": status.st_mtime_ns}


def renamed(model: ShardedModel, name: str, p: Array) -> ShardedModel:
    """Other files of the same shards."""
    return replace(model, name=name, p=[NONE, p])


def digest(*values: Any) -> str:
    """Of arrays and whatever JSON takes: what results are good for."""
    found = hashlib.sha256()
    for value in values:
        found.update(value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value, default=str).encode())
    return found.hexdigest()[:16]
