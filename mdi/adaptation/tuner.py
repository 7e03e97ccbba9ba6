"""The search behind `mdi tune`: thresholds and the variance of the prior, both by order, that give the best mixture on
development text. The weights of the mixture are EM's for each setting."""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.adapted import Adapted
from mdi.adaptation.adapter import Adapter
from mdi.adaptation.problem import ExtendedBackground, Variances, variances
from mdi.adaptation.solver import USUAL, SolverSettings, as_settings
from mdi.errors import ConvergenceWarning, MdiError
from mdi.lm.mix import em_weights, predicted_probs
from mdi.lm.model import NgramModel
from mdi.lm.thresholds import Thresholds, listed, parse_thresholds
from mdi.lm.trie import MAX_ORDER, Array

# The sets of thresholds of the paper's table: tried with and without a prior, so that the best is never worse.
PAPER_SETS = ("2-2-2", "5-3-2", "6-4-3")
# Of a grid that is given variances alone.
GRID_SETS = ("1", "2", "5-3-2", "10")
# Rungs of the search for thresholds.
LADDER = (1, 2, 3, 5, 10, 20, 50, 100)
# Factors by which the variance of one order is changed, the bold one first.
FACTORS = (4.0, 2.0)
# A move must lower the perplexity by this share to count.
WORTHWHILE = 2e-4
# While searching, marginals need not be met as closely as in the end.
SEARCH_SLACK = 3.0


@dataclass(frozen=True)
class Setting:
    """Thresholds by order; variances of the prior by order, None for no prior."""

    thresholds: tuple[float, ...]
    sigma2: tuple[float, ...] | None

    @property
    def min_counts(self) -> str:
        return _joined(self.thresholds)

    @property
    def prior(self) -> str:
        return "none" if self.sigma2 is None else _joined(self.sigma2)

    def __str__(self) -> str:
        return f"{self.min_counts}, " + ("no prior" if self.sigma2 is None else f"sigma2 {self.prior}")


def _joined(values: Sequence[float]) -> str:
    """5-3-2; one number where all are the same."""
    return "-".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


@dataclass(frozen=True)
class Trial:
    """One setting: development perplexity of the adapted model alone and mixed."""

    number: int  # from 1
    setting: Setting
    constraints: int
    iterations: int
    seconds: float
    ppl_alone: float
    ppl_mixed: float
    weights: list[float]


def check_choices(min_counts: Any, sigma2: Any, sets: Any, order: int = MAX_ORDER) -> None:
    """Refuses thresholds and variances that make no sense, or not for a model of this order. None: none are given."""
    for name, given in (("min_counts", min_counts), ("sets", sets)):
        for one in listed(given) if given is not None else ():
            parse_thresholds(one, order, name)
    for one in listed(sigma2):
        variances(one, order)


def fitting(sets: Sequence[str], order: int) -> list[str]:
    """Those of our own sets that a model of this order has numbers for: the paper's are for trigrams."""
    return [one for one in sets if one.count("-") < order]


class _Budget(Exception):
    """No setting may be tried any more."""


