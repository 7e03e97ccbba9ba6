"""Models in any form, in and out: what is read is what was written, whatever the form, the order and the pruning."""

import gzip
import io
import math
import re
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest
from goldens import arpa_path, golden_model, to_dict
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, write_model

from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.formats import FORMATS, format_of, load, words_for, write_lm
from mdi.lm.arpa import read_arpa
from mdi.lm.model import NgramModel
from mdi.lm.perplexity import perplexity

DATA = Path(__file__).parent / "data"
WORDS = str(DATA / "kaldi" / "words.txt")
NAMES = {"arpa": "lm.arpa", "fst": "G.fst", "opengrm": "lm.mod", "ngram": "Gr.fst", "carpa": "G.carpa"}


def table(path: Path, words: list[str]) -> str:
    """words.txt with these words in this order."""
    every = ["<eps>", *words, "#0", "<s>", "</s>"]
    path.write_text("".join(f"{word} {i}\n" for i, word in enumerate(every)), encoding="utf-8")
    return str(path)


def assert_same(found: NgramModel, expected: NgramModel, *, more: bool = False) -> None:
    """Every n-gram of one is in the other, with the same weights; with `more` the first may have further ones."""
    found_rows, expected_rows = to_dict(found), to_dict(expected)
    assert set(found_rows) >= set(expected_rows) if more else set(found_rows) == set(expected_rows)
    for ngram, (p, bow) in expected_rows.items():
        assert found_rows[ngram][0] == pytest.approx(p, rel=2e-6, abs=1e-30), ngram
        assert found_rows[ngram][1] == pytest.approx(bow, rel=2e-6, abs=1e-30), ngram


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("a.arpa", "arpa"),
        ("a.arpa.gz", "arpa"),
        ("-", "arpa"),
        ("dir.fst/lm.gz", "arpa"),
        ("G.carpa", "carpa"),
        ("x/rescore/G.carpa.gz", "carpa"),
        ("lang/G.fst", "fst"),
        ("graph/Gr.fst", "ngram"),
        ("Gr.new.fst", "ngram"),
        ("lm.ngram.fst", "ngram"),
        ("Graph.fst", "fst"),
        ("lm.mod", "opengrm"),
        ("lm.opengrm.fst", "opengrm"),
    ],
)
def test_the_name_says_the_form(path: str, form: str) -> None:
    assert format_of(path) == form


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans(), st.booleans(), st.sampled_from(FORMATS))
def test_random_models_survive_in_every_form(
    tmp_path_factory: pytest.TempPathFactory, seed: int, order: int, closed: bool, unk: bool, form: str
) -> None:
    """Any order, with and without <unk>, pruned so that suffixes are missing, and words.txt in another order."""
    folder, rng = tmp_path_factory.mktemp("formats"), np.random.default_rng(seed)
    dense = random_model(rng, order, 2 if order > 4 else 4, closed=closed, unk=unk)
    model = read_arpa(write_model(dense, folder / "a.arpa"), closed=False, quiet=True)
    names = [word for word in oracle.vocabulary(dense) if word not in (oracle.BOS, oracle.EOS)]
    rng.shuffle(names)
    words = table(folder / "words.txt", names)
    out = str(folder / NAMES[form])
    write_lm(model, out, words=words)
    found = load(out, words, closed=False)
    # an ngram FST has all the histories that its states back off to
    assert_same(found, model, more=form == "ngram" and not closed)
    written = to_dict(found)
    for h in oracle.all_histories(dense, order)[:40]:
        for w in (*names, oracle.EOS):
            assert oracle.prob(written, h, w) == pytest.approx(oracle.prob(dense, h, w), rel=1e-5)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["bg.kn", "bg4.kn", "bg.kni.prune1e-4", "bg.kn.closed", "in.1g"])
def test_models_of_srilm_score_the_same_in_every_form(name: str, form: str, tmp_path: Path) -> None:
    out = str(tmp_path / f"{NAMES[form]}.gz")
    write_lm(golden_model(name, closed=False), out, form, WORDS)
    text = str(DATA / "text" / "test.txt")
    expected = perplexity(golden_model(name), text).log10_prob
    assert perplexity(load(out, WORDS, quiet=True), text).log10_prob == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("form", ["fst", "opengrm", "ngram"])
