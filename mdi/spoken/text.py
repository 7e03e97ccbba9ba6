"""Whole texts as people have them, as sentences in the words of a model."""

import os
import re
from collections import Counter
from dataclasses import dataclass, field

from mdi.errors import MdiError
from mdi.files import UTF16, first_bytes, read_bytes
from mdi.lm.text import Sentences
from mdi.lm.vocabulary import to_bytes, to_str
from mdi.lm.word_counts import count_words
from mdi.spoken import numbers
from mdi.spoken.sayable import is_of, sayable
from mdi.spoken.segment import unspaced
from mdi.spoken.sentences import unwrapped
from mdi.spoken.speller import Speller

# Of the words of Chinese text and the like, where it is cut into words already; of Korean as it is written it is half.
_KNOWN_WHERE_CUT = 2 / 3
# $5,000, 12th, 1990s: what begins with a number
_COUNTS = re.compile(r"[^\w\s]?\d")
_BYTES = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class Spoken:
    """A text in the words of a model; the file itself where there was nothing to change."""

    text: str | Sentences
    before: Counter[str] = field(default_factory=Counter)  # words of the text
    after: Counter[str] = field(default_factory=Counter)
    changed: dict[str, str] = field(default_factory=dict)  # each kind of word that is written otherwise now
    known: Speller | None = None
    encoding: str = ""

    def report(self) -> list[str]:
        """What was changed, in a line or two."""
        if not self.changed or self.known is None:
            return []
        known = self.known.known
        n = sum(self.before[word] for word in self.changed)
        shown = ", ".join(f"'{word}' -> '{self.changed[word]}'" for word in self._examples())
        shares = [
            f"{100 * sum(k for word, k in counts.items() if word not in known) / max(1, counts.total()):.1f}%"
            for counts in (self.before, self.after)
        ]
        encoding = f"it is not UTF-8 and was read as {self.encoding}; " if self.encoding else ""
        lines = [
            f"{self.text}: {encoding}{n:,} of {self.before.total():,} words are not as the model spells them, and were "
            f"changed: {shown}; unknown words: {shares[0]} before, {shares[1]} after (--normalise none: change nothing)"
        ]
        unsaid = Counter({word: k for word, k in self.after.items() if word not in known and not sayable(word)})
        if unsaid:
            asks = not self.known.language and numbers.available() and any(map(_COUNTS.match, unsaid))
            why = "; --language says in which language numbers are read out" if asks else ""
            more = f" and {len(unsaid) - 5:,} more" if len(unsaid) > 5 else ""
            listed = ", ".join(f"'{word}' {k}" for word, k in unsaid.most_common(5))
            lines.append(f"{self.text}: tokens that cannot be read out, and are no words: {listed}{more}{why}")
        return lines

    def _examples(self) -> list[str]:
        """The commonest of each kind of change."""
        best: dict[int, str] = {}
        for word, _ in self.before.most_common():
            if self.changed.get(word):
                best.setdefault(_kind(word), word)
        return [best[kind] for kind in sorted(best)]


def _kind(word: str) -> int:
    """Numbers; text without blanks; hyphens and apostrophes; punctuation; case."""
    inside = word.strip(".,;:!?\"'()")
    if any(c.isdigit() for c in word):
        return 0
    if any(map(unspaced, word)):
        return 1
    return 2 if not is_of("LM", inside) else 3 if inside != word else 4


def kept(text: str) -> str | Sentences:
    """What is in it, if it is standard input or a pipe, which can be read but once; a file is left where it is."""
    return text if text != "-" and os.path.isfile(text) else Sentences(read_bytes(text), text)


def spoken_text(source: str | Sentences, speller: Speller) -> Spoken:
    """The sentences of a text in the words of `speller`. Text that has these words only, or nothing that could be
    changed, is left as it is: one sentence per line. Otherwise lines are split into sentences, and lines that were
    broken at some width are joined before."""
    source = kept(source) if isinstance(source, str) else source
    if (first_bytes(source, 2) if isinstance(source, str) else source.data[:2]) in UTF16:
        source = Sentences(_data(source).decode("utf-16", "replace").encode(), str(source))
    before = _counted(source)
    encoding = ""
    if any(_BYTES.search(word) for word in before) and not any(_BYTES.search(word) for word in speller.known):
        source, encoding = _from_latin(source, speller), "Windows-1252 (Latin-1)"
        before = _counted(source)
    written = Counter({word: n for word, n in before.items() if any(map(unspaced, word))})
    whole = speller.uncut()
    known = {word for word in written if all(w in whole.known for part in whole.line(word) for w in part)}
    if sum(written[word] for word in known) >= _KNOWN_WHERE_CUT * written.total():
        speller = whole
    changed = {}
    for word in before:
        if word not in speller.known and (said := " ".join(w for part in speller.line(word) for w in part)) != word:
            changed[word] = said
    if not changed:
        return Spoken(source)
    lines = to_str(_data(source)).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    made = [" ".join(words) for line in unwrapped(lines) for words in speller.line(line)]
    if not made:
        raise MdiError(f"{source}: no words in it; expected text")
    text = Sentences(to_bytes("".join(f"{line}\n" for line in made)), str(source))
    return Spoken(text, before, Counter(" ".join(made).split()), changed, speller, encoding)


def _counted(source: str | Sentences) -> Counter[str]:
    found = count_words(source)
    return Counter(dict(zip(found.words, found.count.tolist(), strict=True)))


def _data(source: str | Sentences) -> bytes:
    data = source.data if isinstance(source, Sentences) else read_bytes(source)
    return data.removeprefix(b"\xef\xbb\xbf")


def _from_latin(source: str | Sentences, speller: Speller) -> Sentences:
    """Text that is not UTF-8, read as what most of such text is, if that makes known words of it."""
    text = _data(source).decode("cp1252", "replace")
    odd = [word for word in text.split() if not word.isascii()]
    known = sum(all(w in speller.known for part in speller.line(word) for w in part) for word in odd)
    if 2 * known < len(odd):
        raise MdiError(
            f"{source}: is neither UTF-8 nor, as it seems, Windows-1252 (Latin-1): {known:,} of {len(odd):,} words "
            f"with other letters than a to z would be known; expected UTF-8. Convert it: iconv -f ENCODING -t utf-8"
        )
    return Sentences(text.encode(), str(source))
