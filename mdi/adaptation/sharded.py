"""Adaptation of a model that is in shards (mdi/lm/shards.py).

What has the size of the in-domain text is here: counts, constraints, mu and the solver. What has the size of the model
is in the shards: rows, and the entries of the dual (`Part` in mdi/adaptation/dual.py). In an iteration a shard reads
exp(mu) of the words and of its own cells from a file, and gives back the marginals of its cells, a sum for each word in
two numbers and three sums for each of its blocks. Shards keep no state of the solver, so a lost one is loaded again
from its files and asked again. Evaluations are written down; a job that is started again repeats them from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.adapted import Adapted
from mdi.adaptation.constraints import Constraints, as_trie
from mdi.adaptation.dual import Dual, Empty, Evaluation, Part, PartSums, SubsetDual, part_of
from mdi.adaptation.history import History, move_mass
from mdi.adaptation.problem import Problem, needed_rows
from mdi.errors import MdiError
from mdi.files import replacing
from mdi.kernels.arpa import as_written
from mdi.kernels.dual import Histories
from mdi.lm.cache import read_arrays, write_arrays
from mdi.lm.model import NgramModel, extend, rescaled
from mdi.lm.shard_write import Exported, hold, weights_of
from mdi.lm.sharded import ShardedModel, digest, renamed, worst_of
from mdi.lm.shards import Shard, cut_trie, gaps_of, read_kept
from mdi.lm.trie import NONE, Array, Trie, closed, locate

# -- what is done where a shard is

_held: dict[tuple[str, int, str], Part] = {}  # parts of duals that this process has in memory


@dataclass(frozen=True)
class Asked:
    """What one shard is asked to lay a ground for. Lists are by order."""

    ngrams: Trie  # its part of the constrained n-grams and of what closes them
    chosen: list[Array]  # ids of its constraints of order 2 and more
    words: Array  # constrained words
    text: Trie  # its part of the text's n-grams
    mass: list[Array]  # counts of the text's histories; 0 for those of other shards
    events: float
    cuts: Array


def _leave_question(path: Path, ngrams: Trie, counts: Trie, chosen: Constraints, history: History) -> None:
    """What all shards are asked, in a file: it has the size of the text, and so has every answer of `_asked`."""
    lists = {f"ngrams-{name}": getattr(ngrams, name) for name in _TRIE}
    lists |= {f"text-{name}": getattr(counts, name) for name in _TRIE}
    lists |= {"mass": history.ml, "rows": chosen.row, "events": [np.array([history.events])], "cuts": [history.cuts]}
    with replacing(str(path), sync=False) as stream:
        write_arrays(stream, {}, lists)


_TRIE = ("begin", "word", "suffix", "as_hist", "back")


def _asked(path: Path, shard: Shard) -> Asked:
    lists = read_kept(path)
    ngrams, counts = (Trie(*(lists[f"{kind}-{name}"] for name in _TRIE)) for kind in ("ngrams", "text"))
    chosen = Constraints(lists["rows"])
    text, keep = cut_trie(counts, shard)
    mass = [np.zeros(1)]
    for j in range(1, counts.order):
        whole = lists["mass"][j][keep[j][counts.row_of_hist[j]]]
        own = shard.own_hists(text, j)
        mass.append(np.zeros(len(whole)))
        mass[j][own] = whole[own]
    ids = ids_of(counts, _slices(shard, counts, chosen), chosen)
    events = float(lists["events"][0][0])
    return Asked(cut_trie(ngrams, shard)[0], ids, chosen.row[1], text, mass, events, lists["cuts"][0])


def ids_of(counts: Trie, at: list[slice], chosen: Constraints, kept: Array | None = None) -> list[Array]:
    """The constraints of one shard spelled out, those of `chosen` at these places (and kept)."""
    rows = []
    for k, part in enumerate(at, 2):
        here = chosen.row[k][part.start - chosen.first[k] : part.stop - chosen.first[k]]
        rows.append(counts.ngrams(k, here if kept is None else here[kept[part]]))
    return rows


@dataclass(frozen=True)
class Laid:
    """What it says then."""

    known: list[Array]  # which of its rows of `ngrams`, by order, the background had
    reach: Array  # of its constraints: see `constraints.reaches`
    carrying: float  # its histories that carry mass
    numbers: list[int]
    mass0: Array
    log_fixed: float
    rows: int  # of active histories
    entries: int


def lay_ground(shard: Shard, source: str, name: str, question: Path) -> Laid:
    """Adds the constraints' rows to the shard and leaves it, and its part of the dual, under `name`."""
    asked, background = _asked(question, shard), shard.load(source)
    model = extend(background, asked.ngrams)
    trie = model.trie
    known = [where >= 0 for where in locate(asked.ngrams, background.trie)]
    own = [NONE, NONE, *(known[k][shard.own_rows(asked.ngrams, k)] for k in range(2, len(known)))]
    rows = Constraints([NONE, asked.words, *map(trie.find, asked.chosen)])
    mass = [part / asked.events for part in move_mass(asked.text, asked.mass, trie)]
    reach, carrying = selecting.reaches(rows, trie, mass)
    part = part_of(model, mass, rows, asked.cuts)
    if not shard.has(name):
        shard.save(name, model)
    _keep_part(shard, name, part)
    return Laid(
        own, reach[len(asked.words) :], carrying, part.numbers.tolist(), part.mass0, part.log_fixed,
        part.rows - trie.n_words, len(part.histories.cell),
    )  # fmt: skip


