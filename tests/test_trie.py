"""The trie against plain sets of tuples: rows, links, union, locate, kept_rows, closure."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdi.lm.trie import NONE, Trie, from_ngrams, is_closed, kept_rows, locate, lowest, missing_suffixes, with_order

N_WORDS = 5
Ngram = tuple[int, ...]


def ngram_sets(order: int) -> st.SearchStrategy[set[Ngram]]:
    ngram = st.integers(2, order).flatmap(lambda k: st.tuples(*[st.integers(0, N_WORDS - 1)] * k))
    return st.sets(ngram, max_size=25)


SETS = st.integers(1, 4).flatmap(
    lambda order: st.tuples(st.just(order), ngram_sets(order) if order > 1 else st.just(set()))
)


def trie_of(order: int, ngrams: set[Ngram]) -> Trie:
    by_order = [
        np.array(sorted(x for x in ngrams if len(x) == k), np.int32).reshape(-1, k) for k in range(1, order + 1)
    ]
    whole = from_ngrams(N_WORDS, by_order)
    assert ngrams_of(whole) == with_everything_inside(ngrams)
    check_layout(whole)
    wanted = with_prefixes(ngrams)
    return kept_rows(
        whole, [NONE, *(np.array([x in wanted for x in ngrams_in(whole, k)], bool) for k in range(1, order + 1))]
    )


def ngrams_in(trie: Trie, k: int) -> list[Ngram]:
    return [tuple(ids) for ids in trie.ngrams(k, np.arange(trie.rows(k))).tolist()]


def with_prefixes(ngrams: set[Ngram]) -> set[Ngram]:
    words = {(w,) for w in range(N_WORDS)}
    return words | {x[:k] for x in ngrams for k in range(1, len(x) + 1)}


def with_everything_inside(ngrams: set[Ngram]) -> set[Ngram]:
    parts = {x[i:j] for x in ngrams for i, j in itertools.combinations(range(len(x) + 1), 2)}
    return with_prefixes(ngrams) | parts


def ngrams_of(trie: Trie) -> set[Ngram]:
    return {ngram for k in range(1, trie.order + 1) for ngram in ngrams_in(trie, k)}


def check_layout(trie: Trie) -> None:
    """What the docstring of mdi/lm/trie.py promises."""
    for k in range(1, trie.order + 1):
        rows = [tuple(ids) for ids in trie.ngrams(k, np.arange(trie.rows(k))).tolist()]
        assert len(set(rows)) == len(rows)
        # histories by their last word, then the one before; rows by history, then word
        assert rows == sorted(rows, key=lambda x: (x[-2::-1], x[-1]))
        for r, row in enumerate(rows):
            assert trie.word[k][r] == row[-1]
            h = int(trie.hist_of_rows(k)[r])
            assert trie.begin[k][h] <= r < trie.begin[k][h + 1]
            if k > 1:
                assert tuple(trie.words_of_hist(k - 1, h)) == row[:-1]
                suffix = int(trie.suffix[k][r])
                lower = [tuple(ids) for ids in trie.ngrams(k - 1, np.arange(trie.rows(k - 1))).tolist()]
                assert lower[suffix] == row[1:] if suffix >= 0 else row[1:] not in lower
    for k in range(1, len(trie.as_hist)):
        assert sorted(trie.as_hist[k].tolist()) == list(range(trie.rows(k)))
        assert (trie.row_of_hist[k][trie.as_hist[k]] == np.arange(trie.rows(k))).all()
        for h, back in enumerate(trie.back[k].tolist()):
            shorter = trie.words_of_hist(k, h)[1:]
            assert k == 1 or back < 0 or trie.words_of_hist(k - 1, back) == shorter


@given(SETS)
def test_rows_and_links(case: tuple[int, set[Ngram]]) -> None:
    order, ngrams = case
    trie = trie_of(order, ngrams)
    assert ngrams_of(trie) == with_prefixes(ngrams)
    check_layout(trie)


@given(SETS)
def test_closure(case: tuple[int, set[Ngram]]) -> None:
    order, ngrams = case
    trie = trie_of(order, ngrams)
    more = missing_suffixes(trie)
    assert is_closed(more)
    assert ngrams_of(trie) | ngrams_of(more) == with_everything_inside(ngrams)
    assert is_closed(trie) == (ngrams_of(trie) == with_everything_inside(ngrams))


@given(SETS, SETS)
def test_locate_and_find(a: tuple[int, set[Ngram]], b: tuple[int, set[Ngram]]) -> None:
    source, trie = trie_of(*a), trie_of(*b)
    there = ngrams_of(trie)
    where = locate(source, trie)
    for k in range(1, source.order + 1):
        ids = source.ngrams(k, np.arange(source.rows(k)))
        assert trie.find(ids).tolist() == where[k].tolist()
        for x, row in zip(ids.tolist(), where[k].tolist(), strict=True):
            assert (row >= 0) == (tuple(x) in there)
            if row >= 0:
                assert trie.ngrams(k, np.array([row]))[0].tolist() == x


@given(SETS, st.randoms(use_true_random=False))
def test_kept_rows(case: tuple[int, set[Ngram]], random) -> None:
    order, ngrams = case
    trie = trie_of(order, ngrams)
    wanted = with_prefixes({x for x in ngrams if random.random() < 0.5})
    keep = [NONE]
    for k in range(1, order + 1):
        rows = trie.ngrams(k, np.arange(trie.rows(k))).tolist()
        keep.append(np.array([tuple(x) in wanted for x in rows], bool))
    kept = kept_rows(trie, keep)
    assert ngrams_of(kept) == wanted
    check_layout(kept)


@given(SETS, st.integers(1, 5))
def test_orders(case: tuple[int, set[Ngram]], order: int) -> None:
    trie = trie_of(*case)
    assert ngrams_of(lowest(trie, order)) == {x for x in ngrams_of(trie) if len(x) <= order}
    wide = with_order(trie, order)
    assert wide.order == max(order, trie.order)
    assert ngrams_of(wide) == ngrams_of(trie)


def test_words_outside_are_not_found() -> None:
    trie = trie_of(2, {(0, 1)})
    assert trie.find(np.array([[0, -1], [-1, 1], [0, 1], [1, 0]])).tolist() == [-1, -1, 0, -1]
    with pytest.raises(IndexError):
        trie.words_of_hist(1, 99)
