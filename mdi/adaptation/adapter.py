"""From a background model and in-domain text to the adapted model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.adapted import Adapted
from mdi.adaptation.constraints import Constraints, Dropped
from mdi.adaptation.history import History
from mdi.adaptation.problem import ExtendedBackground, Problem, model_marginals, onto
from mdi.errors import MdiError
from mdi.lm.counts import Counts, count_text
from mdi.lm.estimate import estimate
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, Array


class Adapter:
    """One background and one in-domain text, ready to be adapted with any thresholds.

    `text`: a file or files, one sentence a line, or ready counts over the background's vocabulary. `targets`: "ml"
    (relative frequencies), "smoothed" (marginals of an interpolated Kneser-Ney model of the same text) or those of any
    model. `history`: p~(h) by this back-off model instead of by the text. `spend`: one adaptation only, in which the
    background's arrays are used up and its extension becomes the result: less than half the memory.
    """

    def __init__(
        self,
        background: NgramModel,
        text: str | list[str] | Counts,
        *,
        oov: str = "map",
        targets: str | NgramModel = "ml",
        history: NgramModel | None = None,
        threads: int = 2,
        spend: bool = False,
    ) -> None:
        self.background, self.threads, self.spend = background, threads, spend
        if isinstance(targets, NgramModel):
            targets = onto(targets, background.vocab, "the model that gives the targets")
        if history is not None:
            history = onto(history, background.vocab, "the model that gives the histories")
        if not isinstance(text, Counts):
            order = max(background.order, targets.order if isinstance(targets, NgramModel) else 1)
            text = count_text([text] if isinstance(text, str) else text, background.vocab, order, oov)
        if targets == "smoothed":
            targets = estimate(text, "kn-interpolated", [1] * text.order).model
        self.counts = text
        self.targets = None if isinstance(targets, str) else targets
        self.history = History(text, history)

    def ground(self, chosen: Constraints) -> ExtendedBackground:
        return ExtendedBackground(
            self.background, self.counts.trie, chosen, self.history, self.threads, spend=self.spend
        )

    def pose(self, min_counts: str, regularised: bool = False, ground: ExtendedBackground | None = None) -> Problem:
        """Constraints for n-grams seen so often. What cannot be met is dropped and counted; a prior on lambda keeps
        the optimum finite, so then nothing need be dropped for lying at infinity. `ground` may be shared with larger
        sets."""
        counts, background, history = self.counts, self.background, self.history
        dropped = Dropped()
        chosen = selecting.select(counts, self._thresholds(min_counts))
        if not chosen.total:
            raise MdiError(f"no n-gram reaches the thresholds {min_counts}; lower them or give more text")
        if self.targets is None:
            target = selecting.values(counts, chosen) / history.events
        else:
            target = model_marginals(self.targets, counts.trie, chosen, history, self.threads)
            kept = target > 0
            dropped.note(selecting.NO_TARGET, ~kept)
            chosen, target = chosen.keep(kept), target[kept]
        if not regularised:
            # Words that are left to the slack cell: has the background a probability for any?
            elsewhere = np.ones(background.trie.n_words, bool)
            elsewhere[chosen.row[1]] = False
            kept = selecting.drop_degenerate(
                counts.trie, chosen, target, bool((background.p[1][elsewhere] > 0).any()), dropped
            )
            chosen, target = chosen.keep(kept), target[kept]
        own = ground is None
        ground = self.ground(chosen) if own else ground
        while True:
            dual = ground.dual_of(chosen)
            cells = dual.evaluate(np.zeros(chosen.total)).cells
            impossible = selecting.impossible(dual, ground.model.trie, ground.mass, cells)
            if not dropped.note(selecting.IMPOSSIBLE, impossible):
                break
            chosen, target = chosen.keep(~impossible), target[~impossible]
        count, before = selecting.values(counts, chosen), dual.marginals(cells)
        keep = None if own else ground.needed(chosen)
        rows = dual.constraints
        return Problem(
            min_counts, ground.model, rows, chosen, target, count, dual, before, history.events, dropped, keep
        )

    def adapt(
        self,
        min_counts: str = "2",
        *,
        start: dict[str, float] | Adapted | None = None,
        ground: ExtendedBackground | None = None,
        **options,
    ) -> Adapted:
        """`start`: lambda by n-gram, or an adaptation of the same text whose solution to start from. Options: see
        `solve`."""
        problem = self.pose(min_counts, options.get("sigma2") is not None, ground)
        mu = None
        if isinstance(start, Adapted):
            mu = self._carried(start, problem)
        elif start is not None:
            mu = problem.dual.mu_of(problem.lam_from(start))
        return Adapted(problem, problem.solve(start=mu, **options), self.spend)

    def _carried(self, old: Adapted, problem: Problem) -> Array:
        """mu of the new constraints such that every event keeps the scale that the old solution gives it."""
        trie, known = self.counts.trie, old.problem.chosen
        nearest = [known.nearest(trie, k, rows) for k, rows in enumerate(problem.chosen.row[1:], 1)]
        at = np.concatenate([NONE, *nearest])
        return np.where(at >= 0, old.solution.mu[at], 0.0)

    def sweep(self, sets: list[str], **options) -> Iterator[Adapted]:
        """Adapts with several sets of thresholds, from the fewest constraints to the most, each from the last one's
        solution and all on one ground."""
        size = {text: selecting.select(self.counts, self._thresholds(text)).total for text in dict.fromkeys(sets)}
        lowest = [min(values) for values in zip(*map(self._thresholds, sets), strict=True)]
        ground = self.ground(selecting.select(self.counts, lowest)) if len(size) > 1 else None
        last = None
        for text in sorted(size, key=lambda text: (size[text], text)):
            last = self.adapt(text, start=last, ground=ground, **options)
            yield last

    def _thresholds(self, text: str) -> list[int | float]:
        return selecting.parse_thresholds(text, self.background.order)


def adapt(
    background: NgramModel,
    text: str | list[str] | Counts,
    min_counts: str = "2",
    *,
    oov: str = "map",
    targets: str | NgramModel = "ml",
    history: NgramModel | None = None,
    threads: int = 2,
    **options,
) -> Adapted:
    """Adapts a background model so that it meets the marginals of in-domain text and stays closest to itself in KL.

    See `Adapter` for the arguments and `mdi.adaptation.solver.solve` for the options.
    """
    adapter = Adapter(background, text, oov=oov, targets=targets, history=history, threads=threads)
    return adapter.adapt(min_counts, **options)
