"""Charts, drawn by matplotlib: without pyplot's global state, and imported only where a chart is made."""

import io
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from mdi.files import write_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

HOW_TO_GET = "pip install 'mdi-lm[report]'"
WIDTH, HEIGHT = 5.0, 3.2  # inches: readable on a telephone, scaled up elsewhere
INK = "#010203"  # text and axes: black in a file, on a page the page's own colour, be it light or dark
COLOURS = ("#3b82c4", "#d1495b", "#3a9d5d", "#9467bd", "#e08a1e", "#17a2b8", "#a0724f", "#d67ab1", "#7f8c8d")
PLAIN, WORSE, BETTER, REFERENCE = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[8]
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.formatter.useoffset": False,
    "grid.alpha": 0.15,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",  # letters, not outlines: a third of the size, and they can be searched
}
STYLE |= dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), INK
)


@dataclass(frozen=True)
class Line:
    label: str
    x: list[float]
    y: list[float]
    names: list[str] | None = None  # of the points, written above them


@dataclass(frozen=True)
class Dot:
    """A row of a dot chart: a value, how it is written at the right, and its interval."""

    label: str
    value: float
    text: str
    interval: tuple[float, float] | None = None
    colour: str = PLAIN


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    lines: list[Line],
    levels: dict[str, float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> "Figure":
    """`levels` are horizontal lines to compare with."""
    from matplotlib.ticker import LogLocator, NullLocator

    levels = levels or {}
    with drawing():
        figure, axes = _figure(title, HEIGHT + 0.16 * ((len(lines) + len(levels)) // 3))
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.margins(0.1)
        for i, line in enumerate(lines):
            colour, size = COLOURS[i % len(COLOURS)], 4 if len(line.x) < 20 else 2
            axes.plot(line.x, line.y, marker="o", markersize=size, color=colour, label=line.label)
            for x, y, name in zip(line.x, line.y, line.names or [], strict=line.names is not None):
                axes.annotate(name, (x, y), (0, 5), textcoords="offset points", ha="center", fontsize=8)
        for i, (label, value) in enumerate(levels.items(), len(lines)):
            colour = COLOURS[i % len(COLOURS)]
            axes.axhline(value, linestyle="--", linewidth=1.2, color=colour, label=f"{label} {value:.5g}")
        if log_x:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        if log_y:
            axes.set_yscale("log")
        figure.legend(loc="outside lower center", ncols=3)
    return figure


def dot_chart(title: str, x_label: str, dots: list[Dot]) -> "Figure":
    """One row per dot, from the top down. What is far worse than the others is an arrow at the edge."""
    values = sorted(dot.value for dot in dots)
    lower, upper = (values[quarter * (len(values) - 1) // 4] for quarter in (1, 3))
    fence = upper + 3 * (upper - lower) if upper > lower else values[-1]  # Tukey's, for what is far out
    ends = [end for dot in dots if dot.value <= fence for end in (dot.value, *(dot.interval or ()))]
    margin = 0.05 * (max(ends) - min(ends)) or 0.5
    left, right = min(ends) - margin, max(ends) + margin
    left = left if min(ends) < 0 else max(0.0, left)
    with drawing():
        figure, axes = _figure(title, 0.9 + 0.22 * len(dots))
        for row, dot in enumerate(dots):
            if dot.interval:
                axes.plot(dot.interval, (row, row), color=dot.colour, linewidth=3, alpha=0.4)
            far = dot.value > fence
            axes.plot(right if far else dot.value, row, marker=">" if far else "o", color=dot.colour, clip_on=False)
            axes.annotate(dot.text, (1.03, row), xycoords=("axes fraction", "data"), va="center")
        axes.set_yticks(range(len(dots)), [dot.label for dot in dots])
        axes.set(xlabel=x_label, xlim=(left, right), ylim=(len(dots) - 0.5, -0.5))
        axes.tick_params(axis="y", length=0, pad=7)
        axes.locator_params(axis="x", nbins=6)
    return figure


def search_chart(table: "DataFrame", references: dict[str, float]) -> "Figure":
    """What `mdi tune` tried (the table OUT.search.tsv) from the best to the worst, and what to compare it with."""
    dots = [
        Dot(
            f"{row.min_counts}, {'no prior' if row.sigma2 == 'none' else f'sigma2 {row.sigma2}'}",
            row.ppl_mixed,
            f"{row.ppl_mixed:.2f}",
            colour=BETTER if row.chosen in ("*", True) else PLAIN,
        )
        for row in cast("Iterable[Any]", table.itertuples())
    ]
    dots += [Dot(label, value, f"{value:.2f}", colour=REFERENCE) for label, value in references.items()]
    dots.sort(key=lambda dot: dot.value)
    return dot_chart("Mixtures that the search tried; green: chosen", "development perplexity", dots)


# A picture in a file has its own background: on a dark page another one, with the ink to it.
_DARK = (
    "<style>@media (prefers-color-scheme: dark) { "
    f'[style*="fill: {INK}"] {{ fill: #e6edf3 !important }} [style*="stroke: {INK}"] {{ stroke: #e6edf3 !important }} '
    '[style*="fill: #ffffff"] { fill: #0d1117 !important } }</style>\n'
)


def write_svg(figure: "Figure", path: str) -> None:
    svg = re.sub(r"(<svg[^>]*>\n?)", lambda head: head[1] + _DARK, _svg(figure, "chart", "white"), count=1)
    write_file(path, svg)


def inline_svg(figure: "Figure", name: str) -> str:
    """For a page: no header, the page's own ink and font, and ids that begin with a name, since those of a page must
    differ."""
    svg = _svg(figure, name, "none")
    svg = re.sub(r'font-family: [^;"]+;|xmlns:xlink="[^"]+"', "", svg[svg.index("<svg") :])
    svg = svg.replace("xlink:href", "href").replace(INK, "currentColor")
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)


def _svg(figure: "Figure", salt: str, face: str) -> str:
    import matplotlib

    stream = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with drawing(), matplotlib.rc_context({"svg.hashsalt": salt}):  # the same chart gives the same file
        figure.savefig(stream, format="svg", facecolor=face, metadata=nothing)
    return stream.getvalue()


def drawing() -> AbstractContextManager[None]:
    from matplotlib import style

    return style.context(["default", STYLE])  # not what the user's matplotlibrc says


def _figure(title: str, height: float) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure((WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    return figure, axes
