"""A small model with the marginals of a large one."""

import os

import numpy as np

from mdi.adaptation import constraints as selecting
from mdi.adaptation.adapted import Adapted
from mdi.adaptation.constraints import Constraints, Dropped
from mdi.adaptation.dual import Dual
from mdi.adaptation.history import History
from mdi.adaptation.problem import Problem, model_marginals, onto
from mdi.adaptation.solver import USUAL, SolverSettings
from mdi.errors import check_choice
from mdi.fst.given import ModelLike, as_model
from mdi.lm.counts import Counts, count_text, over_words
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.new_words import CHOICES, NewWords, may_be_added
from mdi.lm.normalise import check_normalised
from mdi.lm.text import TextLike
from mdi.lm.trie import NONE, locate


def match(
    small: ModelLike,
    large: ModelLike,
    text: TextLike | Counts,
    *,
    history: ModelLike | None = None,
    new_words: str = "map",
    settings: SolverSettings | None = USUAL,
    threads: int = 2,
    allow_unnormalized: bool = False,
) -> Adapted:
    """Adapts a small model so that all its n-grams keep the marginals that they have in a large one: better at the
    same size.

    The targets are Sigma_R of the large model over the history distribution of the text (or of the model `history`).
    The result has exactly the rows of `small`; if that is a pruned model, what closes its trie meanwhile is no
    constraint, so it stays what backing off gives and can go again.

    Parameters
    ----------
    small, large
        Models, what `adapt`, `match` or `tune` gives, or the files of models in any form that `load` reads.
    text, history, settings, threads, allow_unnormalized
        As of `adapt`.
    new_words
        Words of the large model that the small one lacks: "add" gives them the large one's probabilities first;
        otherwise they are refused. Words of the text that both lack: "map" to <unk>, "drop" with the n-grams around
        them, "error".

    Returns
    -------
    Adapted
    """
    check_choice("new_words", new_words, CHOICES)
    name = str(small) if isinstance(small, str | os.PathLike) else "the small model"
    small = as_model(small, "small", closed=False)
    check_normalised(name, small, allow_unnormalized)
    large = as_model(large, "large")
    added = words_of_large(small, large) if new_words == "add" else None
    if added is not None:
        small = added.added_to(small)
    large = onto(large, small.vocab, "the large model", ", or add them (--new-words add)")
    if history is not None:
        history = onto(as_model(history, "history"), small.vocab, "the model that gives the histories")
    if not isinstance(text, Counts):
        oov = "map" if new_words == "add" else new_words
        text = count_text(text, small.vocab, max(small.order, large.order), oov)
    elif not text.vocab.same_words(small.vocab):
        text = over_words(text, small.vocab)
    p_tilde = History(text, history)
    whole = with_suffixes(small)
    trie, mass = whole.trie, p_tilde.on(whole.trie)
    own = locate(small.trie, trie)
    rows = Constraints([NONE, *(own[k][small.p[k] > 0] for k in range(1, small.order + 1))])
    dropped = Dropped()
    while True:
        dual = Dual(whole, mass, rows, threads, p_tilde.cuts)
        cells = dual.evaluate(np.zeros(rows.total)).cells
        lost = selecting.impossible(dual.parent, selecting.reaches(rows, trie, mass), cells)
        if not dropped.note(selecting.IMPOSSIBLE, lost):
            target = model_marginals(large, trie, rows, p_tilde, threads)
            lost = dual.cell_targets(target) <= selecting.ROUNDING * target
            if not dropped.note(selecting.NO_TARGET, lost):
                break
        rows = rows.keep(~lost)
    keep = None if whole is small else trie.flags(own)
    count = p_tilde.events * target
    problem = Problem(
        "all", whole, rows, rows, target, count, dual, dual.marginals(cells), p_tilde.events, dropped, keep
    )
    solution = problem.solve(settings)
    return Adapted(problem, solution, added)


def words_of_large(small: NgramModel, large: NgramModel) -> NewWords | None:
    """Those that only the large one has, as likely as there."""
    lacking = np.flatnonzero(small.vocab.ids_of(large.vocab) < 0)
    new = [i for i in lacking.tolist() if may_be_added(large.vocab.word(i)) and large.p[1][i] > 0]
    return NewWords([large.vocab.word(i) for i in new], large.p[1][new]) if new else None
