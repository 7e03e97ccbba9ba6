#!/usr/bin/env python3
"""The example notebook: its cells are below, and this runs them and writes what they show beside them.

utils/make_notebook.py utils/adaptation.ipynb

Jupyter opens the file; making it needs pandas and matplotlib (pip install 'mdi-lm[report]'), not Jupyter.
"""

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from mdi.errors import exit_code
from mdi.files import write_file

# Text, then code, in turns.
CELLS = (
    """# Adapting an n-gram language model

A general model of English knows little of what people say in *your* domain. `mdi` gives it the word statistics of some
text of the domain, and otherwise leaves it as it was. Here the general model is of speeches, and the domain is calls to
a garden centre: three small texts that come with the package. Use your own: a path in place of each of them, and
`mdi.load("your.arpa.gz")` in place of `mdi.train`.""",
    """from importlib.resources import files

import mdi

texts = files("mdi").joinpath("demo_texts")
general, domain, test = (str(texts / name) for name in ("general.txt.gz", "domain.txt", "test.txt"))

background = mdi.train(general, order=3)
mdi.save(background, "general.arpa.gz")
background = mdi.load("general.arpa.gz")  # ARPA, G.fst, Gr.fst and G.carpa are all read like this
background""",
    """## Adapt

Every word and every sequence of up to three words in the domain's text becomes a constraint, rare ones with caution.
Words that the model has never seen are added.""",
    """adapted = mdi.adapt(background, domain)
adapted""",
    """## Is it better?

Perplexity says how hard the model finds a text that it has not seen: a word is as hard to predict as one drawn from so
many equally likely ones. Lower is better. A model that scores unknown words as `<unk>` has it too easy; with the new
words added, but not adapted, it can be compared.""",
    """with_words = adapted.new_words.added_to(background)
for name, model in (("as it was", background), ("with new words", with_words), ("adapted", adapted.model)):
    found = mdi.perplexity(model, test)
    print(f"{name:15} perplexity {found.ppl:6.1f}, {found.oov} of {found.words} words unknown")""",
    """The usual way is to mix the general model with one of the domain's text. To be fair, over the same words,
and with weights that are tuned on the test text itself, which flatters it:""",
    """in_domain = mdi.train(domain, order=3, vocab=adapted.model.vocab)
mixed = mdi.mix([in_domain, background], mdi.best_weights([in_domain, background], test))
compared = {"domain alone": in_domain, "interpolation": mixed, "mdi adapt": adapted.model}
mdi.plot({name: mdi.perplexity(model, test) for name, model in compared.items()})""",
    """## Word by word

Which words have become likelier, and where?""",
    """words = mdi.word_table({"as it was": with_words, "adapted": adapted.model}, test)
words.head(12)""",
    """What moved most in the model itself:""",
    """adapted.moved(8)""",
    """## New words

These were not in the general model. Their n-grams are constraints like all others.""",
    """new = adapted.new_words
print(f"{len(new.words)} new words, with {new.mass:.1%} of the probability:", *new.words[:12])
for word in new.words[:3]:
    print(f"p({word} | the) = {adapted.model.prob(word, 'the'):.5f}")""",
    """## A sweep, and a search

How often must an n-gram be seen to become a constraint? Several answers at once, as in the paper:""",
    """swept = mdi.Adapter(background, domain).sweep(["1", "2-2-2", "3-3-3"], sigma2=1)
table = mdi.sweep_table(swept, {"test": test})
mdi.plot(table)""",
    """`tune` looks for the best thresholds, caution and mixture on development text. (Here that is the test text, which
is only right in an example.)""",
    """tuned = mdi.tune(background, domain, test, max_settings=6)
mdi.plot(tuned)""",
    """## Save

In the form that the name says, with a certificate beside it: what the model was made from, how well it meets the text's
statistics, and that it sums to one.""",
    """import json
from pathlib import Path

mdi.save(adapted, "adapted.arpa.gz")
certificate = json.loads(Path("adapted.arpa.gz.json").read_text())
print({name: certificate[name] for name in ("constraints", "iterations", "worst_sum_gap")})
print(mdi.perplexity("adapted.arpa.gz", test).ppl)""",
    """A Vosk model directory takes one command: `mdi vosk adapt MODEL_DIR domain.txt OUT_DIR`. See README.md.""",
)


def run_cell(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs a cell, and shows what it prints and the value of its last line, as Jupyter does."""
    body = ast.parse(code).body
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - the cells above
        if last is not None:
            value = eval(compile(last, "cell", "eval"), names)  # noqa: S307
    shown: list[dict[str, Any]] = []
    if text := printed.getvalue():
        shown.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        shown.append({"output_type": "display_data", "metadata": {}, "data": _data(value)})
    return shown


def _data(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=100, metadata={"Software": None})
        data["image/png"] = base64.b64encode(picture.getvalue()).decode()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return data


def notebook() -> dict[str, Any]:
    """As Jupyter's nbformat 4 has it."""
    cells, names, runs = [], {"__name__": "__main__"}, 0
    for number, source in enumerate(CELLS):
        cell = {"id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        if number % 2:
            runs += 1
            cell |= {"cell_type": "code", "execution_count": runs, "outputs": run_cell(source, names)}
        else:
            cell |= {"cell_type": "markdown"}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def make(out: str) -> None:
    path, here = Path(out).absolute(), Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        try:
            made = notebook()
        finally:
            os.chdir(here)
    write_file(path, json.dumps(made, indent=1, ensure_ascii=False) + "\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.ipynb")
    args = parser.parse_args(argv)
    return exit_code("utils/make_notebook.py", lambda: make(args.out))


if __name__ == "__main__":
    sys.exit(main())
