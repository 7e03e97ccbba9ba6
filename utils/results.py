#!/usr/bin/env python3
"""The paper's table of a finished recipe: perplexity and WER of first-pass and rescoring models, test set by test set.

    utils/results.py [--corpus NAME] [--format text|csv|markdown|latex] [--synthetic true|false] EXP...

EXP are folders such as exp/ami, or exp/demo/commons exp/demo/news. For ami, swbd and wsj the figures of the paper's
Table 1 stand below ours, with the differences.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from mdi.cli import boolean
from mdi.errors import MdiError, exit_code
from mdi.files import read_lines

SIGNIFICANT = 0.05
FIRST, LARGE = "First-pass LM", "Rescoring with large n-gram LM"

# Huang, Li, Arora, Povey and Khudanpur: Efficient MDI adaptation for n-gram language models. Interspeech 2020, Table 1:
# (PPL, WER) of the columns below; there is no WER without adaptation.
PAPER_COLUMNS = ("first.default", "first.mdi", "background", "interpolated", "mdi.2-2-2", "mdi.5-3-2", "mdi.6-4-3")
PAPER: dict[str, dict[str, list[tuple[float, float | None]]]] = {
    "ami": {
        "dev": [(84.6, 20.0), (84.3, 20.0), (384.1, None), (80.5, 19.6), (86.6, 19.4), (87.1, 19.4), (87.9, 19.4)],
        "eval": [(79.7, 20.2), (79.9, 20.2), (408.8, None), (77.5, 20.0), (81.8, 19.6), (82.8, 19.6), (83.9, 19.6)],
    },
    "swbd": {
        "dev": [(98.6, 12.5), (96.9, 12.0), (411.0, None), (92.7, 11.4), (94.5, 11.7), (95.1, 11.7), (95.8, 11.6)],
        "eval2000": [
            (179.2, 14.2),
            (117.5, 14.0),
            (161.6, None),
            (85.6, 13.4),
            (88.9, 13.2),
            (89.4, 13.2),
            (89.4, 13.2),
        ],
        "rt03": [(167.8, 17.3), (109.0, 17.2), (149.4, None), (78.6, 16.3), (82.2, 16.2), (82.7, 16.1), (82.7, 16.1)],
    },
    "wsj": {
        "dev93": [(186.6, 7.0), (161.3, 6.8), (223.3, None), (134.2, 6.3), (134.8, 6.2), (135.1, 6.3), (136.8, 6.3)],
        "eval92": [(164.8, 4.7), (142.7, 4.7), (222.2, None), (118.7, 4.0), (117.4, 3.9), (118.0, 3.9), (120.0, 3.9)],
    },
}


@dataclass(frozen=True)
class Column:
    name: str
    group: str
    label: str
    wer: bool = True  # whether lattices are made with this model


@dataclass(frozen=True)
class Wer:
    rate: float
    low: float | None = None
    high: float | None = None
    difference: float | None = None  # to the baseline: interpolation, or in the first pass the default model
    p: float | None = None
    scorer: str = "compute-wer"
    unit: str = "utterances"  # what the bootstrap draws
    test: str = ""  # what p comes from

    @property
    def mark(self) -> str:
        """+ significantly better than the baseline, - significantly worse"""
        if self.p is None or self.difference is None or self.p >= SIGNIFICANT or self.difference == 0:
            return ""
        return "+" if self.difference < 0 else "-"


@dataclass(frozen=True)
class Row:
    part: str
    test_set: str
    ppl: dict[str, float]
    oov: float
    wer: dict[str, Wer]


@dataclass(frozen=True)
class Results:
    corpus: str
    columns: list[Column]
    rows: list[Row]
    ngrams: dict[str, dict[str, int]]  # by part and column
    synthetic: bool
    rescored: bool = False  # first-pass models that did not decode


def columns(parts: list[Path]) -> list[Column]:
    """Those for which there is a perplexity or a WER, in the paper's order."""
    found = {path.stem for part in parts for path in (part / "ppl").glob("*.jsonl")}
    thresholds = sorted((name for name in found if name.startswith("mdi.")), key=lambda name: _numbers(name))
    known = [
        Column("first.default", FIRST, "default"),
        Column("first.mdi", FIRST, "MDI"),
        Column("first.best", FIRST, "Best"),
        Column("background", LARGE, "No adapt.", wer=False),
        Column("interpolated", LARGE, "Interpolation"),
        *(Column(name, LARGE, f"MDI ({name[4:]})") for name in thresholds),
        Column("prior", LARGE, "MDI, prior"),
        Column("best", LARGE, "Best"),
    ]
    return [column for column in known if column.name in found]


def _numbers(name: str) -> list[float]:
    return [float(number) for number in re.findall(r"[\d.]+", name.removeprefix("mdi."))]


