"""Text counted in blocks by the workers of a job: each leaves a sorted run (mdi/lm/external.py), which are merged as
those of one process are."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mdi.errors import MdiError
from mdi.files import first_bytes, read_chunks, replacing
from mdi.lm.counts import CountStream, stream_text
from mdi.lm.external import PIECE, MergedRuns, SortedRun, store, stored
from mdi.lm.shards import Job, in_order
from mdi.lm.text import SPECIAL, Sentences, Text, TextStats
from mdi.lm.vocabulary import GrowingVocabulary, Vocabulary, vocabulary

# Bytes of text that are counted at once.
BLOCK = 1 << 26


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
        with open(self.path, "rb") as stream:
            stream.seek(max(0, self.begin - 1))
            if self.begin:
                stream.readline()
            data = stream.read(max(0, self.end - stream.tell()))
            if data and not data.endswith(b"\n"):
                data += stream.readline()
        return Sentences(data, where)


def blocks_of(paths: Sequence[str], folder: str) -> list[Block]:
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
                plain[-1] = packed[path] = str(Path(folder) / f"unpacked.{len(packed)}.txt")
    list(in_order([(unpack, *one) for one in packed.items()], "unpacking"))
    found = []
    for name, path in zip(paths, plain, strict=True):
        size = Path(path).stat().st_size
        next(iter(read_chunks(path, 1 << 16)), b"")  # an error where it is no text
        found += [Block(path, at, min(at + BLOCK, size), name) for at in range(0, max(size, 1), BLOCK)]
    return found


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


def count_block(
    block: Block, prefix: str, vocab: Vocabulary, order: int, oov: str, memory: int, folder: str
) -> tuple[SortedRun, TextStats] | None:
    """Leaves the run of a block in files whose names begin with `prefix`; None where there is no text in it."""
    done, text = Path(f"{prefix}.counted"), block.text()
    if not text.data or text.data.isspace():
        return None
    if not done.exists():
        with stream_text(text, vocab, order, oov, memory, folder) as counts:
            store(counts, prefix)
        with replacing(str(done), sync=False) as stream:
            stream.write(json.dumps(dataclasses.astuple(counts.stats)).encode())
    return stored(prefix, order), TextStats(*json.loads(done.read_bytes()))


@contextlib.contextmanager
def stream_blocks(
    texts: Sequence[str], vocab: Vocabulary | GrowingVocabulary, order: int, oov: str, memory: int, job: Job
) -> Iterator[CountStream]:
    """As mdi.lm.counts.stream_text, by the job's workers."""
    blocks, folder = blocks_of(texts, job.folder), job.folder
    if not isinstance(vocab, Vocabulary):
        found = in_order([(words_of, block) for block in blocks], "collecting words")
        vocab = vocabulary(dict.fromkeys([*SPECIAL, *(word for words in found for word in words)]))
    calls = [
        (count_block, block, f"{folder}/c{i}", vocab, order, oov, memory, folder) for i, block in enumerate(blocks)
    ]
    counted = [part for part in in_order(calls, "counting") if part is not None]
    if not counted:
        raise MdiError(f"{', '.join(texts)}: no text; expected one sentence per line")
    merge = MergedRuns([run for run, _ in counted], order, len(vocab), PIECE)
    yield CountStream(vocab, order, merge.trie, merge.count, merge.top, _added([stats for _, stats in counted]))


def _added(parts: list[TextStats]) -> TextStats:
    examples = dict.fromkeys(word for part in parts for word in part.oov_examples)
    sentences, words, oov = (sum(getattr(part, name) for part in parts) for name in ("sentences", "words", "oov"))
    return TextStats(sentences, words, oov, list(examples)[:5])
