"""How new words are said, word by word, in this order:

    given          as the user says, in phones or as known words (`sounds like`)
    known          the lexicon has it in another case
    numbers        read out, where there is somebody to read: 7th as seventh
    parts          words joined by - or _; known words with an ending or a beginning (mdi/speech/affixes.py); two known
                   words in one, if G2P says the same
    letters        U.S.A, FBI, dvd: a few capitals, or no letter in it that nearly every word has one of
    g2p            by the lexicon's own spelling

What cannot be said is left out, and the reason is told.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from mdi.errors import examples
from mdi.speech.affixes import Affixes
from mdi.speech.g2p import LONGEST_WORD, NO_WORDS, G2p, train_g2p
from mdi.speech.given import LONGEST, Given
from mdi.speech.homophones import homophones
from mdi.speech.lexicon import Lexicon, Pronunciation, joined, known_form
from mdi.spoken import english
from mdi.spoken.numbers import in_words, language_of
from mdi.spoken.sayable import is_of

# So many of G2P's pronunciations as hold this share of the probability, but no more than so many: a spelling that can
# be read in many ways has many, one that is clear has one.
SHARE, MOST = 0.8, 6
# Capitals up to so many are read one by one (CIA), and what cannot be read as a word up to so many.
SHORT_CAPITALS, LONGEST_LETTERS = 3, 6
# Three letters in a row can be read if so many words of a hundred thousand have them; this is asked of capitals alone,
# as names have odd letters too.
READABLE = 3.0
# Vowels are the letters, few of them, of which nearly every word has one; so many words tell.
MOST_VOWELS, HAVE_VOWELS, SOME_WORDS = 10, 0.99, 20_000
# Signs that are said, in English as these words; and those that join or end words.
_SIGNS = str.maketrans(english.SIGNS)
_SIGN = re.compile(f"[{re.escape(''.join(english.SIGNS))}]")
_JOINING = set("'’‘\"“”„«»._‐‑–/·-,;:!?()")
# Below it a pronunciation should be looked at, as one should that has passed over a sign.
UNCERTAIN, PASSED_OVER = 0.5, 0.4


@dataclass(frozen=True)
class Pronounced:
    """How a word is said. `how` names the way and what it began with; without `pronunciations` it cannot be said, and
    `how` says why. `sounds_like`: known words that sound like each pronunciation."""

    word: str
    pronunciations: tuple[Pronunciation, ...]
    how: str
    certainty: float
    sounds_like: tuple[str, ...] = ()


class Speaker:
    """Says words with the phones of a lexicon; what it needs of that is gathered once. `g2p`: None is learnt from the
    lexicon where it is needed. `given`: what the user says of words, no pronunciations for what to leave out."""

    def __init__(
        self, lexicon: Mapping[str, Sequence[Pronunciation]], g2p: G2p | None, given: Mapping[str, Sequence[Given]]
    ) -> None:
        self.lexicon = lexicon if isinstance(lexicon, Lexicon) else Lexicon({w: list(p) for w, p in lexicon.items()})
        self.given = given
        if g2p is not None:
            self.g2p = g2p
        self.affixes = Affixes(self.lexicon)
        self.known = self.affixes.words
        self.probability: Mapping[str, float] | None = None
        self.least = READABLE * len(self.lexicon) / 100_000
        self.vowels = _vowels(self.lexicon)
        self.has_case = any(word[:1].islower() for word in self.lexicon)  # so capitals mean something

    @cached_property
    def g2p(self) -> G2p:
        return train_g2p(self.lexicon)

    def told(self, given: Mapping[str, Sequence[Given]], probability: Mapping[str, float] | None) -> "Speaker":
        """The same, who knows what the user says. `probability`: of known words in text, so that frequent ones tell
        what others sound like."""
        other = copy(self)
        other.given, other.probability = given, probability
        return other

    def say(self, words: list[str]) -> list[Pronounced]:
        """How each word is said, with known words that sound like it."""
        said = [
            one
            if all(len(way) <= LONGEST for way in one.pronunciations)
            else Pronounced(one.word, (), f"cannot be said: over {LONGEST} phones; words have fewer", 0.0)
            for one in self._said(words)
        ]
        ways = [way for one in said for way in one.pronunciations]
        alike = dict(zip(ways, homophones(ways, self.known, self.probability), strict=True))
        return [
            replace(one, certainty=self._sure(one), sounds_like=tuple(alike[way] for way in one.pronunciations))
            for one in said
        ]

    def _sure(self, one: Pronounced) -> float:
        """Its certainty; not much where signs were passed over."""
        whole = one.how.startswith(("given", "sounds like", "known", "number"))
        return one.certainty if whole else min(one.certainty, _sure_of(self._with_signs(one.word)))

    def _said(self, words: list[str]) -> list[Pronounced]:
        found = [self._without_g2p(word) for word in words]
        left = [i for i, one in enumerate(found) if one is None]
        in_pieces = {i: pieces for i in left if len(pieces := self._pieces(words[i])) > 1}
        for i, pieces in in_pieces.items():
            found[i] = _chained(words[i], self._said(pieces))
        left = [i for i in left if i not in in_pieces]
        guesses = self.g2p.pronounce([_sayable(words[i]) for i in left], MOST) if left else []
        for i, guess in zip(left, guesses, strict=True):
            found[i] = self._by_g2p(words[i], guess)
        return [one for one in found if one is not None]

    def _without_g2p(self, word: str) -> Pronounced | None:
        """The word by other ways, or None where letters are all that is left."""
        if word in self.given:
            return self._as_given(word, self.given[word])
        if known := known_form(word, self.lexicon):
            return Pronounced(word, tuple(self.lexicon[known]), f"known: {known}", 1.0)
        if len(word) <= LONGEST_WORD and re.search(r"\d", word):
            return self._number(word)
        if problem := self._problem(word):
            return Pronounced(word, (), problem, 0.0)
        if made := self._parts(word):
            return made
        return None if _SIGN.search(word) and len(self._pieces(word)) > 1 else self._letters(word)

    def _as_given(self, word: str, given: Sequence[Given]) -> Pronounced:
        if not given:
            return Pronounced(word, (), "left out: no pronunciation is given", 0.0)
        like = dict.fromkeys(one.like for one in given if one.like)
        how = f"sounds like: {', '.join(like)}" if like else "given"
        return Pronounced(word, tuple(dict.fromkeys(one.phones for one in given)), how, 1.0)

    def _problem(self, word: str) -> str:
        """Why a word cannot be said, if it cannot."""
        spelt = _sayable(word)
        if word.startswith(NO_WORDS):
            return f"cannot be said: '{word[0]}' begins no word"
        if not spelt:
            return "cannot be said: no letters in it"
        if len(spelt) > LONGEST_WORD:
            return f"cannot be said: {len(word):,} letters; words have at most {LONGEST_WORD}"
        unknown = sorted({letter for letter in spelt if letter.isalpha() and self.g2p.spell(letter) is None})
        if unknown:
            return f"cannot be said: no known word has the letters {examples(unknown)}"
        return ""

    def _number(self, word: str) -> Pronounced:
        read = self._read_out(word)
        said = english.words(read) if self._language == "en" else read.split()
        if not said or re.search(r"\d", read):
            return Pronounced(word, (), "cannot be said: a number, which is not read out; write it in words", 0.0)
        parts = [self._without_g2p(part) for part in said]
        phones = [part.pronunciations[0] for part in parts if part and part.pronunciations]
        if len(phones) < len(said):
            return Pronounced(word, (), f"cannot be said: '{' '.join(said)}' is not known", 0.0)
        return Pronounced(word, (sum(phones, ()),), f"number: {' '.join(said)}", min(0.9, _sure_of(read)))

    @cached_property
    def trigrams(self) -> Counter[str]:
        """How many words have three letters in a row."""
        return Counter(t for word in self.lexicon for t in _trigrams(word.lower()))

    @cached_property
    def _language(self) -> str | None:
        """That of the lexicon, by the numbers that it has."""
        return language_of(dict.fromkeys(self.lexicon, 1.0), lambda word: known_form(word, self.lexicon) or word)

    def _read_out(self, word: str) -> str:
        """Numbers in the words of the language; 7th and its like in English alone."""
        if self._language == "en":
            return english.read_out(self._with_signs(word))
        return " ".join(in_words(word, self._language)) if self._language and word.isdecimal() else ""

    def _with_signs(self, word: str) -> str:
        """With signs such as & in words, where somebody knows these."""
        return word.translate(_SIGNS) if _SIGN.search(word) and self._language == "en" else word

    def _pieces(self, word: str) -> list[str]:
        """Words that are joined by a dash or its like; the letters of capitals on both sides of a sign: AT&T's as A.,
        T., and, T's."""
        pieces = re.split(r"[-_‐‑–/+&@\s]+", self._with_signs(word).strip("-_‐‑–/+&@ "))
        if _SIGN.search(word) and re.split("['’]", word)[0].isupper():
            return [part for piece in pieces for part in _spelt(piece)]
        return pieces

    def _parts(self, word: str) -> Pronounced | None:
        pieces = self._pieces(word)
        if len(pieces) > 1:
            known = [known_form(piece, self.lexicon) for piece in pieces]
            if not all(known):
                return None
            said = joined([piece for piece in known if piece], self.lexicon, word)
            return Pronounced(word, tuple(said), f"parts: {' '.join(pieces)}", 0.95)
        for form in dict.fromkeys((word, word.lower())):
            if said_by_parts := self.affixes.say(form.replace("’", "'")):
                phones = dict.fromkeys(one.phones for one in said_by_parts[:MOST])
                first = said_by_parts[0]
                return Pronounced(word, tuple(phones), f"parts: {' '.join(first.parts)}", first.certainty)
        return None

    def _letters(self, word: str) -> Pronounced | None:
        """A word that is spelt out, or None where it is read."""
        dotted = re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]?\.?", word) is not None
        letters = [letter for letter in _sayable(word) if is_of("LM", letter)]
        capitals = self.has_case and all(letter.isupper() for letter in letters)
        plain = "".join(letters).lower()
        readable = self._has_vowels(plain) and (not capitals or self._readable(plain))
        is_read = readable and not (capitals and len(letters) <= SHORT_CAPITALS)
        if not dotted and (is_read or len(letters) > LONGEST_LETTERS):
            return None
        names = [self._letter_name(letter) for letter in letters]
        if any(name is None for name in names):
            return None
        said = sum((name for name in names if name), ())
        return Pronounced(word, (said,), f"letters: {' '.join(letters)}", 0.9 if dotted or not readable else 0.6)

    def _letter_name(self, letter: str) -> Pronunciation | None:
        for form in (f"{letter.lower()}.", f"{letter.upper()}.", letter.lower(), letter.upper()):
            if form in self.lexicon:  # of "a" the name, which is the longer one: EY, not AH
                return max(self.lexicon[form], key=lambda said: (len(said), self.lexicon[form].index(said)))
        return None

    def _readable(self, word: str) -> bool:
        """Whether words of the language have all its letters in such rows."""
        return all(self.trigrams[t] >= self.least for t in _trigrams(word))

    def _has_vowels(self, word: str) -> bool:
        return not self.vowels or not self.vowels.isdisjoint(word)

    def _by_g2p(self, word: str, guesses: list[tuple[Pronunciation, float]]) -> Pronounced:
        if not guesses:
            return Pronounced(word, (), "cannot be said: its letters are in no order that words have", 0.0)
        shares = accumulate((p for _, p in guesses), initial=0.0)  # of those before each
        likely = [said for (said, _), share in zip(guesses, shares, strict=False) if share < SHARE]
        spelt = _sayable(word).lower()
        unmarked = "".join(c for c in spelt if not is_of("M", c))  # marks of stress hide no words
        for form in dict.fromkeys((spelt, unmarked)):
            if parts := self._compound(form, likely[0]):  # two known words in one
                return Pronounced(word, tuple(likely), f"parts: {' '.join(parts)}", max(0.9, guesses[0][1]))
        return Pronounced(word, tuple(likely), "g2p", guesses[0][1])

    def _compound(self, word: str, phones: Pronunciation) -> tuple[str, str] | None:
        for at in range(3, len(word) - 2):
            first, second = word[:at], word[at:]
            if first in self.lexicon and second in self.lexicon:
                for said in self.lexicon[first]:
                    if phones[: len(said)] == said and phones[len(said) :] in self.lexicon[second]:
                        return first, second
        return None


