#!/usr/bin/env python3
"""A finished recipe as one page: what was gained, the table, WER and perplexity of every model, convergence, what moved
most, certificates.

    utils/report.py [--corpus NAME] [--synthetic true|false] [--command TEXT] EXP... DIR

DIR gets index.html, which needs no other file and no network, and the table as table.txt, table.csv, table.md and
table.tex. The page is utils/report.html.j2.
"""

import argparse
import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from html import escape
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from recipe_files import DECODING, SIGNIFICANT, corpora, model_path, read_certificate
from report_speech import listen, new_words
from results import (
    FORMATS,
    PERPLEXITY,
    WORD_ERROR_RATE,
    Results,
    cells,
    collect,
    comparison_cells,
    decodes_with_large,
    default_model,
    html,
    new_word_cells,
    notes,
    other_vocabulary,
    paper_cells,
)

from mdi import charts
from mdi.arguments import boolean
from mdi.errors import MdiError, exit_code
from mdi.files import write_file
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN
from mdi.progress import say

FILES = {"text": "table.txt", "csv": "table.csv", "markdown": "table.md", "latex": "table.tex"}
SHOWN = 25  # n-grams in the table of what moved most
SETTINGS = (
    "Settings that were tried: how often a word or sequence, by its length, must be seen to be taken from the text; "
    "and how freely its probability may move (sigma2: the larger, the more freely; no prior: all the way)."
)
# Words of the domain: so many times as likely as they were, and seen so often.
FACTOR, SEEN = 5.0, 3
BASELINES = {
    "background": "the model as it was",
    "interpolated": "interpolation, the usual way to adapt",
    "in": "a model of the in-domain text alone",
}


# ---- what was gained


def large(results: Results, corpus: str) -> pd.DataFrame:
    """The rows of a part of the corpus, without the first pass."""
    frame = results.frame
    return frame[(frame.corpus == corpus) & ~frame.model.str.startswith(DECODING)]


def gains(results: Results, part: Path, corpus: str, out: Path) -> dict:
    """The best model on the development set, and how it does on the others."""
    frame = large(results, corpus)
    development = frame.test_set.iloc[0]
    best = frame.loc[frame[frame.test_set == development].ppl.idxmin()]
    judged = [name for name in frame.test_set.unique() if name != development] or [development]
    whole = results.frame[results.frame.corpus == corpus]
    shown = [card for test_set in judged for card in cards(whole[whole.test_set == test_set], best.model)]
    path = model_path(part, best.model)
    about = f"“{best.label}” in the table; of all large models it has the lowest perplexity on {development}."
    if judged == [development]:
        about += f" There is no evaluation set: the figures are of {development}, which models were tuned on."
    if best.model in ("in", "background", "interpolated"):
        about += " Adaptation gained nothing here."
    return {"corpus": corpus, "file": path, "href": relative(path, out), "about": about, "cards": shown}


