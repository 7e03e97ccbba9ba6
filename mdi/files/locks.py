"""Whether a file or folder is still somebody's."""

import fcntl
import os
import shutil
from pathlib import Path


def locked(handle: int) -> bool:
    """Whether what was just made is this process's: another one may be removing it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def remove_unlocked(path: Path, kind: int = os.O_WRONLY | os.O_NONBLOCK) -> None:
    """Removes a temporary file, or a folder (os.O_DIRECTORY), of ours unless a process that is still there uses it."""
    try:
        handle = os.open(path, kind | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if kind != os.O_DIRECTORY or os.fstat(handle).st_uid == os.getuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True) if kind == os.O_DIRECTORY else os.unlink(path)
    except OSError:
        pass
    finally:
        os.close(handle)
