"""The best model that background, in-domain text and development text allow.

An adapted background mixed with the in-domain model, and with the background itself so that plain interpolation is
among the choices:

    p = w1 p_ad + w2 p_in + w3 p_bg

What is searched on development text: thresholds and the variance of the prior on lambda, both by order. The weights are
EM's for each choice. The in-domain model may be one order longer than the background. With n-best lists of development
recordings the expected word errors decide in place of the perplexity, and in the end on the weights w too.
"""

import itertools
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.adapted import Adapted
from mdi.adaptation.adapter import Adapter
from mdi.adaptation.by_errors import judge_of
from mdi.adaptation.problem import ExtendedBackground, onto
from mdi.adaptation.settings import USUAL, SolverSettings
from mdi.errors import ConvergenceWarning, MdiError, OptionError, check_positive
from mdi.lm.counts import Counts, count_text
from mdi.lm.estimate import estimate
from mdi.lm.mix import em_weights, mix, predicted_probs
from mdi.lm.model import NgramModel
from mdi.lm.n_best import Choice, NBestLists
from mdi.lm.new_words import NewWordsLike
from mdi.lm.perplexity import Perplexity, perplexity_of
from mdi.lm.text import Text, TextLike, TextStats
from mdi.lm.thresholds import Thresholds, parse_thresholds
from mdi.lm.trie import MAX_ORDER, Array

if TYPE_CHECKING:
    import pandas

# The sets of thresholds of the paper's table: tried with and without a prior, so that the best is never worse.
PAPER_SETS = ("2-2-2", "5-3-2", "6-4-3")
# Rungs of the search for thresholds.
LADDER = (1, 2, 3, 5, 10, 20, 50, 100)
# Factors by which the variance of one order is changed, the bold one first.
FACTORS = (4.0, 2.0)
# A move must lower the perplexity by this share to count.
WORTHWHILE = 2e-4
# While searching, marginals need not be met as closely as in the end.
SEARCH_SLACK = 3.0
# Static mixtures differ from what EM sees by less than this: alternatives this close are made and compared.
STATIC_MARGIN = 0.02


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
    choice: Choice | None = None  # by word errors

    @property
    def value(self) -> float:
        """What is to be least."""
        return self.ppl_mixed if self.choice is None else self.choice.expected


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
        settings: SolverSettings = USUAL,
        report: Callable[[Trial], None] | None = None,
        lists: NBestLists | None = None,
    ) -> None:
        self.judge = judge_of(lists, adapter.background.vocab, others) if lists is not None else None
        self.adapter, self.settings, self.report = adapter, settings, report
        self.ids = development
        self.others = predicted_probs(others, development)
        self.trials: dict[Setting, Trial] = {}
        self.best: tuple[float, Setting, Adapted] | None = None
        self.last: Adapted | None = None
        self.most = math.inf
        self.ended = ""

    @cached_property
    def ground(self) -> ExtendedBackground:
        """The background with a row for everything that was seen: shared by all settings."""
        return self.adapter.ground(selecting.select(self.adapter.counts, [self._lowest] * self.adapter.order))

    _lowest = 1.0  # threshold

    @property
    def baseline(self) -> tuple[float, list[float]]:
        """Perplexity and weights without any adapted model: plain interpolation."""
        weights = em_weights(self.others)
        return _ppl(weights, self.others), weights.tolist()

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
        return _ppl(np.ones(1), probs[:1]), _ppl(weights, probs), weights.tolist()

    def try_setting(self, setting: Setting) -> float:
        """Development perplexity of the mixture with this setting, or its expected errors."""
        if setting in self.trials:
            return self.trials[setting].value
        if len(self.trials) >= self.most:
            raise _Budget
        begun = time.perf_counter()
        adapted = self.last = self.solve(setting, SEARCH_SLACK, self.last)
        alone, mixed, weights = self.weigh(adapted.whole)
        choice = self.judge.choose(self.judge.probs(adapted.whole), weights) if self.judge else None
        size, iterations = adapted.problem.constraints.total, adapted.solution.iterations
        trial = Trial(
            len(self.trials) + 1, setting, size, iterations, time.perf_counter() - begun, alone, mixed, weights, choice
        )
        self.trials[setting] = trial
        if self.best is None or trial.value < self.best[0]:
            self.best = (trial.value, setting, adapted)
        if self.report:
            self.report(trial)
        return trial.value

    def search(self, most: int = 24, sets: Sequence[Thresholds] = PAPER_SETS) -> None:
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

    def grid(self, sets: Sequence[Thresholds], variances: Sequence[float | Sequence[float] | None]) -> None:
        """Every combination of the given thresholds and variances."""
        order = self.adapter.order
        chosen = sorted((tuple(parse_thresholds(one, order)) for one in sets), reverse=True)
        self._lowest = min(min(thresholds) for thresholds in chosen)
        for sigma2, thresholds in itertools.product(variances, chosen):
            values = None
            if sigma2 is not None:
                listed = list(sigma2) if isinstance(sigma2, Sequence) else [sigma2]
                values = tuple(listed + listed[-1:] * (order - len(listed)))
            self.try_setting(Setting(thresholds, values))
        self.ended = f"all {len(self.trials)} settings that were asked for"

    def finish(self) -> tuple[Adapted, list[float]]:
        """The best setting, solved to the tolerance, and its weights."""
        assert self.best is not None  # noqa: S101 - for the type checker
        _, setting, adapted = self.best
        final = self.solve(setting, 1.0, adapted)
        weights = self.weigh(final.whole)[2]
        return final, self.judge.mixture(self.judge.probs(final.whole), weights)[0] if self.judge else weights


