"""What is made in place is what is made of models that are kept, and in less memory."""

import importlib
import os
import subprocess
import sys
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, write_model

from mdi import memory, prune
from mdi.adaptation.constraints import Constraints
from mdi.adaptation.dual import Dual
from mdi.errors import MdiError
from mdi.kernels.arpa_write import as_written
from mdi.lm import arpa, arpa_lines, normalise
from mdi.lm.arpa import read_arpa
from mdi.lm.mix import mix, mix_in_place, over_one_vocabulary
from mdi.lm.model import NgramModel, extend, extended, with_suffixes, without
from mdi.lm.prune import mark_pruned
from mdi.lm.trie import NONE, Trie, from_ngrams, is_closed, locate, lowest, roomy, widened, with_histories

BENCH = Path(__file__).parent.parent / "utils" / "bench"
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 5), st.booleans())


def read(rng: np.random.Generator, shape: tuple[int, int, bool], copies: int = 2) -> list[NgramModel]:
    """The same model several times, with nothing in common."""
    order, n_words, is_whole = shape
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(random_model(rng, order, n_words, closed=is_whole), Path(folder) / "lm")
        return [read_arpa(path, closed=False, quiet=True) for _ in range(copies)]


def ngrams_of(trie: Trie) -> set[tuple[int, ...]]:
    rows = (trie.ngrams(k, np.arange(trie.rows(k))) for k in range(1, trie.order + 1))
    return {tuple(ids) for part in rows for ids in part.tolist()}


def check_links(trie: Trie) -> None:
    """What can be searched or ranked again is the same again."""
    for k in range(2, trie.order + 1):
        suffix = lowest(trie, k - 1).find(trie.ngrams(k, np.arange(trie.rows(k)))[:, 1:])
        assert np.array_equal(trie.suffix[k], suffix)
        again = with_histories(lowest(trie, k - 1))
        assert np.array_equal(trie.as_hist[k - 1], again.as_hist[k - 1])
        assert np.array_equal(trie.back[k - 1], again.back[k - 1])


