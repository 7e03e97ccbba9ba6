"""Temporary files and folders that no killed process leaves behind, and folders that are made or exchanged whole."""

import ctypes
import fcntl
import glob
import os
import shutil
import tempfile
from pathlib import Path

from mdi.errors import MdiError


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


def scratch_folder(prefix: str, parent: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder, locked as long as this process is there: those of processes that were killed are not, and are
    removed here."""
    where = parent or tempfile.gettempdir()
    for old in Path(where).glob(f"{glob.escape(prefix)}????????.tmp"):
        remove_unlocked(old, os.O_DIRECTORY)
    while True:
        # what cannot be removed now, the next run removes
        folder = tempfile.TemporaryDirectory(prefix=prefix, suffix=".tmp", dir=where, ignore_cleanup_errors=True)
        try:
            handle = os.open(folder.name, os.O_RDONLY | os.O_CLOEXEC)  # closed when the process ends
        except FileNotFoundError:  # another process has removed it before it was locked
            continue
        if locked(handle) and os.path.isdir(folder.name):
            return folder
        os.close(handle)
        folder.cleanup()


_RENAME_EXCHANGE, _HERE = 2, -100  # of linux/fs.h and fcntl.h


def exchange_folder(made: str, path: str) -> None:
    """Gives a folder its name at once; what was there before gets the other one's, and goes with it."""
    if not os.path.exists(path):
        os.rename(made, path)
        return
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None or rename(_HERE, os.fsencode(made), _HERE, os.fsencode(path), _RENAME_EXCHANGE):
        os.rename(path, f"{made}.old")  # a file system that cannot exchange: for a moment nothing is there
        os.rename(made, path)


def check_replaced(out: Path, source: Path, made_here: bool, maker: str) -> None:
    """Refuses, before any work is done, a folder to be made from another one that is somebody else's, or would take
    that one with it. `made_here`: what is there was made by `maker` before, and is replaced."""
    if out.is_symlink():
        raise MdiError(f"{out}: is a link; name the directory itself, which will be replaced")
    if out.resolve() == source.resolve():
        raise MdiError(f"{out}: is also what it is made from; name another directory")
    for inner, outer in ((out, source), (source, out)):
        if outer.resolve() in inner.resolve().parents:
            raise MdiError(f"{out}: {inner} lies within {outer}; name a directory beside it")
    if out.exists() and not made_here:
        raise MdiError(f"{out}: exists, and was not made by {maker}; remove it, or name another directory")


def make_folder(path: str) -> Path:
    """The folder, made with those above it where it is not there yet."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MdiError(f"{path}: cannot make this directory: {error.strerror}") from error
    return folder
