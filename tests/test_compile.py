"""Kernels are compiled once, at set-up, and kept where the user may write."""

import os
import shutil
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
    home, kept = {"HOME": str(tmp_path)}, f"kernels-{mdi.__version__}"
    assert cache_folder(home) == f"{tmp_path}/.cache/mdi/{kept}"
    assert cache_folder({**home, "XDG_CACHE_HOME": str(tmp_path / "c")}) == f"{tmp_path}/c/mdi/{kept}"
    # where models are kept is data, and may come from elsewhere
    assert cache_folder({**home, "NUMBA_CACHE_DIR": "x"}) == "x"
    # no home to write to
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    assert cache_folder({"HOME": "/proc"}) == f"{tmp_path}/tmp/mdi-{os.getuid()}/{kept}"
    assert (tmp_path / "tmp").stat().st_uid == os.getuid()
    # what others may write to would be run: not used
    (tmp_path / "open" / "mdi").mkdir(parents=True)
    (tmp_path / "open" / "mdi").chmod(0o777)
    open_to_all = {**home, "XDG_CACHE_HOME": str(tmp_path / "open")}
    assert cache_folder(open_to_all) == f"{tmp_path}/tmp/mdi-{os.getuid()}/{kept}"


def test_nothing_is_left_beside_the_modules_and_a_first_run_says_that_it_compiles(tmp_path):
    """What lies in site-packages outlives `pip uninstall`, and Python takes the folder for a package."""
    site = tmp_path / "site"
    shutil.copytree(Path(mdi.__file__).parent, site / "mdi", ignore=shutil.ignore_patterns("__pycache__"))
    code = "from mdi.lm.vocabulary import vocabulary; assert vocabulary(['a', 'b']).id('b') == 1"
    keys = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in keys}
    environment |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True, cwd=tmp_path
        )
        said.append(done.stderr)
    assert not list(site.rglob("*.nb?"))
    assert list((tmp_path / "home/.cache/mdi" / f"kernels-{mdi.__version__}").rglob("*.nbi"))
    assert said[0].count("compiling kernels, once") == 1
    assert said[1] == ""
    shutil.rmtree(site / "mdi" / "kernels")
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "numba")
    shutil.copytree(Path(mdi.kernels.__file__).parent, site / "mdi" / "kernels")
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, cwd=tmp_path)
    assert list((tmp_path / "numba").rglob("*.nbi"))


def test_other_code_keeps_its_kernels_where_it_did(tmp_path):
    """numba's setting for the folder is one for a whole program: ours must not be."""
    (tmp_path / "other.py").write_text("import mdi.kernels, numba\n@numba.njit(cache=True)\ndef f():\n    return 1\n")
    script = "import other; other.f(); print(other.f.stats.cache_path)"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == str(tmp_path / "__pycache__"), done.stderr
    assert "compiling kernels" not in done.stderr


def test_a_change_in_any_kernel_compiles_all_again():
    """What was compiled has the kernels that it calls inside."""
    stamp = parse_counts._cache._impl.locator.get_source_stamp()
    modules = Path(mdi.kernels.__file__).parent.glob("*.py")
    assert {name for name, _, _ in stamp} == {path.name for path in modules}


def test_nowhere_to_keep_what_is_compiled(tmp_path):
    """Costs time, not the run."""
    script = """if True:
        import os
        os.access = lambda *_: False  # neither the package nor any directory can be written
        from mdi.kernels.trie import bisect
        import numpy as np
        print(bisect(np.arange(9), 0, 9, 5), bisect.stats.cache_path)
    """
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**environment, "HOME": "/proc"}, cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "5 None\n"), done.stderr