def test_without_a_table_the_fst_holds_its_own(form: str, tmp_path: Path) -> None:
    out = str(tmp_path / NAMES[form])
    write_lm(golden_model("bg.kn", closed=False), out, form)
    assert_same(load(out, closed=False), golden_model("bg.kn", closed=False))
    assert words_for(None, arpa_path("bg.kn"), out) == out
    assert words_for(WORDS, out) == WORDS


def test_numbers_without_words_are_refused(tmp_path: Path) -> None:
    model = golden_model("bg.kn", closed=False)
    write_lm(model, str(tmp_path / "G.fst"), words=WORDS)
    with pytest.raises(MdiError, match=r"G\.fst: the FST holds no table of words; give the words\.txt"):
        load(str(tmp_path / "G.fst"))
    with pytest.raises(MdiError, match=r"G\.carpa: G\.carpa has numbers for words"):
        write_lm(model, str(tmp_path / "G.carpa"))
    write_lm(model, str(tmp_path / "G.carpa"), words=WORDS)
    with pytest.raises(MdiError, match=r"G\.carpa: G\.carpa has numbers for words"):
        load(str(tmp_path / "G.carpa"))
    short = table(tmp_path / "short.txt", ["w000"])
    with pytest.raises(MdiError, match=r"of its 303 words are not in .*short\.txt"):
        load(str(tmp_path / "G.carpa"), short)
    with pytest.raises(MdiError, match=r"number 2 of .*short\.txt is #0: is it the table"):
        load(str(tmp_path / "G.fst"), short)


