"""What people see while they wait: everything goes to standard error."""

from __future__ import annotations

import sys
import time


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


class Progress:
    """A bar on a terminal; elsewhere a plain line every few seconds. Nothing at all for what is quick."""

    QUIET_SECONDS = 1.0
    LOG_SECONDS = 10.0

    def __init__(self, label: str, total: int | None = None, unit: str = "") -> None:
        self.label, self.total, self.unit = label, total, unit
        self.start = self.shown = time.monotonic()
        self.on_terminal = sys.stderr.isatty()
        self.drawn = False

    def update(self, done: int) -> None:
        now = time.monotonic()
        wait = 0.1 if self.on_terminal else self.LOG_SECONDS
        if now - self.start < self.QUIET_SECONDS or now - self.shown < wait:
            return
        self.shown = now
        if self.total:
            share = min(1.0, done / self.total)
            text = f"{self.label}: {100 * share:.0f}% of {self.total:,} {self.unit}"
            if share > 0.02:
                text += f", {(now - self.start) * (1 / share - 1):.0f} s left"
        else:
            text = f"{self.label}: {done:,} {self.unit}, {now - self.start:.0f} s"
        if self.on_terminal:
            bar = "#" * int(20 * min(1.0, done / self.total)) if self.total else ""
            print(f"\r\033[K[{bar:<20}] {text}", end="", file=sys.stderr, flush=True)
            self.drawn = True
        else:
            say(text)

    def close(self) -> None:
        if self.drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
