"""Property tests draw new examples on every run, except where a run must not depend on chance. The small demo runs
once."""

import os

import pytest
from hypothesis import settings
from recipe import TINY, run

from mdi.progress import messages_shown

# No deadline: the first example of a test may have to wait for the compiler.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture
def shown():
    """What is logged goes to standard error, as in programs."""
    with messages_shown():
        yield


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The demo in miniature, one call a stage: (folder, calls)."""
    folder = tmp_path_factory.mktemp("tiny")
    calls = []
    for stage in range(8):
        calls.append(run(folder, *TINY, "--stage", stage, "--stop-stage", stage))
        assert calls[-1].returncode == 0, calls[-1].stderr
    return folder, calls