def scored_folder(part: Path, column: str, test_set: str) -> Path:
    if column.startswith("first."):
        return part / "decode" / column.removeprefix("first.") / test_set
    return part / "rescore" / column / test_set


def read_wer(folder: Path) -> Wer | None:
    """What steps/score.sh left in a folder, by either backend."""
    best = folder / "scoring_kaldi" / "best_wer"
    if not best.exists():
        return None
    line = best.read_text()
    match = re.search(r"%WER ([\d.]+)", line)
    if not match:
        raise MdiError(f"{best}: no %WER in it; score again (stage 7)")
    details = folder / "scoring_kaldi" / "wer_details"
    report = re.search(r"(_o\d+)?\.ctm\.filt\.sys$", line.strip())  # asclite's name the number of overlapping speakers
    scorer = ("asclite" if report[1] else "sclite") if report else Wer.scorer
    unit, test = "speakers" if report else Wer.unit, ""
    low = high = difference = p = None
    if (details / "wer_bootci").exists():
        interval = re.search(r"\[ ([\d.-]+), ([\d.-]+) \]", (details / "wer_bootci").read_text())
        low, high = (float(interval[1]), float(interval[2])) if interval else (None, None)
    if (details / "comparison").exists():
        text = (details / "comparison").read_text()
        tested = re.search(r"Difference of the WERs: ([+-][\d.]+), p = ([\d.]+)", text)
        means, better = re.findall(r"%WER ([\d.]+)", text), re.search(r"improving Set1: ([\d.]+)", text)
        if tested:
            difference, p, test = float(tested[1]), float(tested[2]), "paired permutation test"
        elif better and len(means) == 2:  # Kaldi's compute-wer-bootci: how often of 100 the second was better
            difference, p = (
                float(means[1]) - float(means[0]),
                min(1.0, 2 * min(float(better[1]), 100 - float(better[1])) / 100),
            )
            test = "paired bootstrap"
    return Wer(float(match[1]), low, high, difference, p, scorer, unit, test)


def read_ngrams(part: Path, column: str) -> int | None:
    """From the certificate beside the model, or from the ARPA's header."""
    where = {"background": "lm/background", "interpolated": "lm/interpolated"}
    if column.startswith("first."):
        where[column] = column.replace(".", "/")
    model = part / f"{where.get(column, f'mdi/{column}')}.arpa.gz"
    if not model.exists() and column in ("first.default", "background"):
        model = Path("data", *part.parts[1:], f"{column.removeprefix('first.')}.arpa.gz")
    certificate = Path(f"{model}.json")
    if certificate.exists():
        return sum(json.loads(certificate.read_text())["ngrams"])
    if not model.exists():
        return None
    total = 0
    for line in read_lines(str(model)):
        if line.startswith(b"ngram "):
            total += int(line.split(b"=")[1])
        elif line.startswith(b"\\1-grams"):
            break
    return total


def collect(corpus: str, parts: list[Path], synthetic: bool = False) -> Results:
    chosen = columns(parts)
    if not chosen:
        raise MdiError(f"{', '.join(map(str, parts))}: no ppl/*.jsonl; stage 7 makes them: run ./run.sh --stage 7")
    rows = []
    for part in parts:
        name = part.name
        ppl: dict[str, dict[str, dict]] = {}
        for column in chosen:
            path = part / "ppl" / f"{column.name}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else ():
                entry = json.loads(line)
                ppl.setdefault(Path(entry["text"]).name.split(".")[0], {})[column.name] = entry
        for test_set, found in ppl.items():
            wers = {
                column.name: read_wer(scored_folder(part, column.name, test_set)) for column in chosen if column.wer
            }
            some = next(iter(found.values()))
            rows.append(
                Row(
                    name, test_set, {column: entry["ppl"] for column, entry in found.items()},
                    some["oov"] / max(1, some["words"]), {column: wer for column, wer in wers.items() if wer},
                )
            )  # fmt: skip
    ngrams = {part.name: {c.name: n for c in chosen if (n := read_ngrams(part, c.name)) is not None} for part in parts}
    rescored = any(found for part in parts for found in (part / "decode").glob("*/*/rescored"))
    return Results(corpus, chosen, rows, ngrams, synthetic, rescored)


def paper_row(results: Results, row: Row) -> dict[str, tuple[float, float | None]] | None:
    figures = PAPER.get(results.corpus, {}).get(row.test_set)
    return dict(zip(PAPER_COLUMNS, figures, strict=True)) if figures else None


# ---- the table as rows of cells; every writer below has only to lay them out


def fields(results: Results) -> list[tuple[Column, str]]:
    """(column, "PPL" or "WER") for every column of figures"""
    spoken = any(row.wer for row in results.rows)
    return [(c, what) for c in results.columns for what in ("PPL", "WER") if what == "PPL" or (c.wer and spoken)]


