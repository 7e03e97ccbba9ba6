#!/usr/bin/env python3
"""The paper's table of a finished recipe: perplexity and WER of first-pass and rescoring models, test set by test set.

    utils/results.py [--corpus NAME] [--format text|csv|markdown|latex] [--synthetic true|false] EXP...

EXP are folders such as exp/ami, or exp/demo/commons exp/demo/news. One row per model and one group of columns per test
set. For ami, swbd and wsj the figures of the paper's Table 1 follow, with the differences.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from recipe_files import (
    BASELINES,
    DECODING,
    SIGNIFICANT,
    corpora,
    data_folder,
    model_path,
    read_ngrams,
    read_perplexities,
    read_wer,
    scored_folder,
)
from word_recall import NewWords, read_new_words, recall

from mdi.arguments import boolean
from mdi.errors import MdiError, exit_code
from mdi.speech.data import read_text

WHOLE = ("ngrams", "words", "oov")
COMPARED = tuple(f"{what}_{baseline}" for baseline in BASELINES for what in ("difference", "p"))
# of new words: how often they were said, how many of these were added, heard rightly, and where nobody said them
NEW_WORDS = ("new_said", "new_added", "new_right", "new_false")
NUMBERS = ("ppl", "wer", "wer_low", "wer_high", "difference", "p", *COMPARED, "paper_ppl", "paper_wer")
NUMBERS += ("wer_with_new", "wer_without_new")  # of utterances with and without new words
TEXTS = ("mark", "scorer", "unit", "test")  # of the WER, as in class Wer
COLUMNS = ("corpus", "test_set", "model", "group", "label", *WHOLE, *NUMBERS, *NEW_WORDS, *TEXTS)

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


# in half a sentence each, for those who read about them here first
PERPLEXITY = "perplexity; a word is as hard to predict as one drawn from so many equally likely ones. Lower is better."
WORD_ERROR_RATE = "word error rate; words that are wrong, missing or too many, of 100 that were said."


@dataclass(frozen=True)
class Results:
    """`frame` has a row for every model on every test set, with the COLUMNS; what is unknown is missing (NaN, "")."""

    corpus: str
    frame: pd.DataFrame
    synthetic: bool
    rescored: bool  # first-pass models that did not decode
    added: int = 0  # new words of the recogniser

    @property
    def spoken(self) -> bool:
        return bool(self.frame.wer.notna().any())


def labels(parts: list[Path]) -> dict[str, str]:
    """The models for which there is a perplexity, in the paper's order, and what the table calls them."""
    found = {path.stem for part in parts for path in (part / "ppl").glob("*.jsonl")}
    thresholds = sorted((name for name in found if name.startswith("mdi.")), key=_numbers)
    if any((part / "heard").is_dir() for part in parts):  # libvosk's: the same models at another LM weight
        found |= {name.replace("first.", "weighted.", 1) for name in found if name.startswith("first.")}
    decoding = {
        "default": "default",
        "mdi": "MDI",
        "interpolated": "Interpolation",
        **{name: f"MDI ({name[4:]})" for name in thresholds},
        "prior": "MDI, prior",
        "best": "Best",
        "new_words": "MDI, new words",
    }
    known = {
        **{f"{group}{name}": label for group in DECODING for name, label in decoding.items()},
        "background": "No adapt.",
        "in": "In-domain",
        "interpolated": "Interpolation",
        **{name: f"MDI ({name[4:]})" for name in thresholds},
        "prior": "MDI, prior",
        "best": "Best",
    }
    return {name: label for name, label in known.items() if name in found}


def _numbers(name: str) -> list[float]:
    return [float(number) for number in re.findall(r"[\d.]+", name.removeprefix("mdi."))]


def _recall_row(new_words: NewWords, folder: Path) -> dict:
    """Its columns of the frame; none where sclite has scored."""
    from listen import hypotheses

    heard, said = hypotheses(folder), folder / "scoring_kaldi" / "test_filt.txt"
    if not heard or not said.exists():
        return {}
    found = recall(new_words, read_text(said), heard)
    counts = (found.said, new_words.in_text(found.said), found.right, found.false)
    return {
        **dict(zip(NEW_WORDS, (sum(count.values()) for count in counts), strict=True)),
        "wer_with_new": found.wer_with,
        "wer_without_new": found.wer_without,
    }


