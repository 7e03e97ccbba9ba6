#!/usr/bin/env python3
"""Partition scaling beside the paper's update, GIS with its constant and L-BFGS, on one problem.

    utils/bench/solvers.py BACKGROUND.arpa.gz TEXT.gz [--min-counts 2-2-2,5-3-2,6-4-3] [--max-iters 60]

Prints, as a Markdown table, D after 5, 10, 20 and so many iterations, and the iterations to an L1 distance of 1e-3 of
targets and marginals. An iteration is one evaluation of the dual, which costs the same for all.
"""

import argparse

from updates import UPDATES

from mdi.adaptation.adapter import Adapter
from mdi.adaptation.solver import SolverSettings, Step, solve
from mdi.lm.arpa import read_arpa

NAMES = {
    "paper": "the paper's: lam += log(target/marginal)",
    "gis": "GIS, divided by the number of constraints that fire at once",
    "lbfgs": "L-BFGS, variables scaled by sqrt(target)",
    "partition": "partition scaling, slack, Anderson (ours)",
}
TOLERANCE = 1e-3


def cell(steps: list[Step], iteration: int) -> str:
    if len(steps) < iteration:
        return "converged" if steps[-1].l1 <= TOLERANCE else "not finite"
    step = steps[iteration - 1]
    return f"{step.objective:.4f} ({step.l1:.2g})" if abs(step.objective) < 1e6 else "not finite"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("background")
    parser.add_argument("text")
    parser.add_argument("--min-counts", default="2-2-2,5-3-2,6-4-3")
    parser.add_argument("--max-iters", type=int, default=60)
    args = parser.parse_args()
    adapter = Adapter(read_arpa(args.background), args.text)
    marks = [5, 10, 20, args.max_iters]
    for thresholds in args.min_counts.split(","):
        problem = adapter.pose(thresholds)
        print(
            f"\nmin-counts {thresholds}, {problem.constraints.total:,} constraints; D (L1) after so many iterations\n"
        )
        print(f"| update | {' | '.join(map(str, marks))} | to L1 <= {TOLERANCE:g} | ms per iteration |")
        print(f"|---{'|---' * (len(marks) + 2)}|")
        for solver, name in NAMES.items():
            settings = SolverSettings(TOLERANCE, args.max_iters)
            steps = solve(problem.dual, problem.target, settings, update=UPDATES[solver]).steps
            done = next((str(step.iteration) for step in steps if step.l1 <= TOLERANCE), f"> {len(steps)}")
            cost = 1000 * (steps[-1].seconds - steps[0].seconds) / max(1, len(steps) - 1)
            print(f"| {name} | {' | '.join(cell(steps, mark) for mark in marks)} | {done} | {cost:.0f} |", flush=True)


if __name__ == "__main__":
    main()
