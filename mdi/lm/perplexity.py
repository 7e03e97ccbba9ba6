"""Perplexity, with every token accounted for."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mdi.kernels.perplexity import score_tokens
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.text import Text, TextLike, TextStats
from mdi.lm.trie import Array
from mdi.lm.vocabulary import UNKNOWN, WordsLike, given_words

if TYPE_CHECKING:
    import pandas


def token_probs(model: NgramModel, ids: Array) -> tuple[Array, Array]:
    """(probability, order of the n-gram used) of each token; order 0 for <s> and for words that the model does not
    know."""
    prob, used = np.empty(len(ids)), np.empty(len(ids), np.int8)
    score_tokens(ids, model.arrays(), prob, used)
    return prob, used


@dataclass(repr=False)
class Perplexity:
    """Sums over a text. `log_prob` is natural and leaves out zero probabilities and words without <unk>, as SRILM does.

    `oov` counts the words outside the vocabulary: scored as <unk> where the model has one (`unk_scored`), skipped
    otherwise. `listed` tokens, with a probability each, are words of a list that was given.
    """

    sentences: int = 0
    words: int = 0
    oov: int = 0
    zero: int = 0
    log_prob: float = 0.0
    unk_scored: bool = False
    log_prob_unk: float = 0.0
    unk_tokens: int = 0
    listed: int | None = None
    log_prob_listed: float = 0.0

    def _ppl(self, log_prob: float, tokens: int) -> float:
        return math.exp(-log_prob / tokens) if tokens > 0 else math.nan

    @property
    def scored(self) -> int:
        """Words that have a probability, without </s>."""
        return self.words - self.zero - (0 if self.unk_scored else self.oov)

    @property
    def ppl(self) -> float:
        """SRILM's ppl: with </s>; OOVs as <unk> where the model has one."""
        return self._ppl(self.log_prob, self.scored + self.sentences)

    @property
    def ppl1(self) -> float:
        """SRILM's ppl1: the same log probability spread over the words alone, without </s>."""
        return self._ppl(self.log_prob, self.scored)

    @property
    def ppl_without_oov(self) -> float:
        """KenLM's "excluding OOVs": tokens that are <unk> to the model do not count."""
        return self._ppl(self.log_prob - self.log_prob_unk, self.scored + self.sentences - self.unk_tokens)

    @property
    def ppl_listed(self) -> float:
        """Of the words of the list alone, each after its own history."""
        return self._ppl(self.log_prob_listed, self.listed or 0)

    def __repr__(self) -> str:
        how = "as <unk>" if self.unk_scored else "skipped"
        return f"<Perplexity {self.ppl:.5g} of {self.words:,} words, {self.oov:,} outside the vocabulary ({how})>"

    @property
    def log10_prob(self) -> float:
        return self.log_prob / math.log(10.0)

    def add(self, model: NgramModel, ids: Array, prob: Array, used: Array, listed: Array | None = None) -> None:
        """`listed`: ids of words that are summed up by themselves, too."""
        seen = prob > 0
        if listed is not None:
            own = seen & np.isin(ids, listed)
            self.listed = (self.listed or 0) + int(own.sum())
            self.log_prob_listed += float(np.log(prob[own]).sum())
        self.log_prob += float(np.log(prob[seen]).sum())
        self.zero += int((~seen & (used > 0)).sum())
        unk = seen & (ids == model.vocab.unk)
        self.unk_tokens += int(unk.sum())
        self.log_prob_unk += float(np.log(prob[unk]).sum())

    def srilm_lines(self) -> list[str]:
        """The two lines of SRILM's `ngram -ppl`, to whom a word that is scored as <unk> is no OOV."""
        skipped = 0 if self.unk_scored else self.oov
        ppl, ppl1 = ("undefined" if math.isnan(value) else f"{value:.7g}" for value in (self.ppl, self.ppl1))
        return [
            f"{self.sentences} sentences, {self.words} words, {skipped} OOVs",
            f"{self.zero} zeroprobs, logprob= {self.log10_prob:.7g} ppl= {ppl} ppl1= {ppl1}",
        ]

    def as_dict(self) -> dict[str, float | int | bool | None]:
        """For JSON, which has no NaN: a perplexity of no tokens is None."""
        ppls = {"ppl": self.ppl, "ppl1": self.ppl1, "ppl_without_oov": self.ppl_without_oov}
        ppls |= {} if self.listed is None else {"ppl_listed": self.ppl_listed}
        return {
            "sentences": self.sentences,
            "words": self.words,
            "oov": self.oov,
            "oov_scored_as_unk": self.unk_scored,
            "zeroprobs": self.zero,
            "log10_prob": self.log10_prob,
            **{name: None if math.isnan(value) else value for name, value in ppls.items()},
            **({} if self.listed is None else {"listed": self.listed}),
        }


