"""Pronunciation lexicons: words and the phones that say them, without marks of a phone's position in the word.

Kaldi's lexicon.txt has a word and its phones on a line, lexiconp.txt a probability after the word.
"""

import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from mdi.errors import MdiError, examples
from mdi.files import not_utf8, read_lines, writing

Pronunciation = tuple[str, ...]
# Kaldi's marks of the position in a word: begin, end, internal, singleton.
POSITION = re.compile(r"_[BEIS]$")
# A word that sounds like others gets at most so many pronunciations from theirs.
MOST_JOINED = 3


class Lexicon(dict[str, list[Pronunciation]]):
    """The pronunciations of each word; in `probability`, where a file gives some, theirs in the same order."""

    probability: Mapping[str, list[float]] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"<Lexicon of {len(self):,} words, {sum(map(len, self.values())):,} pronunciations>"

    @property
    def phones(self) -> set[str]:
        return {phone for said in self.values() for one in said for phone in one}


def probability_of(text: str) -> float | None:
    """The number, if it is a probability and no phone's name."""
    if not re.fullmatch(r"\d*\.\d*(e-\d+)?|1", text) or text == ".":
        return None
    value = float(text)
    return value if 0.0 < value <= 1.0 else None


def text_lines(path: str) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines of a file in UTF-8 that say something; '#' begins a remark where a line begins."""
    for number, line in enumerate(read_lines(path), 1):
        if what := not_utf8(path, line, number):
            raise MdiError(what)
        text = line.decode()
        if "\0" in text:
            raise MdiError(f"{path}:{number}: a NUL byte; expected a word and how it is said")
        if text.strip() and not text.lstrip().startswith("# "):
            yield number, text


def listed_words(path: str) -> dict[str, int]:
    """Words of a list, one on each line, with the counts that may follow them."""
    counts: dict[str, int] = {}
    for _, text in text_lines(path):
        word, *count = text.split()
        is_count = bool(count) and count[0].isdecimal() and len(count[0]) < 10
        counts[word] = counts.get(word, 0) + (int(count[0]) if is_count else 1)
    return counts


def read_lexicon(path: str, numbered: Iterable[tuple[int, str]] | None = None) -> Lexicon:
    """Kaldi's lexicon.txt or lexiconp.txt: the latter if every line has a probability after its word. Marks of the
    position in the word are taken off; a pronunciation that is there twice is one. `numbered`: lines that are read
    already."""
    lines = [(number, text.split()) for number, text in (text_lines(path) if numbered is None else numbered)]
    for number, fields in lines:
        if len(fields) < 2:
            raise MdiError(f"{path}:{number}: '{fields[0][:80]}' without phones; expected a word and its phones")
        if fields[1] == "=":
            raise MdiError(
                f"{path}:{number}: '{' '.join(fields)[:80]}'; expected phones, as this lexicon is what others are "
                f"compared with"
            )
    if not lines:
        raise MdiError(f"{path}: no words; expected a word and its phones on each line, as in Kaldi's lexicon.txt")
    first = [probability_of(fields[1]) for _, fields in lines]
    with_probability = all(p is not None for p in first) and all(len(fields) > 2 for _, fields in lines)
    found: dict[str, dict[Pronunciation, float]] = {}
    for (_, (word, *phones)), p in zip(lines, first, strict=True):
        said = tuple(POSITION.sub("", phone) for phone in (phones[1:] if with_probability else phones))
        found.setdefault(word, {}).setdefault(said, p if with_probability and p else 1.0)
    lexicon = Lexicon({word: list(said) for word, said in found.items()})
    if with_probability:
        lexicon.probability = {word: list(said.values()) for word, said in found.items()}
    return lexicon


def write_lexicon(lexicon: Mapping[str, Sequence[Pronunciation]], path: str) -> None:
    """Kaldi's lexicon.txt, or lexiconp.txt where probabilities are known."""
    known = lexicon.probability if isinstance(lexicon, Lexicon) else {}
    with writing(path) as stream:
        for word, said in lexicon.items():
            for i, phones in enumerate(said):
                p = [f"{known[word][i] if word in known else 1.0:.6g}"] if known else []
                stream.write(f"{' '.join([word, *p, *phones])}\n".encode())


def joined(words: Sequence[str], lexicon: Mapping[str, Sequence[Pronunciation]], where: str) -> list[Pronunciation]:
    """The pronunciations of known words one after the other, at most MOST_JOINED, first ones first."""
    found = [known_form(word, lexicon) for word in words]
    if missing := [word for word, known in zip(words, found, strict=True) if known is None]:
        lost = missing[0]  # few enough words to look through them letter by letter
        alike = [w for w in lexicon if w[:1] == lost[:1] and abs(len(w) - len(lost)) < 3][:20_000]
        near = difflib.get_close_matches(lost, alike, 3, 0.7)
        hint = f"; expected known words, such as {examples(near)}" if near else "; expected known words"
        raise MdiError(f"{where}: sounds like {examples(missing)}, which the model does not know itself{hint}")
    parts = [lexicon[known][:MOST_JOINED] for known in found if known is not None]
    choices = itertools.product(*(range(len(part)) for part in parts))
    ways = sorted(itertools.islice(choices, 64), key=lambda way: sum(way))[:MOST_JOINED]
    said = [tuple(itertools.chain.from_iterable(part[i] for part, i in zip(parts, way, strict=True))) for way in ways]
    return list(dict.fromkeys(said))


def known_form(word: str, lexicon: Mapping[str, object]) -> str | None:
    """The word as the lexicon writes it: as it is, in small letters or in capitals."""
    forms: tuple[Callable[[str], str], ...] = (str, str.lower, str.upper, str.capitalize)
    return next((form(word) for form in forms if form(word) in lexicon), None)
