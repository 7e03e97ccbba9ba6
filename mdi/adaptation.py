"""From a background model and in-domain counts to the adapted model.

p_ad(w|h)  = p(w|h) c(hw) / Z(h)        for every row            (the paper's Eq. 5)
bow_ad(h)  = bow(h) Z(h') / Z(h)                                 (section 3.4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mdi import constraints as selecting
from mdi.constraints import Dropped
from mdi.counts import Counts, count_text
from mdi.dual import Constraints, Dual
from mdi.errors import MdiError, examples
from mdi.estimate import estimate
from mdi.history import ml_history, move_mass, smoothed_history
from mdi.kernels import sweeps
from mdi.model import NgramModel, extend, sigma_l
from mdi.relabel import join_vocabularies, relabel
from mdi.solver import Solution, Step, solve
from mdi.trie import NONE, Array, Trie
from mdi.vocabulary import Vocabulary

TARGETS = ("ml", "smoothed")


@dataclass(frozen=True)
class Problem:
    """Background (extended by the constraints), history mass on its histories, constraints and targets."""

    background: NgramModel
    mass: list[Array]
    constraints: Constraints
    target: Array
    count: Array
    dual: Dual
    events: float
    dropped: Dropped = field(default_factory=Dropped)

    def ngrams(self) -> list[str]:
        """The constraints spelled out."""
        trie, words = self.background.trie, self.background.vocab.words
        lines = (ids for k in range(1, self.constraints.order + 1) for ids in trie.ngrams(k, self.constraints.row[k]).tolist())
        return [" ".join([words[w] for w in ids]) for ids in lines]

    def lam_from(self, known: dict[str, float]) -> Array:
        """Parameters by n-gram as an array; 0 for constraints that are not among them."""
        return np.array([known.get(ngram, 0.0) for ngram in self.ngrams()])


@dataclass(frozen=True)
class Adapted:
    """The adapted model and how it came about. `before` are the background's marginals of the constraints."""

    model: NgramModel
    problem: Problem
    solution: Solution
    lam: Array
    before: Array

    @property
    def kl(self) -> float:
        """KL(p_ad || background) under p~: sum_i lam_i marginal_i - sum_h p~(h) log Z(h)."""
        return float(self.lam @ self.solution.marginal) - self.solution.evaluation.log_z

    @property
    def dual_value(self) -> float:
        return float(self.lam @ self.problem.target) - self.solution.evaluation.log_z


class History:
    """p~(h): of the in-domain text, or of a back-off model; asked for its mass on the histories of any trie."""

    def __init__(self, counts: Counts, model: NgramModel | None = None) -> None:
        self.counts, self.model = counts, model
        self.ml, self.events = ml_history(counts)
        if not self.events > 0:
            raise MdiError("the in-domain counts have no events; expected text with words of the background's vocabulary")

    def on(self, trie: Trie) -> list[Array]:
        if self.model is not None:
            return move_mass(*smoothed_history(self.model, trie, self.counts.order - 1), trie)
        return [part / self.events for part in move_mass(self.counts.trie, self.ml, trie)]


def pose(
    background: NgramModel,
    counts: Counts,
    thresholds: list[int | float],
    *,
    targets: NgramModel | None = None,
    history: NgramModel | None = None,
    threads: int = 2,
) -> Problem:
    """Constraints with counts >= thresholds; targets by the counts, or the marginals of another model. What cannot be met is
    dropped and counted. All models are over one vocabulary."""
    p_tilde = History(counts, history)
    dropped = Dropped()
    chosen = selecting.select(counts, thresholds)
    if not chosen.total:
        raise MdiError(f"no n-gram reaches the thresholds {'-'.join(map(str, thresholds))}; lower them or give more text")
    if targets is None:
        target = selecting.values(counts, chosen) / p_tilde.events
    else:
        target = model_marginals(targets, counts.trie, chosen, p_tilde, threads)
        kept = target > 0
        dropped.note(selecting.NO_TARGET, ~kept)
        chosen, target = chosen.keep(kept), target[kept]
    # Words that are left to the slack cell: has the background a probability for any?
    elsewhere = np.ones(background.trie.n_words, bool)
    elsewhere[chosen.row[1]] = False
    kept = selecting.drop_degenerate(counts.trie, chosen, target, bool((background.p[1][elsewhere] > 0).any()), dropped)
    chosen, target = chosen.keep(kept), target[kept]
    wide = extend(background, selecting.as_trie(counts.trie, chosen))[0]
    mass = p_tilde.on(wide.trie)
    rows = Constraints(rows_in(wide.trie, counts.trie, chosen))
    while True:
        dual = Dual(wide, mass, rows, threads)
        impossible = selecting.impossible(dual, target)
        if not dropped.note(selecting.IMPOSSIBLE, impossible):
            return Problem(wide, mass, rows, target, selecting.values(counts, chosen), dual, p_tilde.events, dropped)
        chosen, rows, target = chosen.keep(~impossible), rows.keep(~impossible), target[~impossible]


