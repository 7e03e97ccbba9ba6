"""G.fst against Kaldi's arpa2fst, against OpenFst and against the model itself."""

import gzip
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from goldens import GOOD, arpa_path, golden_model
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, write_model

from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.formats import write_lm
from mdi.fst.openfst import Arcs, from_bytes, to_bytes
from mdi.fst.symbols import read_symbols
from mdi.fst.verify import verify
from mdi.lm.arpa import read_arpa
from mdi.lm.model import NgramModel, first_orders

DATA = Path(__file__).parent / "data" / "kaldi"
WORDS = str(DATA / "words.txt")
SYMBOLS = read_symbols(WORDS)

# 'a b c' without 'b c': as pruning leaves it. bow(a b) = 10^-0.1, bow(b) = 10^-0.3.
PRUNED = """\\data\\
ngram 1=6
ngram 2=3
ngram 3=2

\\1-grams:
-1.0\t</s>
-99\t<s>\t-0.5
-0.6\ta\t-0.2
-0.7\tb\t-0.3
-0.8\tc\t-0.4
-0.9\tout\t-0.1

\\2-grams:
-0.5\t<s> a\t-0.1
-0.4\ta b\t-0.1
-0.3\tout a\t-0.1

\\3-grams:
-0.2\t<s> a b
-0.1\ta b c

\\end\\
"""


def unpack(path: Path) -> bytes:
    with gzip.open(path) as stream:
        return stream.read()


def acceptor(model: NgramModel, words: Path | str) -> Arcs:
    """G.fst, as it is found in the file."""
    with tempfile.TemporaryDirectory() as folder:
        write_lm(model, f"{folder}/G.fst", "fst", words)
        return from_bytes(Path(folder, "G.fst").read_bytes())


def walk(fst: Arcs, labels: list[int], disambiguation: int) -> float:
    """Cost of a sentence when #0 is taken only where no arc has the word."""
    state, cost = fst.start, 0.0
    for label in [*labels, None]:
        while True:
            arcs = slice(fst.begin[state], fst.begin[state + 1])
            here = fst.ilabel[arcs]
            if label is None and np.isfinite(fst.final[state, 0]):
                return cost + float(fst.final[state, 0])
            at = np.flatnonzero(here == label) if label is not None else []
            if len(at):
                break
            at = np.flatnonzero((here == disambiguation) | (here == 0))
            arc = fst.begin[state] + at[0]
            cost, state = cost + float(fst.weight[arc, 0]), int(fst.dest[arc])
        arc = fst.begin[state] + at[0]
        cost, state = cost + float(fst.weight[arc, 0]), int(fst.dest[arc])
    raise AssertionError("no final state")


def assert_isomorphic(a: Arcs, b: Arcs) -> None:
    """Both are deterministic, so the pairing of states follows from the start."""
    assert (a.n_states, a.n_arcs) == (b.n_states, b.n_arcs)
    pair, todo = {a.start: b.start}, [a.start]
    while todo:
        s = todo.pop()
        q = pair[s]
        x, y = slice(a.begin[s], a.begin[s + 1]), slice(b.begin[q], b.begin[q + 1])
        assert a.ilabel[x].tolist() == b.ilabel[y].tolist()
        assert a.olabel[x].tolist() == b.olabel[y].tolist()
        np.testing.assert_allclose(a.weight[x], b.weight[y], atol=1e-4)
        np.testing.assert_allclose(a.final[s], b.final[q], atol=1e-4)
        for d, e in zip(a.dest[x].tolist(), b.dest[y].tolist(), strict=True):
            if d not in pair:
                pair[d] = e
                todo.append(d)
            assert pair[d] == e
    assert len(pair) == a.n_states == len(set(pair.values()))


