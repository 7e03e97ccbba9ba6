"""Pronunciations, and the lexicon transducer L_disambig.fst of them.

Phones depend on their place in the word (_B, _I, _E, _S), as in Kaldi. Silence is optional before and after every
word. Words that sound alike, or like the beginning of another, end in a disambiguation symbol #1, #2 ...; #0 passes
back-off through.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError, examples
from mdi.files import read_lines
from mdi.fst.openfst import Arcs, from_unsorted
from mdi.fst.symbols import DISAMBIGUATION, EPSILON, SymbolTable
from mdi.lm.vocabulary import to_str
from mdi.speech.acoustic import AcousticModel, model_folder

SILENCE = "SIL"
SILENCE_PROBABILITY = 0.5


@dataclass(frozen=True)
class Lexicon:
    """Words with their phones, several entries for several pronunciations."""

    path: str
    entries: list[tuple[str, tuple[str, ...]]]

    def words(self) -> list[str]:
        return sorted({word for word, _ in self.entries})


def read_lexicon(path: str, acoustic: AcousticModel) -> Lexicon:
    """'word phone phone ...' per line. A word(2) of CMU's dictionary is another pronunciation of the word; stress
    digits go."""
    known = {phone for phone in acoustic.phones if phone[0] not in "+"} - {SILENCE}
    entries: dict[tuple[str, tuple[str, ...]], None] = {}  # in the order of the file, each once
    for number, line in enumerate(read_lines(path), 1):
        fields = to_str(line).split("#", 1)[0].split() if b" #" in line else to_str(line).split()
        if not fields or fields[0].startswith(";;;"):
            continue
        word, phones = fields[0], tuple(phone.rstrip("012") for phone in fields[1:])
        if word.endswith(")") and "(" in word and word[word.rindex("(") + 1 : -1].isdigit():
            word = word[: word.rindex("(")]
        wrong = [phone for phone in phones if phone not in known]
        if not phones or wrong:
            found = f"the phones {examples(wrong)}" if wrong else "no phones"
            raise MdiError(f"{path}:{number}: {found} in '{to_str(line)}'; expected {' '.join(sorted(known))}")
        entries[word, phones] = None
    if not entries:
        raise MdiError(f"{path}: no pronunciations; expected 'word phone phone ...' per line")
    return Lexicon(path, list(entries))


def dictionary(acoustic: AcousticModel) -> Lexicon:
    """CMU's dictionary of English, which comes with the acoustic model."""
    return read_lexicon(str(model_folder() / "cmudict-en-us.dict"), acoustic)


def in_word(phones: tuple[str, ...]) -> tuple[str, ...]:
    """Phones with their place in the word."""
    if len(phones) == 1:
        return (phones[0] + "_S",)
    return (phones[0] + "_B", *(phone + "_I" for phone in phones[1:-1]), phones[-1] + "_E")


@dataclass(frozen=True)
class LexiconFst:
    """`phones` are the names of the input labels; `disambiguation` those of #0, #1 ..., silence's own one last."""

    arcs: Arcs
    phones: list[str]
    disambiguation: list[int]
    covered: int


def phone_names(acoustic: AcousticModel) -> list[str]:
    spoken = [phone for phone in acoustic.phones if phone[0] != "+" and phone != SILENCE]
    return [EPSILON, SILENCE, *(f"{phone}_{place}" for phone in spoken for place in "BIES")]


def lexicon_fst(lexicon: Lexicon, symbols: SymbolTable, acoustic: AcousticModel) -> LexiconFst:
    """State 0 is the start, 1 lies between words, 2 between a word and a silence."""
    names = phone_names(acoustic)
    number = {name: i for i, name in enumerate(names)}
    entries = [
        (symbols.ids[w], tuple(number[p] for p in in_word(phones))) for w, phones in lexicon.entries if w in symbols.ids
    ]
    if not entries:
        raise MdiError(
            f"{lexicon.path}: no pronunciation of any word in {symbols.path}; are both in the same letter case?"
        )
    times = Counter(phones for _, phones in entries)
    prefixes = {phones[:i] for _, phones in entries for i in range(1, len(phones))}
    used: Counter = Counter()
    half = -math.log(SILENCE_PROBABILITY), -math.log(1.0 - SILENCE_PROBABILITY)
    rows: list[tuple[int, int, int, int, float]] = [(0, 1, 0, 0, half[1]), (0, 2, 0, 0, half[0])]
    n_states = 3
    first = len(names)  # the label of #0
    for word, phones in entries:
        labels = list(phones)
        if times[phones] > 1 or phones in prefixes:
            used[phones] += 1
            labels.append(first + used[phones])
        state = 1
        for i, label in enumerate(labels):
            output = word if i == 0 else 0
            if i + 1 < len(labels):
                rows.append((state, n_states, label, output, 0.0))
                state, n_states = n_states, n_states + 1
            else:
                rows.append((state, 1, label, output, half[1]))
                rows.append((state, 2, label, output, half[0]))
    last = first + max(used.values(), default=0) + 1
    rows.append((2, n_states, number[SILENCE], 0, 0.0))
    rows.append((n_states, 1, last, 0, 0.0))
    rows.append((1, 1, first, symbols.require(DISAMBIGUATION), 0.0))
    n_states += 1
    source, dest, ilabel, olabel, weight = (np.array(column) for column in zip(*rows, strict=True))
    final = np.full(n_states, np.inf)
    final[1] = 0.0
    disambiguation = list(range(first, last + 1))
    return LexiconFst(
        from_unsorted(0, n_states, source, ilabel, olabel, weight, dest, final),
        names + [f"#{i}" for i in range(len(disambiguation))],
        disambiguation,
        len({word for word, _ in entries}),
    )
