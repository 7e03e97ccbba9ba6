"""Text to a model in shards: blocks of text are counted one by one, shards gather the counts of their n-grams and
estimate (mdi/lm/estimate.py). Between shards go the counts of words and of counts, and which n-grams are kept.

The continuation count of h'w comes from n-grams x h'w, whose histories end in the same word as h': it is counted where
h'w is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdi.errors import MdiError
from mdi.files import first_bytes, read_chunks, replacing
from mdi.kernels import estimate as kernels
from mdi.kernels import trie as trie_kernels
from mdi.kernels.arpa import as_written
from mdi.kernels.estimate import HistoryStatistics
from mdi.lm.cache import model_of, write_arrays
from mdi.lm.counts import MEMORY, stream_text
from mdi.lm.estimate import Discount, discount_of, least_of, smoothing_of, starts_with_bos
from mdi.lm.external import Rows
from mdi.lm.model import NgramModel
from mdi.lm.shard_read import hist_of, lines_of
from mdi.lm.sharded import Job, ShardedModel, worst_of
from mdi.lm.shards import Shard, by_last_word, by_owner, gaps_of, merged_keys, read_kept
from mdi.lm.text import SPECIAL, Sentences, Text, TextStats
from mdi.lm.trie import NONE, Array, Trie, add_order, kept_rows, unigram_trie, with_histories
from mdi.lm.vocabulary import GrowingVocabulary, Vocabulary, vocabulary

# Bytes of text that are counted at once, and n-grams in a piece.
BLOCK = 1 << 26
PIECE = 1 << 21


@dataclass(frozen=True)
class Block:
    """Some lines of a plain file: those that begin at the bytes begin .. end - 1. `name`: of the file as it was given,
    maybe packed."""

    path: str
    begin: int
    end: int
    name: str

    def text(self) -> Sentences:
        where = self.name if not self.begin else f"{self.name}, from byte {self.begin}"
        return Sentences(lines_of(self.path, self.begin, self.end), where)


def blocks_of(paths: Sequence[str], job: Job) -> list[Block]:
    """A packed file is unpacked into the job's folder first, by one worker."""
    packed: dict[str, str] = {}
    plain = []
    for path in paths:
        first_bytes(path, 2)  # an error where there is no such file
        if path == "-":
            raise MdiError("text from standard input; expected files, which workers can read")
        plain.append(str(Path(path).resolve()))
        with open(path, "rb") as stream:
            if stream.read(2) == b"\x1f\x8b":
                plain[-1] = packed[path] = str(Path(job.folder) / f"unpacked.{len(packed)}.txt")
    if packed:
        job.runner.run(unpack, list(packed.items()), f"unpacking {' '.join(packed)}")
    found = []
    for name, path in zip(paths, plain, strict=True):
        size = Path(path).stat().st_size
        next(iter(read_chunks(path, 1 << 16)), b"")  # an error where it is no text
        found += [Block(path, at, min(at + BLOCK, size), name) for at in range(0, max(size, 1), BLOCK)]
    return found


# -- what is done where the text or a shard is


def unpack(path: str, to: str) -> None:
    if not Path(to).exists():
        with replacing(to, sync=False) as stream:
            for chunk in read_chunks(path):
                stream.write(chunk)


def words_of(block: Block) -> list[str]:
    """The words of a block in the order in which they appear."""
    vocab, text = GrowingVocabulary(SPECIAL), block.text()
    if not text.data or text.data.isspace():
        return []
    for _ in Text(text, vocab):
        pass
    return vocab.freeze().words


@dataclass(frozen=True)
class Counted:
    """Of one block: its name, its pieces by order, counts of the words, and rows by the word of their shard."""

    name: str
    pieces: list[int]
    words: Array
    weight: Array
    stats: TextStats


def count_block(
    block: Block, number: int, vocab: Vocabulary, order: int, oov: str, memory: int, folder: str
) -> Counted:
    """Leaves the n-grams of a block in pieces, sorted by the words that decide about their shards."""
    name = f"c{number}"
    done = Path(folder) / f"{name}-counted.mdi"
    if not done.exists():
        text, weight, pieces = block.text(), np.zeros(len(vocab), np.int64), [0] * (order + 1)
        words, stats = np.zeros(len(vocab)), TextStats()
        if text.data and not text.data.isspace():
            with stream_text(text, vocab, order, oov, memory, folder) as counts:
                words, stats, trie = counts.count[1], counts.stats, counts.trie
                for k in range(2, order + 1):
                    lower = [Rows(0, trie.begin[k], trie.word[k], counts.count[k])] if k < order else counts.top()
                    for rows in lower:
                        for part in _cut_rows(rows):
                            _leave_rows(_piece(folder, name, k, pieces[k]), trie, k, part, k == order, weight)
                            pieces[k] += 1
        told = np.frombuffer(json.dumps([pieces, dataclasses.astuple(stats)]).encode(), np.uint8)
        with replacing(str(done), sync=False) as stream:
            write_arrays(stream, {}, {"words": [words], "weight": [weight], "told": [told]})
    lists = read_kept(done)
    pieces, told = json.loads(lists["told"][0].tobytes())
    return Counted(name, pieces, lists["words"][0], lists["weight"][0], TextStats(*told))


