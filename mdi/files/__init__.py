"""Files: reading them, outputs that appear whole or not at all, folders, and checks before any work is done."""

from mdi.files.folders import exchange_folder, make_folder, remove_abandoned, scratch_folder
from mdi.files.outputs import check_output, same_file
from mdi.files.reading import (
    CHUNK,
    check_regular,
    first_bytes,
    open_regular,
    read_ahead,
    read_bytes,
    read_chunks,
    read_json,
    read_lines,
    read_plain,
)
from mdi.files.writing import GZIP_LEVEL, discard, is_stream, replacing, together, writing, writing_blocks, written

__all__ = [
    "CHUNK",
    "GZIP_LEVEL",
    "check_output",
    "check_regular",
    "discard",
    "exchange_folder",
    "first_bytes",
    "is_stream",
    "make_folder",
    "open_regular",
    "read_ahead",
    "read_bytes",
    "read_chunks",
    "read_json",
    "read_lines",
    "read_plain",
    "remove_abandoned",
    "replacing",
    "same_file",
    "scratch_folder",
    "together",
    "writing",
    "writing_blocks",
    "written",
]
