"""The lines of an ARPA file, in windows that several threads can parse, and where one is when something is wrong."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError
from mdi.files import read_ahead, read_chunks, whole_lines
from mdi.kernels.text import NEWLINE, line_bounds
from mdi.lm.vocabulary import to_str

LONGEST_LINE = 1 << 20
# Files are parsed in windows of this size, several at a time.
WINDOW = 1 << 20


@dataclass
class Window:
    """Whole lines; `at` is where those begin that have not been read."""

    buffer: np.ndarray
    at: int = 0

    @property
    def size(self) -> int:
        return len(self.buffer)

    def count_lines(self) -> int:
        return int(np.count_nonzero(self.buffer[self.at :] == NEWLINE))


class Lines:
    """The file as windows of whole lines, and the number of the line that is next. Windows may be looked at before
    their turn."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 1
        chunks = read_ahead(read_chunks(path, WINDOW))
        self.pieces = whole_lines(path, chunks, "an ARPA file", LONGEST_LINE)
        self.windows: deque[Window] = deque()
        self.failure: MdiError | None = None

    def ahead(self, i: int) -> Window | None:
        """The i-th window from here, None beyond the end of the file. What is wrong there is said when its turn
        comes."""
        try:
            while len(self.windows) <= i and (data := next(self.pieces, b"")):
                self.windows.append(Window(np.frombuffer(data, np.uint8)))
        except MdiError as error:
            self.failure = error
        return self.windows[i] if i < len(self.windows) else None

    def fill(self) -> bool:
        """Whether there is another line."""
        while (window := self.ahead(0)) is not None and window.at >= window.size:
            self.windows.popleft()
        if window is None and self.failure is not None:
            raise self.failure
        return window is not None

    def line(self) -> bytes | None:
        """Takes the next line that is not blank, or None at the end of the file."""
        while self.fill():
            window = self.windows[0]
            stop, after = line_bounds(window.buffer, window.at, window.size)
            text = window.buffer[window.at : stop].tobytes().lstrip(b" \t")
            window.at = int(after)
            self.number += 1
            if text:
                return text
        return None

    def field(self, at: int) -> str:
        """From a byte of this window to the end of its line."""
        window = self.windows[0]
        stop, _ = line_bounds(window.buffer, at, window.size)
        return to_str(window.buffer[at:stop].tobytes())

    def error(self, message: str, number: int | None = None) -> MdiError:
        return MdiError(f"{self.path}:{self.number if number is None else number}: {message}")
