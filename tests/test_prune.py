"""Entropy pruning against SRILM and against its procedure spelled out."""

import itertools
import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from goldens import DEV, TEST, arpa_path, golden_model, sections, to_dict, worst_gap
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import BOS, EOS, Model, Ngram, prob
from random_models import random_model, write_model

from mdi import prune
from mdi.cli import main
from mdi.lm.arpa import read_arpa
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.normalise import worst_sum
from mdi.lm.perplexity import perplexity
from mdi.lm.prune import needs, threshold_for


def expected_ppl(name: str, text: str) -> float:
    printed = next(said for model, part, said in sections("srilm/ppl.txt") if (model, part) == (name, text))
    return float(printed.split(" ppl= ")[1].split()[0])


@pytest.mark.parametrize("threshold", ["1e-5", "1e-4"])
@pytest.mark.parametrize("name", ["bg.kn", "bg.kni"])
def test_pruned_models_are_srilms(name: str, threshold: str) -> None:
    golden = golden_model(f"{name}.prune{threshold}", closed=False)
    pruned = prune(golden_model(name), float(threshold))
    assert pruned.trie.counts == golden.trie.counts
    for k in (1, 2, 3):
        assert np.array_equal(golden.trie.begin[k], pruned.trie.begin[k])
        assert np.array_equal(golden.trie.word[k], pruned.trie.word[k])
        assert pruned.p[k] == pytest.approx(golden.p[k], rel=1e-6)
    for j in (1, 2):
        assert np.log10(pruned.bow[j]) == pytest.approx(np.log10(golden.bow[j]), abs=2e-6)
    whole = with_suffixes(pruned)
    assert worst_sum(whole)[0] < 1e-12
    for text, path in (("dev", DEV), ("test", TEST)):
        assert perplexity(whole, path).ppl == pytest.approx(expected_ppl(f"{name}.prune{threshold}", text), rel=1e-6)


def context_prob(model: Model, history: Ngram) -> float:
    total = 1.0
    for i, word in enumerate(history):
        total *= prob(model, history[:i], EOS if i == 0 and word == BOS else word)
    return total


def prune_step_by_step(model: Model, threshold: float) -> set[Ngram]:
    """SRILM's procedure: from the highest order down; a history goes when it has no n-gram and no longer history
    left."""
    order = max(map(len, model))
    kept = set(model)
    histories = {ngram[i:-1] for ngram in model for i in range(len(ngram))}
    for k in range(order, 1, -1):
        for h in [h for h in histories if len(h) == k - 1]:
            words = [ngram[-1] for ngram in model if len(ngram) == k and ngram[:-1] == h]
            left = 1.0 - sum(model[(*h, w)][0] for w in words)
            free = 1.0 - sum(prob(model, h[1:], w) for w in words)
            left, free = (0.0 if -3e-6 < x < 0 else x for x in (left, free))
            bow = model[h][1] if h in model else 1.0
            for w in words:
                p, backed_off = model[(*h, w)][0], prob(model, h[1:], w)
                new_bow = (left + p) / (free + backed_off)
                change = p * (math.log(backed_off) + math.log(new_bow) - math.log(p))
                if left > 0:
                    change += left * (math.log(new_bow) - math.log(bow))
                loss = math.exp(-context_prob(model, h) * change) - 1.0
                if loss < threshold and (*h, w) not in histories:
                    kept.remove((*h, w))
            if not any(ngram[:-1] == h for ngram in kept if len(ngram) == k) and not any(
                x[1:] == h for x in histories if x
            ):
                histories.remove(h)
    return kept


def random_ngram_model(seed: int, order: int, n_words: int, closed: bool) -> tuple[Model, NgramModel]:
    table = random_model(np.random.default_rng(seed), order, n_words, closed=closed)
    with tempfile.TemporaryDirectory() as folder:
        return table, read_arpa(write_model(table, Path(folder) / "lm"), closed=False, quiet=True)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 6), st.booleans(), st.floats(-5, -0.5))
