"""Known words that sound alike, so that people can check phones whose names they do not know."""

import math
from collections.abc import Mapping, Sequence

from mdi.speech.lexicon import Pronunciation
from mdi.spoken.sayable import is_of

# Each word of several costs as much as one that is e^4 times rarer, and a little more the fewer phones it has.
WORD_COST = 4.0


def homophones(
    wanted: Sequence[Pronunciation],
    lexicon: Mapping[str, Sequence[Pronunciation]],
    probability: Mapping[str, float] | None = None,
) -> list[str]:
    """For each pronunciation a known word, or a few known words that make these sounds one after the other; '' where
    none do. Of words that sound alike the most frequent one, of those that are said in few other ways; without
    `probability`, that of words in text, the shortest."""
    pieces = {way[i:k] for way in wanted for k in range(1, len(way) + 1) for i in range(k)}
    p = probability or {}
    least = min((value for value in p.values() if value > 0.0), default=1.0)
    words: dict[Pronunciation, tuple[float, int, str]] = {}  # cost, length, word
    for word, said in lexicon.items():
        for phones in said:
            if phones in pieces and is_of("LM", word) and len(word) > 1:
                entry = (math.log(len(said)) - math.log(max(p.get(word, 0.0), least)), len(word), word)
                words[phones] = min(entry, words.get(phones, entry))
    return [_in_words(way, words) for way in wanted]


def _in_words(phones: Pronunciation, words: Mapping[Pronunciation, tuple[float, int, str]]) -> str:
    best: list[tuple[float, list[str]] | None] = [(0.0, [])]  # by where the last word ends: (cost, words)
    for end in range(1, len(phones) + 1):
        ways = [
            (before[0] + word[0] + WORD_COST + 1.0 / (end - first), [*before[1], word[2]])
            for first, before in enumerate(best)
            if before and (word := words.get(phones[first:end]))
        ]
        best.append(min(ways, key=lambda way: way[0], default=None))
    return " ".join(best[-1][1]) if best[-1] else ""
