r"""ARPA files to and from `NgramModel`: the only place that knows log10, -99 and \data\.

Reads what SRILM, KenLM and IRSTLM write: tabs or spaces, CR LF, a byte order mark, comments before \data\, missing
back-off columns, gzip under any name. Anything else is an error that names the file and the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy as np

from mdi.errors import MdiError
from mdi.files import read_chunks, writing
from mdi.kernels import lexing
from mdi.model import NgramModel, close
from mdi.progress import Progress, say
from mdi.trie import NONE, Trie, add_order, padded, sort_rows, unigram_trie, with_histories
from mdi.vocabulary import BOS, EOS, GrowingVocabulary, to_str

# No n-gram line is shorter than "-1 a\n", and deflate packs at most about 1030 to 1.
_SHORTEST_LINE, _DEFLATE_MOST = 5, 1040
_LONGEST_LINE = 1 << 20
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*([-+]?\d+)\s*$")


class _Lines:
    """A window on the file that always ends at the end of a line, and the number of the line it begins with."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 1
        self.at = 0
        self.size = 0
        self.chunks: Iterator[bytes] = read_chunks(path)
        self.buffer = np.zeros(0, np.uint8)
        self.rest = b""
        self.passed = 0

    def fill(self) -> bool:
        """Next window. False at the end of the file."""
        if self.at < self.size:
            return True
        self.passed += self.size
        piece = self.rest
        for chunk in self.chunks:
            piece += chunk
            cut = piece.rfind(b"\n") + 1
            if cut:
                return self._show(piece[:cut], piece[cut:])
            if len(piece) > _LONGEST_LINE:
                raise self.error("a line of over a million bytes; expected an ARPA file")
        return self._show(piece + b"\n", b"") if piece else self._show(b"", b"")

    def _show(self, data: bytes, rest: bytes) -> bool:
        if self.passed == 0 and data.startswith(b"\xef\xbb\xbf"):
            data = data[3:]
        self.buffer = np.frombuffer(data, np.uint8)
        self.at, self.size, self.rest = 0, len(data), rest
        return bool(data)

    def line(self) -> bytes | None:
        """Takes the next line that is not blank, or None at the end of the file."""
        while self.fill():
            stop, after = lexing.line_bounds(self.buffer, self.at, self.size)
            text = self.buffer[self.at : stop].tobytes().lstrip(b" \t")
            self.at = int(after)
            self.number += 1
            if text:
                return text
        return None

    def field(self, at: int) -> str:
        stop, _ = lexing.line_bounds(self.buffer, at, self.size)
        return to_str(self.buffer[at:stop].tobytes())

    def error(self, message: str, number: int | None = None) -> MdiError:
        return MdiError(f"{self.path}:{self.number if number is None else number}: {message}")


def read_arpa(path: str, *, quiet: bool = False, closed: bool = True) -> NgramModel:
    """Reads a model and closes its trie. Probabilities are those of the file; `<s>` is never predicted.

    With `closed` false the n-grams are the file's own, and suffixes that were pruned away stay missing (-1 in the trie).
    """
    lines = _Lines(path)
    counts = _read_header(lines)
    order = len(counts)
    progress = Progress(f"reading {path}", sum(counts), "n-grams")
    words = GrowingVocabulary()
    trie, p, bow = None, [NONE], [np.ones(1)]
    for k in range(1, order + 1):
        if k > 1:
            _expect(lines, rf"\{k}-grams:")
        if k == 1:
            row_p, row_bow = _read_unigrams(lines, words, counts[0], order == 1, progress)
            vocab = words.freeze()
            for marker in (BOS, EOS):
                if vocab.id(marker) < 0:
                    raise MdiError(f"{path}: no {marker} among the 1-grams; expected it, a model without it scores no sentence")
            row_p[vocab.bos] = 0.0  # <s> is never predicted; files say -99 or 0
            trie = unigram_trie(len(vocab))
        else:
            trie = with_histories(trie)
            trie, row_p, row_bow = _read_order(lines, vocab, trie, k, counts, progress)
        p.append(row_p)
        if k < order:
            trie = with_histories(trie)
            by_hist = np.empty(len(row_bow))
            by_hist[trie.as_hist[k]] = row_bow
            bow.append(by_hist)
    _expect(lines, "\\end\\")
    trailing = lines.line()
    if trailing is not None:
        raise lines.error(f"'{to_str(trailing)}' after \\end\\; expected nothing more. Cut it off", lines.number - 1)
    progress.close()
    model = NgramModel(vocab, trie, p, bow)
    if not closed:
        return model
    whole = close(model)
    added = sum(whole.trie.counts) - sum(model.trie.counts)
    if added and not quiet:
        say(f"{path}: {added:,} suffixes of n-grams are missing (a pruned model); added with their backed-off probabilities")
    return whole


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
            raise lines.error(f"'{to_str(text)}' in the header; expected 'ngram {len(counts) + 1}=COUNT' or \\1-grams:", number)
        k, count = int(match[1]), int(match[2])
        if k != len(counts) + 1:
            raise lines.error(f"'{to_str(text)}' in the header; expected the line of order {len(counts) + 1} here", number)
        if count < 0 or (k == 1 and count == 0):
            raise lines.error(f"'{to_str(text)}' in the header; expected a positive count", number)
        if size is not None and count > (size * _DEFLATE_MOST) // _SHORTEST_LINE + 1:
            raise lines.error(f"the header announces {count:,} {k}-grams, more than a file of {size:,} bytes can hold", number)
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
    """The header may lie, so arrays grow towards what it announces instead of starting there."""
    return min(count, max(1 << 20, 2 * have))


