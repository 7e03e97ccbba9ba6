"""Vosk folders: other language models in them, and libvosk's answers as Kaldi's files. What needs a real model runs
where MDI_VOSK_MODEL names its folder."""

import gzip
import json
import os
import shutil
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mdi.adaptation.adapter import adapt
from mdi.cli import main
from mdi.errors import MdiError
from mdi.files import read_bytes
from mdi.fst.formats import load, write_lm
from mdi.fst.symbols import SymbolTable, read_symbols
from mdi.lm.perplexity import perplexity
from mdi.process import call_apart
from mdi.speech.data import DataFolder, read_text
from mdi.speech.expected_counts import expected_counts
from mdi.speech.lattice import best_path, n_best
from mdi.speech.lattice_files import read_lattices
from mdi.speech.rescore import EXACT, lattice_model
from mdi.speech.sound import Sound
from mdi.speech.vosk.folder import CERTIFICATE, SMALL, VoskFolder, changed, find_vosk_folder
from mdi.speech.vosk.outputs import ACOUSTIC_FACTOR, GRAPH_SCALE, n_best_lattice, with_graph_scores
from mdi.speech.vosk.results import Alternative, Recognised, Word, parse_row, read_results

DATA = Path(__file__).parent / "data"
WORDS = DATA / "kaldi" / "words.txt"
TEXT, DEV = str(DATA / "text" / "in.txt.gz"), str(DATA / "text" / "dev.txt")
REAL = os.environ.get("MDI_VOSK_MODEL", "")
with_real_model = pytest.mark.skipif(not REAL, reason="MDI_VOSK_MODEL names no directory of a Vosk model")


def unpack(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.decompress(source.read_bytes()))


def dynamic_folder(tmp_path: Path) -> Path:
    """What mdi vosk adapt sees of a folder with a dynamic graph; only its language model is looked into."""
    folder = tmp_path / "dynamic"
    unpack(DATA / "ngram-fst" / "Gr.bg.kn.fst.gz", folder / "graph" / "Gr.fst")
    for name, content in (("am/final.mdl", "acoustic"), ("graph/HCLr.fst", "graph"), ("conf/model.conf", CONF)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return folder


dynamic = pytest.fixture(dynamic_folder, name="dynamic")


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    for name, content in (("am/final.mdl", "acoustic"), ("graph/HCLG.fst", "graph"), ("conf/model.conf", CONF)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    shutil.copy(WORDS, folder / "graph" / "words.txt")
    return folder


CONF = "--beam=10.0\n--lattice-beam=2.0\n"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_dynamic_graph_gets_another_model(dynamic, tmp_path, capsys):
    (dynamic / "am" / "final.mdl").write_bytes(bytes(SMALL + 1))
    before = files(dynamic)
    assert main(["vosk", "adapt", "--ppl", DEV, str(dynamic), TEXT, str(tmp_path / "out")]) == 0
    place, text, old, new = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (place, text) == ("graph/Gr.fst", DEV)
    out = tmp_path / "out"
    made = files(out)
    assert files(dynamic) == before  # links, but the source is what it was
    assert set(made) == {*before, CERTIFICATE, "new_words.tsv"}
    assert {name for name in before if made[name] != before[name]} == {"graph/Gr.fst"}
    assert (out / "am" / "final.mdl").samefile(dynamic / "am" / "final.mdl")
    # the same words with the same numbers; what was adapted is what mdi adapt makes
    assert read_symbols(str(out / "graph" / "Gr.fst")).ids == read_symbols(str(dynamic / "graph" / "Gr.fst")).ids
    adapted = load(str(out / "graph" / "Gr.fst"))
    assert perplexity(adapted, DEV).ppl == pytest.approx(float(new), rel=1e-5)
    assert perplexity(load(str(dynamic / "graph" / "Gr.fst")), DEV).ppl == pytest.approx(float(old), rel=1e-6)
    by_hand = adapt(load(str(dynamic / "graph" / "Gr.fst")), Path(TEXT), 1, sigma2=1)
    assert perplexity(by_hand.model, DEV).ppl == pytest.approx(float(new), rel=1e-6)
    certificate = json.loads((out / CERTIFICATE).read_text())
    assert certificate["exchanged"] == ["graph/Gr.fst"]
    assert certificate["adapted"]["graph/Gr.fst"]["worst_sum_gap"] < 1e-6
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_development_text_tunes(dynamic, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["vosk", "adapt", "--dev", DEV, "--max-settings", "3", str(dynamic), TEXT, str(out)]) == 0
    said = capsys.readouterr()
    fields = json.loads((out / CERTIFICATE).read_text())["adapted"]["graph/Gr.fst"]
    assert fields["development_ppl"] <= fields["interpolation_ppl"]
    assert float(said.out.split("\t")[3]) == pytest.approx(fields["development_ppl"], rel=1e-5)
    assert "chosen of 3 settings" in said.err
    assert load(str(out / "graph" / "Gr.fst")).order == load(str(dynamic / "graph" / "Gr.fst")).order


def test_unknown_words_are_listed_with_counts(dynamic, tmp_path, capsys):
    text = tmp_path / "text"
    known = gzip.decompress(Path(TEXT).read_bytes()).decode()
    text.write_text(known + "almaxaquottl floda\nfloda\n")
    assert main(["vosk", "adapt", str(dynamic), str(text), str(tmp_path / "out")]) == 0
    rows = [row.split("\t") for row in (tmp_path / "out" / "new_words.tsv").read_text().splitlines()]
    assert [row[:3] for row in rows[1:]] == [["floda", "2", ""], ["almaxaquottl", "1", ""]]
    said = capsys.readouterr().err
    assert "final.mdl: not in Kaldi's binary form" in said  # so the graph takes no words, which is no reason to stop
    assert "New words are left out" in said
    assert main(["vosk", "adapt", "--new-words", "2", str(dynamic), str(text), str(tmp_path / "asked")]) == 1
    assert not (tmp_path / "asked").exists()
    assert main(["vosk", "adapt", "--new-words", "none", str(dynamic), str(text), str(tmp_path / "none")]) == 0
    assert files(tmp_path / "none")["graph/Gr.fst"] == files(tmp_path / "out")["graph/Gr.fst"]
    capsys.readouterr()
    text.write_text("Floda AND Almaxaquottl\n")
    assert main(["vosk", "adapt", str(dynamic), str(text), str(tmp_path / "other")]) == 1
    assert "letter case" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_large_model_beside_a_dynamic_graph(dynamic, tmp_path):
    """Lattices have the scores of the model that decodes, the adapted one, which rescore/G.fst must take out."""
    out, large = tmp_path / "out", DATA / "kaldi" / "bg.kn.arpa.gz"
    assert main(["vosk", "adapt", "--large", str(large), str(dynamic), TEXT, str(out)]) == 0
    assert json.loads((out / CERTIFICATE).read_text())["exchanged"] == [
        "graph/Gr.fst",
        "rescore/G.carpa",
        "rescore/G.fst",
    ]
    words = str(out / "graph" / "Gr.fst")
    decodes = perplexity(load(words), DEV).ppl
    assert perplexity(load(str(out / "rescore" / "G.fst"), words), DEV).ppl == pytest.approx(decodes, rel=1e-5)
    rescores = perplexity(load(str(out / "rescore" / "G.carpa"), words), DEV).ppl
    assert rescores == pytest.approx(perplexity(load(str(large)), DEV).ppl, rel=1e-5)
    # lattices of a beam of 2 leave rescoring nothing to choose from
    assert (out / "conf" / "model.conf").read_text() == "--beam=10.0\n--lattice-beam=6\n"
    assert (dynamic / "conf" / "model.conf").read_text() == CONF


def test_a_static_graph_with_a_rescoring_model_has_that_adapted(static, tmp_path):
    unpack(DATA / "carpa" / "bg.kn.carpa.gz", static / "rescore" / "G.carpa")
    (static / "rescore" / "G.fst").write_text("the model that decodes")
    out = tmp_path / "out"
    assert main(["vosk", "adapt", "--lattice-beam", "4", str(static), TEXT, str(out)]) == 0
    assert json.loads((out / CERTIFICATE).read_text())["exchanged"] == ["rescore/G.carpa"]
    assert (out / "rescore" / "G.fst").read_text() == "the model that decodes"
    assert (out / "graph" / "HCLG.fst").read_text() == "graph"
    ppl = [perplexity(load(str(f / "rescore" / "G.carpa"), str(WORDS)), DEV).ppl for f in (static, out)]
    assert ppl[1] < 0.9 * ppl[0]
    assert "--lattice-beam=4" in (out / "conf" / "model.conf").read_text()


def test_a_static_graph_alone_needs_the_model_that_it_was_made_with(static, tmp_path, capsys):
    out, lm = tmp_path / "out", DATA / "kaldi" / "bg.kn.arpa.gz"
    assert main(["vosk", "adapt", str(static), TEXT, str(out)]) == 1
    assert "--first-pass LM" in capsys.readouterr().err
    assert not out.exists()
    assert main(["vosk", "adapt", "--first-pass", str(lm), str(static), TEXT, str(out)]) == 0
    known = perplexity(load(str(lm)), DEV).ppl
    assert perplexity(load(str(out / "rescore" / "G.fst"), str(WORDS)), DEV).ppl == pytest.approx(known, rel=1e-4)
    assert perplexity(load(str(out / "rescore" / "G.carpa"), str(WORDS)), DEV).ppl < 0.9 * known


def test_only_own_folders_are_replaced(dynamic, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("")
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(out)]) == 1
    assert "was not made by mdi vosk" in capsys.readouterr().err
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(dynamic)]) == 1
    assert "is also what it is made from" in capsys.readouterr().err
    (out / CERTIFICATE).write_text("{}")
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(out)]) == 0
    assert not (out / "precious").exists()


