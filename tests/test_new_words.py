"""Models over a larger vocabulary: against definitions spelled out in dictionaries, and by every way to one model."""

import json
import math
from pathlib import Path

import numpy as np
import oracle
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_models import random_model, random_text, write_model

import mdi
from mdi import SolverSettings
from mdi.adaptation.adapter import Adapter
from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.symbols import SymbolTable, read_symbols
from mdi.lm.counts import count_text, over_words, write_counts
from mdi.lm.identity import identity
from mdi.lm.new_words import count_with_new_words, estimated, with_words
from mdi.lm.normalise import worst_sum
from mdi.lm.vocabulary import vocabulary

DATA = Path(__file__).parent / "data"
BACKGROUND = str(DATA / "kaldi" / "bg.kn.arpa.gz")
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
NEW = ["gnu", "yak"]
TEXT = ["w000 yak w001", "gnu w000 yak", "w002 w003 gnu gnu", "w000 yak w001 w004", "w005 lone w006 w007 w008 w009"]


def dictionary(model: mdi.NgramModel) -> oracle.Model:
    """The model as tests know it: no code of mdi/ but its arrays."""
    made: oracle.Model = {}
    words = model.vocab.words
    for k in range(1, model.order + 1):
        for row, ids in enumerate(model.trie.ngrams(k, np.arange(model.trie.rows(k), dtype=np.int32)).tolist()):
            bow = float(model.bow[k][model.trie.as_hist[k][row]]) if k < model.order else 1.0
            made[tuple(words[i] for i in ids)] = float(model.p[k][row]), bow
    return made


def sums(model: oracle.Model, order: int) -> list[float]:
    predicted = [word for word in oracle.vocabulary(model) if word != oracle.BOS]
    return [math.fsum(oracle.prob(model, h, w) for w in predicted) for h in oracle.all_histories(model, order)]