def collect(corpus: str, parts: list[Path], synthetic: bool = False) -> Results:
    rows, added = [], 0
    for name, part in corpora(parts).items():
        new_words = read_new_words(part, data_folder(part))
        added += new_words.added if new_words else 0
        for model, label in labels(parts).items():
            path = part / "ppl" / f"{model.replace('weighted.', 'first.', 1)}.jsonl"
            ngrams = read_ngrams(model_path(part, model))
            for entry in read_perplexities(path):
                test_set = Path(entry["text"]).name.split(".")[0]
                row = {"corpus": name, "test_set": test_set, "model": model, "label": label, "ngrams": ngrams}
                row |= {key: entry[key] for key in ("words", "oov", "ppl")}
                if test_set in PAPER.get(corpus, {}):
                    published = dict(zip(PAPER_COLUMNS, PAPER[corpus][test_set], strict=True))
                    row["paper_ppl"], row["paper_wer"] = published.get(model, (None, None))
                if wer := read_wer(scored_folder(part, model, test_set)):
                    row |= wer.row("default" if model.startswith(DECODING) else "interpolated")
                    if new_words:
                        row |= _recall_row(new_words, scored_folder(part, model, test_set))
                rows.append(row)
    if not rows:
        raise MdiError(f"{', '.join(map(str, parts))}: no ppl/*.jsonl; stage 7 makes them: run ./run.sh --stage 7")
    kinds = {
        **dict.fromkeys((*WHOLE, *NEW_WORDS), "Int64"),
        **dict.fromkeys(NUMBERS, float),
        **dict.fromkeys(TEXTS, object),
    }
    frame = pd.DataFrame(rows, columns=COLUMNS).astype(kinds)
    frame[[*TEXTS]] = frame[[*TEXTS]].fillna("")
    decodes = frame.model.str.startswith(DECODING)
    frame["group"] = "Rescoring" if frame[~decodes].wer.any() else "Large models"
    frame.loc[decodes, "group"] = "First pass"
    frame.loc[frame.model.str.startswith("weighted."), "group"] = "LM weight"
    # test set by test set, each in the order in which it was found
    frame = frame.sort_values(["corpus", "test_set"], key=lambda column: pd.factorize(column)[0], kind="stable")
    rescored = any(found for part in parts for found in (part / "decode").glob("*/*/rescored"))
    return Results(corpus, frame.reset_index(drop=True), synthetic, rescored, added)


def other_vocabulary(frame: pd.DataFrame) -> pd.Series:
    """Rows of a model that knows more words than the others: its perplexity is not to be compared with theirs."""
    return frame.model.str.endswith(".new_words")


def wide(results: Results, measures: dict[str, pd.Series]) -> pd.DataFrame:
    """Texts for each row of the frame as a table: one row per model, one group of columns per test set."""
    keys = results.frame[["corpus", "group", "label", "test_set"]]
    rows, sets = pd.MultiIndex.from_frame(keys.iloc[:, :3].drop_duplicates(), names=[None] * 3), keys.test_set.unique()
    table = pd.concat([keys, pd.DataFrame(measures)], axis=1).set_index(list(keys)).unstack("test_set")
    columns = pd.MultiIndex.from_product([sets, list(measures)])
    table = table.swaplevel(axis=1).reindex(rows, axis=0).reindex(columns, axis=1).fillna("")
    return table.loc[:, (table != "").any()]


def cells(
    results: Results, style: Callable[[str, pd.Series], pd.Series] = lambda measure, texts: texts
) -> pd.DataFrame:
    """The table: perplexity, WER and its interval, n-grams. `style` dresses up the texts of a measure."""
    frame = results.frame
    pad = " " if frame.mark.any() else ""  # so that figures with and without a mark are aligned
    starred = other_vocabulary(frame)
    measures = {
        "PPL": _written(frame.ppl, "{:.1f}") + starred.map({True: "*", False: " " if starred.any() else ""}),
        "WER": _written(frame.wer, "{:.1f}") + frame.mark.where(frame.mark != "", pad).where(frame.wer.notna(), ""),
        "95%": _written(frame.wer_low.clip(lower=0), "{:.1f}-") + _written(frame.wer_high, "{:.1f}"),
    }
    table = wide(results, {measure: style(measure, texts) for measure, texts in measures.items()})
    table["", "n-grams"] = _written(frame.groupby(["corpus", "group", "label"]).ngrams.first(), amount)
    return table