def test_a_ready_model_is_put_into_a_folder(dynamic, static, tmp_path):
    lm, out = DATA / "kaldi" / "bg.kn.arpa.gz", tmp_path / "out"
    assert main(["vosk", "replace-lm", str(dynamic), str(lm), str(out)]) == 0
    known = perplexity(load(str(lm)), DEV).ppl
    assert perplexity(load(str(out / "graph" / "Gr.fst")), DEV).ppl == pytest.approx(known, rel=1e-4)
    assert json.loads((out / CERTIFICATE).read_text())["exchanged"] == ["graph/Gr.fst"]
    # where nothing but rescoring is possible, there
    assert main(["vosk", "replace-lm", str(static), str(lm), str(out)]) == 1
    assert main(["vosk", "replace-lm", "--first-pass", str(lm), str(static), str(lm), str(out)]) == 0
    assert perplexity(load(str(out / "rescore" / "G.carpa"), str(WORDS)), DEV).ppl == pytest.approx(known, rel=1e-4)


def test_messages_name_the_folder_that_is_made(dynamic, tmp_path, capsys):
    assert main(["vosk", "replace-lm", str(dynamic), str(dynamic / "graph" / "Gr.fst"), str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert f"{tmp_path}/out/graph/Gr.fst: " in said
    assert "/.out." not in said
    # errors too
    (tmp_path / "other.arpa").write_text(
        "\\data\\\nngram 1=2\n\n\\1-grams:\n-0.30103 <unk>\n-0.30103 </s>\n\n\\end\\\n"
    )
    assert main(["vosk", "replace-lm", str(dynamic), str(tmp_path / "other.arpa"), str(tmp_path / "out2")]) == 1
    assert "/.out2." not in capsys.readouterr().err


def test_an_interrupted_run_leaves_nothing(dynamic, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mdi.speech.vosk.folder.write_lm", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "out")])
    assert [path.name for path in tmp_path.iterdir()] == ["dynamic"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("am/final.mdl", "no am/final.mdl"),
        ("graph/HCLr.fst", "neither HCLr.fst"),
        ("graph/Gr.fst", "Gr.fst: not there"),
    ],
)
def test_what_is_no_model(dynamic, broken, message):
    (dynamic / broken).unlink()
    with pytest.raises(MdiError, match=message):
        find_vosk_folder(str(dynamic))
    with pytest.raises(MdiError, match="no such directory"):
        find_vosk_folder(str(dynamic / "nothing"))


def test_folders_of_the_older_kind(dynamic, tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    for name in ("am/final.mdl", "graph/Gr.fst", "graph/HCLr.fst"):
        shutil.move(dynamic / name, old)
    folder = find_vosk_folder(str(old))
    assert (folder.dynamic, folder.first_pass, folder.words) == (True, old / "Gr.fst", old / "Gr.fst")


def test_another_beam_for_a_while(dynamic):
    with changed(VoskFolder(dynamic), 7.5) as folder:
        assert folder.lattice_beam == 7.5
        assert folder.own_lm == folder.first_pass
        assert (folder.path / "graph" / "Gr.fst").samefile(dynamic / "graph" / "Gr.fst")
    assert VoskFolder(dynamic).lattice_beam == 2.0
    assert not folder.path.exists()


@pytest.mark.parametrize("before", ["--dither=1.5\n--num-ceps=40\n", "--num-ceps=40", "", "--num-ceps=40\n\n"])
@pytest.mark.parametrize("older", [False, True])
def test_noise_is_off_for_a_while(before, older, dynamic, tmp_path):
    """In a copy of the settings; the model's own are what they were."""
    source, place = dynamic, Path("conf/mfcc.conf")
    if older:
        source, place = tmp_path / "old", Path("mfcc.conf")
        source.mkdir()
        for name in ("am/final.mdl", "graph/Gr.fst", "graph/HCLr.fst"):
            shutil.move(dynamic / name, source)
    (source / place).write_text(before)
    with changed(find_vosk_folder(str(source)), dither=False) as folder:
        lines = (folder.path / place).read_text().splitlines()
        assert sorted(lines) == sorted({"--dither=0", *before.split()} - {"--dither=1.5"})
        assert not (folder.path / place).is_symlink()
        assert folder.lattice_beam == VoskFolder(source).lattice_beam
    assert (source / place).read_text() == before
    with changed(VoskFolder(source), dither=True) as folder:
        assert folder.path == source


def test_another_model_for_a_while(dynamic):
    own = dynamic / "graph" / "Gr.fst"
    before, model = own.read_bytes(), VoskFolder(dynamic).read(own)
    other = replace(model, p=[model.p[0], *(p[::-1].copy() for p in model.p[1:2]), *model.p[2:]])
    with changed(VoskFolder(dynamic), None, {"graph/Gr.fst": other}) as folder:
        assert folder.first_pass.read_bytes() != before
    assert own.read_bytes() == before


def answer(*alternatives: tuple[str, float]) -> dict:
    """libvosk's, for words of 0.3 s each."""
    listed = []
    for text, score in alternatives:
        words = [{"word": w, "start": 0.3 * i, "end": 0.3 * i + 0.3} for i, w in enumerate(text.split())]
        listed.append({"text": text, "confidence": score, "result": words})
    return row(alternatives=listed)


def row(**answer: object) -> dict:
    """A line of results.1.jsonl."""
    return {"utterance": "u", "seconds": 1.0, "sound": [], "overshoot": 0.0, "answers": [answer]}


def test_confidences_are_shares_of_the_likelihood():
    """exp(0) + exp(-1) + exp(-2) = 1.5032: a is in all, b in the first and the last, c in the first only."""
    found = parse_row(answer(("a b c", 10.0), ("a x y", 9.0), ("a b", 8.0), ("a b", 7.0)))
    assert [one.text for one in found.alternatives] == [["a", "b", "c"], ["a", "x", "y"], ["a", "b"]]
    whole = 1 + np.exp(-1) + np.exp(-2)
    expected = [1.0, (1 + np.exp(-2)) / whole, 1 / whole]
    assert [word.confidence for word in found.alternatives[0].words] == pytest.approx(expected)
    assert [word.begin for word in found.alternatives[0].words] == pytest.approx([0.0, 0.3, 0.6])


def test_an_answer_without_alternatives_has_libvosks_confidences():
    said = row(text="a", result=[{"word": "a", "start": 0.1, "end": 0.2, "conf": 0.7}])
    assert parse_row(said).alternatives == [Alternative([Word("a", 0.1, 0.2, 0.7)])]
    for silent in ([{"text": ""}], [{}], []):
        assert parse_row({**said, "answers": silent}).alternatives == [Alternative([])]


def test_pieces_are_joined_best_first():
    """Scores of sequences are sums: 10+5, 9+5, 10+3, and 9+3 is one too many."""
    first, second = answer(("a", 10.0), ("b", 9.0), ("", 0.0)), answer(("c d", 5.0), ("e", 3.0))
    found = parse_row({**first, "answers": first["answers"] + second["answers"]})
    assert [(one.text, one.score) for one in found.alternatives] == [
        (["a", "c", "d"], 15.0),
        (["b", "c", "d"], 14.0),
        (["a", "e"], 13.0),
    ]


def test_a_line_that_was_being_written_is_cut_off(tmp_path):
    path = tmp_path / "results.1.jsonl"
    whole = json.dumps(answer(("a", 1.0))).encode() + b"\n"
    path.write_bytes(whole + whole[:20])
    assert list(read_results(tmp_path)) == ["u"]
    assert path.read_bytes() == whole
    path.write_bytes(b"nonsense\n")
    with pytest.raises(MdiError, match=r"results\.1\.jsonl:1: not a line of mdi vosk decode"):
        read_results(tmp_path)


def test_lattices_of_alternatives_have_the_models_score_as_graph_cost():
    model = load(str(DATA / "kaldi" / "bg.kn.arpa.gz"))
    symbols = read_symbols(str(WORDS))
    words = [w for w in symbols.ids if model.vocab.id(w) >= 0 and w[0] not in "<#"][:6]
    texts = [words[:3], words[3:], words[:1], []]
    found = Recognised(
        "u",
        1.0,
        [
            Alternative([Word(w, 0.3 * i, 0.3 * i + 0.3) for i, w in enumerate(text)], 50.0 - k)
            for k, text in enumerate(texts)
        ],
    )
    made = with_graph_scores(n_best_lattice(found, symbols), lattice_model(model, symbols), EXACT)
    # at Kaldi's usual weight of 10 the order, and the score, are those of the recogniser
    paths = n_best(made, 10, 10.0)
    assert [symbols.spell(path.words) for path in paths] == texts
    for path, one in zip(paths, found.alternatives, strict=True):
        exact = -perplexity(model, [one.text]).log_prob if one.words else -np.log(model.prob("</s>", "<s>"))
        assert path.graph == pytest.approx(exact)
        assert GRAPH_SCALE * (path.graph + path.acoustic / ACOUSTIC_FACTOR) == pytest.approx(-one.score)
    assert symbols.spell(best_path(made, 10.0).words) == texts[0]


def test_words_that_the_table_lacks():
    found = Recognised("u", 1.0, [Alternative([Word("nowhere", 0, 1)])])
    with pytest.raises(MdiError, match="no symbol nowhere"):
        n_best_lattice(found, SymbolTable("words.txt", {"<eps>": 0}))


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """Two recordings of the tests' data as a Kaldi data folder."""
    folder = tmp_path / "speech"
    folder.mkdir()
    sounds = sorted((DATA / "speech").glob("*.wav"))[:2]
    (folder / "wav.scp").write_text("".join(f"{path.stem} {path}\n" for path in sounds))
    texts = read_text(DATA / "speech" / "text")
    (folder / "text").write_text("".join(f"{path.stem} {' '.join(texts[path.stem])}\n" for path in sounds))
    return folder


@with_real_model
def test_the_real_model_decodes_resumes_and_scores(speech, tmp_path, capsys):
    out = tmp_path / "decoded"
    command = ["vosk", "decode", "--n-best", "20", "--lattice-beam", "6", REAL, str(speech)]
    assert main([*command, str(out)]) == 0
    names = {"text", "ctm", "nbest", "lat.1.gz", "words.txt", "num_jobs", "decode.json", "results.1.jsonl"}
    assert {path.name for path in out.iterdir()} == names
    text = read_text(out / "text")
    lattices = {lattice.utterance: lattice for lattice in read_lattices(str(out / "lat.1.gz"))}
    symbols = read_symbols(str(out / "words.txt"))
    for utterance, words in text.items():
        assert symbols.spell(best_path(lattices[utterance], 10.0).words) == words
        rows = [line.split() for line in (out / "ctm").read_text().splitlines() if line.startswith(f"{utterance} ")]
        assert [row[4] for row in rows] == words
        begins = [float(row[2]) for row in rows]
        assert begins == sorted(begins)
        assert all(0.0 < float(row[5]) <= 1.0 for row in rows)
        with wave.open(str(DATA / "speech" / f"{utterance}.wav")) as sound:
            assert begins[-1] + float(rows[-1][3]) <= sound.getnframes() / 16000 + 0.1
    # stopped after the first utterance: the second is decoded again, to the same words
    results = out / "results.1.jsonl"
    first = results.read_bytes().splitlines(keepends=True)[0]
    results.write_bytes(first + b'{"utterance"')
    assert main([*command, "--nj", "2", str(out)]) == 0
    assert results.read_bytes().startswith(first)
    assert read_text(out / "text") == text
    assert main(["score", "--words", str(out / "words.txt"), str(speech), str(out)]) == 0
    assert main(["score", "--hyp", "text", str(speech), str(out)]) == 0
    assert main(["vosk", "decode", "--n-best", "5", REAL, str(speech), str(out)]) == 1
    assert "holds a decoding with another model" in capsys.readouterr().err


def pieces(folder: Path) -> tuple[Path, list[str]]:
    """A data folder of twelve utterances: stretches of the tests' recordings, some of them with noise."""
    folder.mkdir()
    chance, lines = np.random.default_rng(1), []
    for path in sorted((DATA / "speech").glob("*.wav")):
        with wave.open(str(path)) as sound:
            samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
        for i, (begin, end) in enumerate([(0, 1), (0, 0.5), (0.3, 1), (0.1, 0.8), (0.5, 1), (0.2, 0.6)]):
            part = samples[int(begin * len(samples)) : int(end * len(samples))]
            noisy = np.clip(part + chance.normal(0, 800 * (i % 2), len(part)), -32768, 32767).astype("<i2")
            with wave.open(str(folder / f"{path.stem}.{i}.wav"), "wb") as out:
                out.setparams((1, 2, 16000, 0, "NONE", ""))
                out.writeframes(noisy.tobytes())
            lines.append(f"{path.stem}.{i} {folder / path.stem}.{i}.wav\n")
    return folder, lines


def older_kind(folder: Path) -> Path:
    """The real model as such folders were once laid out."""
    shutil.copytree(Path(REAL) / "ivector", folder / "ivector")
    for name in ("am/final.mdl", "conf/mfcc.conf", "graph/phones/word_boundary.int"):
        shutil.copy(Path(REAL) / name, folder)
    for name in ("HCLr.fst", "Gr.fst", "disambig_tid.int"):
        shutil.copy(Path(REAL) / "graph" / name, folder)
    return folder


@with_real_model
@pytest.mark.parametrize("older", [False, True])
def test_the_real_model_hears_the_same_each_time(older, tmp_path):
    """For any number of threads, any order of the utterances, and after any number of interruptions: words, times,
    confidences and scores. In folders of both kinds."""
    model = Path(REAL)
    if older:
        model = older_kind(tmp_path / "model")
    data, lines = pieces(tmp_path / "data")

    def decoded(name: str, lines: list[str], nj: int, kept: int | None = None) -> dict[str, list[str]]:
        out = tmp_path / name
        (data / "wav.scp").write_text("".join(lines))
        command = ["vosk", "decode", "--n-best", "20", "--nj", str(nj), str(model), str(data), str(out)]
        assert main(command) == 0
        if kept is not None:  # stopped after so many
            results = out / "results.1.jsonl"
            results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:kept]) + b'{"utt')
            assert main(command) == 0
        return {file: sorted((out / file).read_text().splitlines()) for file in ("text", "ctm", "nbest")}

    first = decoded("first", lines, 1)
    assert len(first["nbest"]) > 3 * len(lines)
    assert decoded("backwards", lines[::-1], 1) == first
    if not older:
        assert decoded("threads", lines, 3) == first
        assert decoded("stopped", lines[::-1], 2, 3) == first


