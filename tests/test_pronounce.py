"""How new words are said, each in its way."""

import random
import unicodedata

import pytest
from spelling import lexicon, say, words

from mdi.speech.affixes import Affixes
from mdi.speech.g2p import LONGEST_WORD, train_g2p
from mdi.speech.given import Given
from mdi.speech.homophones import homophones
from mdi.speech.lexicon import Lexicon
from mdi.speech.pronounce import UNCERTAIN, Pronounced, Speaker

LEXICON = lexicon()


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker(LEXICON, train_g2p(LEXICON), {})


def one(speaker: Speaker, word: str) -> Pronounced:
    (found,) = speaker.say([word])
    assert found.word == word
    return found


def test_what_is_given_comes_first(speaker: Speaker) -> None:
    given = {"cabo": [Given(("B",), "be"), Given(("B", "AA"))], "ta": [Given(("T",))], "no": []}
    first, second, third = speaker.told(given, None).say(["cabo", "ta", "no"])
    assert first.pronunciations == (("B",), ("B", "AA"))
    assert first.how == "sounds like: be"
    assert (second.pronunciations, second.how, second.certainty) == ((("T",),), "given", 1.0)
    assert (third.pronunciations, third.how) == ((), "left out: no pronunciation is given")


def test_possessives_come_from_their_words(speaker: Speaker) -> None:
    """Z after a vowel, S elsewhere: read off the lexicon's own."""
    stems = [word for word in words(1500) if f"{word}'s" not in LEXICON and word[-1] in "aiount"][:50]
    for stem, found in zip(stems, speaker.say([f"{stem}'s" for stem in stems]), strict=True):
        assert found.pronunciations == (say(f"{stem}'s"),)
        assert found.how == f"parts: {stem} 's"
        assert found.certainty > 0.8


def test_a_spelling_that_can_be_read_in_many_ways_gets_many() -> None:
    """As many guesses as hold four fifths of the probability, six at most; forms of the word keep all of them."""
    chance = random.Random(2)
    ways = {letter: [letter.upper() + str(i) for i in range(n)] for letter, n in zip("abei", (1, 2, 4, 7), strict=True)}
    read = {"".join(chance.choices("abei", k=4)): [] for _ in range(200)}
    read = {word: [tuple(chance.choice(ways[letter]) for letter in word)] for word in read}
    forms = {f"{word}'s": [(*said[0], "Z")] for word, said in list(read.items())[:50]}
    speaker, counts = Speaker(read | forms, train_g2p(read | forms), {}), set()
    for word in ("aaaaa", "abaaa", "aaeaa", "aaiaa", "eeaaa", "iiiii"):
        guesses, found = speaker.g2p.pronounce([word], 6)[0], one(speaker, word)
        n = next((n for n in range(1, 7) if sum(p for _, p in guesses[:n]) >= 0.8), 6)
        assert found.pronunciations == tuple(said for said, _ in guesses[:n])
        counts.add(len(found.pronunciations))
    assert 1 in counts
    assert 6 in counts
    known = {**read, **forms, "iiiii": list(found.pronunciations)}
    assert len(one(Speaker(known, speaker.g2p, {}), "iiiii's").pronunciations) == 6


def test_rules_hold_in_most_words_or_are_none() -> None:
    stems = {f"stem{i}": [(f"A{i % 2}",)] for i in range(20)}
    said = {**stems, **{f"{stem}ly": [(*ways[0], "L")] for stem, ways in stems.items()}}
    odd = {**stems, **{f"{stem}ow": [(f"X{i}",)] for i, stem in enumerate(stems)}}
    found = Affixes(Lexicon(said | {"news": [("N", "A1")]})).say("newsly")
    assert [(item.parts, item.phones) for item in found] == [(("news", "ly"), ("N", "A1", "L"))]
    assert found[0].certainty == pytest.approx(10 / 11)
    assert Affixes(Lexicon(odd | {"news": [("N", "A1")]})).say("newsow") == []
    elided = {f"l'{stem}": [("L", *ways[0])] for stem, ways in stems.items()}
    assert Affixes(Lexicon({**stems, **elided, "ami": [("A0", "M")]})).say("l'ami")[0].phones == ("L", "A0", "M")