def _keep_part(shard: Shard, name: str, part: Part) -> None:
    numbers = np.array([part.n_words, part.n_cells, part.rows])
    shard.keep(f"{name}-part", {
        "histories": list(part.histories), "blocks": [part.bounds, part.numbers, part.mass0], "numbers": [numbers],
        "fixed": [np.array([part.log_fixed])],
    })  # fmt: skip
    _held[shard.folder, shard.index, name] = part


def _part(shard: Shard, name: str) -> Part:
    """In memory, or again from its file if whoever had it has died."""
    key = shard.folder, shard.index, name
    if key not in _held:
        lists = shard.kept(f"{name}-part")
        bounds, numbers, mass0 = lists["blocks"]
        n_words, n_cells, rows = lists["numbers"][0].tolist()
        histories = Histories(*map(np.array, lists["histories"]))
        _held[key] = Part(histories, bounds, numbers, n_words, n_cells, mass0, float(lists["fixed"][0][0]), rows)
    return _held[key]


def forget(folder: str) -> None:
    """Parts of a job that is over."""
    for key in [key for key in _held if key[0] == folder]:
        del _held[key]


def evaluate(shard: Shard, name: str, at: list[slice], scale: Path, z0: float, threads: int) -> PartSums:
    """One iteration: see `Part.sums`. `scale`: the file of exp(mu) of all constraints, of which the shard has some, and
    the words."""
    part = _part(shard, name)
    whole = read_kept(scale, check=False)["scale"][0]
    own = [whole[: part.n_words], *(whole[here] for here in at)]
    return part.sums(np.concatenate(own), z0, threads)


def rounding_error(shard: Shard, name: str, at: list[slice], scale: Path, z0: float, threads: int) -> float:
    """What the shard's histories add to `Dual.rounding_error`."""
    evaluate(shard, name, at, scale, z0, threads)
    return _part(shard, name).rounding_error()


@dataclass(frozen=True)
class Scaling:
    """What makes one shard of the ground, `source`, one of an adapted model: it is sooner made again than read."""

    source: str
    name: str
    words: Array
    word_scale: Array
    chosen: list[Array]  # ids of its constraints of order 2 and more, by order
    scale: list[Array]
    spare: list[Array]  # ids of n-grams that are not to be written, by order

    def load(self, shard: Shard) -> tuple[NgramModel, list[Array] | None]:
        model = shard.load(self.source)
        trie = model.trie
        rows = [NONE, self.words, *map(trie.find, self.chosen)]
        model = rescaled(model, rows, [NONE, self.word_scale, *self.scale], spend=True)
        if not any(map(len, self.spare)):
            return model, None
        return model, [~part for part in trie.flags([NONE, NONE, *map(trie.find, self.spare)])]


def adapt_shard(
    shard: Shard, shards: list[Shard], asked: Scaling, alone: bool
) -> tuple[list[tuple[float, list[int]]], Exported]:
    """The worst sums over the shard's histories (see `shards.worst_gaps`) in the file that will be written, and what
    `export_weights` says. `alone`: no other shard is worked on here, so it may stay in memory."""
    _held.pop((shard.folder, shard.index, asked.source), None)  # solved
    model, keep = asked.load(shard)
    if alone:
        hold(shard, asked.name, model, keep)
    return gaps_of(shard, model, as_written), weights_of(shard, shards, asked.name, model, keep)


# -- what is done here


