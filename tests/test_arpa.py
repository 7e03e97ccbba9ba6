"""Reading and writing ARPA files: the habits of other tools, what is malformed, and what is random."""

import gzip
from pathlib import Path

import numpy as np
import oracle
import pytest
from goldens import GOOD
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model, write_model

from mdi.cli import main
from mdi.errors import MdiError
from mdi.lm.arpa import read_arpa, write_arpa
from mdi.lm.normalise import worst_sum
from mdi.lm.perplexity import perplexity

DATA = Path(__file__).parent / "data"
BAD = DATA / "bad"

# Files with a defect that changes no probability: log10 probability of the probe text, as SRILM computes it for the
# good file.
HARMLESS = {
    "good.arpa": -19.19806,
    "good.arpa.gz": -19.19806,
    "bom.arpa": -19.19806,
    "comment-before-data.arpa": -19.19806,
    "crlf.arpa": -19.19806,
    "no-blank-lines.arpa": -19.19806,
    "not-gzip.arpa.gz": -19.19806,
    "spaces-for-tabs.arpa": -19.19806,
    "tabs-between-words.arpa": -19.19806,
    "missing-backoff-unigram.arpa": -19.19806,
    "missing-backoff-bigram.arpa": -19.37415,  # weight 1, as KenLM reads it; SRILM drops its 3-grams
    "positive-backoff.arpa": -19.07415,
    "missing-suffix.arpa": -18.89703,
    "count-zero-section.arpa": -19.9449,
    "no-unk.arpa": -18.2602,
    # one word spelled with a character that some tools take for a blank: another word, as SRILM reads it
    "formfeed-word.arpa": -18.46566,
    "nbsp-word.arpa": -18.46566,
    "nel-word.arpa": -18.46566,
    "non-utf8.arpa": -18.46566,
    "u2028-word.arpa": -18.46566,
    "u3000-word.arpa": -18.46566,
}
# file: (line or None, what the message says)
REFUSED = {
    "backoff-on-highest.arpa": (54, "3 is the highest order"),
    "comma-decimal.arpa": (29, "-0,5118834"),
    "count-huge.arpa": (5, "99,999,999,999 3-grams"),
    "count-negative.arpa": (4, "positive count"),
    "count-too-large.arpa": (44, "25 n-grams; the header announced 27"),
    "count-too-small.arpa": (41, "more 2-grams than the 23"),
    "duplicate-bigram.arpa": (43, "the 2-gram 'w001 w000' appears twice"),
    "duplicate-trigram.arpa": (79, "the 3-gram 'w001 w000 w002' appears twice"),
    "duplicate-unigram.arpa": (16, "'w000' appears twice"),
    "empty.arpa": (None, "no \\data\\ line"),
    "only-newlines.arpa": (None, "no \\data\\ line"),
    "no-data.arpa": (None, "no \\data\\ line"),
    "header-gap.arpa": (4, "expected the line of order 2"),
    "header-order4-missing.arpa": (81, "expected \\4-grams:"),
    "inf-logprob.arpa": (29, "'inf'"),
    "minus-inf-logprob.arpa": (29, "'-inf'"),
    "nan-logprob.arpa": (29, "'nan'"),
    "nan-backoff.arpa": (29, "'nan'"),
    "non-number.arpa": (29, "'abc'"),
    "positive-logprob.arpa": (29, "0.25 is positive"),
    "missing-prefix.arpa": (51, "'w001 w000' is not among the 2-grams"),
    "missing-unigram.arpa": (17, "'w000'"),
    "no-bos.arpa": (None, "no <s> among the 1-grams"),
    "no-eos.arpa": (None, "no </s> among the 1-grams"),
    "no-end.arpa": (80, "expected \\end\\"),
    "no-end-no-newline.arpa": (79, "expected \\end\\"),
    "sections-swapped.arpa": (17, "expected \\2-grams:"),
    "space-word.arpa": (15, "'4"),
    "text-after-end.arpa": (81, "after \\end\\"),
    "trigram-in-bigrams.arpa": (21, "'w002'"),
    "truncated-midline.arpa": (57, "0 words in the 3-gram section"),
    "truncated.arpa.gz": (None, "broken gzip stream"),
}


def test_every_file_has_a_verdict() -> None:
    files = {path.name for path in BAD.iterdir() if ".arpa" in path.name}
    assert files == set(HARMLESS) | set(REFUSED)


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_habits_are_read_as_srilm_reads_them(name: str) -> None:
    model = read_arpa(str(BAD / name), quiet=True)
    assert perplexity(model, BAD / "probe.txt").log10_prob == pytest.approx(HARMLESS[name], abs=2e-5)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_malformed_files_get_a_clear_error(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.arpa"
    assert main(["adapt", str(BAD / name), str(BAD / "tiny.txt"), str(out)]) == 1
    said = capsys.readouterr().err
    line, message = REFUSED[name]
    where = f"{BAD / name}:{line}: " if line else f"{BAD / name}: "
    assert said.startswith(f"mdi adapt: {where}")
    assert message in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_srilm_file_survives_byte_for_byte(tmp_path: Path) -> None:
    source = DATA / "kaldi" / "bg.kn.arpa.gz"
    write_arpa(read_arpa(str(source)), str(tmp_path / "again.arpa"))
    assert (tmp_path / "again.arpa").read_bytes() == gzip.decompress(source.read_bytes())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans())
