r"""ARPA files to `NgramModel`. With `arpa_write` and `arpa_lines` the only place that knows log10, -99 and \data\.

Reads what SRILM, KenLM and IRSTLM write: tabs or spaces, CR LF, a byte order mark, comments before \data\, missing
back-off columns, gzip under any name. Anything else is an error that names the file and the line.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdi import room
from mdi.errors import MdiError
from mdi.kernels import arpa as kernels
from mdi.kernels import trie as trie_kernels
from mdi.lm import arpa_lines
from mdi.lm.arpa_lines import Lines, Window
from mdi.lm.arpa_write import HasModel, write_arpa
from mdi.lm.model import NgramModel, extend
from mdi.lm.shards import current
from mdi.lm.trie import (
    MAX_ROWS,
    NONE,
    Array,
    Trie,
    add_order,
    from_ngrams,
    is_closed,
    missing_suffixes,
    roomy,
    scattered,
    sort_rows,
    unigram_trie,
    widened,
    with_histories,
)
from mdi.lm.vocabulary import BOS, EOS, GrowingVocabulary, Vocabulary, to_str
from mdi.memory import let_go_of_compiler
from mdi.progress import Progress, get_logger
from mdi.threads import THREADS

logger = get_logger(__name__)

__all__ = ["HasModel", "read_arpa", "write_arpa"]
# No n-gram line is shorter than "-1 a\n", and deflate packs at most about 1030 to 1.
_SHORTEST_LINE, _DEFLATE_MOST, _USUAL_PACKING = 5, 1040, 2
# N-grams of a model that is worth saving memory for.
_LARGE = 1_000_000
TRIE = ("begin", "word", "suffix", "as_hist", "back")
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*([-+]?\d+)\s*$")


def read_arpa(path: str | os.PathLike, *, quiet: bool = False, closed: bool = True) -> NgramModel:
    """Reads a model in ARPA form and closes its trie. Probabilities are those of the file; `<s>` is never predicted.

    Parameters
    ----------
    path
        The file, plain or gzipped; "-" is standard input.
    quiet
        Whether nothing is said of suffixes that were added.
    closed
        Otherwise the n-grams are the file's own, and suffixes that were pruned away stay missing (-1 in the trie).

    Returns
    -------
    NgramModel

    See Also
    --------
    load : reads any form.
    """
    path = os.fspath(path)
    job, left = current(), None
    if job is not None:  # what the same job has read before it was stopped
        left = Path(job.folder) / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}{closed:d}.model"
        if (lists := room.kept(left)) is not None:
            return _model_of(lists)
    model = _read_text(path)
    if closed and not is_closed(model.trie):
        before = sum(model.trie.counts)
        extend(model, from_ngrams(model.trie.n_words, missing_suffixes(model.trie)))
        added = sum(model.trie.counts) - before
        if not quiet:
            logger.info(
                f"{path}: {added:,} suffixes of n-grams are missing (a pruned model); added with their backed-off "
                f"probabilities"
            )
    if left is not None:
        room.keep(left, _lists_of(model))
    return model


def _lists_of(model: NgramModel) -> dict[str, list[Array]]:
    """All arrays of a model, by name."""
    vocab = model.vocab
    words = [vocab.blob, vocab.offset, vocab.table]
    return {**dict(zip(TRIE, model.trie.lists, strict=True)), "p": model.p, "bow": model.bow, "vocab": words}


def _model_of(lists: dict[str, list[Array]]) -> NgramModel:
    return NgramModel(Vocabulary(*lists["vocab"]), Trie(*(lists[name] for name in TRIE)), lists["p"], lists["bow"])


@dataclass
class ArpaSections:
    """An ARPA file of which the words have been read; the longer n-grams come next, order by order."""

    lines: Lines
    counts: list[int]
    vocab: Vocabulary
    p: Array
    bow: Array
    progress: Progress

    @property
    def order(self) -> int:
        return len(self.counts)

    def expect_end(self) -> None:
        _expect(self.lines, "\\end\\")
        trailing = self.lines.line()
        if trailing is not None:
            raise self.lines.error(
                f"'{to_str(trailing)}' after \\end\\; expected nothing more. Cut it off", self.lines.number - 1
            )
        self.progress.close()


def arpa_sections(path: str) -> ArpaSections:
    """Reads the header and the words of an ARPA file."""
    lines = Lines(path)
    counts = _read_header(lines)
    if sum(counts) >= _LARGE:
        let_go_of_compiler()
    progress = Progress(f"reading {path}", sum(counts), "n-grams")
    words = GrowingVocabulary()
    p, bow = _read_unigrams(lines, words, counts[0], len(counts) == 1, progress)
    vocab = words.freeze()
    for marker in (BOS, EOS):
        if vocab.id(marker) < 0:
            raise MdiError(f"{path}: no {marker} among the 1-grams; expected it, a model without it scores no sentence")
    p[vocab.bos] = 0.0  # <s> is never predicted; files say -99 or 0
    return ArpaSections(lines, counts, vocab, p, bow, progress)


def _read_text(path: str) -> NgramModel:
    file = arpa_sections(path)
    lines, vocab, order = file.lines, file.vocab, file.order
    trie, p, bow = unigram_trie(len(vocab)), [NONE, file.p], [np.ones(1)]
    row_bow = file.bow
    prefixes = _Prefixes()
    for k in range(1, order + 1):
        if k > 1:
            _expect(lines, rf"\{k}-grams:")
            trie = with_histories(trie)
            prefixes.add(trie)
            trie, row_p, row_bow = _read_order(lines, vocab, trie, prefixes, k, file.counts, file.progress)
            p.append(row_p)
        if k < order:
            trie = with_histories(trie)
            if not row_bow.max(initial=0.0) < np.inf:
                raise MdiError(
                    f"{lines.path}: a back-off weight of over 10^308 after a {k}-gram; expected a finite one"
                )
            bow.append(scattered(row_bow, trie.as_hist[k]))
    file.expect_end()
    return NgramModel(vocab, trie, p, bow)


def _read_header(lines: Lines) -> list[int]:
    while True:
        text = lines.line()
        if text is None:
            raise MdiError(f"{lines.path}: no \\data\\ line before the end; expected an ARPA language model")
        if text == b"\\data\\":
            break
    counts: list[int] = []
    size = None if lines.path == "-" else os.path.getsize(lines.path)
    while True:
        text = lines.line()
        number = lines.number - 1
        if text is None:
            raise lines.error("the file ends after \\data\\; expected 'ngram 1=' and so on", number)
        if text.startswith(b"\\"):
            break
        match = _COUNT.match(text)
        if not match:
            raise lines.error(
                f"'{to_str(text)}' in the header; expected 'ngram {len(counts) + 1}=COUNT' or \\1-grams:", number
            )
        k, count = int(match[1]), int(match[2])
        if k != len(counts) + 1:
            raise lines.error(
                f"'{to_str(text)}' in the header; expected the line of order {len(counts) + 1} here", number
            )
        if count < 0 or (k == 1 and count == 0):
            raise lines.error(f"'{to_str(text)}' in the header; expected a positive count", number)
        if size is not None and count > (size * _DEFLATE_MOST) // _SHORTEST_LINE + 1:
            raise lines.error(
                f"the header announces {count:,} {k}-grams, more than a file of {size:,} bytes can hold", number
            )
        counts.append(count)
    if not counts:
        raise lines.error(f"'{to_str(text)}' in the header; expected 'ngram 1=COUNT'", number)
    if text != b"\\1-grams:":
        raise lines.error(f"'{to_str(text)}'; expected \\1-grams:", number)
    return counts


def _expect(lines: Lines, directive: str) -> None:
    text = lines.line()
    if text is None:
        raise lines.error(f"the file ends; expected {directive}. It is cut off, copy or build it again", lines.number)
    if text != directive.encode():
        raise lines.error(f"'{to_str(text)}'; expected {directive}", lines.number - 1)


def _room(lines: Lines, count: int, have: int) -> int:
    """The header may lie, so arrays grow towards what it announces, unless a file of this size, hardly packed or not at
    all, may well have as many n-grams. Room that is not used costs nothing: pages come into being when they are
    written."""
    size = 0 if lines.path == "-" else os.path.getsize(lines.path)
    return count if count <= _USUAL_PACKING * size // _SHORTEST_LINE else min(count, max(1 << 24, 2 * have))


class _Prefixes:
    """What finds the history of a line, growing by one order at a time."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.arrays = kernels.Prefixes(np.zeros((1, 3), np.int64), NONE, NONE, NONE)

    def add(self, trie: Trie) -> None:
        """The rows of the highest order as histories."""
        if trie.order > 1:
            start, row_of = trie_kernels.rows_by_word(trie.word[trie.order], trie.n_words)
            at, *before = self.arrays
            here = [[len(part) for part in before]]
            added = zip(before, (trie.begin[trie.order], start, row_of), strict=True)
            joined = [new if not len(old) else np.concatenate([old, new]) for old, new in added]
            self.arrays = kernels.Prefixes(np.vstack([at, here]), *joined)