@with_real_model
def test_the_real_model_of_the_older_kind_is_adapted_and_rescored(speech, tmp_path):
    """Its lattice beam is libvosk's own, whatever was asked for."""
    (tmp_path / "text").write_text("say quimbalthor to the older kind\n")
    model, out, decoded = older_kind(tmp_path / "model"), tmp_path / "out", tmp_path / "decoded"
    assert main(["vosk", "adapt", "--large", str(model / "Gr.fst"), str(model), str(tmp_path / "text"), str(out)]) == 0
    assert main(["vosk", "decode", "--n-best", "20", "--lattice-beam", "6", str(out), str(speech), str(decoded)]) == 0
    assert all(read_text(decoded / "text").values())
    assert "quimbalthor" in VoskFolder(out).symbols.ids


def test_the_older_kind_has_no_lattice_beam_to_choose(dynamic, tmp_path, capsys):
    """libvosk refuses the option in mfcc.conf, and reads no other settings."""
    folder, out = tmp_path / "older", tmp_path / "out"
    folder.mkdir()
    for name in ("am/final.mdl", "graph/HCLr.fst", "graph/Gr.fst"):
        shutil.move(dynamic / name, folder)
    (folder / "mfcc.conf").write_text("--use-energy=false\n")
    assert VoskFolder(folder).lattice_beam == 6
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "wav.scp").write_text("u u.wav\n")
    for command in (["adapt", str(folder), TEXT], ["decode", str(folder), str(tmp_path / "data")]):
        assert main(["vosk", command[0], "--lattice-beam", "4", *command[1:], str(out)]) == 1
        assert "whose lattice beam libvosk sets to 6" in capsys.readouterr().err
        assert not out.exists()
    large = str(DATA / "kaldi" / "bg.kn.arpa.gz")
    assert main(["vosk", "adapt", "--new-words", "none", "--large", large, str(folder), TEXT, str(out)]) == 0
    assert (out / "rescore" / "G.carpa").exists()
    assert (out / "mfcc.conf").read_text() == "--use-energy=false\n"
    with changed(VoskFolder(out), 6.0, dither=False) as quiet:
        assert (quiet.path / "mfcc.conf").read_text() == "--use-energy=false\n--dither=0\n"


