"""Whether a file or folder is still somebody's."""

from __future__ import annotations

import fcntl


def locked(handle: int) -> bool:
    """Whether what was just made is this process's: another one may be removing it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True
