"""Not a verb: options that several verbs have, as tables (see mdi/arguments.py), and what they say."""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mdi.cluster import KINDS
from mdi.errors import OptionError, UsageError, check_positive
from mdi.progress import detail

if TYPE_CHECKING:
    from mdi.lm.shards import Job

# Of verbs that adapt.
TARGETS = "--targets ml|smoothed = ml  marginals: relative frequencies or Kneser-Ney's"
# Of verbs that read models, which may be in any form, and of those that write them.
WORDS = "--words words.txt  Kaldi's word table, or an FST with one inside, for models with word IDs"
WORDS_OUT = "--words-out words.txt  write --words with the words that it lacks after its own, such as new ones"
FORMAT = f"""
--format arpa|fst|opengrm|ngram|carpa  format of OUT (by its name: *.carpa, Gr.fst, *.fst, otherwise ARPA)
{WORDS_OUT}
"""
MODELS = f"{WORDS}{FORMAT}"
# Of verbs that can work in shards.
CLUSTER = f"--cluster WHERE  share the work between Dask workers: {KINDS} (this process)"
SHARDS = """
--shards N  cut into this many shards (as many as workers and memory demand)
--shards-dir DIR  directory that all workers see, for shards, which are removed in the end (OUT.shards)
"""
IN_SHARDS = f"""
{CLUSTER}
--memory SIZE  limit of each process, such as 2G: cut the models into shards that fit (none)
{SHARDS}
"""
# Of verbs that count over lattices.
SYMBOLS = "--words words.txt  the symbol table of lattices, and of models with word IDs"
SCALES = """
--acoustic-scale A = 0.1  factor of acoustic costs: 1 / LM weight
--lm-scale L = 1  factor of graph costs and n-best scores
--word-penalty P = 0  cost of a word
"""
LATTICES = f"""
{SYMBOLS}
--lattice-format lattice|nbest|ctm|vosk|text  format of all inputs (by their names)
{SCALES}
"""


NEW_WORDS = """words that the model lacks: add, N (add those seen at least N times), LIST (add those of a word list),
  map (to <unk>), drop (with the n-grams around them) or error"""


def adaptation(new_words: str = "add", what: str = NEW_WORDS) -> str:
    """Of verbs that adapt; what they do with new words unless told otherwise, and what they can."""
    return f"""
--counts FILE  SRILM count file instead of text; fractional counts are fine
--new-words HOW = {new_words}  {what}
--history ml|LM = ml  history distribution: the text's, or a back-off model's
--tolerance L1 = 1e-3  stop at this L1 distance between targets and marginals
--max-iters N = 200  stop after this many iterations
--allow-unnormalized true|false = false  accept a model that does not sum to one
--threads N = 2  results do not depend on it
--verbose true|false = false  print a line for every iteration
"""


def text(normalise: str) -> str:
    """Of verbs that adapt to text. Only text for a model that one got from others is normalised unless asked for: a
    corpus is prepared, and figures are compared over it."""
    return f"""
--normalise auto|none = {normalise}  auto: spell words as the model does, write numbers in words and put a sentence
  on each line; none: take the text as it is
--language CODE  language in which numbers are read out, such as en (the vocabulary's)
"""


def delta(model: str) -> str:
    return f"--delta A.delta  take {model} as this file of mdi adapt --delta adapts it"


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


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options for the certificate; the number of threads changes nothing."""
    free = ("started", "files", "threads", "verbose", "cluster", "memory", "shards", "shards_dir")
    return {name: value for name, value in vars(args).items() if name not in free}


@contextmanager
def sharding(
    args: argparse.Namespace, out: str, inputs: list[str], memory: str | None = None
) -> "Iterator[Job | None]":
    """Where arrays are meanwhile, and by whom shards are worked on; None where all is in memory. What a job has counted
    stays if it fails."""
    if args.cluster is None and args.shards is None and memory is None:
        yield None
        return
    from mdi.cluster import connected
    from mdi.lm.shards import PROGRAM, Job, at_work, job_folder
    from mdi.record import source_of

    if args.shards is not None:
        check_positive("shards", args.shards)
    if out == "-" and args.shards_dir is None:
        raise UsageError("standard output and a model in shards; expected --shards-dir DIR for the shards")
    size = None if memory is None else parse_size("memory", memory)
    if size is not None and size <= PROGRAM:
        raise OptionError("memory", memory, f"more than {PROGRAM >> 20}M, which the program itself takes")
    free = ("started", "cluster", "threads", "verbose", "memory", "shards_dir")  # may change between tries
    about = {name: value for name, value in vars(args).items() if name not in free}
    about["sources"] = [source_of(path) for path in inputs]
    name = out.replace("{}", "sweep")
    where, log = args.shards_dir or f"{name}.shards", f"{name}.workers.log"
    with job_folder(where, about, args.shards_dir is None) as folder, connected(args.cluster, size, log) as runner:
        with at_work(job := Job(folder, runner, size, args.shards)):
            yield job
        if runner.exchanged:
            detail(f"{runner.exchanged / 1e6:.1f} MB sent to workers and back")
