"""Endings and beginnings of words, and how they are said: dog's as dog with Z, l'homme as L with homme.

They are read off the lexicon: of all words that are a known word with an ending, those after the same last phone say
mostly the same phones for it. How often they do so is how much the rule can be trusted. So no language is built in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mdi.speech.lexicon import Pronunciation

LONGEST_AFFIX = 4
# The least part of a word that is one by itself; before or after an apostrophe less will do.
SHORTEST_STEM = 4
# A rule is one if so many words follow it, and so much of those that could; of words with an apostrophe less will do.
# Weaker rules are right less often than G2P, and so are beginnings without an apostrophe, such as un-.
LEAST_WORDS, LEAST_SHARE, LEAST_APART = 5, 0.9, 0.7


@dataclass(frozen=True)
class Said:
    """A word from its parts."""

    parts: tuple[str, str]
    phones: Pronunciation
    certainty: float


def _cuts(word: str) -> Iterator[tuple[str, str, bool]]:
    """(stem, affix, whether the affix is an ending)"""
    apart = "'" in word
    for size in range(1, min(LONGEST_AFFIX, len(word) - 1) + 1):
        at = len(word) - size
        if apart:
            for stem, affix, ending in ((word[:at], word[at:], True), (word[size:], word[:size], False)):
                if "'" in affix and stem.strip("'"):
                    yield stem, affix, ending
        if at >= SHORTEST_STEM and not (apart and "'" in word[at:]):
            yield word[:at], word[at:], True


def _tail(whole: Pronunciation, part: Pronunciation, ending: bool) -> Pronunciation | None:
    """What a pronunciation has beyond a part of it."""
    n = len(part)
    if ending:
        return whole[n:] if whole[:n] == part else None
    return (whole[len(whole) - n :] == part and whole[: len(whole) - n]) or (() if whole == part else None)


class Affixes:
    """The rules of a lexicon: (affix, whether it is an ending, the phone of the stem beside it) -> how it is said."""

    def __init__(self, lexicon: Mapping[str, Sequence[Pronunciation]]) -> None:
        self.lexicon = lexicon
        seen: dict[tuple[str, bool, str], Counter[Pronunciation | None]] = defaultdict(Counter)
        words = dict(lexicon.items())
        for word, said in words.items():
            for stem, affix, ending in _cuts(word):
                for known in words.get(stem, ())[:1]:
                    tails = [tail for whole in said if (tail := _tail(whole, known, ending)) is not None]
                    seen[affix, ending, known[-1 if ending else 0]][tails[0] if tails else None] += 1
        self.rules: dict[tuple[str, bool, str], tuple[Pronunciation, float]] = {}
        for key, ways in seen.items():
            ((best, count),) = ways.most_common(1)
            share = count / (ways.total() + 1)
            least = LEAST_APART if "'" in key[0] else LEAST_SHARE
            if best is not None and count >= LEAST_WORDS and share >= least:
                self.rules[key] = best, share

    def say(self, word: str) -> list[Said]:
        """The word as a known one with an ending or a beginning, the most trusted rule first, with each pronunciation
        of the known word."""
        found = []
        for stem, affix, ending in _cuts(word):
            for i, known in enumerate(self.lexicon.get(stem, ())):
                if rule := self.rules.get((affix, ending, known[-1 if ending else 0])):
                    phones = known + rule[0] if ending else rule[0] + known
                    parts = (stem, affix) if ending else (affix, stem)
                    found.append((-rule[1], i, Said(parts, phones, rule[1])))
        if not found:
            return []
        best = min(found, key=lambda item: item[:2])[2].parts
        return [said for _, _, said in sorted(found, key=lambda item: item[:2]) if said.parts == best]
