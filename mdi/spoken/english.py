"""English as it is read out, as for LibriSpeech's language models: numbers and abbreviations in words."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from mdi.spoken.sentences import TYPOGRAPHY, split_sentences

# Titles and such, after which a full stop ends no sentence. Written with a capital they come before a name.
_IN_FULL = """
    mr mister, mrs missus, ms miz, dr doctor, prof professor, st saint, sen senator, rep representative, gov governor,
    gen general, col colonel, capt captain, lt lieutenant, sgt sergeant, rev reverend, hon honourable, rt right,
    jr junior, sr senior, vs versus, etc etcetera, co company, inc incorporated, corp corporation, ltd limited,
    jan january, feb february, aug august, sept september, oct october, nov november, dec december,
    approx approximately, dept department
"""
ABBREVIATIONS: dict[str, str] = dict(pair.split() for pair in _IN_FULL.split(","))
CURRENCIES = {"$": ("dollar", "dollars"), "£": ("pound", "pounds"), "€": ("euro", "euros"), "¥": ("yen", "yen")}
SCALES = {"k": "thousand", "m": "million", "bn": "billion", "tn": "trillion"}
UNITS = {
    "%": "percent",
    "°": "degrees",
    "km": "kilometers",
    "kg": "kilograms",
    "cm": "centimeters",
    "mm": "millimeters",
}
SIGNS = {"&": " and ", "@": " at ", "+": " plus "}
_PLAIN = str.maketrans({**TYPOGRAPHY, **SIGNS, "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l"})

_WORD = r"(?:million|billion|trillion|thousand|hundred|bn|tn|m|k)"
_MONEY = re.compile(rf"([$£€¥])\s?(\d[\d,]*(?:\.\d+)?)(?:[\s-]?({_WORD})\b)?", re.IGNORECASE)
_TIME = re.compile(r"\b(\d{1,2}):([0-5]\d)\b(?!:)")
_ORDINAL = re.compile(r"\b(\d[\d,]*)(?:st|nd|rd|th)\b", re.IGNORECASE)
_DECADE = re.compile(r"(?<![\d$£€])'?\b(\d{2}|1\d{3}|20\d{2})'?s\b")
_UNIT = re.compile(r"(\d)\s?(%|°|km\b|kg\b|cm\b|mm\b)")
_SCALED = re.compile(r"\b(\d[\d,]*(?:\.\d+)?)(k|m|bn|tn)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DOTTED = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_STOPPED = re.compile(r"\b([A-Za-z]{2,6})\.(?![A-Za-z0-9])")
_DIGIT = re.compile(r"\d")
_TAG = re.compile(r"</?[a-z]{1,10} ?/?>")
_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)*'?|'[a-z]+")
# what an apostrophe may stand at the beginning or the end of
_CLIPPED = {"'em", "'cause", "'til", "'tis", "'twas", "'round", "'bout"}


@lru_cache(1 << 16)
def _spell(number: str, to: str = "cardinal") -> str:
    from num2words import num2words

    text = number.replace(",", "")
    if len(text.split(".")[0]) > 15:  # no amount: a telephone or account number, read digit by digit
        return " ".join(num2words(int(digit)) for digit in text if digit.isdigit())
    if to == "cardinal" and "," not in number and "." not in text and len(text) == 4 and 1100 <= int(text) <= 2099:
        to = "year"
    if to == "cardinal" and len(text) > 1 and text[0] == "0" and "." not in text:
        return " ".join(num2words(int(digit)) for digit in text)
    value = float(text) if "." in text else int(text)
    said = num2words(value, to=to if value == int(value) else "cardinal")
    return f" {said.replace('-', ' ').replace(',', '')} "


def _money(match: re.Match[str]) -> str:
    one, many = CURRENCIES[match[1]]
    scale = (match[3] or "").lower()
    amount = match[2].rstrip(",")
    whole, _, cents = amount.partition(".")
    if not scale and len(cents) == 2:
        small = ("penny", "pence") if match[1] == "£" else ("cent", "cents")
        tail = f" and {_spell(cents.lstrip('0'))} {small[cents != '01']}" if cents != "00" else ""
        return f" {_spell(whole + ',')} {one if whole == '1' else many}{tail} "
    # a comma keeps 1500 from being read as a year
    said = _spell(amount if cents else whole + ",")
    return f" {said} {SCALES.get(scale, scale)} {one if amount == '1' and not scale else many} "


def _time(match: re.Match[str]) -> str:
    minutes = "" if match[2] == "00" else ("oh " if match[2][0] == "0" else "") + _spell(match[2].lstrip("0"))
    return f" {_spell(match[1])} {minutes} "


def _decade(match: re.Match[str]) -> str:
    words = _spell(match[1], "year" if len(match[1]) == 4 else "cardinal").split()
    last = words[-1]
    words[-1] = last[:-1] + "ies" if last.endswith("y") else last + "s"
    return f" {' '.join(words)} "


def read_out(text: str) -> str:
    """Digits, currencies, units and dotted letters in words; everything else as it stands."""
    if "." in text:
        text = _DOTTED.sub(lambda match: f" {match[0].replace('.', ' ')} ", text)
    if _DIGIT.search(text):
        text = _MONEY.sub(_money, text)
        text = _TIME.sub(_time, text)
        text = _DECADE.sub(_decade, text)
        text = _ORDINAL.sub(lambda match: _spell(match[1], "ordinal"), text)
        text = _UNIT.sub(lambda match: f"{match[1]} {UNITS[match[2]]} ", text)
        text = _SCALED.sub(lambda match: f"{_spell(match[1])} {SCALES[match[2].lower()]}", text)
        text = _NUMBER.sub(lambda match: f" {_spell(match[0].rstrip(',')) if match[0] else ''} ", text)
    return text


def plain(text: str) -> str:
    """Typographic signs as ASCII, letters without accents."""
    text = text.translate(_PLAIN)
    if not text.isascii():
        kept = "".join(CURRENCIES) + "°"
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if c.isascii() or c in kept)
    return text


def words(text: str) -> list[str]:
    """The words of a sentence, in lower case."""
    found = _TOKEN.findall(read_out(text).lower())
    return [w if w in _CLIPPED or not (w[0] == "'" or w[-1] == "'") else w.strip("'") for w in found if w.strip("'")]


def in_full(text: str, wanted: Callable[[str], bool] = lambda word: True) -> str:
    """Abbreviations in full, where the full word is `wanted`."""

    def full_word(match: re.Match[str]) -> str:
        full = ABBREVIATIONS.get(match[1].lower())
        if not full or not wanted(full):
            return match[0]
        # the capital may begin a sentence
        return f"{full.capitalize() if match[1][0].isupper() else full} "

    return _STOPPED.sub(full_word, text) if "." in text else text


def sentences(text: str, split: bool = True) -> Iterator[list[str]]:
    """The sentences of a text, each as its words in lower case."""
    text = plain(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    text = in_full(text)
    for part in split_sentences(text) if split else [text]:
        if found := words(part):
            yield found
