"""What a line of wav.scp names, by Kaldi's rules for names that are read (ClassifyRxfilename).

    command |       the standard output of a command in a shell
    archive:1234    what begins at byte 1234 of an archive
    file            a file

A line is data, and may come from anybody: this is the one place that tells a command from a file, and the one that
runs commands. Whatever is no command is opened as a file, and must be a regular one.
"""

import io
import os
import re
import subprocess
from dataclasses import dataclass
from typing import BinaryIO

from mdi.errors import MdiError
from mdi.files import open_regular

_IN_ARCHIVE = re.compile(r"(.+):([0-9]+)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """A file, from `offset` on where it is an archive; or, if `command` is set, what that prints."""

    path: str = ""
    offset: int | None = None
    command: str | None = None

    def version(self) -> list[str | int | None]:
        """Where it is, and size and time of a file; nobody knows what a command will print."""
        if self.command is not None:
            return [self.command, 0, 0]
        try:
            found = os.stat(self.path)
        except (OSError, ValueError):  # whoever reads it will tell
            return [self.path, self.offset, 0]
        return [self.path, self.offset, found.st_size, found.st_mtime_ns]

    def absolute(self) -> str:
        """As it stands in a table that is good everywhere."""
        if self.command is not None:
            return f"{self.command}|"
        path = os.path.abspath(self.path) + ("" if self.offset is None else f":{self.offset}")
        if parse_rxfilename(path).command is not None:
            raise MdiError(f"'{self.path[:80]}' would be a command if its path were written out; rename the file")
        return path


def parse_rxfilename(text: str) -> Source:
    """A name, as it stands in a table."""
    text = text.strip(" \t\r\n")
    if text.startswith("|"):
        raise MdiError(
            f"'{text[:80]}' is a command to write to; expected a file, or a command to read from, 'command |'"
        )
    if text in ("", "-"):
        raise MdiError(f"'{text}' is no file; expected one, such as recordings/a.wav")
    if text.endswith("|"):
        return Source(command=text[:-1])
    if found := _IN_ARCHIVE.fullmatch(text):
        return Source(found[1], int(found[2]))
    return Source(text)


def open_source(source: Source, allow_pipes: bool) -> BinaryIO:
    """A stream that can be sought in: the file, or what the command has printed. An archive is at its offset."""
    if source.command is None:
        stream = open_regular(source.path)
        stream.seek(source.offset or 0)
        return stream
    if not allow_pipes:
        raise MdiError(f"'{source.command[:80]} |' is a command, and --allow-pipes is false")
    # the user has said that all of this table is trusted
    done = subprocess.run(source.command, shell=True, stdin=subprocess.DEVNULL, capture_output=True)  # noqa: S602
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[-200:]
        raise MdiError(f"'{source.command[:80]} |' ended with code {done.returncode}{': ' if said else ''}{said}")
    return io.BytesIO(done.stdout)
