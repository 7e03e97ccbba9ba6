"""Every verb with a machine that fails: the n-th write, fsync, rename, read, mkdir or open of a file of its own, or the
n-th fork or start of a thread, for every n, in a process of its own (forked, so thousands take minutes). By hand:

    python3 tests/stress/faults.py [VERB...]
    python3 tests/stress/faults.py recipe [POINTS] [SEED]

After an error the exit code is not 0, there is a line about it, outputs are as they were, and nothing else is left; a
job that goes on where it was may leave parts. Then the same call, without a fault, makes what it would have made. A
call that was interrupted, or did half of what it should, changes nothing. Prints a table of how often each failed.
`recipe` does the same to run.sh: POINTS times one stage with a fault in any of its processes, then that stage again.
"""

import ctypes
import errno
import io
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import wave
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from recipe import Stages, leftovers, without_times

HERE = Path(__file__).resolve().parent
MOST = 400  # calls of one kind that a verb may make
# (operation, error): 0 is half of what was asked for
FAULTS = [
    ("write", errno.ENOSPC),
    ("write", errno.EIO),
    ("write", errno.EINTR),
    ("write", 0),
    ("fsync", errno.EIO),
    ("rename", errno.EACCES),
    ("read", errno.EIO),
    ("read", errno.EINTR),
    ("read", 0),
    ("mkdir", errno.ENOSPC),
    ("open", errno.EMFILE),
    ("open", errno.EINTR),
    ("fork", errno.EAGAIN),
    ("thread", errno.EAGAIN),
]
HARMLESS = (errno.EINTR, 0)
OPERATIONS = ("write", "fsync", "rename", "read", "mkdir", "open", "fork", "thread")  # as in faults.c
STAGES = (0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 6, 7)  # long ones less often
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
    "deltas": "list-deltas a.delta",
    "recordings": "adapt-recordings --words words.txt --groups groups lm lats OUT.rec",
    "vosk-adapt": "vosk adapt --ppl dev vosk text OUT.vosk",
    "vosk-replace-lm": "vosk replace-lm vosk small OUT.vosk",
    "vosk-decode": "vosk decode real data OUT.said",  # with the model that MDI_VOSK_MODEL names
}
GOES_ON = ("score", "train", "rescore", "recordings", "vosk-decode")  # may leave parts that are whole
FOLDERS = ("rescore", "score", "recordings", "vosk-adapt", "vosk-replace-lm", "vosk-decode")


def build(folder: Path) -> Path:
    library = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "faults.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def prepare(verbs: list[str]) -> None:
    """Small inputs in the current folder, and a place there for what is temporary."""
    from mdi.cli import main

    Path("text").write_text("a b c\nb c a a\nc b\na c b a\n" * 3)
    Path("dev").write_text("a b a\nc\n")
    Path("reference").write_text("u1 a c\n")
    Path("groups").write_text("u1 r1\n")
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
    if any(verb.startswith("vosk") for verb in verbs):
        vosk_folder(Path("vosk"), "words.txt", "lm")
        Path("real").symlink_to(os.path.abspath(os.environ.get("MDI_VOSK_MODEL", "vosk")))
    if "vosk-decode" in verbs:
        Path("data").mkdir()
        with wave.open("data/u1.wav", "wb") as stream:
            stream.setparams((1, 2, 16000, 0, "NONE", ""))
            stream.writeframes(bytes(64000))
        Path("data/wav.scp").write_text(f"u1 {os.path.abspath('data/u1.wav')}\n")
    Path("temporary").mkdir()
    tempfile.tempdir = os.path.abspath("temporary")