@settings(max_examples=150, deadline=None)
def test_pruning_step_by_step(seed: int, order: int, n_words: int, closed: bool, log10_threshold: float) -> None:
    table, model = random_ngram_model(seed, order, min(n_words, 7 - order), closed)
    threshold = 10.0**log10_threshold
    pruned = prune(model, threshold)
    result = to_dict(pruned)
    assert result.keys() == prune_step_by_step(table, threshold)
    assert all(ngram[:-1] in result for ngram in result if len(ngram) > 1)  # every history is an n-gram
    assert all(p == pytest.approx(table[ngram][0], rel=1e-9) for ngram, (p, _) in result.items())
    assert worst_gap(result) < 1e-9
    assert worst_sum(with_suffixes(pruned))[0] < 1e-9


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans(), st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_thresholds_are_nested_and_found_by_size(seed: int, order: int, closed: bool, room: int) -> None:
    table, model = random_ngram_model(seed, order, 4, closed)
    need = needs(model)
    kept = [to_dict(prune(model, threshold, need=need)).keys() for threshold in (0.0, 1e-4, 1e-2, 0.1, 10.0)]
    assert kept[0] == table.keys()
    assert all(smaller <= larger for larger, smaller in itertools.pairwise(kept))
    most = model.trie.n_words + room
    threshold = threshold_for(need, most)
    size = sum(prune(model, threshold, need=need).trie.counts)
    assert size <= most
    if threshold > 0:  # the largest model that fits: the next smaller threshold is one too small
        below = np.concatenate(need[1:])
        below = below[below < threshold].max()
        assert below <= 0 or sum(prune(model, float(below), need=need).trie.counts) > most
    else:
        assert size == len(table)


def test_command_writes_and_certifies(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = str(tmp_path / "pruned.arpa.gz")
    assert main(["prune", "--threshold", "1e-5", arpa_path("bg.kn"), out]) == 0
    facts = json.loads(Path(out + ".json").read_text())
    assert facts["ngrams_before"] == [303, 5657, 5825]
    assert facts["ngrams"] == [303, 3010, 2287]
    assert facts["threshold"] == 1e-5
    assert facts["worst_sum_gap"] == pytest.approx(worst_sum(read_arpa(out))[0], abs=1e-9)  # of the file
    assert read_arpa(out, closed=False).trie.counts == [303, 3010, 2287]
    assert worst_sum(read_arpa(out))[0] < 1e-5
    # pruning again drops what the first time has made cheap, and never adds a row
    again = str(tmp_path / "again.arpa")
    assert main(["prune", "--max-ngrams", "4000", out, again]) == 0
    facts = json.loads(Path(again + ".json").read_text())
    assert sum(facts["ngrams"]) == 4000
    assert read_arpa(again, closed=False).trie.counts == facts["ngrams"]
    assert "4000" not in capsys.readouterr().out


def test_nothing_but_words_left(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = str(tmp_path / "out")
    assert main(["prune", "--max-ngrams", "303", arpa_path("bg.kn"), out]) == 0
    assert "of order 1" in capsys.readouterr().err
    model = read_arpa(out)
    assert model.trie.counts == [303]
    assert worst_sum(model)[0] < 1e-5


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--threshold", "-1", "LM", "OUT"], "--threshold -1.0; expected a number of 0 or more", 2),
        (["--threshold", "nan", "LM", "OUT"], "--threshold nan; expected a number of 0 or more", 2),
        (["--max-ngrams", "302", "LM", "OUT"], "at most 302 n-grams asked for, but 303 always stay", 1),
        (["LM", "LM"], "is also an input", 1),
        (["missing", "OUT"], "missing: No such file", 1),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("LM").write_bytes(Path(arpa_path("bg.kn")).read_bytes())
    assert main(["prune", *arguments]) == code
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["LM"]


def test_what_must_stay(tmp_path: Path) -> None:
    """'a c' stays under any threshold, as c has no 1-gram probability to fall back on; 'b a' and 'b b' do, as they sum
    to 1.5."""
    lm = tmp_path / "lm"
    unigrams = (
        "-99\t<s>\t0\n-0.30103\t</s>\n-0.60206\ta\t-0.30103\n-0.60206\tb\t-99\n-99\tc\n"  # 1/2, 1/4, 1/4; bow(a) = 1/2
    )
    bigrams = "-0.30103\ta c\n-99\t<s> c\n-0.1249387\tb a\n-0.1249387\tb b\n"  # 1/2, 0, 3/4, 3/4
    lm.write_text(f"\\data\\\nngram 1=5\nngram 2=4\n\n\\1-grams:\n{unigrams}\n\\2-grams:\n{bigrams}\n\\end\\\n")
    model = read_arpa(str(lm))
    need = {
        ngram: value for k in (1, 2) for ngram, value in zip(spelled(model, k), needs(model)[k].tolist(), strict=True)
    }
    assert {ngram for ngram, value in need.items() if value == math.inf} == need.keys() - {("<s>", "c")}
    assert need[("<s>", "c")] == 0.0
    pruned = to_dict(prune(model, 1e9))
    assert pruned.keys() == need.keys() - {("<s>", "c")}
    assert worst_gap(pruned) < 1e-9


def spelled(model: NgramModel, k: int) -> list[Ngram]:
    return [ngram for ngram in to_dict(model) if len(ngram) == k]
