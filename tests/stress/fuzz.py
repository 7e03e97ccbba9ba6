#!/usr/bin/env python3
"""Feeds damaged files to the readers, with bounds checks in the compiled loops and little memory.

    tests/stress/fuzz.py [--seconds N] [--inputs N] [--first N] [--keep DIR] [--report FILE] [READER...]

Small valid files of every kind are changed at random: bytes, numbers, fields and lines, checksums made good again. A
reader may accept one or refuse it with a message. Everything else is wrong: another exception, a warning, a crash, more
than TIME seconds, a file that is left behind or made elsewhere, a process that is started, a pickle that is opened, a
connection, more than MEMORY bytes of addresses, or more memory in use than RATIO times the size of the file (FLOOR
bytes are free, for buffers whose size is fixed). Inputs are a function of the reader
and a number: --first tries the same ones again, --keep saves those that went wrong. Prints a table; exit code 1 if
anything went wrong.
"""

import argparse
import io
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from fuzz_readers import ROOT, Reader, readers
from fuzz_watch import Watch

MEMORY, TIME, BATCH = 512 << 20, 20, 1000
RATIO, FLOOR = 50, 16 << 20
NUMBERS = [-1, 0, 1, 2, 3, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**30, 2**31 - 1, -(2**31), 2**32, 2**32 + 5, 2**62]
NUMBERS += [-(2**63), 2**63 - 1]
TOKENS = (
    b"-1 0 1 -0 +1 1e308 -1e308 1e-320 1e999 nan inf -inf -99 -99.5 0.5 2147483647 2147483648 4294967301 1_1 1,1, ,"
)
TOKENS += b" 18446744073709551616 999999999999999999999999999999 1.5 1e5 0x10 <s> </s> <unk> <eps> #0 a b \xc3\xa9 \xff"
TOKENS += b' \xc2\xb2 \\data\\ \\end\\ \\2-grams: ngram | ;; \xef\xbb\xbf \x00 { } [ ] " null true NaN -Infinity 1e400'
PIECES = [*TOKENS.split(b" "), b" ", b"\t", b"\n", b"\r\n", b"\n\n", b"", b"a" * 300, b"9" * 5000]
PIECES += [b"$(touch ran)", b"`touch ran`", b"; touch ran", b"touch ran |", b"| touch ran", b"touch ran |:10"]
PIECES += [b"../ran", b"/dev/full", b"/dev/stdin", b"%s%n", b"{0}", b"[" * 2000, b"PKL"]


@dataclass
class Outcome:
    accepted: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        return self.accepted + self.refused + len(self.wrong)


def changed(chance: random.Random, seeds: list[bytes]) -> bytes:
    """A seed after one to four changes."""
    data = chance.choice(seeds)
    text = b"\0" not in data
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        kind = chance.random()
        at = chance.randrange(len(data) + 1) if chance.random() < 0.7 else chance.randrange(min(200, len(data)) + 1)
        if kind < 0.15:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif kind < 0.25:
            data = data[:at] + data[at + chance.choice((1, 1, 2, 4, 8, 40)) :]
        elif kind < 0.3:
            data = data[:at]
        elif kind < 0.4:
            other = chance.choice(seeds)
            begin = chance.randrange(len(other) + 1)
            data = data[:at] + other[begin : begin + chance.choice((1, 4, 8, 30, 200))] + data[at:]
        elif text and kind < 0.75:  # a field becomes another
            fields = data.split(chance.choice((b" ", b"\t", b"\n", b",")))
            i = chance.randrange(len(fields))
            data = data.replace(fields[i], chance.choice(PIECES), 1) if fields[i] else data
        elif text:  # lines that are repeated, missing, exchanged
            lines = data.split(b"\n")
            i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[i : i + 1] = chance.choice(([lines[i], lines[i]], [], [lines[j]], [lines[i], lines[j]]))
            data = b"\n".join(lines)
        elif kind < 0.9:  # a number of a binary file
            form = chance.choice(["<i", "<i", "<q", "<f", "<h"])
            at -= at % struct.calcsize(form) if chance.random() < 0.5 else 0
            number: float = chance.choice(NUMBERS)
            if form == "<f":
                number = chance.choice((float("nan"), float("inf"), -1.0, 1e38, 0.0))
            elif not -(2 ** (8 * struct.calcsize(form) - 1)) <= number < 2 ** (8 * struct.calcsize(form) - 1):
                number = -2
            piece = struct.pack(form, number)
            data = data[:at] + piece + data[at + len(piece) :]
        else:
            data = data[:at] + chance.choice(PIECES) + data[at:]
    return data


# ---- one batch in a process of its own


@contextmanager
def _limits() -> Iterator[None]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    warnings.simplefilter("error")
    yield


def batch(name: str, reader: Reader, numbers: range, folder: Path) -> Outcome:
    """Reads inputs in a child process; a child that dies names the input that killed it, and another goes on."""
    outcome, at = Outcome(), numbers.start
    while at < numbers.stop:
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.close(out)
            try:
                with os.fdopen(into, "w", buffering=1) as said, _limits():
                    _read_all(name, reader, range(at, numbers.stop), folder, said)
                os._exit(0)
            finally:  # whatever goes wrong: the folder is the parent's to remove
                os._exit(1)
        os.close(into)
        with os.fdopen(out) as said:
            for line in said:
                kind, text = line.rstrip("\n").split(" ", 1)
                if kind == "begin":
                    at = int(text)
                elif kind == "wrong":
                    outcome.wrong.append(f"{at}: {text}")
                else:
                    setattr(outcome, kind, getattr(outcome, kind) + 1)
        _, status = os.waitpid(child, 0)
        at += 1
        if os.WIFSIGNALED(status):
            what = (
                "hangs"
                if os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF)
                else f"killed by signal {os.WTERMSIG(status)}"
            )
            outcome.wrong.append(f"{at - 1}: {what}")
        elif status:
            outcome.wrong.append(f"{at - 1}: exit status {status}")
        elif at == numbers.stop:
            break
    return outcome


