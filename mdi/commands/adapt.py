"""Adapts a background model to in-domain text by minimum discrimination information.

    mdi adapt [options] BACKGROUND TEXT[.gz]... OUT
    mdi adapt [options] --delta OUT.delta BACKGROUND TEXT[.gz]...
    mdi adapt [options] --counts COUNTS BACKGROUND [TEXT...] OUT
    mdi adapt [options] --lattices LATTICES --words words.txt BACKGROUND [TEXT...] OUT

Among all models that have the in-domain marginals of the chosen n-grams, the result is the closest to the background.
It is written with a certificate, OUT.json. Without options all n-grams of the text are constraints, under a Gaussian
prior; we recommend this if you have no development text (if you have some, see mdi tune). One job can sweep over
several thresholds: with --min-counts 2-2-2,5-3-2,6-4-3 the name of the output must contain {}, which becomes the
thresholds. The background is then read once, and each set starts from the last solution. --lattices takes whatever mdi
counts takes (lattices, n-best lists, ctm, Vosk's JSON): the model adapts to what a recogniser believes, with or without
TEXT.

With --cluster, or --memory alone, the arrays of the background lie in files, and a process works on one shard of them
at a time; the result is the same, byte for byte.

With --delta there is no OUT. Only the changes are written, to a small file. mdi apply makes the same model from it, and
mdi ppl, rescore, fst and mix take it beside the background. --start continues from such a file with more text.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from mdi.certificate import certificate_of
from mdi.commands import options
from mdi.commands.inputs import check_inputs, read_history, read_in_domain, read_model, spoken_texts, text_fields
from mdi.commands.outputs import check_numbered, check_outputs, report_result, save_model, watched
from mdi.errors import UsageError, check_positive

if TYPE_CHECKING:
    from mdi.adaptation.adapted import Adapted

OPTIONS = f"""
files FILE+  background, in-domain text(s), output
--min-counts N-N-N[,...] = 1  constrain n-grams seen at least so often, by order; the last number holds for all longer
  n-grams; several sets make a sweep
{options.TARGETS}
--targets-lm LM  marginals of this model instead
--lattices IN*  adapt to expected counts over these; may be repeated
--count-weight W = 1  multiply the counts of --counts and --lattices by this before thresholds apply
--sigma2 V[-V-V]|none = 1  variance of a Gaussian prior on lambda, for all orders or by order; none: no prior. The
  paper's sweep is --min-counts 2-2-2,5-3-2,6-4-3 --sigma2 none
