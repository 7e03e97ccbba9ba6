"""Text as people have it, in the words of a vocabulary."""

import gzip
import io
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdi
from mdi.cli import main
from mdi.errors import MdiError, OptionError
from mdi.lm.text import Sentences
from mdi.lm.vocabulary import vocabulary
from mdi.spoken import Speller, sayable, spoken_text
from mdi.spoken.numbers import in_words, language_of
from mdi.spoken.segment import Segmenter
from mdi.spoken.sentences import unwrapped
from mdi.spoken.speller import folded

ENGLISH = """put the flow on it's is isn't it i don't know she said call doctor mister smith paid two dollars and cents
    for a well known email e mail service may nineteen ninety nine first meeting began at ten thirty forty five percent
    of u s firms zero one three four six seven eight eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    twenty fifty hundred degrees point see more we today café 'em dogs' o'brien the oh iron stein fi ine""".split()  # noqa: SIM905
FRENCH = """un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize vingt et trente
    quarante cinquante cent l'eau l' œuvre élève à il fait chaud virgule bonjour monsieur dupont est là""".split()  # noqa: SIM905
RUSSIAN = """два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать
    пятнадцать шестнадцать семнадцать восемнадцать девятнадцать двадцать тридцать сорок пятьдесят сто один ещё мой
    раз""".split()  # noqa: SIM905
CHINESE = ["今天", "天气", "很", "好", "天", "气", "我们", "去", "北京", "大学", "北京大学", "生", "大学生"]


def said(speller: Speller, text: str) -> list[str]:
    return [" ".join(words) for words in speller.line(text)]


@pytest.fixture(scope="module")
def english() -> Speller:
    return Speller(ENGLISH)


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Put the flow on. It's 31°", ["put the flow on", "it's thirty one degrees"]),
        ("PUT THE FLOW ON", ["put the flow on"]),
        (
            "“I don’t know,” she said. Mr. Smith – paid $2.50!",
            ["i don't know she said", "mister smith paid two dollars and fifty cents"],
        ),
        ("a well-known e-mail, to-day", ["a well known email today"]),
        ("45% of U.S. firms at 10:30", ["forty five percent of u s firms at ten thirty"]),
        ("see http://x.org/31?a=1, J. Smith", ["see http://x.org/31?a=1 j smith"]),
        ("cafe CAFÉ cafe\u0301 caf\u00e9", ["café café café café"]),
        ("ﬁ 'dogs' dogs’ ‘em O’Brien", ["fi dogs' dogs' 'em o'brien"]),
        ("the Ironstein's iron-xyz iron-stein", ["the ironstein's iron-xyz iron stein"]),
        ("it is <b>well</b> [noise] <unk> 😀 ***", ["it is well [noise] <unk>"]),
        ("\ufeffput\u00a0the flow", ["put the flow"]),
        ("put  the\tflow xyz", ["put the flow xyz"]),
        ("... [...] [*]", []),
        ("the flow/service_on", ["the flow service on"]),
    ],
)
def test_english(english, written, spoken):
    assert said(english, written) == spoken


def test_lines_of_known_words_are_left_alone(english):
    assert said(english, "put the flow on") == ["put the flow on"]
    assert said(Speller(["mp3", "U.S.", "31", "The", "the"]), "mp3 U.S. 31 The the") == ["mp3 U.S. 31 The the"]
    assert said(Speller(["mp3", "u.s.", "the"]), "The U.S. MP3!") == ["the u.s. mp3"]


def test_another_case_comes_before_other_accents():
    """Also where the word with an accent is the more frequent one, and where nobody knows which is."""
    for speller in (Speller(["où", "ou", "merçi", "merci", "été"], "fr"), Speller(["OÙ", "OU", "MERCI", "ÉTÉ"], "fr")):
        said = [word.lower() for word in next(speller.line("Ou Merci Ete !"))]
        assert said == ["ou", "merci", "été"]


def test_letter_case_follows_the_vocabulary():
    assert said(Speller(["PUT", "IT"]), "Put it there") == ["PUT IT THERE"]
    assert said(Speller(["put", "it"]), "Put it There") == ["put it there"]
    assert said(Speller(["put", "It", "Haus", "UNO"]), "Put it There haus") == ["put It There Haus"]