@given(SHAPES, st.integers(1, 4), st.integers(0, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_extension_in_place(shape: tuple[int, int, bool], order: int, many: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, in_place = read(rng, shape)
    before = {k: part.copy() for k, part in enumerate(model.p)}
    more = from_ngrams(
        model.trie.n_words,
        [rng.integers(0, model.trie.n_words, (many, k), dtype=np.int32) for k in range(1, order + 1)],
    )
    wide = extended(model, more)
    extend(in_place, more)
    assert wide == in_place
    assert ngrams_of(wide.trie) == ngrams_of(model.trie) | ngrams_of(more)
    for made in (wide, in_place):
        check_links(made.trie)
        assert is_closed(made.trie) or not is_closed(model.trie)
    own = locate(model.trie, wide.trie)
    for k in range(1, model.order + 1):
        assert np.array_equal(wide.p[k][own[k]], before[k])  # nothing has changed,
        assert np.array_equal(model.p[k], before[k])  # in the model that is kept neither
    words = wide.vocab.words
    for k in range(2, wide.order + 1):
        for row, ids in enumerate(wide.trie.ngrams(k, np.arange(wide.trie.rows(k))).tolist()):
            *history, word = (words[w] for w in ids)
            assert wide.p[k][row] == pytest.approx(model.prob(word, history), rel=1e-12)


@given(SHAPES, SHAPES, st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_what_is_made_in_place(a: tuple[int, int, bool], b: tuple[int, int, bool], seed: int) -> None:
    rng = np.random.default_rng(seed)
    (first, *again), (second, *more) = read(rng, a, 4), read(rng, b, 3)
    assert mix([first, second], [0.3, 0.7]) == mix_in_place([again[0], more[0]], [0.3, 0.7])
    assert prune(first, 1e-2) == without(*mark_pruned(again[1], 1e-2))
    assert (first, second) == (again[2], more[1])  # are as they were


def test_the_readers_arrays_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model of more than 16 million n-grams of one order needs, on a small one."""
    (model,) = read(np.random.default_rng(2), (3, 5, True), 1)
    monkeypatch.setattr(arpa, "_room", lambda lines, count, have: min(count, max(2, have + 1)))
    assert read(np.random.default_rng(2), (3, 5, True), 1) == [model]


@given(st.integers(0, 2**32 - 1), st.integers(40, 400), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_blank_lines_among_windows(seed: int, window: int, lies: bool, few: bool) -> None:
    """Windows are parsed by threads, each into room for as many rows as it has lines."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(write_model(random_model(rng, 3, 5, closed=True), Path(folder) / "lm"))
        model = read_arpa(path)
        lines = path.read_text().splitlines(keepends=True)
        head = next(i for i, line in enumerate(lines) if line.startswith("\\1-grams"))
        spread = (line + "\n" * int(rng.random() < (0.1 if few else 0.8)) for line in lines[head:])
        path.write_text("".join([*lines[:head], *spread]))
        patch.setattr(arpa_lines, "WINDOW", window)
        if few:
            patch.setattr(arpa, "_room", lambda lines, count, have: min(count, max(2, have + 1)))
        assert read_arpa(path) == model
        if lies:
            text = path.read_text()
            count = model.trie.counts[1]
            for wrong, message in ((count - 1, "more 2-grams than"), (count + 1, "section ends after")):
                path.write_text(text.replace(f"ngram 2={count}", f"ngram 2={wrong}"))
                with pytest.raises(MdiError, match=message):
                    read_arpa(path)


def test_room_behind_an_array() -> None:
    array = roomy(80, float)
    array[:] = np.arange(80)
    wider = widened(array, 85)
    assert np.shares_memory(wider, array)
    assert np.array_equal(wider[:80], np.arange(80))
    other = widened(array, 1000)
    assert not np.shares_memory(other, array)
    assert np.array_equal(other[:80], array)
    tail = widened(array[1:], 81)  # no room of its own
    assert not np.shares_memory(tail, array)
    assert np.array_equal(tail[:79], array[1:])


def test_forgotten_entries_are_gone() -> None:
    """But for what is said about them."""
    (model,) = read(np.random.default_rng(1), (3, 5, True), 1)
    trie = model.trie
    rows = Constraints([NONE, *(np.arange(trie.rows(k), dtype=np.int32) for k in range(1, 4))])
    mass = [np.full(trie.n_hist(j), 1e-3) for j in range(3)]
    dual = Dual(model, mass, rows)
    about = dual.entries, dual.active_rows
    left = [weakref.ref(part) for part in dual.active.histories]
    dual.evaluate(np.zeros(rows.total))
    dual.forget_entries()
    assert not any(part() is not None for part in left)
    assert (dual.entries, dual.active_rows) == about


def test_a_mapping_of_a_file_in_a_folder_with_blanks():
    """Of /proc/self/smaps; a name that was cut at its first blank was never the compiler's."""
    line = "7f3a10-7f3a20 r-xp 00001000 fe:00 4242                /home/a b/ü/libllvmlite.so\n"
    assert memory._MAPPING.match(line).groups() == ("7f3a10", "7f3a20", "r-xp", "/home/a b/ü/libllvmlite.so")
    assert memory._MAPPING.match("7f3a10-7f3a20 rw-p 00000000 00:00 0 \n").group(4) == ""


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="Linux only")
def test_the_compiler_works_after_its_code_has_left_memory() -> None:
    mapped = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "libllvmlite" in line]
    writable = [part[0] for part in mapped if part[1][1] == "w"]
    idle = memory._idle_code()
    assert idle
    assert not {f"{begin:x}-{end:x}" for begin, end in idle} & set(writable)
    memory.let_go_of_compiler()
    numba = importlib.import_module("numba")
    assert numba.njit(lambda x: x * x + 1)(3) == 10
    assert numba.njit(lambda x: x * x + 2)(3.0) == 11.0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_adapting_takes_some_thirty_bytes_per_ngram(tmp_path: Path) -> None:
    """2M n-grams beside Python and the kernels: about 180 MB, where it took 270 before."""
    arpa, text = tmp_path / "bg.arpa", tmp_path / "in.txt"
    make = [sys.executable, str(BENCH / "make_synthetic_lm.py"), "--ngrams", "2e6", "--text", str(text)]
    subprocess.run([*make, "--text-words", "5e4", str(arpa)], check=True)
    command = [sys.executable, "-m", "mdi", "adapt", str(arpa), str(text), str(tmp_path / "out.arpa")]
    # a process starts with the peak of the one that starts it, and this one may have grown large: so by a small one
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL); "
    measure += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    for _ in range(2):  # the first one may compile
        done = subprocess.run([sys.executable, "-c", measure, *command], check=True, capture_output=True, text=True)
    assert int(done.stdout.split()[-1]) < 205 * 1024


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reader", [None, as_written])
def test_sums_are_the_same_in_blocks(
    monkeypatch: pytest.MonkeyPatch, seed: int, reader: normalise.Reader | None
) -> None:
    """Computed as differences, and added up word by word as those in doubt are."""
    rng = np.random.default_rng(seed)
    (model,) = read(rng, (2 + seed % 3, 5, True), 1)
    for k in range(2, model.order + 1):
        model.p[k] *= rng.uniform(0.9, 1.0, len(model.p[k]))  # no longer sums to one
    whole, worst = normalise.history_sums(model, reader), normalise.worst_sum(model, reader)
    inner = [
        [h for h in range(len(sums)) if model.trie.words_of_hist(j, h)[-1:] != [model.vocab.eos]]
        for j, sums in enumerate(whole)
    ]
    gaps = np.concatenate([np.abs(sums[some] - 1.0) for sums, some in zip(whole, inner, strict=True)])
    assert worst[0] == gaps.max()
    assert normalise.sum_gaps(model, reader) == (*worst, (gaps > normalise.SUM_ERROR).sum())
    words = [word for word in model.vocab.words if word != "<s>"]
    seen = model if reader is None else replace(model, p=list(map(reader, model.p)), bow=list(map(reader, model.bow)))
    for j, sums in enumerate(whole):
        for h, found in enumerate(sums):
            history = [model.vocab.words[w] for w in model.trie.words_of_hist(j, h)]
            if history[-1:] != ["</s>"]:
                assert found == pytest.approx(sum(seen.prob(word, history) for word in words), rel=1e-12)
    for block in (1, 3):
        monkeypatch.setattr(normalise, "BLOCK", block)
        for doubt in (normalise.DOUBT, 0.0):
            monkeypatch.setattr(normalise, "DOUBT", doubt)
            for sums, again in zip(whole, normalise.history_sums(model, reader), strict=True):
                np.testing.assert_allclose(again, sums, rtol=0 if doubt else 1e-12)
            gap, where = normalise.worst_sum(model, reader)
            assert (gap, where) == worst if doubt else gap == pytest.approx(worst[0], abs=1e-12)
    monkeypatch.setattr(normalise, "MOST_ADDED", 2)
    with pytest.raises(MdiError, match="so large that sums of probabilities have no digits left"):
        normalise.worst_sum(model, reader)


def test_mixtures_are_added_up_in_the_order_of_the_models() -> None:
    """Whichever is the largest: in a shard that may be another one than in the whole."""
    rng = np.random.default_rng(5)
    models = [read(rng, (2, 12, True), 1)[0] for _ in range(6)]
    models = sorted(over_one_vocabulary(models), key=lambda model: sum(model.trie.counts))[-3:]
    weights = np.array([0.25, 0.5, 0.25])
    mixed = mix(models, weights)
    differ = 0
    for h, (begin, end) in enumerate(zip(mixed.trie.begin[2][:-1], mixed.trie.begin[2][1:], strict=True)):
        for row in range(begin, end):
            a, b, c = (
                weight * model.prob(mixed.vocab.words[mixed.trie.word[2][row]], [mixed.vocab.words[h]])
                for weight, model in zip(weights, models, strict=True)
            )
            assert mixed.p[2][row] == (a + b) + c
            differ += (c + a) + b != (a + b) + c
    assert differ


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_a_file_that_lacks_rows(tmp_path: Path, seed: int) -> None:
    """What is said before it is written, of a model that is in memory with more rows, is what is found in it."""
    (model,) = read(np.random.default_rng(seed), (2 + seed % 3, 8, bool(seed % 2)), 1)
    pruned, keep = mark_pruned(model, 1e-2)
    path = str(tmp_path / "pruned.arpa")
    arpa.write_arpa(pruned, path, keep)
    found = read_arpa(path, closed=False, quiet=True)
    gap, where = normalise.worst_sum(pruned, as_written, keep)
    assert gap == pytest.approx(normalise.worst_sum(with_suffixes(found))[0], abs=1e-15)
    assert (
        where == "the empty history"
        or found.trie.find(np.array([[found.vocab.id(word) for word in where.strip("'").split()]], np.int32)) >= 0
    )
