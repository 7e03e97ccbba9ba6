#!/usr/bin/env python3
"""Seconds per iteration against the number of n-grams and of constraints: the paper's Figure 1, with its peers in the
same run.

    utils/bench/scale.py [--ngrams 1e6,3e6,10e6,30e6] [--figure utils/figures/scale]
                         [--results utils/bench/RESULTS.md] FOLDER

FOLDER keeps the synthetic models (ARPA files, see make_synthetic_lm.py) between runs. Needs the package's extra
`report`.

- ours: one evaluation of the dual, Z of every history and the marginals of all constraints; every history carries mass,
  so that every n-gram of the model is passed through, with one thread and with two;
- ours, histories of the text: the same with maximum-likelihood p~(h), as `mdi adapt` does it;
- pandas: the same sums as the paper describes them, "with group-by operation for summing up probabilities of n-grams of
  the same suffix", over integer keys that were joined beforehand; its marginals must agree with ours;
- naive: Z(h) = sum over the whole vocabulary for every history, compiled, on the smallest models only.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numba import njit

sys.path.insert(0, str(Path(__file__).resolve().parent))
from adapt import make
from results_section import replace_section

from mdi.adaptation.adapter import OneAdaptation
from mdi.adaptation.constraints import Constraints
from mdi.adaptation.dual import Dual
from mdi.lm.arpa import read_arpa
from mdi.lm.model import NgramModel
from mdi.lm.shards import Job
from mdi.lm.trie import NONE

NAIVE = (3e4, 1e5, 3e5)


class PandasPeer:
    """Sigma_L and Sigma_R with group-bys. `mass` as for Dual."""

    def __init__(self, model: NgramModel, mass: list[np.ndarray], constraints: Constraints) -> None:
        trie = model.trie
        self.bow, self.back, self.mass, self.first = model.bow, trie.back, mass, constraints.first
        self.rows = []
        for k in range(1, trie.order + 1):
            frame = pd.DataFrame({"h": trie.hist_of_rows(k), "s": trie.suffix[k], "p": model.p[k]})
            frame["con"] = np.int32(-1)
            if k <= constraints.order:
                own = constraints.row[k]
                frame.loc[own, "con"] = np.arange(constraints.first[k], constraints.first[k] + len(own), dtype=np.int32)
            self.rows.append(frame)
        self.total = constraints.total

    def evaluate(self, mu: np.ndarray) -> np.ndarray:
        """Marginals of the cells."""
        scale = np.append(np.exp(mu), np.nan)
        n = len(self.rows)
        c: list[pd.Series] = []
        z = [np.array([1.0])]
        for k, rows in enumerate(self.rows):
            below = np.ones(len(rows)) if k == 0 else c[k - 1].to_numpy()[rows.s]
            here = pd.Series(np.where(rows.con >= 0, scale[rows.con], below))
            c.append(here)
            seen = (
                (rows.p * here)
                .groupby(rows.h, sort=False)
                .sum()
                .reindex(range(len(self.bow[k])), fill_value=0.0)
                .to_numpy()
            )
            if k == 0:
                z[0] = seen
                continue
            covered = pd.Series(self.rows[k - 1].p.to_numpy()[rows.s] * below).groupby(rows.h, sort=False).sum()
            covered = covered.reindex(range(len(self.bow[k])), fill_value=0.0).to_numpy()
            z.append(self.bow[k] * (z[k - 1][self.back[k]] - covered) + seen)
        cells = np.zeros(self.total)
        g_above = above = None
        for k in range(n - 1, -1, -1):
            rows = self.rows[k]
            g = self.mass[k] / z[k]
            if g_above is not None:
                g = g + g_above.reindex(range(len(g)), fill_value=0.0).to_numpy()
            b = g[rows.h] * rows.p
            if above is not None:
                b = b + above.reindex(range(len(b)), fill_value=0.0).to_numpy()
            own = (rows.con >= 0).to_numpy()
            cells[rows.con[own]] = c[k][own] * b[own]
            if k:
                down = np.where(own, 0.0, b) - (g * self.bow[k])[rows.h] * self.rows[k - 1].p.to_numpy()[rows.s]
                above = pd.Series(down).groupby(rows.s, sort=False).sum()
                g_above = pd.Series(g * self.bow[k]).groupby(self.back[k], sort=False).sum()
        return cells


@njit
def naive_normalisers(begin2, word2, p2, bow1, begin3, word3, p3, bow2, back2, p1, c1):
    """Z of all histories of one and two words, each a sum over the whole vocabulary (constraints of order 1)."""
    n_words = p1.shape[0]
    total = 0.0
    one, two = np.empty(n_words), np.empty(n_words)
    ready = -1
    for h in range(back2.shape[0]):
        v = back2[h]
        if v != ready:
            for w in range(n_words):
                one[w] = bow1[v] * p1[w]
            for r in range(begin2[v], begin2[v + 1]):
                one[word2[r]] = p2[r]
            ready = v
            for w in range(n_words):
                total += one[w] * c1[w]
        for w in range(n_words):
            two[w] = bow2[h] * one[w]
        for r in range(begin3[h], begin3[h + 1]):
            two[word3[r]] = p3[r]
        for w in range(n_words):
            total += two[w] * c1[w]
    return total


def fastest(work, times: int, *args) -> float:
    """The fastest of some runs. On one thread processor time is wall-clock time, without what others take from it."""
    best = np.inf
    threads = max([1, *(arg.threads for arg in args if isinstance(arg, Dual))])
    clock = time.process_time if threads == 1 else time.perf_counter
    times *= threads**2  # the more it needs a quiet moment
    for _ in range(times):
        begin = clock()
        work(*args)
        best = min(best, clock() - begin)
    return best


def with_threads(dual: Dual, threads: int) -> Dual:
    dual.threads = threads
    return dual


def naive_seconds(model: NgramModel) -> float:
    t = model.trie
    arrays = (t.begin[2], t.word[2], model.p[2], model.bow[1], t.begin[3], t.word[3], model.p[3], model.bow[2])
    words = model.p[1], np.ones(t.n_words)
    naive_normalisers(*arrays, t.back[2][:1], *words)  # compiles
    return fastest(naive_normalisers, 1, *arrays, t.back[2], *words)


@dataclass
class Line:
    label: str
    style: str
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)

    def add(self, x: float, y: float) -> None:
        self.x.append(x)
        self.y.append(y)
        print(f"{self.label}: {x:,.0f} -> {y:.4f} s", flush=True)

    def slope(self) -> tuple[float, float]:
        """(ns per unit of x, fixed ms) of a straight line, least squares of relative errors."""
        x, y = np.array(self.x), np.array(self.y)
        per_unit, fixed = np.polyfit(x, y, 1, w=1 / y) if len(x) > 1 else (y[0] / x[0], 0.0)
        return 1e9 * per_unit, 1e3 * fixed


def everywhere(model: NgramModel) -> list[np.ndarray]:
    """Mass on every history that is not the empty one or ends a sentence."""
    trie = model.trie
    mass = [np.zeros(1)]
    for j in range(1, trie.order):
        part = np.ones(trie.n_hist(j))
        part[trie.as_hist[j][trie.word[j] == model.vocab.eos]] = 0.0
        mass.append(part)
    total = sum(part.sum() for part in mass)
    return [part / total for part in mass]


def random_constraints(model: NgramModel, share: float, rng: np.random.Generator) -> Constraints:
    rows = [NONE]
    for k in range(1, model.order + 1):
        chosen = rng.random(model.trie.rows(k)) < share
        if k == 1:
            chosen[model.vocab.bos] = False
        rows.append(np.flatnonzero(chosen).astype(np.int32))
    return Constraints(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ngrams", default="1e6,3e6,10e6,30e6")
    parser.add_argument(
        "--constraints-at", type=float, default=10e6, help="size of the model on which constraints are varied"
    )
    parser.add_argument("--pandas-up-to", type=float, default=30e6)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--figure", default="utils/figures/scale")
    parser.add_argument("--results", metavar="RESULTS.md")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    sizes = [float(size) for size in args.ngrams.split(",")]
    one, two = Line("ours, 1 thread", "C0o-"), Line("ours, 2 threads", "C1s-")
    text, pandas, naive = (
        Line("ours, histories of the text", "C2^-"),
        Line("pandas group-by", "C3D-"),
        Line("naive", "C4x--"),
    )
    by_constraints, pandas_by_constraints = Line("ours, 1 thread", "C0o-"), Line("pandas group-by", "C3D-")
    active: list[str] = []

    for size in NAIVE:
        arpa, _ = make(args.folder, f"synthetic-{size / 1e6:g}M-3", size, 3, 8e5, "")
        model = read_arpa(str(arpa), quiet=True)
        naive.add(sum(model.trie.counts), naive_seconds(model))
    for size in sizes:
        arpa, in_domain = make(args.folder, f"synthetic-{size / 1e6:g}M-3", size, 3, 8e5, "")
        problem = OneAdaptation(read_arpa(str(arpa), quiet=True), str(in_domain)).pose("2-2-2")
        model, constraints, dual = problem.background, problem.constraints, problem.dual
        ngrams = sum(model.trie.counts)
        mu = np.random.default_rng(1).normal(0, 0.3, constraints.total)
        seconds = [fastest(lambda d, m: d.evaluate(m), args.repeat, with_threads(dual, n), mu) for n in (1, 2)]
        text.add(ngrams, seconds[0])
        rows = dual.active_rows
        per_row = " | ".join(f"{part:.3f} | {1e9 * part / rows:.1f}" for part in seconds)
        active.append(f"| {ngrams:,} | {constraints.total:,} | {rows:,} | {dual.entries:,} | {per_row} |")
        del problem, dual
        mass, cuts = everywhere(model), [first for first, _ in Job("", n_shards=16).shards(model.trie)]
        cuts = np.array([*cuts, model.trie.n_words])
        dual = Dual(model, mass, constraints, 1, cuts)
        found = dual.evaluate(mu).cells
        one.add(ngrams, fastest(lambda d, m: d.evaluate(m), args.repeat, dual, mu))
        two.add(ngrams, fastest(lambda d, m: d.evaluate(m), args.repeat, with_threads(dual, 2), mu))
        del dual
        if size <= args.pandas_up_to:
            peer = PandasPeer(model, mass, constraints)
            np.testing.assert_allclose(peer.evaluate(mu), found, rtol=1e-6, atol=1e-12)
            pandas.add(ngrams, fastest(peer.evaluate, 1, mu))
            del peer
        for share in (1e-4, 1e-3, 1e-2, 0.1, 0.3) if size == args.constraints_at else ():
            constraints = random_constraints(model, share, np.random.default_rng(2))
            mu = np.random.default_rng(1).normal(0, 0.3, constraints.total)
            dual = Dual(model, mass, constraints, 1, cuts)
            by_constraints.add(constraints.total, fastest(dual.evaluate, args.repeat, mu))
            if share in (1e-4, 1e-2, 0.3):
                pandas_by_constraints.add(
                    constraints.total, fastest(PandasPeer(model, mass, constraints).evaluate, 1, mu)
                )
            del dual

    draw(args.figure, [one, two, text, pandas, naive], [by_constraints, pandas_by_constraints], args.constraints_at)
    body = table([one, two, text, pandas, naive], [by_constraints, pandas_by_constraints], active, args)
    print(body)
    if args.results:
        command = f"`utils/bench/scale.py --ngrams {args.ngrams} FOLDER`"
        replace_section(args.results, "scale", "Scale: seconds per iteration (the paper's Figure 1)", command, body)
    return 0


def draw(name: str, left: list[Line], right: list[Line], at: float) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"svg.hashsalt": "mdi", "svg.fonttype": "none"})
    figure, (a, b) = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axes, lines in ((a, left), (b, right)):
        for line in lines:
            slope = line.slope()[0]
            label = (
                f"{line.label}: {slope:.{1 if slope < 10 else 0}f} ns per n-gram" if line in left[:-1] else line.label
            )
            axes.loglog(line.x, line.y, line.style, label=label)
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize=8, loc="upper left")
    a.set_ylim(top=30 * max(max(line.y) for line in left))  # room for the legend
    a.set_xlabel("n-grams in the background")
    b.set_xlabel(f"constraints ({at / 1e6:g}M n-grams)")
    a.set_ylabel("seconds per iteration")
    figure.tight_layout()
    figure.savefig(f"{name}.png", dpi=90)
    figure.savefig(f"{name}.svg", metadata={"Date": None})


def table(lines: list[Line], by_constraints: list[Line], active: list[str], args: argparse.Namespace) -> str:
    sizes = sorted({x for line in lines for x in line.x})
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    out = [
        f"{load}; fastest of {args.repeat} (pandas, naive: one) by processor time, two threads by the clock of 4 "
        f"times as many.",
        "",
    ]
    out += [f"![seconds per iteration]({args.figure}.svg)", ""]
    out += ["| n-grams | " + " | ".join(line.label for line in lines) + " |", "|---" * (len(lines) + 1) + "|"]
    for x in sizes:
        values = [f"{line.y[line.x.index(x)]:.4f}" if x in line.x else "" for line in lines]
        out.append(f"| {x:,.0f} | " + " | ".join(values) + " |")
    out += ["", "| seconds per iteration = fixed + slope x n-grams | slope, ns | fixed, ms |", "|---|---|---|"]
    out += [f"| {line.label} | {line.slope()[0]:.2f} | {line.slope()[1]:.1f} |" for line in lines[:-1]]
    ours, peer = lines[0], lines[3]
    both = [x for x in peer.x if x in ours.x]
    ratios = ", ".join(f"{peer.y[peer.x.index(x)] / ours.y[ours.x.index(x)]:.0f}" for x in both)
    at = ", ".join(f"{x / 1e6:.0f}M" for x in both)
    out += ["", f"Pandas takes {ratios} times as long as ours on one thread at {at} n-grams."]
    out += [
        "",
        "With the histories of 800,000 tokens of text (constraints 2-2-2) just their rows are passed through; "
        "entries are",
    ]
    out += ["those whose scale can differ from 1:", ""]
    out += [
        "| n-grams | constraints | active rows | entries | 1 thread: s | ns per active row | 2 threads: s | ns per "
        "row |"
    ]
    out += ["|---" * 8 + "|", *active, ""]
    if by_constraints[0].x:
        out += [f"Against the number of constraints, on {args.constraints_at / 1e6:g}M n-grams:", ""]
        out += ["| constraints | " + " | ".join(line.label for line in by_constraints) + " |", "|---|---|---|"]
        for x in by_constraints[0].x:
            values = [f"{line.y[line.x.index(x)]:.4f}" if x in line.x else "" for line in by_constraints]
            out.append(f"| {x:,.0f} | " + " | ".join(values) + " |")
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main())