@settings(max_examples=60, deadline=None, phases=PHASES)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.lists(st.floats(1e-5, 0.2), min_size=1, max_size=3),
    st.one_of(st.none(), st.floats(1e-5, 0.3)),
)
def test_a_larger_vocabulary(tmp_path_factory, seed, order, closed, unk, q, keeps):
    """Every history of every length, spelled out, sums to one; p(w|h) of rows stays, and so does what backing off
    shares out among the old words: new words take from all of them alike."""
    rng = np.random.default_rng(seed)
    spelled = random_model(rng, order, int(rng.integers(1, 4)), closed=closed, unk=unk)
    model = mdi.read_arpa(write_model(spelled, tmp_path_factory.mktemp("m") / "m.arpa"), quiet=True)
    words = [f"new{i}" for i in range(len(q))]
    wide = with_words(model, words, q, keeps)
    assert wide.vocab.words == [*model.vocab.words, *words]
    assert wide.trie.counts[1:] == model.trie.counts[1:]
    made, before = dictionary(wide), dictionary(model)
    np.testing.assert_allclose(sums(made, order), 1.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose([made[w,][0] for w in words], q, rtol=1e-12)
    histories = oracle.all_histories(made, order)
    assert all(oracle.prob(made, h, w) > 0 for h in histories for w in words)
    for h in (h for h in oracle.all_histories(before, order) if h):
        rows = [w for w in oracle.vocabulary(before) if (*h, w) in before]
        known = math.fsum(before[(*h, w)][0] for w in rows)
        if known > 1 - 1e-6 or h not in before:  # a history that left nothing, where rows made room
            continue
        for w in rows:
            if w != "<unk>":
                assert made[(*h, w)][0] == pytest.approx(before[(*h, w)][0], rel=1e-12)
    old = [w for w in oracle.vocabulary(before) if w not in ("<unk>", oracle.BOS)]
    shares = [made[w,][0] / before[w,][0] for w in old]
    np.testing.assert_allclose(shares, shares[0], rtol=1e-9)
    if unk:
        has, now = before["<unk>",][0], made["<unk>",][0]
        assert now == pytest.approx(min(keeps, has) if keeps is not None else max(has - sum(q), has / 2), rel=1e-9)


def test_no_words_and_wrong_ones():
    model = mdi.read_arpa(BACKGROUND)
    assert with_words(model, [], []) is model
    for words, q, said in (
        (["w000"], [0.1], "that the model has: 'w000'"),
        (["a", "a"], [0.1, 0.1], "twice"),
        (["a b"], [0.1], "without blanks"),
        (["<s>"], [0.1], "no symbols"),
        (["a"], [0.1, 0.2], "one for each"),
        (["a"], [0.0], "between 0 and 1"),
        (["a", "b"], [0.6, 0.6], "less than one"),
    ):
        with pytest.raises(MdiError, match=said):
            with_words(model, words, q)


def test_the_estimate():
    """n = 7 of 25 tokens are new words, of T = 3 types: yak 3 times, gnu 3 times, lone once. On average over the text's
    histories, spelled out, the background then expects c / (n + T) n / N of each."""
    model = mdi.read_arpa(BACKGROUND)
    new = estimated(count_with_new_words(TEXT, model.vocab, 3, "add"), model)
    assert new is not None
    assert new.words == ["yak", "gnu", "lone"]
    assert new.unk == pytest.approx(3 / 10 * 7 / 25)
    spelled, histories = dictionary(model), oracle.text_histories([line.split() for line in TEXT], 3)
    backs_off = sum(mass * product_of_weights(spelled, h) for h, mass in histories.items())
    np.testing.assert_allclose(new.p * backs_off, np.array([3, 3, 1]) / 10 * 7 / 25)
    # words of a list that were not seen share what is still to come
    listed = estimated(count_with_new_words(TEXT, model.vocab, 3, ["gnu", "emu", "cow"]), model)
    assert listed is not None
    assert listed.p[1] == listed.p[2] == pytest.approx(listed.p[0] / 3 / 2)


def product_of_weights(model: oracle.Model, history: oracle.Ngram) -> float:
    return math.prod(model[h][1] for i in range(len(history)) if (h := history[i:]) in model)


@settings(max_examples=15, deadline=None, phases=PHASES)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans())
def test_the_adapted_model_is_the_optimum(tmp_path_factory, seed, order, unk):
    """Brute force over the larger vocabulary: the marginals of all constraints, those of new words too, are the
    in-domain frequencies."""
    rng = np.random.default_rng(seed)
    path = write_model(random_model(rng, order, 3, closed=True, unk=unk), tmp_path_factory.mktemp("m") / "m.arpa")
    text = random_text(rng, 5, int(rng.integers(10, 40)))  # w3 and w4 are new
    background = mdi.read_arpa(path, quiet=True)
    lines = [" ".join(line) for line in text]
    adapter = Adapter(background, lines, targets="smoothed")
    adapted = adapter.adapt("2", sigma2=None, settings=SolverSettings(1e-7, 3000))
    assert adapted.solution.converged
    mass = oracle.text_histories(text, order)
    ngrams = [tuple(ngram.split()) for ngram in adapted.problem.ngrams()]
    written = oracle.Dense(dictionary(adapted.model), mass, ngrams, [0.0] * len(ngrams))
    np.testing.assert_allclose(written.marginals(), adapted.problem.target, rtol=0, atol=2e-6)
    wide = oracle.Dense(dictionary(adapter.background), mass, ngrams, adapted.lam.tolist())
    assert adapted.kl == pytest.approx(wide.kl(), abs=1e-9)
    assert adapter.new_words is None or {"w3", "w4"} >= set(adapter.new_words.words)


@pytest.mark.parametrize(
    ("new_words", "added", "oov"),
    [
        ("add", ["yak", "gnu", "lone"], 0),
        (2, ["yak", "gnu"], 1),
        ("3", ["yak", "gnu"], 1),
        (["gnu", "emu"], ["gnu", "emu"], 4),
        ("map", [], 7),
        ("drop", [], 7),
    ],
)
def test_which_words_are_added(new_words, added, oov):
    background = mdi.read_arpa(BACKGROUND)
    adapter = Adapter(background, TEXT, new_words=new_words)
    assert adapter.background.vocab.words == [*background.vocab.words, *added]
    assert adapter.counts.stats.oov == oov
    model = adapter.adapt().model
    assert worst_sum(model)[0] < 1e-9
    assert all(model.prob(word) > 0 for word in added)
    if "yak" in added:
        assert model.prob("yak", "gnu w000") > 2 * adapter.background.prob("yak", "gnu w000")