def comparison_cells(results: Results) -> pd.DataFrame:
    """WERs less those of each baseline, in points and in per cent of the baseline's, and p; of the development set only
    where there is no other. Empty where no model was compared with more than one."""
    frame = results.frame
    if frame.test_set.nunique() > 1:
        frame = frame[frame.test_set != frame.test_set.iloc[0]]
        results = replace(results, frame=frame)
    if not frame[[f"p_{baseline}" for baseline in BASELINES]].notna().all(axis=1).any():
        return pd.DataFrame()
    measures = {}
    for baseline, name in BASELINES.items():
        difference, p = frame[f"difference_{baseline}"], frame[f"p_{baseline}"]
        relative = 100 * difference / (frame.wer - difference).where(frame.wer > difference)  # none of nothing
        measures[f"against {name}"] = _written(difference, "{:+.1f}") + _written(relative, " ({:+.1f}%)")
        measures[f"p ({name})"] = _written(p, "{:.4f}")
    table = wide(results, measures)
    return table[(table != "").any(axis=1)]


def new_word_cells(results: Results) -> pd.DataFrame:
    """New words of the test sets but the development set, if there is another one: how each model does on them. Empty
    where no word was added."""
    frame = results.frame
    if frame.test_set.nunique() > 1:
        frame = frame[frame.test_set != frame.test_set.iloc[0]]
    frame = frame[frame.new_said.notna() & frame.model.str.startswith("first.")]
    if frame.empty:
        return pd.DataFrame()
    measures = {
        "new words said": _written(frame.new_said, "{:,}"),
        "added": _written(frame.new_added, "{:,}"),
        "recognised": _written(frame.new_right, "{:,}"),
        "missed": _written(frame.new_said - frame.new_right, "{:,}"),
        "false": _written(frame.new_false, "{:,}"),
        "WER with": _written(frame.wer_with_new, "{:.1f}"),
        "WER without": _written(frame.wer_without_new, "{:.1f}"),
    }
    return wide(replace(results, frame=frame), measures)


def paper_cells(results: Results) -> pd.DataFrame:
    """The paper's figures, and ours minus those. Empty for a corpus that is not the paper's."""
    frame = results.frame
    measures = {}
    for name, ours, published in (("PPL", frame.ppl, frame.paper_ppl), ("WER", frame.wer, frame.paper_wer)):
        measures[f"{name} paper"] = _written(published, "{:.1f}")
        measures[f"{name} diff."] = _written(ours - published, "{:+.1f}")
    table = wide(results, measures)
    return table[(table != "").any(axis=1)]


def _written(column: pd.Series, form: str | Callable[[float], str]) -> pd.Series:
    """Numbers as text, nothing for what is missing."""
    write = form.format if isinstance(form, str) else form
    return column.map(lambda value: "" if pd.isna(value) else write(value)).astype(object)