@dataclass(frozen=True)
class Sentence:
    """One line of text: ids from <s> to </s>, -1 for a word that is skipped, and what `token_probs` says of each."""

    ids: Array
    prob: Array
    used: Array

    def perplexity(self, model: NgramModel) -> Perplexity:
        total = Perplexity(1, len(self.ids) - 2, int((self.ids < 0).sum()), unk_scored=model.vocab.unk >= 0)
        total.add(model, self.ids, self.prob, self.used)
        return total

    def srilm_words(self, model: NgramModel) -> Iterator[str]:
        """A line for each word as in `ngram -ppl -debug 2`."""
        shown = [model.vocab.word(w) if w >= 0 else UNKNOWN[0] for w in self.ids.tolist()]
        for i in range(1, len(shown)):
            prob, order = float(self.prob[i]), int(self.used[i])
            log10 = math.log10(prob) if prob > 0 else -math.inf
            before = shown[i - 1] + (" ..." if i > 1 else " ")
            yield f"\tp( {shown[i]} | {before}) \t= [{f'{order}gram' if order else 'OOV'}] {prob:.7g} [ {log10:.7g} ]"


def perplexity_of(
    model: NgramModel,
    blocks: Iterable[Array],
    stats: TextStats,
    each: Callable[[Sentence], None] | None = None,
    unk_scored: bool = True,
    listed: Array | None = None,
) -> Perplexity:
    """Perplexity of blocks of sentences; `stats` must be complete once they are. `each` is called with every
    sentence, `listed` are ids of words that are looked at by themselves."""
    total = Perplexity(unk_scored=unk_scored and model.vocab.unk >= 0)
    for ids in blocks:
        prob, used = token_probs(model, ids)
        total.add(model, ids, prob, used, listed)
        if each:
            begins = np.flatnonzero(ids == model.vocab.bos)
            for begin, end in zip(begins, [*begins[1:], len(ids)], strict=True):
                each(Sentence(ids[begin:end], prob[begin:end], used[begin:end]))
    total.sentences, total.words, total.oov = stats.sentences, stats.words, stats.oov
    return total


def perplexity(
    model: NgramModel,
    text: TextLike,
    *,
    oov: str = "map",
    words: WordsLike | None = None,
    each: Callable[[Sentence], None] | None = None,
) -> Perplexity:
    """Perplexity of a text under a model: see `mdi.perplexity`, which takes the file of one too."""
    source = Text(text, model.vocab, oov)
    listed = None if words is None else np.setdiff1d(model.vocab.ids(given_words("words", words)), [-1])
    return perplexity_of(with_suffixes(model), source, source.stats, each, source.oov == "map", listed)


def word_table(model: NgramModel, text: TextLike, *, oov: str = "map") -> "pandas.DataFrame":
    """Every predicted word of a text: sentence (from 0), position in it, word, order of the n-gram that gave its
    probability (0: outside the vocabulary, and skipped), probability, log10 of it."""
    import pandas

    found: list[Sentence] = []
    perplexity(model, text, oov=oov, each=found.append)
    rows = [
        (s, i, model.vocab.word(w) if w >= 0 else UNKNOWN[0], order, p)
        for s, one in enumerate(found)
        for i, (w, order, p) in enumerate(zip(*(part.tolist() for part in (one.ids, one.used, one.prob)), strict=True))
        if i > 0
    ]
    table = pandas.DataFrame(rows, columns=["sentence", "position", "word", "order", "p"])
    with np.errstate(divide="ignore"):
        table["log10_p"] = np.log10(table["p"])
    return table
