"""New words of a recipe: said, recognised, missed, false; their row in the table and their part of the page."""

import json
import re
import wave

import pytest
import recipe_files
import report
import results
import word_recall
from test_listen import scored
from test_results import as_words

from mdi.errors import MdiError

SAID = {
    "u1": "azura is here",
    "u2": "azura meets floda and azura",
    "u3": "ask gurgle",
    "u4": "the sawyer is here",
    "u5": "here is the rest",
}
# azura 2 of 3, floda not, gurgle is in no text; "sawyer" is known; a floda that nobody said
HEARD = {
    "u1": "azura is here",
    "u2": "azura meets flow and a zoo",
    "u3": "ask girl",
    "u4": "the floda is here",
    "u5": "here is the rest",
}
PLAIN = {
    "u1": "as you are is here",
    "u2": "as meets flow and a zoo",
    "u3": "ask girl",
    "u4": SAID["u4"],
    "u5": SAID["u5"],
}
TABLE = """word\tcount\tpronunciations\tcertainty\thow\tsounds like
azura\t26\tAH Z UH R AH | AE Z UH R AH\t0.90\tletters\ta zura | as <ura>
floda\t30\tF L OW D AH\t0.20\tletters\tflow duh
shh\t2\t\t0.00\tno vowel\t
"""


@pytest.fixture
def recipe(tmp_path):
    """exp/mine with libvosk's first pass: the own model, MDI, and MDI with new words."""
    exp, data = tmp_path / "exp" / "mine", tmp_path / "data" / "mine"
    (exp / "graph" / "new_words").mkdir(parents=True)
    (exp / "graph" / "new_words" / "new_words.tsv").write_text(TABLE)
    certificate = {"adapted": {"graph/Gr.fst": {"ngrams": [10, 20, 30]}}}
    (exp / "graph" / "new_words" / "mdi.json").write_text(json.dumps(certificate))
    (exp / "ppl").mkdir()
    known = {word for text in (*SAID.values(), *PLAIN.values()) for word in text.split()} - {"azura", "floda", "gurgle"}
    (data / "speech" / "eval").mkdir(parents=True)
    (data / "vosk-model").mkdir()
    (data / "words.txt").write_text("".join(f"{word} {i}\n" for i, word in enumerate(["<eps>", *sorted(known), "#0"])))
    models = {
        "default": (300.0, PLAIN),
        "interpolated": (90.0, PLAIN),
        "prior": (80.0, PLAIN),
        "new_words": (70.0, HEARD),
    }
    for name, (ppl, heard) in models.items():
        rows = [{"text": f"{s}.txt.gz", "ppl": ppl, "oov": 3, "words": 100} for s in ("dev", "eval")]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (exp / "ppl" / f"first.{name}.jsonl").write_text(text)
        if name in ("interpolated", "prior"):
            (exp / "ppl" / f"{name}.jsonl").write_text(text)
        for test_set in ("dev", "eval"):
            folder = scored(exp / "heard" / name / test_set, SAID, heard)
            (folder / "scoring_kaldi" / "best_wer").write_text(
                "%WER 20.00 [ 4 / 20, 1 ins, 0 del, 3 sub ] wer_10_0.0\n"
            )
    return exp


def test_words_are_counted_by_utterance(recipe):
    new_words = word_recall.read_new_words(recipe, recipe_files.data_folder(recipe))
    assert new_words.added == 2
    split = {u: text.split() for u, text in SAID.items()}
    found = word_recall.recall(new_words, split, {u: text.split() for u, text in HEARD.items()})
    assert found.said == {"azura": 3, "floda": 1, "gurgle": 1}
    assert new_words.in_text(found.said) == {"azura": 3, "floda": 1}
    assert found.right == {"azura": 2}
    assert found.false == {"floda": 1}
    assert found.utterances == 3
    assert found.wer_with == pytest.approx(100 * (0 + 3 + 1) / 10)  # flow, a zoo; girl
    assert found.wer_without == pytest.approx(100 * 1 / 8)


