"""A language with a regular spelling, for tests: its words and how they are said by rule, so that a guess is right or
wrong. c is S before e and i, K elsewhere; sh is SH; x is K S; e is silent at the end; 's is Z after a vowel, else S."""

import random

from mdi.speech.lexicon import Lexicon

SYLLABLES = [a + v for a in ("b", "c", "d", "f", "k", "l", "m", "n", "r", "s", "sh", "t", "x") for v in "aeiou"]
VOWELS = {"a": "AA", "e": "EH", "i": "IY", "o": "OW", "u": "UW"}


def say(word: str) -> tuple[str, ...]:
    if word.endswith("'s"):
        stem = say(word[:-2])
        return (*stem, "Z" if stem[-1] in VOWELS.values() else "S")
    phones: list[str] = []
    i = 0
    while i < len(word):
        letter = word[i]
        if word[i : i + 2] == "sh":
            phones.append("SH")
            i += 1
        elif letter == "c":
            phones.append("S" if word[i + 1 : i + 2] in ("e", "i") else "K")
        elif letter == "x":
            phones += ["K", "S"]
        elif letter == "e" and i == len(word) - 1 and len(phones) > 1:
            pass
        else:
            phones.append(VOWELS.get(letter, letter.upper()))
        i += 1
    return tuple(phones)


def words(n: int, seed: int = 1) -> list[str]:
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        found[
            "".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) + chance.choice(["", "n", "t", "ne", "te"])
        ] = None
    return list(found)


def lexicon(n: int = 1500, seed: int = 1) -> Lexicon:
    """Words, some with 's, and the letters one by one."""
    some = words(n, seed)
    some += [f"{word}'s" for word in some[: n // 4]]
    said = {word: [say(word)] for word in some}
    said |= {f"{x}.": [(x.upper(), "IY")] for x in "bcdfklmnrst"} | {f"{x}.": [(VOWELS[x], "Y")] for x in VOWELS}
    return Lexicon(said)
