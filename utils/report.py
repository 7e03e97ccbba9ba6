#!/usr/bin/env python3
"""A finished recipe as one page: the table, convergence, perplexity along the thresholds, WER, what moved most,
certificates.

    utils/report.py [--corpus NAME] [--synthetic true|false] EXP... DIR

DIR gets index.html, which needs no other file and no network, and the table as table.txt, table.csv, table.md and
table.tex.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from html import escape
from itertools import islice
from pathlib import Path

from results import FIRST, PAPER, Column, Results, Row, collect, fields, lines, notes
from results import FORMATS as TABLES

from mdi.cli import boolean
from mdi.errors import MdiError
from mdi.files import read_lines, writing
from mdi.lm.vocabulary import to_str
from mdi.plot import Line, chart
from mdi.progress import say

FILES = {"text": "table.txt", "csv": "table.csv", "markdown": "table.md", "latex": "table.tex"}
SHOWN = 25  # n-grams in the table of what moved most
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 100rem; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; } h3 { margin-top: 1.8rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .35rem; text-align: right; white-space: nowrap; } th.name, td.name { text-align: left; }
thead th { border-bottom: 1px solid #888; } thead th.group { text-align: center; border-bottom: 1px solid #ccc; }
tr.set td { border-top: 1px solid #ddd; } tr.minor td { color: #555; font-size: .85em; padding-top: 0; }
td.best { font-weight: bold; } .better { color: #0a7a2f; } .worse { color: #b3261e; }
.warn { background: #fff4ce; border-left: 4px solid #e0a800; padding: .5rem .8rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(30rem, 1fr)); gap: 1rem; }
svg { width: 100%; height: auto; }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: 12px; } .note { color: #555; font-size: .9em; }
"""


def html_table(results: Results) -> str:
    wanted = fields(results)
    groups: dict[str, int] = {}
    labels: list[tuple[Column, int]] = []
    for column, _ in wanted:
        groups[column.group] = groups.get(column.group, 0) + 1
        if labels and labels[-1][0] is column:
            labels[-1] = (column, labels[-1][1] + 1)
        else:
            labels.append((column, 1))
    out = ['<div class="wide"><table><thead><tr><th></th><th></th>']
    out += [f'<th class="group" colspan="{n}">{escape(group)}</th>' for group, n in groups.items()]
    out.append("</tr><tr><th></th><th></th>")
    out += [f'<th class="group" colspan="{n}">{escape(column.label)}</th>' for column, n in labels]
    out.append('</tr><tr><th class="name">corpus</th><th class="name">test set</th>')
    out += [f"<th>{what}</th>" for _, what in wanted]
    out.append("</tr></thead><tbody>")
    by_name = {(row.part, row.test_set): row for row in results.rows}
    for cells in lines(results):
        row = by_name.get((cells[0], cells[1]))
        out.append(f'<tr class="{"set" if row else "minor"}"><td class="name">{escape(cells[0])}</td>')
        out.append(f'<td class="name">{escape(cells[1])}</td>')
        out += [_html_cell(row, column, what, cell) for (column, what), cell in zip(wanted, cells[2:], strict=True)]
        out.append("</tr>")
    return "".join([*out, "</tbody></table></div>"])


def _html_cell(row: Row | None, column: Column, what: str, cell: str) -> str:
    if row is None:
        return f"<td>{escape(cell)}</td>"
    # the best of the first pass and the best of the large models are bold, as in the paper
    rivals = {
        name: value
        for name, value in (row.ppl.items() if what == "PPL" else ((n, w.rate) for n, w in row.wer.items()))
        if name.startswith("first.") == (column.group == FIRST)
    }
    best = column.name in rivals and rivals[column.name] == min(rivals.values())
    mark = row.wer[column.name].mark if what == "WER" and column.name in row.wer else ""
    name = " ".join(filter(None, ["best" if best else "", {"+": "better", "-": "worse"}.get(mark, "")]))
    return f'<td class="{name}">{escape(cell)}</td>'


def read_json(path: Path) -> dict | None:
    return json.loads(path.read_text()) if path.exists() else None


def adapted_certificates(part: Path) -> dict[str, dict]:
    """Of the models that a solver made, by their names in the table."""
    found = {}
    for path in sorted((part / "mdi").glob("*.arpa.gz.json")):
        found[path.name.removesuffix(".arpa.gz.json")] = json.loads(path.read_text())
    for name in ("mdi", "best"):
        if first := read_json(part / "first" / f"{name}.arpa.gz.json"):
            found[f"first.{name}"] = first
    return found