--delta OUT.delta  write the adaptation to a small file instead of a model
--start A.delta  start from an earlier adaptation of the same background
--constraints-out TSV  write n-gram, order, count, target, marginals, lambda
--ppl TEXT*  print the perplexity of this text; may be repeated
{options.text("none")}
{options.LATTICES}
{options.FORMAT}
{options.IN_SHARDS}
{options.adaptation()}
"""


def run(args: argparse.Namespace) -> int:
    from mdi.adaptation.problem import variances
    from mdi.fst.formats import check_form, words_for

    files = [*args.files, *filter(None, [args.delta])]
    background_path, *texts, out = files if len(files) > 1 else (*files, "")
    if not out or not (texts or args.counts or args.lattices) or (args.counts and args.lattices):
        raise UsageError(
            "expected BACKGROUND TEXT OUT, or --counts COUNTS or --lattices IN before BACKGROUND [TEXT] OUT"
        )
    options.check_options(args)
    check_positive("count_weight", args.count_weight)
    if args.count_weight != 1 and not (args.counts or args.lattices):
        raise UsageError(f"--count-weight {args.count_weight:g} and no counts; expected --counts or --lattices, too")
    if args.delta and (args.words_out or args.format):
        raise UsageError("--delta and an option of models, --words-out or --format; expected it with mdi apply")
    args.sigma2 = None if variances(args.sigma2) is None else args.sigma2
    args.lattices = args.lattices or None
    sets = list(dict.fromkeys(args.min_counts.split(",")))
    named = {text: (out.replace("{}", text), (args.constraints_out or "").replace("{}", text)) for text in sets}
    unnamed = "{}" not in out or (args.constraints_out and "{}" not in args.constraints_out)
    if len(sets) > 1 and (unnamed or args.start):
        raise UsageError("several --min-counts need {} in the output's name (and in --constraints-out), and no --start")
    made = [path for path in (args.words_out, *(path for pair in named.values() for path in pair)) if path]
    beside = [path for model, _ in named.values() for path in certificate_of(model) if not args.delta]
    check_inputs(background_path, *texts, *args.ppl, args.words, args.counts, args.targets_lm, args.start)
    check_outputs(args, *made, beside=beside)  # a delta has its certificate inside
    if not args.delta:
        check_form(out, args.format, words_for(args.words, background_path), args.words_out)

    files = [background_path, *texts, *filter(None, [args.counts, args.targets_lm, args.start])]
    with options.sharding(args, out, [*files, *(args.lattices or [])], args.memory):
        return _adapt(args, named)


def _adapt(args: argparse.Namespace, named: dict[str, tuple[str, str]]) -> int:
    """`named`: model and table for each set of thresholds."""
    from mdi import __version__
    from mdi.adaptation.adapter import Adapter, OneAdaptation
    from mdi.adaptation.delta import delta_of, write_delta
    from mdi.adaptation.table import write_constraints
    from mdi.files import together
    from mdi.lm.identity import identity
    from mdi.lm.normalise import check_normalised
    from mdi.lm.perplexity import perplexity
    from mdi.saving import checked_fields, sum_fields

    background_path, *texts = args.files if args.delta else args.files[:-1]
    sets = list(named)
    targets = read_model(args.targets_lm, args) if args.targets_lm else args.targets
    longest = targets.order if args.targets_lm else 1
    background = read_model(background_path, args)
    said = spoken_texts(args, [*texts, *args.ppl], background)
    counts = read_in_domain(args, [said[text] for text in texts], background.vocab, max(background.order, longest))
    kind = OneAdaptation if len(sets) == 1 and not args.delta else Adapter
    adapter = kind(
        background, counts, targets=targets, history=read_history(args), threads=args.threads, allow_unnormalized=True
    )  # checked below
    background = background if args.delta else adapter.background
    if not args.delta:
        check_numbered(args.files[-1], args, [background_path], adapter.background.vocab)
    if args.delta:
        adapter, identified = adapter.on_part(), identity(background)
    check_normalised(background_path, adapter.background, args.allow_unnormalized)
    in_domain = [*texts, *filter(None, [args.counts]), *(args.lattices or [])]
    inputs = {"background": background_path, "in_domain": in_domain, **text_fields(counts.stats)}
    del counts
    common = time.monotonic() - args.started  # what all models of a sweep share

    def write(adapted: "Adapted", seconds: float) -> str:
        """Writes a model and what belongs to it; returns the lines about its perplexities."""
        started = time.monotonic() - seconds
        thresholds = adapted.problem.min_counts
        model_path, table = named[thresholds]
        model = adapted.whole
        if args.delta:
            made = {**inputs, "sigma2": args.sigma2, "count_weight": args.count_weight, "mdi": __version__}
            fields = checked_fields(adapted, model_path)
            fields |= sum_fields(adapted.whole, model_path, args.format, f": {adapted.solution.message}")
            about = {name: value for name, value in fields.items() if name not in ("steps", "ngrams", "new_words")}
            delta = delta_of(adapted, identified, about, made)
            model = delta.apply(background) if args.ppl else model
        ppl = {text: perplexity(model, said[text]).as_dict() for text in args.ppl}
        with together():
            if args.delta:
                write_delta(delta, model_path)
            else:
                chosen = {**options.options_of(args), "min_counts": thresholds}
                about, more = {"command": "adapt", **inputs, "options": chosen}, {"perplexity": ppl}
                save_model(adapted, model_path, args, [background_path], about, started=started, more=more)
            if table:
                write_constraints(adapted, table)
        report_result(adapted, model_path, bool(args.delta))
        return "".join(f"{thresholds}\t{path}\t{found['ppl']:.7g}\n" for path, found in ppl.items())

    converged, alone = True, any(path == "-" for path, _ in named.values())  # on standard output
    # a model is written while the next one is solved
    with ThreadPoolExecutor(1) as pool, watched(args) as settings:
        if len(sets) > 1:
            results = adapter.sweep(sets, sigma2=args.sigma2, settings=settings)
        else:
            results = (adapter.adapt(text, sigma2=args.sigma2, settings=settings, start=args.start) for text in sets)
        pending = []
        begun = time.monotonic()
        for adapted in results:
            pending.append(pool.submit(write, adapted, common + time.monotonic() - begun))
            converged &= adapted.solution.converged
            begun = time.monotonic()
        for written in pending:
            print(written.result(), end="", flush=True, file=sys.stderr if alone else None)
    return 0 if converged else 1