@pytest.mark.parametrize(
    ("words", "language", "written", "spoken"),
    [
        (FRENCH, "fr", "Il fait 31, là.", ["il fait trente et un là"]),
        (FRENCH, "fr", "L’oeuvre ELEVE 3,5 50% 10h", ["l' œuvre élève trois virgule cinq 50% 10h"]),
        (FRENCH, "fr", "Bonjour. M. Dupont est là.", ["bonjour", "m dupont est là"]),
        (RUSSIAN, "ru", "Еще 31 раз, мой Йод", ["ещё тридцать один раз мой йод"]),
        (CHINESE, None, "今天天气很好！我们去北京大学。", ["今天 天气 很 好", "我们 去 北京大学"]),
        (CHINESE, None, "去31好iPhone。", ["去 31 好 iPhone"]),
    ],
)
def test_other_languages(words, language, written, spoken):
    speller = Speller(words)
    assert speller.language == language
    assert said(speller, written) == spoken


def test_a_language_is_told_by_probabilities_or_by_whom_it_is_asked_of():
    both = dict.fromkeys(ENGLISH, 0.001) | dict.fromkeys(FRENCH, 0.1)
    assert language_of(both, lambda word: word) == "fr"
    assert language_of({word: 1 / value for word, value in both.items()}, lambda word: word) == "en"
    assert language_of(dict.fromkeys(CHINESE + list("二三四五六七八九十百"), 0.1), lambda word: word) is None
    assert said(Speller(["a", "b"]), "a 31 b 7th") == ["a 31 b 7th"]
    assert said(Speller(["a", "b"], "en"), "a 31 b") == ["a thirty one b"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("31", "trente et un"),
        ("1.000", "mille"),
        ("12.345", "douze mille trois cent quarante cinq"),
        ("0800", "zéro huit zéro zéro"),
        ("1.2.3", "un deux trois"),
        ("2,5", "deux virgule cinq"),
        ("9" * 20, None),
    ],
)
def test_numbers(number, words):
    assert " ".join(in_words(number, "fr")) == (words or " ".join(["neuf"] * 20))


words_of = st.sampled_from(
    [*ENGLISH, "xyz", "Ironstein", "31", "$5", "http://a.b/c", "[unk]", "<s>", "aaaa", "É", "ﬁ", "й"]
)
shapes = st.sampled_from(
    ["{}", "{}.", "“{}”", "({})", "{}-{}", "{}’s", "{}, ", "{}! {}", "'{}'", "{}—{}", "{}/{}", "{}...", "{}\u00a0{}"]
)
cases = st.sampled_from([str, str.upper, str.capitalize])


@st.composite
def prose(draw) -> str:
    pieces = [
        draw(cases)(draw(shapes).replace("{}", draw(words_of), 1).replace("{}", draw(words_of)))
        for _ in range(draw(st.integers(1, 8)))
    ]
    return " ".join([*pieces, draw(st.text(max_size=5))])


SPELLERS = [Speller(words) for words in (ENGLISH, FRENCH, CHINESE, [word.upper() for word in ENGLISH])]
UNREAD = Speller(ENGLISH, "zh")  # a language that no numbers are known of


@settings(max_examples=300, deadline=None)
@given(prose() | st.text(max_size=40), st.sampled_from([*SPELLERS, UNREAD]))
def test_spoken_text_stays_as_it_is_and_nothing_known_is_left_unknown(text, speller):
    once = said(speller, text)
    assert [line for sentence in once for line in said(speller, sentence)] == once
    for token in " ".join(once).split():
        if token not in speller.known:
            assert folded(token) not in speller.by_fold


@settings(max_examples=200, deadline=None)
@given(
    st.lists(words_of.filter(str.isalpha).flatmap(lambda w: cases.map(lambda case: case(w))), min_size=1),
    st.sampled_from([" ", ". ", ", ", "! ", " — ", "-", "/"]),
)
def test_no_letter_is_lost(words, between):
    def letters(text: str) -> str:
        return "".join(c for c in folded(unicodedata.normalize("NFKC", text)) if c.isalpha())

    assert letters(" ".join(said(UNREAD, between.join(words)))) == letters(" ".join(words))


