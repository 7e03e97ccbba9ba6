"""The phones of a Vosk folder: their names and, where they depend on the position in the word, their forms.

Kaldi numbers the four forms of a phone one after the other, those for a word's begin, end, inside and for a word of one
phone, as graph/phones/word_boundary.int says. Names are in graph/phones.txt, AH_B 14; most folders lack it, or have
that of another model, and phones are called p1, p2 and so on, in the order of their numbers.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mdi.errors import MdiError, OtherKindError
from mdi.files import read_lines
from mdi.lm.trie import Array
from mdi.lm.vocabulary import to_str

NONWORD = "nonword"
POSITIONS = ("begin", "end", "internal", "singleton")
_SUFFIX = {"begin": "_B", "end": "_E", "internal": "_I", "singleton": "_S"}
_BEGIN, _END, _INTERNAL, _SINGLETON = range(4)


@dataclass(frozen=True)
class Phones:
    """`form[i]`: the numbers of the phone names[i] at each position, the same four times where they do not differ."""

    names: list[str]
    form: Array  # int32, names x 4

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def base(self) -> Array:
        """By number, the index of the name; -1 for a number that is none."""
        base = np.full(int(self.form.max(initial=0)) + 1, -1, np.int32)
        for column in self.form.T:
            base[column] = np.arange(len(self.names))
        return base

    def numbers(self, pronunciation: Sequence[str]) -> list[int]:
        """As a word is said that has these phones."""
        rows = self.form[[self.index[name] for name in pronunciation]]
        if len(rows) == 1:
            return [int(rows[0, _SINGLETON])]
        return [int(rows[0, _BEGIN]), *rows[1:-1, _INTERNAL].tolist(), int(rows[-1, _END])]


def read_phones(graph: Path, word_boundary: Path, numbers: Array) -> Phones:
    """Of a folder whose transition model has the phones `numbers`."""
    names: dict[int, str] = {}
    with contextlib.suppress(MdiError):  # there is none, or no table, which nobody else needs
        rows = _rows(graph / "phones.txt", number=1)
        names = {int(i): name for name, i in rows if not name.startswith(("#", "<eps>"))}
    if not names.keys() >= set(numbers.tolist()):
        names = {}  # the table of another model
    position = {int(number): text for number, text in _rows(word_boundary)} if word_boundary.exists() else {}
    for number, text in position.items():
        if text not in (NONWORD, *POSITIONS):
            raise MdiError(f"{word_boundary}: '{number} {text}'; expected {NONWORD}, {', '.join(POSITIONS)}")
    if not any(text in POSITIONS for text in position.values()):
        return _named(names, [[i] * 4 for i in numbers.tolist()], position)
    forms, left = [], numbers.tolist()
    while left:
        number, four = left[0], left[:4]
        if position.get(number, NONWORD) == NONWORD:
            forms.append([left.pop(0)] * 4)
            continue
        if [position.get(k) for k in four] != list(POSITIONS):
            raise OtherKindError(
                f"{word_boundary}: phone {number} is '{position[number]}', and the next ones are "
                f"{', '.join(position.get(k, 'nothing') for k in four[1:])}; expected Kaldi's four forms of a phone, "
                f"one after the other: {', '.join(POSITIONS)}"
            )
        forms.append(four)
        del left[:4]
    return _named(names, forms, position)


def _named(names: dict[int, str], forms: list[list[int]], position: dict[int, str]) -> Phones:
    found: list[str] = []
    for i, form in enumerate(forms, 1):
        name = names.get(form[0], f"p{i}")
        found.append(name.removesuffix(_SUFFIX.get(position.get(form[0], ""), "_")))
    for i, name in enumerate(found):  # SIL, and SIL_B of which only the position is known
        if name in found[:i]:
            found[i] = f"{name}_word"
    return Phones(found, np.array(forms, np.int32))


def _rows(path: Path, number: int = 0) -> list[tuple[str, str]]:
    rows = []
    for at, line in enumerate(read_lines(str(path)), 1):
        fields = to_str(line).split()
        if len(fields) != 2 or not (fields[number].isascii() and fields[number].isdigit() and len(fields[number]) < 9):
            raise MdiError(f"{path}:{at}: '{to_str(line)[:80]}'; expected two columns, one of them a phone's number")
        rows.append((fields[0], fields[1]))
    return rows
