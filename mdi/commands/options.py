"""Not a verb: what the verbs that adapt a model to in-domain text share."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.cli import boolean
from mdi.cluster import KINDS
from mdi.errors import MdiError, OptionError, check_positive, examples
from mdi.progress import Progress, set_verbose

if TYPE_CHECKING:
    from mdi.adaptation.adapted import Adapted
    from mdi.adaptation.solver import Step
    from mdi.lm.counts import Counts
    from mdi.lm.model import NgramModel
    from mdi.lm.shards import Job
    from mdi.lm.text import TextStats
    from mdi.lm.trie import Array
    from mdi.lm.vocabulary import Vocabulary
    from mdi.saving import Saved

logger = logging.getLogger(__name__)

# A higher share of words outside the vocabulary than this makes perplexities look better than they are.
MUCH_UNKNOWN = 0.05


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--counts", metavar="FILE", help="SRILM count file instead of text; fractional counts are fine")
    add("--oov", choices=("map", "drop", "error"), default="map", help="words outside the model's vocabulary (map)")
    add("--history", default="ml", metavar="ml|LM", help="history distribution: the text's, or a back-off model's (ml)")
    add("--tolerance", type=float, default=1e-3, metavar="L1",
        help="L1 distance between targets and marginals to stop at (1e-3)")  # fmt: skip
    add("--max-iters", type=int, default=200, metavar="N", help="(200)")
    add("--renormalize", type=boolean, default=False, metavar="true|false",
        help="accept a model that does not sum to one (false)")  # fmt: skip
    add("--threads", type=int, default=2, metavar="N", help="results do not depend on it (2)")
    add("--estimate", type=boolean, default=False, metavar="true|false",
        help="only say about how long it would take, and in how much memory (false)")  # fmt: skip
    add("--verbose", type=boolean, default=False, metavar="true|false", help="a line for every iteration (false)")


def add_model_arguments(parser: argparse.ArgumentParser, *, writes: bool = True, words: bool = True) -> None:
    """Of verbs that read models, which may be in any form, and maybe write one."""
    if words:
        parser.add_argument("--words", metavar="words.txt",
                            help="Kaldi's table, or an FST with one inside, for models that have numbers")  # fmt: skip
    if writes:
        parser.add_argument("--format", choices=("arpa", "fst", "opengrm", "ngram", "carpa"),
                            help="form of OUT (as its name says: *.carpa, Gr.fst, *.fst, otherwise ARPA)")  # fmt: skip


def add_cluster_arguments(parser: argparse.ArgumentParser, *, memory: bool = True) -> None:
    """Of verbs that can work in shards. `memory`: whether --memory is not an option of the verb already."""
    add = parser.add_argument
    add("--cluster", metavar="WHERE", help=f"share the work between Dask workers: {KINDS} (this process)")
    if memory:
        add("--memory", metavar="SIZE", help="of each process, such as 2G: cut the models into shards that fit (none)")
    add("--shards", type=int, metavar="N", help="cut into so many shards (as many as workers and memory demand)")
    add("--shards-dir", metavar="DIR",
        help="folder for shards, which all workers see; removed when all is done, used again after a failure "
             "(OUT.shards)")  # fmt: skip


def parse_size(name: str, text: str) -> int:
    """Bytes of '500M' or '2G'."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text, re.IGNORECASE)
    size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")) if match else 0
    if size < 1 << 20:
        raise OptionError(name, text, "at least 1M, such as 500M or 2G")
    return size


@contextmanager
def sharding(args: argparse.Namespace, out: str, inputs: list[str], memory: str | None = None) -> Iterator[Job | None]:
    """Where arrays are meanwhile, and by whom shards are worked on; None where all is in memory. A job that fails
    leaves what it has for the next try."""
    if args.cluster is None and args.shards is None and memory is None:
        yield None
        return
    from mdi.cluster import connected
    from mdi.lm.shards import PROGRAM, Job, at_work, job_folder, source_of

    if args.shards is not None:
        check_positive("shards", args.shards)
    if out == "-" and args.shards_dir is None:
        raise MdiError("standard output and a model in shards; expected --shards-dir DIR for the shards")
    size = None if memory is None else parse_size("memory", memory)
    if size is not None and size <= PROGRAM:
        raise OptionError("memory", memory, f"more than {PROGRAM >> 20}M, which the program itself takes")
    about = {name: value for name, value in vars(args).items() if name not in _FREE}
    about["sources"] = [source_of(path) for path in inputs]
    name = out.replace("{}", "sweep")
    with (
        connected(
            args.cluster, size, f"{name}.workers.log"
        ) as runner,  # first: where it fails there is nothing to keep
        job_folder(args.shards_dir or f"{name}.shards", about) as folder,
    ):
        job = Job(folder, runner, size, args.shards)
        with at_work(job):
            yield job
        if runner.exchanged:
            logger.debug(f"{runner.exchanged / 1e6:.1f} MB sent to workers and back")