def lines(results: Results) -> list[list[str]]:
    """Rows of strings: part, test set, then a cell for each of `fields`."""
    out = []
    for row in results.rows:
        out.append([row.part, row.test_set, *(_ours(row, column.name, what) for column, what in fields(results))])
        intervals = ["" if what == "PPL" else _interval(row.wer.get(c.name)) for c, what in fields(results)]
        if any(intervals):
            out.append(["", "95%", *intervals])
        paper = paper_row(results, row)
        if paper:
            out.append(["", "paper", *(_paper(paper, c.name, what) for c, what in fields(results))])
            out.append(["", "difference", *(_difference(row, paper, c.name, what) for c, what in fields(results))])
    for part, counts in results.ngrams.items():
        cells = [_amount(counts[c.name]) if what == "PPL" and c.name in counts else "" for c, what in fields(results)]
        out.append([part, "n-grams", *cells])
    return out


def _ours(row: Row, column: str, what: str) -> str:
    if what == "PPL":
        return f"{row.ppl[column]:.1f}" if column in row.ppl else "-"
    wer = row.wer.get(column)
    return f"{wer.rate:.1f}{wer.mark}" if wer else "-"


def _interval(wer: Wer | None) -> str:
    return f"{max(0.0, wer.low):.1f}-{wer.high:.1f}" if wer and wer.low is not None else ""


def _paper(paper: dict, column: str, what: str) -> str:
    value = paper.get(column, (None, None))[what == "WER"]
    return f"{value:.1f}" if value is not None else "-"


def _difference(row: Row, paper: dict, column: str, what: str) -> str:
    value = paper.get(column, (None, None))[what == "WER"]
    ours = row.ppl.get(column) if what == "PPL" else row.wer[column].rate if column in row.wer else None
    return f"{ours - value:+.1f}" if value is not None and ours is not None else "-"