@with_real_model
def test_the_real_model_hears_a_long_recording(tmp_path):
    """A little over a minute: the tests' recordings again and again, a second of silence after each. Words are where
    speech is; one line of text."""
    sounds = []
    for path in sorted((DATA / "speech").glob("*.wav")):
        with wave.open(str(path)) as stream:
            sounds.append(np.frombuffer(stream.readframes(stream.getnframes()), "<i2"))
    chance, parts, spoken, at = np.random.default_rng(1), [], [], 0.0
    while at < 61:
        sound = sounds[len(spoken) % 2]
        spoken.append((at, at + len(sound) / 16000))
        parts += [sound, chance.normal(0, 5, 16000).astype("<i2")]
        at = spoken[-1][1] + 1
    data = tmp_path / "data"
    data.mkdir()
    with wave.open(str(data / "long.wav"), "wb") as out:
        out.setparams((1, 2, 16000, 0, "NONE", ""))
        out.writeframes(np.concatenate(parts).astype("<i2").tobytes())
    (data / "wav.scp").write_text(f"long {data}/long.wav\n")
    assert main(["vosk", "decode", REAL, str(data), str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "text").read_text().splitlines()
    rows = [line.split() for line in (tmp_path / "out" / "ctm").read_text().splitlines()]
    assert len(lines) == 1
    assert lines[0].split() == ["long", *(row[4] for row in rows)]
    for begin, end in spoken:
        inside = [row for row in rows if begin - 0.1 <= float(row[2]) and float(row[2]) + float(row[3]) <= end + 0.2]
        assert len(inside) >= 5  # of 7 and 9 words
        rows = [row for row in rows if row not in inside]
    assert len(rows) <= 3


@with_real_model
def test_the_real_model_chooses_the_weight_and_goes_on(speech, tmp_path, capsys):
    """--dev-recordings: lists at libvosk's weight, then decodings with other weights in the graph. A second run decodes
    nothing again of what the first has decoded, and ends with the same folder; another text is another model."""
    (tmp_path / "text").write_text("the boat is on the river\nquimbalthor is a word that nobody knows\n")
    out = tmp_path / "out"
    command = ["vosk", "adapt", "--dev-recordings", str(speech), REAL, str(tmp_path / "text"), str(out)]
    assert main(command) == 0
    said = capsys.readouterr().err
    tried = json.loads((out / "mdi.json").read_text())["errors_by_weight"]
    chosen = VoskFolder(out).weight
    assert tried[f"{chosen.lm_weight:g} {chosen.word_penalty:g}"] == min(tried.values())
    assert "1 0" in tried
    assert "n-best lists: LM weight" in said
    assert "decoded: " in said
    folders = sorted((tmp_path / "out.decoded" / "dev").glob("*/results.1.jsonl"))
    assert len(folders) == len(tried) == len(list((tmp_path / "out.decoded" / "dev").iterdir()))
    assert "quimbalthor" in (out / "new_words.tsv").read_text()
    graph = (out / "graph" / "Gr.fst").read_bytes()

    last = folders[-1]
    last.write_bytes(b"".join(last.read_bytes().splitlines(keepends=True)[:1]))  # stopped in the last decoding
    before = {path: path.read_bytes() for path in folders}
    assert main(command) == 0
    assert (out / "graph" / "Gr.fst").read_bytes() == graph
    for path, content in before.items():
        found = path.read_bytes()
        assert found.startswith(content)
        assert (found == content) == (path != last)

    (tmp_path / "text").write_text("they walk to the house\n")
    shutil.copytree(last.parent, last.parent.parent / "9.9,0")  # a weight that is not tried any more
    assert main(command) == 0
    tried = json.loads((out / "mdi.json").read_text())["errors_by_weight"]
    assert len(list((tmp_path / "out.decoded" / "dev").iterdir())) == len(tried)
    lists = tmp_path / "out.decoded" / "dev" / "1" / "results.1.jsonl"  # at libvosk's weight, which is always tried
    assert lists.read_bytes() != before[lists]


@with_real_model
def test_the_real_model_is_adapted_and_hears_it(speech, tmp_path):
    """Text in which a sentence of the recordings occurs makes libvosk hear it. With the same model in rescore/ scores
    differ from those of the model's own by the difference of the language models, which is what our rescoring does."""
    texts = read_text(DATA / "speech" / "text")
    utterance, words = next(iter(read_text(speech / "text").items()))
    (tmp_path / "text").write_text("".join(f"{' '.join(sentence)}\n" for sentence in texts.values()))
    adapted, both = tmp_path / "adapted", tmp_path / "both"
    assert main(["vosk", "adapt", REAL, str(tmp_path / "text"), str(adapted)]) == 0
    assert main(["vosk", "decode", str(adapted), str(speech), str(tmp_path / "heard")]) == 0
    assert read_text(tmp_path / "heard" / "text")[utterance] == words

    numbers = str(adapted / "graph" / "Gr.fst")
    own, new = (load(str(Path(folder) / "graph" / "Gr.fst")) for folder in (REAL, adapted))
    shutil.copytree(REAL, both)
    (both / "rescore").mkdir()
    write_lm(own, str(both / "rescore" / "G.fst"), "fst", numbers)
    write_lm(new, str(both / "rescore" / "G.carpa"), "carpa", numbers)
    rest = []
    for folder in (REAL, both):
        out = tmp_path / f"decoded{len(rest)}"
        command = ["vosk", "decode", "--n-best", "50", "--lattice-beam", "8", str(folder), str(speech), str(out)]
        assert main(command) == 0
        paths = (
            (one.utterance, path) for one in read_lattices(str(out / "lat.1.gz")) for path in n_best(one, 50, 10.0)
        )
        rest.append({(utterance, *path.words.tolist()): path.acoustic / ACOUSTIC_FACTOR for utterance, path in paths})
    common = [key for key in rest[0] if key in rest[1]]
    assert len(common) > 10
    # the same to a few tenths, where the models differ by 5 to 12
    assert [rest[1][key] for key in common] == pytest.approx([rest[0][key] for key in common], abs=0.5)


def test_a_delta_is_put_into_a_folder(dynamic, tmp_path, capsys):
    """The folder's own model, or another, as the delta adapts it; what is no model of the folder is refused."""
    own, delta, out = str(dynamic / "graph" / "Gr.fst"), str(tmp_path / "a.delta"), tmp_path / "out"
    options = ["--min-counts", "1", "--sigma2", "1"]
    assert main(["adapt", *options, "--delta", delta, own, TEXT]) == 0
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "adapted")]) == 0
    assert main(["vosk", "replace-lm", "--delta", delta, str(dynamic), str(out)]) == 0
    made = (out / "graph" / "Gr.fst").read_bytes()
    assert made == (tmp_path / "adapted" / "graph" / "Gr.fst").read_bytes()
    assert made != Path(own).read_bytes()
    assert main(["vosk", "replace-lm", "--delta", delta, str(dynamic), own, str(out)]) == 0
    assert (out / "graph" / "Gr.fst").read_bytes() == made
    assert json.loads((out / CERTIFICATE).read_text())["deltas"] == [delta]
    capsys.readouterr()
    other = str(DATA / "kaldi" / "mix.arpa.gz")
    assert main(["adapt", *options, "--delta", delta, other, TEXT]) == 0
    for command in (
        ["replace-lm", "--delta", delta, str(dynamic), str(out)],
        ["replace-lm", "--delta", delta, str(dynamic), own, str(out)],
    ):
        assert main(["vosk", *command]) == 1
        assert "is for the background" in capsys.readouterr().err
    assert main(["vosk", "replace-lm", str(dynamic), str(out)]) == 2
    with pytest.raises(SystemExit):
        main(["vosk", "adapt", "--delta", delta, str(dynamic), TEXT, str(out)])