def cards(frame: pd.DataFrame, best: str) -> Iterator[dict]:
    """Perplexity, and WER if there is one, of the best model against each baseline, on one test set."""
    rows = frame.set_index("model")
    ours = rows.loc[best]
    for model, name in BASELINES.items():
        if model in rows.index and model != best:
            change = ours.ppl / rows.ppl[model] - 1
            text = f"perplexity of {ours.test_set}: {rows.ppl[model]:.1f} to {ours.ppl:.1f}, against {name}"
            same = abs(change) < 0.0005
            kind = "" if same else "better" if change < 0 else "worse"
            yield {"figure": "±0%" if same else f"{change:+.1%}", "text": text, "kind": kind}
    shown = rows.loc[f"first.{best}"] if decodes_with_large(rows.index) and f"first.{best}" in rows.index else ours
    first = " of the first pass" * (shown is not ours)
    against = {"default": default_model(rows.index), "interpolated": BASELINES["interpolated"]}
    if pd.notna(shown.wer) and shown[[f"p_{baseline}" for baseline in against]].isna().all():
        yield {"figure": f"{shown.wer:.1f}%", "text": f"word error rate of {ours.test_set}{first}", "kind": ""}
    for baseline, name in against.items():
        difference, p = shown[f"difference_{baseline}"], shown[f"p_{baseline}"]
        if pd.notna(p):
            kind = "" if p >= SIGNIFICANT else "better" if difference < 0 else "worse"
            sure = "significant" if kind else "not significant"
            text = (
                f"word error rate of {ours.test_set}{first}: {shown.wer - difference:.1f} to {shown.wer:.1f}%, against "
                f"{name} ({sure}, p = {p:.2g})"
            )
            relative = (
                f"{difference / (shown.wer - difference):+.1%}" if shown.wer > difference else f"{difference:+.1f}"
            )
            yield {"figure": relative, "text": text, "kind": kind}
    taught = [m for m in ("first.new_words", f"first.{best}", best) if m in rows.index and pd.notna(rows.new_said[m])]
    if taught and rows.new_added[taught[0]]:
        row = rows.loc[taught[0]]
        yield {
            "figure": f"{row.new_right} of {row.new_added}",
            "text": f"new words recognised, of those said in {ours.test_set} that the in-domain text has; without "
            f"adding them it is none" + (f" ({row.label})" if row.label != ours.label else ""),
            "kind": "better" if row.new_right else "",
        }


def sizes(results: Results, part: Path, corpus: str) -> Iterator[tuple[str, str]]:
    """(what, how large) of the texts."""
    prefix = f"{corpus}: " if results.frame.corpus.nunique() > 1 else ""
    certificates = [certificate_of(model_path(part, model)) for model in ("in", "background", "prior")]
    in_domain, background, prior = certificates
    for name, certificate in (("in-domain text", in_domain or prior), ("background text", background)):
        if "words" in certificate:
            yield f"{prefix}{name}", f"{certificate['words']:,} words in {certificate['sentences']:,} sentences"
    rows = results.frame[results.frame.corpus == corpus]
    for number, (test_set, row) in enumerate(rows.groupby("test_set", sort=False).first().iterrows()):
        use = "judges the models" if number else "development text, on which settings are chosen"
        unknown = f"{row.oov / max(1, row.words):.2%} outside the vocabulary"
        yield f"{prefix}{test_set}", f"{row.words:,} words, {unknown}; {use}"


def relative(path: Path, out: Path) -> str:
    """A link from the report."""
    return Path(os.path.relpath(path, out)).as_posix()


# ---- tables


def html_table(results: Results) -> str:
    """The table with the lowest of each test set and group in bold, and what differs significantly in colour."""
    frame = results.frame
    rivals = [frame.corpus, frame.group, frame.test_set]

    def style(measure: str, texts: pd.Series) -> pd.Series:
        if measure not in ("PPL", "WER"):
            return texts
        values = frame[measure.lower()].mask(other_vocabulary(frame) & (measure == "PPL"))
        texts = texts.mask(values == values.groupby(rivals).transform("min"), "<b>" + texts + "</b>")
        for mark, kind in (("+", "better"), ("-", "worse")) if measure == "WER" else ():
            texts = texts.mask(frame.mark == mark, f'<span class="{kind}">' + texts + "</span>")
        return texts

    return html(cells(results, style).rename(index=escape, columns=escape))


def certificate_of(model: Path) -> dict:
    path = Path(f"{model}.json")
    return read_certificate(path) if path.exists() else {}


def read_steps(part: Path, model: str) -> list[dict]:
    """The solver's, from the certificate."""
    steps = certificate_of(model_path(part, model)).get("steps", [])
    return [step for step in steps if step.get("l1") and {"iteration", "objective"} <= step.keys()]


