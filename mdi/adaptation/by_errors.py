"""Choosing by word errors: what a mixture of models would leave of them in n-best lists of development recordings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.n_best import Choice, NBestLists
from mdi.lm.perplexity import token_probs
from mdi.lm.trie import Array
from mdi.lm.vocabulary import Vocabulary

# Shares of a mixture that are moved from one model to another, as long as that lowers the expected errors by so much.
_MOVES, _WORTHWHILE = (0.2, 0.1, 0.05), 1e-3


@dataclass(frozen=True)
class Judge:
    """The tokens of the lists, and the probabilities that the models have for them which all mixtures share."""

    lists: NBestLists
    tokens: Array
    others: list[Array]

    def probs(self, model: NgramModel) -> list[Array]:
        """Of this model, and of the others."""
        return [token_probs(with_suffixes(model), self.tokens)[0], *self.others]

    def choose(self, probs: Sequence[Array], weights: Sequence[float] | Array) -> Choice:
        """The LM weight of the least expected errors, of a mixture."""
        return self.lists.choose(self.lists.costs(np.asarray(weights) @ np.array(probs)))

    def mixture(self, probs: Sequence[Array], weights: Sequence[float]) -> tuple[list[float], Choice]:
        """Weights near these that leave fewer errors, where there are some."""
        best, choice = list(weights), self.choose(probs, weights)
        for share in _MOVES:
            moved = True
            while moved:
                moved = False
                for i in range(len(best)):
                    for j in range(len(best)):
                        if i == j or best[i] < share:
                            continue
                        other = list(best)
                        other[i], other[j] = best[i] - share, best[j] + share
                        found = self.choose(probs, other)
                        if found.expected < choice.expected * (1 - _WORTHWHILE):
                            best, choice, moved = other, found, True
        return best, choice


def judge_of(lists: NBestLists, vocab: Vocabulary, others: Sequence[NgramModel]) -> Judge:
    tokens = lists.tokens(vocab)
    return Judge(lists, tokens, [token_probs(with_suffixes(model), tokens)[0] for model in others])