def test_a_delta_belongs_to_one_model_of_the_folder(dynamic, tmp_path):
    """Where lattices are rescored, the model in them is the one that decodes."""
    both, delta = tmp_path / "both", str(tmp_path / "a.delta")
    large = str(DATA / "kaldi" / "mix.arpa.gz")
    assert (
        main(["vosk", "replace-lm", "--large", large, str(dynamic), str(DATA / "kaldi" / "bg.kn.arpa.gz"), str(both)])
        == 0
    )
    for place, changed_places in (
        ("graph/Gr.fst", {"graph/Gr.fst", "rescore/G.fst"}),
        ("rescore/G.carpa", {"rescore/G.carpa"}),
    ):
        words = ["--words", str(both / "graph" / "Gr.fst")]
        assert main(["adapt", *words, "--delta", delta, str(both / place), TEXT]) == 0
        assert main(["vosk", "replace-lm", "--delta", delta, str(both), str(tmp_path / "out")]) == 0
        exchanged = json.loads((tmp_path / "out" / CERTIFICATE).read_text())["exchanged"]
        assert set(exchanged) == changed_places


def recordings(folder: Path) -> Path:
    """A data folder whose speech has been recognised; no sound is needed any more."""
    folder.mkdir()
    lines = gzip.decompress(Path(TEXT).read_bytes()).decode().splitlines()[:40]
    (folder / "text").write_text("".join(f"u{i:02d} {line}\n" for i, line in enumerate(lines)))
    (folder / "wav.scp").write_text("".join(f"u{i:02d} nothing.wav\n" for i in range(len(lines))))
    return folder