def test_contractions_begin_as_their_words() -> None:
    """Few words have such endings: they are said as after the same phone, then as after others."""
    vowels = {"i": ("AY",), "we": ("W", "IY"), "you": ("Y", "UW")}
    known = {**vowels, "it": ("IH", "T"), "it'll": ("IH", "T", "AH", "L"), "of": ("AH", "V")}
    known |= {f"{word}'{end}": (*said, end[-1].upper()) for word, said in vowels.items() for end in ("ll", "v")}
    known |= {f"{word}'ve": (*said, "V") for word, said in vowels.items()}
    known |= {
        "that": ("DH", "AE", "T"),
        "this": ("DH", "IH", "S"),
        "would": ("W", "UH", "D"),
        "i'em": ("AY", "EH", "M"),
    }
    affixes = Affixes(Lexicon({word: [said] for word, said in known.items()}))

    def said(word: str) -> list[str]:
        return [" ".join(one.phones) for one in affixes.say(word)]

    assert said("that'll") == ["DH AE T AH L", "DH AE T L"]
    assert said("this'll") == ["DH IH S L", "DH IH S AH L"]
    assert said("would've") == ["W UH D V", "W UH D AH V"]
    assert said("would'v") == ["W UH D V"]
    assert said("would'em") == said("xyz've") == []


def test_words_with_dashes_come_from_their_parts(speaker: Speaker) -> None:
    a, b = words(2)
    found = one(speaker, f"{a}-{b}")
    assert (found.pronunciations, found.how) == ((say(a) + say(b),), f"parts: {a} {b}")
    assert one(speaker, f"{a}_{b}").pronunciations == found.pronunciations
    new = next(word for word in words(1200, seed=2) if word not in LEXICON and len(word) > 5)
    assert one(speaker, f"{a}-{new}").pronunciations[0][: len(say(a))] == say(a)
    assert one(speaker, f"{a}-шш").how == "cannot be said: no known word has the letters 'ш'"


def test_two_words_in_one(speaker: Speaker) -> None:
    a, b = (next(word for word in words(500) if len(word) > 5 and word[-1] in ends) for ends in ("ao", "iu"))
    found = one(speaker, a + b)
    assert (found.pronunciations, found.how) == ((say(a) + say(b),), f"parts: {a} {b}")


def test_two_words_in_one_with_a_mark_of_stress(speaker: Speaker) -> None:
    a, b = (next(word for word in words(500) if len(word) > 5 and word[-1] in ends) for ends in ("ao", "iu"))
    found = one(speaker, f"{a}\u0332{b}")
    assert (found.pronunciations, found.how) == ((say(a) + say(b),), f"parts: {a} {b}")


def test_what_takes_too_many_phones_is_left_out(speaker: Speaker) -> None:
    long = Speaker(LEXICON | {"abba": [tuple("DAB" * 30)]}, speaker.g2p, {})
    found = one(long, "abba-abba-abba")
    assert (found.pronunciations, found.how) == ((), "cannot be said: over 200 phones; words have fewer")


def test_letters_one_by_one(speaker: Speaker) -> None:
    spelt = tuple(phone for letter in "bdt" for phone in LEXICON[f"{letter}."][0])
    for word in ("B.D.T", "b.d.t.", "BDT", "bdt"):
        found = one(speaker, word)
        assert (found.pronunciations, found.how) == ((spelt,), f"letters: {' '.join(x for x in word if x != '.')}")
    assert one(speaker, "BATA").how != "letters: B A T A"  # reads as a word
    assert one(speaker, "BANUTAKO").pronunciations[0] == say("banutako")


