"""Gr.fst against OpenFst's `fstconvert --fst_type=ngram`, and Vosk's own file where it is."""

import gzip
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from goldens import golden_model
from test_formats import assert_same

from mdi.errors import MdiError
from mdi.files import read_bytes
from mdi.fst.formats import load, write_lm
from mdi.fst.ngram_fst import write_ngram_fst
from mdi.fst.openfst import read_whole_header
from mdi.fst.symbols import by_label, read_symbols
from mdi.fst.vector_fst import history_tree
from mdi.lm.arpa import read_arpa
from mdi.lm.model import with_suffixes
from mdi.lm.normalise import worst_sum

DATA = Path(__file__).parent / "data"
WORDS = str(DATA / "kaldi" / "words.txt")
MODEL = os.environ.get("MDI_VOSK_MODEL", "")
HEAR = """
import json, sys, vosk, wave
recogniser = vosk.KaldiRecognizer(vosk.Model(sys.argv[1]), 16000)
sound = wave.open(sys.argv[2])
recogniser.AcceptWaveform(sound.readframes(sound.getnframes()))
print(json.loads(recogniser.FinalResult())["text"])
"""


def parts(data: bytes) -> tuple[bytes, np.ndarray]:
    """(all up to the weights, the weights)"""
    header = read_whole_header(data, "Gr.fst")
    states, arcs, finals = np.frombuffer(data, np.uint64, 3, header.size).tolist()
    floats = states + 1 + finals + arcs + 1
    return data[: len(data) - 4 * floats], np.frombuffer(data, np.float32, floats, len(data) - 4 * floats)


def assert_same_file(found: bytes, expected: bytes) -> None:
    """Bits and labels; weights within 32 bits of their sums with what states have lost."""
    (found_bits, found_weights), (bits, weights) = parts(found), parts(expected)
    assert found_bits == bits
    np.testing.assert_allclose(found_weights, weights, atol=2e-6)


@pytest.mark.parametrize("name", ["bg.kn", "mix"])
def test_same_file_as_fstconvert(name: str, tmp_path: Path) -> None:
    golden = gzip.decompress((DATA / "ngram-fst" / f"Gr.{name}.fst.gz").read_bytes())
    (tmp_path / "golden.fst").write_bytes(golden)
    # the table of the golden file, with its name
    write_lm(golden_model(name, closed=False), str(tmp_path / "Gr.fst"), words=str(tmp_path / "golden.fst"))
    assert_same_file((tmp_path / "Gr.fst").read_bytes(), golden)


@pytest.mark.parametrize("name", ["bg.kn", "mix"])
def test_openfsts_files_are_read(name: str) -> None:
    assert_same(load(str(DATA / "ngram-fst" / f"Gr.{name}.fst.gz"), closed=False), golden_model(name, closed=False))


def test_with_and_without_a_table_inside(tmp_path: Path) -> None:
    model, symbols = golden_model("bg.kn", closed=False), read_symbols(WORDS)
    labelled = by_label(model, symbols.labels_of(model.vocab), markers_first=True)
    write_ngram_fst(history_tree(*labelled), str(tmp_path / "Gr.fst"), None)
    assert_same(load(str(tmp_path / "Gr.fst"), WORDS, closed=False), model)
    with pytest.raises(MdiError, match="holds no table of words"):
        load(str(tmp_path / "Gr.fst"))


def test_openfst_reads_pruned_models_too(tmp_path: Path) -> None:
    """Nothing follows 'b', but 'a b' has to back off to it: a state without words. Costs of paths are the model's."""
    pywrapfst = pytest.importorskip("pywrapfst")
    model = golden_model("bg.kni.prune1e-4", closed=False)
    write_lm(model, str(tmp_path / "Gr.fst"), words=WORDS)
    try:
        fst = pywrapfst.Fst.read(str(tmp_path / "Gr.fst"))
    except pywrapfst.FstIOError:
        pytest.skip("this OpenFst has no ngram FSTs")
    ids, whole = read_symbols(WORDS).ids, golden_model("bg.kni.prune1e-4")
    for sentence in (DATA / "text" / "test.txt").read_text().splitlines()[:50]:
        words = [word if word in ids else "<unk>" for word in sentence.split()]
        state, cost = fst.start(), 0.0
        for word in [*words, None]:
            while True:
                if word is None and float(fst.final(state)) != float("inf"):
                    cost += float(fst.final(state))
                    break
                arcs = {arc.ilabel: arc for arc in fst.arcs(state)}
                arc = arcs.get(ids[word]) if word else None
                took = arc or arcs[0]
                cost, state = cost + float(took.weight), took.nextstate
                if arc:
                    break
        assert cost == pytest.approx(-whole.log_prob([*words, "</s>"], ["<s>"]), rel=1e-5)


@pytest.mark.skipif(not MODEL, reason="MDI_VOSK_MODEL names no directory of Vosk's small English model")
class TestVosk:
    """Vosk's small English model, https://alphacephei.com/vosk/models: 1,999,275 n-grams as its Gr.fst counts them."""

    SOURCE = str(Path(MODEL) / "graph" / "Gr.fst")

    def test_read_and_written_again(self, tmp_path: Path) -> None:
        model = load(self.SOURCE, closed=False)
        assert model.trie.counts == [152_213, 1_236_459, 643_757]
        assert worst_sum(with_suffixes(model))[0] < 1e-6
        write_lm(model, str(tmp_path / "Gr.fst"), words=self.SOURCE)
        assert_same_file((tmp_path / "Gr.fst").read_bytes(), read_bytes(self.SOURCE))

    def test_through_arpa_and_back(self, tmp_path: Path) -> None:
        write_lm(load(self.SOURCE, closed=False), str(tmp_path / "lm.arpa"))
        write_lm(read_arpa(str(tmp_path / "lm.arpa"), closed=False), str(tmp_path / "Gr.fst"), words=self.SOURCE)
        assert_same_file((tmp_path / "Gr.fst").read_bytes(), read_bytes(self.SOURCE))

    def test_libvosk_loads_what_is_written(self, tmp_path: Path) -> None:
        """First pass with the rewritten Gr.fst, then rescored with a G.carpa of the same model: the same words."""
        if find_spec("vosk") is None:
            pytest.skip("the package vosk is not installed")

        def hear(folder: Path) -> str:
            # in a process of its own: libvosk has an OpenFst inside, and hangs where pywrapfst has loaded another one
            command = [sys.executable, "-c", HEAR, str(folder), str(DATA / "speech" / "voice0-2.wav")]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
            assert ("Loading CARPA model" in done.stderr) == (folder / "rescore").exists()
            return done.stdout.strip()

        model = load(self.SOURCE, closed=False)
        for path in Path(MODEL).rglob("*"):
            if path.is_file() and path.name != "Gr.fst":
                copy = tmp_path / path.relative_to(MODEL)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.symlink_to(path.resolve())
        write_lm(model, str(tmp_path / "graph" / "Gr.fst"), words=self.SOURCE)
        expected = hear(Path(MODEL))
        assert expected
        assert hear(tmp_path) == expected
        (tmp_path / "rescore").mkdir()
        write_lm(model, str(tmp_path / "rescore" / "G.fst"), words=self.SOURCE)
        write_lm(model, str(tmp_path / "rescore" / "G.carpa"), words=self.SOURCE)
        assert hear(tmp_path) == expected
