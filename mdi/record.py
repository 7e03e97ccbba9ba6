"""What work was begun with, its inputs and settings, as JSON beside what it has made so far.

Whoever would go on with that asks here first. One form for all: a job's folder (mdi/lm/shards.py), a decoding
(mdi/commands/vosk_decode.py), recordings that are adapted to (mdi/commands/adapt_recordings.py). utils/up_to_date.sh
keeps the same of what the recipe's steps make, command and inputs, without a Python for each of a hundred files.
"""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mdi.errors import MdiError
from mdi.files import writing


def source_of(path: str) -> dict[str, Any]:
    """What tells one input from another: where it is, its size and time. Standard input is never the same again."""
    if path == "-" or not os.path.exists(path):
        return {"path": path, "random": os.urandom(8).hex()}
    status = os.stat(path)
    return {"path": os.path.realpath(path), "size": status.st_size, "time": status.st_mtime_ns}


def _text(about: dict[str, Any]) -> bytes:
    return json.dumps(about, sort_keys=True, default=str).encode()


def is_same(record: Path, about: dict[str, Any]) -> bool:
    """Whether work was begun with just that."""
    return record.read_bytes() == _text(about)


def write_record(record: Path, about: dict[str, Any]) -> None:
    with writing(str(record)) as stream:
        stream.write(_text(about))


def go_on(record: Path, about: dict[str, Any], holds: str) -> None:
    """Refuses to go on with work that was begun otherwise, and keeps the record of what begins now."""
    if record.exists() and not is_same(record, about):
        raise MdiError(f"{record.parent}: holds {holds}; remove the directory or name another one")
    write_record(record, about)


def restart(record: Path, about: dict[str, Any], made: Iterable[str]) -> None:
    """Removes what was made (patterns) by work that was begun otherwise, and its record."""
    if record.exists() and not is_same(record, about):
        for path in (path for pattern in made for path in record.parent.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        record.unlink()
