"""Which tokens of a text are words that somebody can say. Numbers, addresses, pictures and noise are none."""

import re
import unicodedata

# Longer words exist; nobody's recogniser needs them.
LONGEST = 50
# Letters and their marks, joined by single apostrophes, hyphens or dots in the middle (Catalan's col·lecció); an
# apostrophe may stand at either end ('em, dogs').
_SHAPE = re.compile(r"['’]?[^\W\d_]+(?:['’·-]?[^\W\d_]+)*['’]?")
# aaaaaa, hmmmm: Schifffahrt has three
_REPEATED = re.compile(r"(.)\1{3}", re.IGNORECASE)
_WRITTEN_TOGETHER = ({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}, {"CJK", "HANGUL"})


def is_of(kinds: str, text: str) -> bool:
    """Whether all of it is of these kinds: L letters, M their marks, N numbers, Z blanks, C what is not seen. Marks,
    which str.isalpha refuses, are the vowels of many scripts."""
    return all(unicodedata.category(c)[0] in kinds for c in text)


def sayable(token: str) -> bool:
    """Whether a token can be a word: letters of one script, not too many, and not one letter over and over.

    What it is for: new words of a recogniser. '31°', 'http://x.org', 'a_b', 'aaaaaa', '[unk]' and emoji are no words;
    "rock'n'roll", "l'eau", 'NASA', '北京' and 'Жюль-Верн' are.
    """
    letters = unicodedata.normalize("NFC", token)
    letters = "".join(c for c in letters if not is_of("M", c))
    if len(letters) > LONGEST or not _SHAPE.fullmatch(letters) or _REPEATED.search(letters):
        return False
    if any(c.isnumeric() and not "一" <= c <= "鿿" for c in letters):  # ② and ½; 三 is a word
        return False
    scripts = {unicodedata.name(c, "?").split()[0] for c in letters if c.isalpha()}
    return len(scripts) == 1 or any(scripts <= together for together in _WRITTEN_TOGETHER)
