"""Small random adaptations with extreme models, counts and priors: the certificate is right about the file that was
written, or there is an error and no file. By hand, for thousands of them:

    python3 tests/test_numbers.py 5000 [FIRST]
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

from mdi.adaptation.problem import variances
from mdi.cli import main
from mdi.errors import OptionError
from mdi.lm.thresholds import parse_thresholds, spell_thresholds

Rows = dict[tuple[str, ...], float]


def probabilities(chance: random.Random, n: int) -> list[float]:
    """n numbers that sum to one, often of very different sizes; some may be 0, one may be 1."""
    spread = chance.choice([0, 1, 3, 8, 14, 40])
    sizes = [10.0 ** -(spread * chance.random()) for _ in range(n)]
    for i in range(n):
        if chance.random() < 0.08:
            sizes[i] = 0.0
    if not sum(sizes):
        sizes[0] = 1.0
    return [size / sum(sizes) for size in sizes]


def random_model(chance: random.Random, words: list[str] | None = None) -> tuple[str, list[str], int]:
    """(ARPA text, its words, its order): every history sums to one, if need be with a weight of any size."""
    order = chance.choice([1, 2, 2, 3, 3, 3, 4])
    words = words or ["a", "b", "c", "d", "e"][: chance.randint(1, 5)]
    predicted = [*words, "</s>", *(["<unk>"] if chance.random() < 0.5 else [])]
    rows: list[Rows] = [{(w,): p for w, p in zip(predicted, probabilities(chance, len(predicted)), strict=True)}]
    rows[0][("<s>",)] = 0.0
    bow: Rows = {}

    def prob(word: str, history: tuple[str, ...]) -> float:
        ngram = (*history, word)
        if ngram in rows[len(history)]:
            return rows[len(history)][ngram]
        return bow.get(history, 1.0) * prob(word, history[1:])

    for k in range(2, order + 1):
        rows.append({})
        for history in [h for h in rows[k - 2] if h[-1] != "</s>" and h[-1] != "<unk>" and "<s>" not in h[1:]]:
            if chance.random() < 0.25:
                continue
            seen = chance.sample(predicted, chance.randint(1, len(predicted)))
            rest = [w for w in predicted if w not in seen]
            free = math.fsum(prob(w, history[1:]) for w in rest)
            parts = probabilities(chance, len(seen) + 1)
            if free <= 0.0:
                scale = 1.0 - parts.pop()
                parts = [part / scale for part in parts] if scale > 0 else [1.0, *[0.0] * (len(seen) - 1)]
            else:
                bow[history] = parts.pop() / free
            for w, p in zip(seen, parts, strict=True):
                rows[k - 1][(*history, w)] = p
    if not all(rows):
        return random_model(chance, words)
    text = "\\data\\\n" + "".join(f"ngram {k}={len(part)}\n" for k, part in enumerate(rows, 1))
    for k, part in enumerate(rows, 1):
        text += f"\n\\{k}-grams:\n"
        for ngram, p in part.items():
            weight = f"\t{log10(bow[ngram], chance)}" if ngram in bow and k < order else ""
            text += f"{log10(p, chance)}\t{' '.join(ngram)}{weight}\n"
    return text + "\n\\end\\\n", words, order


def log10(p: float, chance: random.Random) -> str:
    return f"{math.log10(p):.9g}" if p > 0.0 else chance.choice(["-99", "-99.9", "-120"])


def random_text(chance: random.Random, words: list[str]) -> list[list[str]]:
    liked = chance.choices(words, k=chance.randint(1, 4))
    return [
        [chance.choice(liked if chance.random() < 0.7 else words) for _ in range(chance.randint(1, 6))]
        for _ in range(chance.choice([1, 2, 5, 40]))
    ]


def adapted(seed: int, folder: Path) -> str:
    """One random adaptation: 'refused', or 'converged' or 'stopped' if its certificate is right."""
    chance = random.Random(seed)
    model, words, order = random_model(chance)
    sentences = random_text(chance, words)
    background, text, out, table = (str(folder / f"{seed}.{end}") for end in ("bg", "txt", "arpa", "tsv"))
    Path(background).write_text(model)
    Path(text).write_text("".join(f"{' '.join(sentence)}\n" for sentence in sentences))
    thresholds = ["1", "2", "3", "1-2", "2-1", "1-1-2"][: 3 if order == 1 else 5 if order == 2 else 6]
    options = ["--min-counts", chance.choice(thresholds), "--constraints-out", table]
    by_model = False
    if chance.random() < 0.5:
        options += ["--sigma2", chance.choice(["1e-9", "0.1", "1", "1e9"])]
    if chance.random() < 0.2:
        options += ["--targets", "smoothed"]
    if chance.random() < 0.3:
        options += ["--allow-unnormalized", "true"]
    if chance.random() < 0.15:
        options, by_model = [*options, "--history", background], True
    source = [text]
    if chance.random() < 0.2:  # the same as counts, of any size
        weight = chance.choice([1e-3, 1, 1e15])
        options += ["--counts", str(folder / f"{seed}.counts"), "--count-weight", str(weight)]
        Path(options[-3]).write_text(counts(sentences, order))
        source = []
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("error")
        code = main(["adapt", *options, background, *source, out])
    if not Path(out).exists():
        assert code == 1, said.getvalue()
        assert not Path(f"{out}.json").exists()
        assert not Path(table).exists()
        assert "mdi adapt: " in said.getvalue()
        return "refused"
    certificate = json.loads(Path(f"{out}.json").read_text())
    assert code == (0 if certificate["converged"] else 1)
    found, before = recheck.read(out), recheck.read(background)
    gap = recheck.worst_sum(found)
    assert abs(gap - certificate["worst_sum_gap"]) < 1e-7 + 0.1 * gap, (gap, certificate["worst_sum_gap"])
    assert gap < 2e-6
    if by_model:
        return "converged" if certificate["converged"] else "stopped"
    histories = recheck.history_distribution(sentences, order)
    rows = recheck.constraints(table)
    for ngram, _, said_of in rows:
        assert abs(recheck.marginal(found, ngram, histories) - said_of) < 2e-6, (ngram, said_of)
    distance = math.fsum(abs(target - recheck.marginal(found, ngram, histories)) for ngram, target, _ in rows)
    assert abs(distance - certificate["distance_to_targets"]) < 1e-5, (distance, certificate["distance_to_targets"])
    if certificate["kl_to_background"] is not None and "--allow-unnormalized" not in options:
        divergence = recheck.kl(found, before, histories)
        assert abs(divergence - certificate["kl_to_background"]) < 2e-4 * (1 + abs(divergence))
    return "converged" if certificate["converged"] else "stopped"


def counts(sentences: list[list[str]], order: int) -> str:
    found: Counter[str] = Counter()
    for words in sentences:
        whole = ["<s>", *words, "</s>"]
        for k in range(1, order + 1):
            found.update(" ".join(whole[i : i + k]) for i in range(len(whole) - k + 1))
    return "".join(f"{ngram}\t{n}\n" for ngram, n in found.items())


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_the_certificate_is_right_or_there_is_an_error(tmp_path, first):
    ended = Counter(adapted(seed, tmp_path) for seed in range(first, first + 25))
    assert ended["converged"] >= 5, ended


@pytest.mark.parametrize(
    ("text", "values"), [("1e-9", [1e-9]), ("2-1e-9-0.5", [2, 1e-9, 0.5]), ("1E+3-1.", [1000, 1]), ("1e15", [1e15])]
)
def test_a_minus_may_belong_to_a_number(text, values):
    """--sigma2 1e-9 was two numbers once, 1e and 9, and refused."""
    assert parse_thresholds(text, 3)[: len(values)] == values
    assert variances(text, 3)[: len(values)] == values
    assert parse_thresholds(spell_thresholds(values), 3) == parse_thresholds(text, 3)


@pytest.mark.parametrize("text", ["-1", "1--2", "1e-", "e-9", "inf-1", "", "1-"])
def test_what_is_no_number_is_refused(text):
    for parse in (variances, lambda text: parse_thresholds(text, 3)):
        with pytest.raises(OptionError):
            parse(text)


if __name__ == "__main__":
    total: Counter[str] = Counter()
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(start, start + int(sys.argv[1])):
            try:
                total[adapted(number, Path(scratch))] += 1
            except Exception as error:
                total["WRONG"] += 1
                print(f"{number}: {type(error).__name__} {error}"[:300], flush=True)
            for path in Path(scratch).iterdir():
                path.unlink()
    print(dict(total))