def amount(n: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return f"{n:.0f}"


def _told(results: Results, what: str) -> str:
    """How the WERs were obtained; with the names of the test sets where it is not the same for all."""
    sets = results.frame[results.frame[what] != ""].groupby(what, sort=False).test_set.unique()
    return " and ".join(sets.index if len(sets) < 2 else (f"{value} ({', '.join(of)})" for value, of in sets.items()))


def notes(results: Results) -> list[str]:
    """What the table's words mean, for readers who have not made it."""
    frame = results.frame
    models = set(frame.model)
    out = [f"PPL: {PERPLEXITY}"]
    if results.spoken:
        out.append(
            f"WER: {WORD_ERROR_RATE} In %, counted as by {_told(results, 'scorer')}, LM weight and penalty chosen on "
            f"{frame.test_set.iloc[0]}; 95% intervals by bootstrap over {_told(results, 'unit')}."
        )
        if tested := _told(results, "test"):
            out[-1] += (
                f" + significantly better than the baseline (interpolation; in the first pass the default model), "
                f"- significantly worse: {tested}, p < {SIGNIFICANT}, not corrected for the number of comparisons."
            )
        if results.synthetic:
            out.append(
                "The speech is SYNTHETIC (text to speech): these WERs compare language models, and say nothing of "
                "real speech."
            )
    if any(model.startswith("weighted.") for model in models):
        out.append(
            "First pass: what libvosk says with each model, at its own LM weight. LM weight: the n-best lists of that, "
            "each at the LM weight and penalty that are best on the development set. Rescoring: those of the default "
            "model with the scores of another one, the same way."
        )
    if "first.best" in models and not decodes_with_large(models):
        out.append(
            "First pass: MDI has the n-grams of the default model and the word statistics of the interpolated one (mdi "
            "match); Best is the best model below, cut down to that size (mdi prune) and matched to itself as it was."
        )
        if results.rescored:
            out[-1] += (
                " Their WERs are of the default model's lattices with these models in it: there was nothing to "
                "decode with."
            )
    meanings = {
        "first.default": f"default: {default_model(models)}.",
        "background": "No adapt.: the background alone, the model that is adapted, as it was.",
        "in": "In-domain: a model of the in-domain text alone.",
        "interpolated": "Interpolation: of background and in-domain model, weights tuned on the development text.",
        "prior": "MDI, prior: adapted to every n-gram of the in-domain text, to rare ones with caution (the prior).",
        "best": "Best: thresholds, prior and mixture with in-domain and background models chosen on the development "
        "text (mdi tune), so its development figures are tuned ones.",
    }
    if any(model.startswith("mdi.") for model in models):
        meanings["interpolated"] += " MDI (N-N-N): adapted to the 1-, 2- and 3-grams that are seen at least so often."
    out.append(" ".join(meaning for model, meaning in meanings.items() if model in models))
    if "first.new_words" in models:
        out.append(
            f"* MDI, new words: over ANOTHER VOCABULARY. As MDI, prior, and {results.added:,} words of the in-domain "
            f"text that the recogniser does not know were added to its graph and language model (mdi vosk adapt). Its "
            f"perplexity counts words that the others leave out, and is not to be compared with theirs; its WER is."
        )
    if len(new_word_cells(results)):
        out.append(
            "New words: those that the recogniser did not know before. Added: how many of them are in the in-domain "
            "text, too, and were added to the recogniser. False: heard where nobody said them. WER with, without: of "
            "the utterances with new words, and of the others."
        )
    if results.corpus in PAPER:
        out.append("paper: Huang et al., Interspeech 2020, Table 1; diff.: ours minus the paper's.")
    rates = frame.groupby(["corpus", "test_set"], sort=False)[["oov", "words"]].first()
    shown = ", ".join(f"{' '.join(key)} {oov / max(1, words):.2%}" for key, oov, words in rates.itertuples())
    out.append(f"Words outside the vocabulary, scored as <unk>, or left out by models that have none: {shown}.")
    return out


def decodes_with_large(models: Collection[str]) -> bool:
    """Whether the first pass is libvosk's, which decodes with the large models."""
    return "first.interpolated" in models


def default_model(models: Collection[str]) -> str:
    """What the default of the first pass is."""
    if decodes_with_large(models):
        return "the recogniser with its own language model, as it was"
    return "the small language model that the recogniser decodes with, as it was"


def _tables(results: Results) -> list[pd.DataFrame]:
    tables = (cells(results), comparison_cells(results), new_word_cells(results), paper_cells(results))
    return [table for table in tables if len(table)]


def as_text(results: Results) -> str:
    tables = [table.to_string() for table in _tables(results)]
    tables = ["\n".join(line.rstrip() for line in table.splitlines()) for table in tables]
    return "\n\n".join([*tables, "\n".join(textwrap.fill(note, 110) for note in notes(results))]) + "\n"


def as_csv(results: Results) -> str:
    """One line for each model and test set, to be read by programs."""
    frame = results.frame.drop(columns=list(TEXTS))
    return frame.round({"ppl": 4}).to_csv(index=False, lineterminator="\n")


def as_markdown(results: Results) -> str:
    out = []
    for table in _tables(results):
        flat = table.set_axis([" ".join(column).strip() for column in table.columns], axis=1)
        flat = flat.reset_index(names=["corpus", "", "model"])
        align = ["left"] * 3 + ["right"] * (len(flat.columns) - 3)
        out.append(flat.to_markdown(index=False, disable_numparse=True, colalign=align))
    return "\n\n".join([*out, *notes(results)]) + "\n"


def html(table: pd.DataFrame) -> str:
    """Cells and labels are HTML already. A corpus that is the only one is not named in every row."""
    if table.index.nlevels == 3 and table.index.get_level_values(0).nunique() == 1:
        table = table.droplevel(0)
    return table.to_html(escape=False, border=0, classes="")


def as_latex(results: Results) -> str:
    tables = [
        table.to_latex(
            escape=True, multirow=False, multicolumn_format="c", column_format="lll" + "r" * len(table.columns)
        )
        for table in _tables(results)
    ]
    return "\n".join(["% \\usepackage{booktabs}", *tables, *(f"% {note}" for note in notes(results))]) + "\n"


FORMATS = {"text": as_text, "csv": as_csv, "markdown": as_markdown, "latex": as_latex}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", metavar="EXP", nargs="+", help="directory of a finished recipe")
    parser.add_argument("--corpus", default="", help="ami, swbd or wsj: the paper's figures too (the directory's name)")
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
