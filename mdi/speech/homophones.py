"""Known words that sound alike, so that people can check phones whose names they do not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdi.speech.lexicon import Pronunciation


class Homophones:
    """Known words by how they sound; of several the shortest."""

    def __init__(self, lexicon: Mapping[str, Sequence[Pronunciation]]) -> None:
        self.words: dict[Pronunciation, str] = {}
        for word, said in lexicon.items():
            for phones in said:
                if (
                    word.isalpha()
                    and len(word) > 1
                    and (phones not in self.words or (len(word), word) < (len(self.words[phones]), self.words[phones]))
                ):
                    self.words[phones] = word
        self.longest = max(map(len, self.words), default=0)

    def of(self, phones: Pronunciation) -> str:
        """A known word, or the fewest known words that make these sounds one after the other; '' where none do."""
        n = len(phones)
        best: list[tuple[float, int] | None] = [(0.0, 0)] + [None] * n  # (cost, where the last word begins)
        for end in range(1, n + 1):
            for first in range(max(0, end - self.longest), end):
                before = best[first]
                if before is None or phones[first:end] not in self.words:
                    continue
                cost = before[0] + 1.0 + 1.0 / (end - first)  # few words, and none of a phone alone
                here = best[end]
                if here is None or cost < here[0]:
                    best[end] = cost, first
        if best[n] is None:
            return ""
        words: list[str] = []
        end = n
        while end:
            _, first = best[end] or (0.0, 0)
            words.insert(0, self.words[phones[first:end]])
            end = first
        return " ".join(words)
