"""The one exception that a user is meant to see."""


class MdiError(Exception):
    """Something is wrong with the user's data: where, what was found, what was expected, what to do."""


def examples(items: list[str], most: int = 5) -> str:
    """``'a', 'b', 'c'`` and how many more: a message names a few and counts the rest."""
    shown = ", ".join(f"'{item}'" for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"
