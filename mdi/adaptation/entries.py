"""What the dual passes through: the entries of the active histories, which shards extract (mdi/lm/shards.py).

Of the whole model the dual needs the *entries* (cell, a) of histories that carry mass and have rows, and of those they
back off to: 12 bytes each, and as many as the text has histories, not as the model has n-grams. They are kept by the
last word v of their history: all that back off to each other are side by side, the short ones first, and the cells of
n-grams of order 2 and more are touched by the histories of one v only. So blocks of words can be passed through by
threads, each with its own sums for the cells of order 1, and what several shards extract is put together end to end.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from mdi.adaptation.constraints import Constraints
from mdi.kernels import entries as kernels
from mdi.kernels.dual import Histories
from mdi.kernels.entries import ActiveLevel, RowCells
from mdi.lm.model import NgramModel
from mdi.lm.shards import Shard, over_shards
from mdi.lm.trie import NONE, Array, blocks
from mdi.threads import each_in_threads


@dataclass(frozen=True)
class Entries:
    """All active histories but the empty one."""

    histories: Histories
    bounds: Array  # the words of block b are bounds[b] .. bounds[b + 1]
    mass0: float  # p~ that is as good on the empty history
    log_fixed: float  # what is left of sum p~(h) log Z(h) for histories without rows
    rows: int  # of the active histories, and words

    @property
    def blocks(self) -> int:
        return len(self.bounds) - 1


@dataclass(frozen=True)
class Carried:
    """p~ by the histories that are active. Lists are by length."""

    hists: list[Array]  # those that carry mass and have rows, and those they back off to, ascending
    mass: list[Array]  # of each
    mass0: float  # of the empty history
    unused: Array  # by word: that of histories that end in it and are not active, which is as good on the empty one
    log_fixed: float  # sum p~(h) log bow(h) of histories without rows


def carried(model: NgramModel, mass: list[Array]) -> Carried:
    """`mass[j]` is p~ on the histories of length j of the model's trie. A history without rows has Z(h) = bow(h) Z(h')
    whatever mu is: its mass is as good on h', where it is added (and left here, as such histories are not active)."""
    trie = model.trie
    folded = [*(part.copy() for part in mass[: trie.order - 1]), mass[trie.order - 1]]
    log_fixed, hists = 0.0, [NONE] * trie.order
    needed: Array | bool = False  # what longer active histories back off to
    for j in range(trie.order - 1, 0, -1):
        log_fixed += kernels.fold_mass(trie.level(j + 1), model.bow[j], folded[j], folded[j - 1])
        active = (folded[j] > 0) & (trie.begin[j + 1][1:] > trie.begin[j + 1][:-1])
        active |= needed
        hists[j] = np.flatnonzero(active).astype(np.int32)
        needed = np.zeros(trie.n_hist(j - 1), bool)
        needed[trie.back[j][hists[j]]] = True
    unused = np.zeros(trie.n_words)
    if trie.order > 1:
        unused = np.where(np.diff(trie.begin[2]) == 0, folded[1], 0.0)
    here = [part[some] for part, some in zip(folded[1:], hists[1:], strict=True)]
    return Carried(hists, [NONE, *here], float(mass[0][0]), unused, log_fixed)


def extract(model: NgramModel, mass: Carried, constraints: Constraints, cuts: Array) -> Entries:
    """The entries of the active histories. `cuts`: words at which blocks begin, and the number of words."""
    trie = model.trie
    found = over_shards(_extract_shard, trie, model, mass.hists, mass.mass, constraints, label="extracting entries")
    histories, used = _joined([part[0] for part in found]), np.concatenate([part[1] for part in found])
    rows = trie.n_words + sum(part[2] for part in found)
    bounds = np.searchsorted(used, cuts)
    unused = np.array([float(block.sum()) for block in np.split(mass.unused, cuts[1:-1])])
    some = np.flatnonzero((np.diff(bounds) > 0) | (unused > 0))
    mass0 = mass.mass0
    for part in unused[some].tolist():
        mass0 += part
    return Entries(histories, np.append(bounds[some], bounds[-1]), mass0, mass.log_fixed, rows)