# Options that may change between tries.
_FREE = ("cluster", "threads", "verbose", "estimate", "memory", "shards_dir")


def read_model(path: str, args: argparse.Namespace, closed: bool = True) -> NgramModel:
    """A model in any form: see `mdi convert`."""
    from mdi.fst.formats import load

    return load(path, args.words, closed=closed)


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
            raise MdiError(f"{out}: is to be written twice, as two outputs; give each a name of its own")


def check_model_output(path: str, args: argparse.Namespace, sources: list[str], *others: str) -> None:
    """The same for a model, its certificate and other outputs; refuses a form for which the numbers of words are
    missing."""
    from mdi.certificate import certificate_of
    from mdi.fst.formats import check_form, words_for

    check_outputs(args, path, *others, beside=certificate_of(path))
    check_form(path, args.format, words_for(args.words, *sources))


def save_model(
    model: Saved, path: str, args: argparse.Namespace, sources: list[str], about: dict[str, Any], started: float,
    *, more: dict[str, Any] | None = None, keep: list[Array] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Saves what a verb has made, in the form of --format or of its name, with the numbers of --words or of a source
    that has a table of words inside."""
    from mdi.fst.formats import words_for
    from mdi.saving import save

    return save(
        model, path, words=words_for(args.words, *sources), format=args.format, about=about, more=more, keep=keep,
        started=started,
    )  # fmt: skip


def same_settings(record: Path, settings: dict[str, Any], holds: str) -> None:
    """Keeps what a job in a folder was begun with; refuses to go on with anything else."""
    import json

    from mdi.files import read_json, writing

    if record.exists() and read_json(record) != settings:
        raise MdiError(f"{record.parent}: holds {holds}; remove the folder or name another one")
    with writing(str(record)) as stream:
        stream.write(json.dumps(settings).encode())


def check_options(args: argparse.Namespace) -> None:
    for name in ("tolerance", "max_iters", "threads"):
        check_positive(name, getattr(args, name))


def parse_variances(text: str | None) -> float | list[float] | None:
    """'1', or by order '2-1-0.5'; None and 'none' mean no prior."""
    from mdi.adaptation.problem import check_variance
    from mdi.lm.thresholds import numbers_by_order

    if text is None or text == "none":
        return None
    try:
        values = numbers_by_order(text)
    except ValueError:
        raise OptionError("sigma2", text, "a positive number, one per order such as 2-1-0.5, or none") from None
    for value in values:
        check_variance(value)
    return values if len(values) > 1 else values[0]


def sizes(background: str, texts: list[str]) -> tuple[float, float]:
    """N-grams of the background and words of the texts, about, for an estimate."""
    from mdi.cost import count_ngrams, count_words

    for path in (background, *texts):
        if not Path(path).exists():
            raise MdiError(f"{path}: no such file; expected one whose size tells the cost")
    return count_ngrams(Path(background)), sum(count_words(Path(text)) for text in texts)


def read_history(args: argparse.Namespace) -> NgramModel | None:
    return None if args.history == "ml" else read_model(args.history, args)


def read_in_domain(args: argparse.Namespace, texts: list[str], vocab: Vocabulary, order: int) -> Counts:
    """Counts of the texts and of --counts or --lattices, and a line about them."""
    from mdi.lm.counts import add_counts, count_text, scaled_counts

    weight = getattr(args, "count_weight", 1.0)
    believed = _read_believed(args, vocab, order)
    if texts:
        counts = count_text(list(map(Path, texts)), vocab, order, args.oov)
        if believed is not None:
            counts = add_counts(counts, believed, weight)
    else:
        assert believed is not None  # noqa: S101 - for the type checker
        counts = believed if weight == 1.0 else scaled_counts(believed, weight)
    stats = counts.stats
    if stats.oov > 0.5 * stats.words:
        raise MdiError(
            f"{stats.oov:,} of {stats.words:,} in-domain words are outside the vocabulary, such as "
            f"{examples(stats.oov_examples)}; expected most of them in it. {why_unknown(stats)}"
        )
    note = ""
    if stats.oov:
        done = "mapped to <unk>" if args.oov == "map" and vocab.unk >= 0 else "left out with the n-grams around them"
        note = f"; {stats.oov:,} words outside the vocabulary, such as {examples(stats.oov_examples)}: {done}"
    logger.info(f"in-domain: {stats.sentences:,} sentences, {stats.words:,} words{note}")
    warn_of_unknown("in-domain", stats.oov, stats.words)
    return counts


def _read_believed(args: argparse.Namespace, vocab: Vocabulary, order: int) -> Counts | None:
    """Counts that are not of text: of a file, or expected over lattices and their like."""
    from mdi.lm.counts import read_counts

    if args.counts:
        return read_counts(args.counts, vocab, order, args.oov)
    if not getattr(args, "lattices", None):
        return None
    from mdi.speech.expected_counts import expected_counts

    return expected_counts(
        args.lattices, vocab, order, words=args.words, kind=args.lattice_format, oov=args.oov,
        acoustic_scale=args.acoustic_scale, lm_scale=args.lm_scale, penalty=args.word_penalty,
    )  # fmt: skip


def why_unknown(stats: TextStats) -> str:
    """A question about text of which hardly a word is known, or its answer."""
    if any(0xDC80 <= ord(letter) <= 0xDCFF for word in stats.oov_examples for letter in word):
        return "The text is not UTF-8; convert it: iconv -f latin1 -t utf-8"
    return "Are text and model in the same letter case, and are there no utterance names in the text?"


def add_delta(parser: argparse.ArgumentParser, model: str) -> None:
    parser.add_argument("--delta", metavar="A.delta", help=f"take {model} as this file of mdi adapt --delta adapts it")


def read_adapted(path: str, args: argparse.Namespace, closed: bool = True) -> NgramModel:
    """The model, adapted where there is a --delta to it."""
    if args.delta is None:
        return read_model(path, args, closed)
    from mdi.adaptation.delta import apply_delta

    return apply_delta(read_model(path, args), args.delta, path)


def warn_of_unknown(name: str, oov: int, words: int) -> None:
    """<unk> is easy to predict: perplexities over vocabularies that leave much out are no good for comparisons."""
    if oov > MUCH_UNKNOWN * words:
        logger.warning(
            f"WARNING: {name}: {100 * oov / words:.1f}% of the words are outside the vocabulary. <unk> is easy to "
            f"predict, so perplexities look better than they are; do not compare them with those over another "
            f"vocabulary. Make one that has these words (mdi vocab) and build the models over it (mdi train --vocab)"
        )


@contextmanager
def watched(args: argparse.Namespace) -> Iterator[Callable[[Step], None]]:
    """What to call with every step of a solver: one line that follows it, or with --verbose a line for each."""
    set_verbose(args.verbose)
    with Progress("solving", unit="iterations") as bar:

        def report(step: Step) -> None:
            bar.update(step.iteration, f"L1 {step.l1:.3g}")
            logger.debug(f"iteration {step.iteration}: D {step.objective:.6f}, L1 {step.l1:.3g}, {step.seconds:.1f} s")

        yield report


def text_fields(counts: Counts) -> dict[str, int]:
    return {"sentences": counts.stats.sentences, "words": counts.stats.words, "oov": counts.stats.oov}


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options for the certificate; the number of threads changes nothing."""
    return {
        name: value
        for name, value in vars(args).items()
        if name not in ("files", "threads", "verbose", "estimate", "cluster", "memory", "shards", "shards_dir")
    }


def sum_fields(model: NgramModel, out: str, form: str | None = None) -> dict[str, Any]:
    from mdi import saving

    return saving.sum_fields(model, out, form)


def checked_fields(adapted: Adapted, out: str) -> dict[str, Any]:
    from mdi import saving

    return saving.checked_fields(adapted, out)


def say_result(adapted: Adapted, out: str, delta: bool = False) -> bool:
    """A line about the model or the delta; whether it converged."""
    size = "" if delta else f", {sum(adapted.counts):,} n-grams"
    logger.info(
        f"{adapted.solution.message}; {adapted.problem.constraints.total:,} constraints, KL to the background "
        f"{adapted.kl:.4f} nats per word{size} -> {out}"
    )
    if not adapted.solution.converged:
        logger.info(
            f"{out}: the solver did not converge; the model is valid, but some marginals are off (see the certificate)"
        )
    return adapted.solution.converged