def vosk_folder(folder: Path, words: str, lm: str) -> None:
    """What mdi vosk adapt sees of a Vosk model."""
    from mdi.cli import main

    for name, content in (("am/final.mdl", "acoustic"), ("graph/HCLr.fst", "graph"), ("conf/model.conf", "--beam=9\n")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    assert main(["convert", "--words", words, lm, str(folder / "graph" / "Gr.fst")]) == 0


def state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run(arguments: list[str], operation: str, n: int, code: int) -> tuple[int, int, str]:
    """(exit code, faults that came, what was said) of a verb in a child process."""
    from mdi.cli import main

    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        subprocess._USE_VFORK = False  # type: ignore[attr-defined]  # so that its forks are seen
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
    ended, hits = map(int, head.split()) if head else (98, 1)
    return ended, hits, text.decode(errors="replace")


def remove(folder: Path, names: set[str]) -> None:
    for name in names:
        (folder / name).unlink()
    for path in sorted(folder.rglob("OUT*/**/"), reverse=True):  # folders that are empty now
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def try_verb(verb: str) -> tuple[Counter[str], list[str]]:
    """How often each fault came, and what went wrong."""
    folder, arguments = Path.cwd(), VERBS[verb].split()
    before = state(folder)

    def new() -> dict[str, bytes]:
        found = state(folder).items()
        return {name: without_times(name, data) for name, data in found if before.get(name) != data}

    ended, _, text = run(arguments, "none", 0, 0)
    assert ended == 0, text
    made = new()
    old = {} if verb in FOLDERS else {name: without_times(name, b"old " + name.encode()) for name in made}
    came: Counter[str] = Counter()
    wrong: list[str] = []
    for operation, code in FAULTS:
        for n in range(MOST):
            remove(folder, set(new()))
            for name, data in old.items():
                (folder / name).write_bytes(data)
            ended, hits, text = run(arguments, operation, n, code)
            fault = f"{operation} {errno.errorcode.get(code, 'half')}"
            if not hits:
                break
            came[fault] += 1
            after = new()
            good = "Traceback" not in text and (code not in HARMLESS or not ended)
            scratch = {name for name in after if name.startswith("temporary/")}  # goes with the next run
            if not ended:  # what was harmless, or cost only time
                good = good and {name: data for name, data in after.items() if name not in scratch} == made
            else:
                at_the_end = operation in ("rename", "fsync") or verb in GOES_ON
                good = good and bool(text.strip())
                good = good and (after in (old, made) or (at_the_end and _whole(verb, after, old, made)))
            if ended or scratch:
                again, _, more = run(arguments, "none", 0, 0)
                if again or new() != made:
                    wrong.append(
                        f"{verb}: {fault} no. {n + 1}, next run: exit code {again}: {more[-300:]!r} {set(new())}"
                    )
            if not good:
                wrong.append(f"{verb}: {fault} no. {n + 1}: exit code {ended}: {text[-300:]!r} {sorted(after)}")
        else:
            raise SystemExit(f"faults: {verb} makes more than {MOST} calls of {operation}")
    remove(folder, set(new()))
    return came, wrong


def _whole(verb: str, after: dict[str, bytes], old: dict[str, bytes], made: dict[str, bytes]) -> bool:
    """Of several outputs some may have been there already; nothing is there half."""
    if verb in ("vosk-decode", "recordings"):  # parts of a decoding and its record are what it goes on with
        after = {name: data for name, data in after.items() if name in made}
    return set(after) <= set(made) and all(data in (old.get(name), made[name]) for name, data in after.items())


def verbs_of(names: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="mdi-faults-") as scratch:
        os.chdir(scratch)
        sys.stderr.flush()
        prepare(names)
        bad = 0
        for verb in names:
            came, wrong = try_verb(verb)
            print(verb, came.total(), len(wrong), *(f"{name}={n}" for name, n in came.items()), sep="\t", flush=True)
            for text in wrong[:20]:
                print(text, file=sys.stderr, flush=True)
            bad += len(wrong)
        os.chdir("/")
    return 1 if bad else 0


# ---- run.sh


def counted(stages: Stages, stage: int, operation: str, n: int, code: int) -> tuple[int, int, list[int]]:
    """(exit code, faults that came, calls of each kind) of a stage in whose processes, all together, a call fails."""
    counter = stages.root / "counter"
    counter.write_bytes(struct.pack("2i8i", n, 0, *[0] * 8))
    variables = {"FAULT": operation, "FAULT_COUNTER": str(counter), "FAULT_FOLDER": str(stages.work)}
    ended = stages.start(stage, variables | {"FAULT_CODE": str(code)}).wait()
    _, hits, *calls = struct.unpack("2i8i", counter.read_bytes())
    return ended, hits, calls


def recipe_of(points: int, seed: int) -> int:
    """One stage after the other has a fault at a moment by chance."""
    chance, came, wrong = random.Random(seed), Counter[str](), 0
    faults = [(operation, code) for operation, code in FAULTS if operation != "thread"]
    with tempfile.TemporaryDirectory(prefix="mdi-faults-") as scratch:
        stages = Stages(Path(scratch))
        calls: dict[int, list[int]] = {}
        for point in range(points):
            stage = chance.choice(STAGES)
            if stage not in calls:
                stages.begin(stage)
                ended, _, calls[stage] = counted(stages, stage, "none", 1 << 30, 0)
                assert ended == 0, stages.said()
            operation, code = chance.choice(faults)
            n = chance.randrange(max(1, calls[stage][OPERATIONS.index(operation)]))
            stages.begin(stage)
            ended, hits, _ = counted(stages, stage, operation, n, code)
            fault = f"{operation} {errno.errorcode.get(code, 'half')}"
            came[f"{stage}: {fault}"] += hits
            text, after = stages.said(), stages.outcome()
            bad = "Traceback" in text or (after != stages.after[stage] if not ended else code in HARMLESS)
            again = stages.start(stage, {}).wait()
            lost = {name for name, data in stages.after[stage].items() if stages.outcome().get(name) != data}
            left = [*leftovers(stages.work), *(set(stages.outcome()) - set(stages.after[stage]))]
            if bad or again or lost or left:
                wrong += 1
                what = f"stage {stage}, {fault} no. {n + 1}: exit code {ended}, then {again}; {lost=} {left=}"
                print(f"{what}\n{text[-800:]}", file=sys.stderr, flush=True)
            print(point + 1, stage, fault, n + 1, ended, hits, wrong, sep="\t", flush=True)
    print(came.total(), "faults,", wrong, "wrong", *(f"{name}={n}" for name, n in sorted(came.items())), sep="\t")
    return 1 if wrong else 0


def main() -> int:
    if sys.argv[1:2] == ["recipe"]:
        points, seed = (*map(int, sys.argv[2:]), *(150, 1)[len(sys.argv) - 2 :])
        return recipe_of(points, seed)
    return verbs_of(sys.argv[1:] or [verb for verb in VERBS if verb != "vosk-decode" or "MDI_VOSK_MODEL" in os.environ])


if __name__ == "__main__":
    if "faults.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory(prefix="mdi-faults-lib-") as built:
            preloaded = {**os.environ, "LD_PRELOAD": str(build(Path(built))), "PYTHONPATH": str(HERE.parent)}
            sys.exit(subprocess.call([sys.executable, *sys.argv], env=preloaded))
    sys.exit(main())
