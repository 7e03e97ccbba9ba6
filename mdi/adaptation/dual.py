"""The dual problem of MDI adaptation: its value and the marginals at given parameters, in linear time.

Constraints are rows of the model. They are nested by suffix, so every event (h, w) has one most specific constraint,
and the events that share it form a *cell*; events without any form the slack cell. With mu_i = lam_i + mu_parent(i)
all events of a cell have c(hw) = exp(mu_i), so the cells' targets r_i (target_i less those of the constraints right
below it) and marginals R_i give

    D(mu) = sum_i lam_i target_i - sum_h p~(h) log Z(h) = sum_i mu_i r_i - sum_h p~(h) log Z(h)
    dD/dmu_i = r_i - R_i

Upwards (Sigma_L, the paper's section 3.2), with rows(h) the explicit hw:

    Z(h) = bow(h) (Z(h') - sum_{rows(h)} p(w|h') c(h'w)) + sum_{rows(h)} p(w|h) c(hw)

Downwards (Sigma_R; the reverse pass of the first, the paper's g is the adjoint G of Z):

    G(h) = p~(h) / Z(h) + sum_{x: x' = h} G(x) bow(x)
    B(hw) = G(h) p(w|h) + sum_{rows xw with suffix hw} ([xw not constrained] B(xw) - G(x) bow(x) p(w|h))
    R_i = c(hw) B(hw) for the constraint i = hw;  the marginal of i is R_i plus those of the constraints right below it.

Both are linear in c: a row hw without a constraint adds d(hw) c(h'w) to Z(h), d(hw) = p(w|h) - bow(h) p(w|h'), and
c(h'w) is the scale of the cell i of (h', w); a constrained one adds p(w|h) c(hw) and takes away bow(h) p(w|h') c(h'w).
So a history is a list of *entries* (cell, a), and what falls on the slack cell, whose c is 1, is one number per
history, `fixed`:

    Z(h) = bow(h) Z(h') + fixed(h) + sum_entries a exp(mu_cell)
    R_i = exp(mu_i) sum_h G(h) a(h, i),        R_slack = sum_h G(h) fixed(h)

An iteration reads every entry twice, once up and once down, with no row of another order in between. Only histories
that carry mass and have rows, and those they back off to, have entries. They are kept by their last word v: all that
back off to each other are side by side, the short ones first, and the cells of n-grams of order 2 and more are touched
by the histories of one v only. So threads can share the words v; each has its own sums for the cells of order 1.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mdi.adaptation.constraints import Constraints
from mdi.kernels import dual as kernels
from mdi.kernels.dual import ActiveLevel, Histories, RowCells, Sums
from mdi.kernels.trie import count_rows
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, Array, Trie, blocks
from mdi.threads import each_in_threads

# Work is split into blocks, this many at most, whatever the number of threads, so that results do not depend on it.
BLOCKS = 16
SMALL_BLOCK = 1 << 14


@dataclass(frozen=True)
class Evaluation:
    """`cells`: R_i; `slack`: the same of the events without a constraint; `log_z`: sum_h p~(h) log Z(h)."""

    cells: Array
    slack: float
    log_z: float


@dataclass(frozen=True)
class PartSums:
    """What an evaluation adds up over the histories of some words, block by block: `numbers` says which blocks."""

    numbers: list[int]
    words: Array  # [2, constrained word]: sum_h G(h) a(h, i), rounded, and what rounding took from it
    totals: Array  # [block, 3]: sum of p~(h) log Z(h), G that goes to the empty history, marginal of the slack cell
    cells: Array  # R_i of the cells of order 2 and more


@dataclass(frozen=True)
class Part:
    """All active histories that end in some of the words: what an evaluation passes through. Nothing else is needed of
    the model, so parts may be anywhere."""

    histories: Histories
    bounds: Array  # the words of block b are bounds[b] .. bounds[b + 1]
    numbers: Array  # of the blocks, where there are other parts
    n_words: int  # cells of order 1
    n_cells: int
    mass0: Array  # p~ of the histories of each block that is as good on the empty one
    log_fixed: float
    rows: int  # of the active histories

    def sums(self, scale: Array, z0: float, threads: int = 1) -> PartSums:
        """`scale`: exp(mu) of the cells that this part has, those of order 1 first; `z0`: Z of the empty history."""
        hist, n_words, n_blocks = self.histories, self.n_words, len(self.numbers)
        z, g, total = self._scratch()
        g.fill(0.0)
        total.fill(0.0)
        z[0] = z0

        totals = np.empty((n_blocks, 3))
        shared = Sums(z, g, total, n_words, 0, (n_blocks - 1) * n_words)

        def block(b: int) -> None:
            sums = shared._replace(word_shift=b * n_words)
            totals[b] = kernels.up_and_down(self.bounds[b], self.bounds[b + 1], hist, scale, sums)

        pool = self._pool(threads)
        if pool is None:
            kernels.up_and_down_all(self.bounds, hist, scale, shared, totals)
        else:
            list(pool.map(block, range(n_blocks)))
        cells = np.zeros(self.n_cells - n_words)
        if n_blocks:
            cells = scale[n_words:] * total[n_blocks * n_words :]
        words = np.zeros((2, n_words))
        kernels.add_exactly(total[: n_blocks * n_words].reshape(n_blocks, n_words), *words)
        return PartSums(self.numbers.tolist(), words, totals, cells)

    def rounding_error(self) -> float:
        """About how far rounding may have moved the marginals of the last evaluation, as an L1 distance."""
        return float(kernels.rounding_error(self.histories, self._scratch()[0]))

    def _scratch(self) -> tuple[Array, Array, Array]:
        """Of every evaluation: Z, G, and the sums of the cells, for those of order 1 once a block."""
        if "scratch" not in self.__dict__:
            n_hist, n_words = len(self.histories.back), self.n_words
            size = len(self.numbers) * n_words + self.n_cells - n_words
            self.__dict__["scratch"] = np.empty(n_hist), np.empty(n_hist), np.empty(size)
        return self.__dict__["scratch"]

    def _pool(self, threads: int) -> ThreadPoolExecutor | None:
        if "pool" not in self.__dict__:
            wanted = threads > 1 and len(self.numbers) > 1 and len(self.histories.cell) > SMALL_BLOCK
            self.__dict__["pool"] = ThreadPoolExecutor(threads) if wanted else None
        return self.__dict__["pool"]


@dataclass(frozen=True)
class Empty:
    """The empty history, whose rows are the words."""

    word_p: Array  # of the constrained words
    fixed: float  # sum of p over the others
    mass: float
    log_fixed: float  # what is left of sum p~(h) log Z(h) for histories without rows

    @staticmethod
    def of(word_p: Array, constraints: Constraints, mass0: float, parts: list[tuple[list[int], Array, float]]) -> Empty:
        """`parts`: (numbers of blocks, their `mass0`, `log_fixed`) of each part."""
        free = np.ones(len(word_p), bool)
        free[constraints.row[1]] = False
        for _, values in _in_order([(numbers, values) for numbers, values, _ in parts]):
            mass0 += float(values)
        log_fixed = sum(fixed for _, _, fixed in parts)
        return Empty(word_p[constraints.row[1]], float(word_p[free].sum()), mass0, log_fixed)

    def z(self, scale: Array) -> float:
        """Z of the empty history."""
        return self.fixed + float((self.word_p * scale[: len(self.word_p)]).sum())

    @np.errstate(all="ignore")
    def joined(self, scale: Array, z0: float, sums: list[PartSums], rest: Array) -> Evaluation:
        """The whole from its parts. Blocks are added in the order of their numbers, whichever part they come from;
        words in any order, which makes no difference."""
        n_words = len(self.word_p)
        high, low, totals = np.zeros(n_words), np.zeros(n_words), np.zeros(3)
        for one in sums:
            kernels.add_exactly(one.words, high, low)
        words = high + low
        for _, part in _in_order([(part.numbers, part.totals) for part in sums]):
            totals += part
        log_z, weight, slack = totals.tolist()
        weight += float(np.float64(self.mass) / z0)  # infinite, and no error, where no word has a probability
        cells = np.concatenate([scale[:n_words] * (weight * self.word_p + words), rest])
        return Evaluation(cells, slack + weight * self.fixed, log_z + self.log_fixed + float(self.mass * np.log(z0)))


def _in_order(parts: list[tuple[list[int], Array]]) -> list[tuple[int, Array]]:
    """(number, value) of all blocks of all parts; the sort is stable, for a block that two parts share."""
    return sorted(((number, value) for numbers, values in parts for number, value in zip(numbers, values, strict=True)),
                  key=lambda found: found[0])  # fmt: skip


def part_of(
    model: NgramModel, mass: list[Array], constraints: Constraints, cuts: Array | None = None, *, spend: bool = False
) -> Part:
    """The active histories of a model. `cuts`: words at which blocks begin, and the number of words; without them the
    blocks are cut here by the work in them. `spend`: see `Dual`."""
    folded, log_fixed, unused = _folded(model, mass)
    if spend:
        mass.clear()
    rows, histories, used = _histories(model, folded, constraints, spend)
    if cuts is None:
        bounds = np.array(_blocks(histories))
        cuts = np.array([0, *used[bounds[1:-1]], model.trie.n_words])
    else:
        bounds = np.searchsorted(used, cuts)
    mass0 = np.array([float(block.sum()) for block in np.split(unused, cuts[1:-1])])
    some = np.flatnonzero((np.diff(bounds) > 0) | (mass0 > 0))
    bounds = np.append(bounds[some], bounds[-1])
    return Part(histories, bounds, some, len(constraints.row[1]), constraints.total, mass0[some], log_fixed, rows)


class Dual:
    """One adaptation problem. `mass[j]` is p~ on the histories of length j of the model's trie. `cuts`: see
    `part_of`. With `spend` the list is emptied, and the model has to `link_again`: neither shall take up memory beside
    the entries."""

    def __init__(
        self,
        model: NgramModel,
        mass: list[Array],
        constraints: Constraints,
        threads: int = 2,
        cuts: Array | None = None,
        *,
        spend: bool = False,
    ) -> None:
        self.constraints, self.threads = constraints, threads
        self.parent = constraints.parents(model.trie)
        mass0 = float(mass[0][0])
        self.part = part_of(model, mass, constraints, cuts, spend=spend)
        folded = [(self.part.numbers.tolist(), self.part.mass0, self.part.log_fixed)]
        self.empty = Empty.of(model.p[1], constraints, mass0, folded)
        self._entries = len(self.empty.word_p) + len(self.part.histories.cell)

    @property
    def active_rows(self) -> int:
        """Rows of the active histories and words."""
        return self.part.rows

    def forget_entries(self) -> None:
        """Once it is solved: nothing can be evaluated any more, but parameters and marginals can be told apart."""
        nothing = Histories(*(part[:0].copy() for part in self.part.histories))  # no views, which would keep them
        self.part = replace(self.part, histories=nothing)  # a new one: without what evaluations have worked in, too

    @property
    def entries(self) -> int:
        """What one evaluation passes through: rows of active histories, without those whose scale is 1 whatever mu
        is."""
        return self._entries

    @np.errstate(all="ignore")
    def evaluate(self, mu: Array) -> Evaluation:
        """Cell marginals and log normalisers at mu; not finite where the model has no probability for the text."""
        scale = np.exp(mu)
        z0 = self.empty.z(scale)
        sums = self.part.sums(scale, z0, self.threads)
        return self.empty.joined(scale, z0, [sums], sums.cells)

    def rounding_error(self, mu: Array) -> float:
        """About how far rounding may have moved the marginals at mu, as an L1 distance."""
        self.evaluate(mu)
        return self.part.rounding_error()

    def marginals(self, cells: Array) -> Array:
        """The marginal of each constraint from those of the cells."""
        total = cells.copy()
        kernels.add_to_parents(self.parent, total)
        return total

    def cell_targets(self, target: Array) -> Array:
        """r_i: target_i less the targets of the constraints right below it."""
        r = target.copy()
        nested = self.parent >= 0
        np.subtract.at(r, self.parent[nested], target[nested])
        return r

    def mu_of(self, lam: Array) -> Array:
        mu = lam.copy()
        kernels.add_from_parents(self.parent, mu)
        return mu

    def lam_of(self, mu: Array) -> Array:
        return mu - np.where(self.parent >= 0, mu[self.parent], 0.0)


class SubsetDual(Dual):
    """The dual of some of another's constraints, over the same entries: the cell of a constraint that is left out
    becomes a part of the next shorter one's, or of the slack cell. Costs next to nothing to set up."""

    def __init__(self, whole: Dual, kept: Array) -> None:
        self.whole, self.constraints = whole, whole.constraints.keep(kept)
        # the number among those that are left of the constraint that has each cell now, -1 for the slack
        self.owner = np.where(kept, np.cumsum(kept) - 1, -1)
        kernels.inherit(whole.parent, self.owner)
        above = whole.parent[kept]
        self.parent = np.where(above >= 0, self.owner[above], -1)

    def forget_entries(self) -> None:
        self.whole.forget_entries()

    @property
    def active_rows(self) -> int:
        return self.whole.active_rows

    @property
    def entries(self) -> int:
        return self.whole.entries

    def rounding_error(self, mu: Array) -> float:
        return self.whole.rounding_error(np.append(mu, 0.0)[self.owner])

    def evaluate(self, mu: Array) -> Evaluation:
        found = self.whole.evaluate(np.append(mu, 0.0)[self.owner])
        cells = np.bincount(self.owner + 1, weights=found.cells, minlength=len(mu) + 1)
        return Evaluation(cells[1:], found.slack + float(cells[0]), found.log_z)


