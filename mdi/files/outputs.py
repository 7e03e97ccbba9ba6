"""Whether an output can be written, before any work is done for it."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from mdi.errors import MdiError
from mdi.files.writing import check_link, is_stream


def check_output(path: str, inputs: Iterable[str] = ()) -> None:
    """Refuses an output that cannot be written or would replace an input, before any work is done."""
    if path == "-":
        return
    check_link(path)
    folder = Path(os.path.realpath(path) if os.path.islink(path) else path).parent
    if not folder.is_dir():
        raise MdiError(f"{path}: the directory {folder} does not exist; make it first")
    if Path(path).is_dir():
        what = f"a link to the directory {os.path.realpath(path)}" if os.path.islink(path) else "a directory"
        raise MdiError(f"{path}: is {what}; name a file in it")
    if not os.access(path if is_stream(path) else folder, os.W_OK):
        raise MdiError(f"{path}: the {'file' if is_stream(path) else f'directory {folder}'} cannot be written")
    for source in inputs:
        if same_file(path, source) and not is_stream(path):
            raise MdiError(f"{path}: is also an input; write to another file")


def same_file(one: str, other: str) -> bool:
    """Whether two names, of files that need not be there yet, mean the same file."""
    if "-" in (one, other):
        return False
    with contextlib.suppress(OSError, ValueError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
