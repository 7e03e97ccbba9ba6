"""Word lists: one word a line, or Kaldi's words.txt."""

from __future__ import annotations

import re

from mdi.errors import MdiError
from mdi.files import read_lines
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, Vocabulary, to_str, vocabulary

# Symbols of words.txt that are not words: epsilon and the disambiguation symbols #0, #1, ...
_NOT_A_WORD = re.compile(r"<eps>|#\d+")


def read_words(path: str) -> list[str]:
    """The words of a list. Lines with a word and a number are taken as Kaldi's table: its words, without <eps> and #0."""
    lines = [(at, [field for field in re.split(rb"[ \t]+", line) if field]) for at, line in enumerate(read_lines(path), 1)]
    lines = [(at, fields) for at, fields in lines if fields]
    if not lines:
        raise MdiError(f"{path}: no words; expected one a line, or Kaldi's words.txt")
    table = all(len(fields) == 2 and fields[1].isdigit() for _, fields in lines)
    seen: dict[str, int] = {}
    for at, fields in lines:
        if len(fields) > 1 and not table:
            found = to_str(b" ".join(fields))
            raise MdiError(f"{path}:{at}: '{found[:80]}'; expected one word a line, or a word and its number on every line")
        if b"\0" in fields[0]:
            raise MdiError(f"{path}:{at}: a NUL byte; expected text, one word a line")
        word = to_str(fields[0])
        if table and _NOT_A_WORD.fullmatch(word):
            continue
        if word in seen:
            raise MdiError(f"{path}:{at}: the word '{word}' stands here and on line {seen[word]}; keep one of the two")
        seen[word] = at
    return list(seen)


def model_vocabulary(words: list[str], unk: bool) -> Vocabulary:
    """<s>, </s>, and <unk> if wanted and not there yet under one of its names; then the words."""
    markers = [BOS, EOS] + ([] if not unk or any(name in words for name in UNKNOWN) else [UNKNOWN[0]])
    return vocabulary([*markers, *(word for word in words if word not in (BOS, EOS))])
