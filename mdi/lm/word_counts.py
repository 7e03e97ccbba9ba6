"""How often each word of a text occurs, and the vocabulary that follows: in-domain words, then the commonest others."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mdi.errors import OptionError
from mdi.lm.text import SPECIAL, Text, TextLike
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, GrowingVocabulary, Vocabulary

NOT_WORDS = {BOS, EOS, *UNKNOWN, "<eps>", "#0"}


@dataclass(frozen=True)
class WordCounts:
    """count[i] of words[i]; the markers <s>, </s> and <unk> are left out."""

    words: list[str]
    count: np.ndarray

    @property
    def total(self) -> int:
        return int(self.count.sum())

    def commonest(self, least: int = 1) -> list[str]:
        """The words by falling count (as in the text where they are equal), those seen at least so often."""
        order = np.argsort(-self.count, kind="stable")
        return [self.words[i] for i in order.tolist() if self.count[i] >= least]


def count_words(text: TextLike) -> WordCounts:
    """One pass over the text by the compiled reader."""
    vocab = GrowingVocabulary(SPECIAL)
    counts = np.zeros(0, np.int64)
    for ids in Text(text, vocab):
        found = np.bincount(ids, minlength=max(len(counts), len(vocab)))
        found[: len(counts)] += counts
        counts = found
    words = vocab.freeze().words
    kept = [i for i, word in enumerate(words) if word not in NOT_WORDS]
    return WordCounts([words[i] for i in kept], counts[kept])


@dataclass(frozen=True)
class Coverage:
    """How much of a text a vocabulary knows."""

    words: int
    known: int
    missing: list[str]  # the commonest words that it lacks, by falling count

    @property
    def share(self) -> float:
        return self.known / max(1, self.words)


def coverage(counts: WordCounts, vocab: Vocabulary) -> Coverage:
    known = np.array([vocab.id(word) >= 0 for word in counts.words], bool)
    missing = WordCounts([word for word, has in zip(counts.words, known, strict=True) if not has], counts.count[~known])
    return Coverage(counts.total, int(counts.count[known].sum()), missing.commonest())


def choose_words(
    in_domain: WordCounts,
    background: WordCounts | None = None,
    *,
    base: Iterable[str] = (),
    size: int | None = None,
    min_count: int = 1,
) -> list[str]:
    """The words of `base`, then the in-domain ones seen at least `min_count` times, then the background's, both by
    falling count, `size` words at most. `base` is always kept whole."""
    if size is not None and size < 1:
        raise OptionError("size", size, "a positive number of words")
    chosen = dict.fromkeys(base)
    for counts, least in ((in_domain, min_count), (background, 1)):
        for word in counts.commonest(least) if counts is not None else ():
            if size is not None and len(chosen) >= size:
                return list(chosen)
            chosen[word] = None
    return list(chosen)
