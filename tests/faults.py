"""Every verb with a machine that fails: the n-th write, fsync, rename, read, mkdir or open of a file of its own fails,
for every n, in a process of its own (forked, so thousands take a minute). By hand:

    python3 tests/faults.py [VERB...]

After an error the exit code is not 0, there is a line about it, outputs are as they were, and nothing else is left.
A call that was interrupted, or did half of what it should, changes nothing. Prints a table of how often each failed.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOST = 400  # calls of one kind that a verb may make
# (operation, error): 0 is half of what was asked for
FAULTS = [
    ("write", errno.ENOSPC), ("write", errno.EIO), ("write", errno.EINTR), ("write", 0), ("fsync", errno.EIO),
    ("rename", errno.EACCES), ("read", errno.EIO), ("read", errno.EINTR), ("read", 0), ("mkdir", errno.ENOSPC),
    ("open", errno.EMFILE),
]  # fmt: skip
HARMLESS = (errno.EINTR, 0)
# Each writes OUT or what is named after it. Results are the same with and without faults that are harmless.
VERBS = {
    "vocab": "vocab text OUT",
    "train": "train --counts-out OUT.counts text OUT.arpa.gz",
    "counts": "counts --words words.txt lats OUT",
    "adapt": "adapt --min-counts 1 --sigma2 1 --constraints-out OUT.tsv --ppl dev lm text OUT.arpa",
    "delta": "adapt --min-counts 1 --sigma2 1 --delta OUT.delta lm text",
    "apply": "apply lm a.delta OUT.arpa",
    "tune": "tune --max-settings 1 --sets 1 lm text dev OUT.arpa",
    "match": "match small lm text OUT.arpa",
    "mix": "mix --weights 0.5,0.5 lm small OUT.arpa",
    "prune": "prune --threshold 1e-2 lm OUT.arpa",
    "convert": "convert --words words.txt lm OUT.carpa",
    "fst": "fst --words words.txt lm OUT.fst",
    "rescore": "rescore --words words.txt --new-lm lm lats OUT.lats",
    "score": "score --words words.txt reference OUT.scored",
    "ppl": "ppl lm dev",
    "check": "check lm",
}


def build(folder: Path) -> Path:
    library = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "faults.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def prepare() -> None:
    """Small inputs in the current folder."""
    from mdi.cli import main

    Path("text").write_text("a b c\nb c a a\nc b\na c b a\n" * 3)
    Path("dev").write_text("a b a\nc\n")
    Path("reference").write_text("u1 a c\n")
    names = ["<eps>", "a", "b", "c", "<unk>", "#0", "<s>", "</s>"]
    Path("words.txt").write_text("".join(f"{word} {i}\n" for i, word in enumerate(names)))
    Path("lats").mkdir()
    Path("lats/lat.1.gz").write_text("u1 \n0 1 1 1.5,2.5,1_2\n1 2 3 0.5,1,4_4\n2 0.25,0,5\n\n")
    Path("lats/num_jobs").write_text("1\n")
    assert main(["train", "--order", "2", "--min-counts", "1", "text", "lm"]) == 0
    assert main(["train", "--order", "1", "--min-counts", "1", "text", "small"]) == 0
    assert main(["adapt", "--min-counts", "1", "--sigma2", "1", "--delta", "a.delta", "lm", "dev"]) == 0
    Path("OUT.scored").mkdir()
    shutil.copy("lats/lat.1.gz", "OUT.scored/lat.1.gz")


def state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def without_times(name: str, content: bytes) -> bytes:
    """Certificates, tables and pictures of a search say how long it took and how much memory."""
    if "search" in name:
        return b""
    if not name.endswith(".json"):
        return content
    return b"\n".join(line for line in content.split(b"\n") if b"seconds" not in line and b"memory" not in line)


def run(arguments: list[str], operation: str, n: int, code: int) -> tuple[int, int, str]:
    """(exit code, faults that came, what was said) of a verb in a child process."""
    from mdi.cli import main

    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        library = ctypes.CDLL(None)
        said = io.TextIOWrapper(io.BytesIO(), write_through=True)
        sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO()), said
        ended = 99
        library.fault_set(operation.encode(), os.getcwd().encode(), n, code)
        try:
            ended = main(arguments)
        except BaseException as error:
            said.write(f"Traceback: {type(error).__name__}: {error}")
        hits = library.fault_hits()
        library.fault_set(b"", b"", -1, 0)
        os.write(into, f"{ended} {hits}\n".encode() + said.buffer.getvalue()[-2000:])
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as stream:
        head, _, text = stream.read().partition(b"\n")
    os.waitpid(child, 0)
    ended, hits = map(int, head.split())
    return ended, hits, text.decode(errors="replace")


def try_verb(verb: str) -> tuple[Counter[str], list[str]]:
    """How often each fault came, and what went wrong."""
    folder, arguments = Path.cwd(), VERBS[verb].split()
    before = state(folder)
    assert run(arguments, "none", 0, 0)[0] == 0
    made = {name: without_times(name, data) for name, data in state(folder).items() if before.get(name) != data}
    old = {name: without_times(name, b"old " + name.encode()) for name in made}
    came: Counter[str] = Counter()
    wrong: list[str] = []
    for operation, code in FAULTS:
        for n in range(MOST):
            for name, data in old.items():
                (folder / name).write_bytes(data)
            ended, hits, text = run(arguments, operation, n, code)
            fault = f"{operation} {errno.errorcode.get(code, 'half')}"
            if hits:
                came[fault] += 1
            now = state(folder).items()
            after = {name: without_times(name, data) for name, data in now if before.get(name) != data}
            good = after == (made if not hits or code in HARMLESS or not ended else old)
            if hits and code not in HARMLESS and ended:  # of several outputs some may have been there already
                good = set(after) <= set(old) and all(after[name] in (old[name], made[name]) for name in after)
                at_the_end = operation in ("rename", "fsync") or verb in ("score", "train", "rescore")
                good = good and (at_the_end or after == old)
            if "Traceback" in text or not good or (ended == 0) != (not hits or code in HARMLESS or _tolerated(text)):
                wrong.append(f"{verb}: {fault} no. {n + 1}: exit code {ended}: {text[-300:]!r} {sorted(after)}")
            for name in set(after) - set(old):
                (folder / name).unlink()
            if not hits:
                break
    for name in old:
        (folder / name).unlink()
    return came, wrong


def _tolerated(text: str) -> bool:
    """What is said and costs only time."""
    return "is not kept" in text


def main() -> int:
    verbs = sys.argv[1:] or list(VERBS)
    with tempfile.TemporaryDirectory(prefix="mdi-faults-") as scratch:
        os.chdir(scratch)
        sys.stderr.flush()
        prepare()
        bad = 0
        for verb in verbs:
            came, wrong = try_verb(verb)
            print(verb, came.total(), len(wrong), *(f"{name}={n}" for name, n in came.items()), sep="\t", flush=True)
            for text in wrong[:5]:
                print(text, file=sys.stderr, flush=True)
            bad += len(wrong)
        os.chdir("/")
    return 1 if bad else 0


if __name__ == "__main__":
    if "faults.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory(prefix="mdi-faults-lib-") as built:
            preloaded = {**os.environ, "LD_PRELOAD": str(build(Path(built))), "PYTHONPATH": str(HERE.parent)}
            sys.exit(subprocess.call([sys.executable, *sys.argv], env=preloaded))
    sys.exit(main())