def test_numbers_are_read_out_or_refused(speaker: Speaker) -> None:
    for word in ("7th", "4x4", "31"):
        assert one(speaker, word) == Pronounced(
            word, (), "cannot be said: a number, which is not read out; write it in words", 0.0
        )


@pytest.mark.parametrize(
    ("language", "numbers"), [("en", {"31": "thirty one", "7th": "seventh"}), ("fr", {"7": "sept"})]
)
def test_numbers_are_read_in_the_language_of_the_lexicon(speaker: Speaker, language: str, numbers: dict) -> None:
    numerals = pytest.importorskip("mdi.spoken.numbers")
    if not numerals.available():
        pytest.skip("no num2words")
    own = {word for n in range(100) for word in numerals.in_words(str(n), language)} | {"seventh"}
    reading = Speaker(Lexicon({**LEXICON, **{word: [(f"P{word}",)] for word in own}}), speaker.g2p, {})
    for number, said in numbers.items():
        found = one(reading, number)
        assert found.how == f"number: {said}"
        assert found.pronunciations == (tuple(f"P{word}" for word in said.split()),)


def test_signs_are_said_in_english_and_uncertain_elsewhere(speaker: Speaker) -> None:
    numerals = pytest.importorskip("mdi.spoken.numbers")
    if not numerals.available():
        pytest.skip("no num2words")
    a, b = words(2)
    own = {word for n in range(100) for word in numerals.in_words(str(n), "en")} | {"and", "plus", "at"}
    english = Speaker(Lexicon({**LEXICON, **{word: [(f"P{word}",)] for word in own}}), speaker.g2p, {})
    for word, said in ((f"{a}&{b}", [a, "and", b]), (f"{a}++", [a, "plus", "plus"]), (f"{a}@{b}", [a, "at", b])):
        found = one(english, word)
        assert found.how == f"parts: {' '.join(said)}"
        assert found.pronunciations[0] == sum((english.lexicon[part][0] for part in said), ())
        assert found.certainty >= UNCERTAIN
        assert one(speaker, word).certainty < UNCERTAIN
    assert one(english, "BT&T").how == "parts: B. T. and T."
    assert one(english, "BT&T’s").how == "parts: B. T. and T's"
    name = english.lexicon["a."][0]
    assert (
        one(Speaker(english.lexicon | {"a": [("AH",), name]}, speaker.g2p, {}), "B&A").pronunciations[0][-len(name) :]
        == name
    )
    for word, said in ((f"{a}++11", f"{a} plus plus eleven"), ("3+4", "three plus four")):
        assert one(english, word).how == f"number: {said}"
        assert one(english, word).certainty >= UNCERTAIN
    assert one(english, f"{a}#11").certainty < UNCERTAIN
    for word in (f"{a}#", f"{a}*{b}"):  # nobody knows how
        assert one(english, word).certainty < UNCERTAIN
    for word in (f"{a}-{b}", f"“{a}-{b}”", f"{a}-{b},"):
        assert one(speaker, word).certainty >= UNCERTAIN


def test_marks_are_letters() -> None:
    """Vowels of many scripts, as in \u092e\u0940\u0928\u093e; others may have accents that nobody says."""
    consonants, vowels = dict(zip("कमनतर", "KMNTR", strict=True)), dict(zip("ािुे", "AIUE", strict=True))
    syllables = {c + v: (said, vowel) for c, said in consonants.items() for v, vowel in vowels.items()}
    known = {a + b: [syllables[a] + syllables[b]] for a in syllables for b in syllables if a + b != "मिनु"}
    known["मिनू"] = [("M", "I", "N", "U")]
    found = one(Speaker(known, None, {}), "मिनु")
    assert found.sounds_like == ("मिनू",)
    assert found.pronunciations[0] == ("M", "I", "N", "U")
    assert found.certainty >= UNCERTAIN
    decomposed = unicodedata.normalize("NFD", "ćabo")
    assert (
        one(Speaker(LEXICON, None, {}), decomposed).pronunciations
        == one(Speaker(LEXICON, None, {}), "ćabo").pronunciations
    )


