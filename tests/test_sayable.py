"""Which tokens can become new words of a recogniser."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdi.spoken import sayable

WORDS = [
    "ironstein",
    "Ironstein",
    "NASA",
    "o'brien's",
    "'em",
    "dogs'",
    "rock'n'roll",
    "l'eau",
    "l’eau",
    "aujourd'hui",
    "saint-marin",
    "thonon-les-bains",
    "Жюль-Верн",
    "ещё",
    "北京",
    "कुत्ता",
    "หนึ่ง",
    "三",
    "コーヒー",
    "食べ物",
    "서울",
    "हिन्दी",
    "naïve",
    "cafe\u0301",
    "col·lecció",
    "i",
    "A",
    "schifffahrt",
    "hmmm",
    "brrr",
    "œuvre",
    "straße",
    "xx",
]
NO_WORDS = [
    "31",
    "31°",
    "7th",
    "mp3",
    "http://example.org/a",
    "www.x.org",
    "me@x.org",
    "a_b",
    "[unk]",
    "<unk>",
    "<s>",
    "#0",
    "'",
    "-",
    "--",
    "...",
    "😀",
    "♪",
    "aaaaaa",
    "hmmmm",
    "AAAA",
    "A&B",
    "x=1",
    "C++",
    "1,000",
    "$5",
    "50%",
    "10:30",
    "рaris",
    "-well",
    "well-",
    "a--b",
    "a''b",
    "\u00ad",
    "\ufeff",
    "\udc80",
    "①",
    "²",
    "½",
    "",
    " ",
    "two words",
    "a\nb",
    "ab" * 26,
]


@pytest.mark.parametrize("word", WORDS)
def test_words(word):
    assert sayable(word)


@pytest.mark.parametrize("token", NO_WORDS)
def test_what_is_no_word(token):
    assert not sayable(token)


@given(st.text(max_size=60))
def test_any_string_has_an_answer_and_words_have_letters(token):
    if sayable(token):
        assert any(c.isalpha() for c in token)
        assert not any(c.isdigit() or c.isspace() for c in token)
        assert sayable(unicodedata.normalize("NFD", token))
