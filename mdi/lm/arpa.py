r"""ARPA files to `NgramModel`. With `arpa_write` and `arpa_lines` the only place that knows log10, -99 and \data\.

Reads what SRILM, KenLM and IRSTLM write: tabs or spaces, CR LF, a byte order mark, comments before \data\, missing
back-off columns, gzip under any name. Anything else is an error that names the file and the line.
"""

import os
import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np

from mdi import room
from mdi.errors import MdiError
from mdi.kernels import arpa as kernels
from mdi.kernels import trie as trie_kernels
from mdi.kernels.text import DIRECTIVE, DONE, Words
from mdi.lm.arpa_lines import Lines, Window
from mdi.lm.arpa_write import HasModel, write_arpa
from mdi.lm.model import NgramModel, extend
from mdi.lm.trie import (
    MAX_ROWS,
    NONE,
    Array,
    Trie,
    add_order,
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
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*([-+]?\d+)\s*$")


def read_arpa(path: str | os.PathLike[str], *, quiet: bool = False, closed: bool = True) -> NgramModel:
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
    model = _read_text(path)
    if closed:
        close(model, path, quiet)
    return model


def close(model: NgramModel, path: str, quiet: bool) -> None:
    """Adds the suffixes that a model which was read lacks, in place, and says so."""
    if is_closed(model.trie):
        return
    before = sum(model.trie.counts)
    extend(model, missing_suffixes(model.trie))
    if not quiet:
        logger.info(
            f"{path}: {sum(model.trie.counts) - before:,} suffixes of n-grams are missing (a pruned model); added with "
            f"their backed-off probabilities"
        )


def _read_text(path: str) -> NgramModel:
    """The n-grams of the file, order by order."""
    lines = Lines(path)
    counts = _read_header(lines)
    order = len(counts)
    if sum(counts) >= _LARGE:
        let_go_of_compiler()
    with Progress(f"reading {path}", sum(counts), "n-grams") as progress:
        prefixes = kernels.Prefixes(np.zeros((1, 3), np.int64), NONE, NONE, NONE)
        vocab, row_p, row_bow = _read_unigrams(lines, prefixes, counts, progress)
        trie, p, bow = unigram_trie(len(vocab)), [NONE, row_p], [np.ones(1)]
        for k in range(2, order + 1):
            if not row_bow.max(initial=0.0) < np.inf:
                raise MdiError(f"{path}: a back-off weight of over 10^308 after a {k - 1}-gram; expected a finite one")
            trie = with_histories(trie)
            bow.append(scattered(row_bow, trie.as_hist[k - 1]))
            _expect(lines, rf"\{k}-grams:")
            prefixes, first_line = _with_order(prefixes, trie), lines.number
            hist, word, row_p, row_bow = _read_rows(lines, vocab, prefixes, k, counts, progress)
            begin, perm, twice = sort_rows(hist, word, trie.n_hist(k - 1))
            del hist
            if k == order:
                del prefixes
            if twice >= 0:
                raise _duplicate(lines, first_line, k, twice)
            word, row_p = word[perm], row_p[perm]
            row_bow = row_bow if k == order else row_bow[perm]
            trie = add_order(trie, begin, word)
            p.append(row_p)
        _expect(lines, "\\end\\")
        trailing = lines.line()
        if trailing is not None:
            raise lines.error(
                f"'{to_str(trailing)}' after \\end\\; expected nothing more. Cut it off", lines.number - 1
            )
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
        text, k = lines.line(), len(counts) + 1
        number = lines.number - 1
        if text is None:
            raise lines.error("the file ends after \\data\\; expected 'ngram 1=' and so on", number)
        if text.startswith(b"\\"):
            break
        match = _COUNT.match(text)
        found, count = map(int, match.groups()) if match else (0, 0)
        if found != k or count < 0 or (k == 1 and count == 0):
            expected = f"the line of order {k} here" if match else f"'ngram {k}=COUNT' or \\1-grams:"
            expected = "a positive count" if found == k else expected
            raise lines.error(f"'{to_str(text)}' in the header; expected {expected}", number)
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


def _with_order(prefixes: kernels.Prefixes, trie: Trie) -> kernels.Prefixes:
    """What finds the history of a line, with the rows of the trie's highest order as histories."""
    k = trie.order
    if k == 1:
        return prefixes
    row_of = np.empty(trie.rows(k), np.int32)
    trie_kernels.scatter(np.arange(len(row_of), dtype=np.int32), trie.as_hist[k], row_of)
    at, *before = prefixes
    here = [[len(part) for part in before]]
    added = zip(before, (trie.begin[k], trie.first_hists(k), row_of), strict=True)
    joined = [new if not len(old) else np.concatenate([old, new]) for old, new in added]
    return kernels.Prefixes(np.vstack([at, here]), *joined)


def _parse(
    window: Window, section: kernels.Section, words: Words, prefixes: kernels.Prefixes
) -> tuple[kernels.Parsed, kernels.ReadRows]:
    most = window.count_lines()
    rows = kernels.ReadRows(
        np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most), np.empty(0 if section.top else most)
    )
    return kernels.parse_ngrams(window.buffer, window.at, window.size, section, words, prefixes, rows), rows


