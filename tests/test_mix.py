"""Interpolation against SRILM and against the definition."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from goldens import DATA, DEV, TEST, arpa_path, golden_model, sections, to_dict, worst_gap
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import prob
from random_models import random_model, write_model

from mdi import best_weights
from mdi.cli import main
from mdi.errors import MdiError
from mdi.lm.arpa import read_arpa, write_arpa
from mdi.lm.mix import em_steps, em_weights, mix, over_one_vocabulary
from mdi.lm.model import with_suffixes
from mdi.lm.normalise import worst_sum
from mdi.lm.perplexity import perplexity, token_probs
from mdi.lm.text import Text

SRILM_WEIGHT = 0.513831  # compute-best-mix with its own precision, 1e-3


def dev_probs() -> list[np.ndarray]:
    models = over_one_vocabulary([golden_model("in.kn"), golden_model("bg.kn")])
    ids = np.concatenate(list(Text(DEV, models[0].vocab)))
    scored = [token_probs(model, ids) for model in models]
    return [p[used > 0] for p, used in scored]


def test_em_takes_the_steps_of_srilm() -> None:
    log = (DATA / "srilm" / "best-mix.log").read_text()
    golden = [[float(x) for x in m] for m in re.findall(r"lambda = \((\S+) (\S+)\), ppl = (\S+)", log)]
    assert len(golden) == 7
    for (weights, ppl), expected in zip(em_steps(dev_probs()), golden, strict=False):
        assert [*weights, ppl] == pytest.approx(expected, rel=2e-6)


def test_em_converges_to_srilms_precise_weights() -> None:
    golden = re.search(r"best lambda \((\S+) (\S+)\)", (DATA / "srilm" / "best-mix.precise.txt").read_text())
    assert em_weights(dev_probs()) == pytest.approx([float(x) for x in golden.groups()], abs=2e-6)


def test_perplexity_of_the_dynamic_mixture() -> None:
    dynamic = re.search(r"ppl= (\S+)", sections("srilm/ppl.dynamic-mix.txt")[0][2])[1]
    mixture = np.array([SRILM_WEIGHT, 1 - SRILM_WEIGHT]) @ np.array(dev_probs())
    assert np.exp(-np.log(mixture).mean()) == pytest.approx(float(dynamic), rel=1e-6)


@given(st.integers(2, 4), st.integers(1, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_em_weights_are_optimal(models: int, tokens: int, seed: int) -> None:
    """At the maximum of sum log(weights . p): mean of p_i / mixture is 1 where weight_i > 0 and at most 1 elsewhere."""
    rng = np.random.default_rng(seed)
    probs = rng.random((models, tokens)) ** 3
    probs[:, rng.random(tokens) < 0.2] = 0.0  # tokens that no model knows
    if not probs.any():
        with pytest.raises(MdiError, match="probability 0 in all models"):
            em_weights(list(probs))
        return
    weights = em_weights(list(probs))
    known = probs[:, probs.any(axis=0)]
    slope = (known / (weights @ known)).mean(axis=1)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (slope < 1 + 2e-3).all()
    assert slope[weights > 1e-2] == pytest.approx(1.0, abs=2e-3)


def test_static_mixture_is_srilms() -> None:
    golden = golden_model("mix")
    mixed = mix([golden_model("in.kn"), golden_model("bg.kn")], [SRILM_WEIGHT, 1 - SRILM_WEIGHT])
    assert mixed.trie.counts == [303, 6255, 6113]
    assert golden.vocab.same_words(mixed.vocab)
    for k in (1, 2, 3):
        assert np.array_equal(golden.trie.word[k], mixed.trie.word[k])
        assert np.array_equal(golden.trie.begin[k], mixed.trie.begin[k])
        positive = golden.p[k] > 0
        assert np.array_equal(positive, mixed.p[k] > 0)
        assert np.log10(mixed.p[k][positive]) == pytest.approx(np.log10(golden.p[k][positive]), abs=2e-6)
    for j in (1, 2):
        assert np.log10(mixed.bow[j]) == pytest.approx(np.log10(golden.bow[j]), abs=2e-6)
    assert worst_sum(mixed)[0] < 1e-12
    assert perplexity(mixed, DEV).ppl == pytest.approx(26.32153, rel=1e-6)
    assert perplexity(mixed, TEST).ppl == pytest.approx(28.29133, rel=1e-6)


def saved(model: dict, folder: str, name: str) -> str:
    return write_model(model, Path(folder) / name)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5), st.booleans(), st.booleans()), min_size=2, max_size=3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_mixture_by_the_definition(shapes: list, seed: int) -> None:
    """Any orders, any words, closed or pruned: the union's n-grams, the weighted sums, every history sums to one."""
    rng = np.random.default_rng(seed)
    tables = [random_model(rng, order, n_words, closed=closed, unk=unk) for order, n_words, closed, unk in shapes]
    weights = rng.dirichlet(np.ones(len(tables)))
    with tempfile.TemporaryDirectory() as folder:
        models = [read_arpa(saved(table, folder, str(i)), closed=False, quiet=True) for i, table in enumerate(tables)]
    mixed = to_dict(mix(models, weights))
    assert mixed.keys() == set().union(*tables)
    for *history, word in mixed:
        expected = sum(
            weight * prob(table, tuple(history), word) for weight, table in zip(weights, tables, strict=True)
        )
        assert mixed[(*history, word)][0] == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert worst_gap(mixed) < 1e-9