class ShardedGround:
    """What `ExtendedBackground` is, with the model in shards."""

    def __init__(
        self, background: ShardedModel, counts: Trie, chosen: Constraints, history: History, threads: int
    ) -> None:
        if history.model is not None:
            raise MdiError("a history distribution by a model, and shards; expected that of the text: --history ml")
        self.background, self.counts, self.chosen = background, counts, chosen
        self.ngrams = closed(as_trie(counts, chosen))
        self.model = renamed(background, f"ground-{digest(chosen.first, *chosen.row)}", background.p[1])
        shards = background.shards
        self.slices = [_slices(one, counts, chosen) for one in shards]
        question = Path(background.job.folder) / f"{self.model.name}-question.mdi"
        _leave_question(question, self.ngrams, counts, chosen, history)
        calls = [(one, background.name, self.model.name, question) for one in shards]
        laid: list[Laid] = background.run(lay_ground, calls, "laying the ground")
        self.known = [NONE, np.ones(counts.n_words, bool)]
        self.known += [np.concatenate([part.known[k] for part in laid]) for k in range(2, self.ngrams.order + 1)]
        carrying = sum(part.carrying for part in laid) + float(history.ml[0][0] > 0)
        self._reach = np.concatenate([np.full(len(chosen.row[1]), carrying), np.zeros(chosen.total - chosen.first[2])])
        for part, at in zip(laid, self.slices, strict=True):
            _scatter(self._reach, part.reach, at)
        mass0 = float(history.ml[0][0]) / history.events
        empty = Empty.of(background.p[1], chosen, mass0, [(part.numbers, part.mass0, part.log_fixed) for part in laid])
        self.dual = ShardedDual(self, empty, laid, threads)

    def dual_of(self, chosen: Constraints) -> Dual:
        return self.dual if chosen.total == self.chosen.total else SubsetDual(self.dual, self.chosen.flags_of(chosen))

    def reach(self, chosen: Constraints) -> Array:
        return self._reach[self.chosen.flags_of(chosen)]

    def needed(self, chosen: Constraints) -> list[Array] | None:
        """Flags of the rows of `ngrams` that are not to be written; None if there are none."""
        spare = needed_rows(self.ngrams, self.counts, chosen, self.known)
        return spare if any(part.any() for part in spare) else None

    def scalings(self, name: str, chosen: Constraints, mu: Array, spare: list[Array] | None) -> list[Scaling]:
        """How the shards of an adapted model, `name`, are had."""
        source, scale, kept = self.model.name, np.exp(mu), self.chosen.flags_of(chosen)
        place = np.cumsum(kept) - 1
        n_words, asked = len(chosen.row[1]), []
        for shard, at in zip(self.background.shards, self.slices, strict=True):
            ids = ids_of(self.counts, at, self.chosen, kept)
            scales = [scale[place[part][kept[part]]] for part in at]
            asked.append(Scaling(source, name, chosen.row[1], scale[:n_words], ids, scales, self._spare(shard, spare)))
        return asked

    def _spare(self, shard: Shard, spare: list[Array] | None) -> list[Array]:
        if spare is None:
            return []
        flags, lost = cut_trie(self.ngrams, shard)[1], []
        for k in range(2, self.ngrams.order + 1):
            lost.append(self.ngrams.ngrams(k, np.flatnonzero(spare[k] & flags[k])))
        return lost

    def problem(self, dual: Dual, keep: list[Array] | None, **fields: Any) -> Problem:
        words = self.model.words
        return ShardedProblem(
            background=words, constraints=dual.constraints, dual=dual, keep=keep, ground=self, **fields
        )


def _slices(shard: Shard, counts: Trie, chosen: Constraints) -> list[slice]:
    """Where the constraints of the orders 2 and more that belong to a shard are among all constraints."""
    at = []
    for k in range(2, chosen.order + 1):
        own = shard.own_rows(counts, k)
        first, end = np.searchsorted(chosen.row[k], (own.start, own.stop)) + chosen.first[k]
        at.append(slice(int(first), int(end)))
    return at


def _scatter(whole: Array, part: Array, at: list[slice]) -> None:
    begin = 0
    for here in at:
        size = here.stop - here.start
        whole[here] = part[begin : begin + size]
        begin += size