def _folded(model: NgramModel, mass: list[Array]) -> tuple[list[Array], float, Array]:
    """A history without rows has Z(h) = bow(h) Z(h') whatever mu is: its mass is as good on h', where it is added (and
    left here, as such histories are not active). Returns (mass, what is left of sum p~(h) log Z(h), mass by word that
    goes to the empty history)."""
    trie = model.trie
    folded = [*(part.copy() for part in mass[: trie.order - 1]), mass[trie.order - 1]]
    log_fixed = 0.0
    for j in range(trie.order - 1, 0, -1):
        log_fixed += kernels.fold_mass(trie.level(j + 1), model.bow[j], folded[j], folded[j - 1])
    unused = np.zeros(trie.n_words)
    if trie.order > 1:
        unused = np.where(np.diff(trie.begin[2]) == 0, folded[1], 0.0)
    return folded, log_fixed, unused


def _active(trie: Trie, mass: list[Array]) -> list[Array]:
    """Histories of each length >= 1 that carry mass and have rows, and those they back off to."""
    active = [NONE] * trie.order
    needed = np.zeros(0, bool)
    for j in range(trie.order - 1, 0, -1):
        here = (mass[j] > 0) & (trie.begin[j + 1][1:] > trie.begin[j + 1][:-1])
        if len(needed):
            here |= needed
        active[j] = np.flatnonzero(here).astype(np.int32)
        needed = np.zeros(trie.n_hist(j - 1), bool)
        needed[trie.back[j][active[j]]] = True
    return active