def test_nothing_is_learnt_where_every_word_is_given() -> None:
    odd = Lexicon({"a": [("x", "y", "z")]})  # no spelling can be learnt from it
    assert one(Speaker(odd, None, {"b": [Given(("x",))]}), "b").pronunciations == (("x",),)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("a" * 300, f"300 letters; words have at most {LONGEST_WORD}"),
        ("...", "no letters in it"),
        ("$", "no letters in it"),
        ("привет", "no known word has the letters 'в', 'е', 'и', 'п', 'р' and 1 more"),
        ("-", "no letters in it"),
        ("<noise>", "'<' begins no word"),
    ],
)
def test_what_cannot_be_said(speaker: Speaker, word: str, why: str) -> None:
    found = one(speaker, word)
    assert found.pronunciations == ()
    assert found.how == f"cannot be said: {why}"


def test_known_words_in_another_case(speaker: Speaker) -> None:
    word = words(1)[0]
    found = one(speaker, word.upper())
    assert (found.pronunciations, found.how, found.certainty) == ((say(word),), f"known: {word}", 1.0)


def test_guesses_have_sounds_that_people_know(speaker: Speaker) -> None:
    new = [word for word in words(1200, seed=2) if word not in LEXICON][:50]
    for found in speaker.say(new):
        assert found.how == "g2p" or found.how.startswith(("parts", "letters"))
        assert 0.0 < found.certainty <= 1.0
        for phones, like in zip(found.pronunciations, found.sounds_like, strict=True):
            assert [like] == homophones([phones], LEXICON)
            if like:
                assert any(
                    phones == tuple(x for said in way for x in said)
                    for way in _ways([LEXICON[word] for word in like.split()])
                )


def _ways(parts: list[list[tuple[str, ...]]]) -> list[list[tuple[str, ...]]]:
    return [[]] if not parts else [[said, *rest] for said in parts[0] for rest in _ways(parts[1:])]


HEARD = Lexicon(
    {
        "night": [("N", "AY", "T")],
        "knight": [("N", "AY", "T")],
        "nite": [("N", "AY", "T"), ("N", "IH", "T")],
        "mare": [("M", "EH", "R")],
        "nigh": [("N", "AY")],
        "tim": [("T", "M")],
        "air": [("EH", "R")],
        "nightm": [("N", "AY", "T", "M")],
    }
)


def test_the_fewest_words_that_sound_alike() -> None:
    wanted = [("N", "AY", "T"), ("N", "AY", "T", "M", "EH", "R"), ("N", "AY", "Q")]
    assert homophones(wanted, HEARD) == ["night", "night mare", ""]


def test_frequent_words_that_sound_alike() -> None:
    often = {"night": 1e-4, "knight": 1e-3, "mare": 1e-6, "nigh": 1e-4, "tim": 1e-3, "air": 1e-3, "nightm": 1e-10}
    assert homophones([("N", "AY", "T", "M", "EH", "R")], HEARD, often)[0] == "knight mare"
    assert homophones([("N", "AY", "T", "M", "EH", "R")], HEARD, {**often, "mare": 1e-12})[0] == "nigh tim air"
    # one whole word rather than two, unless it is much rarer; and one that is said in no other way
    assert homophones([("N", "AY", "T", "M")], HEARD, often)[0] == "nigh tim"
    assert homophones([("N", "AY", "T", "M")], HEARD, {**often, "nightm": 1e-7})[0] == "nightm"
    assert homophones([("N", "AY", "T")], HEARD, {**often, "nite": 1.5e-3})[0] == "knight"
    assert homophones([("N", "AY", "T")], HEARD, {**often, "nite": 2.5e-3})[0] == "nite"
