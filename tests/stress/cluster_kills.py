"""kill -9 of the client, of workers or of all, at random moments of `mdi adapt` and `mdi train` on Dask. By hand:

    python3 tests/stress/cluster_kills.py [NUMBER] [SEED]

After each a job whose client was killed is started again, and maybe killed again; one that has lost a worker goes on by
itself. In the end there must be the file that one process writes, byte for byte, no folder of shards, no temporary file
and no process that is still at work. Prints who was killed how often.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import numpy as np
from random_models import random_model, random_text, write_model, write_text

JOBS = {
    "adapt": "adapt --min-counts 1 --sigma2 1 --tolerance 1e-6 --shards 4 bg.arpa text",
    "train": "train --order 3 --shards 4 text.gz",
}


def workers_of(pid: int) -> list[int]:
    """The worker processes that a client has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            status = (entry / "status").read_text() if entry.name.isdigit() else ""
            if f"PPid:\t{pid}\n" in status and b"spawn_main" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:  # gone
            continue
    return found


def started(command: str, out: Path) -> subprocess.Popen:
    verb, *rest = command.split()
    call = [sys.executable, "-m", "mdi", verb, "--cluster", "local:2", *rest, str(out)]
    log = (out.parent / "log").open("wb")
    return subprocess.Popen(call, cwd=out.parent, stdout=log, stderr=log, start_new_session=True)


def main() -> int:
    number, seed = (int(value) for value in (*sys.argv[1:], *("60", "1")[len(sys.argv) - 1 :]))
    chance, done, wrong, left = random.Random(seed), Counter[str](), 0, number
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(random_model(rng, 3, 60, closed=False), folder / "bg.arpa")
        text = write_text(random_text(rng, 60, 3000), folder / "text")
        subprocess.run(["gzip", "-k", text], check=True)
        length = {}
        for verb, command in JOBS.items():
            verb, *rest = command.replace("--shards 4 ", "").split()
            subprocess.run(
                [sys.executable, "-m", "mdi", verb, *rest, f"one-{verb}"], cwd=folder, check=True, capture_output=True
            )
            begun = time.monotonic()
            assert started(command, folder / "timed").wait() == 0
            length[verb] = time.monotonic() - begun
        while left:
            verb = chance.choice(list(JOBS))
            out = folder / "out"
            process, killed = started(JOBS[verb], out), []
            while left and chance.random() < 0.8:
                time.sleep(chance.uniform(0.25, 1.0) * length[verb])
                if process.poll() is not None:
                    break
                left -= 1
                who = chance.choice(["client", "worker", "workers", "everybody"])
                workers = workers_of(process.pid)
                if who in ("client", "everybody"):
                    (os.killpg if who == "everybody" else os.kill)(process.pid, signal.SIGKILL)
                    process.wait()
                for pid in workers[: 1 if who == "worker" else 9] if who.startswith("worker") else []:
                    os.kill(pid, signal.SIGKILL)
                killed.append(f"{who} of {verb}")
                done[killed[-1]] += 1
                if process.poll() is not None:
                    process = started(JOBS[verb], out)
            code = process.wait(300)
            while code:  # workers that died too often: it says so, and goes on when it is started again
                done[f"{verb} had to be started again"] += 1
                code = started(JOBS[verb], out).wait(300)
            same = out.read_bytes() == (folder / f"one-{verb}").read_bytes()
            time.sleep(3)  # orphans notice that their client has gone
            rest_of = [path.name for path in folder.iterdir() if path.name.endswith((".tmp", ".shards"))]
            at_work = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_ours(pid, folder)]
            wrong += not same or bool(rest_of) or bool(at_work)
            if not same or rest_of or at_work:
                print(f"{verb}, {killed}: same {same}, left {rest_of}, still at work {at_work}", flush=True)
            for path in folder.glob("out*"):
                path.unlink()
    for what, times in sorted(done.items()):
        print(f"{times:4d} {what}")
    print(f"{number} kills, {wrong} wrong results")
    return int(wrong > 0)


def _is_ours(pid: int, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