def _cut_rows(rows: Rows) -> Iterator[Rows]:
    """At most so many at a time, whole histories."""
    first = 0
    while first < len(rows.begin) - 1:
        end = int(np.searchsorted(rows.begin, rows.begin[first] + PIECE, side="right")) - 1
        end = min(max(end, first + 1), len(rows.begin) - 1)
        at = slice(rows.begin[first], rows.begin[end])
        if at.stop > at.start:
            yield Rows(rows.first + first, rows.begin[first : end + 1] - at.start, rows.word[at], rows.count[at])
        first = end


def _leave_rows(path: Path, trie: Trie, k: int, rows: Rows, top: bool, weight: Array) -> None:
    hists = np.arange(rows.first, rows.first + len(rows.begin) - 1)
    spelled = trie.ngrams(k - 1, trie.row_of_hist[k - 1][hists])
    spelled = np.repeat(spelled, np.diff(rows.begin), axis=0)
    ids = [*np.ascontiguousarray(spelled.T), rows.word]
    lists: dict[str, list[Array]] = {}
    lists["rows"] = [*ids, rows.count.astype(float)]  # sorted already
    weight += np.bincount(ids[k - 2], minlength=len(weight))
    if not top:
        order = trie_kernels.rows_by_word(rows.word, len(weight))[1]
        lists["hists"] = [part[order] for part in ids]
        weight += np.bincount(rows.word, minlength=len(weight))
    with replacing(str(path), sync=False) as stream:
        write_arrays(stream, {}, lists)


def _piece(folder: str, name: str, k: int, number: int) -> Path:
    return Path(folder) / f"{name}-piece.{k}.{number}.mdi"


def _take(shard: Shard, pieces: dict[str, list[int]], k: int, name: str, column: int) -> list[Array]:
    """Columns of the rows of order k whose word in this column is the shard's."""
    parts: list[list[Array]] = []
    for source, numbers in pieces.items():
        for number in range(numbers[k]):
            lists = read_kept(_piece(shard.folder, source, k, number), check=False)
            at = slice(*np.searchsorted(lists[name][column], (shard.first, shard.end)))
            parts.append([part[at] for part in lists[name]])
    if not parts:
        return [NONE] * k + ([np.zeros(0)] if name == "rows" else [])
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Seen:
    """What a shard says of its counts."""

    before: Array  # by word: the number of its histories that it was seen after
    counts_of_counts: list[Array]  # by order, from 2 on


def gather(shard: Shard, name: str, vocab: Vocabulary, order: int, pieces: dict[str, list[int]], knows: bool) -> Seen:
    """Leaves the shard's n-grams with their counts, which Kneser-Ney (`knows`) adjusts, and what was seen after its
    histories."""
    if shard.has(name):
        lists = shard.kept(name)
        return Seen(lists["before"][0], lists["counts_of_counts"])
    hists = {k: _take(shard, pieces, k, "hists", k - 1) for k in range(2, order)}
    trie, count = with_histories(unigram_trie(len(vocab))), [NONE, NONE]
    for k in range(2, order + 1):
        *ids, number = _take(shard, pieces, k, "rows", k - 2)
        rows = [(hist_of(trie, ids[:-1]), ids[-1])]
        for longer in range(k, order):
            columns = hists[longer][:k]
            rows.append((hist_of(trie, columns[:-1]), columns[-1]))
        merged = merged_keys(rows, trie.n_hist(k - 1), len(vocab))
        trie = add_order(trie, merged.begin, merged.word)
        trie = with_histories(trie) if k < order else trie
        count.append(np.bincount(merged.place[0], weights=number, minlength=len(merged.word)).astype(float))
        del rows, merged
    before = np.zeros(len(vocab))
    kernels.add_preceding(trie.suffix[2], count[2], before)
    if knows:
        from_bos = starts_with_bos(trie, vocab.bos)
        for k in range(2, order):
            preceding = np.zeros(trie.rows(k))
            kernels.add_preceding(trie.suffix[k + 1], count[k + 1], preceding)
            count[k] = kernels.adjusted_counts(preceding, count[k], trie.begin[k], from_bos[k - 1])
    n = [np.zeros(5, np.int64) for _ in range(2, order + 1)]
    total, types = [NONE], [NONE]
    for k in range(2, order + 1):
        after = HistoryStatistics(np.zeros(trie.n_hist(k - 1)), np.zeros((trie.n_hist(k - 1), 3), np.int32))
        kernels.add_statistics(trie.branches(k), count[k], vocab.bos, after, n[k - 2])
        total.append(after.total)
        types.append(after.types.reshape(-1))
    shard.keep(name, {
        "begin": trie.begin, "word": trie.word, "suffix": trie.suffix, "as_hist": trie.as_hist, "back": trie.back,
        "vocab": [vocab.blob, vocab.offset, vocab.table], "p": [NONE], "bow": [NONE], "count": count, "total": total,
        "types": types, "before": [before], "counts_of_counts": n,
    })  # fmt: skip
    return Seen(before, n)


