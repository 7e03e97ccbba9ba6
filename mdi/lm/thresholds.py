"""Numbers by order, such as the least counts 5-3-2: 5 for words, 3 for bigrams, 2 for everything longer."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdi.errors import OptionError

Thresholds = str | float | Sequence[float]
_EXPECTED = "positive numbers, one per order, the last one repeating, such as 5-3-2"


def listed(given: Any) -> list[Any]:
    """What may be given one by one or several at a time, as a list. A string is one."""
    given = given.tolist() if isinstance(given, np.ndarray) else given
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def numbers_by_order(name: str, given: Thresholds, order: int, expected: str) -> list[float]:
    """One positive number per order from '5-3-2', (5, 3, 2) or 5; the last one repeats. The minus of an exponent is a
    part of its number, as in 1e-9. `name`: of the argument, for errors."""
    try:
        values = [float(part) for part in listed(re.split("(?<=[0-9.])-", given) if isinstance(given, str) else given)]
    except (TypeError, ValueError):
        values = []
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        raise OptionError(name, given, expected)
    if len(values) > order:
        raise OptionError(name, given, f"at most {order} numbers, as the order is {order}")
    return values + [values[-1]] * (order - len(values))


def parse_thresholds(min_counts: Thresholds, order: int, name: str = "min_counts") -> list[int | float]:
    """Least counts by order. `name`: of the argument, for errors."""
    values = numbers_by_order(name, min_counts, order, _EXPECTED)
    return [int(value) if value == int(value) else value for value in values]


def spell_thresholds(min_counts: Thresholds) -> str:
    """As in file names and on the command line: 5-3-2."""
    if isinstance(min_counts, str):
        return min_counts
    return "-".join(f"{value:.15g}" for value in listed(min_counts))
