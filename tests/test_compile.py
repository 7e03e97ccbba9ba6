"""Kernels are compiled once, at set-up, and kept where the user may write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from recipe import ROOT

import mdi.compile
import mdi.kernels
from mdi.kernels import cache_folder
from mdi.kernels.counts import parse_counts


def test_every_kernel_that_people_meet_first_is_compiled(capsys):
    assert mdi.compile.main() == 0
    assert capsys.readouterr().err == ""


def test_a_verb_that_fails_is_named(capsys, monkeypatch):
    monkeypatch.setattr(mdi.compile, "MODELS", ["train nowhere.txt out.arpa"])
    assert mdi.compile.main() == 1
    assert "mdi train nowhere.txt out.arpa: mdi train: nowhere.txt" in capsys.readouterr().err


def test_what_is_compiled_is_kept_where_one_may_write(tmp_path, monkeypatch):
    home = {"HOME": str(tmp_path)}
    assert cache_folder(tmp_path, home) is None  # beside the modules
    assert cache_folder(tmp_path, {**home, "MDI_CACHE": str(tmp_path / "mine")}) == str(tmp_path / "mine")
    assert cache_folder(tmp_path, {**home, "NUMBA_CACHE_DIR": "x", "MDI_CACHE": "y"}) is None
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "/installed" and access(path, mode))
    assert cache_folder("/installed", home) == f"{tmp_path}/.cache/mdi"
    assert cache_folder("/installed", {**home, "XDG_CACHE_HOME": str(tmp_path / "c")}) == f"{tmp_path}/c/mdi"
    # no home to write to either
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    assert cache_folder("/installed", {"HOME": "/proc"}) == f"{tmp_path}/tmp/mdi-{os.getuid()}"
    assert (tmp_path / "tmp").stat().st_uid == os.getuid()


def test_the_cache_is_used(tmp_path):
    code = "from mdi.lm.vocabulary import vocabulary; assert vocabulary(['a', 'b']).id('b') == 1"
    environment = {**os.environ, "MDI_CACHE": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert list((tmp_path / "cache").rglob("*.nbi"))


def test_a_change_in_any_kernel_compiles_all_again():
    """What was compiled has the kernels that it calls inside."""
    stamp = parse_counts._cache._impl.locator.get_source_stamp()
    modules = Path(mdi.kernels.__file__).parent.glob("*.py")
    assert {name for name, _, _ in stamp} == {path.name for path in modules}


def test_nowhere_to_keep_what_is_compiled(tmp_path):
    """Costs time, not the run."""
    script = """if True:
        import os
        os.access = lambda *_: False  # neither the package nor any folder can be written
        from mdi.kernels.trie import bisect
        import numpy as np
        print(bisect(np.arange(9), 0, 9, 5), bisect.stats.cache_path)
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("MDI_CACHE", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**environment, "HOME": "/proc"}, cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "5 None\n"), done.stderr