def mark(shard: Shard, shards: list[Shard], name: str, k: int, least: float) -> None:
    """Leaves which of its rows of order k are kept: those with a count of at least `least`, and those that others need
    as prefixes or suffixes of theirs."""
    if shard.has(f"{name}-wanted-{k}"):
        return
    lists = shard.kept(name)
    trie = model_of(lists).trie
    own, needed = shard.own_rows(trie, k), np.zeros(trie.rows(k), bool)
    if k < trie.order:
        above = shard.kept(f"{name}-wanted-{k + 1}")["suffixes"][0]
        needed[own] = above.view(bool)
        order, parts = by_last_word(shard, trie, k), []
        for other in shards:
            theirs = other.kept(f"{name}-wanted-{k + 1}", check=False)
            parts.append(np.array(theirs["prefixes"][0][slice(*theirs["offset"][0][shard.index : shard.index + 2])]))
        flags = np.empty(len(order), bool)
        flags[order] = np.concatenate(parts).view(bool)
        needed[own] |= flags
    lower = np.zeros(trie.rows(k - 1), bool)
    count = lists["count"][k]
    kernels.mark_needed(trie.level(k), trie.row_of_hist[k - 1], count, least, needed, lower)
    found: dict[str, list[Array]] = {"rows": [needed[own].view(np.uint8)]}
    if k > 2:
        order, offset = by_owner(shard, shards, trie, k - 1)
        prefixes = lower[trie.row_of_hist[k - 1][shard.own_hists(trie, k - 1)]]
        below = shard.own_rows(trie, k - 1)
        # a row that is only somebody's prefix is another shard's
        found |= {
            "suffixes": [lower[below].view(np.uint8)], "prefixes": [prefixes[order].view(np.uint8)],
            "offset": [offset],
        }  # fmt: skip
    word_order = by_last_word(shard, trie, k)
    words = trie.word[k][own][word_order]
    found["kept"] = [needed[own][word_order].view(np.uint8)]
    found["kept_offset"] = [np.searchsorted(words, [other.first for other in shards] + [trie.n_words])]
    shard.keep(f"{name}-wanted-{k}", found)


@dataclass(frozen=True)
class Plan:
    """What all shards are estimated with."""

    discounts: list[Discount]
    smoothing: str
    least: list[float]
    p: Array  # of the words


def estimate_shard(shard: Shard, shards: list[Shard], source: str, name: str, plan: Plan) -> tuple[list, list]:
    """Leaves the shard's model; the worst sums over its histories (see `shards.worst_gaps`), and those in the file that
    will be written."""
    lists = shard.kept(source)
    trie, vocab = model_of(lists).trie, Vocabulary(*lists["vocab"])
    keep = _kept(shard, shards, source, trie)
    kept = kept_rows(trie, keep)
    p, bow = [NONE, plan.p], [np.ones(1)]
    for k in range(2, trie.order + 1):
        hists = keep[k - 1][trie.row_of_hist[k - 1]] if k > 2 else slice(None)
        after = HistoryStatistics(
            np.array(lists["total"][k - 1][hists]), np.array(lists["types"][k - 1].reshape(-1, 3)[hists])
        )
        smoothing = smoothing_of(plan.smoothing, plan.discounts, plan.least, kept.n_words - (vocab.bos >= 0), k)
        row_p, weight = kernels.ngram_probs(kept.level(k), lists["count"][k][keep[k]], after, smoothing, p[k - 1])
        p.append(row_p)
        bow.append(weight)
    model = NgramModel(vocab, kept, p, bow)
    shard.save(name, model)
    return gaps_of(shard, model), gaps_of(shard, model, as_written)


