"""Searches for the best model that a background, in-domain text and development text allow, and writes it.

    mdi tune [options] BACKGROUND TEXT[.gz] DEV[.gz] OUT

The background is adapted (mdi adapt) with various thresholds and variances of the prior, both by order. For each choice
the adapted model is mixed with the in-domain model and the background, with weights tuned by EM on the development
text. Plain interpolation, the in-domain model alone and the sets of --sets, with and without a prior, are among the
choices, so OUT is never worse than these on the development text. OUT is the static mixture of the best choice.
OUT.search.tsv and OUT.search.svg show what was tried.
"""

import argparse
from typing import TYPE_CHECKING, Any

from mdi.commands import options
from mdi.commands.inputs import read_history, read_in_domain, read_model, spoken_texts, text_fields, warn_of_unknown
from mdi.commands.outputs import check_model_output, check_numbered, check_outputs, report_result, save_model
from mdi.errors import UsageError
from mdi.files import together, write_file
from mdi.progress import Progress, detail, say, set_verbose

if TYPE_CHECKING:
    from mdi.adaptation.tune import Tuned
    from mdi.adaptation.tuner import Trial

OPTIONS = f"""
files FILE+  background, in-domain text, development text, output
--mix-with LM*  in-domain model(s) to mix with (an interpolated Kneser-Ney model of the in-domain text)
--max-order N  longest n-grams of that model, if they predict better (one above the background's)
--min-counts N-N-N[,...]  try only these thresholds (search)
--sigma2 V[,...]  try only these variances of the prior, such as 0.5,2-1-1,none (search)
--sets N-N-N[,...] = 2-2-2,5-3-2,6-4-3  thresholds that the search tries in any case, with and without a prior
{options.TARGETS}
--max-settings N = 32  stop the search after this many settings
{options.text("none")}
{options.MODELS}
{options.IN_SHARDS}
{options.adaptation()}
"""


def run(args: argparse.Namespace) -> int:
    from mdi.adaptation.tuner import check_choices

    set_verbose(args.verbose)
    if len(args.files) != (3 if args.counts else 4):
        raise UsageError("expected BACKGROUND TEXT DEV OUT, or --counts COUNTS BACKGROUND DEV OUT")
    background_path, *_, out = args.files
    options.check_options(args)
    check_choices(**_choices(args))
    if out == "-":
        raise UsageError("expected a file as output")
    searched = (f"{out}.search.tsv", f"{out}.search.svg")
    check_model_output(out, args, [background_path, *args.mix_with])
    check_outputs(args, out, beside=searched)
    with options.sharding(args, out, [*args.files[:-1], *args.mix_with, *filter(None, [args.counts])], args.memory):
        return _tune(args)


def _choices(args: argparse.Namespace) -> dict[str, Any]:
    """What is searched, as `tune` takes it: the usual sets are those of them that fit the background."""
    from mdi.adaptation.tuner import PAPER_SETS

    given = {name: value.split(",") if (value := getattr(args, name)) else None for name in ("min_counts", "sigma2")}
    sets = args.sets.split(",") if args.sets else []
    return {**given, "sets": None if tuple(sets) == PAPER_SETS else sets}


def _tune(args: argparse.Namespace) -> int:
    from mdi.adaptation.solver import SolverSettings
    from mdi.adaptation.tune import tune
    from mdi.lm.normalise import check_normalised
    from mdi.lm.text import OOV

    background_path, *texts, development_path, out = args.files
    background = read_model(background_path, args)
    check_normalised(background_path, background, args.allow_unnormalized)
    said = spoken_texts(args, [*texts, development_path], background)
    in_domain = [said[text] for text in texts]
    counts = read_in_domain(args, in_domain, background.vocab, background.order)
    check_numbered(out, args, [background_path, *args.mix_with], counts.vocab)
    added = counts.vocab.words[len(background.vocab) :]
    bar, best = Progress("searching", unit="settings"), [float("inf")]

    def watch(trial: "Trial") -> None:
        """One line that follows the search; a line for each setting that is better than all before, or with --verbose
        for every one."""
        (say if trial.ppl_mixed < best[0] else detail)(_described(trial))
        best[0] = min(best[0], trial.ppl_mixed)
        bar.update(trial.number, f"best {best[0]:.2f}")

    tuned = tune(
        background,
        counts if args.counts else in_domain,
        said[development_path],
        mix_with={path: read_model(path, args) for path in args.mix_with},
        max_order=args.max_order,
        **_choices(args),
        max_settings=args.max_settings,
        targets=args.targets,
        history=read_history(args),
        new_words=args.new_words if args.new_words in OOV else added or "map",
        settings=SolverSettings(args.tolerance, args.max_iters),
        threads=args.threads,
        allow_unnormalized=True,  # it has been checked
        report=watch,
    )
    bar.close()
    ppl = tuned.development.ppl
    choice: dict[str, Any] = {"min_counts": tuned.setting.min_counts, "sigma2": tuned.setting.sigma2}
    choice |= {"mixed": list(tuned.weights), "weights": list(tuned.weights.values()), "development_ppl": ppl}
    choice |= {"interpolation_ppl": tuned.interpolation, "in_domain_ppl": tuned.in_domain}
    choice |= {"why": f"lowest development perplexity of {len(tuned.trials)} settings", "ended": tuned.ended}
    inputs = {"background": background_path, "in_domain": args.counts or texts, "development": development_path}
    about = {"command": "tune", **inputs, **text_fields(counts.stats), "choice": choice}
    sources, more = [background_path, *args.mix_with], {"options": options.options_of(args)}
    with together():
        save_model(tuned, out, args, sources, about, more=more)
        _write_search(tuned, out)
    parts = ", ".join(f"{weight:.3f} {name}" for name, weight in tuned.weights.items())
    say(f"search: {len(tuned.trials)} settings; ended: {tuned.ended.replace('max_settings', '--max-settings')}")
    say(f"chosen: {tuned.setting}; mixed: {parts}")
    alone = ", ".join(f"{value:.2f}" for value in tuned.in_domain.values())
    say(
        f"development perplexity {ppl:.2f}; plain interpolation {tuned.interpolation:.2f} "
        f"({100 * (ppl / tuned.interpolation - 1):+.1f}%), in-domain model alone {alone}"
    )
    dev = tuned.development
    warn_of_unknown("development", dev.oov, dev.words, dev.unk_scored)
    return 0 if report_result(tuned.adapted, out) else 1


def _described(trial: "Trial") -> str:
    weights = " ".join(f"{weight:.3f}" for weight in trial.weights)
    return (
        f"{trial.number}. {trial.setting}: {trial.constraints:,} constraints, {trial.iterations} iterations, "
        f"{trial.seconds:.1f} s; perplexity alone {trial.ppl_alone:.2f}, mixed {trial.ppl_mixed:.2f} ({weights})"
    )


def _write_search(tuned: "Tuned", out: str) -> None:
    """The settings that were tried, as a table and as a picture."""
    from mdi import charts

    table = tuned.table()
    table = table.assign(chosen=table["chosen"].map({True: "*", False: ""}))
    text = table.to_csv(sep="\t", index=False, float_format="%.4f", lineterminator="\n")
    write_file(f"{out}.search.tsv", text)
    if not charts.available():
        say(f"no picture of the search, since matplotlib is not installed; to have it: {charts.HOW_TO_GET}")
        return
    charts.write_svg(charts.search_chart(table, tuned.references()), f"{out}.search.svg")
