"""Not a verb: options that several verbs have, and what they say."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from mdi.cli import boolean
from mdi.cluster import KINDS
from mdi.errors import OptionError, check_positive
from mdi.progress import get_logger

logger = get_logger(__name__)


class Renamed(argparse.Action):
    """An option of two names, of which the second goes with the next release, and says so where it is used."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        if option_string != self.option_strings[0]:
            new = self.option_strings[0]
            print(f"{option_string}: is now {new}; the old name goes with the next release", file=sys.stderr)
        setattr(namespace, self.dest, values)


def add_adaptation_arguments(parser: argparse.ArgumentParser, new_words: str = "add") -> None:
    """`new_words`: what is done with them unless told otherwise."""
    add = parser.add_argument
    add("--counts", metavar="FILE", help="SRILM count file instead of text; fractional counts are fine")
    add(
        "--new-words",
        "--oov",
        dest="new_words",
        default=new_words,
        action=Renamed,
        metavar="HOW",
        help=f"words that the model lacks: add, N (add those seen so often), LIST (add those of a word list), map (to "
        f"<unk>), drop (with the n-grams around them) or error ({new_words})",
    )
    add("--history", default="ml", metavar="ml|LM", help="history distribution: the text's, or a back-off model's (ml)")
    add(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="L1",
        help="L1 distance between targets and marginals to stop at (1e-3)",
    )
    add("--max-iters", type=int, default=200, metavar="N", help="(200)")
    add(
        "--allow-unnormalized",
        "--renormalize",
        dest="renormalize",
        type=boolean,
        default=False,
        metavar="true|false",
        action=Renamed,
        help="accept a model that does not sum to one (false)",
    )
    add("--threads", type=int, default=2, metavar="N", help="results do not depend on it (2)")
    add("--verbose", type=boolean, default=False, metavar="true|false", help="a line for every iteration (false)")


def add_text_arguments(parser: argparse.ArgumentParser, normalise: str) -> None:
    """Of verbs that adapt to text. Only text for a model that one got from others is normalised unless asked for: a
    corpus is prepared, and figures are compared over it."""
    add = parser.add_argument
    add(
        "--normalise",
        choices=("auto", "none"),
        default=normalise,
        help="auto: write the text as the model spells words, numbers in words, a sentence per line, as far as it is "
        f"not so already; none: take it as it is ({normalise})",
    )
    add("--language", metavar="CODE", help="that numbers are read out in, such as en (the vocabulary's)")


def add_model_arguments(parser: argparse.ArgumentParser, *, writes: bool = True, words: bool = True) -> None:
    """Of verbs that read models, which may be in any form, and maybe write one."""
    if words:
        parser.add_argument(
            "--words",
            metavar="words.txt",
            help="Kaldi's table, or an FST with one inside, for models that have numbers",
        )
    if writes:
        parser.add_argument(
            "--format",
            choices=("arpa", "fst", "opengrm", "ngram", "carpa"),
            help="form of OUT (as its name says: *.carpa, Gr.fst, *.fst, otherwise ARPA)",
        )
        add_words_out(parser)


def add_words_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--words-out",
        metavar="words.txt",
        help="write --words with the words that it lacks behind its own, such as new ones",
    )


def add_cluster_arguments(parser: argparse.ArgumentParser, *, memory: bool = True) -> None:
    """Of verbs that can work in shards. `memory`: whether --memory is not an option of the verb already."""
    add = parser.add_argument
    add("--cluster", metavar="WHERE", help=f"share the work between Dask workers: {KINDS} (this process)")
    if memory:
        add("--memory", metavar="SIZE", help="of each process, such as 2G: cut the models into shards that fit (none)")
    add("--shards", type=int, metavar="N", help="cut into so many shards (as many as workers and memory demand)")
    add(
        "--shards-dir",
        metavar="DIR",
        help="folder for shards, which all workers see; removed when all is done, used again after a failure "
        "(OUT.shards)",
    )


def parse_size(name: str, text: str) -> int:
    """Bytes of '500M' or '2G'."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text, re.IGNORECASE)
    size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")) if match else 0
    if size < 1 << 20:
        raise OptionError(name, text, "at least 1M, such as 500M or 2G")
    return size


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


def add_delta(parser: argparse.ArgumentParser, model: str) -> None:
    parser.add_argument("--delta", metavar="A.delta", help=f"take {model} as this file of mdi adapt --delta adapts it")


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options for the certificate; the number of threads changes nothing."""
    return {
        name: value
        for name, value in vars(args).items()
        if name not in ("files", "threads", "verbose", "cluster", "memory", "shards", "shards_dir")
    }
