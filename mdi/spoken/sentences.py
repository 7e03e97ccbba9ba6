"""Where sentences end, whatever the language, and typographic signs as the plain ones that they stand for."""

import re
from collections.abc import Iterator

_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
# as they stand among Chinese signs, whose stops need no blank
_WIDE = {chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F) if chr(code) not in "!?"}
TYPOGRAPHY = {
    **_LIGATURES,
    **_WIDE,
    **dict.fromkeys("’‘ʼ´`‛", "'"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("–—", " - "),
    **dict.fromkeys("‐‑", "-"),
    "…": ". ",
    **dict.fromkeys("\u00a0\u202f\u2009\u3000", " "),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}
_CAPITALS = "".join(chr(code) for code in range(0x80, 0x590) if chr(code).isupper())
_CAPITALS += "\U00100000-\U0010fffd"  # what stands for a word with a capital in speller.py
_END = re.compile(
    rf"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z{_CAPITALS}0-9$£€])|\s-\s(?=[A-Z{_CAPITALS}\"])|(?<=[。！？])[」』）\"']*"
)
# 'J. Smith', 'M. Dupont': no sentence ends after a capital alone
_INITIAL = re.compile(rf"(?:^|[\s\"'(])[A-Z{_CAPITALS}]\.$")


def split_sentences(text: str) -> list[str]:
    """The sentences of a line."""
    return _END.split(text)


def whole_sentences(text: str) -> Iterator[str]:
    """The same, but names with initials stay whole."""
    begun = ""
    for part in split_sentences(text):
        begun = f"{begun} {part}" if begun else part
        if not _INITIAL.search(begun):
            yield begun
            begun = ""
    if begun:
        yield begun


_STOP = re.compile(r"[.!?:;…。！？][\"'»”’)\]]*$")


def unwrapped(lines: list[str]) -> list[str]:
    """Paragraphs of running prose whose lines were broken at some width; any other text as it is.

    A line is broken where the next one goes on with a small letter. Where most lines are, and the text has stops
    (without them a line is a sentence), all lines up to a blank one are one paragraph.
    """
    lines = [line.strip() for line in lines]
    followed = [(line, after) for line, after in zip(lines, [*lines[1:], ""], strict=True) if line and after]
    broken = sum(not _STOP.search(line) and after[0].islower() for line, after in followed)
    stops = sum(len(split_sentences(line)) - 1 + bool(_STOP.search(line)) for line in lines)
    if 2 * broken <= len(followed) or 8 * stops < len(lines):
        return lines
    found = [""]
    for line in lines:
        if not line:
            found.append("")
        elif re.search(r"\w-$", found[-1]):
            found[-1] += line
        else:
            found[-1] = f"{found[-1]} {line}".strip()
    return found
