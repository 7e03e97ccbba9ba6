"""mdi vosk adapt and add-words with words that the model does not know: on a small folder, and on a real one, where
MDI_VOSK_MODEL names it, through libvosk."""

import io
import itertools
import json
import os
import resource
import threading
from pathlib import Path

import numpy as np
import pytest
from toy_graph import FULL, Toy

from mdi.cli import main
from mdi.errors import MdiError
from mdi.fst.formats import load, write_lm
from mdi.fst.lookahead import read_lookahead
from mdi.fst.symbols import read_symbols
from mdi.lm.normalise import worst_sum
from mdi.lm.train import train
from mdi.speech.vosk.folder import CERTIFICATE, VoskFolder, new_folder
from mdi.speech.vosk.recogniser_graph import read_graph

REAL = os.environ.get("MDI_VOSK_MODEL", "")
WORDS = [word for word in FULL if word.isalpha()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Toy(FULL).write(tmp_path / "model")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    lines = [" ".join(rng.choice(WORDS, 5)) for _ in range(30)]
    path = tmp_path / "text"
    path.write_text("\n".join([*lines, "ab dabba cab", "dabba", "ba acdc dabba", "ab http://x 31 ab"]) + "\n")
    return path


def rows(folder: Path) -> dict[str, list[str]]:
    lines = (folder / "new_words.tsv").read_text().splitlines()
    return {fields[0]: fields for fields in (line.split("\t") for line in lines[1:])}


def same_files(one: Path, two: Path, names: list[str]) -> bool:
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in names)


def test_words_of_the_text_are_added_to_the_graph_and_the_model(folder, text, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["vosk", "adapt", str(folder), str(text), str(out)]) == 0
    said = capsys.readouterr().err
    assert "2 new words" in said
    before, after = read_symbols(str(folder / "graph/Gr.fst")).ids, read_symbols(str(out / "graph/Gr.fst")).ids
    assert {word: after[word] for word in before} == before
    new = {word: number for word, number in after.items() if word not in before}
    assert set(new) == {"dabba", "acdc"}
    assert min(new.values()) > max(before.values())
    graph = read_graph(VoskFolder(out))
    lexicon, table = graph.lexicon(), rows(out)
    assert table["dabba"][1] == "3"
    for word in new:
        assert set(lexicon[word]) == {tuple(way.split()) for way in table[word][2].split(" | ")}
    model = load(str(out / "graph/Gr.fst"))
    assert worst_sum(model)[0] < 1e-5
    assert model.p[1][model.vocab.id("dabba")] > 3 * model.p[1][model.vocab.id("acdc")] / 2 > 0
    certificate = json.loads((out / CERTIFICATE).read_text())
    assert certificate["new_words"]["added"] == new
    assert certificate["exchanged"] == ["graph/Gr.fst", "graph/HCLr.fst"]
    assert not (out / "graph" / "words.txt").exists()  # as in the model


def test_words_of_the_graph_that_the_model_lacks(folder, text, tmp_path, capsys):
    """A model of a small domain: its words are fewer than the graph's."""
    place, small = folder / "graph/Gr.fst", tmp_path / "small"
    small.write_text("ab ba cab\nba ab\ncab dab\n" * 3)
    table = read_symbols(str(place))
    write_lm(train(small, 2, vocab=["ab", "ba", "cab", "dab"]), str(place), "ngram", table)
    assert "adac" not in load(str(place))
    out = tmp_path / "out"
    assert main(["vosk", "adapt", str(folder), str(text), str(out)]) == 0
    assert "words of the text are in the graph but not in the model: added" in capsys.readouterr().err
    model, after = load(str(out / "graph/Gr.fst")), read_symbols(str(out / "graph/Gr.fst")).ids
    said = {word for word in text.read_text().split() if word in table.ids}
    assert "adac" in said
    assert all(model.p[1][model.vocab.id(word)] > 0 for word in said)
    assert {word: after[word] for word in said} == {word: table.ids[word] for word in said}
    assert worst_sum(model)[0] < 1e-5
    assert main(["vosk", "adapt", "--new-words", "none", str(folder), str(text), str(out)]) == 0
    assert set(load(str(out / "graph/Gr.fst")).vocab.words) == set(load(str(place)).vocab.words)


