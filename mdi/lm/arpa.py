r"""ARPA files to and from `NgramModel`: the only place that knows log10, -99 and \data\.

Reads what SRILM, KenLM and IRSTLM write: tabs or spaces, CR LF, a byte order mark, comments before \data\, missing
back-off columns, gzip under any name. Anything else is an error that names the file and the line.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mdi.errors import MdiError
from mdi.files import read_ahead, read_chunks, writing_blocks
from mdi.kernels import arpa as arpas
from mdi.kernels import text as lexing
from mdi.kernels import trie as tries
from mdi.lm import cache
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.trie import MAX_ROWS, NONE, Array, Trie, add_order, sort_rows, unigram_trie, with_histories
from mdi.lm.vocabulary import BOS, EOS, GrowingVocabulary, to_str
from mdi.progress import Progress, say

# No n-gram line is shorter than "-1 a\n", and deflate packs at most about 1030 to 1.
_SHORTEST_LINE, _DEFLATE_MOST = 5, 1040
_LONGEST_LINE = 1 << 20
# Files are parsed in windows of this size, several at a time.
_WINDOW = 1 << 22
# Rows that are written at a time.
_BLOCK = 1 << 15
_THREADS = min(4, os.cpu_count() or 1)
_thread = threading.local()
_NO_FLAGS = np.zeros(0, bool)
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*([-+]?\d+)\s*$")


@dataclass
class _Window:
    """Whole lines; `at` is where those begin that have not been read."""

    buffer: np.ndarray
    at: int = 0

    @property
    def size(self) -> int:
        return len(self.buffer)


class _Lines:
    """The file as windows of whole lines, and the number of the line that is next. Windows may be looked at before
    their turn."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 1
        self.chunks: Iterator[bytes] = read_ahead(read_chunks(path, _WINDOW))
        self.windows: deque[_Window] = deque()
        self.rest = b""
        self.started = self.ended = False
        self.failure: MdiError | None = None

    def ahead(self, i: int) -> _Window | None:
        """The i-th window from here, None beyond the end of the file. What is wrong there is said when its turn
        comes."""
        while len(self.windows) <= i and not self.ended:
            try:
                self._load()
            except MdiError as error:
                self.failure, self.ended = error, True
        return self.windows[i] if i < len(self.windows) else None

    def fill(self) -> bool:
        """Whether there is another line."""
        while (window := self.ahead(0)) is not None and window.at >= window.size:
            self.windows.popleft()
        if window is None and self.failure is not None:
            raise self.failure
        return window is not None

    def _load(self) -> None:
        parts = [self.rest]
        for chunk in self.chunks:
            cut = chunk.rfind(b"\n") + 1
            if cut:
                self.rest = chunk[cut:]
                return self._show(b"".join([*parts, memoryview(chunk)[:cut]]))
            parts.append(chunk)
            if sum(map(len, parts)) > _LONGEST_LINE:
                raise MdiError(f"{self.path}: a line of over a million bytes; expected an ARPA file")
        self.ended = True
        last = b"".join(parts)
        if last:
            self._show(last + b"\n")

    def _show(self, data: bytes) -> None:
        if not self.started and data.startswith(b"\xef\xbb\xbf"):
            data = data[3:]
        self.started = True
        self.windows.append(_Window(np.frombuffer(data, np.uint8)))

    def line(self) -> bytes | None:
        """Takes the next line that is not blank, or None at the end of the file."""
        while self.fill():
            window = self.windows[0]
            stop, after = lexing.line_bounds(window.buffer, window.at, window.size)
            text = window.buffer[window.at : stop].tobytes().lstrip(b" \t")
            window.at = int(after)
            self.number += 1
            if text:
                return text
        return None

    def field(self, at: int) -> str:
        """From a byte of this window to the end of its line."""
        window = self.windows[0]
        stop, _ = lexing.line_bounds(window.buffer, at, window.size)
        return to_str(window.buffer[at:stop].tobytes())

    def error(self, message: str, number: int | None = None) -> MdiError:
        return MdiError(f"{self.path}:{self.number if number is None else number}: {message}")


def read_arpa(path: str | os.PathLike, *, quiet: bool = False, closed: bool = True) -> NgramModel:
    """Reads a model and closes its trie. Probabilities are those of the file; `<s>` is never predicted.

    With `closed` false the n-grams are the file's own, and suffixes that were pruned away stay missing (-1 in the
    trie). With MDI_CACHE set, what has been read before is loaded from there: see mdi/lm/cache.py.
    """
    path = os.fspath(path)
    kept = cache.cache_file(path, closed)
    if kept is not None and os.path.exists(path):
        model = cache.load(path, kept)
        if model is not None:
            return model
    model = _read_text(path)
    if closed:
        whole = with_suffixes(model)
        added = sum(whole.trie.counts) - sum(model.trie.counts)
        if added and not quiet:
            say(
                f"{path}: {added:,} suffixes of n-grams are missing (a pruned model); added with their backed-off "
                f"probabilities"
            )
        model = whole
    if kept is not None:
        cache.save(model, path, kept)
    return model


