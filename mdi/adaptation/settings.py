"""How the solver of an adaptation works: one record that adapt, match and tune, models and deltas share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast

from mdi.adaptation.solver import Step
from mdi.errors import check_positive

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the solver; what the problem is (thresholds, prior, targets) is not among them.

    Parameters
    ----------
    tolerance
        L1 distance between targets and marginals, less the pull of a prior, to stop at.
    max_iters
        A solver that does not get there in so many iterations gives a `ConvergenceWarning` and a valid model.
    report
        Called with every iteration's `Step`: its number, the dual, the distance, seconds.
    """

    tolerance: float = 1e-3
    max_iters: int = 200
    report: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)
        check_positive("max_iters", self.max_iters)


USUAL = SolverSettings()
# What the settings were before they were a record: keywords of each function.
_OLD = ("tolerance", "max_iters", "report")


def takes_settings(function: Function) -> Function:
    """A function with the parameter `settings`, to which the old keywords can be given for one more release."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        own = function.__annotations__
        if "oov" in keywords and "new_words" in own:
            warnings.warn("oov: goes with the next release; use new_words", FutureWarning, stacklevel=2)
            keywords["new_words"] = keywords.pop("oov")
        old = {name: keywords.pop(name) for name in _OLD if name in keywords and name not in own}
        if old:
            warnings.warn(
                f"{', '.join(old)}: go with the next release; use settings=SolverSettings(...)",
                FutureWarning,
                stacklevel=2,
            )
            keywords["settings"] = replace(keywords.get("settings", USUAL), **old)
        return function(*args, **keywords)

    return cast(Function, call)