def _kept(shard: Shard, shards: list[Shard], source: str, trie: Trie) -> list[Array]:
    """Flags of the rows that the shard keeps: its own, those that its histories are, and what spells these."""
    keep = [NONE, np.ones(trie.n_words, bool)]
    keep += [np.zeros(trie.rows(k), bool) for k in range(2, trie.order + 1)]
    for k in range(trie.order, 1, -1):
        keep[k][shard.own_rows(trie, k)] = shard.kept(f"{source}-wanted-{k}")["rows"][0].view(bool)
        if k < trie.order:
            order, _ = by_owner(shard, shards, trie, k)
            parts = []
            for other in shards:
                theirs = other.kept(f"{source}-wanted-{k}", check=False)
                at = slice(*theirs["kept_offset"][0][shard.index : shard.index + 2])
                parts.append(np.array(theirs["kept"][0][at]))
            flags = np.empty(len(order), bool)
            flags[order] = np.concatenate(parts).view(bool)
            keep[k][trie.row_of_hist[k][shard.own_hists(trie, k)][flags]] = True
        if k > 2:
            rows = np.flatnonzero(keep[k])
            keep[k - 1][trie.row_of_hist[k - 1][trie.hist_of_rows(k, rows)]] = True
    return keep


# -- what is done here


@dataclass(frozen=True)
class ShardedEstimate:
    """As mdi.lm.estimate.Estimated, with the model in shards."""

    model: ShardedModel
    discounts: list[Discount]
    left_over: float
    sharing: int
    stats: TextStats
    worst: tuple[float, str]  # sum
    written: tuple[float, str]  # that of the file that will be written


def train_sharded(
    texts: Sequence[str],
    job: Job,
    order: int,
    vocab: Vocabulary | None,
    smoothing: str,
    min_counts: Sequence[float],
    oov: str = "map",
    memory: int = MEMORY,
) -> ShardedEstimate:
    """Counts text files and estimates a model, in shards. Parameters: see mdi.lm.train.train."""
    if order < 2:
        raise MdiError("order 1: words only, which are not cut into shards; leave out --cluster")
    runner, blocks = job.runner, blocks_of(texts, job)
    if vocab is None:
        found = runner.run(words_of, [(block,) for block in blocks], "collecting words")
        vocab = vocabulary(dict.fromkeys([*SPECIAL, *(word for words in found for word in words)]))
    calls = [(block, i, vocab, order, oov, memory, job.folder) for i, block in enumerate(blocks)]
    counted: list[Counted] = runner.run(count_block, calls, "counting")
    stats = _added([part.stats for part in counted])
    if not stats.sentences:
        raise MdiError(f"{', '.join(texts)}: no text; expected one sentence per line")
    shards = job.ranges(sum(part.weight for part in counted))  # type: ignore[arg-type]
    pieces = {part.name: part.pieces for part in counted}
    knows = smoothing != "wb"
    seen: list[Seen] = runner.run(gather, [(one, "counts", vocab, order, pieces, knows) for one in shards], "gathering")
    for part in counted:
        for path in Path(job.folder).glob(f"{part.name}-piece.*"):
            path.unlink()
    least = least_of(min_counts)
    parts = [part.before for part in seen] if knows else [part.words for part in counted]
    words = np.sum(np.stack(parts), axis=0)
    after = HistoryStatistics(np.zeros(1), np.zeros((1, 3), np.int32))
    n = [np.zeros(5, np.int64), np.zeros(5, np.int64)]
    kernels.add_statistics(unigram_trie(len(vocab)).branches(1), words, vocab.bos, after, n[1])
    n += [np.sum([part.counts_of_counts[k] for part in seen], axis=0) for k in range(order - 1)]
    if after.total[0] <= 0.0:
        raise MdiError(
            "nothing to estimate from: no two words in a row are in the vocabulary; give a fuller --vocab or more text"
        )
    discounts = [discount_of(counts) for counts in n[1:]] if knows else []
    first = smoothing_of(smoothing, discounts, least, len(vocab) - (vocab.bos >= 0), 1)
    p, left_over, sharing = kernels.unigram_probs(words, after, vocab.bos, first)
    for k in range(order, 1, -1):
        runner.run(mark, [(one, shards, "counts", k, least[k - 1]) for one in shards], f"choosing {k}-grams")
    plan = Plan(discounts, smoothing, least, p)
    found = runner.run(estimate_shard, [(one, shards, "counts", "estimated", plan) for one in shards], "estimating")
    gaps, written = (list(part) for part in zip(*found, strict=True))
    model = ShardedModel(job, shards, "estimated", vocab, order, [NONE, p])
    return ShardedEstimate(model, discounts, float(left_over), int(sharing), stats, worst_of(vocab, gaps),
                           worst_of(vocab, written))  # fmt: skip


def _added(parts: list[TextStats]) -> TextStats:
    examples = dict.fromkeys(word for part in parts for word in part.oov_examples)
    sentences, words, oov = (sum(getattr(part, name) for part in parts) for name in ("sentences", "words", "oov"))
    return TextStats(sentences, words, oov, list(examples)[:5])