def _ppl(weights: Array, probs: list[Array]) -> float:
    mixture = weights @ np.array(probs)
    return float(np.exp(-np.log(mixture[mixture > 0]).mean()))


@dataclass(frozen=True, repr=False, eq=False)
class Tuned:
    """The best model, and how it was found."""

    model: NgramModel
    adapted: Adapted  # the adapted component
    setting: Setting
    weights: dict[str, float]  # by component: adapted, the in-domain models, the background
    development: Perplexity  # of `model`
    interpolation: float  # development perplexity of plain interpolation, by the same in-domain model
    in_domain: dict[str, float]  # development perplexity of each in-domain model alone
    background: float  # the background's
    trials: list[Trial] = field(default_factory=list)
    ended: str = ""
    choice: Choice | None = None  # LM weight and expected errors of `model`, where these decided

    def __repr__(self) -> str:
        return f"<Tuned: {self.setting}; development perplexity {self.development.ppl:.5g}>"

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False)

    def table(self) -> "pandas.DataFrame":
        """What was tried, in the order in which it was."""
        import pandas

        rows = [
            {
                "min_counts": t.setting.min_counts,
                "sigma2": t.setting.prior,
                "constraints": t.constraints,
                "iterations": t.iterations,
                "seconds": round(t.seconds, 2),
                "ppl_alone": t.ppl_alone,
                "ppl_mixed": t.ppl_mixed,
                "weights": " ".join(f"{w:.3f}" for w in t.weights),
                "chosen": t.setting == self.setting,
            }
            for t in self.trials
        ]
        table = pandas.DataFrame(rows)
        if self.choice is not None:
            choices = [t.choice for t in self.trials if t.choice]
            table["lm_weight"], table["expected_errors"] = [c.lm_weight for c in choices], [c.expected for c in choices]
        return table

    def references(self) -> dict[str, float]:
        """Development perplexities to compare with, by name."""
        names = [name.rsplit("/", 1)[-1] for name in self.in_domain] if len(self.in_domain) > 1 else ["in-domain"]
        alone = {f"{name} alone": ppl for name, ppl in zip(names, self.in_domain.values(), strict=True)}
        return alone | {"interpolation": self.interpolation, "background alone": self.background}


def in_domain_models(
    counts: Counts, text: TextLike | None, order: int, development: Array, oov: str
) -> dict[str, NgramModel]:
    """The interpolated Kneser-Ney model of the text, of the order of `counts` or, where it predicts the development
    text better, of up to `order`."""
    found = {counts.order: estimate(counts, "kn-interpolated", [1] * counts.order).model}
    if text is not None and order > counts.order:
        longer = count_text(text, counts.vocab, order, oov)
        if all(longer.trie.counts):
            found[order] = estimate(longer, "kn-interpolated", [1] * order).model
    ppl = {k: _ppl(np.ones(1), predicted_probs([model], development)) for k, model in found.items()}
    best = min(ppl, key=lambda k: ppl[k])
    return {f"interpolated Kneser-Ney of the in-domain text, order {best}": found[best]}


