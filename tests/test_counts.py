"""Counts of text and of count files: exact, however little memory they may take."""

import gzip
import os
import re
from pathlib import Path

import dense_estimate
import numpy as np
import pytest
from goldens import DATA, GOOD
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_text, write_text

from mdi.cli import main
from mdi.errors import MdiError
from mdi.lm.arpa import read_arpa
from mdi.lm.counts import Counts, count_text, read_counts, stream_text, write_counts, writing_counts
from mdi.lm.external import ExternalCounter
from mdi.lm.text import SPECIAL
from mdi.lm.trie import is_closed
from mdi.lm.vocabulary import GrowingVocabulary, vocabulary


def to_dict(counts: Counts) -> dict[tuple[str, ...], float]:
    table = {}
    for k in range(1, counts.order + 1):
        ngrams = counts.trie.ngrams(k, np.arange(counts.trie.rows(k), dtype=np.int32)).tolist()
        for ngram, count in zip(ngrams, counts.count[k].tolist(), strict=True):
            if count:
                table[tuple(counts.vocab.words[w] for w in ngram)] = count
    return table


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(1, 5),
    memory=st.sampled_from([1, 3000, 20000, 1 << 30]),
    vocab=st.sampled_from(["text", "open", "closed"]),
)
def test_counts_are_exact(tmp_path_factory, seed, order, memory, vocab):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("text")
    texts = [random_text(rng, 8, int(rng.integers(1, 60))) for _ in range(2)]
    paths = [Path(write_text(text, folder / str(i))) for i, text in enumerate(texts)]
    known = ["w0", "w3", "w4", "w7", "unseen"]
    words = (
        GrowingVocabulary(SPECIAL) if vocab == "text" else vocabulary([*SPECIAL[: 3 if vocab == "open" else 2], *known])
    )
    counts = count_text(paths, words, order, memory=memory)
    other = {"open": "<unk>", "closed": None}
    text = [[w if vocab == "text" or w in known else other[vocab] for w in line] for text in texts for line in text]
    assert to_dict(counts) == dense_estimate.ngram_counts(text, order)
    assert is_closed(counts.trie)
    assert counts.stats.sentences == len(text)
    assert counts.stats.words == sum(map(len, text))


def test_runs_go_to_disk_and_are_cleared_away(tmp_path):
    rng = np.random.default_rng(0)
    text = random_text(rng, 30, 400)
    words = vocabulary([*SPECIAL, *(f"w{i}" for i in range(30))])
    with ExternalCounter(3, words.bos, 1 << 14, str(tmp_path)) as runs:
        for line in text:
            runs.add(np.array([0, *words.ids(line), 1], np.int32), len(words))
        merge = runs.merge()
        assert len(runs.on_disk) > 1
        assert os.listdir(tmp_path)
        total = sum(int(rows.number.sum()) for rows in merge.top())
    assert total == sum(max(0, len(line) + 2 - 2) for line in text)  # a sentence of m words has m trigrams
    assert not os.listdir(tmp_path)


def test_disk_that_cannot_be_written(tmp_path):
    text = write_text([["a", "b"]] * 100, tmp_path / "text")
    with (
        pytest.raises(MdiError, match="cannot write counts"),
        stream_text(text, GrowingVocabulary(SPECIAL), 2, memory=100, folder=str(tmp_path / "nowhere")),
    ):
        pass


def lines_of(path) -> list[str]:
    return sorted(gzip.open(path, "rt").read().splitlines())


def test_count_files_of_srilm(tmp_path):
    golden = DATA / "srilm" / "in.counts.gz"
    text = count_text(DATA / "text" / "in.txt.gz", GrowingVocabulary(SPECIAL), 3)
    read = read_counts(str(golden), GrowingVocabulary(SPECIAL), 3)
    assert to_dict(read) == to_dict(text)
    assert (read.stats.sentences, read.stats.words) == (text.stats.sentences, text.stats.words) == (800, 7272)
    for name, counts in (("text", text), ("read", read)):
        path = tmp_path / f"{name}.gz"
        write_counts(counts, str(path))
        assert lines_of(path) == lines_of(golden)


