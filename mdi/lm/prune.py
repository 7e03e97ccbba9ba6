"""Relative-entropy pruning (Stolcke 1998), n-gram for n-gram as SRILM's `ngram -prune` does it.

Each n-gram beyond the 1-grams has a loss: by how much the model's perplexity rises, relatively, if it alone is left
out. It goes if that is below the threshold, unless something that stays needs it:

    need(hw)  = max(loss(hw), need of hw as a history)
    need of h = max over its n-grams hw of need(hw), and over the longer histories xh of the need of xh

All losses are those of the whole model, so one pass gives every n-gram the threshold up to which it stays: smaller
thresholds keep all that larger ones do, and the threshold for a given size is the need at that rank. The histories of
what stays always stay (arpa2fst and const-arpa want them); suffixes need not.
"""

from collections.abc import Iterator

import numpy as np

from mdi.errors import MdiError, check_positive
from mdi.kernels import normalise as kernels
from mdi.lm.model import NgramModel, first_orders, with_suffixes
from mdi.lm.normalise import weighted
from mdi.lm.trie import NONE, Array, blocks, locate, scattered
from mdi.threads import each_in_threads


def history_probs(model: NgramModel) -> list[Array]:
    """p(h) of each history by the model itself, p(w1) p(w2|w1) ..; <s> begins as often as </s> is predicted."""
    trie, vocab = model.trie, model.vocab
    first = model.p[1].copy()
    first[vocab.bos] = first[vocab.eos]
    row_prob, probs = first, [np.ones(1)]
    for j in range(1, model.order):
        if j > 1:
            row_prob = np.repeat(probs[j - 1], np.diff(trie.begin[j]))
            row_prob *= model.p[j]
        probs.append(scattered(row_prob, trie.as_hist[j]))
    return probs


def needs(model: NgramModel, threshold: float | None = None) -> list[Array]:
    """need[k][r] of each n-gram: it stays under every threshold up to that. Infinite for 1-grams. Or only whether it is
    at least the threshold, which takes an eighth of the memory."""
    return [NONE, *reversed(list(_needs(model, threshold)))]


def _needs(model: NgramModel, threshold: float | None) -> Iterator[Array]:
    """The same from the highest order down; what is not kept of one order is gone before the next."""
    whole = with_suffixes(model)
    trie = whole.trie
    where = None if whole is model else locate(model.trie, trie)
    hist_prob = history_probs(whole)
    by_hist = NONE  # need of the histories of length k; none is as long as the highest order
    for k in range(trie.order, 1, -1):
        known = np.zeros(0, bool)
        if where is not None:
            known = np.zeros(trie.rows(k), bool)
            known[where[k]] = True
        shorter = hist_prob.pop()  # p(h) becomes the need of h
        found = _needs_of_order(whole, k, known, by_hist, shorter, threshold)
        if k < trie.order:
            kernels.raise_to(trie.back[k], by_hist, shorter)
        by_hist = shorter
        del shorter
        yield found if where is None else found[where[k]]
        del found
    yield np.full(model.trie.n_words, np.inf if threshold is None else True)


def _needs_of_order(
    model: NgramModel, k: int, known: Array, by_hist: Array, shorter: Array, threshold: float | None
) -> Array:
    """need[r] of the rows of order k, or whether it is at least the threshold. `shorter` is p(h) of their histories
    and becomes the most that a row of h needs."""
    trie = model.trie
    found = np.empty(trie.rows(k), float if threshold is None else bool)

    def look(block: tuple[int, int]) -> None:
        rows, level = model.level_block(k, *block)
        need = kernels.pruning_losses(level, known[rows], shorter[slice(*block)])
        if k < trie.order:
            np.maximum(need, by_hist[trie.as_hist[k][rows]], out=need)
        kernels.row_maxima(level.trie.begin, need, shorter[slice(*block)])
        found[rows] = need if threshold is None else need >= threshold

    each_in_threads(look, blocks(trie.begin[k]))
    return found


def threshold_for(need: list[Array], most: int) -> float:
    """The smallest threshold that leaves at most so many n-grams."""
    pool = np.sort(np.concatenate(need[1:]))
    fixed = int(np.isinf(pool).sum())
    if most < fixed:
        raise MdiError(
            f"at most {most:,} n-grams asked for, but {fixed:,} always stay, the words among them; expected no fewer"
        )
    if most >= len(pool):
        return 0.0
    return float(np.nextafter(max(pool[len(pool) - most - 1], 0.0), np.inf))


def mark_pruned(
    model: NgramModel, threshold: float, *, need: list[Array] | None = None
) -> tuple[NgramModel, list[Array]]:
    """The pruned model with all rows on which it is closed, and flags of those that are its own. It takes the arrays of
    the model, which has no weights any more."""
    check_positive("threshold", threshold, "a number of 0 or more, such as 1e-8", zero=True)
    if threshold == 0.0:
        keep = [NONE, *(np.ones(model.trie.rows(k), bool) for k in range(1, model.order + 1))]
    else:
        keep = needs(model, threshold) if need is None else [part >= threshold for part in need]
    order = max(k for k in range(1, model.order + 1) if keep[k].any())
    whole = with_suffixes(model)
    if whole is not model:
        where = locate(model.trie, whole.trie)
        keep = whole.trie.flags([NONE, *(where[k][keep[k]] for k in range(1, model.order + 1))])
    whole = first_orders(whole, order)
    model.bow.clear()
    whole.bow.clear()
    return weighted(whole.vocab, whole.trie, whole.p, keep), keep[: order + 1]