def test_segmentation_is_the_likeliest_path():
    """Against all ways to cut a text."""
    chance = np.random.default_rng(1)
    words = ["a", "b", "c", "ab", "bc", "abc", "ca", "bca"]
    for _ in range(30):
        p = chance.dirichlet(np.ones(len(words)))
        p[chance.integers(3, len(words))] = 0.0  # is no word of the model
        logs = dict(zip(words, np.log(np.maximum(p, 1e-300)), strict=True))

        def ways(text: str, known: dict[str, float] = logs):
            if not text:
                yield []
            for size in range(1, len(text) + 1):
                if text[:size] in known:
                    yield from ([text[:size], *rest] for rest in ways(text[size:]))

        text = "".join(chance.choice(list("abc"), chance.integers(1, 8)))
        found = Segmenter(vocabulary(words), p)(text)
        assert "".join(found) == text
        best = max(sum(logs[word] for word in way) for way in ways(text))
        assert sum(logs[word] for word in found) == pytest.approx(best)
    assert Segmenter(vocabulary(["a", "b"]), np.full(2, 0.5))("axyb") == ["a", "xy", "b"]


def test_prose_with_broken_lines_is_joined_and_other_lines_are_not(english):
    prose = (
        "It is known that the meet-\ning began at ten, and\nthat he paid. The flow\nis on. More\nis to see.\n\nPut it\n"
    )
    assert unwrapped(prose.split("\n")) == [
        "It is known that the meet-ing began at ten, and that he paid. The flow is on. More is to see.",
        "Put it",
        "",
    ]
    made = spoken_text(Sentences(prose.encode()), english)
    assert isinstance(made.text, Sentences)
    assert made.text.data.decode().split("\n")[:3] == [
        "it is known that the meeting began at ten and that he paid",
        "the flow is on",
        "more is to see",
    ]
    for lines in (
        "Put it on\nthe flow is known\nSee more",
        "put the flow on\nis it on\n" * 5,
        "It is on.\nPut it on.\nSee?",
    ):
        assert unwrapped(lines.split("\n")) == lines.split("\n")


PROSE = "Put the café on. It's 31°.\r\nPUT it on!\r\n"
SPOKEN = "put the café on\nit's thirty one degrees\nput it on\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "gzip"])
def test_files_of_each_kind(english, tmp_path, encoding):
    path = tmp_path / "text.gz" if encoding == "gzip" else tmp_path / "text"
    path.write_bytes(gzip.compress(PROSE.encode()) if encoding == "gzip" else PROSE.encode(encoding))
    made = spoken_text(str(path), english)
    assert isinstance(made.text, Sentences)
    assert made.text.data.decode() == SPOKEN
    assert str(made.text) == str(path)
    report = made.report()
    assert ("not UTF-8" in report[0]) == (encoding == "cp1252")
    assert "'31°.' -> 'thirty one degrees'" in report[0]


def test_what_is_fine_is_the_file_itself(english, tmp_path):
    path = tmp_path / "text"
    path.write_text("put the flow on\nit's xyz ironstein\n\ncafé\n")
    assert spoken_text(str(path), english).text == str(path)
    assert not spoken_text(str(path), english).report()
    segmented = tmp_path / "zh"
    segmented.write_text("今天 天气 很 好\n我们 去 天津\n")
    assert spoken_text(str(segmented), Speller(CHINESE)).text == str(segmented)


def test_text_without_blanks_is_cut_whatever_signs_it_has():
    made = spoken_text(Sentences("“今天天气很好”！\n我们去北京大学。\n".encode()), Speller(CHINESE))
    assert isinstance(made.text, Sentences)
    assert made.text.data.decode() == "今天 天气 很 好\n我们 去 北京大学\n"
    assert spoken_text(made.text, Speller(CHINESE)).text is made.text


def test_words_between_blanks_may_be_new():
    text = Sentences("今天，我们 去 吴桐馆。\n天气 很 好！\n".encode())
    assert spoken_text(text, Speller(CHINESE)).text.data.decode() == "今天 我们 去 吴桐馆\n天气 很 好\n"
    # Korean, and prose of which few tokens are words: between blanks there are several words
    prose = Sentences("今天天气 很好 我们去 北京\n".encode())
    assert spoken_text(prose, Speller(CHINESE)).text.data.decode() == "今天 天气 很 好 我们 去 北京\n"


def test_new_words_are_found_in_text_without_blanks():
    new = "北京很好"  # of letters that are words by themselves
    text = Sentences(f"我们去{new}。\n".encode())
    assert new not in spoken_text(text, Speller(CHINESE)).text.data.decode().split()
    assert spoken_text(text, Speller(CHINESE, new=[new, "天气"])).text.data.decode() == f"我们 去 {new}\n"