@pytest.mark.parametrize(
    ("name", "words", "golden"),
    [
        ("bg.kn", "words.txt", "G.bg.kn"),
        ("mix", "words.txt", "G.mix"),
        ("bg.kni.prune1e-4", "words.txt", "G.bg.kni.prune1e-4"),  # suffixes were pruned away
        ("bg4.kn", "words.some.txt", "G.bg4.kn.some"),  # of order 4, and half of the words are not in the table
    ],
)
def test_same_acceptor_as_arpa2fst(name, words, golden, tmp_path):
    out = tmp_path / "G.fst"
    assert main(["fst", "--words", str(DATA / words), "--max-dropped", "0.9", arpa_path(name), str(out)]) == 0
    assert_isomorphic(from_bytes(out.read_bytes()), from_bytes(unpack(DATA / f"{golden}.fst.gz")))


@pytest.fixture(scope="module")
def mix():
    model = golden_model("mix")
    return model, acceptor(model, WORDS)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=8))
def test_path_cost_is_the_model_score(mix, numbers):
    model, fst = mix
    words = ["<unk>" if i == 300 else f"w{i:03d}" for i in numbers]
    labels = [SYMBOLS.ids[w] for w in words]
    expected = -model.log_prob([*words, "</s>"], ["<s>"])
    assert walk(fst, labels, SYMBOLS.ids["#0"]) == pytest.approx(expected, abs=1e-4)


def test_a_pruned_model_keeps_its_own_arcs(tmp_path):
    """Nothing stands for the missing 'b c': 'a b c' leads on to 'c', which nothing follows, so to the empty history."""
    lm, table = tmp_path / "lm.arpa", tmp_path / "words.txt"
    lm.write_text(PRUNED)
    table.write_text("<eps> 0\na 1\nb 2\nc 3\nout 4\n#0 5\n")
    symbols = read_symbols(str(table))
    fst = acceptor(read_arpa(str(lm), closed=False), table)
    # States: empty, <s>, a, out, "<s> a", "a b". Arcs: 4 words, 3 bigrams, 2 trigrams, 5 back-off arcs.
    assert (fst.n_states, fst.n_arcs) == (6, 14)
    closed = read_arpa(str(lm), quiet=True)
    for words in (["a", "b", "c"], ["b", "c", "a"], ["out", "a", "b", "c", "c"], []):
        expected = -closed.log_prob([*words, "</s>"], ["<s>"])
        assert walk(fst, [symbols.ids[w] for w in words], 5) == pytest.approx(expected, abs=1e-4)


def test_words_outside_the_table_are_dropped_counted_and_limited(tmp_path, capsys):
    lm, table, out = tmp_path / "lm.arpa", tmp_path / "words.txt", tmp_path / "G.fst"
    lm.write_text(PRUNED)
    table.write_text("<eps> 0\na 1\nb 2\nc 3\n#0 5\n")
    assert main(["fst", "--words", str(table), str(lm), str(out)]) == 0
    # 'out' and 'out a' of 11 n-grams; 10^-0.9 = 12.59% of the unigram mass.
    assert "2 of 11 n-grams (18.18%, 12.59% of the 1-gram mass)" in capsys.readouterr().err
    assert not (from_bytes(out.read_bytes()).ilabel == 4).any()
    out.unlink()
    assert main(["fst", "--words", str(table), "--max-dropped", "0.1", str(lm), str(out)]) == 1
    assert "at most 10% may be dropped" in capsys.readouterr().err
    assert not out.exists()


def test_a_model_without_a_word_of_the_table_is_refused(tmp_path, capsys):
    lm, out = tmp_path / "lm.arpa", tmp_path / "G.fst"
    lm.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-0.3\t</s>\n-99\t<s>\n-0.3\tOTHER\n\n\\end\\\n")
    for most, message in (("0.2", "1 of 3 n-grams"), ("1", "the acceptor is empty")):
        assert main(["fst", "--words", WORDS, "--max-dropped", most, str(lm), str(out)]) == 1
        assert message in capsys.readouterr().err
        assert not out.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<eps> 0\na 1\n", "no symbol #0"),
        ("a 0\n#0 1\n", "<eps> is not 0"),
        ("<eps> 0\na\n#0 1\n", ":2: 'a'"),
        ("<eps> 0\na 1\n#0 1\n", "number 1 appears twice"),
    ],
)
def test_bad_tables_are_refused(tmp_path, content, message):
    table = tmp_path / "words.txt"
    table.write_text(content)
    lm = tmp_path / "lm.arpa"
    lm.write_text(PRUNED)
    with pytest.raises(MdiError, match=message):
        acceptor(read_arpa(str(lm), quiet=True), table)