@pytest.mark.parametrize("form", ["fst", "opengrm", "ngram", "carpa"])
@pytest.mark.usefixtures("shown")
def test_words_outside_the_table_are_dropped_and_limited(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same n-grams go whatever the form: those with a word that the table lacks."""
    some, model = str(DATA / "kaldi" / "words.some.txt"), golden_model("bg4.kn", closed=False)
    known = {line.split()[0] for line in Path(some).read_text().splitlines()} | {"<s>", "</s>"}
    expected = {gram: value for gram, value in to_dict(model).items() if set(gram) <= known}
    out = tmp_path / NAMES[form]
    with pytest.raises(MdiError, match="at most 20% may be dropped"):
        write_lm(model, str(out), words=some)
    assert not out.exists()
    write_lm(model, str(out), words=some, max_dropped=1.0)
    total = sum(model.trie.counts)
    assert f"{total - len(expected):,} of {total:,} n-grams" in capsys.readouterr().err
    found = load(str(out), some, closed=False)
    rows = to_dict(found)
    assert set(expected) <= set(rows) if form == "ngram" else set(expected) == set(rows)
    # weights of histories that nothing follows any more have moved within an FST: sentences cost the same
    rng, names = np.random.default_rng(1), sorted(known - {"<s>", "</s>", "<eps>", "#0"})
    for _ in range(50):
        sentence = ["<s>", *rng.choice(names, 6).tolist(), "</s>"]
        wanted = sum(
            math.log(oracle.prob(expected, tuple(sentence[max(0, i - 3) : i]), sentence[i])) for i in range(1, 8)
        )
        assert found.log_prob(sentence[1:], ["<s>"]) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.usefixtures("shown")
def test_weights_that_the_states_cannot_hold_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing follows 'a b', but its weight is 10^-0.1: the arc of 'a b' carries both, 10^-0.5."""
    lm = tmp_path / "lm.arpa"
    lm.write_text(
        "\\data\\\nngram 1=4\nngram 2=1\nngram 3=0\n\n\\1-grams:\n-0.6\t</s>\n-99\t<s>\n-0.6\ta\t0\n-0.6\tb\t0\n\n"
        "\\2-grams:\n-0.4\ta b\t-0.1\n\n\\3-grams:\n\n\\end\\\n"
    )
    write_lm(read_arpa(str(lm)), str(tmp_path / "G.opengrm.fst"))
    assert "1 histories that nothing follows had a back-off weight" in capsys.readouterr().err
    found = load(str(tmp_path / "G.opengrm.fst"))
    assert found.log_prob(["b"], ["a"]) == pytest.approx(-0.5 * math.log(10))


def test_a_probability_of_zero_stays_zero(tmp_path: Path) -> None:
    lm = tmp_path / "lm.arpa"
    lm.write_text(
        "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-0.3\t</s>\n-99\t<s>\t0\n-99\ta\t-99\n-0.3\tb\t0\n\n"
        "\\2-grams:\n-0.1\ta b\n\n\\end\\\n"
    )
    for form, name in NAMES.items():
        write_lm(read_arpa(str(lm)), str(tmp_path / name), form, table(tmp_path / "words.txt", ["b", "a"]))
        found = load(str(tmp_path / name), str(tmp_path / "words.txt"))
        assert found.p[1][found.vocab.id("a")] == 0.0
        assert found.bow[1][found.trie.as_hist[1][found.vocab.id("a")]] == 0.0


def test_only_the_flagged_rows_are_written(tmp_path: Path) -> None:
    model = golden_model("bg.kn")
    keep = [np.ones(1, bool), *(np.ones(model.trie.rows(k), bool) for k in range(1, 4))]
    keep[3][::2] = False
    for form, name in NAMES.items():
        write_lm(model, str(tmp_path / name), form, WORDS, keep=keep)
        assert load(str(tmp_path / name), WORDS, closed=False).trie.rows(3) == int(keep[3].sum())


def test_a_model_with_reserved_words_is_refused(tmp_path: Path) -> None:
    lm = tmp_path / "lm.arpa"
    lm.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-0.3\t</s>\n-99\t<s>\n-0.3\t#0\n\n\\end\\\n")
    for form in ("fst", "opengrm", "ngram", "carpa"):
        with pytest.raises(MdiError, match="#0 or <eps> as a word"):
            write_lm(read_arpa(str(lm)), str(tmp_path / "out"), form, WORDS)


def little_model(folder: Path) -> tuple[NgramModel, str]:
    """Of order 3, pruned: some hundred bytes in every form."""
    dense = random_model(np.random.default_rng(3), 3, 3, closed=False)
    model = read_arpa(write_model(dense, folder / "a.arpa"), closed=False, quiet=True)
    return model, table(folder / "words.txt", ["w2", "<unk>", "w0", "w1"])


def test_no_part_of_a_file_is_a_model(tmp_path: Path) -> None:
    """Cut off, it is refused. What else may be wrong with a file: tests/stress/fuzz.py."""
    model, words = little_model(tmp_path)
    for form, name in NAMES.items():
        if form == "arpa":
            continue
        write_lm(model, str(tmp_path / name), words=words)
        data = (tmp_path / name).read_bytes()
        for size in {*range(0, len(data), 37), *range(len(data) - 9, len(data))}:
            (tmp_path / "part").write_bytes(data[:size])
            with pytest.raises(MdiError):
                load(str(tmp_path / "part"), words, closed=False)


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From ARPA through every form and back; a form that its name does not say by --format."""
    last = arpa_path("mix")
    for name in ("G.carpa", "Gr.fst", "G.const.fst", "model.mod", "again.arpa.gz"):
        out = str(tmp_path / name)
        assert main(["convert", "--words", WORDS, last, out]) == 0
        last = out
    assert_same(load(last), golden_model("mix"), more=True)
    assert main(["convert", "--format", "carpa", "--words", WORDS, last, str(tmp_path / "x")]) == 0
    assert (tmp_path / "x").read_bytes().startswith(b"\0B<ConstArpaLm>")
    assert main(["convert", str(tmp_path / "x"), str(tmp_path / "y.arpa")]) == 1
    assert "give the words.txt that it was made with" in capsys.readouterr().err
    assert main(["convert", last, last]) == 1
    assert "is also an input" in capsys.readouterr().err


def test_an_fst_hands_on_its_table(tmp_path: Path) -> None:
    """Gr.fst in, Gr.fst out: the same numbers, without --words."""
    write_lm(golden_model("bg.kn", closed=False), str(tmp_path / "Gr.fst"), words=WORDS)
    assert main(["convert", str(tmp_path / "Gr.fst"), str(tmp_path / "lm.arpa")]) == 0
    assert main(["convert", str(tmp_path / "Gr.fst"), str(tmp_path / "Gr.2.fst")]) == 0
    by_words = ["convert", "--words", str(tmp_path / "Gr.fst"), str(tmp_path / "lm.arpa"), str(tmp_path / "Gr.3.fst")]
    assert main(by_words) == 0
    first = (tmp_path / "Gr.fst").read_bytes()
    assert (tmp_path / "Gr.2.fst").read_bytes()[:20000] == first[:20000]
    assert len((tmp_path / "Gr.3.fst").read_bytes()) == len(first)


def test_binary_forms_on_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lm(golden_model("bg.kn", closed=False), str(tmp_path / "Gr.fst.gz"), "ngram", WORDS)
    for data in ((tmp_path / "Gr.fst.gz").read_bytes(), gzip.decompress((tmp_path / "Gr.fst.gz").read_bytes())):
        stream = io.BufferedReader(io.BytesIO(data))
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stream}))
        assert_same(load("-", closed=False), golden_model("bg.kn", closed=False))


def test_kenlm_scores_an_adapted_model_the_same(tmp_path: Path) -> None:
    """For those who decode with KenLM's module (pyctcdecode, NeMo, torchaudio): 1,000 sentences."""
    kenlm = pytest.importorskip("kenlm")
    out, text = tmp_path / "adapted.arpa", DATA / "text"
    inputs = [arpa_path("bg.kn"), str(text / "in.txt.gz")]
    assert main(["adapt", "--min-counts", "1", "--sigma2", "1", *inputs, str(out)]) == 0
    ours, theirs = load(str(out)), kenlm.Model(str(out))
    lines = gzip.decompress((text / "bg.txt.gz").read_bytes()).decode().splitlines()[:800]
    lines += (text / "test.txt").read_text().splitlines()
    assert len(lines) == 1000
    for line in lines:
        words = [word if ours.vocab.id(word) >= 0 else "<unk>" for word in line.split()]
        expected = ours.log_prob([*words, "</s>"], ["<s>"]) / math.log(10)
        assert theirs.score(line) == pytest.approx(expected, abs=1e-5)


def test_every_verb_reads_and_writes_any_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command with another form in and out gives the same model within 32 bits."""
    text, dev = str(DATA / "text" / "in.txt.gz"), str(DATA / "text" / "dev.txt")
    source, small = arpa_path("bg.kn"), arpa_path("bg.kn.prune1e-4")
    commands = {
        "adapt": ["--min-counts", "5-3-2", source, text],
        "match": [small, source, text],
        "mix": ["--weights", "0.5,0.5", source, small],
        "prune": ["--threshold", "1e-5", source],
        "tune": ["--min-counts", "5-3-2", "--sigma2", "1", source, text, dev],
    }
    other = {source: str(tmp_path / "Gr.fst"), small: str(tmp_path / "G.carpa")}
    for path, form in other.items():
        assert main(["convert", "--words", WORDS, path, form]) == 0
    for verb, arguments in commands.items():
        plain, carpa = str(tmp_path / f"{verb}.arpa"), str(tmp_path / f"{verb}.carpa")
        assert main([verb, *arguments, plain]) == 0
        assert main([verb, "--words", WORDS, *(other.get(part, part) for part in arguments), carpa]) == 0
        found, expected = (perplexity(load(path, WORDS, quiet=True), dev).ppl for path in (carpa, plain))
        assert found == pytest.approx(expected, rel=1e-4), verb
    assert main(["train", "--format", "ngram", text, str(tmp_path / "trained")]) == 0
    capsys.readouterr()
    assert main(["check", str(tmp_path / "trained")]) == 0
    assert "order 3" in capsys.readouterr().out
    assert main(["ppl", str(tmp_path / "trained"), dev]) == 0
    assert main(["ppl", "--words", WORDS, other[small], dev]) == 0
    # what cannot be written is refused before any work is done
    assert main(["adapt", source, text, str(tmp_path / "late.carpa")]) == 2
    said = capsys.readouterr().err
    assert "late.carpa: G.carpa has numbers for words; give Kaldi's table: --words words.txt" in said
    assert "iteration" not in said


def test_lattices_are_rescored_with_a_carpa(tmp_path: Path) -> None:
    """As with the ARPA file that it was made from."""
    lattices, carpa = str(DATA / "lat" / "lats.minus-old.txt.gz"), str(tmp_path / "G.carpa")
    assert main(["convert", "--words", WORDS, arpa_path("mix"), carpa]) == 0
    costs = []
    for model in (arpa_path("mix"), carpa):
        out = str(tmp_path / "lats.txt")
        assert main(["rescore", "--words", WORDS, "--new-lm", model, "--text", "true", lattices, out]) == 0
        costs.append(re.split(r"[ \t\n,_]+", Path(out).read_text()))
    assert len(costs[0]) == len(costs[1])
    for one, other in zip(*costs, strict=True):
        assert one == other or float(one) == pytest.approx(float(other), abs=1e-4)