class ShardedDual(Dual):
    """A dual whose entries are in shards."""

    def __init__(self, ground: ShardedGround, empty: Empty, laid: list[Laid], threads: int) -> None:
        self.ground, self.empty, self.threads = ground, empty, threads
        self.constraints = ground.chosen
        self.parent = ground.chosen.parents(ground.counts)
        self._rows = len(ground.background.p[1]) + sum(part.rows for part in laid)
        self._entries = len(empty.word_p) + sum(part.entries for part in laid)

    @property
    def active_rows(self) -> int:
        return self._rows

    def evaluate(self, mu: Array) -> Evaluation:
        known = _Journal(self.ground.model, mu)
        found = known.read()
        if found is None:
            found = self._evaluate(mu)
            known.write(found)
        return found

    def _ask(self, function: Callable, scale: Array, z0: float) -> list[Any]:
        """What all shards answer. What they are asked is the same for all, so it goes by a file."""
        ground = self.ground
        path = Path(ground.background.job.folder) / f"{ground.model.name}-scale-{digest(scale)}.mdi"
        with replacing(str(path), sync=False) as stream:
            write_arrays(stream, {}, {"scale": [scale]})
        found = ground.background.run(function, [
            (one, ground.model.name, at, path, z0, self.threads)
            for one, at in zip(ground.background.shards, ground.slices, strict=True)
        ])  # fmt: skip
        path.unlink()
        return found

    def rounding_error(self, mu: Array) -> float:
        scale = np.exp(mu)
        return sum(self._ask(rounding_error, scale, self.empty.z(scale)))

    @np.errstate(all="ignore")
    def _evaluate(self, mu: Array) -> Evaluation:
        ground, scale = self.ground, np.exp(mu)
        n_words, z0 = len(self.empty.word_p), self.empty.z(scale)
        sums: list[PartSums] = self._ask(evaluate, scale, z0)
        rest = np.zeros(len(mu))
        for part, at in zip(sums, ground.slices, strict=True):
            _scatter(rest, part.cells, at)
        return self.empty.joined(scale, z0, sums, rest[n_words:])


class _Journal:
    """Evaluations that have been made, by what they were made at."""

    def __init__(self, ground: ShardedModel, mu: Array) -> None:
        self.path = Path(ground.job.folder) / f"{ground.name}-at-{digest(mu)}.mdi"

    def read(self) -> Evaluation | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            lists, _ = read_arrays(self.path)
            slack, log_z = lists["totals"][0].tolist()
            return Evaluation(np.array(lists["cells"][0]), slack, log_z)
        return None

    def write(self, found: Evaluation) -> None:
        with replacing(str(self.path), sync=False) as stream:
            write_arrays(stream, {}, {"cells": [found.cells], "totals": [np.array([found.slack, found.log_z])]})


@dataclass(frozen=True, repr=False, eq=False)
class ShardedProblem(Problem):
    """A problem whose background is in shards: here are its words. The constraints are rows of the counts."""

    ground: ShardedGround | None = None

    def ngrams(self) -> list[str]:
        assert self.ground is not None
        trie, words = self.ground.counts, self.background.vocab.words
        lines = (ids for k in range(1, self.chosen.order + 1) for ids in trie.ngrams(k, self.chosen.row[k]).tolist())
        return [" ".join([words[w] for w in ids]) for ids in lines]


@dataclass(frozen=True, repr=False, eq=False)
class ShardedAdapted(Adapted):
    """A solved problem whose model is in shards: write it, with `write_arpa` too."""

    @cached_property
    def finished(self) -> tuple[ShardedModel, tuple[float, str], list[int]]:
        """(the model, its worst sum and where that is, its n-grams by order)"""
        problem, mu = self.problem, self.solution.mu
        assert isinstance(problem, ShardedProblem)
        assert problem.ground is not None
        ground, background = problem.ground, problem.ground.background
        scale = np.ones(len(background.vocab))
        scale[problem.chosen.row[1]] = np.exp(mu[: len(problem.chosen.row[1])])
        scaled = background.p[1] * scale
        name = f"adapted-{digest(problem.min_counts, mu)}"
        sources = ground.scalings(name, problem.chosen, mu, problem.keep)
        shards = background.shards
        alone = len(shards) <= background.job.runner.workers
        calls = [(one, shards, source, alone) for one, source in zip(shards, sources, strict=True)]
        gaps, exported = zip(*background.run(adapt_shard, calls, "scaling"), strict=True)
        p = [NONE, scaled / scaled.sum()]
        model = replace(background, name=name, p=p, sources=sources, exported=exported)
        by_order = [len(model.vocab), *(sum(part) for part in zip(*(one.kept for one in exported), strict=True))]
        return model, worst_of(model.vocab, list(gaps)), by_order

    @property
    def whole(self) -> NgramModel:
        raise MdiError("the adapted model is in shards; write it (write_arpa, or its own `write`) and read it again")

    @property
    def model(self) -> NgramModel:
        return self.whole

    @property
    def sharded(self) -> ShardedModel:
        return self.finished[0]

    def worst_sum(self) -> tuple[float, str]:
        return self.finished[1]

    @property
    def counts(self) -> list[int]:
        return self.finished[2]

    def write(self, path: str) -> None:
        """Writes the model as `write_arpa` would write that of one piece."""
        self.sharded.write(path)
