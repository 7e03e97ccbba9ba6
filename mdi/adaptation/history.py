"""The history distribution p~(h), with its mass on histories of a trie.

The mass of a history stands for all full histories whose longest suffix in the trie it is: they have the same p(.|h)
and the same Z. So one array per length serves every kind of p~, and passes over the trie stay linear.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from mdi import room
from mdi.adaptation.constraints import Constraints
from mdi.adaptation.dual import Dual
from mdi.errors import MdiError
from mdi.kernels import model as kernels
from mdi.lm.counts import Counts, unextended
from mdi.lm.model import NgramModel, extended, first_orders
from mdi.lm.trie import NONE, Array, Trie, locate, lowest, with_histories, with_order

# The words are cut into so many blocks at most.
BLOCKS = 32


class History:
    """p~(h): of the in-domain text, or of a back-off model; asked for its mass on the histories of any trie."""

    def __init__(self, counts: Counts, model: NgramModel | None = None) -> None:
        self.counts, self.model = counts, model
        # An event belongs to the longest history that the text gives it: n - 1 words, or fewer after <s>.
        left = unextended(counts)
        self.ml = [kernels.row_sums(counts.trie.begin[k], np.maximum(left[k], 0.0)) for k in range(1, counts.order + 1)]
        self.events = float(sum(part.sum() for part in self.ml))
        if not self.events > 0:
            raise MdiError(
                "the in-domain counts have no events; expected text with words of the background's vocabulary"
            )

    @cached_property
    def cuts(self) -> Array:
        """Words at which the blocks of a dual begin, and the number of words: about equally many n-grams of the text in
        each. They depend on the text alone, so that sums are added in the same order wherever the model is."""
        trie = self.counts.trie
        weight = np.ones(trie.n_words, np.int64)
        for k in range(2, trie.order + 1):  # rows of the histories that end in a word, and these histories
            weight += np.diff(trie.begin[k][trie.first_hists(k - 1)])
            if k < trie.order:
                weight += np.bincount(trie.word[k], minlength=trie.n_words)
        total = np.cumsum(weight)
        inner = np.searchsorted(total, np.linspace(0, total[-1], BLOCKS + 1)[1:-1])
        return np.unique([0, *inner, trie.n_words])

    def on(self, trie: Trie) -> list[Array]:
        if self.model is not None:
            return move_mass(*smoothed_history(self.model, trie, self.counts.order - 1), trie)
        moved = move_mass(self.counts.trie, self.ml, trie)
        for part in moved:
            part /= self.events
        return moved


def smoothed_history(model: NgramModel, trie: Trie, longest: int) -> tuple[Trie, list[Array]]:
    """The paper's second way (its missing appendix): p~(w1 .. wm) = p~(w1) p~(w2|w1) ..., m = `longest`, by a back-off
    model.

    Strings grow word by word. A string whose longest suffix in the trie is r continues with w as r does: by the row
    rw, or by backing off; so the mass of the grown strings is the marginal of each row when every row is a cell of its
    own, which is one pass. <s> begins a string (as often as </s> is predicted) and a string that begins with <s> is a
    history at any length; </s> is never in one. The model is first given the histories of `trie`, so that none of them
    is merged with another.

    Returns (trie, mass by length) to be carried over with `move_mass`.
    """
    if longest == 0:
        return trie, [np.ones(1)]
    wide = extended(first_orders(model, longest), with_order(lowest(trie, min(longest, trie.order)), longest))
    wide = replace(wide, trie=with_histories(wide.trie))
    t, vocab = wide.trie, wide.vocab
    start = wide.p[1].copy()
    start[vocab.bos], start[vocab.eos] = start[vocab.eos], 0.0
    strings = [start]  # mass on the rows of order 1, 2, ...
    sentences = [np.where(np.arange(len(start)) == vocab.bos, start, 0.0)]
    total = [np.zeros(t.n_hist(j)) for j in range(longest + 1)]

    def add(part: list[Array]) -> None:
        for j, rows in enumerate(part, 1):
            total[j][t.as_hist[j]] += rows

    for _ in range(1, longest):
        add(sentences)
        strings, sentences = _grow(wide, strings), _grow(wide, sentences)
    add(strings)
    norm = sum(float(part.sum()) for part in total)
    return t, [part / norm for part in total]


def _grow(model: NgramModel, strings: list[Array]) -> list[Array]:
    """One word more: masses on the rows of orders 1 .. m become masses on those of orders 1 .. m + 1."""
    m = len(strings)
    part = first_orders(model, m + 1)
    t = part.trie
    mass = [np.zeros(t.n_hist(j)) for j in range(m + 1)]
    for j, rows in enumerate(strings, 1):
        mass[j][t.as_hist[j]] = rows
    every = Constraints([NONE, *(np.arange(t.rows(k), dtype=np.int32) for k in range(1, m + 2))])
    cells = Dual(part, mass, every).evaluate(np.zeros(every.total)).cells
    grown = every.by_order(np.maximum(cells, 0.0))[1:]
    for k, rows in enumerate(grown, 1):
        rows[t.word[k] == model.vocab.eos] = 0.0
    return grown


def move_mass(source: Trie, mass: list[Array], trie: Trie) -> list[Array]:
    """Carries mass from histories of one trie to those of another (same words): each to its longest suffix that is
    there."""
    where = locate(source, trie)
    moved = [room.zeros(trie.n_hist(j)) for j in range(trie.order)]
    here = mass[-1]
    for j in range(len(mass) - 1, 0, -1):
        rows = np.full(source.n_hist(j), -1, np.int32)
        if j < trie.order:
            rows[source.as_hist[j]] = where[j]
        found = rows >= 0
        if found.any():
            moved[j][trie.as_hist[j][rows[found]]] = here[found]
        shorter = mass[j - 1].copy()
        kernels.add_at(source.back[j][~found], here[~found], shorter)
        here = shorter
    moved[0] += here
    return moved