def test_counts_over_other_words():
    """Mapped, dropped or refused words: the same as if the text had been counted so."""
    model = mdi.read_arpa(BACKGROUND)
    every = count_text(TEXT, None, 3)
    for oov in ("map", "drop"):
        direct, moved = count_text(TEXT, model.vocab, 3, oov), over_words(every, model.vocab, oov)
        assert moved.trie.counts == direct.trie.counts
        assert all(np.array_equal(a, b) for a, b in zip(moved.count[1:], direct.count[1:], strict=True))
        assert (moved.stats.oov, moved.stats.oov_examples) == (direct.stats.oov, direct.stats.oov_examples)
    with pytest.raises(MdiError, match="'yak', 'gnu', 'lone'"):
        over_words(every, model.vocab, "error")


@pytest.mark.parametrize("option", ["error", "0", "no-such-file"])
def test_refused(option, tmp_path, capsys):
    (tmp_path / "text").write_text("\n".join(TEXT))
    code = main(["adapt", "--new-words", option, BACKGROUND, str(tmp_path / "text"), str(tmp_path / "o.arpa")])
    assert code == (1 if option == "error" else 2)  # the data, or the option
    assert ("yak" if option == "error" else f"--new-words {option}; expected") in capsys.readouterr().err
    assert not (tmp_path / "o.arpa").exists()


def test_symbols_are_no_new_words():
    background = mdi.read_arpa(str(DATA / "srilm" / "bg.kn.closed.arpa.gz"))
    adapter = Adapter(background, ["w000 <unk> #0 yak w001", "<UNK> yak"])
    assert adapter.new_words is not None
    assert adapter.new_words.words == ["yak"]


def test_a_delta_has_its_words(tmp_path):
    """The model of a delta is the model of the adaptation, to the last bit, and so is that of its file."""
    background = mdi.read_arpa(BACKGROUND)
    before = identity(background)
    adapter = Adapter(background, TEXT)
    delta, adapted = adapter.delta(), adapter.adapt()
    mdi.write_delta(delta, tmp_path / "d")
    again = mdi.read_delta(tmp_path / "d")
    assert again.background == before == identity(background)
    for made in (delta, again):
        assert made.apply(background) == adapted.model
    assert again.new_words is not None
    assert again.new_words.words == ["yak", "gnu", "lone"]
    # goes on with other new words: what is known of the old ones is a start, and the result the same
    more = [*TEXT, "emu w000 yak", "gnu emu"]
    fresh, further = (
        mdi.adapt(background, more, start=start, settings=SolverSettings(1e-9)) for start in (None, again)
    )
    assert further.solution.iterations <= fresh.solution.iterations
    np.testing.assert_allclose(further.lam, fresh.lam, atol=1e-4)


def test_a_delta_without_new_words(tmp_path):
    background = mdi.read_arpa(BACKGROUND)
    mdi.write_delta(Adapter(background, ["w000 w001"]).delta(), tmp_path / "d")
    assert mdi.read_delta(tmp_path / "d").new_words is None


def test_tuned_over_the_larger_vocabulary():
    background = mdi.read_arpa(BACKGROUND)
    tuned = mdi.tune(background, TEXT * 3, ["w000 yak w001", "w002 gnu"], max_settings=2)
    assert tuned.model.vocab.words[-3:] == ["yak", "gnu", "lone"]
    assert tuned.development.oov == 0
    assert worst_sum(tuned.model)[0] < 1e-9


def test_a_table_grows_at_its_end():
    table = SymbolTable("words.txt", {"<eps>": 0, "a": 1, "#0": 2, "<s>": 7, "</s>": 4})
    wider = table.extended(["b", "a", "c", "b"])
    assert wider.ids == {**table.ids, "b": 8, "c": 9}
    assert table.extended(["a"]) is table


