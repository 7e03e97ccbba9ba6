"""Tables of arguments: what argparse is told of each kind of line."""

import pytest

from mdi.arguments import Parser, declare

TABLE = """
lm LM  a model
texts TEXT*  any number
--oov map|drop = map  unknown words
--debug 0|1 = 0  how much
--nj N = 1  jobs (1) at a time
--scale W = 0.5  a number
--json true|false = false
--ppl TEXT*  may be
  repeated
--words words.txt!  a table
[at most one of]
--a N  one
--b N  the other
[]
"""


@pytest.fixture
def parser() -> Parser:
    declare(parser := Parser(prog="p"), TABLE)
    return parser


def test_values_have_their_types_and_defaults(parser):
    found = vars(
        parser.parse_args(["--words", "w", "--ppl", "x", "--ppl", "y", "--json", "TRUE", "--debug", "1", "m", "t", "u"])
    )
    assert found == {
        "lm": "m",
        "texts": ["t", "u"],
        "oov": "map",
        "debug": 1,
        "nj": 1,
        "scale": 0.5,
        "json": True,
        "ppl": ["x", "y"],
        "words": "w",
        "a": None,
        "b": None,
    }
    assert parser.parse_args(["--words", "w", "m"]).ppl == []


def test_the_help_says_what_is_chosen_unless_told(parser):
    text = " ".join(parser.format_help().split())
    for line in ("unknown words (map)", "a number (0.5)", "(false)", "jobs (1) at a time --scale", "may be repeated"):
        assert line in text


@pytest.mark.parametrize("wrong", ["m", "--words w", "--words w --oov x m", "--words w --a 1 --b 2 m", "--nj a m"])
def test_what_is_wrong_is_a_usage_error(parser, wrong):
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(wrong.split())
    assert ended.value.code == 2