def _read_unigrams(
    lines: Lines, words: GrowingVocabulary, count: int, top: bool, progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    p = np.empty(_room(lines, count, 0))
    bow = np.empty(len(p))
    section = kernels.Section(1, top, count)
    while lines.fill():
        window = lines.windows[0]
        found = kernels.parse_unigrams(window.buffer, window.at, window.size, section, words.arrays, p, bow)
        window.at = found.line
        lines.number += found.lines
        progress.update(words.n)
        if found.why == kernels.DIRECTIVE:
            break
        if found.why == kernels.FULL:
            if words.n >= len(p):
                size = _room(lines, count, len(p))
                p, bow = widened(p, size), widened(bow, size)
            words.make_room(1024, window.size - found.line)
        elif found.why != kernels.DONE:
            _fail(lines, found.why, found.at, 1, count, words.n)
    _check_count(lines, 1, words.n, count)
    return p[: words.n].copy(), bow[: words.n].copy()


class _Rows:
    """The rows of one order as they are read. The place of each window's rows follows from the lines of those before
    it, so that threads fill them in; where lines are blank, rows are moved up afterwards."""

    def __init__(self, lines: Lines, count: int, top: bool) -> None:
        self.lines, self.count = lines, count
        self.size, self.next, self.n = _room(lines, count, 0), 0, 0
        self.arrays = [room.empty(self.size, np.int32), roomy(self.size, np.int32), roomy(self.size, float)]
        if not top:
            self.arrays.append(room.empty(self.size, float))

    def place(self, window: Window, idle: bool) -> tuple[int, kernels.ReadRows] | None:
        """(row, arrays from there on) for the rows of a window, never more than the header announced. None where there
        is no room as long as threads are not idle."""
        first = self.next
        end = min(self.count, first + kernels.count_lines(window.buffer, window.at, window.size))
        if end > self.size:
            if not idle:
                return None
            self.size = max(end, _room(self.lines, self.count, self.size))
            self.arrays = [widened(part, self.size) for part in self.arrays]
        self.next = end
        return first, _as_rows([part[first:end] for part in self.arrays])

    def add(self, first: int, part: kernels.ReadRows, n: int) -> None:
        """The next n rows are here."""
        if first != self.n:
            for to, piece in zip(self.arrays, part, strict=False):
                to[self.n : self.n + n] = piece[:n]
        self.n += n

    def apart(self) -> kernels.ReadRows:
        """Room elsewhere for the rows of a window that are still to come, and one more."""
        size = min(self.count - self.n, arpa_lines.WINDOW) + 1
        return _as_rows([np.empty(size, part.dtype) for part in self.arrays])

    def all(self) -> kernels.ReadRows:
        return _as_rows(self.arrays)


def _as_rows(arrays: list[Array]) -> kernels.ReadRows:
    """History, word, p, and the back-off weight unless it is the highest order."""
    return kernels.ReadRows(*arrays, *[np.empty(0)] * (4 - len(arrays)))


def _read_order(lines, vocab, trie: Trie, prefixes: _Prefixes, k: int, counts: list[int], progress: Progress):
    top, first_line = k == len(counts), lines.number
    hist, word, p, bow = _read_rows(lines, vocab, prefixes, k, counts, progress)
    begin, perm, twice = sort_rows(hist, word, trie.n_hist(k - 1))
    del hist
    if top:
        prefixes.clear()
    if twice >= 0:
        raise _duplicate(lines, first_line, k, twice)
    if perm is not None:
        word, p = word[perm], p[perm]
        bow = bow if top else bow[perm]
    return add_order(trie, begin, word), p, bow


def _read_rows(lines, vocab, prefixes: _Prefixes, k: int, counts: list[int], progress: Progress) -> kernels.ReadRows:
    count, top, before = counts[k - 1], k == len(counts), sum(counts[: k - 1])
    section, read = kernels.Section(k, top, MAX_ROWS), _Rows(lines, count, top)

    def parse(window: Window, place: tuple[int, kernels.ReadRows], section=section) -> kernels.Parsed:
        _, part = place
        return kernels.parse_ngrams(window.buffer, window.at, window.size, section, vocab.arrays, prefixes.arrays, part)

    for found, place in _parsed(lines, parse, read.place):
        window = lines.windows[0]
        if found.why not in (kernels.DONE, kernels.DIRECTIVE):
            # maybe for want of room, after blank lines; and rows beyond those announced are wrong whatever they are
            place = -1, read.apart()
            found = parse(window, place, section._replace(limit=count - read.n))
        window.at = found.line
        lines.number += found.lines
        if found.why not in (kernels.DONE, kernels.DIRECTIVE):
            _fail(lines, found.why, found.at, k, count, read.n)
        first, part = place
        read.add(first, part, found.n)
        progress.update(before + read.n)
        if found.why == kernels.DIRECTIVE:
            break
    _check_count(lines, k, read.n, count)
    return read.all()


def _parsed(
    lines: Lines, parse: Callable[[Window, Any], kernels.Parsed], place: Callable[[Window, bool], Any]
) -> Iterator[tuple[kernels.Parsed, Any]]:
    """What a parser found in each window, until nobody asks for more, and the place that its rows got;
    in the file's order, but several windows are worked on at a time. `place` is told whether none is at present, and
    otherwise may ask to wait for that, by None. What has been parsed beyond the section's end is parsed again by the
    next one."""
    jobs: deque = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        while lines.fill():
            while len(jobs) <= THREADS and (window := lines.ahead(len(jobs))) is not None:
                part = place(window, not jobs)
                if part is None:
                    break
                jobs.append((pool.submit(parse, window, part), part))
            job, part = jobs.popleft()
            yield job.result(), part


def _duplicate(lines: Lines, first_line: int, k: int, index: int) -> MdiError:
    """Finds the line of the n-gram that appears twice: read again, which only this error has to pay for."""
    number, seen = first_line, -1
    if lines.path != "-":
        again = Lines(lines.path)
        while again.number < first_line and again.line() is not None:
            pass
        text = b""
        while seen < index and (text := again.line() or b""):
            seen, number = seen + 1, again.number - 1
        words = " ".join(to_str(text).split()[1 : k + 1])
        return lines.error(f"the {k}-gram '{words}' appears twice; keep one of the two lines", number)
    return MdiError(f"standard input: {k}-gram number {index + 1} appears twice; keep one of the two lines")


def _check_count(lines: Lines, k: int, found: int, count: int) -> None:
    if found != count:
        raise lines.error(f"the {k}-gram section ends after {found:,} n-grams; the header announced {count:,}")


def _fail(lines: Lines, why: int, at: int, k: int, count: int, found: int) -> None:
    text = lines.field(at)
    field = re.split(r"[ \t]", text, maxsplit=1)[0]
    whole = lines.field(lines.windows[0].at).strip(" \t")
    n_words = len(re.split(r"[ \t]+", whole)) - 1
    if why == kernels.BAD_PROB:
        message = f"'{field}' in '{whole}'; expected a finite log10 probability first, such as -1.25 (-99 for zero)"
    elif why == kernels.POSITIVE_PROB:
        message = f"the log10 probability {field} is positive: '{whole}'; expected 0 or less. Build the model again"
    elif why == kernels.TOO_FEW_WORDS:
        plural = "word" if n_words == 1 else "words"
        message = f"{max(0, n_words)} {plural} in the {k}-gram section: '{whole}'; expected {k}"
    elif why == kernels.BAD_BOW:
        message = (
            f"'{text}' after the {k}-gram in '{whole}'; expected {k} words and then nothing or a finite back-off weight"
        )
    elif why == kernels.TOP_BOW:
        message = f"a back-off weight of {text} in '{whole}'; expected none, {k} is the highest order"
    elif why == kernels.UNKNOWN_WORD:
        message = f"the word '{field}' in '{whole}' is not among the 1-grams; expected every word there"
    elif why == kernels.NO_PREFIX:
        prefix = " ".join(re.split(r"[ \t]+", text)[: k - 1])
        message = f"'{whole}': its history '{prefix}' is not among the {k - 1}-grams; expected every history there"
    elif why == kernels.TOO_MANY:
        message = f"more {k}-grams than the {count:,} that the header announced, from '{whole}' on"
    else:
        message = f"the word '{field}' appears twice among the 1-grams; keep one of the two lines"
    raise lines.error(message)
