"""What the process has and does not need goes back to the system.

Two things beside the arrays take up memory for nothing: free pieces that the C library keeps to itself, and the code of
the compiler (LLVM), of which some 60 MB are resident after it has loaded a kernel, and which then lies idle. On systems
that are not Linux with glibc nothing happens.
"""

import contextlib
import ctypes
import re
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX, _MADV_DONTNEED = -1, -3, -8, 4  # malloc.h, sys/mman.h
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (....) \S+ \S+ \S+ *(.*)")
_COMPILER = "libllvmlite"


def tame_allocator() -> None:
    """glibc keeps freed arrays of up to 32 MB to itself, in pieces, and in as many heaps as there are threads; beyond
    2 MB they shall go back to the system, and two heaps are enough. Of smaller ones, such as blocks of a file, it keeps
    some: a page that comes from the system is cleared each time."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 21)
        library.mallopt(_M_TRIM_THRESHOLD, 1 << 22)
        library.mallopt(_M_ARENA_MAX, 2)


@cache
def let_go_of_compiler() -> None:
    """The compiler's code leaves memory, now and whenever it has loaded a kernel. It comes again when it is needed,
    from the system's copy of the file, in about a millisecond. `mdi adapt` on 13M n-grams has a peak of 520 MB with
    this and of 586 MB without."""
    from numba.core import event
    from numba.core.compiler_lock import global_compiler_lock

    try:
        library, parts = ctypes.CDLL(None), _idle_code()
    except OSError:  # no /proc
        return

    def let_go() -> None:
        for begin, end in parts:
            library.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)

    class Listener(event.Listener):  # type: ignore[misc, unused-ignore] # of a package without types
        def on_start(self, event: event.Event) -> None:
            pass

        def on_end(self, event: event.Event) -> None:
            if not global_compiler_lock.is_locked():
                let_go()

    let_go()
    event.register("numba:compiler_lock", Listener())


def _idle_code() -> list[tuple[int, int]]:
    """Parts of the compiler's file in memory that are exactly as in the file: mapped without the right to write, and
    without a page of our own (relocation makes such pages before it takes the right away)."""
    found: list[tuple[int, int]] = []
    inside = False
    with open("/proc/self/smaps", errors="replace") as stream:
        for line in stream:
            if match := _MAPPING.match(line):
                begin, end, rights, name = match.groups()
                inside = _COMPILER in name and rights[1] == "-"
                if inside:
                    found.append((int(begin, 16), int(end, 16)))
            elif inside and line.startswith("Anonymous:") and line.split()[1] != "0":
                found.pop()
    return found
