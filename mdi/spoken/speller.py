"""Written tokens and lines as words of a vocabulary."""

import copy
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from mdi.lm.model import NgramModel
from mdi.lm.vocabulary import BOS, EOS, Vocabulary, vocabulary
from mdi.progress import get_logger
from mdi.spoken import english, numbers
from mdi.spoken.sayable import sayable
from mdi.spoken.segment import UNSPACED, Segmenter
from mdi.spoken.sentences import TYPOGRAPHY, whole_sentences

logger = get_logger(__name__)

# Signs that are said; all others, and pictures, are not.
_SAID = "%‰°&@+§№'-·½¼¾"
# Marks of letters that are often left out: those of Latin and Greek letters and of ё, not that of й.
_MARKS = re.compile("[\u0300-\u0305\u0307-\u036f]")
_LETTERS = str.maketrans({"œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d"})
_TYPOGRAPHY = str.maketrans(TYPOGRAPHY)
_SIGNS = str.maketrans({**english.SIGNS})
_HTML = re.compile(r"</?(?:br|p|i|b|u|a|em|strong|div|span|li|ul|ol|hr|h\d|td|tr|table|blockquote)\b[^<>]*>", re.I)
_ADDRESS = re.compile(r"(?:[a-z][a-z+.-]*://|www\.)\S+|\S+@\S+\.\w+", re.IGNORECASE)
_MARKER = re.compile(r"</?[^\W\d][^<>\s]*>|\[[^\W\d][^\[\]\s]*\]")
_NO_BLANK = re.compile(r"(?<=\d)([.,;:!?])(?=[^\W\d_])")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\u00a0\u202f\u2009](?=\d{3}(?!\d))")
_PRIVATE = re.compile("([\U000f0000-\U0010ffff])")
_DIGITS = re.compile(rf"[^\s\U000f0000-\U0010ffff{UNSPACED}]*\d[^\s\U000f0000-\U0010ffff{UNSPACED}]*")
_SCRIPTS = re.compile(f"([{UNSPACED}]+)")
# Planes for private use, of which nothing is ever said: the second stands for words with a capital.
_HELD, _CAPITAL, _MOST_HELD = 0xF0000, 0x100000, 0xFFFD
# How much of a vocabulary with letters of two cases is in one of them, where it has only one.
_ONE_CASE = 0.95
# The probability of a new word where text is cut into words: that of a frequent one, so that it is seldom cut itself.
_NEW = 1e-3


class _Silence(dict[int, int]):
    """str.translate's table: a blank for every letter or sign that is not said."""

    def __missing__(self, code: int) -> int:
        c, kind = chr(code), unicodedata.category(chr(code))
        said = kind[0] in "LMN" or kind in ("Sc", "Cs") or c in _SAID or code >= _HELD
        self[code] = code if said else ord(" ")
        return self[code]


_SILENCE = _Silence()


def uncased(word: str) -> str:
    """What spellings of one word have in common: without case and the forms of apostrophes."""
    return unicodedata.normalize("NFC", word.translate(_TYPOGRAPHY)).lower()


def folded(word: str) -> str:
    """The same without accents and ligatures, too."""
    if word.isascii():
        return word.lower()
    if min(word) >= "\u2e80":  # Chinese and the like has none of that
        return word
    plain = unicodedata.normalize("NFKD", word.translate(_TYPOGRAPHY)).casefold().translate(_LETTERS)
    return unicodedata.normalize("NFC", _MARKS.sub("", plain))


