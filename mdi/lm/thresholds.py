"""Least counts by order, such as 5-3-2: 5 for words, 3 for bigrams, 2 for everything longer."""

import math
import re
from collections.abc import Sequence

from mdi.errors import OptionError

Thresholds = str | float | Sequence[float]
_EXPECTED = "positive numbers, one per order, the last one repeating, such as 5-3-2"


def parse_thresholds(min_counts: Thresholds, order: int) -> list[int | float]:
    """One threshold per order from '5-3-2', (5, 3, 2) or 5; the last one repeats."""
    try:
        if isinstance(min_counts, str):
            values = numbers_by_order(min_counts)
        else:
            values = [float(part) for part in (min_counts if isinstance(min_counts, Sequence) else [min_counts])]
    except (TypeError, ValueError):
        values = []
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        raise OptionError("min_counts", min_counts, _EXPECTED)
    if len(values) > order:
        raise OptionError("min_counts", min_counts, f"at most {order} numbers, as the order is {order}")
    values += [values[-1]] * (order - len(values))
    return [int(value) if value == int(value) else value for value in values]


def numbers_by_order(text: str) -> list[float]:
    """'5-3-2' as numbers; the minus of an exponent is a part of its number, as in 1e-9."""
    return [float(part) for part in re.split("(?<=[0-9.])-", text)]


def spell_thresholds(min_counts: Thresholds) -> str:
    """As in file names and on the command line: 5-3-2."""
    if isinstance(min_counts, str):
        return min_counts
    return "-".join(f"{value:.15g}" for value in (min_counts if isinstance(min_counts, Sequence) else [min_counts]))
