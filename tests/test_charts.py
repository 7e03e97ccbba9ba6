"""Charts as files and as parts of a page."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import pandas as pd

from mdi import charts
from mdi.charts import Dot, Line

LINES = [Line("MDI", [100, 2000, 30000], [30.0, 28.0, 29.0], ["6-4-3", "5-3-2", "<&>"]), Line("other", [200], [27.0])]


def texts(svg: str) -> list[str]:
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_points_lines_and_levels_are_named() -> None:
    found = texts(charts.inline_svg(charts.line_chart("a & b", "x", "y", LINES, {"level": 27.5}, log_x=True), "c"))
    assert {"a & b", "x", "y", "6-4-3", "5-3-2", "<&>", "MDI", "other", "level 27.5", "1,000"} <= set(found)


def test_dots_are_labelled_and_what_is_far_off_is_an_arrow_at_the_edge() -> None:
    dots = [Dot(f"model {i}", 80.0 + i, f"{80 + i}.0", (79.0 + i, 81.0 + i)) for i in range(5)]
    figure = charts.dot_chart("t", "perplexity", [*dots, Dot("background", 384.1, "384.1")])
    found = texts(charts.inline_svg(figure, "c"))
    assert {"model 0", "80.0", "background", "384.1"} <= set(found)
    axes = figure.axes[0]
    assert axes.get_xlim()[1] < 100
    markers = {line.get_marker(): line.get_xdata()[0] for line in axes.lines}
    assert markers[">"] == axes.get_xlim()[1]
    # one value only, and equal values
    for some in ([Dot("one", 0.0, "0.0")], [Dot("a", 5.0, "5.0"), Dot("b", 5.0, "5.0")]):
        low, high = charts.dot_chart("t", "x", some).axes[0].get_xlim()
        assert 0 <= low <= some[0].value < high


def test_charts_of_one_page_share_no_ids_and_take_the_colour_of_the_text() -> None:
    page = "".join(charts.inline_svg(charts.line_chart("t", "x", "y", LINES), f"c{i}") for i in range(2))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="|url\()#([^")]+)', page)
    assert used
    assert set(used) <= set(ids)
    assert "currentColor" in page
    assert charts.INK not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_file_has_its_own_background_and_is_the_same_every_time(tmp_path) -> None:
    for name in ("a.svg", "b.svg"):
        charts.write_svg(charts.line_chart("t", "x", "y", LINES), str(tmp_path / name))
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "currentColor" not in text
    assert 'fill: #ffffff"' in text
    # nearly black on white; on a dark page all that has this ink, and the background, get other colours together
    head, drawn = text.split("</style>", 1)
    used = set(re.findall(rf"(?:fill|stroke): {charts.INK}", drawn))
    assert used
    assert all(f'[style*="{ink}"]' in head for ink in used)
    assert "fill: #ffffff" in head


def test_the_search_from_the_best_to_the_worst() -> None:
    table = pd.DataFrame(
        {"min_counts": ["2-2-2", "5-3-2"], "sigma2": ["none", "0.5"], "ppl_mixed": [26.0, 25.0], "chosen": ["", "*"]}
    )
    axes = charts.search_chart(table, {"in-domain": 27.0, "interpolation": 25.5}).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["5-3-2, sigma2 0.5", "interpolation", "2-2-2, no prior", "in-domain"]
    assert axes.lines[0].get_color() == charts.BETTER


def test_the_library_is_loaded_only_where_a_chart_is_made() -> None:
    program = "import sys, mdi.charts\nsys.exit(any(name in sys.modules for name in ('matplotlib', 'pandas')))"
    subprocess.run([sys.executable, "-c", program], check=True)
