#!/usr/bin/env python3
"""Reads the reports that a recipe's local/score.sh has NIST's sclite write, and leaves what mdi score leaves.

utils/score_reports.py [--compare-with OTHER] --points 7:0.0,8:0.0 NAME DIR
"""

import argparse
import sys
from pathlib import Path

from sclite import compare, write_scores

from mdi.errors import exit_code


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", help="name of the data directory that was scored")
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--points", required=True, metavar="LMWT:WIP,...", help="the points that were scored")
    parser.add_argument(
        "--compare-with",
        metavar="OTHER",
        type=Path,
        action="append",
        default=[],
        help="directory of another system, scored in the same way; may be repeated",
    )
    args = parser.parse_args(argv)

    def work() -> None:
        points = [(int(weight), penalty) for weight, penalty in (point.split(":") for point in args.points.split(","))]
        write_scores(args.folder, args.name, points)
        print((args.folder / "scoring_kaldi" / "best_wer").read_text(), end="")
        if args.compare_with:
            print(compare(args.folder, args.compare_with), end="")

    return exit_code("score_reports", work)


if __name__ == "__main__":
    sys.exit(main())
