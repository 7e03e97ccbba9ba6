"""The embedded recogniser: graph, decoding, determinisation. Five synthetic utterances are decoded for real."""

from __future__ import annotations

import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_data import lattice_of
from test_grammar import walk

from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.openfst import from_bytes
from mdi.fst.symbols import make_symbols
from mdi.lm.arpa import read_arpa
from mdi.speech.acoustic import Scorer, read_acoustic_model
from mdi.speech.data import read_text
from mdi.speech.decode import Job, Options, finished, load_graph, word_lattice
from mdi.speech.lattice import best_path, n_best, n_frames, tidy
from mdi.speech.lattice_files import lattice_writer, read_lattices, to_binary
from mdi.speech.lexicon import dictionary, in_word, lexicon_fst, read_lexicon

pytestmark = pytest.mark.slow

SPEECH = Path(__file__).parent / "data" / "speech"


@pytest.fixture(scope="module")
def acoustic():
    return read_acoustic_model()


@pytest.fixture(scope="module")
def demo(tmp_path_factory, acoustic):
    """Data folder, a trigram and a unigram of 150 sentences in a vocabulary of some 600 words, and the unigram's
    graph."""
    root = tmp_path_factory.mktemp("speech")
    text = (SPEECH / "lm.txt").read_text()
    others = [word for word in dictionary(acoustic).words()[::200] if word.isalpha()]
    (root / "vocab").write_text("\n".join(sorted({*text.split(), *others})) + "\n")
    data = root / "data"
    data.mkdir()
    (data / "wav.scp").write_text("".join(f"{f.stem} {f}\n" for f in sorted(SPEECH.glob("*.wav"))))
    for name in ("text", "utt2spk"):
        shutil.copy(SPEECH / name, data / name)
    for name, order in (("uni", 1), ("tri", 3)):
        arguments = ["--order", str(order), "--smoothing", "wb", "--vocab", str(root / "vocab")]
        assert main(["train", *arguments, str(SPEECH / "lm.txt"), str(root / f"{name}.arpa")]) == 0
    assert main(["graph", str(root / "uni.arpa"), str(root / "graph")]) == 0
    assert main(["decode", str(root / "graph"), str(data), str(root / "first")]) == 0
    return root


def score(demo, folder, *options):
    arguments = ["--words", str(demo / "graph" / "words.txt"), "--min-lmwt", "8", "--max-lmwt", "12", *options]
    assert main(["score", *arguments, str(demo / "data"), str(demo / folder)]) == 0
    return float((demo / folder / "scoring_kaldi" / "best_wer").read_text().split()[1])


def test_words_come_out_and_the_language_model_decides(demo, capsys):
    """40 words. The unigram mistakes some, the trigram none; what it was trained on, read backwards, is worse than no
    context."""
    first = score(demo, "first")
    assert 2.5 <= first <= 25.0
    words, old = str(demo / "graph" / "words.txt"), str(demo / "uni.arpa")
    new = str(demo / "tri.arpa")
    arguments = ["rescore", "--words", words, "--old-scores", "cheapest"]
    assert main([*arguments, "--old-lm", old, "--new-lm", new, str(demo / "first"), str(demo / "second")]) == 0
    second = score(demo, "second", "--compare-with", str(demo / "first"))
    assert second < first
    assert second <= 2.5
    assert "Probability of Set2 improving Set1" in capsys.readouterr().out
    backwards = "".join(
        " ".join(reversed(line.split())) + "\n" for line in (SPEECH / "lm.txt").read_text().splitlines()
    )
    (demo / "backwards.txt").write_text(backwards)
    lm = str(demo / "backwards.arpa")
    assert main(["train", "--smoothing", "wb", "--vocab", str(demo / "vocab"), str(demo / "backwards.txt"), lm]) == 0
    assert main([*arguments, "--old-lm", old, "--new-lm", lm, str(demo / "first"), str(demo / "third")]) == 0
    assert score(demo, "third") > first