def convergence_charts(certificates: dict[str, dict]) -> list[str]:
    gaps, values = [], []
    for name, certificate in certificates.items():
        steps = [step for step in certificate.get("steps", []) if step["l1"] and step["l1"] > 0]
        if len(steps) > 1:
            x = [step["iteration"] for step in steps]
            gaps.append(
                Line(name, x, [math.log10(step["l1"]) for step in steps], [f"{name}: L1 {s['l1']:.3g}" for s in steps])
            )
            values.append(Line(name, x, [step["objective"] for step in steps]))
    if not gaps:
        return []
    return [
        chart("Distance of targets and marginals", "iteration", "log10 of L1", gaps),
        chart("Dual objective D", "iteration", "nats a word", values),
    ]


def threshold_charts(part: Path, results: Results, certificates: dict[str, dict]) -> list[str]:
    """Perplexity of the sweep against the number of constraints, other models as levels; what the search for the best
    tried."""
    rows = [row for row in results.rows if row.part == part.name]
    out = []
    names = [
        column.name for column in results.columns if column.name.startswith("mdi.") and column.name in certificates
    ]
    for row in rows:
        shown = sorted((certificates[name]["constraints"], name) for name in names if name in row.ppl)
        levels = {
            column.label: row.ppl[column.name]
            for column in results.columns
            if column.name in ("interpolated", "prior", "best") and column.name in row.ppl
        }
        if len(shown) > 1:
            line = Line(
                "MDI", [n for n, _ in shown], [row.ppl[name] for _, name in shown], [f"{k}: {n:,}" for n, k in shown]
            )
            out.append(
                chart(
                    f"Perplexity of {row.part} {row.test_set}", "constraints", "perplexity", [line], levels, log_x=True
                )
            )
    searched = part / "mdi" / "best.arpa.gz.path.svg"
    if searched.exists():
        out.append(searched.read_text())
    return out


