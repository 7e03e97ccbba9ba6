"""`mdi.plot`: a picture of a result."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mdi.adaptation.tune import Tuned
from mdi.charts import Dot, Line, dot_chart, line_chart, search_chart
from mdi.errors import MdiError
from mdi.lm.perplexity import Perplexity

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

# Columns of a sweep's table that are no perplexities.
_ABOUT = ("min_counts", "constraints", "iterations", "converged", "l1", "kl_to_background", "ngrams")


def plot(result: "Tuned | pandas.DataFrame | Mapping[str, Perplexity]") -> "Figure":
    """Draws a search, a sweep or a comparison; needs matplotlib (`pip install 'mdi-lm[report]'`).

    Parameters
    ----------
    result
        What `tune` returned, a table of `sweep_table` with the perplexities of some texts, or perplexities by the names
        of their models.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it; `figure.savefig("a.png")` writes it.
    """
    if isinstance(result, Tuned):
        return search_chart(result.table(), result.references())
    if isinstance(result, Mapping):
        dots = [Dot(name, one.ppl, f"{one.ppl:.1f}") for name, one in result.items()]
        return dot_chart("Lower is better", "perplexity", dots)
    texts = [name for name in getattr(result, "columns", ()) if name not in _ABOUT]
    if not texts:
        raise MdiError(
            "nothing to plot; expected what tune returned, perplexities by name, or a table of sweep_table with texts: "
            "sweep_table(results, {'dev': 'dev.txt'})"
        )
    table = result.sort_values("constraints")
    points, names = table["constraints"].tolist(), table["min_counts"].tolist()
    lines = [Line(text, points, table[text].tolist(), names if text == texts[0] else None) for text in texts]
    return line_chart("Perplexity by thresholds", "constraints", "perplexity", lines, log_x=True)
