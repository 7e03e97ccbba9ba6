"""Work for several cores at a time: the compiled loops let go of the interpreter's lock."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

THREADS = min(4, os.cpu_count() or 1)
Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS) -> Iterator[Result]:
    """work(item) for each of them, in their order. Only a few are worked on ahead of the one that is asked for, so that
    memory does not grow with their number."""
    coming = iter(items)
    first = list(islice(coming, 2))
    if threads < 2 or len(first) < 2:
        yield from map(work, chain(first, coming))
        return
    jobs: deque[Any] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in chain(first, coming):
                jobs.append(pool.submit(work, item))
                if len(jobs) > threads:
                    yield jobs.popleft().result()
            while jobs:
                yield jobs.popleft().result()
        finally:
            for job in jobs:
                job.cancel()


def meanwhile(work: Callable[[], Result]) -> Callable[[], Result]:
    """Begins work in a thread of its own. What is returned waits for it, once: it gives its result away, or raises its
    error."""
    pool = ThreadPoolExecutor(1)
    jobs = [pool.submit(work)]
    pool.shutdown(wait=False)
    return lambda: jobs.pop().result()


def each_in_threads(work: Callable[[Item], None], items: Iterable[Item]) -> None:
    for _ in in_threads(work, items):
        pass