def test_which_words(folder, text, tmp_path, capsys):
    def added(*options: str) -> set[str]:
        out = tmp_path / "out"
        assert main(["vosk", "adapt", *options, str(folder), str(text), str(out)]) == 0
        return {word for word in read_symbols(str(out / "graph/Gr.fst")).ids if word not in known}

    known = read_symbols(str(folder / "graph/Gr.fst")).ids
    assert added("--new-words", "2") == {"dabba"}
    assert added("--new-words", "none") == set()
    assert same_files(folder, tmp_path / "out", ["graph/HCLr.fst"])
    (tmp_path / "list").write_text("acdc\nccbb\nab\n")
    assert added("--new-words", str(tmp_path / "list")) == {"acdc", "ccbb"}
    assert "known already, such as 'ab'" in capsys.readouterr().err
    model = load(str(tmp_path / "out/graph/Gr.fst"))
    assert model.p[1][model.vocab.id("ccbb")] > 0  # though the text has it not
    assert main(["vosk", "adapt", "--new-words", "nothing", str(folder), str(text), str(tmp_path / "x")]) == 2
    assert "--new-words nothing; expected" in capsys.readouterr().err


@pytest.fixture
def pipe(tmp_path):
    """What the shell's <(cat FILE) is: it can be read but once."""
    threads = []

    def made(path: Path) -> str:
        fifo = str(tmp_path / f"fifo{len(threads)}")
        os.mkfifo(fifo)
        threads.append(threading.Thread(target=lambda: Path(fifo).write_bytes(path.read_bytes()), daemon=True))
        threads[-1].start()
        return fifo

    return made


MADE = ["graph/Gr.fst", "graph/HCLr.fst", "new_words.tsv"]


