#!/usr/bin/env python3
"""The picture of README: what adaptation gains on every corpus, from a table of models in a page of Markdown.

utils/draw_gains.py [--heading TEXT] README.md utils/figures/does-it-help.svg

The table is the first one below the heading: a corpus per row, its measure, and a column per model; figures may be
bold, or missing.
"""

import argparse
import re
import sys
import textwrap
from pathlib import Path

from matplotlib.figure import Figure

from mdi.charts import BETTER, COLOURS, PLAIN, REFERENCE, drawing, write_svg
from mdi.errors import MdiError, exit_code

# of the columns from the left: the model as it was, the baseline, ours
BARS = (REFERENCE, COLOURS[4], PLAIN, BETTER)


def read_table(page: str, heading: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    """(models, figures of each by corpus)"""
    text = Path(page).read_text(encoding="utf-8")
    below = re.split(rf"^#+ {re.escape(heading)}$", text, maxsplit=1, flags=re.MULTILINE)
    rows = re.search(r"(?:^\|.*\|$\n?)+", below[-1], re.MULTILINE) if len(below) == 2 else None
    if rows is None:
        raise MdiError(f"{page}: no table below a heading '{heading}'; expected one, with a corpus in each row")
    cells = [[cell.strip(" *`") for cell in row.strip("|").split("|")] for row in rows[0].splitlines()]
    models, found = cells[0][2:], {}
    for corpus, measure, *figures in cells[2:]:
        values = {model: figure for model, figure in zip(models, figures, strict=False) if figure}
        if not values or not all(re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", figure) for figure in values.values()):
            raise MdiError(f"{page}: '{corpus}' has {figures}; expected a figure or nothing for each of {models}")
        found["\n".join(textwrap.wrap(f"{corpus}: {measure}", 26))] = values
    return models, found


def bar_panels(panels: dict[str, dict[str, str]], colours: dict[str, str]) -> Figure:
    """Panels side by side, each with a scale of its own from zero: a bar per name of `colours`, from the top
    down, with its figure; a panel may lack some."""
    with drawing():
        figure = Figure((2.1 * len(panels) + 1.0, 0.62 + 0.26 * len(colours)), layout="constrained")
        for at, (title, values) in enumerate(panels.items()):
            axes = figure.add_subplot(1, len(panels), at + 1)
            axes.set_title(title, fontsize=9)
            rows = {name: row for row, name in enumerate(colours)}
            for name, text in values.items():
                axes.barh(rows[name], float(text), 0.72, color=colours[name])
                axes.annotate(text, (float(text), rows[name]), (3, 0), textcoords="offset points", va="center")
            axes.set(xlim=(0, 1.32 * max(map(float, values.values()))), ylim=(len(colours) - 0.5, -0.5))
            axes.set_yticks(range(len(colours)), list(colours) if at == 0 else [""] * len(colours))
            axes.set_xticks([])
            axes.tick_params(axis="y", length=0)
            axes.spines["bottom"].set_visible(False)
            axes.grid(False)
    return figure


def draw(page: str, heading: str, out: str) -> None:
    models, panels = read_table(page, heading)
    if len(models) > len(BARS):
        raise MdiError(f"{page}: {len(models)} models; expected at most {len(BARS)}")
    write_svg(bar_panels(panels, dict(zip(models, BARS, strict=False))), out)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", metavar="PAGE.md")
    parser.add_argument("out", metavar="OUT.svg")
    parser.add_argument("--heading", default="Does it help?", metavar="TEXT", help="(Does it help?)")
    args = parser.parse_args(argv)
    return exit_code("utils/draw_gains.py", lambda: draw(args.page, args.heading, args.out))


if __name__ == "__main__":
    sys.exit(main())
