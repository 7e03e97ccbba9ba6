"""Not a verb: jobs that go on where they were stopped."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mdi.commands import options
from mdi.errors import MdiError, OptionError, check_positive
from mdi.progress import detail

if TYPE_CHECKING:
    from mdi.lm.shards import Job


@contextmanager
def sharding(
    args: argparse.Namespace, out: str, inputs: list[str], memory: str | None = None
) -> "Iterator[Job | None]":
    """Where arrays are meanwhile, and by whom shards are worked on; None where all is in memory. A job that fails
    leaves what it has for the next try."""
    if args.cluster is None and args.shards is None and memory is None:
        yield None
        return
    from mdi.cluster import connected
    from mdi.lm.shards import PROGRAM, Job, at_work, job_folder
    from mdi.record import source_of

    if args.shards is not None:
        check_positive("shards", args.shards)
    if out == "-" and args.shards_dir is None:
        raise MdiError("standard output and a model in shards; expected --shards-dir DIR for the shards")
    size = None if memory is None else options.parse_size("memory", memory)
    if size is not None and size <= PROGRAM:
        raise OptionError("memory", memory, f"more than {PROGRAM >> 20}M, which the program itself takes")
    about = {name: value for name, value in vars(args).items() if name not in _FREE}
    about["sources"] = [source_of(path) for path in inputs]
    name = out.replace("{}", "sweep")
    where, log = args.shards_dir or f"{name}.shards", f"{name}.workers.log"
    # the cluster first: where it fails there is nothing to keep
    with connected(args.cluster, size, log) as runner, job_folder(where, about) as folder:
        with at_work(job := Job(folder, runner, size, args.shards)):
            yield job
        if runner.exchanged:
            detail(f"{runner.exchanged / 1e6:.1f} MB sent to workers and back")


# Options that may change between tries.
_FREE = ("started", "cluster", "threads", "verbose", "memory", "shards_dir")
