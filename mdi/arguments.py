"""The arguments of a verb as a table, which is read as its help is:

    lm LM                         an argument: its name in the program, and in the help
    texts TEXT+                   one or more of them; *: any number, ?: one or none
    --oov map|drop|error = map    an option with choices, and what it is unless it is given, which the help says
    --nj N = 1                    a number: of what kind, its name says
    --ppl TEXT*                   may be repeated, and is a list
    --words words.txt!            must be given

The help follows after two blanks, and goes on in lines that begin with a blank. [title] begins a group of options,
[one of] and [at most one of] those that exclude each other, [] ends them.
"""

import argparse
import difflib
import re
from typing import Any, NoReturn

_NUMBERS = {"N": int, **dict.fromkeys(("A", "B", "L", "L1", "P", "S", "SHARE", "THRESHOLD", "W"), float)}
_LINE = re.compile(r"(\S+)(?: (\S+?)([+*?!]?))?(?: = (\S+))?(?:  +(.*))?")
_CHOICES = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)+")


class Parser(argparse.ArgumentParser):
    """argparse, which asks "did you mean" where a verb or an option is misspelt."""

    def error(self, message: str) -> NoReturn:
        if value := re.findall(r"invalid choice: '([^']+)'", message):
            misspelt, known = value, [str(choice) for action in self._actions for choice in action.choices or ()]
        else:
            misspelt, known = re.findall(r"--[\w-]+", message), list(self._option_string_actions)
        misspelt = [word for word in misspelt if word not in known]
        if meant := [close for word in misspelt for close in difflib.get_close_matches(word, known, 1)]:
            message = f"{message.split(' (choose from', 1)[0]}; did you mean {' '.join(meant)}?"
        super().error(message)


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}'; expected true or false")
    return text.lower() == "true"


def declare(parser: argparse.ArgumentParser, table: str) -> None:
    """Gives a parser the arguments of a table."""
    add = parser.add_argument
    for line in filter(None, re.sub(r"\n +", " ", table).splitlines()):
        if line == "[]":
            add = parser.add_argument
        elif line in ("[one of]", "[at most one of]"):
            add = parser.add_mutually_exclusive_group(required=line == "[one of]").add_argument
        elif line.startswith("["):
            add = parser.add_argument_group(line[1:-1]).add_argument
        else:
            name, given = _argument(line)
            add(name, **given)


def _argument(line: str) -> tuple[str, dict[str, Any]]:
    """What argparse is told of a line: the name, and the rest."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(line)
    name, metavar, how, default, text = found.groups()
    given: dict[str, Any] = {"metavar": metavar, "type": _NUMBERS.get(metavar)}
    if metavar == "true|false":
        given["type"] = boolean
    elif _CHOICES.fullmatch(metavar):
        given["type"] = int if metavar.replace("|", "").isdecimal() else None
        given |= {"metavar": None, "choices": [(given["type"] or str)(choice) for choice in metavar.split("|")]}
    if default is not None:
        given["default"] = (given["type"] or str)(default)
        text = text if text and f"({default})" in text else f"{text or ''} ({default})".strip()
    given["help"] = text
    if not name.startswith("-"):
        given |= {"nargs": how} if how else {}
    elif how == "*":
        given |= {"action": "append", "default": []}
    elif how == "!":
        given["required"] = True
    return name, given
