"""What users say of new words, and what they are told: --lexicon and new_words.tsv.

A file that users write has lines `word phone phone ...`, as Kaldi's lexicon.txt, or `word = known words that it sounds
like`. new_words.tsv says how each new word is said and how sure that is; edited, it can be given back as --lexicon.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mdi.errors import MdiError, examples
from mdi.files import writing
from mdi.speech.lexicon import POSITION, Lexicon, Pronunciation, joined, probability_of, text_lines

if TYPE_CHECKING:
    from mdi.speech.pronounce import Pronounced

COLUMNS = ("word", "count", "pronunciations", "certainty", "how", "sounds like")
# Between the pronunciations of a word.
OR = "|"
# A word has at most so many phones.
LONGEST = 200


@dataclass(frozen=True)
class Given:
    """A pronunciation that a user has given; `like`: as these known words, '' where it was given in phones."""

    phones: Pronunciation
    like: str = ""


@dataclass(frozen=True)
class GivenLines:
    """The numbered lines of such a file, which may be a pipe and is read once; `is_table`: it is new_words.tsv, here
    without the names of its columns."""

    path: str = ""
    is_table: bool = False
    lines: list[tuple[int, str]] = field(default_factory=list)

    @cached_property
    def words(self) -> list[str]:
        """Those that a user says something of, as they are spelt there."""
        return list(dict.fromkeys(text.split()[0] for _, text in self.lines))


def given_lines(path: str | None) -> GivenLines:
    lines = list(text_lines(path)) if path else []
    is_table = bool(lines) and tuple(lines[0][1].split("\t")[:3]) == COLUMNS[:3]
    return GivenLines(path or "", is_table, lines[is_table:])


def read_given(
    source: GivenLines, lexicon: Mapping[str, Sequence[Pronunciation]], phones: set[str] | None = None
) -> dict[str, list[Given]]:
    """What a user says of words: lines `word phone phone ...` or `word = known words`, or new_words.tsv, where a word
    without pronunciations is to be left out. Refuses other phones than those given (those of the lexicon), and words
    that another sounds like but that are unknown."""
    known = lexicon if isinstance(lexicon, Lexicon) else Lexicon({word: list(said) for word, said in lexicon.items()})
    phones = phones or known.phones
    given: dict[str, list[Given]] = {}
    for number, text in source.lines:
        where = f"{source.path}:{number}"
        word, ways = _row(text, where) if source.is_table else _line(text, phones, where)
        given.setdefault(word, [])
        for fields in ways:
            said = parse_said(fields, known, phones, where)
            if (longest := max(len(one.phones) for one in said)) > LONGEST:
                raise MdiError(f"{where}: {longest} phones; expected at most {LONGEST}")
            given[word] += [one for one in said if one not in given[word]]
    return given


def _line(text: str, phones: set[str], where: str) -> tuple[str, list[list[str]]]:
    word, *rest = text.split()
    if not rest:
        raise MdiError(f"{where}: '{word[:80]}' alone; expected 'word phone phone ...' or 'word = known words'")
    if rest[0] != "=" and len(rest) > 1 and probability_of(rest[0]) is not None and rest[0] not in phones:
        rest = rest[1:]  # lexiconp.txt
    return word, [rest]


def _row(text: str, where: str) -> tuple[str, list[list[str]]]:
    word, *fields = text.split("\t")
    if len(fields) < 2 or len(word.split()) != 1:
        raise MdiError(
            f"{where}: '{text[:80]}'; expected word, count and pronunciations between tabs, as in the first line"
        )
    return word.strip(), [way.split() for way in re.split(r"(?:^|\s)\|(?:\s|$)", fields[1]) if way.strip()]


def parse_said(
    fields: Sequence[str], lexicon: Mapping[str, Sequence[Pronunciation]], phones: set[str], where: str
) -> list[Given]:
    """Pronunciations of `phone phone ...` or of `= known words`."""
    if fields[0] == "=":
        if len(fields) == 1:
            raise MdiError(f"{where}: nothing after '='; expected known words that it sounds like")
        return [Given(said, " ".join(fields[1:])) for said in joined(fields[1:], lexicon, where)]
    said = tuple(fields)
    if unknown := sorted(set(said) - phones):
        marked = {POSITION.sub("", phone) for phone in unknown}
        if marked <= phones:
            return [Given(tuple(POSITION.sub("", phone) if phone in unknown else phone for phone in said))]
        raise MdiError(f"{where}: no word is said with the phones {examples(unknown)}{_instead(unknown, phones)}")
    return [Given(said)]


def _instead(unknown: list[str], phones: set[str]) -> str:
    """What could be meant."""
    plain = {re.sub(r"\d$", "", phone).upper() for phone in unknown}
    if plain <= phones:
        return f"; expected them without stress and in capitals, such as '{min(plain)}'"
    near = difflib.get_close_matches(unknown[0], sorted(phones), 3, 0.4) or sorted(phones)[:5]
    return f"; expected phones of the model, such as {examples(near)}, or 'word = known words that it sounds like'"


def write_new_words(path: str, said: "Iterable[Pronounced]", counts: Mapping[str, int]) -> None:
    """new_words.tsv: what was found of each word, the most frequent first; words that cannot be said are there too,
    without pronunciations."""
    with writing(path) as stream:
        stream.write(("\t".join(COLUMNS) + "\n").encode())
        for one in sorted(said, key=lambda one: (-counts.get(one.word, 0), one.word)):
            phones = f" {OR} ".join(" ".join(phones) for phones in one.pronunciations)
            like = f" {OR} ".join(one.sounds_like)
            fields = (one.word, str(counts.get(one.word, 0)), phones, f"{one.certainty:.2f}", one.how, like)
            stream.write(("\t".join(fields) + "\n").encode("utf-8", "surrogateescape"))