def test_counts_are_written_as_they_pass_by(tmp_path):
    path = tmp_path / "counts.gz"
    with (
        stream_text(DATA / "text" / "in.txt.gz", GrowingVocabulary(SPECIAL), 3, memory=1 << 17) as stream,
        writing_counts(stream, str(path)) as written,
    ):
        pieces = [len(rows.word) for rows in written.top()]
    assert len(pieces) > 5
    assert lines_of(path) == lines_of(DATA / "srilm" / "in.counts.gz")


@pytest.mark.parametrize(
    ("oov", "expected"),
    [
        ("map", {("a",): 2.5, ("<unk>",): 4, ("<s>", "a"): 1.25, ("a", "<unk>"): 3}),
        ("drop", {("a",): 2.5, ("<s>", "a"): 1.25}),
    ],
)
def test_words_outside_the_vocabulary(tmp_path, oov, expected):
    path = tmp_path / "counts"
    path.write_text("a\t2.5\nb\t3\nc\t1\n\n<s> a\t1.25\na b\t2\r\n  a c 1\na c b\t7\n")
    counts = read_counts(str(path), vocabulary([*SPECIAL, "a"]), 2, oov)
    assert to_dict(counts) == expected
    assert counts.stats.oov == 4
    assert counts.stats.oov_examples == ["b", "c"]


def test_words_outside_the_vocabulary_stop(tmp_path):
    path = tmp_path / "counts"
    path.write_text("a 2\nb 3\n")
    with pytest.raises(MdiError, match="outside the vocabulary, such as 'b'"):
        read_counts(str(path), vocabulary([*SPECIAL, "a"]), 2, "error")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1\nb\n", ":2: 'b'; expected the words"),
        ("a 1\nb x\n", ":2: 'b x'"),
        ("a 1\nb -2\n", ":2: 'b -2'"),
        ("a 1\nb nan\n", ":2: 'b nan'"),
        ("3\n", ":1: '3'"),
        ("a b 1\n", "no 1-grams"),
        ("", "no 1-grams"),
        ("\0\1\2\3 junk", ":1:"),
    ],
)
def test_bad_count_files(tmp_path, text, message):
    path = tmp_path / "counts"
    path.write_text(text)
    with pytest.raises(MdiError, match=re.escape(message)):
        read_counts(str(path), GrowingVocabulary(SPECIAL), 2)


def test_many_words(tmp_path):
    """Vocabularies that grow beyond the first room made for them, from text and from counts."""
    path = write_text([[f"word{i}", f"word{i + 1}"] for i in range(20000)], tmp_path / "text")
    counts = count_text(path, GrowingVocabulary(SPECIAL), 2)
    assert counts.trie.counts == [20004, 60000]
    write_counts(counts, str(tmp_path / "counts"))
    assert to_dict(read_counts(str(tmp_path / "counts"), GrowingVocabulary(SPECIAL), 2)) == to_dict(counts)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("zz\t5\nyy\t6\n", "11 of 11 in-domain words are outside the vocabulary"),
        ("w001\t5\n<s>\t3\nw001 <s>\t6\n", "expected <s> only as a first word"),
        ("</s>\t5\nw001\t3\n</s> w001\t6\n", "expected <s> only as a first word"),
        ("w001\t5\nw0\0\t3\n", ":2: a NUL byte"),
        ("w001\t1e308\nw002\t1e308\n</s>\t1e308\n", "sum to more than 1e+18"),
        ("zz\t1e308\nyy\t1e308\n", "sum to more than 1e+18"),
    ],
)
def test_counts_are_checked_as_text_is(content, message, tmp_path, capsys):
    (tmp_path / "counts").write_text(content)
    assert main(["adapt", "--counts", str(tmp_path / "counts"), GOOD, str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path):
    (tmp_path / "counts").write_bytes(b"\xef\xbb\xbfw001\t5\n")
    assert read_counts(str(tmp_path / "counts"), read_arpa(GOOD).vocab, 1).stats.oov == 0
