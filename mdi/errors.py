"""The one exception that a user is meant to see."""

from __future__ import annotations

import sys
from collections.abc import Callable


class MdiError(Exception):
    """Something is wrong with the user's data: where, what was found, what was expected, what to do."""


def examples(items: list[str], most: int = 5) -> str:
    """``'a', 'b', 'c'`` and how many more: a message names a few and counts the rest."""
    shown = ", ".join(f"'{item}'" for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


def exit_code(script: str, work: Callable[[], None]) -> int:
    """Of a script that does this work: 1 if something is wrong with the user's data, which is said in a line."""
    try:
        work()
    except MdiError as error:
        print(f"{script}: {error}", file=sys.stderr)
        return 1
    return 0