def test_rescored_lattices_agree_with_decoding_directly(demo):
    assert (
        main(["graph", "--words", str(demo / "graph" / "words.txt"), str(demo / "tri.arpa"), str(demo / "graph3")]) == 0
    )
    assert (
        main(["decode", "--nj", "2", "--text", "true", str(demo / "graph3"), str(demo / "data"), str(demo / "direct")])
        == 0
    )
    assert (demo / "direct" / "num_jobs").read_text() == "2\n"
    direct = {x.utterance: x for n in (1, 2) for x in read_lattices(str(demo / "direct" / f"lat.{n}.gz"))}
    words, old, new = (str(demo / name) for name in ("graph/words.txt", "uni.arpa", "tri.arpa"))
    arguments = ["--words", words, "--old-lm", old, "--new-lm", new, "--old-scores", "cheapest"]
    assert main(["rescore", *arguments, str(demo / "first" / "lat.1.gz"), str(demo / "again.gz")]) == 0
    # what the direct decoding has in it is the cheapest back-off path: take that out and the model's own score in
    swap = ["--words", words, "--old-lm", new, "--new-lm", new, "--old-scores", "cheapest"]
    for n in (1, 2):
        assert main(["rescore", *swap, str(demo / "direct" / f"lat.{n}.gz"), str(demo / f"exact.{n}.gz")]) == 0
        direct |= {x.utterance: x for x in read_lattices(str(demo / f"exact.{n}.gz"))}
    rescored = list(read_lattices(str(demo / "again.gz")))
    assert {x.utterance for x in rescored} == set(direct) == set(read_text(str(demo / "data" / "text")))
    for lattice in rescored:
        a, b = best_path(lattice, 10.0), best_path(direct[lattice.utterance], 10.0)
        assert a.words.tolist() == b.words.tolist()
        assert a.graph + a.acoustic / 10 == pytest.approx(b.graph + b.acoustic / 10, abs=0.01)
        assert n_frames(lattice) == n_frames(direct[lattice.utterance])


def test_g_fst_in_place_of_the_model_gives_the_same_graph(demo):
    graph = demo / "graph"
    assert main(["graph", "--words", str(graph / "words.txt"), str(graph / "G.fst"), str(demo / "graph_g")]) == 0
    for name in ("HCLG.fst", "L_disambig.fst", "G.fst", "words.txt", "phones.txt"):
        assert (demo / "graph_g" / name).read_bytes() == (graph / name).read_bytes()


def test_a_stopped_decoding_goes_on(demo, monkeypatch):
    whole = list(read_lattices(str(demo / "first" / "lat.1.gz")))
    out = demo / "resumed"
    out.mkdir()
    shutil.copy(demo / "first" / "decode.json", out / "decode.json")
    pieces = [to_binary(x) for x in whole]
    (out / ".lat.1.part").write_bytes(b"".join(pieces[:3]) + pieces[3][:100])
    job = Job(1, "", "", 0, str(out), [], Options())
    assert [x.utterance for x in finished(job)] == [x.utterance for x in whole[:3]]
    assert (out / ".lat.1.part").read_bytes() == b"".join(pieces[:3])
    heard = []
    scorer = Scorer.__call__
    monkeypatch.setattr(Scorer, "__call__", lambda self, samples, utt: heard.append(utt) or scorer(self, samples, utt))
    assert main(["decode", str(demo / "graph"), str(demo / "data"), str(out)]) == 0
    assert heard == [x.utterance for x in whole[3:]]
    assert [to_binary(x) for x in read_lattices(str(out / "lat.1.gz"))] == pieces
    assert not (out / ".lat.1.part").exists()
    assert main(["decode", "--beam", "9", str(demo / "graph"), str(demo / "data"), str(out)]) == 1