class Speller:
    """Turns what is written into words of a vocabulary, as far as it has them.

    `known`: a model, whose unigrams decide between spellings and between ways to cut text without blanks; or a
    vocabulary or words. `language`: a code such as "en", which numbers are read out in (what the vocabulary has).
    `new`: words that are to be found in the text although the model lacks them.
    """

    cut = True  # Chinese and the like into words

    def __init__(
        self, known: NgramModel | Vocabulary | Iterable[str], language: str | None = None, new: Iterable[str] = ()
    ) -> None:
        vocab = known.vocab if isinstance(known, NgramModel) else known
        vocab = vocab if isinstance(vocab, Vocabulary) else vocabulary(dict.fromkeys(vocab))
        p = known.p[1] if isinstance(known, NgramModel) else np.full(len(vocab), 1.0 / max(1, len(vocab)))
        more = [word for word in dict.fromkeys(new) if vocab.id(word) < 0]
        self.vocab, self.p = vocab.extended(more), np.append(p, np.full(len(more), _NEW))
        self.known = {word: value for word, value in zip(self.vocab.words, self.p.tolist(), strict=True) if word}
        self._asked = numbers.code_of(language) if language else None
        if self._asked and numbers.available() and self._asked not in numbers.languages():
            logger.warning(f"--language {language}: numbers are not read out, as num2words does not know it")
        self._words: dict[str, tuple[str, ...]] = {}

    def uncut(self) -> "Speller":
        """The same for text whose words stand between blanks already, whatever its script."""
        other = copy.copy(self)
        other.cut, other._words = False, {}
        return other

    @cached_property
    def by_fold(self) -> dict[str, str]:
        """The commonest word of each folded spelling."""
        found: dict[str, str] = {}
        for word, value in self.known.items():
            if sayable_shape(word):
                key = folded(word)
                if key not in found or value > self.known[found[key]]:
                    found[key] = word
        return found

    @cached_property
    def language(self) -> str | None:
        return self._asked or numbers.language_of(self.known, lambda word: self.find(word) or word)

    @cached_property
    def case(self) -> str:
        """That all words of the vocabulary are in: lower, upper, or neither."""
        cased = [word for word in self.known if word.lower() != word.upper() and not word.startswith(("<", "[", "!"))]
        for case in ("lower", "upper"):
            if sum(getattr(word, case)() == word for word in cased) >= _ONE_CASE * max(1, len(cased)):
                return case
        return ""

    @cached_property
    def segment(self) -> Segmenter:
        return Segmenter(self.vocab, self.p)

    def find(self, token: str) -> str | None:
        """The word of the vocabulary that a token stands for: in another case before one with other accents."""
        same = (form for form in (token, token.lower(), token.upper()) if form in self.known)
        return next(same, None) or self.by_fold.get(folded(token))

    def word(self, token: str) -> tuple[str, ...]:
        """The words of a token without blanks or signs that are not said; what is unknown stays."""
        found = self._words.get(token)
        if found is None:
            found = self._words[token] = self._word(token)
        return found

    def _word(self, token: str) -> tuple[str, ...]:
        core = token.strip("-·")
        for form in (token, core, core.rstrip("'"), core.lstrip("'"), core.strip("'")):
            if form.strip("'-·") and (found := self.find(form)):
                return (found,)
        core = token.strip("'-·")
        if not core:
            return ()
        if self.cut and _SCRIPTS.search(core):
            pieces = [piece for piece in _SCRIPTS.split(core) if piece]
            if len(pieces) > 1:
                return tuple(word for piece in pieces for word in self.word(piece))
            return tuple(self.segment(core))
        if parts := self._parts(core):
            return parts
        if sayable(core) and self.case:
            core = core.lower() if self.case == "lower" else core.upper()
        return (core,)

    def _parts(self, core: str) -> tuple[str, ...]:
        """Known words that a token with hyphens, or with an elision (l'eau), is made of, in the likelier way."""
        parts = [self.find(part) for part in re.split(r"-+|(?<=')(?=\w)", core)]
        known = [part for part in parts if part]
        if len(parts) < 2 or len(known) < len(parts):
            known = []
        joined = self.find(core.replace("-", "")) if "-" in core else None
        if joined and (not known or self._log(joined) >= sum(map(self._log, known))):
            return (joined,)
        return tuple(known)

    def _log(self, word: str) -> float:
        return math.log(max(self.known[word], 1e-99))

    def line(self, text: str, split: bool = True) -> Iterator[list[str]]:
        """The sentences of a line. One whose words are all known is left as it is."""
        tokens = text.split()
        if all(token in self.known for token in tokens):
            if tokens:
                yield tokens
            return
        held: list[str] = []
        text = _HTML.sub(" ", _BETWEEN_DIGITS.sub("", _PRIVATE.sub(" ", text)))
        text = " ".join(self._held(token, held) for token in text.split()).translate(_TYPOGRAPHY)
        reads = self.language == "en" and numbers.available()
        if reads:
            text = english.in_full(text, lambda word: self.find(word) is not None)
        for sentence in whole_sentences(text) if split else [text]:
            if reads:
                sentence = english.read_out(sentence.translate(_SIGNS))
            else:
                sentence = _DIGITS.sub(lambda match: self._number(match[0], held), _NO_BLANK.sub(r"\1 ", sentence))
            words: list[str] = []
            for token in sentence.translate(_SILENCE).split():
                for piece in _PRIVATE.split(token):
                    if piece and ord(piece[0]) >= _HELD:
                        words += held[ord(piece) & 0xFFFF].split()
                    elif piece:
                        words += self.word(piece)
            if words:
                yield words

    def _hold(self, word: str, held: list[str], capital: bool = False) -> str:
        """A letter that stands for a word which nothing may change."""
        if len(held) > _MOST_HELD:
            return word
        held.append(word)
        return chr((_CAPITAL if capital else _HELD) + len(held) - 1)

    def _held(self, token: str, held: list[str]) -> str:
        """A token with what must stay as it is held: known words with signs in them, markers, addresses."""
        if token.isalpha():
            return token
        if token in self.known or (_MARKER.fullmatch(token) and not sayable_shape(token)):
            return self._hold(token, held)
        plain = token.translate(_TYPOGRAPHY)
        core = plain.translate(_SILENCE).strip()
        begin = plain.find(core)
        if not core or begin < 0:
            core = plain.strip("\"'()[]{}<>.,;:!?*_/-")
            begin = plain.find(core)
        if (whole := self.find(plain)) and not plain.isalpha():
            return self._hold(whole, held, plain[0].isupper())
        if _ADDRESS.fullmatch(core):
            found: str | None = core
        else:
            found = self.find(core) if core and not core.isalpha() else None
        return (
            f"{plain[:begin]}{self._hold(found, held, core[0].isupper())}{plain[begin + len(core) :]}"
            if found
            else token
        )

    def _number(self, token: str, held: list[str]) -> str:
        """A token with digits in the words of the language, where all of them are known; or as it is."""
        core = token.strip("\"'()[]{}<>.,;:!?*_/-。，、；：！？（）《》")
        reads = self.language in numbers.languages() and numbers.NUMBER.fullmatch(core)
        said = [self.find(word) for word in numbers.in_words(core, self.language or "")] if reads else []
        begin, read = token.find(core), " ".join(filter(None, said)) if all(said) else ""
        return f"{token[:begin]} {self._hold(read or core, held)} {token[begin + len(core) :]}"


def sayable_shape(word: str) -> bool:
    """Not a marker of a vocabulary, such as <s>, [unk] or !SIL."""
    return word not in (BOS, EOS) and word[:1] not in "<[!#"