def test_a_unigram_model_is_one_state(tmp_path):
    lm = tmp_path / "lm.arpa"
    lm.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-0.3\t</s>\n-99\t<s>\n-0.3\tw000\n\n\\end\\\n")
    fst = acceptor(read_arpa(str(lm)), WORDS)
    assert (fst.n_states, fst.n_arcs) == (1, 1)
    assert walk(fst, [2, 2], 302) == pytest.approx(0.9 * np.log(10), abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans(), st.floats(0, 1))
def test_the_file_is_what_openfst_makes_of_it(seed, order, closed, share):
    """Trimmed and sorted by OpenFst it is the same file: nothing is out of reach, and nothing out of order."""
    pywrapfst = pytest.importorskip("pywrapfst")
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        lm = write_model(random_model(rng, order, 5, closed=closed), Path(folder) / "lm")
        words = [w for w in ["w0", "w1", "w2", "w3", "w4", "<unk>"] if rng.random() <= share] or ["w0"]
        table = rng.permutation([*words, "#0", "<s>", "</s>"]).tolist()
        (Path(folder) / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(["<eps>", *table])))
        model = read_arpa(lm, closed=False, quiet=True)
        made = write_lm(model, f"{folder}/G.fst", "fst", f"{folder}/words.txt", max_dropped=1.0)
        assert verify(f"{folder}/G.fst", made.size)
        fst = pywrapfst.Fst.read(f"{folder}/G.fst")
        fst.connect()
        fst.arcsort("ilabel")
        data = Path(folder, "G.fst").read_bytes()
    assert fst.write_to_string() == data
    assert fst.verify()
    arcs = sum(fst.num_arcs(s) for s in fst.states())
    assert (fst.num_states(), arcs) == (made.n_states, made.n_arcs + made.n_states - 1)


