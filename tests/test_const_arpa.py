"""G.carpa against Kaldi's arpa-to-const-arpa, byte for byte."""

import gzip
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from goldens import golden_model, to_dict

from mdi.errors import MdiError
from mdi.fst.const_arpa import const_arpa, read_const_arpa, write_const_arpa
from mdi.fst.formats import write_lm
from mdi.fst.symbols import SymbolTable, read_symbols

DATA = Path(__file__).parent / "data"
WORDS = str(DATA / "kaldi" / "words.txt")
SYMBOLS = read_symbols(WORDS)
NAMES = ["bg.kn", "bg4.kn", "bg.kni.prune1e-4", "mix"]


def golden(name: str) -> bytes:
    return gzip.decompress((DATA / "carpa" / f"{name}.carpa.gz").read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_as_kaldi(name: str, tmp_path: Path) -> None:
    """Orders 3 and 4; the third has lost suffixes, the last SRILM has mixed."""
    out = tmp_path / "G.carpa"
    write_lm(golden_model(name, closed=False), str(out), words=WORDS)
    assert out.read_bytes() == golden(name)


@pytest.mark.parametrize("name", NAMES)
def test_kaldis_files_are_read(name: str) -> None:
    """A leaf has lost the last of its 24 bits."""
    found, expected = to_dict(read_const_arpa(golden(name), SYMBOLS, name)), to_dict(golden_model(name, closed=False))
    assert set(found) == set(expected)
    for ngram, (p, bow) in expected.items():
        # ln p has 24 bits, so a relative error of |ln p| 2^-23 in p
        assert found[ngram][0] == pytest.approx(p, rel=2e-6)
        assert found[ngram][1] == pytest.approx(bow, rel=2e-6)


def test_a_model_that_was_read_is_written_again(tmp_path: Path) -> None:
    """All but the last bits of the floats, and these by little."""
    first = golden("bg4.kn")
    for _ in range(2):
        write_const_arpa(const_arpa(read_const_arpa(first, SYMBOLS, "G.carpa"), SYMBOLS), str(tmp_path / "G.carpa"))
        again = (tmp_path / "G.carpa").read_bytes()
        at = first.index(b"<LmStates> ") + 11 + 9
        end = first.index(b"</LmStates> ")
        assert (again[:at], again[end:]) == (first[:at], first[end:])
        bits, old = (np.frombuffer(data[at:end], np.int32).astype(np.int64) for data in (again, first))
        assert np.abs(bits - old).max() <= 4
        first = again


def test_entries_that_are_far_away_are_listed(tmp_path: Path) -> None:
    """With offsets of up to 50 words instead of 2^30: the list of addresses is used, and in the order of the file."""
    model = golden_model("bg.kn", closed=False)
    lm = const_arpa(model, SYMBOLS, most_offset=50)
    assert len(lm.overflow) > 1000
    named = -(lm.states[(lm.states < 0) & (lm.states % 2 != 0)].astype(np.int64) + 1) // 2
    assert set(range(len(lm.overflow))) <= set(named.tolist())
    write_const_arpa(lm, str(tmp_path / "G.carpa"))
    found = read_const_arpa((tmp_path / "G.carpa").read_bytes(), SYMBOLS, "G.carpa")
    assert found.trie.counts == model.trie.counts
    near = read_const_arpa(golden("bg.kn"), SYMBOLS, "near")
    for k in range(1, 4):
        np.testing.assert_array_equal(found.p[k], near.p[k])


def test_the_unknown_word_of_a_lang_folder(tmp_path: Path) -> None:
    """As utils/build_const_arpa_lm.sh: oov.int beside words.txt says which it is."""
    (tmp_path / "words.txt").write_text(Path(WORDS).read_text())
    (tmp_path / "oov.int").write_text("7\n")
    write_lm(golden_model("bg.kn", closed=False), str(tmp_path / "G.carpa"), words=str(tmp_path / "words.txt"))
    assert const_arpa(golden_model("bg.kn", closed=False), SYMBOLS).unknown == 1
    assert const_arpa(golden_model("bg.kn.closed", closed=False), SYMBOLS).unknown == -1
    data = (tmp_path / "G.carpa").read_bytes()
    assert struct.unpack_from("<bibibi", data, len(b"\0B<ConstArpaLm> <LmInfo> ")) == (4, 303, 4, 304, 4, 7)


@pytest.mark.usefixtures("shown")
def test_markers_get_free_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables without <s> and </s>, or with one number for both as in Vosk's small model."""
    ids = {word: i for word, i in SYMBOLS.ids.items() if word not in ("<s>", "</s>")}
    for table in (ids, {**ids, "<s>": 303, "</s>": 303}):
        symbols = SymbolTable("words.txt", table)
        lm = const_arpa(golden_model("bg.kn", closed=False), symbols)
        free = max(table.values()) + 1
        assert (lm.bos, lm.eos, lm.dropped) == (free, free + 1, 0)
        assert f"{free} and {free + 1} are taken" in capsys.readouterr().err


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MdiError, match="of Kaldi before 2015"):
        read_const_arpa(b"\0B\4" + bytes(100), SYMBOLS, "old.carpa")
    data = golden("bg.kn")
    first = len(b"\0B<ConstArpaLm> <LmInfo> ") + 1
    states = data.index(b"<LmStates> ") + 12
    for at, what in ((states, "numbers announced"), (first + 15, "order -1"), (first, "no entry for <s>")):
        broken = bytearray(data)
        broken[at : at + 4] = b"\xff\xff\xff\xff"
        with pytest.raises(MdiError, match=what):
            read_const_arpa(bytes(broken), SYMBOLS, "G.carpa")
    unigrams = data.index(b"<LmUnigram> ") + 12 + 5
    for value in (-(2**63), 2**63 - 1, len(data)):  # of <unk>, whose number is 1
        broken = data[: unigrams + 8] + struct.pack("<q", value) + data[unigrams + 16 :]
        with pytest.raises(MdiError, match="a word's entry is not in the file"):
            read_const_arpa(broken, SYMBOLS, "G.carpa")
    lm = const_arpa(golden_model("bg.kn", closed=False), SYMBOLS, most_offset=50)
    for value in (-(2**63), 2**63 - 1, 0):
        write_const_arpa(replace(lm, overflow=np.full_like(lm.overflow, value)), str(tmp_path / "G.carpa"))
        with pytest.raises(MdiError, match="an n-gram's entry is not in the file"):
            read_const_arpa((tmp_path / "G.carpa").read_bytes(), SYMBOLS, "G.carpa")


