"""Certificates: of which file, never without, and what they say is so."""

import json
import os
import shutil

import pytest
import recheck
from goldens import GOOD, HARDENING, SHORT_TEXT

from mdi.cli import main


def test_a_certificate_names_its_file(tmp_path, capsys):
    import hashlib

    out = tmp_path / "out.arpa.gz"
    assert main(["adapt", "--min-counts", "1", GOOD, SHORT_TEXT, str(out)]) == 0
    said = json.loads((tmp_path / "out.arpa.gz.json").read_text())["file"]
    assert said == {"bytes": out.stat().st_size, "sha256": hashlib.sha256(out.read_bytes()).hexdigest()}
    assert main(["check", str(out)]) == 0
    assert "out.arpa.gz.json is its certificate" in capsys.readouterr().out
    shutil.copy(GOOD, out)
    assert main(["check", str(out)]) == 1
    assert "is the certificate of another file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("out-sum.1634", ["--min-counts", "1-1-2", "--history", "MODEL"]),
        ("out-sum.497", ["--min-counts", "3"]),
        ("marg-report.406", ["--min-counts", "1-1-2"]),
        ("out-bad.214", ["--min-counts", "1-2", "--targets", "smoothed"]),
        ("out-bad.2491", ["--min-counts", "1"]),
        ("outbad3001549", ["--min-counts", "2", "--allow-unnormalized", "true"]),
        ("exc.678", ["--min-counts", "1"]),
        ("exc3001179", ["--min-counts", "1", "--allow-unnormalized", "true"]),
        ("exc3001179", ["--min-counts", "2", "--allow-unnormalized", "true"]),
        ("exc3002896", ["--min-counts", "2", "--allow-unnormalized", "true"]),
    ],
)
def test_a_model_that_is_written_is_what_its_certificate_says(name, options, tmp_path, capsys):
    small = HARDENING / f"{name}.m.arpa"
    model, text = (small, HARDENING / f"{name}.t.txt") if small.exists() else (HARDENING / f"{name}.arpa", SHORT_TEXT)
    out = tmp_path / "out"
    code = main(["adapt", *(str(model) if o == "MODEL" else o for o in options), str(model), str(text), str(out)])
    assert "Traceback" not in capsys.readouterr().err
    if not out.exists():
        assert code == 1
        return
    certificate = json.loads((tmp_path / "out.json").read_text())
    assert code == (0 if certificate["converged"] else 1)
    gap = recheck.worst_sum(recheck.read(out))
    assert gap < 2e-6
    assert gap == pytest.approx(certificate["worst_sum_gap"], abs=2e-7)


@pytest.mark.parametrize("renames", [0, 1])
def test_a_model_is_never_there_without_its_certificate(renames, tmp_path):
    """Killed after so many renames: first comes the certificate, which names the bytes that it is about."""
    out = tmp_path / "out"
    child = os.fork()
    if not child:
        rename, left = os.replace, [renames]

        def dying(*paths):
            if not left[0]:
                os._exit(9)
            left[0] -= 1
            rename(*paths)

        os.replace = dying
        main(["train", SHORT_TEXT, str(out)])
        os._exit(0)
    assert os.waitpid(child, 0)[1] >> 8 == 9
    assert not out.exists()
    assert (tmp_path / "out.json").exists() == bool(renames)
    assert main(["train", SHORT_TEXT, str(out)]) == 0  # and the next run leaves nothing else
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.json"]
