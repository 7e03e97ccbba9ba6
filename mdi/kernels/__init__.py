"""The compiled loops (numba). Nothing here knows files, messages or options.

What has been compiled is kept beside the modules. Where these cannot be written (an installation of another user's) it
is kept in $MDI_CACHE, or else in the user's cache folder.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def cache_folder(modules: Path, environment: Mapping[str, str]) -> str | None:
    """Where to keep what has been compiled; None: where numba itself does, beside the modules."""
    if environment.get("NUMBA_CACHE_DIR") or (os.access(modules, os.W_OK) and not environment.get("MDI_CACHE")):
        return None
    home = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or "/nonexistent", ".cache")
    folders = [environment.get("MDI_CACHE"), f"{home}/mdi", f"{tempfile.gettempdir()}/mdi-{os.getuid()}"]
    return next((folder for folder in folders if folder and _is_mine(folder)), None)


def _is_mine(folder: str) -> bool:
    """Made if need be. What is loaded from it is run: it must be nobody else's."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
        safe = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
        return safe and os.access(folder, os.W_OK)
    except OSError:
        return False


def start_lightly() -> None:
    """Loads numba without what it would look for as its first kernel is loaded: a BLAS, in scipy.linalg, and cffi. That
    takes as long as an adaptation, and no kernel here uses them. For processes that are this package's alone: others
    may."""
    modules: dict[str, Any] = sys.modules
    if "numba.np.arraymath" in modules:
        return
    hidden = [name for name in ("scipy.linalg", "cffi") if name not in modules]
    modules.update(dict.fromkeys(hidden))  # None: an import fails
    try:
        import numba.core.typing.cffi_utils
        import numba.np.arraymath  # noqa: F401
    finally:
        for name in hidden:
            del modules[name]


def _mind_all_modules() -> None:
    """What has been compiled holds code of the kernels that it calls, of whichever module; numba looks at the one that
    a kernel is in alone. From here on all are looked at: a change in one has all of them compiled again."""
    from numba.core import caching

    here = Path(__file__).parent
    own = getattr(caching, "_SourceFileBackedLocatorMixin", None)
    if own is None:  # another numba
        return
    usual = own.get_source_stamp

    @cache
    def all_modules() -> list[object]:
        status = [(path.name, path.stat()) for path in sorted(here.glob("*.py"))]
        return [(name, found.st_mtime, found.st_size) for name, found in status]

    def get_source_stamp(self: Any) -> object:
        return all_modules() if Path(self._py_file).parent == here else usual(self)

    own.get_source_stamp = get_source_stamp


_mind_all_modules()
if _folder := cache_folder(Path(__file__).parent, os.environ):
    from numba import config

    config.CACHE_DIR = _folder
elif not os.environ.get("NUMBA_CACHE_DIR") and not os.access(Path(__file__).parent, os.W_OK):
    from numba.core.dispatcher import Dispatcher

    Dispatcher.enable_caching = lambda self: None  # nowhere to keep it: compiled again by every run
