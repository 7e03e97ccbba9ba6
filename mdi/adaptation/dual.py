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

An iteration reads every entry twice, once up and once down, with no row of another order in between. Which histories
have entries, and how they lie: mdi/adaptation/entries.py.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from mdi.adaptation.constraints import Constraints
from mdi.adaptation.entries import Carried, carried, extract
from mdi.kernels import dual as kernels
from mdi.kernels.dual import Sums
from mdi.lm.model import NgramModel
from mdi.lm.trie import Array

# Blocks that are passed through at a time: each has sums of its own for the cells of order 1.
AT_ONCE = 8
# Fewer entries are not worth a thread.
FEW = 1 << 14


@dataclass(frozen=True)
class Evaluation:
    """`cells`: R_i; `slack`: the same of the events without a constraint; `log_z`: sum_h p~(h) log Z(h)."""

    cells: Array
    slack: float
    log_z: float


class Dual:
    """One adaptation problem. `mass[j]` is p~ on the histories of length j of the model's trie, or `carried` by them.
    `cuts`: words at which blocks begin, and the number of words (one block). Work is split into these whatever the
    number of threads, so that results do not depend on it."""

    def __init__(
        self,
        model: NgramModel,
        mass: list[Array] | Carried,
        constraints: Constraints,
        threads: int = 2,
        cuts: Array | None = None,
    ) -> None:
        self.constraints, self.threads = constraints, threads
        self.parent = constraints.parents(model.trie)
        mass = carried(model, mass) if isinstance(mass, list) else mass
        found = extract(model, mass, constraints, np.array([0, model.trie.n_words]) if cuts is None else cuts)
        self.active = found
        free = np.ones(model.trie.n_words, bool)
        free[constraints.row[1]] = False
        # the empty history: p of the constrained words, and of the others together
        self.word_p, self.fixed0 = model.p[1][constraints.row[1]], float(model.p[1][free].sum())
        self.active_rows = found.rows  # of the active histories, and words
        # what one evaluation passes through: rows of active histories, without those whose scale is 1 whatever mu is
        self.entries = len(self.word_p) + len(found.histories.cell)
        n_words, n_hist = len(self.word_p), len(found.histories.back)
        # Z, G, and the sums of the cells, for those of order 1 once for each block that is under way
        self._at_once = max(1, min(AT_ONCE, found.blocks))
        cells = np.empty((self._at_once - 1) * n_words + constraints.total)
        self._scratch = np.empty(n_hist), np.empty(n_hist), cells
        many = threads > 1 and found.blocks > 1 and len(found.histories.cell) > FEW
        self._pool = ThreadPoolExecutor(threads) if many else None

    def forget_entries(self) -> None:
        """Once it is solved: nothing can be evaluated any more, but parameters and marginals can be told apart."""
        del self.active, self._scratch

    @np.errstate(all="ignore")
    def evaluate(self, mu: Array) -> Evaluation:
        """Cell marginals and log normalisers at mu; not finite where the model has no probability for the text."""
        hist, bounds, n_blocks = self.active.histories, self.active.bounds, self.active.blocks
        scale, n_words, at_once = np.exp(mu), len(self.word_p), self._at_once
        z0 = self.fixed0 + float((self.word_p * scale[:n_words]).sum())
        z, G, total = self._scratch
        G.fill(0.0)
        total.fill(0.0)
        z[0] = z0
        by_block, words, totals = np.empty((n_blocks, 3)), np.zeros((2, n_words)), np.zeros(3)
        shared = Sums(z, G, total, n_words, 0, (at_once - 1) * n_words)

        def block(b: int) -> None:
            sums = shared._replace(word_shift=b % at_once * n_words)
            by_block[b] = kernels.up_and_down(bounds[b], bounds[b + 1], hist, scale, sums)

        own = total[: at_once * n_words].reshape(at_once, n_words)
        for first in range(0, n_blocks, at_once):
            end = min(first + at_once, n_blocks)
            if self._pool is None:
                kernels.up_and_down_all(bounds[first : end + 1], hist, scale, shared, by_block[first:end])
            else:
                list(self._pool.map(block, range(first, end)))
            kernels.add_exactly(own[: end - first], *words)
            own.fill(0.0)
        for part in by_block:
            totals += part
        log_z, to_empty, slack = totals.tolist()
        mass0 = self.active.mass0
        g0 = to_empty + float(np.float64(mass0) / z0)  # infinite, and no error, where no word has a probability
        rest = scale[n_words:] * total[at_once * n_words :]
        cells = np.concatenate([scale[:n_words] * (g0 * self.word_p + words.sum(axis=0)), rest])
        log_z = log_z + self.active.log_fixed + float(mass0 * np.log(z0))
        return Evaluation(cells, slack + g0 * self.fixed0, log_z)

    def rounding_error(self, mu: Array) -> float:
        """About how far rounding may have moved the marginals at mu, as an L1 distance."""
        self.evaluate(mu)
        return float(kernels.rounding_error(self.active.histories, self._scratch[0]))

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

    def lam_of(self, mu: Array) -> Array:
        return mu - np.where(self.parent >= 0, mu[self.parent], 0.0)


class SubsetDual(Dual):
    """The dual of some of another's constraints, over the same entries: the cell of a constraint that is left out
    becomes a part of the next shorter one's, or of the slack cell. Costs next to nothing to set up."""

    def __init__(self, whole: Dual, kept: Array) -> None:
        self.whole, self.constraints = whole, whole.constraints.keep(kept)
        self.active_rows, self.entries = whole.active_rows, whole.entries
        # the number among those that are left of the constraint that has each cell now, -1 for the slack
        self.owner = np.where(kept, np.cumsum(kept) - 1, -1)
        kernels.inherit(whole.parent, self.owner)
        above = whole.parent[kept]
        self.parent = np.where(above >= 0, self.owner[above], -1)

    def forget_entries(self) -> None:
        self.whole.forget_entries()

    def rounding_error(self, mu: Array) -> float:
        return self.whole.rounding_error(np.append(mu, 0.0)[self.owner])

    def evaluate(self, mu: Array) -> Evaluation:
        found = self.whole.evaluate(np.append(mu, 0.0)[self.owner])
        cells = np.bincount(self.owner + 1, weights=found.cells, minlength=len(mu) + 1)
        return Evaluation(cells[1:], found.slack + float(cells[0]), found.log_z)
