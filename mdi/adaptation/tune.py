"""The best model that background, in-domain text and development text allow.

An adapted background mixed with the in-domain model, and with the background itself so that plain interpolation is
among the choices:

    p = w1 p_ad + w2 p_in + w3 p_bg

Thresholds by order and the variance of the prior on lambda are searched on development text, the weights are EM's for
each.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mdi.adaptation.adapted import Adapted
from mdi.adaptation.adapter import Adapter
from mdi.lm.mix import em_weights
from mdi.lm.model import NgramModel
from mdi.lm.perplexity import token_probs
from mdi.lm.trie import Array

# What is tried, from few constraints to many and from a strong prior to none.
THRESHOLDS = (100, 50, 20, 10, 5, 3, 2, 1)
VARIANCES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, None)
FIRST_VARIANCE = 1.0
# A move must lower the perplexity by this share to count.
WORTHWHILE = 2e-4
# While searching, marginals need not be met as closely as in the end.
SEARCH_SLACK = 3.0


@dataclass(frozen=True)
class Setting:
    thresholds: tuple[float, ...]
    sigma2: float | None

    @property
    def min_counts(self) -> str:
        return "-".join(f"{t:g}" for t in self.thresholds)

    def __str__(self) -> str:
        return f"{self.min_counts}, " + (f"sigma2 {self.sigma2:g}" if self.sigma2 else "no prior")


@dataclass(frozen=True)
class Trial:
    """One setting: development perplexity of the adapted model alone and mixed."""

    setting: Setting
    constraints: int
    iterations: int
    seconds: float
    ppl_alone: float
    ppl_mixed: float
    weights: list[float]


class Tuner:
    """`others` are mixed with the adapted model: the in-domain model, the background. All are over one vocabulary."""

    def __init__(
        self,
        adapter: Adapter,
        development: Array,
        others: list[NgramModel],
        *,
        tolerance: float = 1e-3,
        max_iters: int = 200,
        report: Callable[[Trial], None] | None = None,
    ) -> None:
        self.adapter, self.tolerance, self.max_iters, self.report = adapter, tolerance, max_iters, report
        bos = adapter.background.vocab.bos
        self.ids, self.predicted = development, (development >= 0) & (development != bos)
        self.others = [self._probs(model) for model in others]
        self.points: dict[Setting, Trial] = {}
        self.best: tuple[float, Setting, Adapted] | None = None
        self.last: Adapted | None = None

    def _probs(self, model: NgramModel) -> Array:
        return token_probs(model, self.ids)[0][self.predicted]

    @property
    def baseline(self) -> tuple[float, list[float]]:
        """Perplexity and weights without any adapted model: plain interpolation."""
        weights = em_weights(self.others)
        return _ppl(weights, self.others), weights.tolist()

    def solve(self, setting: Setting, tolerance: float, start: Adapted | None) -> Adapted:
        return self.adapter.adapt(
            setting.min_counts, sigma2=setting.sigma2, tolerance=tolerance, max_iters=self.max_iters, start=start
        )  # fmt: skip

    def weigh(self, model: NgramModel) -> tuple[float, float, list[float]]:
        """(perplexity alone, perplexity mixed, weights)"""
        probs = [self._probs(model), *self.others]
        weights = em_weights(probs)
        return _ppl(np.ones(1), probs[:1]), _ppl(weights, probs), weights.tolist()

    def try_setting(self, setting: Setting) -> float:
        """Development perplexity of the mixture with this setting."""
        if setting in self.points:
            return self.points[setting].ppl_mixed
        begun = time.perf_counter()
        adapted = self.last = self.solve(setting, SEARCH_SLACK * self.tolerance, self.last)
        alone, mixed, weights = self.weigh(adapted.model)
        seconds = time.perf_counter() - begun
        size, iterations = adapted.problem.constraints.total, adapted.solution.iterations
        point = Trial(setting, size, iterations, seconds, alone, mixed, weights)
        self.points[setting] = point
        if self.best is None or mixed < self.best[0]:
            self.best = (mixed, setting, adapted)
        if self.report:
            self.report(point)
        return mixed

    def search(self, most: int = 24) -> None:
        """A path with equal thresholds, then one coordinate at a time for as long as it pays, in at most so many
        settings."""
        order = self.adapter.background.order
        rarest = [float(self.adapter.counts.count[k].max(initial=0.0)) for k in range(1, order + 1)]
        for threshold in THRESHOLDS:
            if threshold <= rarest[0] and len(self.points) < most:
                self.try_setting(Setting((threshold,) * order, FIRST_VARIANCE))
        while True:
            found = self.best[0]
            for setting in self._neighbours(self.best[1]):
                if len(self.points) >= most:
                    return
                self.try_setting(setting)
            if self.best[0] > found * (1 - WORTHWHILE):
                return

    def _neighbours(self, setting: Setting) -> Iterator[Setting]:
        for sigma2 in _beside(VARIANCES, setting.sigma2):
            yield Setting(setting.thresholds, sigma2)
        for k in range(len(setting.thresholds) - 1, -1, -1):
            for threshold in _beside(THRESHOLDS, setting.thresholds[k]):
                yield Setting((*setting.thresholds[:k], threshold, *setting.thresholds[k + 1 :]), setting.sigma2)

    def grid(self, thresholds: list[tuple[float, ...]], variances: list[float | None]) -> None:
        """Every combination of the given thresholds and variances."""
        for sigma2, chosen in itertools.product(variances, thresholds):
            self.try_setting(Setting(chosen, sigma2))

    def finish(self) -> tuple[Adapted, list[float]]:
        """The best setting, solved to the tolerance, and its weights."""
        _, setting, adapted = self.best
        final = self.solve(setting, self.tolerance, adapted)
        return final, self.weigh(final.model)[2]


def _beside(ladder: tuple, value: float | None) -> list:
    """The neighbours on a ladder; none for a value that is not on it."""
    if value not in ladder:
        return []
    at = ladder.index(value)
    return [*ladder[max(0, at - 1) : at], *ladder[at + 1 : at + 2]]


def _ppl(weights: Array, probs: list[Array]) -> float:
    mixture = weights @ np.array(probs)
    return float(np.exp(-np.log(mixture[mixture > 0]).mean()))
