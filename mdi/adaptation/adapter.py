"""From a background model and in-domain text to the adapted model."""

import os
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.adapted import Adapted
from mdi.adaptation.constraints import Constraints, Dropped
from mdi.adaptation.delta import Delta, DeltaLike, as_delta, delta_of, rounded
from mdi.adaptation.history import History
from mdi.adaptation.problem import ExtendedBackground, Problem, Variances, model_marginals, onto, variances
from mdi.adaptation.solver import USUAL, SolverSettings
from mdi.adaptation.table import certificate
from mdi.cluster import OnDask
from mdi.errors import MdiError, check_choice, check_positive
from mdi.files import make_folder
from mdi.fst.given import ModelLike, as_model
from mdi.kernels.trie import map_histories
from mdi.lm.counts import Counts
from mdi.lm.identity import identity
from mdi.lm.model import NgramModel, copied, without
from mdi.lm.new_words import NewWordsLike, count_with_new_words, estimated
from mdi.lm.normalise import check_normalised
from mdi.lm.shards import Job, at_work
from mdi.lm.text import TextLike
from mdi.lm.thresholds import Thresholds, listed, parse_thresholds, spell_thresholds
from mdi.lm.trie import NONE, Trie, locate

if TYPE_CHECKING:
    from distributed import Client

TARGETS = ("ml", "smoothed")
# What we recommend where there is no development text: every n-gram of the text, under a prior (see RESULTS.md).
MIN_COUNTS, SIGMA2 = "1", 1.0
# Of the certificate, what a delta says at least.
DELTA_SAYS = ("converged", "message", "iterations", "kl_to_background", "constraints_dropped")


