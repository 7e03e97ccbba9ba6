"""Known words that sound alike, so that people can check phones whose names they do not know."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mdi.speech.lexicon import Pronunciation

# Each word of several costs as much as one that is e^4 times rarer, and a little more the fewer phones it has.
WORD_COST = 4.0


class Homophones:
    """Known words by how they sound; of several the most frequent, of those that are said in few other ways. Without
    `probability`, that of words in text, the shortest."""

    def __init__(
        self, lexicon: Mapping[str, Sequence[Pronunciation]], probability: Mapping[str, float] | None = None
    ) -> None:
        p = probability or {}
        least = min((value for value in p.values() if value > 0.0), default=1.0)
        self.words: dict[Pronunciation, tuple[float, int, str]] = {}  # cost, length, word
        for word, said in lexicon.items():
            if word.isalpha() and len(word) > 1:
                entry = (math.log(len(said) or 1) - math.log(max(p.get(word, 0.0), least)), len(word), word)
                for phones in said:
                    if phones not in self.words or entry < self.words[phones]:
                        self.words[phones] = entry
        self.longest = max(map(len, self.words), default=0)

    def of(self, phones: Pronunciation) -> str:
        """A known word, or a few known words that make these sounds one after the other; '' where none do."""
        n = len(phones)
        best: list[tuple[float, int] | None] = [(0.0, 0)] + [None] * n  # (cost, where the last word begins)
        for end in range(1, n + 1):
            for first in range(max(0, end - self.longest), end):
                before, word = best[first], self.words.get(phones[first:end])
                if before is None or word is None:
                    continue
                cost = before[0] + word[0] + WORD_COST + 1.0 / (end - first)
                here = best[end]
                if here is None or cost < here[0]:
                    best[end] = cost, first
        if best[n] is None:
            return ""
        words: list[str] = []
        end = n
        while end:
            _, first = best[end] or (0.0, 0)
            words.insert(0, self.words[phones[first:end]][2])
            end = first
        return " ".join(words)
