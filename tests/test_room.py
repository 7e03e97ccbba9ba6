"""Arrays in files: sent by name, gone with their last user, and no more resident than is allowed."""

import gc
import os
import time
from pathlib import Path

import numpy as np
import pytest

from mdi import room
from mdi.errors import MdiError
from mdi.kernels.arpa_write import as_written


def test_files_go_with_their_arrays(tmp_path: Path) -> None:
    with room.arrays_in(str(tmp_path)):
        array, small = room.empty(100_000, float), room.empty(10, float)
        array[:] = 1.0
        part = array[5:10]
        assert len(list(tmp_path.iterdir())) == 1  # none for a few bytes
        assert (room.zeros(100_000) == 0.0).all()
    del array
    gc.collect()
    assert part.sum() == 5.0
    assert len(list(tmp_path.iterdir())) == 1
    del part
    gc.collect()
    assert not list(tmp_path.iterdir())
    assert len(small) == 10
    room.empty(100_000, float)
    assert not list(tmp_path.iterdir())


def test_arrays_are_sent_by_name(tmp_path: Path) -> None:
    """The other side writes into the same one; those in memory go by a file, too, as long as there are both sides."""
    with room.arrays_in(str(tmp_path)):
        array, words, copies = room.zeros(100_000), np.arange(100_000), {}
        sent = room.dumps({"a": [array[10:]], "words": words, "reader": as_written}, copies)
        assert len(sent) < 1000
        found = room.loads(sent)
        found["a"][0][0] = 7.0
        assert array[10] == 7.0
        assert np.array_equal(found["words"], words)
        assert found["reader"] is as_written
        del copies, found
        gc.collect()
        assert len(list(tmp_path.iterdir())) == 1


def test_a_result_belongs_to_whoever_gets_it(tmp_path: Path) -> None:
    with room.arrays_in(str(tmp_path)):
        sent = room.dumps(np.arange(100_000), {}, give=True)
        gc.collect()
        assert len(list(tmp_path.iterdir())) == 1
        found = room.loads(sent)
        assert found[-1] == 99_999
        del found
        gc.collect()
        assert not list(tmp_path.iterdir())


def test_no_folder_to_write_to(tmp_path: Path) -> None:
    with room.arrays_in(str(tmp_path / "nowhere")), pytest.raises(MdiError, match="nowhere: cannot write: No such"):
        room.empty(100_000, float)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux only")
def test_no_more_is_resident_than_allowed(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    with room.arrays_in(str(tmp_path), before + (16 << 20)):
        array = room.empty(8 << 20, float)  # 64 MB
        for begin in range(0, len(array), 1 << 17):
            array[begin : begin + (1 << 17)] = begin
            time.sleep(0.002)
        deadline = time.monotonic() + 10
        while resident() > before + (16 << 20) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert resident() <= before + (16 << 20)
        assert all(array[begin] == begin for begin in range(0, len(array), 1 << 17))  # nothing is lost