def test_bytes_there_and_back_and_damaged(mix, tmp_path):
    data = to_bytes(mix[1])
    again = from_bytes(data)
    assert to_bytes(again) == data
    with pytest.raises(MdiError, match="cut off or damaged"):
        from_bytes(data[: len(data) // 2], "G.fst")
    with pytest.raises(MdiError, match="not an OpenFst file"):
        from_bytes(b"text" * 20)


@pytest.mark.parametrize("form", ["fst", "opengrm"])
def test_openfst_refuses_what_is_not_what_was_to_be_written(form, tmp_path, mix):
    pytest.importorskip("pywrapfst")
    path = tmp_path / "G.fst.gz"
    written = write_lm(mix[0], path, form, WORDS)
    assert verify(str(path), written.size)
    other = write_lm(first_orders(mix[0], 2), tmp_path / "other.fst", form, WORDS)
    with pytest.raises(MdiError, match=r"OpenFst finds .* states .*expected"):
        verify(str(path), other.size)
    data = unpack(path)
    path.write_bytes(gzip.compress(data[: len(data) // 2]))
    with pytest.raises(MdiError, match="OpenFst cannot read what was written"):
        verify(str(path), written.size)


def test_openfst_reads_whatever_its_name(tmp_path, capsys):
    pytest.importorskip("pywrapfst")
    path = str(tmp_path / os.fsdecode(b"G\xff.fst"))
    assert main(["convert", "--words", WORDS, arpa_path("mix"), path]) == 0
    assert "OpenFst reads it" in capsys.readouterr().err


def test_fst_is_a_name_of_convert(tmp_path, capsys):
    plain, named = tmp_path / "G.fst", tmp_path / "other"
    assert main(["convert", "--words", WORDS, arpa_path("mix"), str(plain)]) == 0
    assert main(["fst", "--words", WORDS, arpa_path("mix"), str(named)]) == 0
    assert named.read_bytes() == plain.read_bytes()
    assert capsys.readouterr().err.count("OpenFst reads it, with as many states and arcs") == 2
    with pytest.raises(SystemExit):
        main(["fst", arpa_path("mix"), str(named)])


def parse_text(text: str) -> tuple[int, dict[int, dict[int, tuple[int, float]]], dict[int, float]]:
    """(start, arcs by state and input label: destination and weight, final weights) of OpenFst's text."""
    arcs: dict[int, dict[int, tuple[int, float]]] = {}
    final: dict[int, float] = {}
    start = -1
    for line in text.splitlines():
        fields = line.split("\t")
        if not line:
            continue
        start = int(fields[0]) if start < 0 else start
        weight = float(fields[-1]) if len(fields) in (2, 5) else 0.0
        if len(fields) < 4:
            final[int(fields[0])] = weight
        else:
            assert fields[2] == fields[3] or (fields[2], fields[3]) == ("302", "0")
            arcs.setdefault(int(fields[0]), {})[int(fields[2])] = int(fields[1]), weight
    return start, arcs, final


def text_cost(fst: tuple, labels: list[int]) -> float:
    """As walk() above."""
    state, arcs, final = fst
    cost = 0.0
    for label in [*labels, None]:
        while (label not in arcs.get(state, {})) if label is not None else (state not in final):
            state, weight = arcs[state][302]
            cost += weight
        if label is None:
            return cost + final[state]
        state, weight = arcs[state][label]
        cost += weight
    raise AssertionError("no final state")


@pytest.mark.parametrize("order", [None, 2])
def test_k2_text_costs_what_the_model_says(order, tmp_path):
    """Also where it is cut down to its 2-grams, which are a model of their own."""
    out = tmp_path / "G.fst.txt"
    options = ["--max-order", str(order)] if order else []
    assert main(["fst", "--format", "k2", *options, "--words", WORDS, arpa_path("mix"), str(out)]) == 0
    fst = parse_text(out.read_text())
    model = first_orders(golden_model("mix"), order or 3)
    for sentence in (Path(__file__).parent / "data" / "text" / "test.txt").read_text().splitlines()[:40]:
        words = [word if word in SYMBOLS.ids else "<unk>" for word in sentence.split()]
        expected = -model.log_prob([*words, "</s>"], ["<s>"])
        assert text_cost(fst, [SYMBOLS.ids[w] for w in words]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["bg.kn", "mix", "bg.kni.prune1e-4"])
def test_k2_text_costs_what_kaldilm_says(name, tmp_path):
    kaldilm = pytest.importorskip("kaldilm")
    (tmp_path / "lm.arpa").write_bytes(unpack(Path(arpa_path(name))))
    arguments = {"disambig_symbol": "#0", "read_symbol_table": WORDS, "max_order": 3}
    theirs = parse_text(kaldilm.arpa2fst(str(tmp_path / "lm.arpa"), **arguments))
    assert main(["fst", "--format", "k2", "--words", WORDS, arpa_path(name), str(tmp_path / "G.fst.txt")]) == 0
    ours = parse_text((tmp_path / "G.fst.txt").read_text())
    rng = np.random.default_rng(1)
    for _ in range(100):
        labels = rng.integers(1, 302, 8).tolist()
        assert text_cost(ours, labels) == pytest.approx(text_cost(theirs, labels), abs=1e-3)
    # kaldilm keeps states that nothing but a back-off leaves
    assert len(ours[1]) <= len(theirs[1])


def test_numbers_of_words_cost_no_memory(tmp_path, capsys):
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\n#0 2\nb 1000000000\n")
    assert main(["fst", "--words", str(tmp_path / "words.txt"), GOOD, str(tmp_path / "G.fst")]) == 1
    assert "the word 'b' has the number 1000000000" in capsys.readouterr().err
