#!/usr/bin/env python3
"""A picture of one test set, from the table of a finished recipe: perplexities of the large models, or WERs of the
first pass with their intervals.

utils/draw_results.py [--measure ppl|wer] exp/CORPUS/report/table.csv SET OUT.svg
"""

import argparse
import sys

from mdi.charts import BETTER, PLAIN, REFERENCE, Dot, dot_chart, write_svg
from mdi.errors import MdiError, exit_code

BASELINES = ("background", "in", "interpolated", "first.default", "first.interpolated")


def draw(table: str, test_set: str, measure: str, out: str) -> None:
    import pandas

    rows = pandas.read_csv(table)
    first = rows["model"].str.startswith("first.")
    rows = rows[(rows["test_set"] == test_set) & (first if measure == "wer" else ~first) & rows[measure].notna()]
    if rows.empty:
        which = "WERs of the first pass" if measure == "wer" else "perplexities of large models"
        raise MdiError(f"{table}: no {which} of the test set {test_set}; expected the table of a finished recipe")
    best = rows[measure].min()
    dots = [
        Dot(
            str(row["label"]),
            float(row[measure]),
            f"{row[measure]:.1f}",
            (row["wer_low"], row["wer_high"]) if measure == "wer" else None,
            colour=BETTER if row[measure] == best else REFERENCE if row["model"] in BASELINES else PLAIN,
        )
        for _, row in rows.iterrows()
    ]
    what, unit = ("WER", "WER in %, 95% interval") if measure == "wer" else ("perplexity", "perplexity")
    write_svg(dot_chart(f"{rows['corpus'].iloc[0]}, {test_set}: {what}, lower is better", unit, dots), out)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TABLE.csv", help="of the directory report/")
    parser.add_argument("test_set", metavar="SET")
    parser.add_argument("out", metavar="OUT.svg")
    parser.add_argument("--measure", choices=("ppl", "wer"), default="ppl", help="(ppl)")
    args = parser.parse_args(argv)
    return exit_code("utils/draw_results.py", lambda: draw(args.table, args.test_set, args.measure, args.out))


if __name__ == "__main__":
    sys.exit(main())
