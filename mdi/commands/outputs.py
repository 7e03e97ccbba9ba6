"""Not a verb: outputs as verbs check, watch, save and report them."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.errors import UsageError
from mdi.progress import Progress, detail, say, set_verbose

if TYPE_CHECKING:
    from mdi.adaptation.adapted import Adapted
    from mdi.adaptation.solver import SolverSettings, Step
    from mdi.lm.trie import Array
    from mdi.lm.vocabulary import Vocabulary
    from mdi.saving import Saved


def check_outputs(args: argparse.Namespace, *named: str, beside: Iterable[str] = (), folder: str = "") -> None:
    """Refuses, before any work is done, outputs that cannot be written, that are the same file, or that are an input:
    whatever is named on the command line, by an option or not, and is no output. `beside`: what else is written;
    `folder`: the one that it is written into."""
    from mdi.files import check_output, is_stream, same_file

    values = (value for name in vars(args).values() for value in (name if isinstance(name, list) else [name]))
    inputs = [value for value in values if isinstance(value, str)]
    outputs = [*named, *beside]
    for out in (*named, folder):
        if out in inputs:
            inputs.remove(out)
    inputs += [str(part) for source in inputs if Path(source).is_dir() for part in Path(source).glob("lat.*.gz")]
    for i, out in enumerate(outputs):
        check_output(out, inputs)
        if any(same_file(out, other) and not is_stream(out) for other in outputs[:i]):
            raise UsageError(f"{out}: is to be written twice, as two outputs; give each a name of its own")


def check_model_output(path: str, args: argparse.Namespace, sources: list[str], *others: str) -> None:
    """The same for a model, its certificate and other outputs; refuses a form for which the numbers of words are
    missing."""
    from mdi.certificate import certificate_of
    from mdi.fst.formats import check_form, words_for

    check_outputs(args, path, *others, *filter(None, [args.words_out]), beside=certificate_of(path))
    check_form(path, args.format, words_for(args.words, *sources), args.words_out)


def check_numbered(
    path: str, args: argparse.Namespace, sources: list[str], vocab: "Vocabulary", more: Sequence[str] = ()
) -> None:
    """Refuses words that `save_model` would refuse, as soon as they are known: those of `vocab`, and `more`."""
    from mdi.fst.formats import check_words, format_of, words_for

    words = words_for(args.words, *sources)
    needed = [*vocab.unmarked, *more] if words else []
    check_words(path, args.format or format_of(path), words, needed, args.words_out)


def save_model(
    model: "Saved",
    path: str,
    args: argparse.Namespace,
    sources: list[str],
    about: dict[str, Any],
    *,
    started: float | None = None,
    more: dict[str, Any] | None = None,
    keep: "list[Array] | None" = None,
) -> dict[str, Any]:
    """Saves what a verb has made, in the form of --format or of its name, with the numbers of --words or of a source
    that has a table of words inside, and of --words-out for words that it lacks."""
    from mdi.fst.formats import words_for
    from mdi.saving import save

    return save(
        model,
        path,
        words=words_for(args.words, *sources),
        words_out=args.words_out,
        format=args.format,
        about=about,
        more=more,
        keep=keep,
        started=started or args.started,
    )


@contextmanager
def watched(args: argparse.Namespace) -> "Iterator[SolverSettings]":
    """Settings of a solver that is followed by one line, or with --verbose has a line for every step."""
    from mdi.adaptation.solver import SolverSettings

    set_verbose(args.verbose)
    with Progress("solving", unit="iterations") as bar:

        def report(step: "Step") -> None:
            bar.update(step.iteration, f"L1 {step.l1:.3g}")
            detail(f"iteration {step.iteration}: D {step.objective:.6f}, L1 {step.l1:.3g}, {step.seconds:.1f} s")

        yield SolverSettings(args.tolerance, args.max_iters, report)


def report_result(adapted: "Adapted", out: str, delta: bool = False) -> bool:
    """A line about the model or the delta; whether it converged."""
    size = "" if delta else f", {sum(adapted.counts):,} n-grams"
    say(
        f"{adapted.solution.message}; {adapted.problem.constraints.total:,} constraints, KL to the background "
        f"{adapted.kl:.4f} nats per word{size} -> {out}"
    )
    if not adapted.solution.converged:
        say(f"{out}: the solver did not converge; the model is valid, but some marginals are off (see the certificate)")
    return adapted.solution.converged