def certificate_table(part: Path, out: Path) -> str:
    """One row per model."""
    rows = {}
    for path in sorted(part.glob("*/*.arpa.gz.json")):
        c = read_certificate(path)
        name = escape(str(path.relative_to(part)).removesuffix(".json"))
        steps = c.get("steps") or [{}]
        rows[f'<a href="{escape(relative(path, out))}">{name}</a>'] = {
            "made by": f"mdi {escape(c.get('command', ''))}",
            "n-grams": _number(sum(c["ngrams"]) if "ngrams" in c else None, ",d"),
            "worst |sum p - 1|": _number(c.get("worst_sum_gap"), ".1e"),
            "constraints": _number(c.get("constraints"), ",d"),
            "dropped": _number(sum(c["constraints_dropped"].values()) if "constraints_dropped" in c else None, ",d"),
            "iterations": _number(c.get("iterations"), "d"),
            "solver's L1": _number(steps[-1].get("l1"), ".2g"),
            "distance to targets": _number(c.get("distance_to_targets"), ".2g"),
            "KL to background": _number(c.get("kl_to_background"), ".3f"),
            "seconds": _number(c.get("seconds"), ".1f"),
            "MB": _number(c.get("peak_memory_mb"), ".0f"),
        }
    return html(pd.DataFrame.from_dict(rows, orient="index"))


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def moved(results: Results, part: Path, corpus: str, out: Path) -> dict | None:
    """What adaptation changed most, of the best model whose table of constraints was written: words of the domain, and
    n-grams of any kind."""
    frame = large(results, corpus)
    development = frame[frame.test_set == frame.test_set.iloc[0]].set_index("model")
    found = {}
    for path in (part / "mdi").glob("constraints.*.tsv.gz"):
        name = path.name.removeprefix("constraints.").removesuffix(".tsv.gz")
        model = name if name in development.index else f"mdi.{name}"
        if model in development.index:
            found[model] = path
    if not found:
        return None
    model = development.ppl[list(found)].idxmin()
    table = pd.read_csv(
        found[model], sep="\t", quoting=csv.QUOTE_NONE, na_filter=False, encoding_errors="surrogateescape"
    )
    about = f"of the model “{development.label[model]}”"
    if model != development.ppl.idxmin():
        about += f", the best on {frame.test_set.iloc[0]} of those for which the recipe writes this down"
    shares = table.head(SHOWN)
    shown = pd.DataFrame(
        {
            "seen": shares["count"].map("{:g}".format),
            "in the text": shares.target.map("{:.3g}".format),
            "before": shares.marginal_before.map("{:.3g}".format),
            "after": shares.marginal_after.map("{:.3g}".format),
            "change": (shares.marginal_after - shares.marginal_before).map("{:+.3g}".format),
            "factor": _factors(shares).map(lambda factor: f"{factor:.3g}" if factor < math.inf else ""),
            "lambda": shares["lambda"].map("{:.3f}".format),
        }
    ).set_index(shares.ngram.map(escape).rename(None))
    return {"about": about, "words": domain_words(table), "table": html(shown), "href": relative(found[model], out)}


def domain_words(table: pd.DataFrame) -> str:
    """Words that are far more likely than they were, the most frequent first: names and jargon, where the n-grams that
    move most are uh, yeah and the."""
    words = table[(table.order == 1) & (table["count"] >= SEEN)]
    words = words.assign(factor=_factors(words))
    words = words[(words.factor >= FACTOR) & ~words.ngram.isin((BOS, EOS, *UNKNOWN))]
    words = words.sort_values("count", ascending=False, kind="stable").head(SHOWN)
    shown = pd.DataFrame(
        {
            "seen": words["count"].map("{:,g}".format),
            "before": words.marginal_before.map(_one_in),
            "after": words.marginal_after.map(_one_in),
            "times as likely": words.factor.map(lambda factor: f"{factor:,.0f}" if factor < math.inf else ""),
        }
    ).set_index(words.ngram.map(escape).rename(None))
    return html(shown) if len(shown) else ""