def _histories(
    model: NgramModel, mass: list[Array], constraints: Constraints, spend: bool
) -> tuple[int, Histories, Array]:
    """(rows of the active histories and words, the active histories, the words that they end in). `mass` is used up,
    and with `spend` the model's links: see `Trie.forget_links`."""
    trie, n = model.trie, model.order
    active = _active(trie, mass)
    # Where the histories of length j that end in word v begin among the active ones, and where they go.
    cut = [np.searchsorted(active[j], _by_last_word(trie, j)) for j in range(1, n)]
    size = [np.diff(part) for part in cut]
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
    fixed, count = np.zeros(n_hist), np.zeros(n_hist, np.int64)

    cells = np.full(trie.n_words, -1, np.int32)
    cells[constraints.row[1]] = np.arange(len(constraints.row[1]), dtype=np.int32)
    lower, levels, rows = RowCells(np.zeros(1, np.int32), np.zeros(2, np.int64), cells), [], trie.n_words
    for j in range(1, n):
        k, hists, to = j + 1, active[j], place[j]
        shorter = trie.back[j][hists]
        back[to] = place[j - 1][lower.number[shorter]]
        bow[to], hist_mass[to] = model.bow[j][hists], mass[j][hists]
        mass[j] = NONE
        own, own_first = (constraints.row[k], constraints.first[k]) if k <= constraints.order else (NONE, 0)
        level = ActiveLevel(model.level(k), hists, shorter, to, trie.begin[j], lower, own, own_first)
        begin, cells = kernels.row_cells(level, count, k < n)
        levels.append((level, list(blocks(begin))))
        rows += int(begin[-1])
        if k < n:
            number = np.full(trie.n_hist(j), -1, np.int32)
            number[hists] = np.arange(len(hists), dtype=np.int32)
            lower = RowCells(number, begin, cells)
    begin = np.zeros(n_hist + 1, np.int64)
    np.cumsum(count, out=begin[1:])
    cell, a = np.empty(begin[-1], np.int32), np.empty(begin[-1])
    histories = Histories(first, top, back, bow, hist_mass, fixed, begin, cell, a)
    del lower, cells
    if spend:
        levels = [
            (level._replace(model=level.model._replace(trie=level.model.trie._replace(back=NONE))), parts)
            for level, parts in levels
        ]
        trie.forget_links("back")
    while levels:  # from the longest: the cells that it needed of the next shorter go before that has its entries
        level, parts = levels.pop()
        each_in_threads(partial(_fill_entries, level, histories), parts)
        del level
    return rows, histories, used


def _fill_entries(level: ActiveLevel, histories: Histories, block: tuple[int, int]) -> None:
    """Those of some of the level's histories."""
    here = slice(*block)
    hists, begin = level.hists[here], level.model.trie.begin
    own = slice(*np.searchsorted(level.own, begin[[hists[0], hists[-1] + 1]]).tolist())
    part = level._replace(
        hists=hists, shorter=level.shorter[here], place=level.place[here],
        own=level.own[own], own_first=level.own_first + own.start,
    )  # fmt: skip
    kernels.fill_entries(part, histories)


def _by_last_word(trie: Trie, j: int) -> Array:
    """The first history of length j that ends in each word: histories are sorted by it."""
    return count_rows(trie.word[j], trie.n_words)


def _blocks(hist: Histories) -> list[int]:
    """Cuts the words into blocks of about equally many entries and histories."""
    work = hist.begin[hist.first[:-1]] + hist.first[:-1]
    all_work = int(hist.begin[-1]) + len(hist.back)
    if not len(work):
        return [0, 0]
    cuts = np.linspace(0, all_work, min(BLOCKS, 1 + all_work // SMALL_BLOCK) + 1)[1:-1]
    return sorted({0, len(work), *np.searchsorted(work, cuts).tolist()})
