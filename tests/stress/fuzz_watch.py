"""What a reader does beside reading: Python's audit events of processes, files elsewhere, the network and pickles.

A reader of data must start nothing, write nothing but what it was told to, and call nobody. The hook cannot be taken
out again, so it belongs into a process of its own.
"""

import os
import sys
from pathlib import Path

PROCESSES = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
    "os.startfile",
}
NETWORK = {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "urllib.Request"}
CODE = {"pickle.find_class", "ctypes.dlopen"}
# events that make, change or remove files: which of their arguments name them (what a link leads to is no file of ours)
CHANGES = {
    **dict.fromkeys(("os.mkdir", "os.rmdir", "os.remove", "os.chmod", "os.truncate", "shutil.rmtree"), slice(0, 1)),
    **dict.fromkeys(("os.rename", "os.link", "shutil.move"), slice(0, 2)),
    "os.symlink": slice(1, 2),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MEASURING = ("/proc/self/clear_refs", os.devnull)


class Watch:
    """Collects what is seen from now on. `inside`: where a reader may write."""

    def __init__(self, inside: Path) -> None:
        self.inside, self.seen = os.path.realpath(inside), list[str]()
        sys.addaudithook(self._event)

    def take(self) -> list[str]:
        """What was seen since the last time."""
        seen, self.seen = self.seen, []
        return seen

    def _event(self, event: str, args: tuple) -> None:
        if event in PROCESSES or event in NETWORK or (event in CODE and args[0] is not None):
            self._note(event, args)
        elif event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            if (args[2] or 0) & WRITING and not self._allowed(args[0]):
                self._note("writes", args)
        elif event in CHANGES and not all(map(self._allowed, args[CHANGES[event]])):
            self._note(event, args)

    def _allowed(self, name: object) -> bool:
        if isinstance(name, int):  # a file that was seen when it was opened
            return True
        if not isinstance(name, str | bytes | os.PathLike):
            return False
        path = os.fsdecode(name)
        if path in MEASURING:
            return True
        # of a link its own place counts, not where it leads
        place = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
        return place.startswith(f"{self.inside}{os.sep}") or place == self.inside

    def _note(self, event: str, args: tuple) -> None:
        """Unless the compiler does it, which keeps its code in pickles of its own."""
        frame = sys._getframe(2)
        while frame is not None:
            if f"{os.sep}numba{os.sep}" in frame.f_code.co_filename:
                return
            frame = frame.f_back  # type: ignore[assignment]
        self.seen.append(f"{event} {str(args)[:120]}")
