"""Text counted by the workers of a job: each takes some sentences and leaves a sorted run (mdi/lm/external.py), and
these are merged as those of one process are."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mdi.files import replacing
from mdi.lm.counts import CountStream
from mdi.lm.external import PIECE, ExternalCounter, MergedRuns, SortedRun, store, stored
from mdi.lm.shards import Job, in_order
from mdi.lm.text import Text, TextLike
from mdi.lm.vocabulary import GrowingVocabulary, Vocabulary

# Tokens that a worker is given at once.
TOKENS = 1 << 24


def count_part(prefix: str, sizes: list[int], order: int, n_words: int, bos: int, memory: int) -> SortedRun:
    """The run of the sentences in PREFIX.ids, blocks of these sizes, in files whose names begin with `prefix`, too.
    What a job has counted before it was stopped is not counted again."""
    done = Path(f"{prefix}.counted")
    if not done.exists():
        with ExternalCounter(order, bos, memory, os.path.dirname(prefix)) as counter:
            for ids in np.split(np.fromfile(f"{prefix}.ids", np.int32), np.cumsum(sizes)[:-1]):
                counter.add(ids, n_words)
            store(counter.merge(), prefix)
        done.touch()
    return stored(prefix, order)


@contextlib.contextmanager
def stream_blocks(
    text: TextLike, vocab: Vocabulary | GrowingVocabulary, order: int, oov: str, memory: int, job: Job
) -> Iterator[CountStream]:
    """As mdi.lm.counts.stream_text, by the job's workers."""
    source = Text(text, vocab, oov, min(TOKENS, 1 << 20))
    blocks, parts = iter(source), list[list[int]]()
    for first in blocks:
        with replacing(f"{job.folder}/c{len(parts)}.ids", sync=False) as stream:
            parts.append([])
            for ids in itertools.chain([first], blocks):
                stream.write(ids.data)
                parts[-1].append(len(ids))
                if sum(parts[-1]) >= TOKENS:
                    break
    calls = [
        (count_part, f"{job.folder}/c{i}", sizes, order, len(vocab), vocab.bos, memory) for i, sizes in enumerate(parts)
    ]
    merge = MergedRuns(list(in_order(calls, "counting")), order, len(vocab), PIECE)
    yield CountStream(vocab.freeze(), order, merge.trie, merge.count, merge.top, source.stats)
