"""What a user is meant to see when something is wrong, and the checks that several modules share."""

import math
import sys
from collections.abc import Callable
from numbers import Integral
from typing import Any


class MdiError(Exception):
    """Something is wrong with the user's data: where, what was found, what was expected, what to do."""


class OtherKindError(MdiError):
    """Data that are in order, but of a kind that something cannot be done with: who can do without it goes on."""


class UsageError(MdiError):
    """The command is wrong, whatever the data: exit code 2, as of an option that does not exist."""


class OptionError(UsageError):
    """An argument that makes no sense. The command line shows it under its option's name, Python as a parameter."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"{name}={value!r:.200}; expected {expected}")  # a whole dictionary helps nobody
        self.name, self.value, self.expected = name, value, expected


class ConvergenceWarning(UserWarning):
    """A solver ended before the marginals met their targets. The model is valid, but some marginals are off."""


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise OptionError(name, value, f"{', '.join(choices[:-1])} or {choices[-1]}")


def check_positive(name: str, value: Any, kind: str = "a positive number", *, zero: bool = False) -> None:
    """Refuses what is no positive, finite number; `zero`: nor 0."""
    try:
        good = math.isfinite(value) and (value > 0 or (zero and value == 0))
    except TypeError:
        good = False
    if not good:
        raise OptionError(name, value, kind)


def check_whole(name: str, value: Any, least: int, most: float = math.inf, why: str = "") -> None:
    """Refuses what is no whole number from `least` to `most`."""
    if not isinstance(value, Integral) or not least <= int(value) <= most:
        expected = f"{least}{why} to {most}" if most < math.inf else f"a whole number, {least} or more"
        raise OptionError(name, value, expected)


def examples(items: list[str], most: int = 5) -> str:
    """``'a', 'b', 'c'`` and how many more: a message names a few and counts the rest."""
    shown = ", ".join(f"'{item}'" for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


def exit_code(script: str, work: Callable[[], None]) -> int:
    """Of a script that does this work: 1 if something is wrong with the user's data, which is said in a line."""
    from mdi.progress import messages_shown  # which needs what is above

    try:
        with messages_shown():
            work()
    except MdiError as error:
        print(f"{script}: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # of the machine: a full disk, no more open files
        print(f"{script}: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