class Tuner:
    """`others` are mixed with the adapted model: in-domain models, the background. All are over one vocabulary."""

    def __init__(
        self,
        adapter: Adapter,
        development: Array,
        others: list[NgramModel],
        *,
        settings: SolverSettings | None = USUAL,
        report: Callable[[Trial], None] | None = None,
    ) -> None:
        self.adapter, self.settings, self.report = adapter, as_settings(settings), report
        self.ids = development
        self.others = predicted_probs(others, development)
        self.trials: dict[Setting, Trial] = {}
        self.best: tuple[float, Setting, Adapted] | None = None
        self.last: Adapted | None = None
        self.most = math.inf  # settings
        self._lowest = 1.0  # threshold
        self.ended = ""

    @cached_property
    def ground(self) -> ExtendedBackground:
        """The background with a row for everything that was seen: shared by all settings."""
        return self.adapter.ground(selecting.select(self.adapter.counts, [self._lowest] * self.adapter.order))

    def solve(self, setting: Setting, slack: float, start: Adapted | None) -> Adapted:
        settings = replace(self.settings, tolerance=slack * self.settings.tolerance)
        with warnings.catch_warnings():  # a trial need not converge to be compared
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.adapter.adapt(
                setting.min_counts, sigma2=setting.sigma2, settings=settings, start=start, ground=self.ground
            )

    def weigh(self, model: NgramModel) -> tuple[float, float, list[float]]:
        """(perplexity alone, perplexity mixed, weights)"""
        probs = [*predicted_probs([model], self.ids), *self.others]
        weights = em_weights(probs)
        return mixture_ppl(np.ones(1), probs[:1]), mixture_ppl(weights, probs), weights.tolist()

    def try_setting(self, setting: Setting) -> float:
        """Development perplexity of the mixture with this setting."""
        if setting in self.trials:
            return self.trials[setting].ppl_mixed
        if len(self.trials) >= self.most:
            raise _Budget
        begun = time.perf_counter()
        adapted = self.last = self.solve(setting, SEARCH_SLACK, self.last)
        alone, mixed, weights = self.weigh(adapted.whole)
        size, iterations = adapted.problem.constraints.total, adapted.solution.iterations
        trial = Trial(
            len(self.trials) + 1, setting, size, iterations, time.perf_counter() - begun, alone, mixed, weights
        )
        self.trials[setting] = trial
        if self.best is None or trial.ppl_mixed < self.best[0]:
            self.best = (trial.ppl_mixed, setting, adapted)
        if self.report:
            self.report(trial)
        return trial.ppl_mixed

    def search(self, most: int, sets: Sequence[Thresholds]) -> None:
        """What we recommend without a search; the given sets of thresholds with and without a prior; every n-gram under
        a prior whose variance is searched, first the same for all orders, then by order; then thresholds one by one,
        for as long as it pays."""
        self.most = most
        order = self.adapter.order
        recommended = Setting((1,) * order, (1.0,) * order)
        try:
            self._try_possible(recommended)
            for one in sets:
                thresholds = tuple(parse_thresholds(one, order))
                if selecting.select(self.adapter.counts, list(thresholds)).total:
                    for prior in (None, (1.0,) * order):
                        self._try_possible(Setting(thresholds, prior))
            self._walk(recommended, [(range(order), 2.0)])
            found = math.inf
            while self.best is not None and self.best[0] < found * (1 - WORTHWHILE):
                found = self.best[0]
                self._walk(self.best[1], [([k], factor) for factor in FACTORS for k in range(order)])
                for setting in self._other_thresholds(self.best[1]):
                    self._try_possible(setting)
            self.ended = f"no neighbour of the best setting is better by {100 * WORTHWHILE:g}%"
        except _Budget:
            self.ended = f"the budget of {most} settings is used up: more may find better ones (max_settings)"
        if self.best is None:
            raise MdiError("no setting gives a model; expected in-domain text with words of the background")

    def _try_possible(self, setting: Setting) -> float:
        """Settings that leave no constraint are no model: infinite perplexity."""
        try:
            return self.try_setting(setting)
        except MdiError:
            return math.inf

    def _walk(self, start: Setting, moves: Sequence[tuple[Sequence[int], float]]) -> None:
        """Changes variances by factors, up or down, each as far as it pays. `moves`: (orders from 0, factor)."""
        here, value = start, self._try_possible(start)
        if start.sigma2 is None:
            return
        for orders, factor in moves:
            for change in (1.0 / factor, factor):
                moved = False
                while True:
                    sigma2 = tuple(v * change if k in orders else v for k, v in enumerate(here.sigma2 or ()))
                    there = Setting(here.thresholds, sigma2)
                    found = self._try_possible(there)
                    if not found < value * (1 - WORTHWHILE):
                        break
                    here, value, moved = there, found, True
                if moved:
                    break  # the other way is where we come from

    def _other_thresholds(self, setting: Setting) -> Iterator[Setting]:
        """One of them moved to its neighbours on the ladder."""
        for k in range(len(setting.thresholds) - 1, -1, -1):
            if setting.thresholds[k] not in LADDER:
                continue
            at = LADDER.index(setting.thresholds[k])
            for threshold in (*LADDER[max(0, at - 1) : at], *LADDER[at + 1 : at + 2]):
                yield Setting((*setting.thresholds[:k], threshold, *setting.thresholds[k + 1 :]), setting.sigma2)

    def grid(self, sets: Sequence[Thresholds], priors: Sequence[Variances]) -> None:
        """Every combination of the given thresholds and variances."""
        order = self.adapter.order
        chosen = sorted((tuple(parse_thresholds(one, order)) for one in sets), reverse=True)
        self._lowest = min(min(thresholds) for thresholds in chosen)
        for sigma2, thresholds in itertools.product(priors, chosen):
            prior = variances(sigma2, order)
            self.try_setting(Setting(thresholds, None if prior is None else tuple(prior)))
        self.ended = f"all {len(self.trials)} settings that were asked for"

    def finish(self) -> tuple[Trial, Adapted, list[float]]:
        """The best trial, its setting solved to the tolerance, and its weights."""
        assert self.best is not None  # noqa: S101 - for the type checker
        _, setting, adapted = self.best
        final = self.solve(setting, 1.0, adapted)
        return self.trials[setting], final, self.weigh(final.whole)[2]


def mixture_ppl(weights: Array, probs: list[Array]) -> float:
    mixture = weights @ np.array(probs)
    return float(np.exp(-np.log(mixture[mixture > 0]).mean()))
