"""The compiled loops (numba). Nothing here knows files, messages or options.

What has been compiled is kept in the user's cache folder, by version of this package: $NUMBA_CACHE_DIR where it is set,
else $XDG_CACHE_HOME/mdi or ~/.cache/mdi, else a folder of the user's for temporary files. Beside the modules it would
outlive them: a folder that pip cannot remove, and that Python takes for a package. The first kernel of a process that
is compiled, and not found there, is announced: who waits a minute shall know for what.
"""

import logging
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import mdi

HERE = Path(__file__).parent


def cache_folder(environment: Mapping[str, str]) -> str | None:
    """Where to keep what has been compiled; None if there is no such place."""
    if environment.get("NUMBA_CACHE_DIR"):
        return environment["NUMBA_CACHE_DIR"]
    home = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or "/nonexistent", ".cache")
    folders = [f"{home}/mdi", f"{tempfile.gettempdir()}/mdi-{os.getuid()}"]
    mine = next((folder for folder in folders if _is_mine(folder)), None)
    return mine and f"{mine}/kernels-{mdi.__version__}"


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


def _keep_in(folder: str | None) -> None:
    """Has numba keep kernels of this package there, and no others: its own setting would be for all of a program.

    What has been compiled holds code of the kernels that it calls, of whichever module; numba looks at the module that
    a kernel is in alone. Here all are looked at: a change in one has all of them compiled again."""
    from numba.core import caching

    @cache
    def all_modules() -> list[object]:
        status = [(path.name, path.stat()) for path in sorted(HERE.glob("*.py"))]
        return [(name, found.st_mtime, found.st_size) for name, found in status]

    class Locator(caching._CacheLocator):
        def __init__(self, line: int, path: str) -> None:
            self.line, self.path = line, path

        def get_cache_path(self) -> str:
            return self.path

        def get_source_stamp(self) -> object:
            return all_modules()

        def get_disambiguator(self) -> str:
            return str(self.line)

        @classmethod
        def from_function(cls, function: Callable, file: str) -> "Locator | None":
            if folder is None or Path(file).parent != HERE:
                return None
            found = cls(function.__code__.co_firstlineno, os.path.join(folder, cls.get_suitable_cache_subpath(file)))
            found.ensure_cache_path()
            return found

    caching.CacheImpl._locator_classes = [Locator, *caching.CacheImpl._locator_classes]
    if folder is None:  # nowhere to keep it: compiled again by every run
        from numba.core.dispatcher import Dispatcher

        usual = Dispatcher.enable_caching

        def enable_caching(self: Any) -> None:
            if Path(self.py_func.__code__.co_filename).parent != HERE:
                usual(self)

        Dispatcher.enable_caching = enable_caching


def _announce_compiling(folder: str | None) -> None:
    """Says once that kernels are being compiled, which takes a minute for all of them."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, found: event.Event) -> None:
            function = getattr(found.data["dispatcher"], "py_func", None)
            if getattr(function, "__module__", "").startswith(f"{__name__}."):
                event.unregister("numba:compile", self)
                kept = f"once; they are kept in {folder}" if folder else "as there is no directory to keep them in"
                logging.getLogger(__name__).warning("compiling kernels, %s (up to a minute)", kept)

        def on_end(self, found: event.Event) -> None:
            pass

    event.register("numba:compile", Listener())


_folder = cache_folder(os.environ)
_keep_in(_folder)
_announce_compiling(_folder)