def _extract_shard(
    shard: Shard, model: NgramModel, active: list[Array], mass: list[Array], constraints: Constraints
) -> tuple[Histories, Array, int]:
    """(active histories of the shard, the words that they end in, their rows). `active`, and p~ on them, of all."""
    trie, n = model.trie, model.order
    own = [slice(*np.searchsorted(active[j], trie.hists_ending_in(j, shard))) for j in range(1, n)]
    active = [NONE, *(part[here] for part, here in zip(active[1:], own, strict=True))]
    mass = [NONE, *(part[here] for part, here in zip(mass[1:], own, strict=True))]
    # Where the histories of length j that end in word v begin among the active ones, and where they go.
    size = [np.diff(np.searchsorted(active[j], trie.first_hists(j))) for j in range(1, n)]
    used = np.flatnonzero(sum(size, np.zeros(trie.n_words, np.int64)))
    size = [part[used] for part in size]
    first = np.concatenate([[1], 1 + np.cumsum(sum(size, np.zeros(len(used), np.int64)))])
    start = first[:-1].copy()
    top = start
    place = [np.zeros(1, np.int64)]
    for part in size:
        top = start.copy()
        place.append(np.repeat(start, part) + np.arange(part.sum()) - np.repeat(np.cumsum(part) - part, part))
        start += part
    n_hist = int(first[-1])
    back, bow, hist_mass = np.zeros(n_hist, np.int32), np.zeros(n_hist), np.zeros(n_hist)
    fixed, begin = np.zeros(n_hist), np.zeros(n_hist + 1, np.int64)
    count = begin[1:]

    cells = np.full(trie.n_words, -1, np.int32)
    cells[constraints.row[1]] = np.arange(len(constraints.row[1]), dtype=np.int32)
    lower, levels, rows = RowCells(np.zeros(2, np.int64), cells), [], 0
    for j in range(1, n):
        level, back[place[j]] = _active_level(model, j, active, place, lower, constraints)
        bow[place[j]], hist_mass[place[j]] = model.bow[j][active[j]], mass[j]
        lower = RowCells(*kernels.row_cells(level, count, j + 1 < n))
        levels.append((level, list(blocks(lower.begin))))
        rows += int(lower.begin[-1])
    np.cumsum(count, out=count)
    cell, a = np.empty(begin[-1], np.int32), np.empty(begin[-1])
    histories = Histories(first, top, back, bow, hist_mass, fixed, begin, cell, a)
    del lower
    while levels:  # from the longest: the cells that it needed of the next shorter go before that has its entries
        level, parts = levels.pop()
        each_in_threads(partial(_fill_entries, level, histories), parts)
        del level
    return histories, used, rows


def _active_level(
    model: NgramModel, j: int, active: list[Array], place: list[Array], lower: RowCells, constraints: Constraints
) -> tuple[ActiveLevel, Array]:
    """The active histories of length j, and the number in `Histories` of what each backs off to."""
    trie, k, hists = model.trie, j + 1, active[j]
    shorter = trie.back[j][hists]
    which = np.zeros(len(hists), np.int64) if j == 1 else np.searchsorted(active[j - 1], shorter)
    constrained = (constraints.row[k], constraints.first[k]) if k <= constraints.order else (NONE, 0)
    shift = lower.begin[which] - trie.begin[j][shorter]
    return ActiveLevel(model.level(k), hists, place[j], shift, lower.cell, *constrained), place[j - 1][which]


def _fill_entries(level: ActiveLevel, histories: Histories, block: tuple[int, int]) -> None:
    """Those of some of the level's histories."""
    here = slice(*block)
    hists, begin = level.hists[here], level.model.trie.begin
    own = slice(*np.searchsorted(level.own, begin[[hists[0], hists[-1] + 1]]).tolist())
    part = level._replace(
        hists=hists,
        place=level.place[here],
        shift=level.shift[here],
        own=level.own[own],
        own_first=level.own_first + own.start,
    )
    kernels.fill_entries(part, histories)


def _joined(parts: list[Histories]) -> Histories:
    """The histories of all shards, end to end. Number 0, the empty history, is in each."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.back) - 1 for part in parts)])
    entries = np.cumsum([0, *(len(part.cell) for part in parts)])
    shifted = list(zip(parts, before.tolist(), entries.tolist(), strict=False))
    ends = [part.first[:-1] + n for part, n, _ in shifted]
    return Histories(
        first=np.append(np.concatenate(ends), 1 + before[-1]),
        top=np.concatenate([part.top + n for part, n, _ in shifted]),
        back=_end_to_end([np.where(part.back > 0, part.back + np.int32(n), np.int32(0)) for part, n, _ in shifted]),
        bow=_end_to_end([part.bow for part in parts]),
        mass=_end_to_end([part.mass for part in parts]),
        fixed=_end_to_end([part.fixed for part in parts]),
        begin=np.concatenate([[0, 0], *(part.begin[2:] + e for part, _, e in shifted)]),
        cell=np.concatenate([part.cell for part in parts]),
        a=np.concatenate([part.a for part in parts]),
    )


def _end_to_end(parts: list[Array]) -> Array:
    return np.concatenate([parts[0][:1], *(part[1:] for part in parts)])