def _factors(table: pd.DataFrame) -> pd.Series:
    """How much likelier than before; infinity from nothing."""
    return (table.marginal_after / table.marginal_before.where(table.marginal_before > 0)).fillna(math.inf)


def _one_in(share: float) -> str:
    return f"1 in {1 / share:,.0f}" if share > 0 else "never"


# ---- charts


def model_charts(results: Results, corpus: str, measure: str) -> "Iterator[charts.Figure]":
    """Perplexity or WER of every model, one chart per test set."""
    frame, column = results.frame, measure.lower()
    if measure == "PPL" and decodes_with_large(set(frame.model)):  # each of them once
        frame = frame[~frame.model.str.startswith(DECODING)]
    unit = "perplexity" if measure == "PPL" else "WER in % and 95% interval" + ", synthetic speech" * results.synthetic
    for test_set, rows in frame[(frame.corpus == corpus) & (frame[column] < math.inf)].groupby("test_set", sort=False):
        dots = []
        for row in rows.itertuples():
            value, mark, interval = getattr(row, column), "", None
            plain = row.model.removeprefix("first.").removeprefix("weighted.")
            colour = charts.REFERENCE if plain in ("in", "background", "interpolated", "default") else None
            if measure == "WER":
                mark, colour = row.mark, {"+": charts.BETTER, "-": charts.WORSE}.get(row.mark, colour)
                interval = (max(0.0, row.wer_low), row.wer_high) if pd.notna(row.wer_low) else None
            dots.append(
                charts.Dot(_full(row.model, row.label), value, f"{value:.1f}{mark}", interval, colour or charts.PLAIN)
            )
        yield charts.dot_chart(f"{corpus} {test_set}", unit, dots)


def sweep_charts(results: Results, part: Path, corpus: str) -> "Iterator[charts.Figure]":
    """Perplexity of the sweep against the number of constraints, other models as levels, and the search for the
    best."""
    frame = large(results, corpus)
    references = {"in": "In-domain", "interpolated": "Interpolation", "prior": "MDI, prior", "best": "Best"}
    sizes = {model: certificate_of(model_path(part, model)).get("constraints") for model in frame.model.unique()}
    for test_set, rows in frame.set_index("model").groupby("test_set", sort=False):
        swept = sorted((sizes[m], rows.ppl[m], m[4:]) for m in rows.index if m.startswith("mdi.") and sizes[m])
        levels = {label: rows.ppl[model] for model, label in references.items() if model in rows.index}
        if len(swept) > 1:
            line = charts.Line("MDI", *(list(part) for part in zip(*swept, strict=True)))
            yield charts.line_chart(
                f"{corpus} {test_set}", "constraints", "perplexity", [line], levels, log_x=line.x[-1] > 10 * line.x[0]
            )
    searched = Path(f"{model_path(part, 'best')}.search.tsv")
    if searched.exists():
        table = pd.read_csv(searched, sep="\t", dtype={"min_counts": str, "sigma2": str}, na_filter=False)
        ppl = frame[frame.test_set == frame.test_set.iloc[0]].set_index("model").ppl
        levels = {
            label: ppl[model] for model, label in references.items() if model in ("in", "interpolated") and model in ppl
        }
        yield charts.search_chart(table, levels)


def convergence_charts(results: Results, part: Path) -> "Iterator[charts.Figure]":
    lines, values = [], []
    found = results.frame.groupby("model", sort=False).label.first()
    if decodes_with_large(found.index):  # each of them once
        found = found[~found.index.str.startswith(DECODING)]
    for model, label in found.items():
        steps = read_steps(part, model)
        if len(steps) > 1:
            name, x = _full(model, label), [step["iteration"] for step in steps]
            lines.append(charts.Line(name, x, [step["l1"] for step in steps]))
            values.append(charts.Line(name, x, [step["objective"] for step in steps]))
    if lines:
        yield charts.line_chart("Solver's L1", "iteration", "L1", lines, log_y=True)
        yield charts.line_chart("Dual objective", "iteration", "nats per word", values)