def test_vocabularies():
    one, other = vocabulary(["a", "bc", "d"]), vocabulary(["a", "b", "cd", "d"])
    assert one.ids_of(other).tolist() == [0, -1, -1, 2]
    assert other.ids_of(one).tolist() == [0, -1, 3]
    wide = one.extended(["b", "e"])
    assert one.ids_of(wide).tolist() == [0, 1, 2, -1, -1]
    assert wide.words == ["a", "bc", "d", "b", "e"]


def test_certificate(tmp_path):
    (tmp_path / "text").write_text("\n".join(TEXT))
    assert main(["adapt", BACKGROUND, str(tmp_path / "text"), str(tmp_path / "o.arpa")]) == 0
    new = json.loads((tmp_path / "o.arpa.json").read_text())["new_words"]
    assert (new["added"], list(new["words"])) == (3, ["yak", "gnu", "lone"])
    assert new["mass"] == pytest.approx(sum(new["words"].values()))
    assert mdi.load(tmp_path / "o.arpa").prob("yak", "w000") > 0.01


@pytest.fixture(scope="module")
def domain(tmp_path_factory) -> Path:
    """A folder with in-domain text, whose delta and model by `mdi adapt` are there too."""
    folder = tmp_path_factory.mktemp("domain")
    (folder / "text").write_text("\n".join(TEXT))
    assert main(["adapt", "--delta", str(folder / "d.delta"), BACKGROUND, str(folder / "text")]) == 0
    assert main(["adapt", BACKGROUND, str(folder / "text"), str(folder / "a.arpa")]) == 0
    return folder


@pytest.mark.parametrize("options", [["--memory", "400M"], ["--shards", "3"], ["--cluster", "local:2"]], ids=" ".join)
def test_the_same_bytes_in_shards(domain, tmp_path, options):
    assert main(["adapt", *options, BACKGROUND, str(domain / "text"), str(tmp_path / "a.arpa")]) == 0
    assert (tmp_path / "a.arpa").read_bytes() == (domain / "a.arpa").read_bytes()


def test_the_same_bytes_from_a_delta(domain, tmp_path):
    """`apply` gives what `adapt` gives, and so does whoever takes --delta."""
    assert main(["apply", BACKGROUND, str(domain / "d.delta"), str(tmp_path / "a.arpa")]) == 0
    assert (tmp_path / "a.arpa").read_bytes() == (domain / "a.arpa").read_bytes()
    made, applied = (json.loads((folder / "a.arpa.json").read_text()) for folder in (domain, tmp_path))
    assert applied["new_words"] == made["new_words"]
    assert main(["convert", "--delta", str(domain / "d.delta"), BACKGROUND, str(tmp_path / "b.arpa")]) == 0
    assert (tmp_path / "b.arpa").read_bytes() == (domain / "a.arpa").read_bytes()


def test_the_same_from_counts_and_lattices(domain, tmp_path):
    """Text, its counts as a file, and what was recognised, one sentence each."""
    write_counts(count_text(domain / "text", None, 3), str(tmp_path / "counts"))
    ways = (["--counts", str(tmp_path / "counts")], ["--lattices", str(domain / "text"), "--lattice-format", "text"])
    for way in ways:
        assert main(["adapt", *way, BACKGROUND, str(tmp_path / "a.arpa")]) == 0
        found, direct = mdi.load(tmp_path / "a.arpa"), mdi.load(domain / "a.arpa")
        assert sorted(found.vocab.words) == sorted(direct.vocab.words)
        for words in ("w000 yak w001", "gnu lone"):
            assert found.log_prob(words, "<s>") == pytest.approx(direct.log_prob(words, "<s>"), rel=1e-4)
    assert main(["adapt", *ways[0], BACKGROUND, str(domain / "text"), str(tmp_path / "a.arpa")]) == 0  # both at once
    assert "lone" in mdi.load(tmp_path / "a.arpa")


WORDS = str(DATA / "kaldi" / "words.txt")


def table_of(path: Path | str) -> dict[str, int]:
    return {word: int(number) for word, number in map(str.split, Path(path).read_text().splitlines())}


