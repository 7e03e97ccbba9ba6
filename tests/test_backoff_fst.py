"""Models read back from Kaldi's G.fst and from what other tools make of it, and FSTs that are no models."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from goldens import golden_model
from test_formats import assert_same

from mdi.errors import MdiError
from mdi.fst.formats import load, write_lm
from mdi.fst.openfst import Arcs, from_bytes, read_whole_header, to_bytes
from mdi.fst.symbols import read_symbols
from mdi.lm.perplexity import perplexity

DATA = Path(__file__).parent / "data"
WORDS = str(DATA / "kaldi" / "words.txt")


def golden_arcs(name: str) -> Arcs:
    return from_bytes(gzip.decompress((DATA / "kaldi" / f"G.{name}.fst.gz").read_bytes()))


def changed(arcs: Arcs, **parts: object) -> Arcs:
    return Arcs(**{**vars(arcs), **parts})


def shuffled(arcs: Arcs, seed: int) -> Arcs:
    """The same automaton with its states in another order, and the arcs of each as well."""
    rng = np.random.default_rng(seed)
    number = rng.permutation(arcs.n_states).astype(np.int32)
    source = number[arcs.source]
    order = np.lexsort((rng.random(arcs.n_arcs), source))
    begin = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=arcs.n_states))])
    final = np.empty_like(arcs.final)
    final[number] = arcs.final
    return Arcs(
        int(number[arcs.start]),
        begin,
        arcs.ilabel[order],
        arcs.olabel[order],
        arcs.weight[order],
        number[arcs.dest][order],
        final,
    )


@pytest.mark.parametrize("name", ["bg.kn", "mix", "bg.kni.prune1e-4"])
def test_kaldis_acceptors_are_read(name: str) -> None:
    found = load(str(DATA / "kaldi" / f"G.{name}.fst.gz"), WORDS, closed=False)
    assert_same(found, golden_model(name, closed=False))


def test_states_and_arcs_in_any_order_and_epsilon_for_back_off(tmp_path: Path) -> None:
    arcs = golden_arcs("bg.kni.prune1e-4")
    plain = changed(arcs, ilabel=np.where(arcs.ilabel == 302, 0, arcs.ilabel).astype(np.int32))
    both = changed(arcs, olabel=arcs.ilabel.copy())  # #0 on both sides
    for fst in (shuffled(arcs, 1), plain, both):
        (tmp_path / "G.fst").write_bytes(to_bytes(fst))
        found = load(str(tmp_path / "G.fst"), WORDS, closed=False)
        assert_same(found, golden_model("bg.kni.prune1e-4", closed=False))


@pytest.mark.parametrize("aligned", [False, True])
def test_const_fsts_with_symbols_inside(aligned: bool, tmp_path: Path) -> None:
    """As mdi graph and others write them; with FLAGS_fst_align parts begin at multiples of 16 bytes."""
    pywrapfst = pytest.importorskip("pywrapfst")
    write_lm(golden_model("bg.kn", closed=False), str(tmp_path / "lm.mod"), words=WORDS)
    pywrapfst.convert(pywrapfst.Fst.read(str(tmp_path / "lm.mod")), "const").write(str(tmp_path / "const.fst"))
    if aligned:
        data = (tmp_path / "const.fst").read_bytes()
        header = read_whole_header(data, "const.fst")
        flags = 4 + 4 + len("const") + 4 + len("standard") + 4
        head = bytearray(data[: header.size])
        head[flags] |= 4
        states = 20 * header.n_states
        pad = bytes(-len(head) % 16)
        pad2 = bytes(-(len(head) + len(pad) + states) % 16)
        body = data[header.size :]
        (tmp_path / "const.fst").write_bytes(bytes(head) + pad + body[:states] + pad2 + body[states:])
    assert_same(load(str(tmp_path / "const.fst"), closed=False), golden_model("bg.kn", closed=False))


def test_openfst_reads_what_is_written(tmp_path: Path) -> None:
    """Arc by arc, with the table inside."""
    pywrapfst = pytest.importorskip("pywrapfst")
    write_lm(golden_model("bg.kn", closed=False), str(tmp_path / "lm.mod"), words=WORDS)
    fst = pywrapfst.Fst.read(str(tmp_path / "lm.mod"))
    ours = from_bytes((tmp_path / "lm.mod").read_bytes())
    assert fst.verify()
    assert fst.input_symbols().find("w007") == fst.output_symbols().find("w007") == read_symbols(WORDS).ids["w007"]
    for s in fst.states():
        here = slice(ours.begin[s], ours.begin[s + 1])
        assert [arc.ilabel for arc in fst.arcs(s)] == ours.ilabel[here].tolist()
        assert [arc.nextstate for arc in fst.arcs(s)] == ours.dest[here].tolist()
    sorted_fst = fst.copy()
    sorted_fst.arcsort("ilabel")
    assert pywrapfst.equal(sorted_fst, fst)
    connected = fst.copy()
    connected.connect()
    assert connected.num_states() == fst.num_states()


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    arcs = golden_arcs("bg.kn")
    back = np.flatnonzero(arcs.ilabel == 302)
    word = np.flatnonzero(arcs.ilabel != 302)

    def one(values: np.ndarray, at: int, new: float) -> np.ndarray:
        copy = values.copy()
        copy[at] = new
        return copy

    root = int(arcs.dest[back[0]])
    cases = {
        "reads one thing and writes another": changed(arcs, olabel=one(arcs.olabel, word[5], 7)),
        "second without a back-off arc": changed(
            arcs, ilabel=one(arcs.ilabel, back[9], 301), olabel=one(arcs.olabel, back[9], 301)
        ),
        "do not lead to the longest histories": changed(arcs, dest=one(arcs.dest, word[-1], root)),
        "a weight of -2": changed(arcs, weight=one(arcs.weight, word[7], -2.0)),
        "a weight of nan": changed(arcs, weight=one(arcs.weight, back[7], np.nan)),
        "does not follow the empty history": changed(
            arcs, ilabel=one(arcs.ilabel, word[-1], 307), olabel=one(arcs.olabel, word[-1], 307)
        ),
    }
    for message, fst in cases.items():
        (tmp_path / "G.fst").write_bytes(to_bytes(fst))
        with pytest.raises(MdiError, match=message):
            load(str(tmp_path / "G.fst"), WORDS)
    (tmp_path / "G.fst").write_bytes(to_bytes(arcs, "standard")[:-4])
    with pytest.raises(MdiError, match="cut off or damaged"):
        load(str(tmp_path / "G.fst"), WORDS)


def test_half_of_the_words(tmp_path: Path) -> None:
    """arpa2fst has dropped the n-grams of words outside its table: the text of the others scores as the FST does."""
    found = load(str(DATA / "kaldi" / "G.bg4.kn.some.fst.gz"), str(DATA / "kaldi" / "words.some.txt"))
    write_lm(
        golden_model("bg4.kn", closed=False),
        str(tmp_path / "G.fst"),
        words=str(DATA / "kaldi" / "words.some.txt"),
        max_dropped=1.0,
    )
    ours = load(str(tmp_path / "G.fst"), str(DATA / "kaldi" / "words.some.txt"))
    text = str(DATA / "text" / "test.txt")
    assert perplexity(ours, text).log10_prob == pytest.approx(perplexity(found, text).log10_prob, rel=1e-6)
    assert ours.trie.counts == found.trie.counts