def _read_text(path: str) -> NgramModel:
    lines = _Lines(path)
    counts = _read_header(lines)
    order = len(counts)
    progress = Progress(f"reading {path}", sum(counts), "n-grams")
    words = GrowingVocabulary()
    trie, p, bow = None, [NONE], [np.ones(1)]
    prefixes = _Prefixes()
    for k in range(1, order + 1):
        if k > 1:
            _expect(lines, rf"\{k}-grams:")
        if k == 1:
            row_p, row_bow = _read_unigrams(lines, words, counts[0], order == 1, progress)
            vocab = words.freeze()
            for marker in (BOS, EOS):
                if vocab.id(marker) < 0:
                    raise MdiError(
                        f"{path}: no {marker} among the 1-grams; expected it, a model without it scores no sentence"
                    )
            row_p[vocab.bos] = 0.0  # <s> is never predicted; files say -99 or 0
            trie = unigram_trie(len(vocab))
        else:
            trie = with_histories(trie)
            prefixes.add(trie)
            trie, row_p, row_bow = _read_order(lines, vocab, trie, prefixes, k, counts, progress)
        p.append(row_p)
        if k < order:
            trie = with_histories(trie)
            bow.append(tries.scattered(row_bow, trie.as_hist[k]))
    _expect(lines, "\\end\\")
    trailing = lines.line()
    if trailing is not None:
        raise lines.error(f"'{to_str(trailing)}' after \\end\\; expected nothing more. Cut it off", lines.number - 1)
    progress.close()
    return NgramModel(vocab, trie, p, bow)


def _read_header(lines: _Lines) -> list[int]:
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


def _expect(lines: _Lines, directive: str) -> None:
    text = lines.line()
    if text is None:
        raise lines.error(f"the file ends; expected {directive}. It is cut off, copy or build it again", lines.number)
    if text != directive.encode():
        raise lines.error(f"'{to_str(text)}'; expected {directive}", lines.number - 1)


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    bigger = np.empty(size, array.dtype)
    bigger[: len(array)] = array
    return bigger


def _room(count: int, have: int) -> int:
    """The header may lie, so arrays grow towards what it announces instead of starting there. Room that is not used
    costs nothing: pages come into being when they are written."""
    return min(count, max(1 << 24, 2 * have))


class _Prefixes:
    """What finds the history of a line: see _find_history in mdi/kernels/arpa.py. Words, length 1, need no search."""

    def __init__(self) -> None:
        self.level = np.zeros((1, 3), np.int64)
        self.begin = self.start = self.row_of = NONE

    def add(self, trie: Trie) -> None:
        """The rows of the highest order as histories."""
        if trie.order > 1:
            start, row_of = tries.rows_by_word(trie.word[trie.order], trie.n_words)
            self.level = np.vstack([self.level, [[len(self.begin), len(self.start), len(self.row_of)]]])
            self.begin = np.concatenate([self.begin, trie.begin[trie.order]])
            self.start = np.concatenate([self.start, start])
            self.row_of = np.concatenate([self.row_of, row_of])

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.level, self.begin, self.start, self.row_of