@pytest.mark.parametrize("name", ["G.fst", "G.carpa", "a.arpa"])
def test_numbers_of_new_words(domain, tmp_path, name, capsys):
    """words.txt grows at its end, and what is written can be read with it. Without a place for the table forms that
    have numbers alone are refused before anything is solved."""
    call = ["adapt", "--words", WORDS, BACKGROUND, str(domain / "text"), str(tmp_path / name)]
    out = str(tmp_path / "words.txt")
    if name != "a.arpa":
        assert main(call) == 1
        assert "no numbers for 3 words of the model: 'yak', 'gnu', 'lone'" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
    assert main([call[0], "--words-out", out, *call[1:]]) == 0
    before, after = table_of(WORDS), table_of(out)
    last = max(before.values())
    assert after == {**before, "yak": last + 1, "gnu": last + 2, "lone": last + 3}
    assert list(after.values()) == sorted(after.values())
    found, made = mdi.load(tmp_path / name, out), mdi.load(domain / "a.arpa")
    for words in ("w000 yak w001", "gnu w000 yak", "lone w006"):
        assert found.log_prob(words, "<s>") == pytest.approx(made.log_prob(words, "<s>"), rel=1e-5)
    assert main(["adapt", "--words", out, *call[3:]]) == 0  # a table that has them
    assert mdi.load(tmp_path / name, out).prob("yak", "w000") == found.prob("yak", "w000")
    again = [str(domain / "a.arpa"), str(tmp_path / f"again.{name}")]
    assert main(["convert", "--words", WORDS, "--words-out", f"{out}.2", *again]) == 0
    assert Path(out).read_bytes() == Path(f"{out}.2").read_bytes()


@pytest.mark.parametrize("name", ["Gr.fst", "a.opengrm.fst"])
def test_a_table_inside_grows(domain, tmp_path, name):
    """As in Vosk's Gr.fst: old words keep their numbers."""
    background, made, delta = str(tmp_path / f"Gr.{name}"), str(tmp_path / f"Gr.new.{name}"), str(tmp_path / "d")
    assert main(["convert", "--words", WORDS, "--format", "ngram", BACKGROUND, background]) == 0
    form = "ngram" if name == "Gr.fst" else "opengrm"
    assert main(["adapt", "--format", form, background, str(domain / "text"), made]) == 0
    assert main(["adapt", "--delta", delta, background, str(domain / "text")]) == 0
    for way in (
        ["apply", "--format", form, background, delta],
        ["convert", "--format", form, "--delta", delta, background],
    ):
        assert main([*way, str(tmp_path / "other")]) == 0
        assert (tmp_path / "other").read_bytes() == Path(made).read_bytes()
    old, new = (read_symbols(path).ids for path in (background, made))
    last = max(old.values())
    assert new == {**old, "yak": last + 1, "gnu": last + 2, "lone": last + 3}
    assert mdi.load(made).prob("yak", "w000") > 0.01