def test_a_weight_of_one_keeps_the_model() -> None:
    a, b = golden_model("in.kn"), golden_model("bg.kn")
    mixed = mix([a, b], [1, 0])
    assert mixed.trie.counts == [303, 6255, 6113]
    assert perplexity(mixed, DEV).log_prob == pytest.approx(perplexity(a, DEV).log_prob, rel=1e-5)


def test_words_in_another_order() -> None:
    """The same model with its words numbered backwards, mixed with itself, is itself."""
    table = to_dict(golden_model("in.kn"))
    with tempfile.TemporaryDirectory() as folder:
        backwards = read_arpa(saved(dict(reversed(table.items())), folder, "backwards"), quiet=True)
    assert not backwards.vocab.same_words(golden_model("in.kn").vocab)
    mixed = to_dict(mix([golden_model("in.kn"), backwards], [0.3, 0.7]))
    assert mixed.keys() == table.keys()
    assert all(mixed[ngram][0] == pytest.approx(table[ngram][0], rel=1e-6) for ngram in table)


# 1/2, 1/4, 1/4
ONE_UNK = "\\data\\\nngram 1=4\n\n\\1-grams:\n-99\t<s>\n-0.30103\t</s>\n-0.60206\ta\n-0.60206\t{unk}\n\n\\end\\\n"