def input_of(name: str, reader: Reader, number: int) -> bytes:
    return reader.repair(changed(random.Random(f"{name} {number}"), reader.seeds + reader.hostile))


def _read_all(name: str, reader: Reader, numbers: range, folder: Path, said) -> None:
    path = folder / "input"
    path.write_bytes(reader.repair(reader.seeds[0]))
    reader.read(str(path))  # what the libraries need of their own is no memory of an input
    there = set(os.listdir(folder)) | {"input"}
    os.chdir(folder)  # whatever is made under a name of the input's is made here
    tempfile.tempdir = str(folder)
    watch = Watch(folder)
    for number in numbers:
        data = input_of(name, reader, number)
        said.write(f"begin {number}\n")
        verdict, used = _tried(reader, path, data)
        if used > max(FLOOR, RATIO * len(data)):  # or a loop was compiled for it
            verdict, used = _tried(reader, path, data)
        if used > max(FLOOR, RATIO * len(data)):
            verdict = f"wrong {used >> 20} MB for {len(data)} bytes"
        if left := set(os.listdir(folder)) - there:
            there |= left
            verdict = f"wrong leaves {sorted(left)}"
        if (seen := watch.take()) and not reader.starts_processes:
            verdict = f"wrong does {' '.join(seen[0].split())[:300]}"
        said.write(f"{verdict}\n")
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_PROF, 0)


def _tried(reader: Reader, path: Path, data: bytes) -> tuple[str, int]:
    """What happened, and the bytes that it took."""
    from mdi.errors import MdiError

    path.write_bytes(data)
    before = _memory("VmRSS:", reset=True)
    signal.setitimer(signal.ITIMER_PROF, TIME)  # of the processor: the machine may be busy with other things
    signal.alarm(20 * TIME)
    verdict = "accepted "
    try:
        reader.read(str(path))
    except MdiError:
        verdict = "refused "
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        verdict = f"wrong {' '.join(text.split())[:300]}"
    return verdict, _memory("VmHWM:") - before


def _memory(what: str, reset: bool = False) -> int:
    """Bytes of pages in use, or the most that were since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(what))


def table(done: dict[str, Outcome]) -> str:
    rows = [("reader", "inputs", "accepted", "refused", "wrong")]
    rows += [(name, *map(str, (o.inputs, o.accepted, o.refused, len(o.wrong)))) for name, o in done.items()]
    return "".join("\t".join(row) + "\n" for row in rows)


def _in_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def fuzz(
    chosen: list[str], seconds: float, inputs: int, first: int, keep: Path | None, report: Path | None
) -> dict[str, Outcome]:
    """Batches of all readers in turn until the time is over, or each has had its inputs."""
    with tempfile.TemporaryDirectory(prefix="mdi-fuzz-", dir=_in_memory()) as scratch:
        folder = Path(scratch)
        known = readers(folder)
        if strange := set(chosen) - set(known):
            raise SystemExit(f"fuzz: no reader {', '.join(sorted(strange))}; there are {', '.join(known)}")
        names = chosen or list(known)
        for name in names:  # compiles what the children then have
            for seed in known[name].seeds:
                (folder / "input").write_bytes(known[name].repair(seed))
                with redirect_stdout(io.StringIO()):  # which has the table
                    known[name].read(str(folder / "input"))
        done, at = {name: Outcome() for name in names}, dict.fromkeys(names, first)
        stop = {name: first + round(inputs * known[name].share) for name in names}
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(at[name] < stop[name] for name in names):
            for name in names:
                size = min(round(BATCH * known[name].share), stop[name] - at[name])
                if size <= 0 or time.monotonic() >= end:
                    continue
                found = batch(name, known[name], range(at[name], at[name] + size), folder)
                at[name] += size
                done[name].accepted += found.accepted
                done[name].refused += found.refused
                done[name].wrong += found.wrong
                for text in found.wrong:
                    print(f"{name} {text}", file=sys.stderr, flush=True)
                    if keep:
                        keep.mkdir(parents=True, exist_ok=True)
                        number = int(text.split(":", 1)[0])
                        (keep / f"{name}.{number}").write_bytes(input_of(name, known[name], number))
            if report:
                report.write_text(table(done))
        return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", metavar="READER", nargs="*", help="(all)")
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="end after so long (60)")
    parser.add_argument("--inputs", type=int, default=10**9, metavar="N", help="of each reader, at most")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first input (0)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="save inputs that went wrong in this folder")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the table so far, written again and again")
    args = parser.parse_args()
    done = fuzz(args.readers, args.seconds, args.inputs, args.first, args.keep, args.report)
    print(table(done), end="")
    return 1 if any(outcome.wrong for outcome in done.values()) else 0


if __name__ == "__main__":
    if os.environ.get("NUMBA_BOUNDSCHECK") != "1":  # numba looks when it is imported
        with tempfile.TemporaryDirectory(prefix="mdi-fuzz-cache-") as compiled:
            checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": compiled, "PYTHONPATH": str(ROOT)}
            checked["MALLOC_MMAP_THRESHOLD_"] = "65536"  # what is freed is seen to be: memory is measured
            if os.environ.get("NUMBA_CACHE_DIR"):
                checked["NUMBA_CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"]
            sys.exit(subprocess.call([sys.executable, *sys.argv], env=checked))
    sys.exit(main())