def test_scores_do_not_depend_on_the_order(acoustic):
    import kaldiio

    scorer = Scorer(acoustic.n_senones)
    first, second = (kaldiio.load_mat(str(SPEECH / f"voice{i}.wav"))[1] for i in ("0-2", "1-1"))
    once = scorer(first, "a")
    scorer(second, "b")
    assert np.array_equal(scorer(first, "a"), once)
    assert once.shape[1] == acoustic.n_senones == 5126
    with pytest.raises(MdiError, match="utterance c: 10 samples"):
        scorer(first[:10], "c")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("voice0-0 /nowhere/voice.wav", "voice0-0 cannot be read"),
        ("voice0-0 false |", "voice0-0 cannot be read"),
        ("voice0-0", "wav.scp:1: voice0-0 has no file"),
        ("voice0-0 {wav}\nvoice0-0 {wav}", "wav.scp:2: recording voice0-0 appears twice, first on line 1"),
        ("other {wav}", "no utterance voice0-0"),
        ("voice0-0 {slow}", "8000 Hz"),
    ],
)
def test_speech_that_cannot_be_used_is_named(demo, tmp_path, capsys, line, message):
    slow = tmp_path / "slow.wav"
    with wave.open(str(slow), "wb") as stream:
        stream.setparams((1, 2, 8000, 8000, "NONE", ""))
        stream.writeframes(bytes(16000))
    (tmp_path / "wav.scp").write_text(line.format(wav=SPEECH / "voice0-0.wav", slow=slow) + "\n")
    (tmp_path / "text").write_text("voice0-0 some words\n")
    assert main(["decode", str(demo / "graph"), str(tmp_path), str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "lat.1.gz").exists()


def test_grammar_costs_are_those_of_the_model(demo):
    symbols = {
        line.split()[0]: int(line.split()[1]) for line in (demo / "graph3" / "words.txt").read_text().splitlines()
    }
    model, fst = read_arpa(str(demo / "tri.arpa")), from_bytes((demo / "graph3" / "G.fst").read_bytes())
    for sentence in read_text(str(SPEECH / "text")).values():
        expected = -model.log_prob([*sentence, "</s>"], ["<s>"])
        assert walk(fst, [symbols[w] for w in sentence], symbols["#0"]) == pytest.approx(expected, abs=1e-4)


def test_lexicon_tells_homophones_and_prefixes_apart(acoustic, tmp_path):
    path = tmp_path / "lexicon.txt"
    path.write_text("red R EH1 D\nread R EH D\nread(2) R IY D\nreader R IY D ER\na AH\n")
    lexicon = read_lexicon(str(path), acoustic)
    assert lexicon.entries[2] == ("read", ("R", "IY", "D"))
    fst = lexicon_fst(lexicon, make_symbols(lexicon.words()), acoustic)
    # #0; red and read are alike: #1 and #2; silence has its own, #3. 'R IY D' begins no other entry: R_B IY_I D_E is
    # no prefix.
    assert fst.phones[fst.disambiguation[0] :] == ["#0", "#1", "#2", "#3"]
    assert in_word(("AH",)) == ("AH_S",)
    assert fst.covered == 4
    for bad, message in (("word\n", "no phones"), ("word XX Y\n", "the phones 'XX'"), ("", "no pronunciations")):
        path.write_text(bad)
        with pytest.raises(MdiError, match=message):
            read_lexicon(str(path), acoustic)
    with pytest.raises(MdiError, match="same letter case"):
        lexicon_fst(lexicon, make_symbols(["READ"]), acoustic)


@st.composite
def state_lattices(draw):
    """Small random state lattices: every arc leads on by at least one state, costs differ, words and frames may be
    missing."""
    n = draw(st.integers(2, 7))
    rows = []
    for s in range(n - 1):
        for t in sorted(set(draw(st.lists(st.integers(s + 1, n - 1), min_size=1, max_size=3)))):
            for _ in range(draw(st.integers(1, 2))):
                rows.append((s, t, draw(st.integers(0, 3)), draw(st.integers(0, 4)), draw(st.integers(0, 1000))))
    source, dest, word, frame, cost = (np.array(c) for c in zip(*rows, strict=True))
    # Irrational steps: no two paths cost the same.
    graph = cost * 0.01 + np.sqrt(np.arange(1, len(rows) + 1)) * 1e-3
    return tidy(lattice_of(source, dest, word, graph, cost * 0.003, frame, finals={n - 1: 0.0}))


def alignment(lattice, path):
    arcs, finals = lattice.arcs, lattice.finals
    pieces = [lattice.frames[arcs.first[a] : arcs.stop[a]] for a in path.arcs]
    end = lattice.dest[path.arcs[-1]] if len(path.arcs) else 0
    return np.concatenate([*pieces, lattice.frames[finals.first[end] : finals.stop[end]]]).tolist()


@settings(max_examples=150, deadline=None)
@given(state_lattices(), st.floats(0.5, 30.0))
def test_determinised_lattices_have_each_word_sequence_once_at_its_best(raw, beam):
    best = {}
    for path in n_best(raw, 100_000, 1.0):
        best.setdefault(tuple(path.words.tolist()), path)
    least = min(p.graph + p.acoustic for p in best.values())
    made = word_lattice(raw, beam)
    found = n_best(made, 100_000, 1.0)
    assert len({tuple(p.words.tolist()) for p in found}) == len(found)
    for path in found:
        original = best[tuple(path.words.tolist())]
        assert path.graph + path.acoustic == pytest.approx(original.graph + original.acoustic, abs=0.01)
    kept = {tuple(p.words.tolist()) for p in found}
    within = {words for words, p in best.items() if p.graph + p.acoustic <= least + beam - 0.01}
    assert within <= kept
    top = found[0]
    assert alignment(made, top) == alignment(raw, best[tuple(top.words.tolist())])


def test_too_little_room_leaves_out_the_worst_paths(monkeypatch):
    """Two chains that read either of two words a step, at random costs: no two histories leave them equally far
    apart."""
    steps, random = 12, np.random.default_rng(1)
    rows = [(0, 1 + d, w) for d in (0, 1) for w in (1, 2)]
    rows += [(2 * i + 1 + c, 2 * i + 3 + c, w) for i in range(steps) for c in (0, 1) for w in (1, 2)]
    source, dest, word = (np.array(column) for column in zip(*rows, strict=True))
    n, cost = 2 * steps + 3, random.uniform(0.0, 5.0, len(rows))
    raw = tidy(lattice_of(source, dest, word, cost, 0 * cost, 0 * cost, finals={n - 2: 0.0, n - 1: 0.0}))
    whole = word_lattice(raw, 100.0)
    assert len(n_best(whole, 10_000, 1.0)) == 2 ** (steps + 1)
    monkeypatch.setattr("mdi.speech.decode.MAX_ROOM", 0)
    cut = word_lattice(raw, 100.0)
    assert cut.n_arcs < whole.n_arcs
    a, b = best_path(cut, 1.0), best_path(whole, 1.0)
    assert a.words.tolist() == b.words.tolist()
    assert a.graph == pytest.approx(b.graph, abs=1e-6)


def test_segments_of_a_recording(demo, tmp_path):
    """Two utterances in one recording, as in wav.scp with segments."""
    import kaldiio

    pieces = [kaldiio.load_mat(str(SPEECH / f"voice{i}.wav"))[1] for i in ("0-2", "1-1")]
    with wave.open(str(tmp_path / "both.wav"), "wb") as stream:
        stream.setparams((1, 2, 16000, sum(map(len, pieces)), "NONE", ""))
        stream.writeframes(np.concatenate(pieces).tobytes())
    middle, end = len(pieces[0]) / 16000, sum(map(len, pieces)) / 16000
    (tmp_path / "wav.scp").write_text(f"both {tmp_path / 'both.wav'}\n")
    (tmp_path / "segments").write_text(f"voice0-2 both 0.0 {middle}\nvoice1-1 both {middle} {end}\n")
    texts = read_text(str(SPEECH / "text"))
    (tmp_path / "text").write_text("".join(f"{u} {' '.join(texts[u])}\n" for u in ("voice0-2", "voice1-1")))
    assert main(["decode", str(demo / "graph"), str(tmp_path), str(tmp_path / "out")]) == 0
    alone = {x.utterance: x for x in read_lattices(str(demo / "first" / "lat.1.gz"))}
    for lattice in read_lattices(str(tmp_path / "out" / "lat.1.gz")):
        assert to_binary(lattice) == to_binary(alone[lattice.utterance])


def test_lattices_of_the_demo_are_deterministic_and_whole(demo):
    for lattice in read_lattices(str(demo / "first" / "lat.1.gz")):
        pairs = list(zip(lattice.source.tolist(), lattice.arcs.label.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        assert 0 not in lattice.arcs.label
        frames = {len(alignment(lattice, path)) for path in n_best(lattice, 50, 10.0)}
        assert frames == {n_frames(lattice)}


def test_a_missing_graph_and_an_empty_archive_are_refused(tmp_path, demo, capsys):
    assert main(["decode", str(tmp_path), str(demo / "data"), str(tmp_path / "out")]) == 1
    assert "mdi graph" in capsys.readouterr().err
    with lattice_writer(str(tmp_path / "none.gz")):
        pass
    assert main(["rescore", "--words", str(demo / "graph" / "words.txt"), "--new-lm", str(demo / "tri.arpa"),
                 str(tmp_path / "none.gz"), str(tmp_path / "out.gz")]) == 1  # fmt: skip
    assert "no lattice in it" in capsys.readouterr().err


def test_a_full_disk_for_what_is_temporary_is_noticed(demo, tmp_path, acoustic, monkeypatch):
    """OpenFst says so only in what it returns, and pocketsphinx not at all: the scores before would be taken."""
    import kaldifst

    from mdi.speech.graph import _Exchange

    exchange = _Exchange()
    fst = exchange.give(from_bytes((demo / "graph" / "G.fst").read_bytes()))
    exchange.path = str(tmp_path / "none" / "x.fst")
    with pytest.raises(MdiError, match="cannot write; is the disk full"):
        exchange.take(fst)
    assert not kaldifst.StdVectorFst.read(exchange.path)
    scorer = Scorer(acoustic.n_senones)
    with wave.open(str(sorted(SPEECH.glob("*.wav"))[0])) as stream:
        samples = np.frombuffer(stream.readframes(16000), "<i2")
    read_bytes = Path.read_bytes
    assert len(scorer(samples, "u")) == 99
    for size in (0, 5, 50_000):
        monkeypatch.setattr(Path, "read_bytes", lambda path, size=size: read_bytes(path)[:size])
        with pytest.raises(MdiError, match="of 99 frames have scores"):
            scorer(samples, "u")


def test_damaged_graphs_and_those_of_other_models_are_refused(demo, acoustic, tmp_path):
    graph = demo / "graph" / "HCLG.fst"
    assert load_graph(str(graph), acoustic.n_senones).start >= 0
    with pytest.raises(MdiError, match="no graph of this acoustic model"):
        load_graph(str(graph), 10)
    data = graph.read_bytes()
    for content in (b"", data[:1000], data[:-500], data[:-4] + b"\xff\xff\xff\x7f"):
        (tmp_path / "HCLG.fst").write_bytes(content)
        with pytest.raises(MdiError, match=r"HCLG\.fst: "):
            load_graph(str(tmp_path / "HCLG.fst"), acoustic.n_senones)
