"""How the solver of an adaptation works: one record that adapt, match and tune, models and deltas share."""

from collections.abc import Callable
from dataclasses import dataclass

from mdi.adaptation.solver import Step
from mdi.errors import check_positive


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
