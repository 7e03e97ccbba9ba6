"""run.sh as users call it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TINY = ("--tiny", "true")


def environment() -> dict[str, str]:
    variables = {k: v for k, v in os.environ.items() if k not in ("KALDI_ROOT", "egs_dir")}
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    return variables


def run(
    folder: Path, *options: object, script: Path | str = ROOT / "run.sh", **variables: str
) -> subprocess.CompletedProcess:
    command = ["bash", str(script), *map(str, options)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment() | variables, timeout=1800
    )


def run_mdi(*arguments: object, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mdi", *map(str, arguments)]
    return subprocess.run(command, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


def leftovers(folder: Path) -> list[Path]:
    """What an interrupted write leaves under its temporary name."""
    return list(Path(folder).rglob("*.tmp"))


class Stages:
    """The demo in miniature in a folder of its own, as it is after each stage: one stage can be done again from there,
    and what it leaves compared."""

    def __init__(self, root: Path, last: int = 7) -> None:
        self.root, self.work = root, root / "work"
        (self.work / "temporary").mkdir(parents=True)
        self.after: list[dict[str, bytes]] = []
        self.seconds: list[float] = []
        for stage in range(last + 1):
            shutil.copytree(self.work, self.root / str(stage), symlinks=True)
            began = time.monotonic()
            done = self.start(stage, {}).wait()
            self.seconds.append(time.monotonic() - began)
            assert done == 0, self.said()
            self.after.append(self.outcome())

    def begin(self, stage: int) -> None:
        """The folder as it was before the stage."""
        shutil.rmtree(self.work)
        shutil.copytree(self.root / str(stage), self.work, symlinks=True)

    def start(self, stage: int, variables: dict[str, str]) -> subprocess.Popen:
        command = ["bash", str(ROOT / "run.sh"), *TINY, "--stage", str(stage), "--stop-stage", str(stage)]
        more = {"TMPDIR": str(self.work / "temporary"), **variables}
        with open(self.root / "said", "wb") as said:
            return subprocess.Popen(
                command, cwd=self.work, env=environment() | more, stdout=said, stderr=said, start_new_session=True
            )

    def said(self) -> str:
        return (self.root / "said").read_text(errors="replace")

    def outcome(self) -> dict[str, bytes]:
        """Every file but logs and records of times, without what says how long it took."""
        found = {}
        for path in sorted(self.work.rglob("*")):
            name = str(path.relative_to(self.work))
            if path.is_file() and not path.name.endswith((".made", ".log")) and path.name != "index.html":
                found[name] = without_times(name, path.read_bytes())
        return found


def without_times(name: str, content: bytes) -> bytes:
    """Certificates, tables and pictures of a search say how long it took and how much memory."""
    if "search" in name:
        return b""
    if not name.endswith(".json"):
        return content
    return b"\n".join(line for line in content.split(b"\n") if b"seconds" not in line and b"memory" not in line)
