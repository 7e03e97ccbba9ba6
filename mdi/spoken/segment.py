"""Text that is written without blanks, cut into words of a vocabulary: the path of the highest unigram probability."""

import re
from itertools import pairwise

import numpy as np

from mdi.kernels import segment as kernels
from mdi.lm.vocabulary import Vocabulary, to_bytes

# The cost, -ln p, of a letter that is no word: dearer than any word of a model.
_UNKNOWN = 50.0
# Letters of a regular expression: Han, Kana, Hangul, Thai, Lao, Burmese, Khmer.
UNSPACED = "\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3041-\u30ff\uac00-\ud7a3\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u109f"
UNSPACED += "\u1780-\u17d3"
_UNSPACED = re.compile(f"[{UNSPACED}]+")


def unspaced(token: str) -> bool:
    """Whether all of it is in scripts that are written without blanks, or, as Korean, with fewer than words."""
    return _UNSPACED.fullmatch(token) is not None


class Segmenter:
    """`p`: the unigram probability of each word; equal ones make for the fewest words."""

    def __init__(self, vocab: Vocabulary, p: np.ndarray) -> None:
        with np.errstate(divide="ignore"):
            cost = -np.log(p)
        self.vocab, self.cost = vocab, np.where(cost < _UNKNOWN, cost, np.inf)
        self.longest = max(map(len, vocab.words), default=1)

    def __call__(self, token: str) -> list[str]:
        """Letters that belong to no word stay together."""
        begin = np.cumsum([0, *(len(to_bytes(c)) for c in token)])
        data = np.frombuffer(to_bytes(token), np.uint8)
        cuts = kernels.best_words(data, begin, self.vocab.arrays, self.cost, self.longest, _UNKNOWN)
        words: list[str] = []
        lost = False
        for i, j in pairwise([*cuts.tolist(), len(token)]):
            piece = token[i:j]
            known = j > i + 1 or self._is_word(piece)
            if lost and not known:
                words[-1] += piece
            else:
                words.append(piece)
            lost = not known
        return words

    def _is_word(self, letter: str) -> bool:
        found = self.vocab.id(letter)
        return found >= 0 and bool(np.isfinite(self.cost[found]))
