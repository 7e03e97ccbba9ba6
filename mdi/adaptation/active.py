"""The part of a background that an adaptation looks at: all words, and all rows of the histories that the text has.

The dual sums over histories with mass, and those that they back off to, so it has the same value, the same gradient
and, as sums run in the same order, the same solution to the last bit on this part as on the whole. It is a proper
model: histories of which no row is wanted weigh 1, so everything sums to one.
"""

from __future__ import annotations

import numpy as np

from mdi.kernels import active as kernels
from mdi.kernels import trie as tries
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, Trie, add_order, linked, unigram_trie, with_histories


def active_part(model: NgramModel, counts: Trie) -> NgramModel:
    """The rows of those histories that have rows in `counts`, a closed trie over the same words."""
    whole = model.trie
    part, p, bow = unigram_trie(whole.n_words), [NONE, model.p[1]], [model.bow[0]]
    in_part = in_whole = np.arange(whole.n_words, dtype=np.int32)  # what each row of `counts` is there, or -1
    for k in range(2, whole.order + 1):
        j, part = k - 1, with_histories(part)
        if k > counts.order:
            source, begin = np.full(part.rows(j), -1, np.int32), NONE
        else:
            begin = counts.begin[k]
            followed = np.flatnonzero(begin[1:] > begin[:-1])
            source = kernels.sources(
                counts.row_of_hist[j][followed], in_part, in_whole, part.rows(j), part.as_hist[j], whole.as_hist[j]
            )
        new_begin, word, suffix, row_p, weight = kernels.cut_level(
            source, model.level(k), whole.begin[j], part.back[j], part.begin[j]
        )
        part = add_order(part, new_begin, word, suffix)
        p.append(row_p)
        bow.append(weight)
        if k <= counts.order and k < whole.order:
            to_part = tries.map_histories(in_part, counts.as_hist[j], part.as_hist[j])
            to_whole = tries.map_histories(in_whole, counts.as_hist[j], whole.as_hist[j])
            in_whole = linked(counts.branches(k), to_whole, whole.branches(k))
            in_part = kernels.place_rows(begin, in_whole, to_part, to_whole, new_begin, whole.begin[k])
    return NgramModel(model.vocab, part, p, bow)