def test_entries_that_are_shared_do_not_explode() -> None:
    """Every child of every entry is the same entry, which has as many children: 1000^3 n-grams in 16 kB."""
    n = 1000
    symbols = SymbolTable("words.txt", {"<eps>": 0, **{f"w{i}": i for i in range(1, n + 1)}})
    entry = 3 + 2 * n
    states = np.zeros(3 * entry, np.int32)
    for i in range(3):
        states[i * entry + 2] = n
        states[i * entry + 3 : (i + 1) * entry : 2] = np.arange(1, n + 1)
        states[i * entry + 4 : (i + 1) * entry : 2] = 2 * entry + 1
    states[2 * entry + 2] = 0
    data = b"\0B<ConstArpaLm> <LmInfo> " + b"".join(struct.pack("<bi", 4, i) for i in (1, 2, -1, 4)) + b"</LmInfo> "
    data += b"<LmStates> " + struct.pack("<bq", 8, len(states)) + states.tobytes() + b"</LmStates> <LmUnigram> "
    data += struct.pack("<bi", 4, n + 1) + np.r_[0, np.ones(n)].astype(np.int64).tobytes()
    data += b"</LmUnigram> <LmOverflow> " + struct.pack("<bi", 4, 0) + b"</LmOverflow> </ConstArpaLm> "
    with pytest.raises(MdiError, match="more n-grams than it has room for"):
        read_const_arpa(data, symbols, "G.carpa")
