"""The example notebook: its cells run one after the other in a fresh directory, and it is the one that is here."""

import json
import subprocess
import sys
from pathlib import Path

import make_notebook
import pytest

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parent.parent


def sources(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"]]


def test_its_cells_run_and_it_is_up_to_date(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "utils/make_notebook.py", "made.ipynb"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["made.ipynb"]
    made, stored = (json.loads(path.read_text()) for path in (tmp_path / "made.ipynb", ROOT / "utils/adaptation.ipynb"))
    assert sources(made) == sources(stored), "make it again: utils/make_notebook.py utils/adaptation.ipynb"
    code = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(cell["outputs"] for cell in code)
    pictures = [out for cell in code for out in cell["outputs"] if "image/png" in out.get("data", {})]
    assert len(pictures) == 3  # a comparison, a sweep, a search
    for one, other in zip(code, (cell for cell in stored["cells"] if cell["cell_type"] == "code"), strict=True):
        printed = [[out.get("text") for out in cell["outputs"] if "text" in out] for cell in (one, other)]
        assert len(printed[0]) == len(printed[1])
    said = "".join(code[2]["outputs"][0]["text"])
    ppl = [float(line.split("perplexity")[1].split(",")[0]) for line in said.splitlines()]
    assert ppl[2] < ppl[0] < ppl[1]


def test_a_cell_shows_what_it_prints_and_its_last_value():
    names = {}
    assert make_notebook.run_cell("x = 2\nprint('a')\nx + 1", names) == [
        {"output_type": "stream", "name": "stdout", "text": ["a\n"]},
        {"output_type": "display_data", "metadata": {}, "data": {"text/plain": ["3"]}},
    ]
    assert make_notebook.run_cell("y = x", names) == []
    with pytest.raises(NameError):
        make_notebook.run_cell("nobody", names)