def _read_unigrams(
    lines: _Lines, words: GrowingVocabulary, count: int, top: bool, progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    p = np.empty(_room(count, 0))
    bow = np.empty(len(p))
    while lines.fill():
        window = lines.windows[0]
        why, line, at, words.n, passed = arpas.parse_unigrams(
            window.buffer, window.at, window.size, top, count, words.table, words.blob, words.offset, words.n, p, bow
        )
        window.at = line
        lines.number += passed
        progress.update(words.n)
        if why == arpas.DIRECTIVE:
            break
        if why == arpas.FULL:
            if words.n >= len(p):
                p, bow = _grown(p, _room(count, len(p))), _grown(bow, _room(count, len(p)))
            words.make_room(1024, window.size - line)
        elif why != arpas.DONE:
            _fail(lines, why, at, 1, count, words.n)
    _check_count(lines, 1, words.n, count)
    return p[: words.n].copy(), bow[: words.n].copy()


def _read_order(lines, vocab, trie: Trie, prefixes: _Prefixes, k: int, counts: list[int], progress: Progress):
    count, top = counts[k - 1], k == len(counts)
    size = _room(count, 0)
    hist, word, p = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size)
    bow = np.empty(0 if top else size)
    shared = (vocab.table, vocab.blob, vocab.offset), *prefixes.arrays()
    n, before, first_line = 0, sum(counts[: k - 1]), lines.number
    for why, line, at, rows, passed, part in _parsed(lines, k, top, shared):
        if n + rows > count or (n + rows == count and why not in (arpas.DONE, arpas.DIRECTIVE)):
            window = lines.windows[0]
            found = arpas.parse_ngrams(window.buffer, window.at, window.size, k, top, count - n, *shared, *part)
            why, line, at, rows, passed = found
        window = lines.windows[0]
        window.at = line
        lines.number += passed
        if why not in (arpas.DONE, arpas.DIRECTIVE):
            _fail(lines, why, at, k, count, n)
        if n + rows > size:
            size = max(n + rows, _room(count, size))
            hist, word, p = _grown(hist, size), _grown(word, size), _grown(p, size)
            bow = bow if top else _grown(bow, size)
        for whole, piece in zip((hist, word, p) if top else (hist, word, p, bow), part, strict=False):
            whole[n : n + rows] = piece[:rows]
        n += rows
        progress.update(before + n)
    _check_count(lines, k, n, count)
    if n < size:
        hist, word, p, bow = hist[:n], word[:n].copy(), p[:n].copy(), bow[:n]
    begin, perm, twice = sort_rows(hist, word, trie.n_hist(k - 1))
    del hist
    if twice >= 0:
        raise _duplicate(lines, first_line, k, twice)
    if perm is not None:
        word, p = word[perm], p[perm]
        bow = bow if top else bow[perm]
    return add_order(trie, begin, word), p, bow


def _parsed(lines: _Lines, k: int, top: bool, shared: tuple) -> Iterator[tuple]:
    """What parse_ngrams found in each window up to the end of the section, with the arrays it filled; in the file's
    order, but several windows are worked on at a time. What has been parsed beyond the section's end is parsed again
    by the next one."""
    spare: list[tuple] = []
    jobs: deque = deque()

    def parse(window: _Window, part: tuple) -> tuple:
        return *arpas.parse_ngrams(window.buffer, window.at, window.size, k, top, MAX_ROWS, *shared, *part), part

    with ThreadPoolExecutor(_THREADS) as pool:
        while lines.fill():
            while len(jobs) <= _THREADS and (window := lines.ahead(len(jobs))) is not None:
                room = window.size // (2 * k + 2) + 1  # "0 a b\n" is the shortest line
                part = spare.pop() if spare else (NONE, NONE, NONE, NONE)
                if len(part[0]) < room:
                    room += room // 8
                    part = (
                        np.empty(room, np.int32),
                        np.empty(room, np.int32),
                        np.empty(room),
                        np.empty(0 if top else room),
                    )
                jobs.append(pool.submit(parse, window, part))
            found = jobs.popleft().result()
            yield found
            spare.append(found[-1])
            if found[0] != arpas.DONE:
                return


def _duplicate(lines: _Lines, first_line: int, k: int, index: int) -> MdiError:
    """Finds the line of the n-gram that stands twice: read again, which only this error has to pay for."""
    number, seen = first_line, -1
    if lines.path != "-":
        again = _Lines(lines.path)
        while again.number < first_line and again.line() is not None:
            pass
        text = b""
        while seen < index and (text := again.line() or b""):
            seen, number = seen + 1, again.number - 1
        words = " ".join(to_str(text).split()[1 : k + 1])
        return lines.error(f"the {k}-gram '{words}' stands twice; keep one of the two lines", number)
    return MdiError(f"standard input: {k}-gram number {index + 1} stands twice; keep one of the two lines")


def _check_count(lines: _Lines, k: int, found: int, count: int) -> None:
    if found != count:
        raise lines.error(f"the {k}-gram section ends after {found:,} n-grams; the header announced {count:,}")


