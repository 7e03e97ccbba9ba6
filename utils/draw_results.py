#!/usr/bin/env python3
"""A picture of one test set's perplexities, from the table of a finished recipe.

utils/draw_results.py exp/CORPUS/report/table.csv SET OUT.svg
"""

from __future__ import annotations

import argparse
import sys

from mdi.charts import BETTER, PLAIN, REFERENCE, Dot, dot_chart, write_svg
from mdi.errors import MdiError, exit_code

BASELINES = ("background", "in", "interpolated")


def draw(table: str, test_set: str, out: str) -> None:
    import pandas

    rows = pandas.read_csv(table)
    rows = rows[(rows["test_set"] == test_set) & ~rows["model"].str.startswith("first.")]
    if rows.empty:
        raise MdiError(f"{table}: no large models of the test set {test_set}; expected the table of a finished recipe")
    best = rows["ppl"].min()
    dots = [
        Dot(str(label), float(ppl), f"{ppl:.1f}",
            colour=BETTER if ppl == best else REFERENCE if model in BASELINES else PLAIN)
        for model, label, ppl in zip(rows["model"], rows["label"], rows["ppl"], strict=True)
    ]  # fmt: skip
    corpus = rows["corpus"].iloc[0]
    write_svg(dot_chart(f"{corpus}, {test_set}: perplexity, lower is better", "perplexity", dots), out)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TABLE.csv", help="of the folder report/")
    parser.add_argument("test_set", metavar="SET")
    parser.add_argument("out", metavar="OUT.svg")
    args = parser.parse_args(argv)
    return exit_code("utils/draw_results.py", lambda: draw(args.table, args.test_set, args.out))


if __name__ == "__main__":
    sys.exit(main())