def rows_in(trie: Trie, source: Trie, constraints: Constraints) -> list[Array]:
    """The same n-grams as rows of another trie. Tries over the same words sort alike, so rows stay ascending."""
    return [NONE, *(trie.find(source.ngrams(k, constraints.row[k])) for k in range(1, constraints.order + 1))]


def model_marginals(model: NgramModel, source: Trie, constraints: Constraints, history: History, threads: int) -> Array:
    """sum_h p~(h) p(w|h) over each constraint's events: Sigma_R of another model, with no scaling."""
    wide = extend(model, selecting.as_trie(source, constraints))[0]
    rows = Constraints(rows_in(wide.trie, source, constraints))
    dual = Dual(wide, history.on(wide.trie), rows, threads)
    return dual.marginals(np.maximum(dual.evaluate(np.zeros(rows.total)).cells, 0.0))


def adapted_model(background: NgramModel, constraints: Constraints, mu: Array) -> NgramModel:
    """The exact, normalised model with scale exp(mu) on the constraints' cells. With mu = 0 it is the background."""
    trie = background.trie
    scale = [NONE]
    for k in range(1, trie.order + 1):
        c = scale[k - 1][trie.suffix[k]] if k > 1 else np.ones(trie.n_words)
        if k <= constraints.order:
            c[constraints.row[k]] = np.exp(mu[constraints.first[k] : constraints.first[k + 1]])
        scale.append(c)
    z = sigma_l(background, scale)
    p = [NONE, background.p[1] * scale[1] / z[0]]
    bow = [background.bow[0]]
    for j in range(1, trie.order):
        bow.append(background.bow[j] * z[j - 1][trie.back[j]] / z[j])
        p.append(sweeps.scaled(trie.begin[j + 1], background.p[j + 1], scale[j + 1], z[j]))
    return NgramModel(background.vocab, trie, p, bow)


def onto(model: NgramModel, vocab: Vocabulary, role: str) -> NgramModel:
    """The model over the background's vocabulary. Words that it lacks have probability 0 in it; words of its own are refused."""
    joined, ids = join_vocabularies([vocab, model.vocab])
    if len(joined) > len(vocab):
        more = [joined.word(i) for i in range(len(vocab), min(len(joined), len(vocab) + 5))]
        raise MdiError(
            f"{role} has {len(joined) - len(vocab):,} words that the background lacks, such as {examples(more)}; "
            f"build it over the background's vocabulary (mdi train --vocab)"
        )
    return relabel(model, vocab, ids[1])


def adapt(
    background: NgramModel,
    text: str | list[str] | Counts,
    min_counts: str = "2",
    *,
    oov: str = "map",
    targets: str | NgramModel = "ml",
    history: NgramModel | None = None,
    solver: str = "partition",
    tolerance: float = 1e-3,
    max_iters: int = 200,
    sigma2: float | None = None,
    start: dict[str, float] | None = None,
    threads: int = 2,
    report: Callable[[Step], None] | None = None,
) -> Adapted:
    """Adapts a background model so that it meets the marginals of in-domain text and stays closest to itself in KL.

    `text`: a file or files, one sentence a line, or ready counts over the background's vocabulary. `targets`: "ml" (relative
    frequencies), "smoothed" (marginals of an interpolated Kneser-Ney model of the same text) or those of any model. `history`:
    p~(h) by this back-off model instead of by the text. `start`: lambda by n-gram, from an earlier adaptation.
    """
    if isinstance(targets, NgramModel):
        targets = onto(targets, background.vocab, "the model that gives the targets")
    if history is not None:
        history = onto(history, background.vocab, "the model that gives the histories")
    order = max(background.order, targets.order if isinstance(targets, NgramModel) else 1)
    if not isinstance(text, Counts):
        text = count_text([text] if isinstance(text, str) else text, background.vocab, order, oov)
    if targets == "smoothed":
        targets = estimate(text, "kn-interpolated", [1] * text.order).model
    thresholds = selecting.parse_thresholds(min_counts, background.order)
    problem = pose(
        background, text, thresholds, targets=None if isinstance(targets, str) else targets, history=history, threads=threads
    )  # fmt: skip
    solution = solve(
        problem.dual,
        problem.target,
        solver=solver,
        tolerance=tolerance,
        max_iters=max_iters,
        sigma2=sigma2,
        events=problem.events,
        start=problem.dual.mu_of(problem.lam_from(start)) if start else None,
        report=report,
    )
    return finish(problem, solution)


def finish(problem: Problem, solution: Solution) -> Adapted:
    before = problem.dual.marginals(problem.dual.evaluate(np.zeros(problem.constraints.total)).cells)
    model = adapted_model(problem.background, problem.constraints, solution.mu)
    return Adapted(model, problem, solution, problem.dual.lam_of(solution.mu), before)
