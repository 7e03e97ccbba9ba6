"""Words that the recogniser did not know before the text taught it: which of them were said, recognised, missed, and
heard where nobody said them.

A new word is one that the recogniser lacked, whether it was added or not: what is in no text cannot be. Of an utterance
count the words and not their places: one that is said twice and heard once is recognised once.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mdi.errors import MdiError
from mdi.files import read_lines
from mdi.fst.symbols import read_symbols
from mdi.speech.data import Words
from mdi.speech.given import COLUMNS
from mdi.speech.pronounce import UNCERTAIN
from mdi.speech.wer import compute_wer


@dataclass(frozen=True)
class NewWord:
    """A row of new_words.tsv."""

    word: str
    count: int  # in the text
    pronunciations: str
    certainty: float
    sounds_like: str

    @property
    def added(self) -> bool:
        return bool(self.pronunciations)

    @property
    def uncertain(self) -> bool:
        return self.certainty < UNCERTAIN


@dataclass(frozen=True)
class NewWords:
    """`known`: words that the recogniser had before."""

    known: Collection[str]
    rows: Mapping[str, NewWord]

    @property
    def added(self) -> int:
        return sum(row.added for row in self.rows.values())

    def among(self, words: Words) -> Counter[str]:
        return Counter(word for word in words if word not in self.known)

    def in_text(self, words: Counter[str]) -> Counter[str]:
        """Those that were added."""
        return Counter({word: n for word, n in words.items() if word in self.rows and self.rows[word].added})


@dataclass(frozen=True)
class Recall:
    """Of one recogniser on one test set: how often each new word was said, rightly and wrongly heard, and WER of the
    utterances with new words and of those without (None: there are none)."""

    said: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    utterances: int = 0  # with new words
    wer_with: float | None = None
    wer_without: float | None = None


def read_new_words(part: Path, data: Path) -> NewWords | None:
    """Of all models of a recipe, data/new_words.tsv, or of the one that has them, exp/graph/new_words."""
    tables = (data / "new_words.tsv", part / "graph" / "new_words" / "new_words.tsv")
    table = next((path for path in tables if path.exists()), None)
    if table is None or not (data / "words.txt").exists():
        return None
    rows = {row.word: row for row in read_rows(table)}
    added = {word for word, row in rows.items() if row.added}
    return NewWords(read_symbols(str(data / "words.txt")).ids.keys() - added, rows)


def read_rows(path: Path) -> list[NewWord]:
    rows = []
    for number, line in enumerate(read_lines(str(path)), 1):
        fields = line.decode("utf-8", "surrogateescape").rstrip("\r\n").split("\t")
        if number == 1 and tuple(fields[:3]) == COLUMNS[:3]:
            continue
        try:
            word, count, said, certainty, _, like = (*fields, *[""] * 6)[:6]
            rows.append(NewWord(word, int(count), said.strip(), float(certainty or 0), like))
        except ValueError as error:
            raise MdiError(f"{path}:{number}: {error}; expected {', '.join(COLUMNS)} between tabs") from error
    return rows


def recall(new_words: NewWords, references: Mapping[str, Words], heard: Mapping[str, Words]) -> Recall:
    said, right, false = Counter[str](), Counter[str](), Counter[str]()
    groups: dict[bool, dict[str, Words]] = {True: {}, False: {}}
    for utterance, words in references.items():
        here, found = new_words.among(words), new_words.among(heard.get(utterance, []))
        said, right, false = said + here, right + (here & found), false + (found - here)
        groups[bool(here)][utterance] = words
    with_new, without = (
        compute_wer(part, {u: heard.get(u, []) for u in part}).rate if part else None
        for part in (groups[True], groups[False])
    )
    return Recall(said, right, false, len(groups[True]), with_new, without)
