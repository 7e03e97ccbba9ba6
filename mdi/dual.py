"""The dual problem of MDI adaptation: its value and the marginals at given parameters, in linear time.

Constraints are rows of the model. They are nested by suffix, so every event (h, w) has one most specific constraint, and the
events that share it form a *cell*; events without any form the slack cell. With mu_i = lam_i + mu_parent(i) all events of a
cell have c(hw) = exp(mu_i), so the cells' targets r_i (target_i less those of the constraints right below it) and marginals
R_i give

    D(mu) = sum_i lam_i target_i - sum_h p~(h) log Z(h) = sum_i mu_i r_i - sum_h p~(h) log Z(h),      dD/dmu_i = r_i - R_i.

Upwards (Sigma_L, the paper's section 3.2), with rows(h) the explicit hw:

    Z(h) = bow(h) (Z(h') - sum_{rows(h)} p(w|h') c(h'w)) + sum_{rows(h)} p(w|h) c(hw)

Downwards (Sigma_R; the reverse sweep of the first, the paper's g is the adjoint G of Z):

    G(h) = p~(h) / Z(h) + sum_{x: x' = h} G(x) bow(x)
    B(hw) = G(h) p(w|h) + sum_{rows xw with suffix hw} ([xw not constrained] B(xw) - G(x) bow(x) p(w|h))
    R_i = c(hw) B(hw) for the constraint i = hw;  the marginal of i is R_i plus those of the constraints right below it.

Only histories that carry mass, and those they back off to, matter: the rows of the others are left out here.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from mdi.kernels import duals as kernels
from mdi.model import NgramModel
from mdi.trie import NONE, Array, Trie

# Work is split into this many blocks whatever the number of threads, so that results do not depend on it.
BLOCKS = 8


@dataclass(frozen=True)
class Constraints:
    """Constrained rows, ascending, by order ([0] is a filler). Constraint number first[k] + i is row[k][i]."""

    row: list[Array]

    @cached_property
    def first(self) -> list[int]:
        return [0, *np.cumsum([0, *(len(rows) for rows in self.row[1:])]).tolist()]

    @property
    def total(self) -> int:
        return self.first[-1]

    @property
    def order(self) -> int:
        return len(self.row) - 1

    @cached_property
    def order_of(self) -> Array:
        return np.repeat(np.arange(1, self.order + 1), [len(rows) for rows in self.row[1:]])

    def keep(self, kept: Array) -> Constraints:
        """The constraints whose flag is set."""
        parts = [kept[self.first[k] : self.first[k + 1]] for k in range(1, self.order + 1)]
        return Constraints([NONE, *(rows[part] for rows, part in zip(self.row[1:], parts, strict=True))])

    def nearest(self, trie: Trie, k: int, rows: Array) -> Array:
        """The longest constraint that is a suffix of each of the given rows of order k (the row itself included), or -1."""
        found = np.full(len(rows), -1, np.int32)
        left = np.arange(len(rows))
        for below in range(k, 0, -1):
            if below <= self.order:
                at = np.searchsorted(self.row[below], rows)
                here = at < len(self.row[below])
                here[here] = self.row[below][at[here]] == rows[here]
                found[left[here]] = self.first[below] + at[here]
                left, rows = left[~here], rows[~here]
            rows = trie.suffix[below][rows]
        return found

    def parents(self, trie: Trie) -> Array:
        """The longest constraint among the proper suffixes of each, or -1."""
        parts = [np.full(len(self.row[1]), -1, np.int32)]
        for k in range(2, self.order + 1):
            parts.append(self.nearest(trie, k - 1, trie.suffix[k][self.row[k]]))
        return np.concatenate(parts)


@dataclass(frozen=True)
class Evaluation:
    """`cells`: R_i; `slack`: the same of the events without a constraint; `log_z`: sum_h p~(h) log Z(h)."""

    cells: Array
    slack: float
    log_z: float


@dataclass(frozen=True)
class _Level:
    """The active histories of one length >= 1 and their rows (see mdi/kernels/duals.py)."""

    begin: Array
    sfx: Array
    d: Array
    cons: Array
    back: Array
    bow: Array
    mass: Array
    bounds: list[int] = field(default_factory=list)  # the blocks, cut where the shorter history changes

    @property
    def rows(self) -> int:
        return len(self.sfx)


class Dual:
    """One adaptation problem. `mass[j]` is p~ on the histories of length j of the model's trie."""

    def __init__(self, model: NgramModel, mass: list[Array], constraints: Constraints, threads: int = 2) -> None:
        trie, n = model.trie, model.order
        self.threads = threads
        self.constraints = constraints
        self.parent = constraints.parents(trie)
        self.p_con = np.concatenate([np.zeros(0), *(model.p[k][constraints.row[k]] for k in range(1, constraints.order + 1))])
        self.word_p = model.p[1]
        self.word_cons = np.full(trie.n_words, -1, np.int32)
        self.word_cons[constraints.row[1]] = np.arange(len(constraints.row[1]), dtype=np.int32)
        self.mass0 = float(mass[0][0])
        self.levels = self._levels(model, mass, n)

    @property
    def active_rows(self) -> int:
        """Rows that one evaluation passes through."""
        return len(self.word_p) + sum(level.rows for level in self.levels)

    def _levels(self, model: NgramModel, mass: list[Array], n: int) -> list[_Level]:
        trie, constraints = model.trie, self.constraints
        active = [NONE] * n
        needed = np.zeros(0, bool)
        for j in range(n - 1, 0, -1):
            here = mass[j] > 0
            if len(needed):
                here |= needed
            active[j] = np.flatnonzero(here).astype(np.int32)
            needed = np.zeros(trie.n_hist(j - 1), bool)
            needed[trie.back[j][active[j]]] = True
        levels = []
        new_hist, lower_begin = np.zeros(1, np.int32), np.zeros(2, np.int64)
        for j in range(1, n):
            k, hists = j + 1, active[j]
            rows = constraints.row[k] if k <= constraints.order else NONE
            first = constraints.first[k] if k <= constraints.order else 0
            begin, sfx, d, cons = kernels.active_level(
                hists, trie.begin[k], trie.suffix[k], model.p[k], model.bow[j], trie.back[j], model.p[j], trie.begin[j],
                new_hist, lower_begin, rows, first,
            )  # fmt: skip
            back = new_hist[trie.back[j][hists]]
            levels.append(_Level(begin, sfx, d, cons, back, model.bow[j][hists], mass[j][hists], _blocks(begin, back, j)))
            new_hist = np.full(trie.n_hist(j), -1, np.int32)
            new_hist[hists] = np.arange(len(hists), dtype=np.int32)
            lower_begin = begin
        return levels

    def evaluate(self, mu: Array) -> Evaluation:
        """Cell marginals and log normalisers at mu."""
        scale = np.exp(mu)
        cells = np.zeros(self.constraints.total)
        word_c = np.empty(len(self.word_p))
        z0 = kernels.forward_words(self.word_p, self.word_cons, scale, word_c)
        log_z = self.mass0 * float(np.log(z0))
        c, z = [word_c], [np.array([z0])]
        above = [np.zeros(len(word_c)), *(np.zeros(level.rows) for level in self.levels[:-1])]
        g = [np.zeros(1), *(np.zeros(len(level.back)) for level in self.levels[:-1])]
        with ThreadPoolExecutor(self.threads) as pool:
            for j, level in enumerate(self.levels[:-1], 1):
                c.append(np.empty(level.rows))
                z.append(np.empty(len(level.back)))
                log_z += self._forward(pool, level, scale, c[j - 1], z[j - 1], c[j], z[j])
            for j in range(len(self.levels), 0, -1):
                log_z += self._backward(pool, j, scale, c, z, above, g, cells)
        weight = self.mass0 / z0 + g[0][0]
        slack = kernels.backward_words(self.word_p, self.word_cons, scale, weight, above[0], cells)
        return Evaluation(cells, slack, log_z)

    def _arrays(self, level: _Level, scale: Array) -> tuple[Array, ...]:
        return level.begin, level.sfx, level.d, level.cons, level.back, level.bow, level.mass, self.p_con, scale

    def _forward(self, pool, level: _Level, scale, lower_c, lower_z, c, z) -> float:
        arrays = self._arrays(level, scale)
        jobs = [pool.submit(kernels.forward, lo, hi, *arrays, lower_c, lower_z, c, z) for lo, hi in pairwise(level.bounds)]
        return sum(job.result() for job in jobs)

    def _backward(self, pool, j: int, scale, c, z, above, g, cells) -> float:
        """The sweep down through the histories of length j; through the longest ones also up."""
        level = self.levels[j - 1]
        arrays = self._arrays(level, scale)
        longest = j == len(self.levels)
        jobs = []
        for lo, hi in pairwise(level.bounds):
            # All histories of length 1 back off to the empty one: each block sums on its own there.
            own = j == 1
            lower_above = np.zeros_like(above[0]) if own else above[j - 1]
            lower_g = np.zeros(1) if own else g[j - 1]
            if longest:
                job = pool.submit(
                    kernels.forward_backward, lo, hi, *arrays, c[j - 1], z[j - 1], lower_above, lower_g, cells
                )  # fmt: skip
            else:
                job = pool.submit(kernels.backward, lo, hi, *arrays, z[j], g[j], above[j], lower_above, lower_g, cells)
            jobs.append((job, lower_above, lower_g))
        log_z = 0.0
        for job, lower_above, lower_g in jobs:
            log_z += job.result() or 0.0
            if j == 1:
                above[0] += lower_above
                g[0] += lower_g
        return log_z

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


def _blocks(begin: Array, back: Array, j: int) -> list[int]:
    """Cuts histories into blocks of about equally many rows, no two of which share a shorter history (except for j = 1)."""
    n = len(back)
    work = begin[:-1] + np.arange(n)
    cuts = np.searchsorted(work, np.linspace(0, int(begin[-1]) + n, BLOCKS + 1)[1:-1])
    if j > 1:
        cuts = np.searchsorted(back, back[np.minimum(cuts, max(0, n - 1))]) if n else cuts
    return sorted({0, n, *cuts.tolist()})
