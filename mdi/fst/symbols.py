"""words.txt: Kaldi's table of words and their integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdi.errors import MdiError
from mdi.files import read_lines
from mdi.lm.vocabulary import Vocabulary, to_str

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
    ids: dict[str, int] = {}
    taken: dict[int, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = to_str(line).split()
        if not fields:
            continue
        if len(fields) != 2 or not fields[1].isdigit():
            raise MdiError(f"{path}:{number}: '{to_str(line)}'; expected a word and its number, such as 'hello 12'")
        word, i = fields[0], int(fields[1])
        if word in ids or i in taken:
            raise MdiError(
                f"{path}:{number}: the {'word ' + word if word in ids else f'number {i}'} stands twice; keep one"
            )
        ids[word], taken[i] = i, word
    if ids.get(EPSILON) != 0:
        raise MdiError(f"{path}: {EPSILON} is not 0; expected Kaldi's words.txt, which begins with '{EPSILON} 0'")
    return SymbolTable(path, ids)