class Adapter:
    """One background and one in-domain text, ready to be adapted with any thresholds.

    Parameters
    ----------
    background, text, new_words, targets, history, threads, allow_unnormalized
        As of `adapt`. Words that are not added are mapped to <unk>, or dropped where there is none.

    Attributes
    ----------
    background, new_words
        The background with the words that were added to it, and which these are.
    """

    once = False  # the background is nobody else's, and the one ground that is made may take it

    def __init__(
        self,
        background: ModelLike,
        text: TextLike | Counts,
        *,
        new_words: NewWordsLike = "add",
        targets: ModelLike = "ml",
        history: ModelLike | None = None,
        threads: int = 2,
        allow_unnormalized: bool = False,
    ) -> None:
        check_positive("threads", threads)
        name = str(background) if isinstance(background, str | os.PathLike) else "the background"
        background = as_model(background, "background")
        check_normalised(name, background, allow_unnormalized)
        self.order = order = background.order
        if isinstance(targets, str):
            check_choice("targets", targets, TARGETS)
        else:
            targets = as_model(targets, "targets")
            order = max(order, targets.order)
        counts = self.counts = count_with_new_words(text, background.vocab, order, new_words)
        self.new_words = estimated(counts, background)
        self.given = background
        if self.new_words is not None:
            background = self.new_words.added_to(background)
        self.background, self.threads, self.targets = background, threads, None
        if isinstance(targets, NgramModel):
            self.targets = onto(targets, background.vocab, "the model that gives the targets")
        elif targets == "smoothed":
            from mdi.lm.estimate import estimate

            self.targets = estimate(counts, "kn-interpolated", [1] * counts.order).model
        if history is not None:
            history = onto(as_model(history, "history"), background.vocab, "the model that gives the histories")
        self.history = History(counts, history)

    def ground(self, chosen: Constraints) -> ExtendedBackground:
        background = self.background if self.once else copied(self.background)
        return ExtendedBackground(background, self.counts.trie, chosen, self.history, self.threads)

    def pose(
        self, min_counts: Thresholds, regularised: bool = False, ground: ExtendedBackground | None = None
    ) -> Problem:
        """Constraints for n-grams seen so often. What cannot be met is dropped and counted; a prior on lambda keeps
        the optimum finite, so then nothing need be dropped for lying at infinity. `ground` may be shared with larger
        sets."""
        dropped, events = Dropped(), self.history.events
        chosen = selecting.select(self.counts, parse_thresholds(min_counts, self.order))
        if not chosen.total:
            raise MdiError(
                f"no n-gram reaches the thresholds {spell_thresholds(min_counts)}; lower them or give more text"
            )
        if self.targets is None:
            target = selecting.values(self.counts, chosen) / events
        else:
            target = model_marginals(self.targets, self.counts.trie, chosen, self.history, self.threads)
            kept = target > 0
            dropped.note(selecting.NO_TARGET, ~kept)
            chosen, target = chosen.keep(kept), target[kept]
        if not regularised:
            # Words that are left to the slack cell: has the background a probability for any?
            elsewhere = np.ones(self.background.trie.n_words, bool)
            elsewhere[chosen.row[1]] = False
            kept = selecting.drop_degenerate(
                self.counts.trie, chosen, target, bool((self.background.p[1][elsewhere] > 0).any()), dropped
            )
            chosen, target = chosen.keep(kept), target[kept]
        own = ground is None
        count = selecting.values(self.counts, chosen)
        ground = self.ground(chosen) if ground is None else ground
        while True:
            dual, reach = ground.dual_of(chosen)
            cells = dual.evaluate(np.zeros(chosen.total)).cells
            impossible = selecting.impossible(dual.parent, reach, cells)
            if not dropped.note(selecting.IMPOSSIBLE, impossible):
                break
            chosen, target, count = chosen.keep(~impossible), target[~impossible], count[~impossible]
        spare = not own or selecting.IMPOSSIBLE in dropped.reasons
        keep, before = ground.needed(chosen) if spare else None, dual.marginals(cells)
        name, rows = spell_thresholds(min_counts), dual.constraints
        return Problem(name, ground.model, rows, chosen, target, count, dual, before, events, dropped, keep)

    def adapt(
        self,
        min_counts: Thresholds = MIN_COUNTS,
        *,
        sigma2: Variances = SIGMA2,
        settings: SolverSettings | None = USUAL,
        start: Adapted | DeltaLike | None = None,
        ground: ExtendedBackground | None = None,
    ) -> Adapted:
        """One adaptation: see `adapt` for the parameters. `ground`: what several sets of thresholds may share. mu is
        rounded to the precision of deltas, so that both ways to a model give the same one."""
        start = as_start(start)
        if isinstance(start, Delta):
            start.check(self.given)
        problem = self.pose(min_counts, variances(sigma2) is not None, ground)
        mu = None
        if isinstance(start, Adapted):  # every event keeps the scale that the old solution gives it
            rows = enumerate(problem.chosen.row[1:], 1)
            at = np.concatenate([start.problem.chosen.nearest(self.counts.trie, k, some) for k, some in rows])
            mu = np.where(at >= 0, start.solution.mu[at], 0.0)
        elif isinstance(start, Delta):
            wide = problem.background
            mu = start.mu_at(wide.vocab, problem.constraints.ngrams(wide.trie))
        solution = problem.solve(settings, sigma2=sigma2, start=mu)
        return Adapted(problem, replace(solution, mu=rounded(solution.mu)), self.new_words)

    def on_part(self) -> "Adapter":
        """The same problems on the part of the background that they look at: the same solutions, much sooner, but
        models of the part only. A history distribution by a model looks everywhere."""
        if self.history.model is not None:
            return self
        made = copy(self)
        made.background, made.once = active_part(self.background, self.counts.trie), True
        return made

    def delta(
        self,
        min_counts: Thresholds = MIN_COUNTS,
        *,
        sigma2: Variances = SIGMA2,
        settings: SolverSettings | None = USUAL,
        start: Adapted | DeltaLike | None = None,
    ) -> Delta:
        """The adaptation without its model, as a delta to this background: `delta.apply(background)` gives what
        `adapt` would, `mdi.write_delta` keeps it."""
        adapted = self.on_part().adapt(min_counts, sigma2=sigma2, settings=settings, start=start)
        about = {name: value for name, value in certificate(adapted).items() if name in DELTA_SAYS}
        return delta_of(adapted, identity(self.given), about)

    def sweep(
        self, sets: Sequence[Thresholds], *, sigma2: Variances = SIGMA2, settings: SolverSettings | None = USUAL
    ) -> Iterator[Adapted]:
        """Adapts with several sets of thresholds, from the fewest constraints to the most, each from the last one's
        solution and all on one ground. `mdi.adaptation.table.sweep_table` shows them side by side."""
        names = {spell_thresholds(one): parse_thresholds(one, self.order) for one in listed(sets)}
        size = {name: selecting.select(self.counts, values).total for name, values in names.items()}
        lowest = [min(values) for values in zip(*names.values(), strict=True)]
        ground = self.ground(selecting.select(self.counts, lowest)) if len(size) > 1 else None
        last = None
        for name in sorted(size, key=lambda name: (size[name], name)):
            last = self.adapt(name, sigma2=sigma2, settings=settings, start=last, ground=ground)
            yield last


class OneAdaptation(Adapter):
    """The same, once: the background itself becomes the adapted model, and the text's counts go before the entries
    come. Half the memory."""

    once = True

    def ground(self, chosen: Constraints) -> ExtendedBackground:
        del self.given  # of which nothing is needed any more
        ground = super().ground(chosen)
        del self.counts, self.history
        return ground

    def adapt(self, *args: Any, **options: Any) -> Adapted:
        if not hasattr(self, "counts"):
            raise MdiError("this adapter was made for one adaptation, which it has made; make a new one")
        adapted = super().adapt(*args, **options)
        adapted.problem.dual.forget_entries()
        return replace(adapted, in_place=True)


