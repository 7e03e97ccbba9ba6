"""What people see while they wait. The library logs, to loggers below "mdi"; programs show it on standard error, in
whole lines that make way for bars.

Whoever uses the library has what is logged as any other: warnings on standard error, the rest with
`logging.basicConfig(level=logging.INFO)`, nothing with `logging.getLogger("mdi").setLevel(logging.CRITICAL)`.
"""

import logging
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from mdi.errors import MdiError


def _printable(record: logging.LogRecord) -> bool:
    """Names of files and words may be any bytes; what they are in messages can be written in any encoding."""
    record.msg = str(record.msg).encode("utf-8", "backslashreplace").decode()
    return True


def get_logger(name: str) -> logging.Logger:
    found = logging.getLogger(name)
    found.addFilter(_printable)
    return found


logger = get_logger("mdi")
say, detail = logger.info, logger.debug  # lines that programs show, always or with --verbose
_lock = threading.RLock()
_names: dict[str, str] = {}  # of what is written under a temporary name: the name that it will have
_bars: list[Any] = []  # tqdm's, those on the screen now


class _Lines(logging.Handler):
    """Lines, each written at once: those of two threads cannot run into each other, nor into a bar. A warning is shown
    once, however often what it is about is read."""

    warned: set[str]

    def emit(self, record: logging.LogRecord) -> None:
        with _lock:
            if record.levelno == logging.WARNING:
                if record.getMessage() in self.warned:
                    return
                self.warned.add(record.getMessage())
            for bar in _bars:
                bar.clear()
            message = _with_names(record.getMessage())
            sys.stderr.write(f"{message}\n".encode("utf-8", "backslashreplace").decode())
            sys.stderr.flush()
            for bar in _bars:
                bar.refresh()


_lines = _Lines()


@contextmanager
def messages_shown() -> Iterator[None]:
    """For programs: what is logged inside goes to standard error, and slow steps have bars."""
    if _lines in logger.handlers:
        yield
        return
    before = logger.level, logger.propagate
    _lines.warned = set()
    logger.addHandler(_lines)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(_lines)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def set_verbose(on: bool) -> None:
    """Whether programs show details too: iterations, steps of a search."""
    logger.setLevel(logging.DEBUG if on else logging.INFO)


@contextmanager
def shown_as(temporary: str, name: str) -> Iterator[None]:
    """What is written under a temporary name has its own in messages and errors."""
    _names[temporary] = name
    try:
        yield
    except MdiError as error:
        if temporary in str(error):
            raise MdiError(_with_names(str(error))) from error
        raise
    finally:
        del _names[temporary]


def _with_names(message: str) -> str:
    for temporary, name in reversed(_names.items()):  # a name may be a temporary one of those around it
        message = message.replace(temporary, name)
    return message


class Progress(AbstractContextManager["Progress"]):
    """tqdm's bar on the terminal of a program; elsewhere a plain line every few seconds, for bars fill a log with
    carriage returns. Nothing at all for what is quick."""

    QUIET_SECONDS = 1.0
    LOG_SECONDS = 10.0

    def __init__(self, label: str, total: int | None = None, unit: str = "") -> None:
        self.label, self.total, self.unit = label, total, unit
        self.start = self.shown = time.monotonic()
        self.on_terminal = _lines in logger.handlers and sys.stderr.isatty()
        self.bar: Any = None  # tqdm's, once it is drawn

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, done: float, note: str = "") -> None:
        """`done` of the total, counted from the beginning; `note` is what else there is to say, such as an error."""
        now = time.monotonic()
        if now - self.start < self.QUIET_SECONDS:
            return
        if self.on_terminal:
            self._draw(done, note, now - self.start)
        elif now - self.shown >= self.LOG_SECONDS:
            self.shown = now
            logger.info(self._line(done, note, now - self.start))

    def _draw(self, done: float, note: str, seconds: float) -> None:
        with _lock:
            if self.bar is None:
                from tqdm import tqdm

                tqdm.set_lock(_lock)
                tqdm.monitor_interval = 0  # no thread that redraws behind our back
                size = shutil.get_terminal_size()  # tqdm draws nothing on a terminal that tells no size
                self.bar = tqdm(
                    desc=self.label,
                    total=self.total,
                    unit=f" {self.unit}",
                    leave=False,
                    delay=1e-9,
                    ncols=size.columns - 1,
                    nrows=size.lines,
                )
                self.bar.start_t -= seconds
                _bars.append(self.bar)
            self.bar.unit_scale = done >= 100_000
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update(done - self.bar.n)

    def _line(self, done: float, note: str, seconds: float) -> str:
        after = f", {note}" if note else ""
        if not self.total:
            return f"{self.label}: {done:,} {self.unit}{after}, {seconds:.0f} s"
        share = min(1.0, done / self.total)
        left = f", {seconds * (1 / share - 1):.0f} s left" if share > 0.02 else ""
        return f"{self.label}: {100 * share:.0f}% of {self.total:,} {self.unit}{after}{left}"

    def close(self) -> None:
        if self.bar is not None:
            with _lock:
                _bars.remove(self.bar)
                self.bar.close()
            self.bar = None
