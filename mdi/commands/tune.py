"""Searches for the best model that a background, in-domain text and development text allow, and writes it.

    mdi tune [options] BACKGROUND.arpa[.gz] TEXT[.gz] DEV[.gz] OUT.arpa[.gz]

The background is adapted (mdi adapt) with thresholds by order and a prior on lambda that are searched on the
development text; for each choice the adapted model is mixed with the in-domain model and the background by EM's
weights, so that plain interpolation is among the choices. OUT is the static mixture of the best. OUT.search.tsv
and OUT.search.svg show what was tried.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mdi.certificate import check_outputs, write_certificate
from mdi.commands import options as shared
from mdi.errors import MdiError
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.adaptation.tune import Trial, Tuner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="background, in-domain text, development text, output")
    add = parser.add_argument
    add("--mix-with", metavar="LM", action="append", default=[],
        help="in-domain model(s) to mix with (an interpolated Kneser-Ney model of the in-domain text)")  # fmt: skip
    add("--min-counts", metavar="N-N-N[,...]", help="try just these thresholds (search)")
    add("--sigma2", metavar="V[,...]", help="try just these variances of the prior, such as 0.5,1,none (search)")
    add(
        "--targets",
        choices=("ml", "smoothed"),
        default="ml",
        help="marginals: relative frequencies or Kneser-Ney's (ml)",
    )
    add("--max-settings", type=int, default=24, metavar="N", help="end the search after so many settings (24)")
    shared.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from mdi.adaptation.adapter import Adapter
    from mdi.adaptation.constraints import parse_thresholds
    from mdi.adaptation.problem import onto
    from mdi.adaptation.tune import Tuner
    from mdi.lm.arpa import read_arpa, write_arpa
    from mdi.lm.estimate import estimate
    from mdi.lm.mix import mix
    from mdi.lm.model import with_suffixes
    from mdi.lm.normalise import checked_sum
    from mdi.lm.perplexity import perplexity
    from mdi.lm.text import Text

    if len(args.files) != (3 if args.counts else 4):
        raise MdiError("expected BACKGROUND TEXT DEV OUT, or --counts COUNTS BACKGROUND DEV OUT")
    background_path, *texts, development_path, out = args.files
    shared.check_options(args)
    if args.max_settings < 1 or out == "-":
        raise MdiError("expected a positive --max-settings and a file as output")
    for path in (out, f"{out}.search.tsv", f"{out}.search.svg"):
        check_outputs(path, [background_path, *texts, development_path, *args.mix_with])
    background = read_arpa(background_path)
    shared.check_normalised(background_path, background, args.renormalize)
    counts = shared.read_in_domain(args, texts, background.vocab, background.order)
    adapter = Adapter(background, counts, targets=args.targets, history=shared.read_history(args), threads=args.threads)
    models = {path: onto(read_arpa(path), background.vocab, path) for path in args.mix_with}
    if not models:
        models = {
            "interpolated Kneser-Ney of the in-domain text": estimate(
                counts, "kn-interpolated", [1] * counts.order
            ).model
        }
    models[background_path] = background
    text = Text([development_path], background.vocab)
    development = np.concatenate(list(text))
    if text.stats.oov == text.stats.words:
        raise MdiError(f"{development_path}: none of its words is in the background; check its case and normalisation")
    tuner = Tuner(
        adapter, development, list(models.values()), tolerance=args.tolerance, max_iters=args.max_iters,
        report=_say_point
    )  # fmt: skip
    baseline, weights = tuner.baseline
    say(f"plain interpolation, weights {_numbers(weights)}: development perplexity {baseline:.2f}")
    if args.min_counts or args.sigma2:
        order = background.order
        sets = [tuple(parse_thresholds(part, order)) for part in (args.min_counts or "1,2,5-3-2,10").split(",")]
        sets.sort(reverse=True)
        tuner.grid(sets, _variances(args.sigma2 or "1"))
    else:
        tuner.search(args.max_settings)
    adapted, weights = tuner.finish()
    fields = shared.checked_fields(adapted)
    final = mix([adapted.model, *models.values()], weights)
    fields |= {"worst_sum_gap": checked_sum(final), "ngrams": final.trie.counts}
    result = perplexity(with_suffixes(final), [development_path])
    write_arpa(final, out)
    setting = tuner.best[1]
    inputs = {"background": background_path, "in_domain": args.counts or texts, "development": development_path}
    choice = {
        "min_counts": setting.min_counts, "sigma2": setting.sigma2, "mixed": ["adapted", *models], "weights": weights,
        "development_ppl": result.ppl, "interpolation_ppl": baseline,
        "why": f"lowest development perplexity of {len(tuner.points)} settings",
    }  # fmt: skip
    options = shared.options_of(args)
    write_certificate(
        out, {"command": "tune", **inputs, **shared.text_fields(counts), "choice": choice, "options": options, **fields}
    )  # fmt: skip
    others = [path.rsplit("/", 1)[-1] for path in args.mix_with] if len(args.mix_with) > 1 else ["in-domain"]
    alone = [float(np.exp(-np.log(probs[probs > 0]).mean())) for probs in tuner.others]
    references = dict(zip([*(f"{name} alone" for name in others), "background alone"], alone, strict=True))
    _write_search(tuner, {"interpolation": baseline, **references}, out)
    parts = ", ".join(f"{weight:.3f} {name}" for weight, name in zip(weights, ["adapted", *models], strict=True))
    say(f"chosen: {setting}; mixed: {parts}")
    say(
        f"development perplexity {result.ppl:.2f}, plain interpolation {baseline:.2f} "
        f"({100 * (result.ppl / baseline - 1):+.1f}%)"
    )
    return 0 if shared.say_result(adapted, out) else 1


def _numbers(weights: list[float]) -> str:
    return " ".join(f"{weight:.3f}" for weight in weights)


def _variances(text: str) -> list[float | None]:
    try:
        values = [None if part == "none" else float(part) for part in text.split(",")]
    except ValueError:
        values = [-1.0]
    if any(value is not None and not value > 0 for value in values):
        raise MdiError(f"--sigma2 {text}; expected positive numbers or none, such as 0.5,1,none")
    return values


def _say_point(point: Trial) -> None:
    say(
        f"{point.setting}: {point.constraints:,} constraints, {point.iterations} iterations, {point.seconds:.1f} s; "
        f"perplexity alone {point.ppl_alone:.2f}, mixed {point.ppl_mixed:.2f} ({_numbers(point.weights)})"
    )


def _write_search(tuner: Tuner, references: dict[str, float], out: str) -> None:
    """The settings that were tried, as a table and as a picture. `references`: perplexities to compare them with."""
    import pandas as pd

    from mdi import charts
    from mdi.files import writing

    table = pd.DataFrame(
        {
            "min_counts": point.setting.min_counts,
            "sigma2": f"{point.setting.sigma2:g}" if point.setting.sigma2 else "none",
            "constraints": point.constraints,
            "iterations": point.iterations,
            "seconds": round(point.seconds, 2),
            "ppl_alone": round(point.ppl_alone, 4),
            "ppl_mixed": round(point.ppl_mixed, 4),
            "weights": _numbers(point.weights),
            "chosen": "*" if point.setting == tuner.best[1] else "",
        }
        for point in tuner.points.values()
    )
    with writing(f"{out}.search.tsv") as stream:
        stream.write(table.to_csv(sep="\t", index=False, lineterminator="\n").encode())
    if charts.available():
        charts.write_svg(charts.search_chart(table, references), f"{out}.search.svg")
    else:
        say(f"no picture of the search, since matplotlib is not installed; to have it: {charts.HOW_TO_GET}")