def recognise(data: Path, folder: Path, n_best: int, errors: int) -> list[dict]:
    """libvosk's answers: the references, the last word of some utterances missing."""
    folder.mkdir(parents=True, exist_ok=True)
    answers = []
    with open(folder / "results.1.jsonl", "w") as stream:
        for i, (utterance, words) in enumerate(read_text(data / "text").items()):
            right = words[:-1] if i < errors else words
            times = [{"word": w, "start": 0.3 * j, "end": 0.3 * j + 0.3, "conf": 0.9} for j, w in enumerate(right)]
            best = {"text": " ".join(right), "result": times}
            other = {"text": words[0], "confidence": 98.0, "result": times[:1]}
            answers.append({"alternatives": [best | {"confidence": 100.0}, other]} if n_best else best)
            heard = row(**answers[-1]) | {"utterance": utterance, "sound": Sound(DataFolder(data)).identity(utterance)}
            stream.write(json.dumps(heard) + "\n")
    return answers


@pytest.mark.parametrize("n_best", [0, 2])
def test_a_model_is_adapted_to_what_it_recognises(dynamic, tmp_path, capfd, n_best):
    """The first decoding is there, so libvosk is not called for it; the counts are those of mdi counts."""
    data, out, decoded = recordings(tmp_path / "data"), tmp_path / "out", tmp_path / "out.decoded"
    answers = recognise(data, decoded / "before", n_best, 5)
    command = ["vosk", "adapt", "--n-best", str(n_best), "--recordings", str(data), "--ppl", DEV, str(dynamic)]
    assert main([*command, str(out)]) == 1  # there is no model to decode again with
    assert f"{out}: libvosk cannot load this model" in capfd.readouterr().err
    own, listed = load(str(dynamic / "graph" / "Gr.fst")), tmp_path / "x.json"
    listed.write_text("\n".join(map(json.dumps, answers)))
    by_hand = adapt(own, expected_counts(listed, own.vocab, own.order), 0.5, sigma2=1).model
    made = load(str(out / "graph" / "Gr.fst"))
    assert perplexity(made, DEV).ppl == pytest.approx(perplexity(by_hand, DEV).ppl, rel=1e-5)


@pytest.mark.slow
def test_it_goes_on_with_the_second_decoding(dynamic, tmp_path, capfd):
    data, out, decoded = recordings(tmp_path / "data"), tmp_path / "out", tmp_path / "out.decoded"
    recognise(data, decoded / "before", 0, 5)
    command = ["vosk", "adapt", "--recordings", str(data), str(dynamic)]
    assert main([*command, str(out)]) == 1
    recognise(data, decoded / "after", 0, 0)
    when = (out / CERTIFICATE).stat().st_mtime_ns
    assert main([*command, str(out)]) == 0
    assert (out / CERTIFICATE).stat().st_mtime_ns == when
    said = capfd.readouterr().out
    assert "%WER 0.00" in said
    assert "paired permutation test" in said
    # what was decoded with another model is no good
    assert main([*command, "--sigma2", "2", str(out)]) == 1
    assert (out / CERTIFICATE).stat().st_mtime_ns > when
    # a text under the same name that has changed is noticed
    text = tmp_path / "text"
    text.write_bytes(read_bytes(TEXT))
    assert main([*command, str(text), str(out)]) == 1
    when = (out / CERTIFICATE).stat().st_mtime_ns
    assert main([*command, str(text), str(out)]) == 1
    assert (out / CERTIFICATE).stat().st_mtime_ns == when
    text.write_bytes(2 * read_bytes(TEXT))
    assert main([*command, str(text), str(out)]) == 1
    assert (out / CERTIFICATE).stat().st_mtime_ns > when
    # and so is a list of words
    listed = tmp_path / "list"
    for n in (1, 2):
        listed.write_text("\n".join(text.read_text().split()[:n]))
        when = (out / CERTIFICATE).stat().st_mtime_ns
        assert main([*command, "--new-words", str(listed), str(text), str(out)]) == 1
        assert (out / CERTIFICATE).stat().st_mtime_ns > when
    assert main([*command, "--dev", DEV, str(out)]) == 2
    assert "--recordings and --dev; expected either" in capfd.readouterr().err


# ---- a folder may come from anybody