def test_nobody_is_asked_where_nothing_was_added(recipe):
    (recipe / "graph" / "new_words" / "new_words.tsv").unlink()
    data = recipe_files.data_folder(recipe)
    assert word_recall.read_new_words(recipe, data) is None
    assert results.new_word_cells(results.collect("mine", [recipe])).empty
    # all models of the recipe know them: words.txt has them too
    (data / "new_words.tsv").write_text(TABLE)
    with (data / "words.txt").open("a") as stream:
        stream.write("azura 90\nfloda 91\n")
    assert "azura" not in word_recall.read_new_words(recipe, data).known


def test_a_damaged_table_is_named(recipe):
    path = recipe / "graph" / "new_words" / "new_words.tsv"
    path.write_text(TABLE + "word\tmany\tW\n")
    with pytest.raises(MdiError, match=r"new_words.tsv:5: .*; expected word, count, pronunciations"):
        word_recall.read_rows(path)


def test_the_row_is_marked_as_another_vocabulary(recipe):
    found = results.collect("mine", [recipe])
    rows = found.frame[found.frame.test_set == "eval"].set_index("model")
    assert rows.label["first.new_words"] == "MDI, new words"
    assert rows.ngrams["first.new_words"] == 60
    table = results.cells(found).loc["mine"].loc["First pass"]
    assert table["eval", "PPL"].to_list() == ["300.0 ", "90.0 ", "80.0 ", "70.0*"]
    text = " ".join(results.as_text(found).split())
    assert "MDI, new words: over ANOTHER VOCABULARY. As MDI, prior, and 2 words of the in-domain text" in text
    # of 5 said 4 are in the text; 2 recognised, 3 missed, 1 false
    learnt = results.new_word_cells(found).loc["mine"].loc["First pass"]["eval"]
    assert learnt.loc["MDI, new words"].to_list() == ["5", "4", "2", "3", "1", "40.0", "12.5"]
    assert learnt.loc["default"].to_list()[2:5] == ["0", "5", "0"]
    line = next(line for line in results.as_text(found).splitlines() if re.search("MDI, new words +5 ", line))
    assert line.split()[-7:] == ["5", "4", "2", "3", "1", "40.0", "12.5"]
    assert rows.new_right["first.new_words"] == 2  # in table.csv
    assert ",5,4,2,1\n" in results.as_csv(found)


def test_the_page_has_the_words_with_their_sound_and_pronunciations(recipe):
    data = recipe_files.data_folder(recipe) / "speech" / "eval"
    with wave.open(str(data / "a.wav"), "wb") as stream:
        stream.setparams((1, 2, 16000, 0, "NONE", ""))
        stream.writeframes(bytes(3200))
    (data / "wav.scp").write_text("".join(f"{u} {data}/a.wav\n" for u in SAID))
    out = recipe.parent / "report"
    assert report.main([str(recipe), str(out)]) == 0
    page = (out / "index.html").read_text()
    words = as_words(page)
    assert "2 of 4 new words recognised, of those said in eval that the in-domain text has" in words
    assert "5 times somebody says a word that the recogniser did not know before, in 3 utterances" in words
    assert "recognises 2 , misses 3 , and hears 1 where nobody said them" in words
    assert "azura 3 2 1 26 a zura as <ura> AH Z UH R AH AE Z UH R AH" in words
    assert "floda 1 0 1 1 30 flow duh F L OW D AH uncertain" in words
    assert "gurgle 1 0 1 not in it" in words
    # said and heard, each with its player: u1 recognised, u2 and u3 missed, u4 has a word that nobody said
    part = page[page.index("New words recognised and missed") : page.index("For specialists")]
    recognised, missed, strange = part.split("<h4>")[1:]
    players = [sorted(re.findall(r'aria-label="(u\d)"', group)) for group in (recognised, missed, strange)]
    assert players == [["u1"], ["u2", "u3"], ["u4"]]
    assert part.count("data:audio/wav;base64,") == 4
    assert '<td class="new">azura</td>' in recognised
    assert "<th>MDI, prior</th>" in recognised