@pytest.mark.parametrize("how", ["auto", "none"])
def test_text_that_can_be_read_but_once(folder, text, tmp_path, monkeypatch, how, pipe):
    options = ["vosk", "adapt", "--normalise", how, str(folder)]
    assert main([*options, str(text), str(tmp_path / "file")]) == 0
    with open(text, "rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        assert main([*options, "-", str(tmp_path / "stdin")]) == 0
    assert main([*options, pipe(text), str(tmp_path / "pipe")]) == 0
    assert same_files(tmp_path / "file", tmp_path / "stdin", MADE)
    assert same_files(tmp_path / "file", tmp_path / "pipe", MADE)


def test_lists_that_can_be_read_but_once(folder, text, tmp_path, monkeypatch, pipe):
    lexicon, listed, out = tmp_path / "lexicon", tmp_path / "list", tmp_path / "out"
    lexicon.write_text("dabba d d d d\n")
    listed.write_text("dabba\nccbb\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lexicon.read_bytes())))
    for given in ("-", pipe(lexicon)):
        assert main(["vosk", "adapt", "--lexicon", given, str(folder), str(text), str(out)]) == 0
        assert rows(out)["dabba"][2] == "d d d d"
    assert main(["vosk", "adapt", "--new-words", pipe(listed), str(folder), str(text), str(out)]) == 0
    assert rows(out).keys() == {"dabba", "ccbb"}
    for words in (listed, out / "new_words.tsv"):
        once, again = tmp_path / "once", tmp_path / "again"
        assert main(["vosk", "add-words", str(folder), pipe(words), str(once)]) == 0
        assert main(["vosk", "add-words", str(folder), str(words), str(again)]) == 0
        assert same_files(once, again, MADE)
    assert main(["vosk", "add-words", str(folder), str(lexicon), str(out)]) == 1  # no list


def test_a_lexicon_speaks_of_words_that_differ_in_accents(folder, text, tmp_path, capsys):
    lexicon, out = tmp_path / "lexicon", tmp_path / "out"
    text.write_text(text.read_text().replace("dabba", "dàb"))
    lexicon.write_text("dab d d d d\n")
    command = ["vosk", "adapt", "--normalise", "none", "--lexicon", str(lexicon), str(folder), str(text), str(out)]
    assert main(command) == 0
    assert "1 words are in the model, such as 'dab'" in capsys.readouterr().err
    assert rows(out)["dàb"][2] != "d d d d"


def test_a_damaged_graph_is_an_error_and_one_of_another_kind_is_not(folder, text, tmp_path, capsys):
    """libvosk could not load what is damaged; a graph of another kind may be as good as any."""
    out, path = tmp_path / "out", folder / "graph" / "HCLr.fst"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"\0" * len(whole), whole + b"more"):
        path.write_bytes(damaged)
        assert main(["vosk", "adapt", str(folder), str(text), str(out)]) == 1
        assert "HCLr.fst: " in capsys.readouterr().err
        assert not out.exists()
    path.write_bytes(whole.replace(b"olabel_lookahead", b"ilabel_lookahead"))
    assert main(["vosk", "adapt", str(folder), str(text), str(out)]) == 0
    assert "New words are left out" in capsys.readouterr().err


def test_a_full_disk_is_that_of_the_new_folder(folder, tmp_path):
    """What could not be written is named, not what was read."""
    limits, out = resource.getrlimit(resource.RLIMIT_FSIZE), tmp_path / "out"
    wanted = pytest.raises(MdiError, match=f"^{out}/[a-z./]+: cannot write: File too large")
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with wanted, new_folder(VoskFolder(folder), out, ["graph/Gr.fst"]):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not out.exists()


def test_wrong_options_and_missing_files_are_found_before_any_work(folder, text, tmp_path, capsys):
    for verb, options, message in (
        ("adapt", ["--new-words", "map"], "--new-words map; expected add, none, a number, or a file"),
        ("adapt", ["--new-words", "drop"], "--new-words drop; expected add, none, a number, or a file"),
        ("adapt", ["--language", "english"], "--language english; expected a code"),
        ("adapt", ["--sigma2", "x"], "--sigma2 x; expected a positive number"),
        ("adapt", ["--min-counts", "0"], "--min-counts 0; expected positive numbers"),
        ("adapt", ["--lexicon", "nowhere"], "nowhere: No such file"),
        ("adapt", ["--large", "nowhere"], "nowhere: No such file"),
        ("adapt", ["--dev", "nowhere"], "nowhere: No such file"),
        ("add-words", ["--lexicon", "nowhere"], "nowhere: No such file"),
        ("add-words", ["--large", str(tmp_path)], f"{tmp_path}: is a directory"),
        ("replace-lm", ["--delta", "nowhere"], "nowhere: No such file"),
    ):
        arguments = [str(folder), *([str(text)] if verb != "replace-lm" else []), str(tmp_path / "x")]
        assert main(["vosk", verb, *options, *arguments]) == (2 if message.startswith("--") else 1)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert message in said[0]


def test_pronunciations_that_are_given_and_corrected(folder, text, tmp_path, capsys):
    lexicon, out = tmp_path / "lexicon", tmp_path / "out"
    lexicon.write_text("dabba d d d d\ndabba = dab a\n")
    assert main(["vosk", "adapt", "--lexicon", str(lexicon), str(folder), str(text), str(out)]) == 0
    assert set(read_graph(VoskFolder(out)).lexicon()["dabba"]) == {("d", "d", "d", "d"), ("d", "a", "b", "a")}
    # new_words.tsv, edited and given back
    table = (out / "new_words.tsv").read_text()
    lexicon.write_text(table.replace(rows(out)["acdc"][2], "a a a a", 1))
    assert main(["vosk", "adapt", "--lexicon", str(lexicon), str(folder), str(text), str(out)]) == 0
    assert read_graph(VoskFolder(out)).lexicon()["acdc"] == [("a", "a", "a", "a")]
    for wrong, message in (
        ("dabba d q d\n", "lexicon:1: no word is said with the phones 'q'"),
        ("dabba = nobody\n", "lexicon:1: sounds like 'nobody'"),
    ):
        lexicon.write_text(wrong)
        before = (out / CERTIFICATE).read_bytes()
        assert main(["vosk", "adapt", "--lexicon", str(lexicon), str(folder), str(text), str(out)]) == 1
        assert message in capsys.readouterr().err
        assert (out / CERTIFICATE).read_bytes() == before


def test_a_lexicon_says_how_words_are_said_and_not_what_a_word_is(folder, text, tmp_path, capsys):
    """Addresses stay out whatever it has of other words; a number that it has goes in."""
    lexicon, out = tmp_path / "lexicon", tmp_path / "out"
    for lines, more in (("dabba d d d d\n", set()), ("31 = dab a\nhttp://x = ab\n", {"31", "http://x"})):
        lexicon.write_text(lines)
        command = ["vosk", "adapt", "--normalise", "none", "--lexicon", str(lexicon), str(folder), str(text), str(out)]
        assert main(command) == 0
        assert set(json.loads((out / CERTIFICATE).read_text())["new_words"]["added"]) == {"dabba", "acdc"} | more
    assert main(["vosk", "adapt", "--normalise", "none", str(folder), str(text), str(out)]) == 0
    assert "2 words are left out, as they cannot be said: '31', 'http://x'" in capsys.readouterr().err


def test_a_lexicon_in_the_spelling_of_the_text(folder, text, tmp_path, capsys):
    """The text is normalised, the lexicon as the user reads the text; what it has beside new words is told."""
    lexicon, out = tmp_path / "lexicon", tmp_path / "out"
    text.write_text(text.read_text().replace("dabba", "Dabba"))
    lexicon.write_text("Dabba d d d d\nnobody d d\n")
    assert main(["vosk", "adapt", "--lexicon", str(lexicon), str(folder), str(text), str(out)]) == 0
    assert rows(out)["dabba"][2] == "d d d d"
    assert f"{lexicon}: 1 words are not among the new words, such as 'nobody'" in capsys.readouterr().err
    lexicon.write_text("Dabba d d d d\ndabba a a a\n")  # what is spelt as the new word is comes first
    assert main(["vosk", "adapt", "--lexicon", str(lexicon), str(folder), str(text), str(out)]) == 0
    assert rows(out)["dabba"][2] == "a a a"
    text.write_text("ab ba\n" * 9)
    assert main(["vosk", "adapt", "--lexicon", str(lexicon), str(folder), str(text), str(out)]) == 0
    assert "2 words are not among the new words" in capsys.readouterr().err


def test_words_without_text(folder, tmp_path, capsys):
    out, listed = tmp_path / "out", tmp_path / "list"
    listed.write_text("dabba\nacdc\nab\n")
    assert main(["vosk", "add-words", "--probability", "0.001", str(folder), str(listed), str(out)]) == 0
    assert "known already, such as 'ab'" in capsys.readouterr().err
    model, old = load(str(out / "graph/Gr.fst")), load(str(folder / "graph/Gr.fst"))
    assert model.p[1][model.vocab.ids(["dabba", "acdc"])] == pytest.approx([0.001, 0.001], rel=1e-5)
    assert model.p[1][model.vocab.id("ab")] == pytest.approx(0.998 * old.p[1][old.vocab.id("ab")], rel=1e-5)
    assert worst_sum(model)[0] < 1e-5
    assert {"dabba", "acdc"} < read_graph(VoskFolder(out)).lexicon().keys()
    # what it says of them can be edited and given again, as the list
    table = tmp_path / "table"
    table.write_text((out / "new_words.tsv").read_text().replace(rows(out)["dabba"][2], "b b b b", 1))
    assert main(["vosk", "add-words", str(folder), str(table), str(tmp_path / "again")]) == 0
    assert read_graph(VoskFolder(tmp_path / "again")).lexicon()["dabba"] == [("b", "b", "b", "b")]


def test_no_new_word_changes_nothing(folder, tmp_path, capsys):
    out, listed = tmp_path / "out", tmp_path / "list"
    listed.write_text("ab\nba\n")
    assert main(["vosk", "add-words", str(folder), str(listed), str(out)]) == 0
    assert same_files(folder, out, ["graph/HCLr.fst", "graph/Gr.fst", "am/final.mdl"])
    assert f"{out}: the same Vosk model as {folder}" in capsys.readouterr().err


def test_forms_of_new_words_are_said_as_these(folder, tmp_path):
    """And are as sure: a name that is given in phones, and its genitive."""
    out, listed, lexicon = tmp_path / "out", tmp_path / "list", tmp_path / "lexicon"
    listed.write_text("dabba'c\ndabba\n")
    lexicon.write_text("dabba d d d d\n")
    # words with the ending 'c, so that there is something to learn
    names = {f"{x}{y}cd": [f"{x} {y} c d"] for x in "abcd" for y in "abcd"}
    toy = Toy({**FULL, **names, **{f"{word}'c": [f"{ways[0]} c"] for word, ways in names.items()}})
    assert (
        main(
            ["vosk", "add-words", "--lexicon", str(lexicon), str(toy.write(tmp_path / "names")), str(listed), str(out)]
        )
        == 0
    )
    assert rows(out)["dabba'c"][2] == "d d d d c"
    assert rows(out)["dabba'c"][4] == "parts: dabba 'c"


def test_words_that_cannot_be_said_are_left_out_and_listed(folder, tmp_path, capsys):
    out, listed = tmp_path / "out", tmp_path / "list"
    listed.write_text(f"dabba\n{'ab' * 150}\n7th\nxyz\n")
    assert main(["vosk", "add-words", str(folder), str(listed), str(out)]) == 0
    assert set(json.loads((out / CERTIFICATE).read_text())["new_words"]["not_said"]) == {"ab" * 150, "7th", "xyz"}
    assert [rows(out)[word][2] for word in ("7th", "xyz")] == ["", ""]
    listed.write_text("7th\n")
    assert main(["vosk", "add-words", str(folder), str(listed), str(tmp_path / "none")]) == 1
    assert "none of its words can be said" in capsys.readouterr().err


def test_rescoring_models_get_the_words_too(folder, text, tmp_path):
    """What rescores, G.carpa, would otherwise throw new words out of the lattices; words.txt is extended beside it."""
    table = read_symbols(str(folder / "graph/Gr.fst"))
    (folder / "graph/words.txt").write_text("".join(f"{word} {i}\n" for word, i in table.ids.items()))
    (folder / "rescore").mkdir()
    for name in ("G.fst", "G.carpa"):
        assert (
            main(
                [
                    "convert",
                    "--words",
                    str(folder / "graph/words.txt"),
                    str(folder / "graph/Gr.fst"),
                    str(folder / "rescore" / name),
                ]
            )
            == 0
        )
    out = tmp_path / "out"
    assert main(["vosk", "adapt", str(folder), str(text), str(out)]) == 0
    words = out / "graph/words.txt"
    assert read_symbols(str(words)).ids == read_symbols(str(out / "graph/Gr.fst")).ids
    for name in ("G.fst", "G.carpa"):
        model = load(str(out / "rescore" / name), str(words))
        assert model.p[1][model.vocab.id("dabba")] > 0
    assert main(["vosk", "add-words", str(folder), str(_listed(tmp_path)), str(tmp_path / "more")]) == 0
    model = load(str(tmp_path / "more/rescore/G.carpa"), str(tmp_path / "more/graph/words.txt"))
    assert model.p[1][model.vocab.id("dabba")] > 0


def _listed(folder: Path) -> Path:
    (folder / "list").write_text("dabba\n")
    return folder / "list"


def test_deltas_bring_their_words(folder, text, tmp_path, capsys):
    delta, out = tmp_path / "a.delta", tmp_path / "out"
    for how in ("none", "auto"):  # addresses come with the first one, and are left out as by mdi vosk adapt
        assert main(["adapt", "--normalise", how, "--delta", str(delta), str(folder / "graph/Gr.fst"), str(text)]) == 0
        assert main(["vosk", "replace-lm", "--delta", str(delta), str(folder), str(out)]) == 0
        assert set(json.loads((out / CERTIFICATE).read_text())["new_words"]["added"]) == {"dabba", "acdc"}
        assert ("'http://x'" in capsys.readouterr().err.split("left out")[-1]) == (how == "none")
    assert {"dabba", "acdc"} < read_graph(VoskFolder(out)).lexicon().keys()
    assert main(["vosk", "adapt", str(folder), str(text), str(tmp_path / "direct")]) == 0
    one, two = (load(str(path / "graph/Gr.fst")) for path in (out, tmp_path / "direct"))
    for word in ("dabba", "ab"):
        assert one.p[1][one.vocab.id(word)] == pytest.approx(two.p[1][two.vocab.id(word)], rel=1e-4)
    capsys.readouterr()
    command = ["vosk", "replace-lm", "--new-words", "none", "--delta", str(delta), str(folder)]
    assert main([*command, str(tmp_path / "none")]) == 1
    assert "lacks 2 words of the delta" in capsys.readouterr().err


@pytest.mark.skipif(not REAL, reason="MDI_VOSK_MODEL names no directory of a Vosk model")
@pytest.mark.slow
def test_libvosk_hears_added_words(tmp_path):
    """Words that are known under another name, and so are surely said: freely, with a grammar, and with times. Speech
    is synthetic, by espeak-ng, where it is installed."""
    import shutil
    import subprocess
    import sys

    if shutil.which("espeak-ng") is None:
        pytest.skip("no espeak-ng to speak")
    listed, lexicon, out = tmp_path / "list", tmp_path / "lexicon", tmp_path / "out"
    listed.write_text("zamboodle\nqwerniff\n")
    lexicon.write_text("zamboodle = zam boodle\nqwerniff = kern if\n")
    assert main(["vosk", "add-words", "--lexicon", str(lexicon), REAL, str(listed), str(out)]) == 0
    assert read_lookahead(str(out / "graph/HCLr.fst")).arcs.n_states > 1000
    sound = tmp_path / "sound.wav"
    subprocess.run(
        ["espeak-ng", "-v", "en-us", "-s", "130", "-w", str(sound), "the zamboodle is a machine"], check=True
    )
    program = """
import json, sys, vosk, wave
vosk.SetLogLevel(-1)
model, sound = vosk.Model(sys.argv[1]), wave.open(sys.argv[2])
data = sound.readframes(sound.getnframes())
for grammar in ([], [json.dumps(["the zamboodle is a machine", "qwerniff", "[unk]"])]):
    recogniser = vosk.KaldiRecognizer(model, sound.getframerate(), *grammar)
    recogniser.SetWords(True)
    recogniser.AcceptWaveform(data)
    print(recogniser.FinalResult().replace(chr(10), " "))
"""
    done = subprocess.run([sys.executable, "-c", program, str(out), str(sound)], capture_output=True, text=True)
    free, grammar = (json.loads(line) for line in done.stdout.splitlines())
    assert grammar["text"] == "the zamboodle is a machine"
    assert "zamboodle" in free["text"].split()
    times = [(word["start"], word["end"]) for word in grammar["result"]]
    assert all(start < end for start, end in times)
    assert all(before[1] <= after[0] + 1e-6 for before, after in itertools.pairwise(times))
