"""Vosk folders as they are published: models that words were taken out of, an FST without a table, a number for two
markers."""

import json

import numpy as np
import pytest
from test_vosk import DEV, TEXT, dynamic  # noqa: F401

from mdi.cli import main
from mdi.fst.formats import load, write_lm
from mdi.fst.symbols import read_symbols
from mdi.lm.normalise import scaled_to_one, worst_sum
from mdi.lm.perplexity import perplexity
from mdi.lm.vocabulary import read_word_file
from mdi.speech.vosk.folder import CERTIFICATE, VoskFolder


def without_words(path, words: int) -> None:
    """Takes the n-grams of the commonest words out of a Gr.fst and leaves all else as it is."""
    model, table = load(path, closed=False), read_symbols(str(path))
    common = {model.vocab.word(int(i)) for i in np.argsort(-model.p[1])[: words + 1]} - {"<s>", "</s>"}
    smaller = path.with_name("smaller.txt")
    smaller.write_text("".join(f"{word} {i}\n" for word, i in table.ids.items() if word not in common))
    write_lm(model, path, "ngram", smaller, max_dropped=1.0)
    smaller.unlink()


@pytest.fixture
def lacking(dynamic):  # noqa: F811
    without_words(dynamic / "graph" / "Gr.fst", 3)
    return dynamic


def test_what_is_left_of_a_distribution_is_divided_by_its_sum(lacking, caplog):
    own = load(lacking / "graph" / "Gr.fst")
    assert worst_sum(own)[0] > 0.05
    scaled = scaled_to_one("Gr.fst", own)
    assert worst_sum(scaled)[0] < 1e-12
    assert scaled.trie is own.trie
    words = [word for word in own.vocab.words if word != "<s>"]
    for history in ("", "<s>", words[5], f"{words[7]} {words[9]}", f"<s> {words[3]}", words[-1]):
        before = np.array([own.prob(word, history) for word in words])
        after = np.array([scaled.prob(word, history) for word in words])
        np.testing.assert_allclose(after, before / before.sum(), rtol=1e-9)
    assert scaled_to_one("Gr.fst", scaled) is scaled


def test_a_folder_whose_model_lacks_words_is_adapted(lacking, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["vosk", "adapt", "--ppl", DEV, str(lacking), TEXT, str(out)]) == 0
    said = capsys.readouterr()
    assert "do not sum to one" in said.err
    assert json.loads((out / CERTIFICATE).read_text())["adapted"]["graph/Gr.fst"]["worst_sum_gap"] < 1e-6
    _, _, before, after = said.out.split("\t")
    scaled = scaled_to_one("Gr.fst", load(lacking / "graph" / "Gr.fst"))
    assert perplexity(scaled, DEV).ppl == pytest.approx(float(before), rel=1e-6)
    assert perplexity(load(out / "graph" / "Gr.fst"), DEV).ppl == pytest.approx(float(after), rel=1e-5)
    assert float(after) < float(before)


def test_a_vector_fst_without_a_table_is_read_by_words_txt(dynamic, tmp_path, capsys):  # noqa: F811
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "one")]) == 0
    grammar = dynamic / "graph" / "Gr.fst"
    model, table = load(grammar), read_symbols(str(grammar))
    words = dynamic / "graph" / "words.txt"
    words.write_text("".join(f"{word} {i}\n" for word, i in table.ids.items()))
    write_lm(model, grammar, "fst", words)
    with pytest.raises(Exception, match="no table"):
        load(grammar)
    assert VoskFolder(dynamic).read(grammar).trie.counts == model.trie.counts
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "two")]) == 0
    one, two = (load(tmp_path / name / "graph" / "Gr.fst") for name in ("one", "two"))
    assert perplexity(one, DEV).ppl == pytest.approx(perplexity(two, DEV).ppl, rel=1e-5)
    assert read_symbols(str(tmp_path / "two" / "graph" / "Gr.fst")).ids == table.ids


def test_the_markers_may_share_a_number(tmp_path):
    table = tmp_path / "words.txt"
    for markers in ("<s> 3\n</s> 3\n", "</s> 3\n<s> 3\n"):
        table.write_text(f"<eps> 0\na 1\n#0 2\n{markers}b 4\n")
        words, numbers = read_word_file(str(table))
        assert dict(zip(words, numbers, strict=True)) == {"<eps>": 0, "a": 1, "#0": 2, "<s>": 3, "</s>": 3, "b": 4}
    table.write_text("<eps> 0\na 1\n<s> 3\nb 3\n")
    with pytest.raises(Exception, match="number 3 appears twice"):
        read_word_file(str(table))
