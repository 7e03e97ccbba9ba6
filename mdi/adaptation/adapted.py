"""A solved problem and the model that it gives:

p_ad(w|h)  = p(w|h) c(hw) / Z(h)        for every row            (the paper's Eq. 5)
bow_ad(h)  = bow(h) Z(h') / Z(h)                                 (section 3.4)
"""

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from mdi.adaptation.problem import Problem
from mdi.adaptation.solver import Solution
from mdi.lm.model import NgramModel, rescale, rescaled, without
from mdi.lm.new_words import NewWords
from mdi.lm.normalise import worst_sum
from mdi.lm.trie import Array

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False, eq=False)
class Adapted:
    """A solved problem. The model is made when it is first asked for."""

    problem: Problem
    solution: Solution
    new_words: NewWords | None = None  # that the background was given
    in_place: bool = False  # the problem's background is nobody else's, and becomes the model

    @cached_property
    def lam(self) -> Array:
        return self.problem.dual.lam_of(self.solution.mu)

    @cached_property
    def whole(self) -> NgramModel:
        """The model on all rows of the problem's background, also those that are not to be written."""
        background, constraints = self.problem.background, self.problem.constraints
        scale = constraints.by_order(np.exp(self.solution.mu))
        if not self.in_place:
            return rescaled(background, constraints.row, scale)
        rescale(background, constraints.row, scale)
        return background

    @cached_property
    def model(self) -> NgramModel:
        return self.whole if self.problem.keep is None else without(self.whole, self.problem.keep)

    @property
    def counts(self) -> list[int]:
        """Number of n-grams of the model, by order."""
        keep = self.problem.keep
        return self.problem.background.trie.counts if keep is None else [int(part.sum()) for part in keep[1:]]

    def worst_sum(self) -> tuple[float, str]:
        """The largest |sum_w p(w|h) - 1| over all histories of the model, and the history."""
        return worst_sum(self.whole)

    @property
    def kl(self) -> float:
        """KL(p_ad || background) under p~: sum_i lam_i marginal_i - sum_h p~(h) log Z(h)."""
        return float(self.lam @ self.solution.marginal) - self.solution.evaluation.log_z

    def __repr__(self) -> str:
        state = "converged" if self.solution.converged else "NOT converged"
        return (
            f"<Adapted with {self.problem.min_counts}: {self.problem.constraints.total:,} constraints, {state} after "
            f"{self.solution.iterations} iterations, KL to the background {self.kl:.4f}>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.moved(10).to_html(index=False)}"

    def constraints(self) -> "pandas.DataFrame":
        """Every constraint: n-gram, order, count, target, marginal before and after, lambda."""
        import pandas

        problem = self.problem
        return pandas.DataFrame(
            {
                "ngram": problem.ngrams(),
                "order": problem.constraints.order_of,
                "count": problem.count,
                "target": problem.target,
                "before": problem.before,
                "after": self.solution.marginal,
                "lambda": self.lam,
            }
        )

    def moved(self, n: int = 20) -> "pandas.DataFrame":
        """The n constraints whose marginals changed most, and by what factor."""
        table = self.constraints()
        change = (table["after"] - table["before"]).abs()
        table = table.loc[change.sort_values(ascending=False, kind="stable").index[:n]].reset_index(drop=True)
        return table.assign(factor=table["after"] / table["before"])

    def steps(self) -> "pandas.DataFrame":
        """The solver's iterations: objective, L1 distance between targets and marginals, seconds."""
        import pandas

        return pandas.DataFrame(self.solution.steps)

    @property
    def dual_value(self) -> float:
        return float(self.lam @ self.problem.target) - self.solution.evaluation.log_z