def _fail(lines: _Lines, why: int, at: int, k: int, count: int, found: int) -> None:
    text = lines.field(at)
    field = re.split(r"[ \t]", text, maxsplit=1)[0]
    whole = lines.field(lines.windows[0].at).strip(" \t")
    n_words = len(re.split(r"[ \t]+", whole)) - 1
    if why == arpas.BAD_PROB:
        message = f"'{field}' in '{whole}'; expected a finite log10 probability first, such as -1.25 (-99 for zero)"
    elif why == arpas.POSITIVE_PROB:
        message = f"the log10 probability {field} is positive: '{whole}'; expected 0 or less. Build the model again"
    elif why == arpas.TOO_FEW_WORDS:
        plural = "word" if n_words == 1 else "words"
        message = f"{max(0, n_words)} {plural} in the {k}-gram section: '{whole}'; expected {k}"
    elif why == arpas.BAD_BOW:
        message = (
            f"'{text}' after the {k}-gram in '{whole}'; expected {k} words and then nothing or a finite back-off weight"
        )
    elif why == arpas.TOP_BOW:
        message = f"a back-off weight of {text} in '{whole}'; expected none, {k} is the highest order"
    elif why == arpas.UNKNOWN_WORD:
        message = f"the word '{field}' in '{whole}' is not among the 1-grams; expected every word there"
    elif why == arpas.NO_PREFIX:
        prefix = " ".join(re.split(r"[ \t]+", text)[: k - 1])
        message = f"'{whole}': its history '{prefix}' is not among the {k - 1}-grams; expected every history there"
    elif why == arpas.TOO_MANY:
        message = f"more {k}-grams than the {count:,} that the header announced, from '{whole}' on"
    else:
        message = f"the word '{field}' stands twice among the 1-grams; keep one of the two lines"
    raise lines.error(message)


class HasModel(Protocol):
    """What carries a model: an `Adapted`, a `Tuned`."""

    @property
    def model(self) -> NgramModel: ...


def write_arpa(model: NgramModel | HasModel, path: str | os.PathLike, keep: list[Array] | None = None) -> None:
    """Writes a model, or that of an adaptation: seven significant digits, as SRILM does, in SRILM's order, gzipped if
    the name ends in .gz.

    With `keep` only the rows whose flags are set; those left out must be what backing off gives.
    """
    path = os.fspath(path)
    model = model if isinstance(model, NgramModel) else model.model
    trie = model.trie
    counts = trie.counts if keep is None else [int(part.sum()) for part in keep[1:]]
    progress = Progress(f"writing {path}", sum(trie.counts), "n-grams")
    spelling = _spelling(trie)
    done = 0
    with writing_blocks(path, _THREADS) as put:
        header = (f"ngram {k}={count}\n" for k, count in enumerate(counts, 1))
        put("\n\\data\\\n{}".format("".join(header)).encode)
        for k in range(1, trie.order + 1):
            put(f"\n\\{k}-grams:\n".encode)
            for row in range(0, trie.rows(k), _BLOCK):
                end = min(row + _BLOCK, trie.rows(k))
                put(_format, model, keep, k, row, end, spelling)
                progress.update(done + end)
            done += trie.rows(k)
        put("\n\\end\\\n".encode)
    progress.close()


def _spelling(trie: Trie) -> tuple[np.ndarray, ...]:
    """(level, prefix, last) of all histories of two words and more that have rows: see format_ngrams in
    mdi/kernels/arpa.py."""
    lengths = range(2, trie.order)
    level = np.cumsum([0, *(trie.rows(j) for j in lengths)])
    prefix, last = np.empty(level[-1], np.int32), np.empty(level[-1], np.int32)
    for j, begin in zip(lengths, level, strict=False):
        here = slice(begin, begin + trie.rows(j))
        tries.spell_histories(trie.begin[j], trie.word[j], trie.as_hist[j], prefix[here], last[here])
    return level, prefix, last


def _format(
    model: NgramModel, keep: list[Array] | None, k: int, row: int, end: int, spelling: tuple[Array, ...]
) -> bytes | memoryview:
    trie, vocab, top = model.trie, model.vocab, k == model.order
    flags, flags_above = (_NO_FLAGS, _NO_FLAGS) if keep is None else (keep[k], _NO_FLAGS if top else keep[k + 1])
    above = (np.zeros(0), NONE, NONE) if top else (model.bow[k], trie.as_hist[k], trie.begin[k + 1])
    pieces = []
    # each thread has one buffer for all its blocks: fresh memory would cost as much as the formatting of numbers
    out = getattr(_thread, "out", NONE)
    if len(out) < _BLOCK * (lexing.LINE_ROOM + 8 * k):
        out = _thread.out = np.empty(_BLOCK * (lexing.LINE_ROOM + 8 * k), np.uint8)
    while True:
        reached, size = arpas.format_ngrams(
            k, top, row, end, flags, trie.begin[k], trie.word[k], *spelling, model.p[k], *above, flags_above,
            vocab.blob,
            vocab.offset, out,
        )  # fmt: skip
        if reached == end and not pieces:
            return out[:size].data
        pieces.append(out[:size].tobytes())
        if reached == end:
            return b"".join(pieces)
        if reached == row:
            out = np.empty(2 * len(out), np.uint8)
        row = reached
