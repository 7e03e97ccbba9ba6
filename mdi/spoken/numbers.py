"""Numbers in the words of a language, as far as num2words knows it; and which language a vocabulary is of."""

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import find_spec

from mdi.errors import OptionError

# 31, 1.000, 1,000.5: signs between digits belong to the number
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
# Languages that write 1,000.5; all others 1.000,5.
_DECIMAL_POINT = {"en", "he", "ja", "ko", "th"}
# Numbers whose words tell languages apart.
_TOLD_BY = (*range(2, 21), 30, 40, 50, 100)
# A vocabulary of a language has at least this share of these words.
_MOST = 0.9
# What a word that is not there counts as.
_RARE = 1e-9


def available() -> bool:
    return find_spec("num2words") is not None


def languages() -> set[str]:
    """Codes of all that num2words knows, some with a region: fr, fr_CH."""
    if not available():
        return set()
    from num2words import CONVERTER_CLASSES

    return set(CONVERTER_CLASSES)


def code_of(language: str) -> str:
    """The code that num2words has, of one such as pt-BR, en-US or EN; that of the language where it has none."""
    code, *more = re.split("[-_]", language)
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", language):
        raise OptionError("language", language, "a code such as en, hi or pt-BR")
    code = code.lower()
    regional = [f"{code}_{part.upper()}" for part in more if code != "en"]  # english.py reads more than numbers
    return next((name for name in regional if name in languages()), code)


@lru_cache(1 << 14)
def in_words(number: str, language: str) -> tuple[str, ...]:
    """The words of a number; none where the language has none for it."""
    from num2words import num2words

    plain, (whole, *_) = number.replace(",", "."), number.replace(",", ".").split(".")
    grouped = _THOUSANDS.fullmatch(number)
    if grouped and (plain.count(".") > 1 or (grouped[1] == ",") == (language in _DECIMAL_POINT)):
        plain = plain.replace(".", "")
    digits = plain.replace(".", "")
    alone = len(digits) > 15 or plain.count(".") > 1 or (len(whole) > 1 and whole[0] == "0")  # read digit by digit
    try:
        values = map(int, digits) if alone else [float(plain) if "." in plain else int(plain)]
        said = " ".join(num2words(value, lang=language) for value in values)
    except (NotImplementedError, OverflowError, ValueError, TypeError, IndexError, KeyError, AttributeError):
        return ()  # num2words' languages are of many hands
    return tuple(said.replace("-", " ").replace(",", " ").split())


def language_of(known: Mapping[str, float], spell: Callable[[str], str]) -> str | None:
    """The language whose numbers a vocabulary has, by the probabilities of their words; None where it has none's."""
    scores: dict[str, float] = {}
    kana = any("ぁ" <= word[0] <= "ヿ" for word in known)  # which tells Japanese from Chinese
    for language in sorted(languages()):
        if "_" in language or (language == "ja" and not kana):
            continue
        words = [spell(word) for number in _TOLD_BY for word in in_words(str(number), language)]
        here = [known.get(word, 0.0) for word in words]
        if not words or sum(value > 0.0 for value in here) < _MOST * len(words):
            continue
        scores[language] = math.prod(max(value, _RARE) ** (1.0 / len(here)) for value in here)
    return max(scores, key=lambda language: scores[language], default=None)
