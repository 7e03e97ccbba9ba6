"""All verbs on the extreme models of test_numbers.py: what is written is right by an independent judge, or there is an
error and no file; no warning, no traceback. By hand, for thousands of runs:

    python3 tests/test_number_verbs.py 5000 [FIRST]
"""

import contextlib
import io
import json
import math
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import pytest
import recheck
from recheck import Arpa, Ngram
from test_numbers import counts, random_model, random_text

from mdi.cli import main

REFUSED = "refused"


class Run:
    """A folder, chance, and files made by it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.said = ""

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, text: str) -> str:
        Path(self.path(name)).write_text(text)
        return self.path(name)

    def model(self, name: str, words: list[str] | None = None) -> tuple[str, list[str], int]:
        text, words, order = random_model(self.chance, words)
        return self.write(name, text), words, order

    def text(self, name: str, words: list[str]) -> tuple[str, list[list[str]]]:
        sentences = random_text(self.chance, words)
        return self.write(name, "".join(f"{' '.join(sentence)}\n" for sentence in sentences)), sentences

    def mdi(self, *arguments: str) -> tuple[int, str]:
        """Exit code and standard output."""
        out, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("error")
            code = main(list(arguments))
        self.said = said.getvalue()
        assert "Warning" not in self.said, self.said
        assert code in (0, 1)
        return code, out.getvalue()

    def made(self, out: str, code: int) -> tuple[Arpa, dict] | None:
        """The model that was written and its certificate, which is right about the sums."""
        if not Path(out).exists():
            assert code == 1, self.said
            assert not Path(f"{out}.json").exists()
            assert "mdi " in self.said, self.said
            return None
        certificate = json.loads(Path(f"{out}.json").read_text())
        assert code == (0 if certificate.get("converged", True) else 1)
        found = recheck.read(out)
        gap = recheck.worst_sum(found)
        assert abs(gap - certificate["worst_sum_gap"]) < 1e-7 + 0.1 * gap, (gap, certificate["worst_sum_gap"])
        assert gap < 2e-6
        return found, certificate


def close(a: float, b: float, relative: float) -> bool:
    return abs(a - b) <= relative * max(abs(a), abs(b)) + 1e-99


def histories(model: Arpa) -> set[Ngram]:
    return {h for h in {ngram[:-1] for ngram in model.p} | set(model.bow) if "</s>" not in h}


def mixed(run: Run) -> str:
    first, words, _ = run.model("1.arpa")
    second, more, _ = run.model("2.arpa")
    weight = run.chance.choice([0.5, 0.999, 1e-9, 0.25])
    how = ["--weights", f"{weight},{1 - weight!r}"]
    if run.chance.random() < 0.4:
        how = ["--tune", run.text("dev", sorted({*words, *more}))[0]]
    code, _ = run.mdi("mix", *how, first, second, run.path("out"))
    made = run.made(run.path("out"), code)
    if made is None:
        return REFUSED
    found, certificate = made
    models, weights = [recheck.read(first), recheck.read(second)], certificate["weights"]
    off = max(map(recheck.worst_sum, models))  # which is normalised, and said
    assert set(found.p) == set(models[0].p) | set(models[1].p)
    by_history: dict[Ngram, list[float]] = {}
    for ngram, p in found.p.items():
        expected = math.fsum(w * m.prob(ngram[-1], ngram[:-1]) for w, m in zip(weights, models, strict=True))
        by_history.setdefault(ngram[:-1], []).append(p / expected if expected > 1e-98 else 1.0 + p)
    for history, ratios in by_history.items():
        assert max(ratios) - min(ratios) < 1e-5 + off, (history, ratios)
        assert abs(ratios[0] - 1) < 1e-5 + 2 * off, (history, ratios)
    return "mixed"


def pruned(run: Run) -> str:
    model, _, _ = run.model("1.arpa")
    how = run.chance.choice(
        [["--threshold", "1e-8"], ["--threshold", "0.1"], ["--threshold", "0"], ["--max-ngrams", "20"]]
    )
    code, _ = run.mdi("prune", *how, model, run.path("out"))
    made = run.made(run.path("out"), code)
    if made is None:
        return REFUSED
    found, before = made[0], recheck.read(model)
    off = recheck.worst_sum(before)  # which is normalised, and said
    assert set(found.p) <= set(before.p)
    assert how[1] != "0" or set(found.p) == set(before.p)
    assert how[0] != "--max-ngrams" or len(found.p) <= 20
    for ngram, p in found.p.items():
        assert close(p, before.p[ngram], 1e-5 + 2 * off), (ngram, p, before.p[ngram])
    return "pruned"


def trained(run: Run) -> str:
    words = ["a", "b", "c", "d", "e"][: run.chance.randint(1, 5)]
    sentences = random_text(run.chance, words)
    order = run.chance.randint(1, 4)
    lines = counts(sentences, order).splitlines()
    factor = run.chance.choice([0, 1, 1, 10**15, 0.5])
    changed = []
    for line in lines:
        ngram, n = line.split("\t")
        if run.chance.random() < 0.1:
            n = run.chance.choice(["0", str(10**15), "1"])
        elif factor != 1:
            n = f"{int(n) * factor:.15g}"
        changed.append(f"{ngram}\t{n}\n")
    how = [
        "--order",
        str(order),
        "--smoothing",
        run.chance.choice(["kn", "kn-interpolated", "wb"]),
        "--min-counts",
        "1",
    ]
    code, _ = run.mdi("train", *how, "--counts", run.write("counts", "".join(changed)), run.path("out"))
    return REFUSED if run.made(run.path("out"), code) is None else "trained"


def matched(run: Run) -> str:
    large, words, order = run.model("large")
    small, _, small_order = run.model("small", words)
    text, sentences = run.text("text", words)
    code, _ = run.mdi("match", small, large, text, run.path("out"))
    made = run.made(run.path("out"), code)
    if made is None:
        return REFUSED
    found, certificate = made
    before, source = recheck.read(small), recheck.read(large)
    assert set(found.p) == set(before.p)
    if not certificate["constraints_dropped"]:
        p_tilde = recheck.history_distribution(sentences, max(order, small_order))
        ngrams = [ngram for ngram, p in before.p.items() if p > 0]
        distance = math.fsum(
            abs(recheck.marginal(found, ngram, p_tilde) - recheck.marginal(source, ngram, p_tilde)) for ngram in ngrams
        )
        assert abs(distance - certificate["distance_to_targets"]) < 1e-5, (distance, certificate)
    return "matched"


def tuned(run: Run) -> str:
    background, words, _ = run.model("bg")
    text, _ = run.text("text", words)
    dev, sentences = run.text("dev", words)
    code, _ = run.mdi("tune", "--max-settings", "3", background, text, dev, run.path("out"))
    made = run.made(run.path("out"), code)
    if made is None:
        return REFUSED
    log10, zero, tokens = recheck.score(made[0], sentences)
    said = made[1]["choice"]["development_ppl"]
    if tokens > zero:
        assert close(10 ** (-log10 / (tokens - zero)), said, 1e-4), (log10, zero, tokens, said)
    return "tuned"


def applied(run: Run) -> str:
    """A delta and the model made from it: byte for byte that of mdi adapt."""
    background, words, _ = run.model("bg")
    text, _ = run.text("text", words)
    how = ["--min-counts", run.chance.choice(["1", "2"])]
    if run.chance.random() < 0.6:
        how += ["--sigma2", run.chance.choice(["1e-9", "1", "1e9"])]
    code, _ = run.mdi("adapt", *how, background, text, run.path("out"))
    made = run.made(run.path("out"), code)
    alone, _ = run.mdi("adapt", *how, "--delta", run.path("a.delta"), background, text)
    if made is None:  # which looks at the whole background; a delta at the part that it is about
        if not Path(run.path("a.delta")).exists():
            return REFUSED
        after, _ = run.mdi("apply", background, run.path("a.delta"), run.path("applied"))
        run.made(run.path("applied"), after)
        return "delta only"
    assert alone == code, run.said
    after, _ = run.mdi("apply", background, run.path("a.delta"), run.path("applied"))
    assert after == 0, run.said
    assert Path(run.path("applied")).read_bytes() == Path(run.path("out")).read_bytes()
    return "applied"


def words_txt(run: Run, words: list[str]) -> str:
    symbols = ["<eps>", "<s>", "</s>", "<unk>", *words, "#0"]
    return run.write("words.txt", "".join(f"{word} {i}\n" for i, word in enumerate(symbols)))


def converted(run: Run) -> str:
    """There and back: the same probabilities, as far as 32 bits go."""
    model, words, _ = run.model("1.arpa")
    form = run.chance.choice(["fst", "carpa", "opengrm", "ngram"])
    table = words_txt(run, words)
    code, _ = run.mdi("convert", "--words", table, "--format", form, model, run.path("there"))
    if code:
        assert not Path(run.path("there")).exists()
        assert "mdi convert: " in run.said
        return REFUSED
    code, _ = run.mdi("convert", "--words", table, run.path("there"), run.path("out"))
    assert code == 0, run.said
    before, after = recheck.read(model), recheck.read(run.path("out"))
    for history in histories(before):
        for word in before.words:
            if word != "<s>":
                p, q = before.prob(word, history), after.prob(word, history)
                assert close(p, q, 1e-4) or max(p, q) < 1e-43, (form, history, word, p, q)
    return "converted"


def perplexed(run: Run) -> str:
    model, words, _ = run.model("1.arpa")
    text, sentences = run.text("text", words)
    code, said = run.mdi("ppl", "--json", "true", model, text)
    assert code == 0, run.said
    found, (log10, zero, tokens) = json.loads(said), recheck.score(recheck.read(model), sentences)
    assert found["zeroprobs"] == zero
    ppl = 10 ** (-log10 / (tokens - zero)) if tokens > zero else None
    assert found["ppl"] == (pytest.approx(ppl, rel=1e-6) if ppl is not None else None)
    return "perplexed"


def checked(run: Run) -> str:
    """Also models that are none: the worst sum is the one that adding up word by word gives."""
    text, _, _ = random_model(run.chance)
    lines = text.split("\n")
    if run.chance.random() < 0.5:
        rows = [i for i, line in enumerate(lines) if "\t" in line]
        for i in run.chance.sample(rows, min(2, len(rows))):
            fields = lines[i].split("\t")
            fields[0] = run.chance.choice(["0", "-0.1", "-99", "-inf", "-1e-9", "-300"])
            lines[i] = "\t".join(fields)
    model = run.write("1.arpa", "\n".join(lines))
    code, said = run.mdi("check", model)
    if not said:
        assert code == 1
        assert "mdi check: " in run.said
        return REFUSED
    gap = recheck.worst_sum(recheck.read(model))
    if "worst |sum of p - 1|" not in said:
        assert code == 1
        return "no sums"
    stated = float(said.split("histories: ")[1].split()[0])
    assert abs(stated - gap) < 1e-7 + 0.06 * gap, (stated, gap)
    assert (code == 1) == (gap > 1e-3) or "error: " in said
    return "checked"


def rescored(run: Run) -> str:
    """One path: its cost is that of the lattice plus -ln p of the words."""
    model, words, _ = run.model("1.arpa")
    table, ids = words_txt(run, words), {word: 4 + i for i, word in enumerate(words)}
    sentence = run.chance.choices(words, k=run.chance.randint(0, 5))
    lines = [f"{i} {i + 1} {ids[word]} 1.5,2.5,3" for i, word in enumerate(sentence)]
    lattice = run.write("lat", "\n".join(["u ", *lines, f"{len(sentence)} 0.5,0,", "", ""]))
    code, _ = run.mdi("rescore", "--words", table, "--new-lm", model, "--text", "true", lattice, run.path("out"))
    log10, zero, _ = recheck.score(recheck.read(model), [sentence])
    if code:
        assert not Path(run.path("out")).exists()
        assert "mdi rescore: " in run.said
        assert zero or not sentence
        return REFUSED
    weights = [line.split()[-1] for line in Path(run.path("out")).read_text().splitlines()[1:] if line.strip()]
    graph = math.fsum(float(weight.split(",")[0]) for weight in weights)
    if zero:
        assert graph > 150  # 99 log 10, which is Kaldi's way to write it
        return "rescored"
    assert graph == pytest.approx(1.5 * len(sentence) + 0.5 - log10 * math.log(10), rel=1e-5, abs=1e-4)
    return "rescored"


def as_acceptor(run: Run) -> str:
    """Along its own arcs, and #0 where there is none, a sentence costs -ln p."""
    model, words, _ = run.model("1.arpa")
    table = words_txt(run, words)
    names = dict(reversed(line.split()) for line in Path(table).read_text().splitlines())
    code, _ = run.mdi("fst", "--words", table, "--format", "k2", model, run.path("G.txt"))
    if code:
        assert not Path(run.path("G.txt")).exists()
        assert "mdi fst: " in run.said
        return REFUSED
    arcs: dict[str, dict[str, tuple[str, float]]] = {}
    final: dict[str, float] = {}
    rows = [line.split("\t") for line in Path(run.path("G.txt")).read_text().splitlines()]
    for row in rows:
        if len(row) < 4:
            final[row[0]] = float(row[1]) if len(row) > 1 else 0.0
        else:
            arcs.setdefault(row[0], {})[names[row[2]]] = row[1], float(row[4]) if len(row) > 4 else 0.0
    before = recheck.read(model)
    for sentence in random_text(run.chance, words)[:5]:
        state, cost = rows[0][0], 0.0
        for word in [*sentence, "</s>"]:
            while word not in arcs.get(state, {}) and not (word == "</s>" and state in final):
                below = [arcs[state][name] for name in ("#0", "<eps>") if name in arcs.get(state, {})]
                if not below:
                    cost = math.inf
                    break
                state, more = below[0]
                cost += more
            if cost == math.inf:
                break
            if word == "</s>":
                cost += final[state]
            else:
                state, more = arcs[state][word]
                cost += more
        log10, zero, _ = recheck.score(before, [sentence])
        if zero:
            assert cost > 150, (sentence, cost)  # 99 log 10 is Kaldi's way to write it, less what weights make of it
        else:
            assert cost == pytest.approx(-log10 * math.log(10), rel=1e-5, abs=1e-4), sentence
    return "accepted"


VERBS = [mixed, pruned, trained, matched, tuned, applied, converted, perplexed, checked, rescored, as_acceptor]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_verb_is_right_or_says_what_is_wrong(verb, tmp_path):
    ended = Counter()
    for seed in range(3 if verb is tuned else 12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        ended[verb(Run(seed, folder))] += 1
    assert ended.total() > ended[REFUSED], ended


if __name__ == "__main__":
    chosen = [verb for verb in VERBS if not sys.argv[3:] or verb.__name__ in sys.argv[3:]]
    total: Counter[tuple[str, str]] = Counter()
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for number in range(start, start + int(sys.argv[1])):
        for verb in chosen:
            if verb is tuned and number % 10:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    total[verb.__name__, verb(Run(number, Path(scratch)))] += 1
                except Exception as error:
                    total[verb.__name__, "WRONG"] += 1
                    print(f"{verb.__name__} {number}: {type(error).__name__} {error}"[:300], flush=True)
    for (name, end), n in sorted(total.items()):
        print(name, end, n)
