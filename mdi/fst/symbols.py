"""words.txt: Kaldi's table of words and their integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdi.errors import MdiError
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, Vocabulary, read_word_file

EPSILON, DISAMBIGUATION = "<eps>", "#0"


@dataclass(frozen=True)
class SymbolTable:
    path: str
    ids: dict[str, int]

    @cached_property
    def words(self) -> dict[int, str]:
        return {i: word for word, i in self.ids.items()}

    def spell(self, labels: list[int] | np.ndarray) -> list[str]:
        try:
            return [self.words[int(i)] for i in labels]
        except KeyError as error:
            raise MdiError(
                f"{self.path}: no word has the number {error}; expected the table that the lattices were made with"
            ) from None

    def require(self, word: str) -> int:
        if word not in self.ids:
            raise MdiError(
                f"{self.path}: no symbol {word}; expected it in Kaldi's words.txt. Make the table with "
                f"utils/prepare_lang.sh"
            )
        return self.ids[word]

    def labels_of(self, vocab: Vocabulary) -> np.ndarray:
        """The number of each word of a model, -1 where the table lacks it."""
        return np.array([self.ids.get(word, -1) for word in vocab.words], np.int32)

    def words_of(self, vocab: Vocabulary, size: int) -> np.ndarray:
        """The inverse, for numbers below `size`: the model's word; where it lacks the word its <unk>, or -1 without
        one."""
        table = np.full(size, vocab.unk, np.int32)
        for word, i in self.ids.items():
            if i < size:
                known = vocab.id(word)
                table[i] = known if known >= 0 else vocab.unk
        return table


def read_symbols(path: str) -> SymbolTable:
    words, numbers = read_word_file(path)
    if numbers is None:
        raise MdiError(
            f"{path}: a list of words without numbers; expected Kaldi's words.txt, a word and its number per line"
        )
    ids = dict(zip(words, numbers, strict=True))
    if ids.get(EPSILON) != 0:
        raise MdiError(f"{path}: {EPSILON} is not 0; expected Kaldi's words.txt, which begins with '{EPSILON} 0'")
    return SymbolTable(path, ids)


def make_symbols(words: list[str], path: str = "words.txt") -> SymbolTable:
    """A table of words in Kaldi's order, with the symbols that its tools expect."""
    special = {EPSILON, DISAMBIGUATION, BOS, EOS, UNKNOWN[0]}
    names = [EPSILON, *sorted(set(words) - special), UNKNOWN[0], DISAMBIGUATION, BOS, EOS]
    return SymbolTable(path, {word: i for i, word in enumerate(names)})