def test_perplexity_of_a_list(domain, tmp_path, capsys):
    (tmp_path / "list").write_text("yak\ngnu\nemu\n")
    call = ["ppl", "--of-words", str(tmp_path / "list"), str(domain / "a.arpa"), str(domain / "text")]
    assert main(call) == 0
    shown = capsys.readouterr()
    model = mdi.load(domain / "a.arpa")
    table = mdi.word_table(model, TEXT)
    own = table[table["word"].isin(["yak", "gnu"])]
    ppl = math.exp(-np.log(own["p"]).mean())
    assert f"6 words of {tmp_path / 'list'}; ppl of these= {ppl:.7g}" in shown.out
    assert "lacks 1 words" in shown.err
    assert main([call[0], "--json", "true", *call[1:]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["listed"], found["ppl_listed"]) == (6, pytest.approx(ppl))
    assert mdi.perplexity(model, TEXT).listed is None


def test_defaults(domain, tmp_path, capsys):
    """adapt and tune add new words; match, whose models are there already, does so when it is told."""
    text, large = str(domain / "text"), str(domain / "a.arpa")
    assert main(["tune", "--max-settings", "1", BACKGROUND, text, text, str(tmp_path / "t.arpa")]) == 0
    assert "yak" in mdi.load(tmp_path / "t.arpa")
    assert main(["match", BACKGROUND, large, text, str(tmp_path / "m.arpa")]) == 1
    assert "3 words that the model to be adapted lacks" in capsys.readouterr().err
    assert main(["match", "--new-words", "add", BACKGROUND, large, text, str(tmp_path / "m.arpa")]) == 0
    matched = mdi.load(tmp_path / "m.arpa")
    assert worst_sum(matched)[0] < 1e-5
    assert matched.prob("yak") > 0.01


def test_words_that_only_the_large_model_has(domain, tmp_path, capsys):
    """match adds those, and says so, not those of the text; a file with a table inside has them, too."""
    (tmp_path / "text").write_text(f"{(domain / 'text').read_text().rstrip()} axolotl\n")
    large, text, out = str(domain / "a.arpa"), str(tmp_path / "text"), tmp_path / "m.ngram.fst"
    call = ["match", "--words", WORDS, "--new-words", "add", BACKGROUND, large, text]
    assert main([*call, str(out)]) == 0
    said = capsys.readouterr().err
    assert f"{large}: 3 words that {BACKGROUND} lacks are added: 'yak', 'gnu', 'lone'" in said
    assert "1 words outside the vocabulary, such as 'axolotl': mapped to <unk>" in said
    matched = mdi.load(out)
    assert worst_sum(matched)[0] < 1e-5
    assert "axolotl" not in matched
    new = json.loads(Path(f"{out}.json").read_text())["new_words"]
    assert list(new["words"]) == ["yak", "gnu", "lone"]
    assert main([*call, str(tmp_path / "G.fst")]) == 1
    assert "no numbers for 3 words" in capsys.readouterr().err
    assert main(["match", "--new-words", "2", BACKGROUND, large, text, str(tmp_path / "m.arpa")]) == 2
    assert "--new-words 2; expected add, map, drop or error" in (said := capsys.readouterr().err)
    assert "in-domain" not in said


@pytest.mark.parametrize("verb", ["adapt", "tune"])
def test_what_no_one_can_say_is_not_added(verb, domain, tmp_path, capsys):
    """Of normalised text; it is mapped to <unk>, as the message says."""
    (tmp_path / "text").write_text("\n".join([*TEXT, "w000 http://x.org/a aaaaaa w001"]) + "\n")
    texts = [str(tmp_path / "text"), *([str(domain / "text")] if verb == "tune" else [])]
    options = ["--normalise", "auto", *(["--max-settings", "1"] if verb == "tune" else [])]
    assert main([verb, *options, BACKGROUND, *texts, str(tmp_path / "a.arpa")]) == 0
    assert "'http://x.org/a', 'aaaaaa': mapped to <unk>" in capsys.readouterr().err
    model = mdi.load(tmp_path / "a.arpa")
    assert "yak" in model
    assert "http://x.org/a" not in model
    assert "aaaaaa" not in model


@pytest.mark.parametrize(("how", "why"), [("drop", "They are skipped"), ("map", "<unk> is easy to predict")])
def test_unknown_words_are_told_apart(how, why, domain, tmp_path, capsys):
    assert main(["adapt", "--new-words", how, BACKGROUND, str(domain / "text"), str(tmp_path / "a.arpa")]) == 0
    assert f"outside the vocabulary. {why}" in capsys.readouterr().err


def test_a_model_on_standard_output_is_alone_there(domain, tmp_path, capsys):
    text = str(domain / "text")
    assert main(["adapt", "--ppl", text, BACKGROUND, text, "-"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("\\end\\\n")
    assert f"1\t{text}\t" in said.err


def test_inputs_are_looked_for_before_any_work(domain, tmp_path, capsys):
    text = str(domain / "text")
    for options, files, why, code in (
        (["--ppl", "nowhere"], [text], "nowhere: No such file", 1),
        (["--targets-lm", "nowhere"], [text], "nowhere: No such file", 1),
        (["--ppl", "-"], ["-"], "'-' stands for 2 inputs", 2),
    ):
        assert main(["adapt", *options, BACKGROUND, *files, str(tmp_path / "o.arpa")]) == code
        said = capsys.readouterr().err
        assert why in said
        assert "in-domain" not in said
