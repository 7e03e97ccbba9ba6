"""The dual problem of MDI adaptation: its value and the marginals at given parameters, in linear time.

Constraints are rows of the model. They are nested by suffix, so every event (h, w) has one most specific constraint,
and the events that share it form a *cell*; events without any form the slack cell. With mu_i = lam_i + mu_parent(i)
all events of a cell have c(hw) = exp(mu_i), so the cells' targets r_i (target_i less those of the constraints right
below it) and marginals R_i give

    D(mu) = sum_i lam_i target_i - sum_h p~(h) log Z(h) = sum_i mu_i r_i - sum_h p~(h) log Z(h),      dD/dmu_i = r_i -
    R_i.

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
from dataclasses import dataclass

import numpy as np

from mdi.adaptation.constraints import Constraints
from mdi.kernels import dual as kernels
from mdi.kernels.dual import ActiveLevel, Histories, RowCells, Sums
from mdi.kernels.trie import count_rows
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, Array, Trie

# Work is split into blocks, this many at most, whatever the number of threads, so that results do not depend on it.
BLOCKS = 16
SMALL_BLOCK = 1 << 14


@dataclass(frozen=True)
class Evaluation:
    """`cells`: R_i; `slack`: the same of the events without a constraint; `log_z`: sum_h p~(h) log Z(h)."""

    cells: Array
    slack: float
    log_z: float


class Dual:
    """One adaptation problem. `mass[j]` is p~ on the histories of length j of the model's trie. With `spend` that list
    is emptied, and the model has to `link_again`: neither shall take up memory beside the entries."""

    def __init__(
        self, model: NgramModel, mass: list[Array], constraints: Constraints, threads: int = 2, *, spend: bool = False
    ) -> None:
        self.constraints = constraints
        self.parent = constraints.parents(model.trie)
        self.word_p = model.p[1][constraints.row[1]]
        free = np.ones(model.trie.n_words, bool)
        free[constraints.row[1]] = False
        self.word_fixed = float(model.p[1][free].sum())
        folded, self.log_fixed = _folded(model, mass)
        if spend:
            mass.clear()
        self.mass0 = float(folded[0][0])
        self.active_rows, self.histories = _histories(model, folded, constraints, spend)
        self.bounds = _blocks(self.histories)
        # of every evaluation: Z, G, and the sums of the cells, for those of order 1 once a block
        n_hist, n_words, n_blocks = len(self.histories.back), len(self.word_p), len(self.bounds) - 1
        self.scratch = np.empty(n_hist), np.empty(n_hist), np.empty(n_blocks * n_words + constraints.total - n_words)
        self.pool = ThreadPoolExecutor(threads) if threads > 1 and len(self.bounds) > 2 else None

    def forget_entries(self) -> None:
        """Once it is solved: nothing can be evaluated any more, but parameters and marginals can be told apart."""
        del self.histories, self.scratch, self.pool

    @property
    def entries(self) -> int:
        """What one evaluation passes through: rows of active histories, without those whose scale is 1 whatever mu
        is."""
        return len(self.word_p) + len(self.histories.cell)

    def evaluate(self, mu: Array) -> Evaluation:
        """Cell marginals and log normalisers at mu."""
        scale = np.exp(mu)
        n_words, n_blocks = len(self.word_p), len(self.bounds) - 1
        z0 = self.word_fixed + float((self.word_p * scale[:n_words]).sum())
        hist = self.histories
        z, g, total = self.scratch
        g.fill(0.0)
        total.fill(0.0)
        z[0] = z0

        def block(b: int) -> tuple[float, float, float]:
            sums = Sums(z, g, total, n_words, word_shift=b * n_words, other_shift=(n_blocks - 1) * n_words)
            return kernels.up_and_down(self.bounds[b], self.bounds[b + 1], hist, scale, sums)

        parts = list((self.pool.map if self.pool else map)(block, range(n_blocks)))
        log_z, weight, slack = np.array(parts).reshape(n_blocks, 3).sum(axis=0)
        weight += self.mass0 / z0
        cells = scale * total[max(0, n_blocks - 1) * n_words :] if n_blocks else np.zeros(len(mu))
        words = total[: n_blocks * n_words].reshape(n_blocks, n_words).sum(axis=0)
        cells[:n_words] = scale[:n_words] * (weight * self.word_p + words)
        return Evaluation(
            cells, float(slack + weight * self.word_fixed), float(log_z + self.log_fixed + self.mass0 * np.log(z0))
        )

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
        self.whole, self.constraints, self.active_rows = whole, whole.constraints.keep(kept), whole.active_rows
        # the number among those that are left of the constraint that has each cell now, -1 for the slack
        self.owner = np.where(kept, np.cumsum(kept) - 1, -1)
        kernels.inherit(whole.parent, self.owner)
        above = whole.parent[kept]
        self.parent = np.where(above >= 0, self.owner[above], -1)

    def forget_entries(self) -> None:
        self.whole.forget_entries()

    @property
    def entries(self) -> int:
        return self.whole.entries

    def evaluate(self, mu: Array) -> Evaluation:
        found = self.whole.evaluate(np.append(mu, 0.0)[self.owner])
        cells = np.bincount(self.owner + 1, weights=found.cells, minlength=len(mu) + 1)
        return Evaluation(cells[1:], found.slack + float(cells[0]), found.log_z)


def _folded(model: NgramModel, mass: list[Array]) -> tuple[list[Array], float]:
    """A history without rows has Z(h) = bow(h) Z(h') whatever mu is: its mass is as good on h', where it is added (and
    left here, as such histories are not active). Returns (mass, what is left of sum p~(h) log Z(h))."""
    trie = model.trie
    folded = [*(part.copy() for part in mass[: trie.order - 1]), mass[trie.order - 1]]
    log_fixed = 0.0
    for j in range(trie.order - 1, 0, -1):
        log_fixed += kernels.fold_mass(trie.level(j + 1), model.bow[j], folded[j], folded[j - 1])
    return folded, log_fixed


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


def _histories(model: NgramModel, mass: list[Array], constraints: Constraints, spend: bool) -> tuple[int, Histories]:
    """(rows of the active histories and words, the active histories). `mass` is used up, and with `spend` the model's
    links: see `Trie.forget_links`."""
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
        levels.append(ActiveLevel(model.level(k), hists, shorter, to, trie.begin[j], lower, own, own_first))
        begin, cells = kernels.row_cells(levels[-1], count, k < n)
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
            level._replace(model=level.model._replace(trie=level.model.trie._replace(back=NONE))) for level in levels
        ]
        trie.forget_links("back")
    while levels:  # from the longest: the cells that it needed of the next shorter go before that has its entries
        kernels.fill_entries(levels.pop(), histories)
    return rows, histories


def _by_last_word(trie: Trie, j: int) -> Array:
    """The first history of length j that ends in each word: histories are sorted by it."""
    return count_rows(trie.word[j], trie.n_words)


def _blocks(hist: Histories) -> list[int]:
    """Cuts the words into blocks of about equally many entries and histories."""
    work = hist.begin[hist.first[:-1]] + hist.first[:-1]
    all_work = int(hist.begin[-1]) + len(hist.back)
    if not len(work):
        return [0]
    cuts = np.linspace(0, all_work, min(BLOCKS, 1 + all_work // SMALL_BLOCK) + 1)[1:-1]
    return sorted({0, len(work), *np.searchsorted(work, cuts).tolist()})
