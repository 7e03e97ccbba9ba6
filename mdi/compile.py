"""`python3 -m mdi.compile` compiles the kernels, once: each verb does a small job, so that its first real one begins at
once. What is compiled is kept (see mdi/kernels/__init__.py)."""

import contextlib
import io
import os
import random
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

from mdi.cli import main as mdi

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
# Kaldi's text form: states, words, costs of graph and sound, and the frames of an arc
LATTICE = "utterance \n0 1 1 1,1,1\n0 1 2 1,2,1\n1 2 3 1,1,1\n2 0,0,\n\n"


def texts(folder: Path) -> None:
    chance = random.Random(1)  # noqa: S311 - chance that can be repeated, no secret
    for name, n in (("bg", 300), ("in", 100), ("dev", 20)):
        lines = (" ".join(chance.choices(WORDS, range(8, 0, -1), k=6)) for _ in range(n))
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))


def lattices(folder: Path) -> None:
    (folder / "lat").mkdir()
    (folder / "lat" / "lat.1.gz").write_text(LATTICE)
    (folder / "lat" / "num_jobs").write_text("1\n")
    (folder / "symbols.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(["<eps>", *WORDS, "<s>", "</s>"])))
    (folder / "text").write_text("utterance a c\n")


# What people do first. The models come first, and what all verbs need to read them; then both lists at the same time.
MODELS = [
    "train --vocab words.txt --smoothing kn-interpolated bg.txt bg.arpa.gz",
    "train --min-counts 1 in.txt in.arpa.gz",
    "ppl --json true bg.arpa.gz dev.txt",
]
ADAPTING = [
    "mix --tune dev.txt in.arpa.gz bg.arpa.gz mix.arpa.gz",
    "adapt --min-counts 2,3 --sigma2 none --ppl dev.txt --constraints-out lam.{}.tsv.gz bg.arpa.gz in.txt mdi.{}.arpa",
    "adapt bg.arpa.gz in.txt prior.arpa.gz",
    "adapt --min-counts 2 --sigma2 none --shards 2 bg.arpa.gz in.txt shards.arpa.gz",
    "tune --max-settings 2 --mix-with in.arpa.gz bg.arpa.gz in.txt dev.txt best.arpa.gz",
]
USING = ["prune --max-ngrams 40 bg.arpa.gz small.arpa.gz", "check bg.arpa.gz"]
SPEECH = [
    "rescore --words symbols.txt --old-lm in.arpa.gz --new-lm bg.arpa.gz lat rescored",
    "score --words symbols.txt text rescored",
]


def run(calls: list[str], folder: str) -> str:
    """Runs them in the folder; what the first that failed has said."""
    os.chdir(folder)
    for call in calls:
        said = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", write_through=True)
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = mdi(call.split())
        if code:
            said.seek(0)
            return f"mdi {call}: {said.read()[-500:]}"
    return ""


def main() -> int:
    using = USING + (SPEECH if find_spec("kaldialign") else [])
    # processes of their own: a thread would wait for the other's compiler
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        texts(Path(folder))
        lattices(Path(folder))
        wrong = pool.submit(run, MODELS, folder).result()
        wrong = wrong or "".join(pool.map(run, (ADAPTING, using), (folder, folder)))
    if wrong:
        print(f"mdi.compile: {wrong}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