def test_two_names_of_the_unknown_word(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("<unk>", "<UNK>"):
        (tmp_path / name).write_text(ONE_UNK.format(unk=name))
    out = str(tmp_path / "out")
    assert main(["mix", "--weights", "0.5,0.5", str(tmp_path / "<UNK>"), str(tmp_path / "<unk>"), out]) == 0
    assert "its unknown word <unk> is taken as <UNK>" in capsys.readouterr().err
    mixed = to_dict(read_arpa(out))
    assert {ngram: round(p, 6) for ngram, (p, _) in mixed.items()} == {
        ("<s>",): 0,
        ("</s>",): 0.5,
        ("a",): 0.25,
        ("<UNK>",): 0.25,
    }
    both = ONE_UNK.format(unk="<unk>").replace("ngram 1=4", "ngram 1=5").replace("\n\n\\end", "\n-9\t<UNK>\n\n\\end")
    (tmp_path / "both").write_text(both)
    assert main(["mix", "--weights", "0.5,0.5", str(tmp_path / "<UNK>"), str(tmp_path / "both"), out]) == 1
    assert "both <unk> and <UNK>" in capsys.readouterr().err


def test_command_tunes_writes_and_certifies(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = str(tmp_path / "mix.arpa.gz")
    assert main(["mix", "--tune", DEV, arpa_path("in.kn"), arpa_path("bg.kn"), out]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(r"^tuned in \d+ iterations: weights 0\.51790\d 0\.48209\d, ppl 26\.3433$", said.err, re.MULTILINE)
    assert "iteration 2," not in said.err
    assert main(["mix", "--verbose", "true", "--tune", DEV, arpa_path("in.kn"), arpa_path("bg.kn"), out]) == 0
    assert "iteration 2, weights 0.503418 0.496582, ppl 26.3454\n" in capsys.readouterr().err
    facts = json.loads(Path(out + ".json").read_text())
    assert facts["weights"] == pytest.approx([0.517906, 0.482094], abs=2e-6)
    assert facts["ngrams"] == [303, 6255, 6113]
    assert facts["tuning"]["tokens"] == 2040
    assert facts["tuning"]["dynamic_ppl"] == pytest.approx(26.34332, rel=1e-6)
    assert facts["worst_sum_gap"] < 1e-6  # of the file
    model = read_arpa(out)
    assert worst_sum(model)[0] < 1e-5  # seven digits
    assert perplexity(model, DEV).ppl == pytest.approx(facts["development"]["ppl"], rel=1e-6)


def test_standard_output_and_words_without_probability(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch
) -> None:
    """b has probability 0 in both models; a and twice </s> have 1/2 each in the first, 3/4 and 1/4 in the second: all
    weight is the first one's."""
    monkeypatch.chdir(tmp_path)
    for name, end, a in (("A", "-0.30103", "-0.30103"), ("B", "-0.60206", "-0.1249387")):
        text = ONE_UNK.format(unk="b").replace("-0.60206\tb", "-99\tb").replace("-0.60206\ta", f"{a}\ta")
        Path(name).write_text(text.replace("-0.30103\t</s>", f"{end}\t</s>"))
    Path("text").write_text("b a\nb\n")
    assert main(["mix", "--tune", "text", "A", "B", "-"]) == 0
    said = capsys.readouterr()
    assert "1.000000 A, 0.000000 B" in said.err
    assert re.search(r"^-0\.30103\d*\t</s>$", said.out, re.MULTILINE)
    assert main(["mix", "--tune", "text", "A", "B", "OUT"]) == 0
    facts = json.loads(Path("OUT.json").read_text(), parse_constant=pytest.fail)
    assert facts["tuning"]["zeroprobs"] == 2
    assert facts["development"]["ppl"] == pytest.approx(2.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A", "B", "OUT", "OUT.json", "text"]


def test_lower_orders_and_missing_words_are_told(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "small").write_text(ONE_UNK.format(unk="b"))
    out = str(tmp_path / "out")
    assert main(["mix", "--weights", "0.9,0.1", arpa_path("in.kn"), str(tmp_path / "small"), out]) == 0
    said = capsys.readouterr().err
    assert "models of order 3, 1: mixed at order 3, the lower ones back off" in said
    assert "lacks 300 of 304 words" in said
    assert "no unknown word; <unk> has probability 0 in it" in said
    model = read_arpa(out)
    assert model.trie.counts == [305, 2116, 962]
    assert worst_sum(model)[0] < 1e-5


def test_pruned_models_keep_their_own_ngrams(tmp_path: Path) -> None:
    """Rows that only closure adds are neither mixed nor written."""
    parts = [golden_model(name, closed=False) for name in ("bg.kn.prune1e-4", "in.kn")]
    mixed = mix(parts, [0.5, 0.5])
    assert to_dict(mixed).keys() == to_dict(parts[0]).keys() | to_dict(parts[1]).keys()
    assert sum(with_suffixes(mixed).trie.counts) > sum(mixed.trie.counts)
    assert worst_sum(with_suffixes(mixed))[0] < 1e-12


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--weights", "0.5,0.6", "A", "B", "OUT"], "weights 0.5,0.6 sum to 1.1; expected 1", 2),
        (["--weights", "0.5,0.3,0.2", "A", "B", "OUT"], "3 weights (0.5,0.3,0.2) for 2 models", 2),
        (["--weights", "1.5,-0.5", "A", "B", "OUT"], "expected numbers from 0 to 1", 2),
        (["--weights", "nan,1", "A", "B", "OUT"], "expected numbers from 0 to 1", 2),
        (["--weights", "half,half", "A", "B", "OUT"], "expected numbers separated by commas", 2),
        (["--weights", "1", "A", "OUT"], "one model only", 2),
        (["--weights", "0.5,0.5", "A", "B", "A"], "is also an input", 1),
        (["--tune", "B", "A", "A", "B"], "is also an input", 1),
        (["--weights", "0.5,0.5", "A", "B.json", "B"], "B.json: is also an input", 1),
        (["--weights", "0.5,0.5", "A", "B", "nowhere/OUT"], "the directory nowhere does not exist", 1),
        (["--weights", "0.5,0.5", "A", "missing", "OUT"], "missing: No such file", 1),
        (["--tune", "STRANGE", "A", "B", "OUT"], "none of its 3 words is in a model ('X', 'Y')", 1),
        (["--tune", "EMPTY", "A", "B", "OUT"], "no text", 1),
        (["--weights", "0.5,0.5", "ZERO", "ZERO", "OUT"], "no word has a probability", 1),
        (["--weights", "0.5,0.5", "FLAT", "FLAT", "OUT"], "would sum to one only within 1 (after 'a')", 1),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("A").write_text(ONE_UNK.format(unk="<unk>"))
    Path("B").write_text(ONE_UNK.format(unk="<unk>"))
    Path("B.json").write_text(ONE_UNK.format(unk="<unk>"))
    Path("STRANGE").write_text("X Y\nX\n")
    Path("EMPTY").write_text("\n")
    Path("ZERO").write_text(re.sub(r"-0\.\d+", "-99", ONE_UNK.format(unk="<unk>")))
    flat = ONE_UNK.format(unk="<unk>").replace("ngram 1=4", "ngram 1=4\nngram 2=3")
    Path("FLAT").write_text(flat.replace("\n\n\\end", "\n\n\\2-grams:\n-99\ta </s>\n-99\ta a\n-99\ta <unk>\n\n\\end"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["mix", *arguments]) == code
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "arguments", [["A", "B", "OUT"], ["--tune", "T", "--weights", "1,0", "A", "B", "OUT"], ["--weights", "1", "OUT"]]
)
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["mix", *arguments])
    assert stop.value.code == 2


def test_a_model_that_does_not_sum_to_one_is_told(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "half").write_text(ONE_UNK.format(unk="<unk>").replace("-0.60206\ta", "-99\ta"))  # 3/4
    (tmp_path / "sound").write_text(ONE_UNK.format(unk="<unk>"))
    assert (
        main(["mix", "--weights", "0.5,0.5", str(tmp_path / "half"), str(tmp_path / "sound"), str(tmp_path / "out")])
        == 0
    )
    said = capsys.readouterr().err
    assert "half: the probabilities after the empty history miss 1 by 0.25" in said
    assert "sound: the prob" not in said
    assert worst_sum(read_arpa(str(tmp_path / "out")))[0] < 1e-6


def test_a_history_without_mass_to_back_off_with(tmp_path: Path) -> None:
    """After 'a', three words of four take all: 3 x 0.3333334 is more than 1, so they are scaled and the fourth gets
    nothing."""
    rows = "".join(f"-0.4771212\ta {w}\n" for w in ("a", "b", "</s>"))
    unigrams = "".join(f"-0.60206\t{w}\t-99\n" for w in ("a", "b", "c", "</s>"))
    lm = tmp_path / "lm"
    lm.write_text(f"\\data\\\nngram 1=5\nngram 2=3\n\n\\1-grams:\n-99\t<s>\n{unigrams}\n\\2-grams:\n{rows}\n\\end\\\n")
    mixed = mix([read_arpa(str(lm))] * 2, [0.5, 0.5])
    assert mixed.p[2] == pytest.approx([1 / 3] * 3, rel=1e-12)
    assert to_dict(mixed)[("a",)][1] == 0.0
    write_arpa(mixed, str(tmp_path / "out"))
    assert prob(to_dict(read_arpa(str(tmp_path / "out"))), ("a",), "c") == 0.0


def test_a_development_text_that_no_model_allows(tmp_path, capsys):
    """Ends of sentences alone, which have a probability, would give weights and a fine perplexity."""
    lm, dev, out = tmp_path / "lm.arpa", tmp_path / "dev", tmp_path / "out.arpa"
    lm.write_text("\\data\\\nngram 1=4\n\n\\1-grams:\n-99\t<s>\n-0.30103\t</s>\n-0.30103\ta\n-99\tb\n\n\\end\\\n")
    command = ["mix", "--tune", str(dev), str(lm), str(lm), str(out)]
    dev.write_text("b b\nb\n")
    assert main(command) == 1
    assert "all 3 words of the development text have probability 0 in every model" in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(MdiError, match="all 3 words"):
        best_weights([read_arpa(str(lm))] * 2, dev)
    dev.write_text("b b\na\n")
    assert main(command) == 0
    assert "WARNING: 2 of 5 tokens of the development text have probability 0" in capsys.readouterr().err
