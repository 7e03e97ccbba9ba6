"""What a line of wav.scp names: only what ends in '|' is a command, and it runs only where that was asked for."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdi.errors import MdiError
from mdi.speech.data import DataFolder
from mdi.speech.rxfilename import Source, open_source, parse_rxfilename
from mdi.speech.sound import Sound


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a.wav", Source("a.wav")),
        ("my recordings/a b.wav", Source("my recordings/a b.wav")),
        ("a.ark:17", Source("a.ark", 17)),
        ("c:1:17", Source("c:1", 17)),
        ("sph2pipe -f wav a.sph |", Source(command="sph2pipe -f wav a.sph ")),
        ("sph2pipe a.sph | sox - - |\t", Source(command="sph2pipe a.sph | sox - - ")),
        # Kaldi, too, takes these for files
        ("touch X |:10", Source("touch X |", 10)),
        ("touch X |[0:3]", Source("touch X |[0:3]")),
        ("$(touch X).wav", Source("$(touch X).wav")),
    ],
)
def test_kinds(text, source):
    assert parse_rxfilename(text) == source
    again = parse_rxfilename(source.absolute())
    assert again == (source if source.command else Source(os.path.abspath(source.path), source.offset))


@pytest.mark.parametrize("text", ["| touch X", "|touch X|", "", " ", "-"])
def test_what_is_none(text):
    with pytest.raises(MdiError, match="expected"):
        parse_rxfilename(text)


HOSTILE = [
    "| touch ran",
    "touch ran |:10",
    "touch ran |[0:3]",
    "touch ran |",
    " touch ran | ",
    "ark:touch ran |",
    "touch ran|",
    "|touch ran|",
    "touch ran |:",
    "scp,p:touch ran |",
    "`touch ran`",
    "$(touch ran)",
    "; touch ran",
    "b, touch ran |",
    "-|touch ran",
    "touch ran |\x0b",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_nothing_runs_unless_asked_for(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wav.scp").write_text(f"u1 {line}\n")
    with pytest.raises(MdiError):
        Sound(DataFolder(tmp_path)).samples("u1")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("line", [line for line in HOSTILE if not line.rstrip(" ").endswith("|") or line[0] == "|"])
def test_asked_for_or_not_only_a_trailing_bar_is_a_command(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wav.scp").write_text(f"u1 {line}\n")
    with pytest.raises(MdiError):
        Sound(DataFolder(tmp_path), allow_pipes=True).samples("u1")
    assert not (tmp_path / "ran").exists()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_every_name_is_a_command_a_file_or_an_error(text):
    try:
        source = parse_rxfilename(text)
    except MdiError:
        return
    assert (source.command is not None) == text.strip(" \t\r\n").endswith("|")
    assert (source.command is None) == bool(source.path)


def test_a_command_is_read_from(tmp_path):
    with open_source(parse_rxfilename("printf abc |"), True) as stream:
        assert stream.read() == b"abc"
    with pytest.raises(MdiError, match="ended with code 3: no luck"):
        open_source(parse_rxfilename("echo no luck >&2; exit 3 |"), True)
    with pytest.raises(MdiError, match="--allow-pipes is false"):
        open_source(parse_rxfilename("printf abc |"), False)


def test_pipes_and_folders_are_no_recordings(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for name, what in (("pipe", "is a pipe"), (".", "is a directory"), ("none.wav", "No such file")):
        with pytest.raises(MdiError, match=what):
            open_source(Source(str(tmp_path / name)), False)


def test_a_name_does_not_become_a_command_when_it_is_written_out():
    with pytest.raises(MdiError, match="would be a command"):
        parse_rxfilename("x; touch ran |/.").absolute()