def test_random_models_of_any_order_survive(
    tmp_path_factory: pytest.TempPathFactory, seed: int, order: int, shuffled: bool
) -> None:
    """What is read is what a plain parser reads, whatever the order of the lines; what is written is normalised."""
    folder = tmp_path_factory.mktemp("arpa")
    rng = np.random.default_rng(seed)
    dense = random_model(rng, order, 2 if order > 4 else 4, closed=False)
    if shuffled:
        keys = list(dense)
        rng.shuffle(keys)
        dense = {tuple(str(w) for w in key): dense[tuple(key)] for key in sorted(map(tuple, keys), key=len)}
    model = read_arpa(write_model(dense, folder / "a.arpa"), quiet=True)
    for gram, (p, bow) in dense.items():
        k = len(gram)
        row = model.trie.find(model.vocab.ids(gram)[None, :])[0]
        assert model.p[k][row] == pytest.approx(p, rel=1e-13)
        if k < model.order:
            assert model.bow[k][model.trie.as_hist[k][row]] == pytest.approx(bow, rel=1e-13)
    write_arpa(model, str(folder / "b.arpa.gz"))
    again = read_arpa(str(folder / "b.arpa.gz"))
    assert worst_sum(again)[0] < 1e-6
    written = oracle.read(folder / "b.arpa.gz")
    assert set(dense) <= set(written)
    for h in oracle.all_histories(dense, order)[:50]:
        for w in oracle.vocabulary(dense):
            if w != oracle.BOS:
                assert oracle.prob(written, h, w) == pytest.approx(oracle.prob(dense, h, w), rel=1e-5)


@pytest.mark.parametrize(
    "value", [0.0, -99, -1.234567, -0.01234567, -1e-5, -1.5e-7, -12.5, 3.25, -0.5, -1, -9.999999, -0.99999999]
)
def test_numbers_are_written_as_c_does(value: float) -> None:
    from mdi.kernels import text as kernels

    out = np.zeros(64, np.uint8)
    size = kernels.put_number(out, 0, value)
    text = out[:size].tobytes().decode()
    assert text == f"{value:.7g}"


@settings(max_examples=200, deadline=None)
@given(st.floats(-120, 120, allow_nan=False))
def test_numbers_are_written_with_seven_digits_and_seven_decimals(value: float) -> None:
    from mdi.kernels import text as kernels

    out = np.zeros(64, np.uint8)
    text = out[: kernels.put_number(out, 0, value)].tobytes().decode()
    assert float(text) == pytest.approx(value, rel=5.1e-7, abs=1e-29)
    assert float(text) == pytest.approx(value, abs=5.1e-8)


@settings(max_examples=200, deadline=None)
@given(st.floats(-300, 300, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-200), st.integers(1, 17))
def test_numbers_are_read_exactly(value: float, digits: int) -> None:
    from mdi.kernels import text as kernels

    for text in (f"{value:.{digits}g}", f"{value:.{digits}f}", f"{value:.{digits}e}"):
        data = np.frombuffer(text.encode(), np.uint8)
        found, ok = kernels.parse_number(data, 0, len(data))
        assert ok
        assert found == pytest.approx(float(text), rel=1e-14, abs=1e-300)


def test_a_large_vocabulary_and_long_words(tmp_path: Path) -> None:
    """No n-gram is packed into one integer: 3 million words would not fit three times into 64 bits."""
    n = 70_000
    words = [f"w{i}" for i in range(n - 1)] + ["x" * 3000]
    with open(tmp_path / "v.arpa", "w") as out:
        out.write(
            f"\\data\\\nngram 1={n + 3}\nngram 2=2\nngram 3=1\nngram "
            f"4=1\n\n\\1-grams:\n-99\t<s>\n-0.30103\t</s>\n-2\t<unk>\n"
        )
        out.writelines(f"-5.5\t{word}\n" for word in words)
        last, long = words[-2], words[-1]
        out.write(f"\n\\2-grams:\n-0.1\t{last} {long}\n-0.2\t{long} {last}\n\n\\3-grams:\n-0.3\t{last} {long} {last}\n")
        out.write(f"\n\\4-grams:\n-0.4\t{last} {long} {last} {long}\n\n\\end\\\n")
    model = read_arpa(str(tmp_path / "v.arpa"), quiet=True)
    assert model.log_prob([long], [last, long, last]) == pytest.approx(-0.4 * np.log(10))
    write_arpa(model, str(tmp_path / "w.arpa"))
    assert read_arpa(str(tmp_path / "w.arpa")).trie.counts == model.trie.counts


def test_binary_models_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    with pytest.raises(MdiError, match="KenLM binary"):
        read_arpa(str(tmp_path / "x.bin"))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(MdiError, match=r"nowhere\.arpa: No such file"):
        read_arpa("nowhere.arpa")


def test_infinite_weights_are_refused(tmp_path):
    (tmp_path / "lm").write_text(Path(GOOD).read_text().replace("w000\t0.3290587", "w000\t400"))
    with pytest.raises(MdiError, match=r"over 10\^308"):
        read_arpa(tmp_path / "lm")
