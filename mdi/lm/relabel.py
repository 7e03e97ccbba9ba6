"""Models over one vocabulary: their words joined, their n-grams sorted anew."""

from __future__ import annotations

import numpy as np

from mdi.errors import MdiError
from mdi.lm.model import NgramModel
from mdi.lm.trie import NONE, Array, add_order, sort_rows, unigram_trie, with_histories
from mdi.lm.vocabulary import UNKNOWN, Vocabulary, vocabulary


def join_vocabularies(vocabs: list[Vocabulary]) -> tuple[Vocabulary, list[Array]]:
    """The words of the first vocabulary, then those that the others add, and each one's ids in the whole.

    Whatever a vocabulary calls its unknown word, <unk> or <UNK>, becomes the name that the first of them has for it.
    """
    number: dict[str, int] = {}
    unknown = next((vocab.word(vocab.unk) for vocab in vocabs if vocab.unk >= 0), UNKNOWN[0])
    ids = []
    for vocab in vocabs:
        words = vocab.words
        if vocab.unk >= 0 and words[vocab.unk] != unknown:
            if vocab.id(unknown) >= 0:
                raise MdiError(
                    f"a model has both {' and '.join(UNKNOWN)} where another has only {unknown}; "
                    f"expected one name for the unknown word. Rename or remove one of them"
                )
            words = words.copy()
            words[vocab.unk] = unknown
        ids.append(np.array([number.setdefault(word, len(number)) for word in words], np.int32))
    if len(number) == len(vocabs[0]):
        return vocabs[0], ids
    return vocabulary(number), ids


def relabel(model: NgramModel, vocab: Vocabulary, ids: Array) -> NgramModel:
    """The model over another vocabulary, word w becoming ids[w]. Words that it does not know have probability 0."""
    if len(ids) == len(vocab) and np.array_equal(ids, np.arange(len(ids))):
        return NgramModel(vocab, model.trie, model.p, model.bow)
    old, trie = model.trie, unigram_trie(len(vocab))
    unigram = np.zeros(len(vocab))
    unigram[ids] = model.p[1]
    p, bow, row = [NONE, unigram], [model.bow[0]], ids  # row[r]: what row r has become
    for k in range(2, old.order + 1):
        trie = with_histories(trie)
        hist = trie.as_hist[k - 1][row][old.row_of_hist[k - 1]]
        weight = np.ones(trie.rows(k - 1))
        weight[hist] = model.bow[k - 1]
        bow.append(weight)
        row_hist, row_word = np.repeat(hist, np.diff(old.begin[k])), ids[old.word[k]]
        begin, perm, _ = sort_rows(row_hist, row_word, trie.n_hist(k - 1))
        row = np.arange(len(row_word), dtype=np.int32)
        if perm is None:
            trie = add_order(trie, begin, row_word)
            p.append(model.p[k])
        else:
            row[perm] = np.arange(len(perm), dtype=np.int32)
            trie = add_order(trie, begin, row_word[perm])
            p.append(model.p[k][perm])
    return NgramModel(vocab, trie, p, bow)
