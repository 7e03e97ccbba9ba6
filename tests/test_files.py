"""Files that are written: what they may be, what killed runs leave, many at once."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from goldens import SHORT_TEXT
from recipe import ROOT

from mdi import files
from mdi.cli import main
from mdi.errors import MdiError


def test_a_pipe_is_written_to(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert main(["train", SHORT_TEXT, str(pipe)]) == 0
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert b"\\end\\" in got[0]
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]  # no certificate beside a stream


def test_a_device_is_written_to(tmp_path):
    null = tmp_path / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        null.write_bytes(b"")
    except PermissionError:
        pytest.skip("only root makes devices")
    assert main(["train", SHORT_TEXT, str(null)]) == 0
    assert stat.S_ISCHR(null.stat().st_mode)
    assert list(tmp_path.iterdir()) == [null]
    with pytest.raises(MdiError, match="/dev/full: cannot write: No space left"), files.writing("/dev/full") as stream:
        stream.write(b"x" * 100_000)


def test_a_link_is_followed_and_the_mode_of_a_file_stays(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/model")
    with files.writing(str(tmp_path / "link")) as stream:
        stream.write(b"one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "model").read_bytes() == b"one"
    (tmp_path / "far" / "model").chmod(0o600)
    with files.writing(str(tmp_path / "link")) as stream:
        stream.write(b"two")
    assert (tmp_path / "far" / "model").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "far" / "model").stat().st_mode) == 0o600


def test_temporary_files_of_killed_runs_go_and_those_of_others_stay(tmp_path):
    target = str(tmp_path / "out")
    left = tmp_path / ".out.0123456789ab.tmp"
    left.write_bytes(b"half")
    own = tmp_path / ".out.notes.tmp"
    own.write_bytes(b"mine")
    with files.writing(target) as stream:
        assert not left.exists()
        stream.write(b"first")
        with files.writing(target) as other:  # another run at the same time
            other.write(b"second")
    assert Path(target).read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.notes.tmp", "out"]


def test_scratch_folders_of_killed_processes_go(tmp_path):
    script = (
        "import os, sys; from mdi.files import scratch_folder\n"
        "f = scratch_folder('mdi-x-', sys.argv[1]); open(f.name + '/big', 'w'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT)
    assert len(list(tmp_path.iterdir())) == 1
    first = files.scratch_folder("mdi-x-", str(tmp_path))
    second = files.scratch_folder("mdi-x-", str(tmp_path))
    assert {Path(first.name), Path(second.name)} == set(tmp_path.iterdir())
    first.cleanup()
    second.cleanup()


def test_many_at_once_take_nothing_from_each_other(tmp_path):
    """What another process has just made, and not locked yet, looks like what a killed one has left."""
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            code = 1
            try:
                for number in range(150):
                    with files.scratch_folder("mdi-x-", str(tmp_path)) as scratch:
                        Path(scratch, "x").write_bytes(b"x")
                        with files.replacing(str(tmp_path / "out"), sync=False) as stream:
                            stream.write(b"%d" % number)
                        assert Path(scratch, "x").exists()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# ---- other users of the machine


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_links_and_modes_of_others_are_not_followed(tmp_path, capsys):
    diary, link, out = tmp_path / "diary", tmp_path / "link.arpa", tmp_path / "out.arpa"
    diary.write_text("secret")
    link.symlink_to(diary)
    assert main(["train", SHORT_TEXT, str(link)]) == 0  # a link of one's own is
    assert diary.read_text() != "secret"
    os.lchown(link, 65534, 65534)
    diary.write_text("secret")
    capsys.readouterr()
    assert main(["train", SHORT_TEXT, str(link)]) == 1
    assert "is a link that somebody else has made" in capsys.readouterr().err
    with pytest.raises(MdiError, match="somebody else"), files.writing(str(link)):
        pass
    assert diary.read_text() == "secret"
    out.write_text("")
    out.chmod(0o666)
    os.chown(out, 65534, 65534)
    assert main(["train", SHORT_TEXT, str(out)]) == 0
    assert out.stat().st_mode & 0o022 == 0


def test_a_pipe_under_the_name_of_a_temporary_file(tmp_path):
    os.mkfifo(tmp_path / ".out.arpa.0123456789ab.tmp")
    assert main(["train", SHORT_TEXT, str(tmp_path / "out.arpa")]) == 0


def test_a_line_without_end(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"\xef\xbb\xbfa\r\n" + b"b" * 900 + b"\n\nlast")
    assert list(files.read_lines(str(path))) == [b"a", b"b" * 900, b"", b"last"]
    path.write_bytes(b"a\n" + b"b" * (files.LONGEST_LINE + 1))
    with pytest.raises(MdiError, match="lines: a line of over 67,108,864 bytes; expected text, in lines"):
        list(files.read_lines(str(path)))