def test_a_link_under_a_name_that_is_written_is_not_followed(dynamic, tmp_path):
    diary = tmp_path / "diary"
    diary.write_text("secret")
    for name in ("new_words.tsv", CERTIFICATE):
        (dynamic / name).symlink_to(diary)
    large = str(DATA / "kaldi" / "bg.kn.arpa.gz")
    assert main(["vosk", "adapt", "--large", large, str(dynamic), TEXT, str(tmp_path / "out")]) == 0
    assert diary.read_text() == "secret"
    assert diary.stat().st_nlink == 1
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))


def test_folders_share_no_file_that_is_written(dynamic, tmp_path):
    """One adaptation after the other: each has its own words, settings and certificate."""
    first, second, text = tmp_path / "first", tmp_path / "second", tmp_path / "text"
    known = gzip.decompress(Path(TEXT).read_bytes()).decode()
    for source, word, out in ((dynamic, "floda", first), (first, "zilch", second)):
        text.write_text(f"{known}{word}\n")
        assert main(["vosk", "adapt", "--lattice-beam", "7", str(source), str(text), str(out)]) == 0
    assert "floda" in (first / "new_words.tsv").read_text()
    assert "zilch" in (second / "new_words.tsv").read_text()
    assert "zilch" not in (first / "new_words.tsv").read_text()
    (second / "conf" / "model.conf").write_text("edited")
    assert (first / "conf" / "model.conf").read_text() == "--beam=10.0\n--lattice-beam=7\n"
    assert (dynamic / "conf" / "model.conf").read_text() == CONF


def test_only_what_libvosk_reads_is_taken_over(dynamic, tmp_path):
    """Whatever else is in a folder, links to itself too, is no concern of ours."""
    (dynamic / "a").symlink_to(".")
    (dynamic / "b").symlink_to(".")
    (dynamic / "gone").symlink_to(tmp_path / "nowhere")
    (dynamic / "secret").write_text("secret")
    os.mkfifo(dynamic / "graph" / "oov.int")
    shutil.copy(WORDS, dynamic / "graph" / "words.txt")
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "out")]) == 0
    assert set(files(tmp_path / "out")) == {
        "am/final.mdl",
        "conf/model.conf",
        "graph/Gr.fst",
        "graph/HCLr.fst",
        "graph/words.txt",
        CERTIFICATE,
        "new_words.tsv",
    }
    with changed(find_vosk_folder(str(dynamic)), 3.0) as made:
        assert {path.name for path in made.path.iterdir()} == {"am", "conf", "graph"}


def test_links_within_the_folder_are_copied_and_links_out_of_it_refused(dynamic, tmp_path, capsys):
    """What a link leads to elsewhere may be anything, and would lie in the new folder for all to read."""
    secret, out = tmp_path / "secret", tmp_path / "out"
    secret.write_text("private")
    (dynamic / "am" / "final.mdl").rename(dynamic / "am" / "the.mdl")
    (dynamic / "am" / "final.mdl").symlink_to("the.mdl")
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(out)]) == 0
    assert (out / "am" / "final.mdl").read_text() == "acoustic"
    assert not any(path.is_symlink() for path in out.rglob("*"))
    (dynamic / "ivector").mkdir()
    (dynamic / "ivector" / "splice.conf").symlink_to(secret)
    for command in (["adapt", str(dynamic), TEXT], ["replace-lm", str(dynamic), str(DATA / "kaldi" / "bg.kn.arpa.gz")]):
        capsys.readouterr()
        assert main(["vosk", *command, str(tmp_path / "other")]) == 1
        assert f"splice.conf: is a link out of the directory, to {secret}" in capsys.readouterr().err
        assert not (tmp_path / "other").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_files_of_others_are_copied(dynamic, tmp_path):
    """A link would leave them to their owner, modes and all."""
    (dynamic / "am" / "final.mdl").write_bytes(bytes(SMALL + 1))
    (dynamic / "am" / "final.mdl").chmod(0o666)
    os.chown(dynamic / "am" / "final.mdl", 65534, 65534)
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "out")]) == 0
    made = (tmp_path / "out" / "am" / "final.mdl").stat()
    assert (made.st_uid, made.st_nlink, made.st_mode & 0o022) == (0, 1, 0)


@pytest.mark.parametrize("name", ["results.9.jsonl", "ctm", "decode.json"])
def test_a_decoding_writes_through_no_link(name, dynamic, tmp_path, capsys):
    data, out, diary = recordings(tmp_path / "data"), tmp_path / "out", tmp_path / "diary"
    diary.write_text("all on one line")
    recognise(data, out, 0, 0)
    (out / name).symlink_to(diary)
    assert main(["vosk", "decode", str(dynamic), str(data), str(out)]) == 1
    assert f"{out / name}: is a link" in capsys.readouterr().err
    assert diary.read_text() == "all on one line"
    (out / name).unlink()
    (out / "results.8.jsonl").write_text("two\nlines")  # of somebody else: nothing is cut off
    with pytest.raises(MdiError, match="not a line of mdi vosk decode"):
        read_results(out)
    assert (out / "results.8.jsonl").read_text() == "two\nlines"


@pytest.mark.parametrize("name", ["text", "wav.scp", "utt2spk", "segments"])
def test_pipes_and_devices_in_a_data_folder_are_refused(name, dynamic, tmp_path, capsys):
    data = recordings(tmp_path / "data")
    (data / name).unlink(missing_ok=True)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        make(data / name)
        assert main(["vosk", "decode", str(dynamic), str(data), str(tmp_path / "out")]) == 1
        assert f"{data / name}: is " in capsys.readouterr().err
        (data / name).unlink()