def test_bytes_of_another_encoding_are_refused(english, tmp_path):
    path = tmp_path / "text"
    path.write_bytes("Ещё раз, put it on".encode("cp1251"))
    with pytest.raises(MdiError, match="neither UTF-8 nor"):
        spoken_text(str(path), english)
    latin = Speller(["caf\udce9", "put"])  # a vocabulary in Latin-1
    path.write_bytes(b"put caf\xe9\n")
    assert spoken_text(str(path), latin).text == str(path)


def test_tokens_that_cannot_be_said_are_named(tmp_path):
    path = tmp_path / "text"
    path.write_text("A, 31° b. http://x.org/8 a\n")
    made = spoken_text(str(path), Speller(["a", "b"]))
    assert isinstance(made.text, Sentences)
    assert made.text.data == b"a 31\xc2\xb0 b http://x.org/8 a\n"
    assert not any(sayable(word) for word in ("31°", "http://x.org/8"))
    assert "'31°' 1, 'http://x.org/8' 1" in made.report()[1]
    for text, hint in (("A, http://x.org/8 b. x2", False), ("A, $5,000 b.", True), ("A, 12th b.", True)):
        path.write_text(f"{text}\n")
        assert ("--language" in spoken_text(str(path), Speller(["a", "b"])).report()[1]) is hint, text
        assert "--language" not in spoken_text(str(path), Speller(["a", "b"], "fr")).report()[1]


def test_a_file_named_as_standard_input_is_not_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("junk\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"A, b.\n")))
    assert spoken_text("-", Speller(["a", "b"])).text.data == b"a b\n"


def test_codes_of_languages():
    for code in ("en", "EN", "en-us", "en_GB"):
        assert list(Speller(["a", "thirty"], code).line("A 30.")) == [["a", "thirty"]]
    assert list(Speller(["北京", "天气"], "zh-CN").line("北京天气。")) == [["北京", "天气"]]
    brazil = ["a", "dezesseis", "dezasseis"]
    assert [list(Speller(brazil, code).line("a 16")) for code in ("pt-br", "pt_PT")] == [
        [["a", "dezesseis"]],
        [["a", "dezasseis"]],
    ]
    assert list(Speller(["a", "septante", "soixante", "dix"], "fr_CH").line("a 70")) == [["a", "septante"]]
    for code in ("english", "-", "pt_", "_BR", "é"):
        with pytest.raises(OptionError, match=f"language='{code}'; expected a code such as en, hi or pt-BR"):
            Speller(["a"], code)


def test_languages_without_numbers(caplog):
    known = ["a", *(word for code in ("en", "fi") for word in in_words("16", code))]
    for code in ("hi", "br", "zh-Hans-CN", "eng", "fil"):  # the last two begin as codes that num2words knows
        assert list(Speller(known, code).line("A 16.")) == [["a", "16"]]
        assert f"--language {code}: numbers are not read out" in caplog.messages[-1]
    Speller(["a"], "fr_CH")
    assert len(caplog.messages) == 5


def test_verbs_take_prose(tmp_path, capsys):
    """And text that is fine gives the same model, byte for byte."""
    background, dev = tmp_path / "bg.arpa", tmp_path / "dev"
    mdi.save(mdi.train(["put the flow on", "the flow is on", "is it on", "put it on"] * 3, order=2), background)
    prose, fine = tmp_path / "prose", tmp_path / "fine"
    prose.write_text("Put the FLOW on. It is on!\nIs it on?\n")
    fine.write_text("put the flow on\nit is on\nis it on\n")
    dev.write_text("Is the flow on?\n")
    made = {}
    for text in (prose, fine):
        for how in ("auto", "none"):
            out = tmp_path / f"{text.name}.{how}"
            assert main(["adapt", "--normalise", how, str(background), str(text), str(out)]) == (
                text == prose and how == "none"
            )
            made[out.name] = out.read_bytes() if out.exists() else b""
    assert made["prose.auto"] == made["fine.auto"] == made["fine.none"]
    assert "were changed" in capsys.readouterr().err
    tuned = ["tune", "--normalise", "auto", "--max-settings", "2", str(background), str(prose), str(dev)]
    assert main([*tuned, str(tmp_path / "tuned")]) == 0
    assert f"{dev}: 2 of 4 words" in capsys.readouterr().err


def test_from_python():
    model = mdi.train(["put the flow on", "the flow is on"] * 3, order=2)
    assert mdi.as_spoken(["Put the FLOW on. Is the flow on?"], model) == ["put the flow on", "is the flow on"]
    assert mdi.as_spoken(["31!"], ["a"], language="en") == ["thirty one"]