def _read_unigrams(
    lines: _Lines, words: GrowingVocabulary, count: int, top: bool, progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    p = np.empty(_room(count, 0))
    bow = np.empty(len(p))
    while lines.fill():
        why, line, at, words.n, passed = lexing.parse_unigrams(
            lines.buffer, lines.at, lines.size, top, count, words.table, words.blob, words.offset, words.n, p, bow
        )
        lines.at = line
        lines.number += passed
        progress.update(words.n)
        if why == lexing.DIRECTIVE:
            break
        if why == lexing.FULL:
            if words.n >= len(p):
                p, bow = _grown(p, _room(count, len(p))), _grown(bow, _room(count, len(p)))
            words.make_room(1024, lines.size - line)
        elif why != lexing.DONE:
            _fail(lines, why, at, 1, count, words.n)
    _check_count(lines, 1, words.n, count)
    return p[: words.n].copy(), bow[: words.n].copy()


def _read_order(lines, vocab, trie: Trie, k: int, counts: list[int], progress: Progress):
    count, top = counts[k - 1], k == len(counts)
    size = _room(count, 0)
    hist, word, p = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size)
    bow = np.empty(0 if top else size)
    ids = np.zeros(k, np.int64)
    tables = (vocab.table, vocab.blob, vocab.offset)
    lower = padded(trie.begin[1:k]), padded(trie.word[1:k]), padded(trie.as_hist[1:k])
    n, before = 0, sum(counts[: k - 1])
    first_line = lines.number
    while lines.fill():
        why, line, at, n, passed = lexing.parse_ngrams(
            lines.buffer, lines.at, lines.size, k, top, count, tables, *lower, ids, n, hist, word, p, bow
        )
        lines.at = line
        lines.number += passed
        progress.update(before + n)
        if why == lexing.DIRECTIVE:
            break
        if why == lexing.FULL:
            size = _room(count, size)
            hist, word, p = _grown(hist, size), _grown(word, size), _grown(p, size)
            bow = bow if top else _grown(bow, size)
        elif why != lexing.DONE:
            _fail(lines, why, at, k, count, n)
    _check_count(lines, k, n, count)
    hist, word, p = hist[:n], word[:n], p[:n]
    bow = bow if top else bow[:n]
    begin, perm, twice = sort_rows(hist, word, trie.n_hist(k - 1))
    if twice >= 0:
        raise _duplicate(lines, first_line, k, twice)
    if perm is not None:
        word, p = word[perm], p[perm]
        bow = bow if top else bow[perm]
    else:
        word, p = word.copy(), p.copy()
    return add_order(trie, begin, word), p, bow


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
    whole = lines.field(lines.at).strip(" \t")
    n_words = len(re.split(r"[ \t]+", whole)) - 1
    if why == lexing.BAD_PROB:
        message = f"'{field}' in '{whole}'; expected a finite log10 probability first, such as -1.25 (-99 for zero)"
    elif why == lexing.POSITIVE_PROB:
        message = f"the log10 probability {field} is positive: '{whole}'; expected 0 or less. Build the model again"
    elif why == lexing.TOO_FEW_WORDS:
        plural = "word" if n_words == 1 else "words"
        message = f"{max(0, n_words)} {plural} in the {k}-gram section: '{whole}'; expected {k}"
    elif why == lexing.BAD_BOW:
        message = f"'{text}' after the {k}-gram in '{whole}'; expected {k} words and then nothing or a finite back-off weight"
    elif why == lexing.TOP_BOW:
        message = f"a back-off weight of {text} in '{whole}'; expected none, {k} is the highest order"
    elif why == lexing.UNKNOWN_WORD:
        message = f"the word '{field}' in '{whole}' is not among the 1-grams; expected every word there"
    elif why == lexing.NO_PREFIX:
        prefix = " ".join(re.split(r"[ \t]+", text)[: k - 1])
        message = f"'{whole}': its history '{prefix}' is not among the {k - 1}-grams; expected every history there"
    elif why == lexing.TOO_MANY:
        message = f"more {k}-grams than the {count:,} that the header announced, from '{whole}' on"
    else:
        message = f"the word '{field}' stands twice among the 1-grams; keep one of the two lines"
    raise lines.error(message)


def write_arpa(model: NgramModel, path: str) -> None:
    """Writes seven significant digits, as SRILM does, in SRILM's order."""
    trie, vocab = model.trie, model.vocab
    out = np.empty(1 << 22, np.uint8)
    progress = Progress(f"writing {path}", sum(trie.counts), "n-grams")
    done = 0
    with writing(path) as stream:
        stream.write(b"\n\\data\\\n")
        for k, count in enumerate(trie.counts, 1):
            stream.write(b"ngram %d=%d\n" % (k, count))
        prefix_hists = padded([trie.hist_of_rows(j) for j in range(1, trie.order)])
        prefix_rows, prefix_words = padded(trie.row_of_hist[1:]), padded(trie.word[1:])
        for k in range(1, trie.order + 1):
            stream.write(b"\n\\%d-grams:\n" % k)
            top = k == trie.order
            row, hist = 0, 0
            ids = np.zeros(k, np.int64)
            longer = NONE if top else trie.begin[k + 1]
            as_hist, bow = (NONE, np.zeros(0)) if top else (trie.as_hist[k], model.bow[k])
            while row < trie.rows(k):
                before = row
                row, hist, size = lexing.format_ngrams(
                    k, top, row, hist, trie.begin[k], trie.word[k], prefix_hists, prefix_rows, prefix_words,
                    model.p[k], bow, as_hist, longer, vocab.blob, vocab.offset, ids, out,
                )  # fmt: skip
                if row == before:
                    out = np.empty(2 * len(out), np.uint8)
                stream.write(out[:size].data)
                progress.update(done + row)
            done += trie.rows(k)
        stream.write(b"\n\\end\\\n")
    progress.close()
