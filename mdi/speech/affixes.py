"""Endings and beginnings of words, and how they are said: dog's as dog with Z, l'homme as L with homme.

They are read off the lexicon: of all words that are a known word with an ending, those after the same last phone say
mostly the same phones for it. How often they do so is how much the rule can be trusted. So no language is built in.
"""

from bisect import bisect_left
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
# Of endings with an apostrophe that so many words have, these are as sure without a rule. English has 've after vowels
# in its lexicons (I've), and says it after consonants as another word (would've).
LEAST_SHORT, CERTAIN_SHORT, SHORT_FOR = 3, 0.8, {"'ve": "of"}


@dataclass(frozen=True)
class Said:
    """A word from its parts."""

    parts: tuple[str, str]
    phones: Pronunciation
    certainty: float


def _cuts(word: str) -> Iterator[tuple[str, str, bool]]:
    """(stem, affix, whether the affix is an ending)"""
    for size in range(1, min(LONGEST_AFFIX, len(word) - 1) + 1):
        for stem, affix, ending in ((word[:-size], word[-size:], True), (word[size:], word[:size], False)):
            if _may_be(stem, affix, ending):
                yield stem, affix, ending


def _may_be(stem: str, affix: str, ending: bool) -> bool:
    return bool(stem.strip("'")) if "'" in affix else ending and len(stem) >= SHORTEST_STEM


def _tail(whole: Pronunciation, part: Pronunciation, ending: bool) -> Pronunciation | None:
    """What a pronunciation has beyond a part of it."""
    n = len(part)
    if ending:
        return whole[n:] if whole[:n] == part else None
    return (whole[len(whole) - n :] == part and whole[: len(whole) - n]) or (() if whole == part else None)


class Affixes:
    """The rules of a lexicon; what words it gets later are said by them, but change none."""

    def __init__(self, lexicon: Mapping[str, Sequence[Pronunciation]]) -> None:
        self.lexicon, self.words = lexicon, dict(lexicon.items())
        # by their beginnings, and from right to left by their endings
        self.sorted = {False: sorted(self.words), True: sorted(word[::-1] for word in self.words)}
        self.rules: dict[tuple[str, bool], dict[str, tuple[Pronunciation, float]]] = {}

    def rule(self, affix: str, ending: bool) -> dict[str, tuple[Pronunciation, float]]:
        """How an affix is said, and how surely, by the phone of the stem beside it."""
        if (affix, ending) not in self.rules:
            self.rules[affix, ending] = self._read_off(affix, ending)
        return self.rules[affix, ending]

    def _seen(self, affix: str, ending: bool) -> dict[str, Counter[Pronunciation | None]]:
        """How often known words say it so, by that phone; None: not as their stem with something beside it."""
        seen: dict[str, Counter[Pronunciation | None]] = defaultdict(Counter)
        words, size, begins = self.sorted[ending], len(affix), affix[::-1] if ending else affix
        for i in range(bisect_left(words, begins), len(words)):
            if not words[i].startswith(begins):
                break
            word = words[i][::-1] if ending else words[i]
            stem = word[:-size] if ending else word[size:]
            for known in self.words.get(stem, ())[:1] if _may_be(stem, affix, ending) else ():
                tails = (_tail(whole, known, ending) for whole in self.words[word])
                seen[known[-1 if ending else 0]][next((tail for tail in tails if tail is not None), None)] += 1
        return seen

    def _read_off(self, affix: str, ending: bool) -> dict[str, tuple[Pronunciation, float]]:
        rules = {}
        for phone, ways in self._seen(affix, ending).items():
            ((best, count),) = ways.most_common(1)
            share = count / (ways.total() + 1)
            if best is not None and count >= LEAST_WORDS and share >= (LEAST_APART if "'" in affix else LEAST_SHARE):
                rules[phone] = best, share
        return rules

    def say(self, word: str) -> list[Said]:
        """The word as a known one with an ending or a beginning, the most trusted rule first, with each pronunciation
        of the known word."""
        found = []
        for stem, affix, ending in _cuts(word):
            for i, known in enumerate(self.lexicon.get(stem, ())):
                if rule := self.rule(affix, ending).get(known[-1 if ending else 0]):
                    phones = known + rule[0] if ending else rule[0] + known
                    parts = (stem, affix) if ending else (affix, stem)
                    found.append((-rule[1], i, Said(parts, phones, rule[1])))
        if not found:
            return self._shortened(word)
        best = min(found, key=lambda item: item[:2])[2].parts
        return [said for _, _, said in sorted(found, key=lambda item: item[:2]) if said.parts == best]

    def _shortened(self, word: str) -> list[Said]:
        """A known word with an ending that no rule is sure of, such as this'll or that'd: as it is said after the same
        phone first, then as after others."""
        stem, apostrophe, rest = word.partition("'")
        affix, ways = apostrophe + rest, self.lexicon.get(stem, ())
        tails, after = Counter[Pronunciation](), Counter[Pronunciation]()
        for phone, seen in self._seen(affix, True).items() if apostrophe and ways else ():
            said = Counter({tail: n for tail, n in seen.items() if tail})
            tails += said
            after += said if phone == ways[0][-1] else Counter()
        if tails.total() < LEAST_SHORT:
            return []
        ends = sorted(tails, key=lambda tail: (-after[tail], -tails[tail], tail))
        ends[1:1] = self.lexicon.get(SHORT_FOR.get(affix, ""), ())[:1]
        chained = sorted((i + j, way + end) for i, way in enumerate(ways) for j, end in enumerate(ends))
        return [Said((stem, affix), phones, CERTAIN_SHORT) for _, phones in chained]
