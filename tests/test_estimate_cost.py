"""What a run costs, from the sizes of its inputs."""

import gzip
import random
import re

import estimate_cost
import pytest


@pytest.fixture
def text(tmp_path):
    """Two million words, more than the sample."""
    chance = random.Random(1)
    words = [f"word{chance.randrange(10_000)}" for _ in range(2_000_000)]
    data = "".join(f"{' '.join(words[i : i + 20])}\n" for i in range(0, len(words), 20)).encode()
    (tmp_path / "text").write_bytes(data)
    (tmp_path / "text.gz").write_bytes(gzip.compress(data, 1))
    (tmp_path / "short").write_text("just four words here\n")
    return tmp_path


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_words_are_estimated_from_the_beginning(text, name):
    assert estimate_cost.count_words(text / name) == pytest.approx(2_000_000, rel=0.05)


def test_words_of_small_files_and_of_folders(text):
    assert estimate_cost.count_words(text / "short") == 4
    assert estimate_cost.count_words(text) == pytest.approx(4_000_000, rel=0.05)


def figures(capsys, *options):
    """stage -> (seconds, GB), and the total"""
    assert estimate_cost.main([str(option) for option in options]) == 0
    printed = capsys.readouterr().out
    unit = {"s": 1, "min": 60, "h": 3600}
    rows = re.findall(r"^ +(?:stage (\d)|in all) .* +([\d.]+) (s|min|h) +([\d.]+) GB", printed, re.MULTILINE)
    return {stage: (float(n) * unit[u], float(gb)) for stage, n, u, gb in rows}


def test_more_text_takes_longer(text, capsys):
    small = figures(capsys, "--in-text", text / "short", "--background", text / "short")
    large = figures(capsys, "--in-text", text / "text", "--background", text / "text.gz")
    assert list(small) == ["0", "1", "2", "3", "4", "7", ""]  # no speech
    assert all(large[stage] >= small[stage] for stage in small)
    assert large[""][0] > small[""][0]
    some = figures(capsys, "--in-text", text / "text", "--background", text / "text", "--stage", 1, "--stop-stage", 2)
    assert list(some) == ["1", "2", ""]


def test_the_figures_of_a_large_model(tmp_path, capsys):
    """13 million n-grams: three sets and a prior at 8.6 s each, mixing in 8 s and 0.55 GB, as measured."""
    (tmp_path / "in").write_text("a few words\n")
    (tmp_path / "bg.arpa").write_text("\\data\\\nngram 1=50000\nngram 2=5950000\nngram 3=7000000\n\n\\1-grams:\n")
    found = figures(capsys, "--in-text", tmp_path / "in", "--background", tmp_path / "bg.arpa", "--max-settings", 0)
    assert found["2"] == (pytest.approx(8, abs=3), pytest.approx(0.55, abs=0.1))
    assert found["3"][0] == pytest.approx(5 * 8.6, rel=0.3)


def test_speech_is_measured(tmp_path, capsys):
    (tmp_path / "in").write_text("a few words\n")
    with_segments, with_files = tmp_path / "one", tmp_path / "two"
    for folder in (with_segments, with_files):
        folder.mkdir()
    (with_segments / "segments").write_text("utt1 rec 0.0 600.0\nutt2 rec 600 900\n")
    (tmp_path / "a.wav").write_bytes(bytes(32_000 * 10))
    (with_files / "wav.scp").write_text(f"utt1 {tmp_path}/a.wav\nutt2 sox x |\n")
    assert estimate_cost.seconds_of_speech(with_segments) == 900
    assert estimate_cost.seconds_of_speech(with_files) == 10
    options = ("--in-text", tmp_path / "in", "--background", tmp_path / "in", "--speech", with_segments, "--nj", 1)
    found = figures(capsys, *options)
    assert found["5"][0] >= 3 * 0.33 * 900
    assert figures(capsys, *options, "--lattices", "true")["5"][0] == 0


def test_a_file_that_is_missing_is_named(tmp_path, capsys):
    assert estimate_cost.main(["--in-text", str(tmp_path / "no"), "--background", str(tmp_path / "no")]) == 1
    assert "No such file" in capsys.readouterr().err
