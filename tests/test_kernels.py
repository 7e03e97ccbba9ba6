"""What all kernels keep to, and the searches that they share."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

import mdi.kernels
from mdi.kernels.text import Words, append_word, fill_table, find_word, has_room
from mdi.kernels.trie import bisect, find_row, gallop

MODULES = [importlib.import_module(f"mdi.kernels.{m.name}") for m in pkgutil.iter_modules(mdi.kernels.__path__)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_kernels_take_few_arguments(module):
    """Arrays that belong together come as one record, which says what each of them is."""
    for name, kernel in inspect.getmembers(module, lambda value: isinstance(value, Dispatcher)):
        assert len(inspect.signature(kernel.py_func).parameters) <= 7, name


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=30), st.integers(-1, 41), st.data())
def test_both_searches_find_the_first_place(values, least, data):
    ascending = np.array(sorted(values), np.int32)
    lo = data.draw(st.integers(0, len(ascending)))
    end = data.draw(st.integers(lo, len(ascending)))
    expected = lo + int(np.searchsorted(ascending[lo:end], least))
    assert bisect(ascending, lo, end, least) == expected
    assert gallop(ascending, lo, end, least) == expected


def test_a_row_is_found_among_those_of_its_history():
    begin, word = np.array([0, 2, 2, 3], np.int32), np.array([1, 5, 3], np.int32)
    assert [find_row(begin, word, 0, w) for w in (0, 1, 3, 5, 6)] == [-1, 0, -1, 1, -1]
    assert [find_row(begin, word, 1, 1), find_row(begin, word, 2, 3), find_row(begin, word, 2, 5)] == [-1, 2, -1]


def test_words_are_added_and_found():
    text = np.frombuffer(b"onetwo", np.uint8)
    words = Words(np.empty(6, np.uint8), np.zeros(3, np.int64), np.full(8, -1, np.int32), np.zeros(1, np.int64), True)
    assert has_room(words, 2, 6)
    assert not has_room(words, 2, 7)
    assert not has_room(words, 3, 6)
    for w, (begin, end) in enumerate([(0, 3), (3, 6)]):
        found = find_word(text, begin, end, words)
        assert found < 0
        assert append_word(text, begin, end, words, found) == w
        assert words.size[0] == w + 1
    assert [find_word(text, 0, 3, words), find_word(text, 3, 6, words)] == [0, 1]
    assert find_word(text, 0, 6, words) < 0
    assert not has_room(words, 1, 0)
    words.table[:] = -1
    assert fill_table(words) == -1
    assert fill_table(words) == 0


def test_a_process_of_its_own_starts_without_scipy() -> None:
    """numba looks for a BLAS when its first kernel is loaded; who needs scipy later still finds it."""
    program = """
import sys
from mdi.kernels import start_lightly
start_lightly()
import numpy as np
from mdi.kernels.model import add_at
total = np.zeros(1)
add_at(np.zeros(2, np.int32), np.ones(2), total)
assert total[0] == 2
assert not {"scipy.linalg", "cffi"} & set(sys.modules)
import scipy.linalg
assert scipy.linalg.norm([3.0, 4.0]) == 5
"""
    subprocess.run([sys.executable, "-c", program], check=True)
