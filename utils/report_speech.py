"""The parts of the report page that one can listen to: utterances that are understood differently, and new words with
their pronunciations."""

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import pandas as pd
from listen import drawn, examples, heard_by
from recipe_files import data_folder, scored_folder
from results import Results, decodes_with_large, html
from word_recall import NewWords, Recall, read_new_words, recall

from mdi.speech.given import OR


def spoken_sets(results: Results, corpus: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """(name, rows by model) of every test set with WERs but the development set, unless it is the only one."""
    frame = results.frame[(results.frame.corpus == corpus) & results.frame.wer.notna()]
    for test_set in list(frame.test_set.unique())[1:] or list(frame.test_set.unique()):
        yield test_set, frame[frame.test_set == test_set].set_index("model")


def systems(rows: pd.DataFrame, part: Path, test_set: str, models: Iterable[str]) -> dict[str, Path]:
    """Scored folders of the models that there are, by their labels."""
    return {rows.label[m]: scored_folder(part, m, test_set) for m in models if m in rows.index}


def listen(results: Results, part: Path, corpus: str) -> Iterator[dict]:
    """Utterances of every test set that are understood differently, if there is speech."""
    for test_set, rows in spoken_sets(results, corpus):
        prefix = "first." if decodes_with_large(rows.index) else ""
        models = ["first.default", *(f"{prefix}{model}" for model in ("interpolated", "prior", "best"))]
        heard = heard_by(systems(rows, part, test_set, models))
        differ = heard.differ()
        if differ:
            shown = examples(data_folder(part) / "speech" / test_set, heard, drawn(differ))
            yield {"test_set": test_set, "examples": shown, "differ": len(differ), "total": len(heard.utterances)}


def new_words(results: Results, part: Path, corpus: str) -> Iterator[dict]:
    """Of every test set, the words that the recogniser has learnt: how each is said, and whether it was recognised."""
    learnt = read_new_words(part, data_folder(part))
    for test_set, rows in spoken_sets(results, corpus) if learnt else ():
        taught = next((m for m in ("first.new_words", "first.best", "best") if m in rows.index), None)
        if taught is None or pd.isna(rows.new_said[taught]):
            continue
        models = ["first.default", *(["first.prior"] if taught == "first.new_words" else []), taught]
        heard = heard_by(systems(rows, part, test_set, models))
        found = recall(learnt, heard.references, heard.models[rows.label[taught]])
        said = {u: learnt.among(heard.references[u]) for u in heard.utterances}
        right = {u for u in said if said[u] and not said[u] - learnt.among(heard.models[rows.label[taught]][u])}
        missed = [u for u in said if said[u] and u not in right]
        strange = [u for u in said if u not in missed and learnt.among(heard.models[rows.label[taught]][u]) - said[u]]
        data = data_folder(part) / "speech" / test_set
        groups = (("Recognised", right, 8), ("Missed", missed, 8), ("Heard where nobody said it", strange, 4))
        yield {
            "test_set": test_set,
            "label": rows.label[taught],
            "found": found,
            "in_text": sum(learnt.in_text(found.said).values()),
            "added": learnt.added,
            "table": word_table(learnt, found),
            "groups": [
                {"title": title, "total": len(of), "examples": examples(data, heard, drawn(of, n), found.said)}
                for title, of, n in groups
                if of
            ],
        }


def word_table(learnt: NewWords, found: Recall) -> str:
    """The new words that were said or heard, the most frequent first."""
    words = sorted(found.said | found.false, key=lambda word: (-found.said[word], -found.false[word], word))
    rows = {}
    for word in words:
        row = learnt.rows.get(word)
        rows[escape(word)] = {
            "said": str(found.said[word] or ""),
            "recognised": str(found.right[word] or ("0" if found.said[word] else "")),
            "missed": str((found.said - found.right)[word] or ""),
            "false": str(found.false[word] or ""),
            "in the text": f"{row.count:,}" if row else "<i>not in it</i>",
            "sounds like": _lines(row.sounds_like) if row else "",
            "in phones": f"<small>{_lines(row.pronunciations)}</small>" if row else "",
            "": "uncertain" if row and row.added and row.uncertain else "",
        }
    return html(pd.DataFrame.from_dict(rows, orient="index")) if rows else ""


def _lines(ways: str) -> str:
    """Alternatives below each other."""
    return escape(ways).replace(f" {OR} ", "<br>")
