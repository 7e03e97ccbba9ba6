"""Work for several cores at a time."""

import threading

import pytest

from mdi.threads import meanwhile


def test_work_goes_on_meanwhile_and_is_waited_for() -> None:
    may_end = threading.Event()
    wait = meanwhile(lambda: may_end.wait(60) and "done")
    may_end.set()  # it was begun, and nobody waited for it yet
    assert wait() == "done"


def test_what_went_wrong_is_said_when_it_is_asked_for() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    wait = meanwhile(fail)
    with pytest.raises(ValueError, match="wrong"):
        wait()
