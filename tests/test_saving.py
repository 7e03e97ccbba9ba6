"""`mdi.load` and `mdi.save`: any form, checked, certified, all or nothing."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mdi
from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.formats import write_lm
from mdi.lm.model import NgramModel
from mdi.lm.new_words import with_words
from mdi.lm.vocabulary import vocabulary

DATA = Path(__file__).parent / "data"
BACKGROUND = DATA / "kaldi" / "bg.kn.arpa.gz"
WORDS = DATA / "kaldi" / "words.txt"
IN_DOMAIN = DATA / "text" / "in.txt.gz"
DEVELOPMENT = DATA / "text" / "dev.txt"
NAMES = ["lm.arpa", "lm.arpa.gz", "G.fst", "Gr.fst", "lm.mod", "G.carpa"]


@pytest.fixture(scope="module")
def background() -> NgramModel:
    return mdi.load(BACKGROUND)


@pytest.fixture(scope="module")
def adapted(background: NgramModel):
    return mdi.adapt(background, IN_DOMAIN)


def certificate(path: Path) -> dict:
    return json.loads(Path(f"{path}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_any_form_is_saved_with_its_certificate_and_loaded(adapted, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    fields = mdi.save(adapted, out, words=WORDS)
    said = certificate(out)
    assert said["file"] == {"bytes": out.stat().st_size, "sha256": hashlib.sha256(out.read_bytes()).hexdigest()}
    assert said["constraints"] == adapted.problem.constraints.total
    assert said["ngrams"] == fields["ngrams"] == adapted.counts
    assert said["worst_sum_gap"] <= 1e-5
    again = mdi.load(out, WORDS)
    expected = mdi.perplexity(adapted.model, DEVELOPMENT).ppl
    assert mdi.perplexity(again, DEVELOPMENT).ppl == pytest.approx(expected, rel=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"{name}.json"])


@pytest.mark.parametrize("name", ["G.fst", "G.carpa", "Gr.fst", "lm.mod"])
def test_no_word_is_lost_without_a_word(background: NgramModel, tmp_path: Path, name: str) -> None:
    """A table inside a file gets the words that it lacks; where there is none, a file without them is refused."""
    kept = [line for line in WORDS.read_text().splitlines() if not line.startswith(("w001 ", "w007 "))]
    (tmp_path / "words.txt").write_text("\n".join(kept) + "\n")
    if name in ("G.fst", "G.carpa"):
        with pytest.raises(MdiError, match=r"no numbers for 2 words of the model: 'w001', 'w007'; .*--words-out"):
            mdi.save(background, tmp_path / name, words=tmp_path / "words.txt")
        assert [path.name for path in tmp_path.iterdir()] == ["words.txt"]
        mdi.save(background, tmp_path / name, words=tmp_path / "words.txt", words_out=tmp_path / "more.txt")
        again = mdi.load(tmp_path / name, tmp_path / "more.txt")
    else:
        mdi.save(background, tmp_path / name, words=tmp_path / "words.txt")
        again = mdi.load(tmp_path / name)
    assert certificate(tmp_path / name)["ngrams"] == background.trie.counts
    for word in ("w001", "w007", "w010"):
        assert again.prob(word, "w002") == pytest.approx(background.prob(word, "w002"), rel=1e-5)


@pytest.mark.parametrize("verb", ["adapt", "apply", "match", "mix", "prune", "train", "train --vocab", "tune"])
def test_words_without_numbers_are_refused_before_the_work(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [line for line in WORDS.read_text().splitlines() if not line.startswith(("w019 ", "w088 "))]
    (tmp_path / "words.txt").write_text("\n".join(kept) + "\n")
    background, text, out = str(BACKGROUND), str(IN_DOMAIN), str(tmp_path / "G.fst")
    if verb == "apply":
        mdi.write_delta(mdi.Adapter(background, text).delta("5-3-2"), tmp_path / "a.delta")
    before = sorted(tmp_path.iterdir())
    arguments = {
        "adapt": [background, text],
        "apply": [background, str(tmp_path / "a.delta")],
        "match": [background, background, text],
        "mix": ["--weights", "0.5,0.5", background, background],
        "train": [text],
        "train --vocab": ["--vocab", str(WORDS), text],
        "tune": [background, text, str(DEVELOPMENT)],
    }.get(verb, [background])
    assert mdi.prune  # what imports these functions must have done so
    for work in ("adapter.Adapter.pose", "match.match", "tune.tune", "delta.Delta.apply"):
        monkeypatch.setattr(f"mdi.adaptation.{work}", None)
    for work in ("mix.mix_in_place", "prune.mark_pruned", "estimate.estimate"):
        monkeypatch.setattr(f"mdi.lm.{work}", None)
    if verb == "train --vocab":
        monkeypatch.setattr("mdi.lm.counts.stream_text", None)
    assert main([verb.split()[0], "--words", str(tmp_path / "words.txt"), *arguments, out]) == 1
    assert "words.txt has no numbers for " in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", NAMES[2:])
def test_the_unknown_word_has_two_names(background: NgramModel, tmp_path: Path, name: str) -> None:
    """A table has the other one: n-grams are written under its number. With both names each is a word of its own."""
    (tmp_path / "words.txt").write_text(WORDS.read_text().replace("<unk>", "<UNK>"))
    mdi.save(background, tmp_path / name, words=tmp_path / "words.txt", words_out=tmp_path / "more.txt")
    assert (tmp_path / "more.txt").read_text() == (tmp_path / "words.txt").read_text()
    mdi.save(background, tmp_path / name, words=tmp_path / "words.txt")
    again = mdi.load(tmp_path / name, tmp_path / "words.txt")
    assert again.trie.counts == background.trie.counts
    assert again.vocab.word(again.vocab.unk) == "<UNK>"
    assert again.prob("<UNK>", "w002") == pytest.approx(background.prob("<unk>", "w002"), rel=1e-5)
    both = with_words(background, ["<Unk>"], [0.01])
    both = replace(both, vocab=vocabulary([{"<Unk>": "<UNK>"}.get(word, word) for word in both.vocab.words]))
    if name in ("G.fst", "G.carpa"):
        with pytest.raises(MdiError, match="no numbers for 1 words of the model: '<unk>'"):
            mdi.save(both, tmp_path / name, words=tmp_path / "words.txt")


def test_what_reads_models_reads_any_form(background: NgramModel, tmp_path: Path) -> None:
    """As every verb does."""
    mdi.save(background, tmp_path / "Gr.fst")
    expected = mdi.perplexity(background, DEVELOPMENT).ppl
    assert mdi.perplexity(tmp_path / "Gr.fst", DEVELOPMENT).ppl == pytest.approx(expected, rel=1e-5)
    by_fst = mdi.adapt(tmp_path / "Gr.fst", IN_DOMAIN)
    by_arpa = mdi.adapt(BACKGROUND, IN_DOMAIN)
    assert by_fst.problem.constraints.total == by_arpa.problem.constraints.total
    ppl = [mdi.perplexity(one.model, DEVELOPMENT).ppl for one in (by_fst, by_arpa)]
    assert ppl[0] == pytest.approx(ppl[1], rel=1e-4)
    matched = mdi.match(DATA / "srilm" / "in.kn.arpa.gz", tmp_path / "Gr.fst", IN_DOMAIN)
    assert matched.solution.converged


def test_the_verb_saves_the_same_file(adapted, tmp_path: Path) -> None:
    assert main(["adapt", str(BACKGROUND), str(IN_DOMAIN), str(tmp_path / "verb.arpa.gz")]) == 0
    mdi.save(adapted, tmp_path / "python.arpa.gz")
    assert (tmp_path / "verb.arpa.gz").read_bytes() == (tmp_path / "python.arpa.gz").read_bytes()
    verb, python = certificate(tmp_path / "verb.arpa.gz"), certificate(tmp_path / "python.arpa.gz")
    for name in ("constraints", "kl_to_background", "residuals", "ngrams", "worst_sum_gap", "file"):
        assert verb[name] == python[name], name


def test_a_model_that_is_none_is_refused_and_what_was_there_stays(background: NgramModel, tmp_path: Path) -> None:
    out = tmp_path / "lm.arpa"
    mdi.save(background, out)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    p = [np.array(part) for part in background.p]
    p[1][background.vocab.id("w001")] += 0.01
    broken = NgramModel(background.vocab, background.trie, p, background.bow)
    with pytest.raises(mdi.MdiError, match=r"would sum to one only within 0\.01"):
        mdi.save(broken, out)
    with pytest.raises(mdi.MdiError, match="expected a model, or what adapt, match or tune gives"):
        mdi.save("lm.arpa", out)
    with pytest.raises(mdi.MdiError, match=r"G\.carpa has numbers for words"):
        mdi.save(background, tmp_path / "G.carpa")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_marginals_without_digits_are_refused(adapted, tmp_path: Path) -> None:
    from dataclasses import replace

    vague = replace(adapted, solution=replace(adapted.solution, rounding_error=1e-3))
    with pytest.raises(mdi.MdiError, match=r"the marginals are known only within 0\.001"):
        mdi.save(vague, tmp_path / "out.arpa")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["lm.arpa", "Gr.fst"])
def test_no_model_keeps_the_certificate_of_another(
    background: NgramModel, adapted, tmp_path: Path, name: str, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / name
    for write in (mdi.write_arpa, write_lm):
        mdi.save(adapted, out)
        assert Path(f"{out}.json").exists()
        write(background, out)
        assert [path.name for path in tmp_path.iterdir()] == [name]
        assert main(["check", str(out)]) == 0
    mdi.save(adapted, out)
    assert main(["convert", str(BACKGROUND), str(out)]) == 0
    assert not Path(f"{out}.json").exists()
    mdi.save(adapted, out)
    assert main(["fst", "--words", str(WORDS), str(BACKGROUND), str(out)]) == 0
    assert not Path(f"{out}.json").exists()
    Path(f"{out}.json").write_text('{"mine": 1}')  # no certificate: none of our business
    mdi.write_arpa(background, out)
    assert Path(f"{out}.json").read_text() == '{"mine": 1}'
    capsys.readouterr()
    Path(f"{out}.json").unlink()
    mdi.save(adapted, out, format="arpa")
    shutil.copy(BACKGROUND, out)  # by other means: then that is what is wrong
    assert main(["check", str(out)]) == 1
    said = capsys.readouterr().out
    assert "error: " in said
    assert "is the certificate of another file" in said
    assert "nothing is wrong" not in said


def test_what_fails_while_writing_leaves_model_and_certificate(
    background: NgramModel, adapted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "lm.arpa"
    mdi.save(background, out)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("mdi.saving.write_certificate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mdi.save(adapted, out)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