def wer_chart(row: Row, results: Results) -> str:
    """WER of each model with its 95% interval."""
    shown = [(column, row.wer[column.name]) for column in results.columns if column.name in row.wer]
    lows = [wer.low if wer.low is not None else wer.rate for _, wer in shown]
    highs = [wer.high if wer.high is not None else wer.rate for _, wer in shown]
    low, high = math.floor(min(lows)), math.ceil(max(highs)) + 1
    width, left, top, step = 760, 190, 44, 34
    height = top + step * len(shown) + 50

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - 70)

    kind = "synthetic speech" if results.synthetic else "95% intervals"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="20" y="24" font-size="15" font-weight="bold">WER of {escape(row.part)} {escape(row.test_set)}, {kind}</text>',
    ]
    for tick in range(low, high + 1, max(1, (high - low) // 8)):
        out.append(f'<line x1="{place(tick):.1f}" x2="{place(tick):.1f}" y1="{top}" y2="{height - 40}" stroke="#ddd"/>')
        out.append(f'<text x="{place(tick):.1f}" y="{height - 22}" text-anchor="middle">{tick}%</text>')
    for i, (column, wer) in enumerate(shown):
        y = top + step * i + step / 2
        colour = {"+": "#0a7a2f", "-": "#b3261e"}.get(wer.mark, "#1f77b4")
        label = f"first pass: {column.label}" if column.group == FIRST else column.label
        out.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
        if wer.low is not None:
            out.append(
                f'<path d="M{place(wer.low):.1f} {y}H{place(wer.high):.1f}" stroke="{colour}" stroke-width="3"/>'
            )
        p = f", p = {wer.p:.3g}" if wer.p is not None else ""
        out.append(
            f'<circle cx="{place(wer.rate):.1f}" cy="{y}" r="5" fill="{colour}"><title>{wer.rate:.2f}%{p}</title></circle>'
        )
        out.append(f'<text x="{width - 60}" y="{y + 4:.1f}">{wer.rate:.1f}{wer.mark}</text>')
    return "\n".join([*out, "</svg>"])


def moved_table(part: Path) -> str:
    """The constraints whose marginals the adaptation changed most, of the first set of thresholds that has a table."""
    path = next(iter(sorted((part / "mdi").glob("constraints.*.tsv.gz"))), None)
    if path is None:
        return ""
    rows = [to_str(line).split("\t") for line in islice(read_lines(str(path)), SHOWN + 1)]
    name = path.name.removeprefix("constraints.").removesuffix(".tsv.gz")
    out = [
        f"<h3>What moved most (MDI {escape(name)})</h3>",
        '<div class="wide"><table><thead><tr><th class="name">n-gram</th>',
    ]
    out.append(
        "<th>count</th><th>target</th><th>in the "
        "background</th><th>after</th><th>factor</th><th>lambda</th></tr></thead>"
    )
    for ngram, _, count, target, before, after, lam in rows[1:]:
        factor = f"{float(after) / float(before):.3g}" if float(before) > 0 else "-"
        cells = (
            f"{float(count):g}",
            *(f"{float(x):.3g}" for x in (target, before, after)),
            factor,
            f"{float(lam):.3f}",
        )
        out.append(f'<tr><td class="name">{escape(ngram)}</td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
    return "".join([*out, "</table></div>"])


def certificate_table(part: Path) -> str:
    """One line a model, and the whole certificates to unfold."""
    out = [
        '<div class="wide"><table><thead><tr><th class="name">model</th><th class="name">made by</th><th>n-grams</th>'
    ]
    out.append(
        "<th>worst |sum p - 1|</th><th>constraints</th><th>dropped</th><th>iterations</th><th>L1</th><th>KL to "
        "background</th>"
    )
    out.append("<th>seconds</th><th>MB</th></tr></thead>")
    whole = []
    for path in sorted(part.glob("*/*.arpa.gz.json")):
        c = json.loads(path.read_text())
        name = str(path.relative_to(part)).removesuffix(".json")
        dropped = sum(c["constraints_dropped"].values()) if "constraints_dropped" in c else None
        cells = [
            f"{sum(c['ngrams']):,}", f"{c['worst_sum_gap']:.1e}", _number(c.get("constraints")), _number(dropped),
            _number(c.get("iterations")), f"{c['l1']:.2g}" if c.get("l1") is not None else "",
            f"{c['kl_to_background']:.3f}" if c.get("kl_to_background") is not None else "", f"{c['seconds']:.1f}",
            f"{c['peak_memory_mb']:.0f}",
        ]  # fmt: skip
        out.append(f'<tr><td class="name">{escape(name)}</td><td class="name">mdi {escape(c["command"])}</td>')
        out.append("".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        brief = {key: value for key, value in c.items() if key != "steps"}
        text = escape(json.dumps(brief, indent=1, ensure_ascii=False))
        whole.append(f"<details><summary>{escape(name)}</summary><pre>{text}</pre></details>")
    return "".join([*out, "</table></div>", *whole])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


def page(results: Results, parts: list[Path]) -> str:
    out = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>MDI adaptation: {escape(results.corpus)}</title><style>{STYLE}</style></head><body>",
        f"<h1>MDI adaptation of n-gram language models: {escape(results.corpus)}</h1>",
    ]
    if results.synthetic and any(row.wer for row in results.rows):
        out.append(
            '<p class="warn">The speech of the test sets is <b>synthetic</b> (text to speech): the WERs below compare language '
            "models, and say nothing of real speech.</p>"
        )
    out.append(html_table(results))
    out += [f'<p class="note">{escape(note)}</p>' for note in notes(results)]
    if results.corpus in PAPER:
        out.append('<p class="note">Rows "paper" and "difference": the published figures, and ours minus those.</p>')
    for part in parts:
        certificates = adapted_certificates(part)
        rows = [row for row in results.rows if row.part == part.name]
        out.append(f"<h2>{escape(part.name)}</h2>")
        for title, charts in (
            ("Word error rate", [wer_chart(row, results) for row in rows if row.wer]),
            ("Perplexity along the thresholds", threshold_charts(part, results, certificates)),
            ("Convergence", convergence_charts(certificates)),
        ):
            if charts:
                out.append(
                    f'<h3>{title}</h3><div class="charts">{"".join(f"<div>{svg}</div>" for svg in charts)}</div>'
                )
        out += [moved_table(part), "<h3>Certificates</h3>", certificate_table(part)]
    return "\n".join([*out, "</body></html>", ""])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", metavar="EXP", nargs="+", help="folder of a finished recipe")
    parser.add_argument("out", metavar="DIR", help="folder of the report; made if need be")
    parser.add_argument("--corpus", default="", help="ami, swbd or wsj: the paper's figures too (the folder's name)")
    parser.add_argument(
        "--synthetic", type=boolean, default=False, metavar="true|false", help="the speech is synthetic (false)"
    )
    args = parser.parse_args(argv)
    parts, out = [Path(part) for part in args.parts], Path(args.out)
    try:
        results = collect(args.corpus or parts[0].name, parts, args.synthetic)
        out.mkdir(parents=True, exist_ok=True)
        for kind, name in FILES.items():
            with writing(str(out / name)) as stream:
                stream.write(TABLES[kind](results).encode())
        with writing(str(out / "index.html")) as stream:
            stream.write(page(results, parts).encode("utf-8", "surrogateescape"))
    except MdiError as error:
        print(f"utils/report.py: {error}", file=sys.stderr)
        return 1
    say(f"report: {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