@pytest.mark.parametrize("verb", ["adapt", "replace-lm", "decode"])
@pytest.mark.parametrize("kind", ["pipe", "loop", "dangling", "folder"])
@pytest.mark.parametrize("name", ["graph/Gr.fst", "graph/words.txt", "conf/model.conf", "am/final.mdl"])
def test_what_is_no_file_is_refused_before_any_work(verb, kind, name, dynamic, tmp_path, capsys):
    path = dynamic / name
    path.unlink(missing_ok=True)
    make = {
        "pipe": os.mkfifo,
        "loop": lambda path: path.symlink_to(path.name),
        "folder": os.mkdir,
        "dangling": lambda path: path.symlink_to("nowhere"),
    }
    make[kind](path)
    before = sorted(tmp_path.rglob("*"))
    given = {"adapt": TEXT, "replace-lm": str(DATA / "kaldi" / "bg.kn.arpa.gz"), "decode": str(tmp_path)}[verb]
    assert main(["vosk", verb, str(dynamic), given, str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert str(path) in said or "no am/final.mdl" in said
    assert said.count("\n") == 1
    assert len(said) < 500
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_within_the_model_or_around_it_is_refused(dynamic, tmp_path, capsys):
    around = tmp_path / "around"
    (around / "model").parent.mkdir()
    shutil.move(dynamic, around / "model")
    (around / CERTIFICATE).write_text("{}")
    for out in (around / "model" / "out", around / "model" / "graph" / "out", around):
        assert main(["vosk", "adapt", str(around / "model"), TEXT, str(out)]) == 1
        assert "lies within" in capsys.readouterr().err
    (tmp_path / "link").symlink_to(around)
    assert main(["vosk", "adapt", str(around / "model"), TEXT, str(tmp_path / "link")]) == 1
    assert "is a link" in capsys.readouterr().err
    assert (around / "model" / "graph" / "Gr.fst").exists()


def test_modes_follow_the_umask(dynamic, tmp_path):
    for path in (dynamic, *dynamic.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    old = os.umask(0o077)
    try:
        assert main(["vosk", "adapt", "--lattice-beam", "7", str(dynamic), TEXT, str(tmp_path / "out")]) == 0
    finally:
        os.umask(old)
    for path in (tmp_path / "out", *(tmp_path / "out").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_two_tables_of_words_that_disagree(dynamic, tmp_path, capsys):
    """libvosk prints words by words.txt, which the language model's own table must not contradict."""
    table = dynamic / "graph" / "words.txt"
    rows = [line.split() for line in WORDS.read_text().splitlines()]
    inside = read_symbols(str(dynamic / "graph" / "Gr.fst"))
    table.write_text("".join(f"{word} {number}\n" for word, number in rows))
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "out")]) == 0
    one, other = (word for word, _ in rows[5:7])
    numbers = dict(rows) | {one: dict(rows)[other], other: dict(rows)[one]}
    table.write_text("".join(f"{word} {number}\n" for word, number in numbers.items()))
    capsys.readouterr()
    assert main(["vosk", "adapt", str(dynamic), TEXT, str(tmp_path / "other")]) == 1
    said = capsys.readouterr().err
    assert f"the number {inside.ids[one]} means '{other}' here and '{one}' in " in said
    assert not (tmp_path / "other").exists()


def hostile_recordings(tmp_path: Path) -> Path:
    data = tmp_path / "hostile"
    data.mkdir()
    (data / "wav.scp").write_text(f"u1 touch {tmp_path}/ran |\n")
    return data


def test_recordings_run_no_commands_unless_asked_for(dynamic, tmp_path, capfd):
    data = hostile_recordings(tmp_path)
    for options in ([], ["--allow-pipes", "false"]):
        for command in (
            ["decode", *options, str(dynamic), str(data), str(tmp_path / "out")],
            ["adapt", *options, "--recordings", str(data), str(dynamic), str(tmp_path / "out")],
        ):
            assert main(["vosk", *command]) == 1
            assert "recording u1 is a command" in capfd.readouterr().err
            assert not (tmp_path / "ran").exists()


def test_every_option_of_a_decoding_reaches_it(dynamic, tmp_path, monkeypatch):
    """adapt --recordings decodes as decode would: every option that both have is tried here."""
    import argparse

    from mdi.arguments import declare
    from mdi.commands import vosk_adapt, vosk_decode
    from mdi.speech.vosk import decode

    def options(command) -> set[str]:
        declare(parser := argparse.ArgumentParser(), command.OPTIONS)
        return {action.dest for action in parser._actions if action.option_strings}

    given = {
        "nj": "3",
        "allow_pipes": "true",
        "n_best": "7",
        "lattice_beam": "9.5",
        "dither": "true",
        "channel": "2",
        "max_overshoot": "1.5",
    }
    assert options(vosk_decode) & options(vosk_adapt) == {*given, "help"}
    assert options(vosk_decode) - options(vosk_adapt) == {"delta", "restart"}
    told = {}

    def apart(function, what, **arguments):
        told.update(arguments | arguments["how"], lattice_beam=VoskFolder(Path(arguments["folder"])).lattice_beam)
        told["dither"] = (Path(arguments["folder"]) / "conf" / "mfcc.conf").read_text() != "--dither=0\n"
        raise MdiError("enough")

    monkeypatch.setattr(decode, "call_apart", apart)
    data, noise = recordings(tmp_path / "data"), dynamic / "conf" / "mfcc.conf"
    noise.write_text("")
    for i, (name, value) in enumerate(given.items()):
        option = f"--{name.replace('_', '-')}"
        for verb, *call in (["adapt", "--recordings", str(data), str(dynamic)], ["decode", str(dynamic), str(data)]):
            assert main(["vosk", verb, option, value, *call, str(tmp_path / f"{verb}{i}")]) == 1
            assert str(told[name]).lower() == value
            assert told["data"] == str(data)


def test_a_misspelt_action_is_a_usage_error(dynamic, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["vosk", "adopt", str(dynamic), str(DATA / "kaldi" / "bg.kn.arpa.gz"), str(tmp_path / "out")])
    assert caught.value.code == 2
    assert "did you mean adapt?" in capsys.readouterr().err


def test_modules_in_the_current_folder_are_not_imported(dynamic, tmp_path):
    """What lies where somebody works is data, even if its name is that of a module."""
    import subprocess
    import sys

    here = tmp_path / "here"
    here.mkdir()
    for name in ("vosk", "numpy", "json", "kaldialign", "mdi", "distributed", "soundfile", "signal"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write({name!r})\n")
    data = recordings(tmp_path / "data")
    mdi = str(Path(sys.executable).parent / "mdi")
    done = subprocess.run(
        [mdi, "vosk", "adapt", "--recordings", str(data), str(dynamic), str(tmp_path / "out")],
        cwd=here,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "libvosk cannot load this model" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("ctypes:string_at", {"ptr": 1}, "this: the process was ended by SIGSEGV"),  # reads where nothing is
        ("os:_exit", {"status": 3}, "ended with code 3"),
        ("mdi.speech.vosk.folder:find_vosk_folder", {"path": "/nowhere"}, "/nowhere: no such directory"),
        ("no_such_module:f", {}, "the package no_such_module is not installed"),
    ],
)
def test_what_native_code_breaks_is_an_error(function, arguments, message):
    """It breaks in a process of its own."""
    with pytest.raises(MdiError, match=message):
        call_apart(function, "this", **arguments)


def test_a_process_of_its_own_answers():
    assert call_apart("os.path:join", "joining", a="é") == "é"
    assert call_apart("builtins:print", "printing") is None  # what is printed is no answer


def test_a_decoding_that_failed_on_its_data_goes_on_with_mended_data(dynamic, tmp_path, capsys):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    for lines in ("u1 a.wav\n", "u1 a.wav\nu2 b.wav\n"):
        (data / "wav.scp").write_text(lines)
        assert main(["vosk", "decode", str(dynamic), str(data), str(out)]) == 1
        assert "libvosk cannot load this model" in capsys.readouterr().err  # and not: holds another decoding
