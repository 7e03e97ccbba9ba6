"""The part of a background that an adaptation looks at: all words, and all rows of the histories that the text has.

The dual sums over histories with mass, and those that they back off to, so it has the same value, the same gradient
and, as sums run in the same order, the same solution to the last bit on this part as on the whole. It is a proper
model: histories of which no row is wanted weigh 1, so everything sums to one.
"""

import numpy as np

from mdi.kernels.trie import map_histories
from mdi.lm.model import NgramModel, without
from mdi.lm.trie import NONE, Trie, locate


def active_part(model: NgramModel, counts: Trie) -> NgramModel:
    """The rows of those histories that have rows in `counts`, a closed trie over the same words."""
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