def tune(
    background: NgramModel | str | os.PathLike[str],
    text: TextLike | Counts,
    development: TextLike,
    *,
    mix_with: dict[str, NgramModel] | None = None,
    max_order: int | None = None,
    min_counts: Sequence[Thresholds] | None = None,
    sigma2: Sequence[float | Sequence[float] | None] | None = None,
    sets: Sequence[Thresholds] | None = None,
    max_settings: int = 32,
    targets: str | NgramModel = "ml",
    history: NgramModel | None = None,
    new_words: NewWordsLike = "add",
    settings: SolverSettings = USUAL,
    threads: int = 2,
    report: Callable[[Trial], None] | None = None,
    lists: NBestLists | None = None,
) -> Tuned:
    """Searches for the best model on development text: an adapted background, mixed with in-domain models and itself.

    The result is never worse on the development text than what it is made of: in-domain models alone, plain
    interpolation, the adapted models of `sets`.

    Parameters
    ----------
    background, text, targets, history, new_words, settings, threads
        As of `adapt`.
    development
        Text to choose by, none of which is in `text`.
    mix_with
        In-domain models by name (an interpolated Kneser-Ney model of the text, which may be one order longer than the
        background where that helps).
    max_order
        Limits the order of that model.
    min_counts, sigma2
        Try just these thresholds and variances (None: no prior) instead of searching.
    sets
        Thresholds that are tried in any case, with and without a prior (the paper's).
    max_settings
        End the search after so many.
    report
        Called with every `Trial`.
    lists
        N-best lists of development recordings (`mdi.speech.n_best.read_lists`): expected word errors decide.

    Returns
    -------
    Tuned
        The best model (`.model`) and how it was found (`.table()`). `mdi.save` writes it.
    """
    check_positive("max_settings", max_settings)
    adapter = Adapter(background, text, new_words=new_words, targets=targets, history=history, threads=threads)
    background = adapter.background
    max_order = adapter.order + 1 if max_order is None else max_order
    if not adapter.order <= max_order <= MAX_ORDER:
        raise OptionError("max_order", max_order, f"{adapter.order} (the background's order) to {MAX_ORDER}")
    source = Text(development, background.vocab)
    ids = np.concatenate(list(source))
    if source.stats.oov == source.stats.words:
        raise MdiError(f"{source.sources[0]}: none of its words is in the background; check its case and normalisation")
    if mix_with:
        models = {name: onto(model, background.vocab, name) for name, model in mix_with.items()}
    else:
        again = None if isinstance(text, Counts) else text
        models = in_domain_models(adapter.counts, again, max_order, ids, "drop" if new_words == "drop" else "map")
    components = {**models, "background": background}
    tuner = Tuner(adapter, ids, list(components.values()), settings=settings, report=report, lists=lists)
    if min_counts or sigma2:
        tuner.grid(min_counts or ("1", "2", "5-3-2", "10"), sigma2 or (1.0,))
    else:
        given = PAPER_SETS if sets is None else sets
        tuner.search(max_settings, [one for one in given if _fits(one, adapter.order)])
    return _finished(tuner, models, components, source.stats)


def _fits(thresholds: Thresholds, order: int) -> bool:
    """The paper's sets are for trigrams; a model of lower order does without them."""
    try:
        return bool(parse_thresholds(thresholds, order))
    except OptionError:
        return False


def _finished(
    tuner: Tuner, models: dict[str, NgramModel], components: dict[str, NgramModel], stats: TextStats
) -> Tuned:
    """The static mixture of the best trial, unless something simpler turns out better than it."""
    adapted, weights = tuner.finish()
    assert tuner.best is not None  # noqa: S101 - for the type checker
    named = {"adapted": adapted.model, **components}
    alone = {
        name: _ppl(np.ones(1), [probs]) for name, probs in zip(components, tuner.others, strict=True) if name in models
    }
    interpolation, plain = tuner.baseline
    model = mix(list(named.values()), weights)
    result = perplexity_of(model, [tuner.ids], stats)
    # what EM saw is not quite what a static mixture gives: close rivals are made and compared
    rivals: list[tuple[float, list[float]]] = [(interpolation, [0.0, *plain])]
    rivals += [(ppl, [float(name == one) for one in named]) for name, ppl in alone.items()]
    rivals.append((tuner.trials[tuner.best[1]].ppl_alone, [float(name == "adapted") for name in named]))
    for ppl, other in rivals if tuner.judge is None else ():
        if ppl < result.ppl * (1 + STATIC_MARGIN):
            rival = mix(list(named.values()), other)
            found = perplexity_of(rival, [tuner.ids], stats)
            if found.ppl < result.ppl:
                model, result, weights = rival, found, other
    return Tuned(
        model,
        adapted,
        tuner.best[1],
        dict(zip(named, weights, strict=True)),
        result,
        interpolation,
        alone,
        _ppl(np.ones(1), tuner.others[-1:]),
        list(tuner.trials.values()),
        tuner.ended,
        tuner.judge.lists.choose(tuner.judge.lists.lm_costs(model)) if tuner.judge else None,
    )
