#!/usr/bin/env python3
"""Peak memory of the verbs on a synthetic model, in bytes per n-gram, and their processor time, beside KenLM's load.

    utils/bench/memory.py [--ngrams 13e6] [--order 3] [--gzip] [--verbs adapt,mix,...] [--against FOLDER]
                    [--kenlm-python PYTHON] [--results utils/bench/RESULTS.md] FOLDER

FOLDER keeps what is generated between runs: the model, text of a domain, a model of that text for `mix`, words.txt, and
a lattice. Bytes per n-gram are those of the verb's own model (of `mix`: the union) beyond a base of 110 MB, which is
about what Python, NumPy, Numba and the loaded kernels take. --against runs another checkout of this repository, such as
`git worktree add` makes, in turns with this one. Memory does not depend on what else the machine does; processor
seconds hardly; so each verb runs once, after a run on a tiny model that compiles what is not compiled yet.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from adapt import LOAD_KENLM, Run, has_kenlm, make, run
from results_section import replace_section

BASE = 110 * 2**20
ARC = "{} {} {} 1,1,1\n"
WORDS = "import sys; from mdi import read_arpa; print(*read_arpa(sys.argv[1]).vocab.words)"


def prepare(folder: Path, name: str, arpa: Path, text: Path, suffix: str) -> dict[str, list[str]]:
    """What each verb is called with, and what that needs."""
    words, lattices, small = folder / f"{name}.words.txt", folder / f"{name}.lat", folder / f"{name}.known.arpa{suffix}"
    first = text.read_text().split("\n", 1)[0].split()
    (folder / f"{name}.dev.txt").write_text("\n".join(text.read_text().split("\n")[:2000]) + "\n")
    if not small.exists():
        # by a process of its own: what this one has had in memory would be the least of all that it starts
        known = subprocess.check_output([sys.executable, "-c", WORDS, str(arpa)], text=True).split()
        words.write_text("".join(f"{w} {i}\n" for i, w in enumerate(["<eps>", *known, "#0"])))
        listed = folder / f"{name}.vocab.txt"
        listed.write_text("".join(f"{w}\n" for w in known if not w.startswith("<")))
        run([sys.executable, "-m", "mdi", "train", "--vocab", str(listed), "--min-counts", "1", str(text), str(small)])
    number = dict(line.split() for line in words.read_text().splitlines())
    arcs = "".join(ARC.format(i, i + 1, number[w]) for i, w in enumerate(first))
    lattices.write_text(f"utterance \n{arcs}{len(first)} 0,0,\n\n")
    model, dev, out = str(arpa), str(folder / f"{name}.dev.txt"), str(folder / f"out.arpa{suffix}")
    return {
        "adapt": ["adapt", "--min-counts", "2-2-2", "--sigma2", "none", model, str(text), out],
        "mix": ["mix", "--weights", "0.5,0.5", str(small), model, out],
        "ppl": ["ppl", model, dev],
        "check": ["check", model],
        "prune": ["prune", "--threshold", "1e-8", model, out],
        "fst": ["fst", "--words", str(words), model, str(folder / "out.fst")],
        "rescore": ["rescore", "--words", str(words), "--new-lm", model, str(lattices), str(folder / "out.lat")],
    }


def measured(call: list[str], root: str | None) -> Run:
    if root is not None:
        os.environ["PYTHONPATH"] = root
    try:
        return run([sys.executable, "-m", "mdi", *call])
    finally:
        os.environ.pop("PYTHONPATH", None)


def size_of(verb: str, call: list[str], ngrams: float) -> float:
    """N-grams of the model that a verb holds: of a mixture, its own."""
    return sum(json.loads(Path(f"{call[-1]}.json").read_text())["ngrams"]) if verb == "mix" else ngrams


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ngrams", type=float, default=13e6)
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--text-words", type=float, default=8e5)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--verbs", default="adapt,mix,ppl,check,prune,fst,rescore")
    parser.add_argument("--against", metavar="FOLDER")
    parser.add_argument("--kenlm-python", default=sys.executable)
    parser.add_argument("--results", metavar="RESULTS.md")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder, args.results = args.folder.resolve(), args.results and os.path.abspath(args.results)
    args.against = args.against and os.path.abspath(args.against)
    args.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(args.folder)  # `python -m mdi` looks for mdi where it is started, first of all
    suffix = ".gz" if args.gzip else ""
    name = f"synthetic-{args.ngrams / 1e6:g}M-{args.order}"
    calls = prepare(
        args.folder, name, *make(args.folder, name, args.ngrams, args.order, args.text_words, suffix), suffix
    )
    tiny = make(args.folder, "synthetic-tiny", 5000, args.order, 2000, suffix)
    small = prepare(args.folder, "synthetic-tiny", *tiny, suffix)
    trees = [None] if args.against is None else [args.against, None]
    titles = ["now"] if args.against is None else ["before", "now"]
    columns = " | ".join(f"MB, {t} | bytes per n-gram, {t} | processor seconds, {t}" for t in titles)
    lines = [f"| | n-grams | {columns} |", "|---|---" + "|---|---|---" * len(titles) + "|"]
    for verb in args.verbs.split(","):
        cells = []
        for tree in trees:
            measured(small[verb], tree)
            found = measured(calls[verb], tree)
            size = size_of(verb, calls[verb], args.ngrams)
            cells.append(f"{found.peak_mb:,.0f} | {(found.peak_mb * 2**20 - BASE) / size:.1f} | {found.cpu:.1f}")
        lines.append(f"| `mdi {verb}` | {size / 1e6:.1f}M | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if has_kenlm(args.kenlm_python):
        found = run([args.kenlm_python, "-c", LOAD_KENLM, calls["ppl"][1]])
        text = f"KenLM's load of the same file: {found.peak_mb:,.0f} MB and {found.cpu:.1f} processor seconds."
        lines += ["", text]
    print("\n".join(lines))
    if args.results:
        options = f"--ngrams {args.ngrams:g} --order {args.order}{' --gzip' if args.gzip else ''}"
        command = f"utils/bench/memory.py {options}{' --against BEFORE' if args.against else ''} FOLDER"
        title = f"Memory: {args.ngrams / 1e6:g}M n-grams{', gzipped' if args.gzip else ''}"
        replace_section(args.results, f"memory-{args.ngrams:g}{suffix}", title, f"`{command}`", "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