def _full(model: str, label: str) -> str:
    kind = {"first": "first pass: ", "weighted": "LM weight: "}.get(model.split(".", 1)[0], "")
    return f"{kind}{label}"


# ---- the page


def page(results: Results, parts: list[Path], out: Path, command: str) -> str:
    import jinja2

    names = {corpus: part for corpus, part in corpora(parts).items() if len(large(results, corpus))}
    described = []
    for number, (corpus, part) in enumerate(names.items()):
        sections = [
            ("Word error rate", "", model_charts(results, corpus, "WER")),
            ("Perplexity", "An arrow marks a value that is far off the others.", model_charts(results, corpus, "PPL")),
            ("Thresholds, and the search for the best model", SETTINGS, sweep_charts(results, part, corpus)),
        ]
        described.append(
            {
                "name": corpus,
                "sections": [
                    {"title": title, "note": note, "charts": drawings(figures, f"c{number}-{at}")}
                    for at, (title, note, figures) in enumerate(sections)
                ],
                "convergence": drawings(convergence_charts(results, part), f"c{number}-{len(sections)}"),
                "new_words": list(new_words(results, part, corpus)),
                "listen": list(listen(results, part, corpus)),
                "moved": moved(results, part, corpus, out),
                "certificates": certificate_table(part, out),
                "whole": [
                    (str(path.relative_to(part)), _brief(path)) for path in sorted(part.glob("*/*.arpa.gz.json"))
                ],
            }
        )
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    tables = {"compared": comparison_cells(results), "learnt": new_word_cells(results), "paper": paper_cells(results)}
    return environment.get_template("report.html.j2").render(
        corpus=results.corpus,
        gains=[gains(results, part, corpus, out) for corpus, part in names.items()],
        synthetic=results.synthetic and results.spoken,
        date=f"{datetime.now():%d %B %Y, %H:%M}",
        version=version("mdi-lm"),
        command=command,
        sizes=[size for corpus, part in names.items() for size in sizes(results, part, corpus)],
        files=FILES.values(),
        table=html_table(results),
        **{
            name: html(table.rename(index=escape, columns=escape)) if len(table) else ""
            for name, table in tables.items()
        },
        perplexity=PERPLEXITY,
        word_error_rate=WORD_ERROR_RATE,
        spoken=results.spoken,
        notes=notes(results),
        parts=described,
    )


def drawings(figures: "Iterable[charts.Figure]", name: str) -> list[str]:
    return [charts.inline_svg(figure, f"{name}-{i}") for i, figure in enumerate(figures)]


def _brief(path: Path) -> str:
    certificate = {key: value for key, value in read_certificate(path).items() if key != "steps"}
    return json.dumps(certificate, indent=1, ensure_ascii=False)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", metavar="EXP", nargs="+", help="directory of a finished recipe")
    parser.add_argument("out", metavar="DIR", help="directory of the report; made if need be")
    parser.add_argument("--corpus", default="", help="ami, swbd or wsj: the paper's figures too (the directory's name)")
    parser.add_argument(
        "--synthetic", type=boolean, default=False, metavar="true|false", help="the speech is synthetic (false)"
    )
    parser.add_argument("--command", default="", metavar="TEXT", help="the command that made all this, for the page")
    args = parser.parse_args(argv)
    parts, out = [Path(part) for part in args.parts], Path(args.out)

    def work() -> None:
        results = collect(args.corpus or parts[0].name, parts, args.synthetic)
        out.mkdir(parents=True, exist_ok=True)
        for kind, name in FILES.items():
            write_file(out / name, FORMATS[kind](results))
        if not charts.available():
            raise MdiError(f"matplotlib is not installed, so there are tables only; for the page: {charts.HOW_TO_GET}")
        write_file(out / "index.html", page(results, parts, out, args.command))
        say(f"report: {out / 'index.html'}")

    return exit_code("utils/report.py", work)


if __name__ == "__main__":
    sys.exit(main())