def _sure_of(text: str) -> float:
    """How sure its pronunciation may be: where a sign is passed over that means something, not very."""
    return PASSED_OVER if any(c not in _JOINING and not is_of("LMNZC", c) for c in text) else 1.0


def _sayable(word: str) -> str:
    """The word without what is not said: dots and dashes, quotes around it."""
    plain = unicodedata.normalize("NFC", word.strip("'’\"").replace("’", "'"))
    return "".join(c for c in plain if c == "'" or is_of("LMN", c))


def _spelt(piece: str) -> list[str]:
    """The letters of a few capitals; the last one has the ending, as in AT's."""
    letters, apostrophe, ending = piece.replace("’", "'").partition("'")
    if not letters.isupper() or len(letters) > SHORT_CAPITALS:
        return [piece]
    return [*(f"{letter}." for letter in letters[:-1]), letters[-1] + (apostrophe + ending or ".")]


def _chained(word: str, pieces: list[Pronounced]) -> Pronounced:
    """A word from how its pieces are said."""
    if silent := [piece for piece in pieces if not piece.pronunciations]:
        return replace(silent[0], word=word)
    first: Pronunciation = sum((piece.pronunciations[0] for piece in pieces), ())
    how = f"parts: {' '.join(piece.word for piece in pieces)}"
    return Pronounced(word, (first,), how, min(piece.certainty for piece in pieces))


def _vowels(lexicon: Mapping[str, object]) -> set[str]:
    """Letters of which nearly every word has one, each chosen for the most words that have none yet; none in a script
    where it takes many."""
    words = list(lexicon)[:: max(1, len(lexicon) // SOME_WORDS)]
    left = [set(word.lower()) for word in words if len(word) > 1 and is_of("LM", word)]
    most, vowels = len(left), set[str]()
    while len(left) > (1 - HAVE_VOWELS) * most:
        if len(vowels) == MOST_VOWELS:
            return set()
        vowels.add(Counter(letter for word in left for letter in sorted(word)).most_common(1)[0][0])
        left = [word for word in left if word.isdisjoint(vowels)]
    return vowels


def _trigrams(word: str) -> list[str]:
    padded = f" {word} "
    return [padded[i : i + 3] for i in range(len(padded) - 2)]