def _amount(n: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return str(n)


def _told(results: Results, what: str) -> str:
    """How the WERs were obtained; with the names of the test sets where it is not the same for all."""
    sets: dict[str, list[str]] = {}
    for row in results.rows:
        for value in {getattr(wer, what) for wer in row.wer.values()} - {""}:
            sets.setdefault(value, []).append(row.test_set)
    return (
        " and ".join(sets) if len(sets) < 2 else " and ".join(f"{v} ({', '.join(names)})" for v, names in sets.items())
    )


def notes(results: Results) -> list[str]:
    out = []
    if any(row.wer for row in results.rows):
        out.append(
            f"WER in %, counted as by {_told(results, 'scorer')}, LM weight and penalty chosen on "
            f"{results.rows[0].test_set}; 95%"
            f" intervals by bootstrap over {_told(results, 'unit')}."
        )
        if tested := _told(results, "test"):
            out[-1] += (
                f" + significantly better than the baseline (interpolation; in the first pass the default), - "
                f"significantly"
                f" worse: {tested}, p < {SIGNIFICANT}, not corrected for the number of comparisons."
            )
        if results.synthetic:
            out.append(
                "The speech is SYNTHETIC (text to speech): these WERs compare language models, and say nothing of "
                "real speech."
            )
    if any(column.name == "first.best" for column in results.columns):
        out.append(
            "First pass: MDI has the n-grams of the default model and the marginals of the interpolated one (mdi "
            "match); Best is"
            " the best model below, cut down to that size (mdi prune) and matched to itself as it was."
        )
        if results.rescored:
            out[-1] += (
                " Their WERs are of the default model's lattices with these models in it: there was nothing to "
                "decode with."
            )
    if any(column.name == "best" for column in results.columns):
        out.append(
            "MDI, prior: all n-grams constrained, Gaussian prior on lambda. Best: thresholds, prior and mixture "
            "with in-domain"
            " and background models chosen on the development text (mdi tune), so its development figures are "
            "tuned ones."
        )
    if results.corpus in PAPER:
        out.append("paper: Huang et al., Interspeech 2020, Table 1.")
    rates = ", ".join(f"{row.part} {row.test_set} {100 * row.oov:.2f}%" for row in results.rows)
    out.append(f"Words outside the vocabulary, scored as <unk>: {rates}.")
    return out


def as_text(results: Results) -> str:
    head, body = _headers(results), lines(results)
    table = [*head, *body]
    widths = [
        max(len(row[i]) for row in table if not (row is head[0] or row is head[1]) or i < 2)
        for i in range(len(table[0]))
    ]
    spans = _spans(results)
    # a label that spans two columns must fit over them
    for start, stop, label in spans:
        room = sum(widths[start:stop]) + stop - start - 1
        if len(label) > room:
            widths[stop - 1] += len(label) - room
    out = []
    groups = {}
    for start, stop, _ in spans:
        group = results_group(results, start)
        groups[group] = (groups.get(group, (start, 0))[0], stop)
    out.append(_laid_out([(0, 2, "")] + [(a, b, group) for group, (a, b) in groups.items()], widths))
    out.append(_laid_out([(0, 2, ""), *spans], widths))
    out.append(
        " ".join(
            f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(head[2], widths, strict=True))
        )
    )
    out.append("-" * len(out[-1]))
    for row in body:
        out.append(
            " ".join(
                f"{c:<{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
        )
    return "\n".join([*out, "", *notes(results)]) + "\n"


def results_group(results: Results, at: int) -> str:
    return fields(results)[at - 2][0].group


def _spans(results: Results) -> list[tuple[int, int, str]]:
    """(first cell, cell after the last, label) for every column of the paper"""
    out: list[tuple[int, int, str]] = []
    for i, (column, _) in enumerate(fields(results), 2):
        if out and out[-1][2] == column.label and fields(results)[i - 3][0] is column:
            out[-1] = (out[-1][0], i + 1, column.label)
        else:
            out.append((i, i + 1, column.label))
    return out


def _laid_out(spans: list[tuple[int, int, str]], widths: list[int]) -> str:
    return " ".join(f"{label:^{sum(widths[a:b]) + b - a - 1}}" for a, b, label in spans).rstrip()


def _headers(results: Results) -> list[list[str]]:
    wanted = fields(results)
    return [
        ["", "", *(column.group for column, _ in wanted)],
        ["", "", *(column.label for column, _ in wanted)],
        ["corpus", "test set", *(what for _, what in wanted)],
    ]


def as_csv(results: Results) -> str:
    """One line a figure: to be read by programs."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        [
            "corpus",
            "test_set",
            "model",
            "label",
            "ngrams",
            "ppl",
            "wer",
            "wer_low",
            "wer_high",
            "p",
            "paper_ppl",
            "paper_wer",
        ]
    )
    for row in results.rows:
        paper = paper_row(results, row) or {}
        for column in results.columns:
            wer = row.wer.get(column.name)
            writer.writerow([
                row.part, row.test_set, column.name, f"{column.group}: {column.label}",
                results.ngrams[row.part].get(column.name, ""),
                f"{row.ppl[column.name]:.4f}" if column.name in row.ppl else "",
                *([f"{wer.rate:.2f}", _or_empty(wer.low), _or_empty(wer.high), _or_empty(wer.p, 4)] if wer else [""] * 4),
                *("" if x is None else x for x in paper.get(column.name, (None, None))),
            ])  # fmt: skip
    return stream.getvalue()


def _or_empty(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def as_markdown(results: Results) -> str:
    head = ["corpus", "test set", *(f"{column.label} {what}" for column, what in fields(results))]
    rows = [head, ["---", "---", *("---:" for _ in head[2:])], *lines(results)]
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", *notes(results)]) + "\n"


def as_latex(results: Results) -> str:
    def safe(text: str) -> str:
        return re.sub(r"([%&_#$])", r"\\\1", text)

    spans = _spans(results)
    groups: dict[str, int] = {}
    for column, _ in fields(results):
        groups[column.group] = groups.get(column.group, 0) + 1
    wide = [f"\\multicolumn{{{n}}}{{c}}{{{group}}}" for group, n in groups.items()]
    over = [f"\\multicolumn{{{b - a}}}{{c}}{{{safe(label)}}}" for a, b, label in spans]
    body = [" & ".join(map(safe, row)) + " \\\\" for row in lines(results)]
    return "\n".join([
        f"\\begin{{tabular}}{{ll{'r' * len(fields(results))}}}", "\\hline",
        " & & " + " & ".join(wide) + " \\\\", " & & " + " & ".join(over) + " \\\\",
        "Corpus & Test set & " + " & ".join(what for _, what in fields(results)) + " \\\\", "\\hline", *body, "\\hline",
        "\\end{tabular}", *(f"% {note}" for note in notes(results)),
    ]) + "\n"  # fmt: skip


FORMATS = {"text": as_text, "csv": as_csv, "markdown": as_markdown, "latex": as_latex}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", metavar="EXP", nargs="+", help="folder of a finished recipe")
    parser.add_argument("--corpus", default="", help="ami, swbd or wsj: the paper's figures too (the folder's name)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="(text)")
    parser.add_argument(
        "--synthetic", type=boolean, default=False, metavar="true|false", help="the speech is synthetic (false)"
    )
    args = parser.parse_args(argv)
    parts = [Path(part) for part in args.parts]

    def work() -> None:
        print(FORMATS[args.format](collect(args.corpus or parts[0].name, parts, args.synthetic)), end="")

    return exit_code("utils/results.py", work)


if __name__ == "__main__":
    sys.exit(main())