def adapt(
    background: ModelLike,
    text: TextLike | Counts,
    min_counts: Thresholds = MIN_COUNTS,
    *,
    sigma2: Variances = SIGMA2,
    targets: ModelLike = "ml",
    history: ModelLike | None = None,
    new_words: NewWordsLike = "add",
    settings: SolverSettings | None = USUAL,
    start: Adapted | DeltaLike | None = None,
    threads: int = 2,
    allow_unnormalized: bool = False,
    cluster: "Client | None" = None,
    shards: str | os.PathLike[str] | None = None,
) -> Adapted:
    """Adapts a background model so that it meets the marginals of in-domain text and stays closest to itself in KL.

    The defaults, all n-grams of the text under a prior of variance 1, are what we recommend without development text;
    with some, see `tune`. The paper has thresholds such as "5-3-2" and no prior, `sigma2=None`.

    Parameters
    ----------
    background
        A model, what `adapt`, `match` or `tune` gives, or the file of one in any form that `load` reads.
    text
        A file, sentences (a list or column of strings), a list of paths, or counts.
    min_counts
        Constrain the n-grams seen so often, by order: "5-3-2", (5, 3, 2), or 2 for all orders.
    sigma2
        Variance of a Gaussian prior on lambda, one for all or one per order; None for no prior.
    targets
        "ml" (relative frequencies), "smoothed" (those of a Kneser-Ney model of the text), or a model or its Path.
    history
        A model, or its file, that gives p~(h) instead of the text.
    new_words
        Words that the background lacks: "add" them to it; a number: add those seen so often; words or their file: add
        these; "map" to <unk>, "drop" with the n-grams around them, "error".
    settings
        Of the solver: when to stop, after how many iterations in any case, whom to tell.
    start
        An earlier result on the same text, or a delta, or the file of one, of any text.
    threads
        Results do not depend on it.
    allow_unnormalized
        Take a background as it is whose probabilities do not sum to one after every history; otherwise it is refused.
    cluster
        A Dask client whose workers do the work, each on some shards of the background.
    shards
        With `cluster`: a folder for the background's arrays that all workers see.

    Returns
    -------
    Adapted
        The model (`.model`), its constraints as tables, and how the solver came there. `mdi.save` writes it.
    """
    job, start = None, as_start(start)
    if cluster is not None:
        if shards is None:
            raise MdiError("cluster without shards; expected a directory that all workers see: shards='/shared/job'")
        job = Job(str(make_folder(os.fspath(shards)).resolve()), OnDask(cluster))
    with at_work(job):
        kept = not isinstance(background, str | os.PathLike) or isinstance(start, Adapted)
        kind = Adapter if kept else OneAdaptation
        how: dict[str, Any] = {"targets": targets, "history": history, "new_words": new_words, "threads": threads}
        adapter = kind(background, text, allow_unnormalized=allow_unnormalized, **how)
        return adapter.adapt(min_counts, sigma2=sigma2, settings=settings, start=start)


def as_start(start: Any) -> Adapted | Delta | None:
    """What may be given as a start."""
    return start if start is None or isinstance(start, Adapted) else as_delta("start", start)


def active_part(model: NgramModel, counts: Trie) -> NgramModel:
    """The part of a background that an adaptation looks at: all words, and all rows of the histories that have rows in
    `counts`, a closed trie over the same words.

    The dual sums over histories with mass, and those that they back off to, so it has the same value, the same gradient
    and, as sums run in the same order, the same solution to the last bit on this part as on the whole. It is a proper
    model: histories of which no row is wanted weigh 1, so everything sums to one.
    """
    whole, where = model.trie, locate(counts, model.trie)
    keep, bow = [NONE, np.ones(whole.n_words, bool)], [model.bow[0]]
    for k in range(2, whole.order + 1):
        followed = np.zeros(whole.n_hist(k - 1), bool)
        if k <= counts.order:
            hists = map_histories(
                where[k - 1], counts.as_hist[k - 1], whole.as_hist[k - 1], np.empty_like(where[k - 1])
            )
            hists = hists[np.diff(counts.begin[k]) > 0]
            followed[hists[hists >= 0]] = True
        keep.append(np.repeat(followed, np.diff(whole.begin[k])))
        bow.append(np.where(followed, model.bow[k - 1], 1.0))
    return without(NgramModel(model.vocab, whole, model.p, bow), keep)