def _read_unigrams(
    lines: Lines, prefixes: kernels.Prefixes, counts: list[int], progress: Progress
) -> tuple[Vocabulary, Array, Array]:
    """(words, p, back-off weight of each)"""
    words, parts = GrowingVocabulary(), [(np.zeros(0), np.zeros(0))]
    while lines.fill():
        window, section = lines.windows[0], kernels.Section(1, len(counts) == 1, counts[0] - len(words))
        words.make_room(window.count_lines(), window.size - window.at)
        found, rows = _parse(window, section, words.arrays, prefixes)
        parts.append((rows.p[: found.n], rows.bow[: found.n]))
        progress.update(len(words))
        if _passed(lines, found, 1, counts[0]):
            break
    _check_count(lines, 1, len(words), counts[0])
    vocab, (p, bow) = words.freeze(), map(np.concatenate, zip(*parts, strict=True))
    for marker in (BOS, EOS):
        if vocab.id(marker) < 0:
            raise MdiError(
                f"{lines.path}: no {marker} among the 1-grams; expected it, a model without it scores no sentence"
            )
    p[vocab.bos] = 0.0  # <s> is never predicted; files say -99 or 0
    return vocab, p, bow


def _read_rows(
    lines: Lines, vocab: Vocabulary, prefixes: kernels.Prefixes, k: int, counts: list[int], progress: Progress
) -> kernels.ReadRows:
    """The n-grams of one order as the file has them. Several windows are parsed at a time; what is parsed beyond the
    section's end, the next section parses again."""
    count, top, n = counts[k - 1], k == len(counts), 0
    size = _room(lines, count, 0)
    arrays = [room.empty(size, np.int32), roomy(size, np.int32), roomy(size, float)]
    arrays += [] if top else [room.empty(size, float)]

    section = kernels.Section(k, top, MAX_ROWS)
    jobs: deque[Future[tuple[kernels.Parsed, kernels.ReadRows]]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        while lines.fill():
            while len(jobs) <= THREADS and (window := lines.ahead(len(jobs))) is not None:
                jobs.append(pool.submit(_parse, window, section, vocab.arrays, prefixes))
            found, rows = jobs.popleft().result()
            if found.why not in (DONE, DIRECTIVE) or n + found.n > count:
                # rows beyond those announced are wrong, whatever comes behind them
                found, rows = _parse(lines.windows[0], section._replace(limit=count - n), vocab.arrays, prefixes)
            ended, end = _passed(lines, found, k, count), n + found.n
            if end > len(arrays[0]):
                size = max(end, _room(lines, count, len(arrays[0])))
                arrays = [widened(part, size) for part in arrays]
            for whole, part in zip(arrays, rows, strict=False):
                whole[n:end] = part[: found.n]
            n = end
            progress.update(sum(counts[: k - 1]) + n)
            if ended:
                break
    _check_count(lines, k, n, count)
    return kernels.ReadRows(*arrays, *([np.empty(0)] if top else []))


def _passed(lines: Lines, found: kernels.Parsed, k: int, count: int) -> bool:
    """Takes what a parser has passed; whether the section has ended. An error where it stopped at something else."""
    lines.windows[0].at = found.line
    lines.number += found.lines
    if found.why not in (DONE, DIRECTIVE):
        _fail(lines, found.why, found.at, k, count)
    return found.why == DIRECTIVE


def _duplicate(lines: Lines, first_line: int, k: int, index: int) -> MdiError:
    """Finds the line of the n-gram that appears twice: read again, which only this error has to pay for."""
    if lines.path != "-":
        again = Lines(lines.path)
        section = (text for text in iter(again.line, None) if again.number > first_line)
        words = " ".join(to_str(next(islice(section, index, None), b"")).split()[1 : k + 1])
        return lines.error(f"the {k}-gram '{words}' appears twice; keep one of the two lines", again.number - 1)
    return MdiError(f"standard input: {k}-gram number {index + 1} appears twice; keep one of the two lines")


def _check_count(lines: Lines, k: int, found: int, count: int) -> None:
    if found != count:
        raise lines.error(f"the {k}-gram section ends after {found:,} n-grams; the header announced {count:,}")


# What is wrong with a line.
_WRONG = {
    kernels.BAD_PROB: "'{field}' in '{line}'; expected a finite log10 probability first, such as -1.25 (-99 for zero)",
    kernels.POSITIVE_PROB: (
        "the log10 probability {field} is positive: '{line}'; expected 0 or less. Build the model again"
    ),
    kernels.TOO_FEW_WORDS: "{found} in the {k}-gram section: '{line}'; expected {k}",
    kernels.BAD_BOW: (
        "'{rest}' after the {k}-gram in '{line}'; expected {k} words and then nothing or a finite back-off weight"
    ),
    kernels.TOP_BOW: "a back-off weight of {rest} in '{line}'; expected none, {k} is the highest order",
    kernels.UNKNOWN_WORD: "the word '{field}' in '{line}' is not among the 1-grams; expected every word there",
    kernels.NO_PREFIX: (
        "'{line}': its history '{history}' is not among the {before}-grams; expected every history there"
    ),
    kernels.TOO_MANY: "more {k}-grams than the {count:,} that the header announced, from '{line}' on",
    kernels.DUPLICATE: "the word '{field}' appears twice among the 1-grams; keep one of the two lines",
}


def _fail(lines: Lines, why: int, at: int, k: int, count: int) -> None:
    rest, line = lines.field(at), lines.field(lines.windows[0].at).strip(" \t")
    fields = re.split(r"[ \t]+", rest)
    words = max(0, len(re.split(r"[ \t]+", line)) - 1)
    known = {"field": fields[0], "history": " ".join(fields[: k - 1]), "found": f"{words} word{'s' * (words != 1)}"}
    raise lines.error(_WRONG[why].format(**known, rest=rest, line=line, k=k, before=k - 1, count=count))
