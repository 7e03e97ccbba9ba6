"""Lists of the sequences of words that a recogniser weighed, and the errors that a language model would leave.

A sequence v of an utterance costs

    W lm(v) + P |v| + rest(v)        lm(v) = -ln p(v), with </s>; rest: what is acoustic, or of transitions

The least one is the answer. Errors of answers jump with W and P; what is expected under the shares of the likelihood,

    R = sum over utterances of  sum_v errors(v) exp(-cost(v) / W) / sum_v exp(-cost(v) / W)

is smooth, and a small development set is not over-fitted by it. This is the risk that minimum Bayes risk minimises; the
costs are divided by W as Kaldi does it (graph + acoustic / W), as a larger weight would otherwise gain by being larger:
it makes every choice surer, the wrong ones too.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mdi.errors import MdiError
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.perplexity import token_probs
from mdi.lm.trie import Array
from mdi.lm.vocabulary import Vocabulary

# Costs of a word that a model rules out: more than any other.
IMPOSSIBLE = 200.0
# The weights that are tried: coarsely, then around the best.
_WEIGHTS, _FINER = np.round(np.arange(0.4, 3.01, 0.2), 2).tolist(), (0.1, 0.05)


class Choice(NamedTuple):
    """A weight and a penalty, the errors expected under them, and those of the answers."""

    lm_weight: float
    word_penalty: float
    expected: float
    errors: int


@dataclass(frozen=True)
class NBestLists:
    """begin[u] .. begin[u + 1] are the sequences of utterance u; `errors` are against the reference, which has
    `reference_words` words."""

    utterances: list[str]
    begin: Array
    words: list[list[str]]
    rest: Array
    errors: Array
    reference_words: Array

    @property
    def lengths(self) -> Array:
        return np.array([len(words) for words in self.words], float)

    def tokens(self, vocab: Vocabulary) -> Array:
        """Every sequence as a sentence, one after the other."""
        known = {word: vocab.id(word) for word in {word for words in self.words for word in words}}
        known = {word: i if i >= 0 else vocab.unk for word, i in known.items()}
        bos, eos = vocab.bos, vocab.eos
        return np.array([i for words in self.words for i in (bos, *(known[word] for word in words), eos)], np.int32)

    def costs(self, probs: Array) -> Array:
        """lm(v) of every sequence, from the probabilities of `tokens`, those of <s> among them."""
        with np.errstate(divide="ignore"):
            cost = np.minimum(-np.log(probs), IMPOSSIBLE)
        size = self.lengths.astype(np.int64) + 2
        first = np.cumsum(size) - size
        cost[first] = 0.0
        return np.add.reduceat(cost, first)

    def lm_costs(self, model: NgramModel) -> Array:
        return self.costs(token_probs(with_suffixes(model), self.tokens(model.vocab))[0])

    def total(self, lm: Array, lm_weight: float, word_penalty: float) -> Array:
        return lm_weight * lm + word_penalty * self.lengths + self.rest

    def answers(self, lm: Array, lm_weight: float = 1.0, word_penalty: float = 0.0) -> Array:
        """The number of the best sequence of each utterance, the first one among equals."""
        total = self.total(lm, lm_weight, word_penalty)
        best = np.repeat(np.minimum.reduceat(total, self.begin[:-1]), np.diff(self.begin))
        at = np.where(total == best, np.arange(len(total)), len(total))
        return np.minimum.reduceat(at, self.begin[:-1])

    def expected(self, lm: Array, lm_weight: float = 1.0, word_penalty: float = 0.0) -> Array:
        """Errors of each utterance under the shares of the likelihood."""
        total, first = self.total(lm, lm_weight, word_penalty) / lm_weight, self.begin[:-1]
        best = np.repeat(np.minimum.reduceat(total, first), np.diff(self.begin))
        share = np.exp(best - total)
        return np.add.reduceat(share * self.errors, first) / np.add.reduceat(share, first)

    def choose(self, lm: Array, penalties: Sequence[float] = (0.0,)) -> Choice:
        """The weight of the least risk, with one of these penalties."""
        tried: dict[tuple[float, float], float] = {}

        def attempt(weights: Sequence[float]) -> tuple[float, float]:
            for point in itertools.product(weights, penalties):
                if point not in tried and point[0] > 0:
                    tried[point] = float(self.expected(lm, *point).sum())
            return min(tried, key=lambda point: tried[point])

        best = attempt(_WEIGHTS)
        for step in _FINER:
            best = attempt([round(best[0] - step, 2), round(best[0] + step, 2)])
        return Choice(*best, tried[best], int(self.errors[self.answers(lm, *best)].sum()))

    def part(self, utterances: Sequence[str]) -> "NBestLists":
        """Of these utterances, in their order."""
        where = {name: u for u, name in enumerate(self.utterances)}
        if lost := [name for name in utterances if name not in where]:
            raise MdiError(f"no list of sequences for utterance {lost[0]}; decode it with --n-best")
        picked = [where[name] for name in utterances]
        rows = np.concatenate([np.arange(self.begin[u], self.begin[u + 1]) for u in picked])
        begin = np.cumsum([0, *np.diff(self.begin)[picked]])
        words = [self.words[i] for i in rows.tolist()]
        return NBestLists(
            list(utterances), begin, words, self.rest[rows], self.errors[rows], self.reference_words[picked]
        )
