"""Models kept in a cache: their owner's, and looked at before they are believed."""

from __future__ import annotations

import shutil
import stat

import pytest
from goldens import GOOD

from mdi.lm import cache
from mdi.lm.arpa import read_arpa


@pytest.mark.usefixtures("shown")
def test_a_cache_is_its_owners_and_its_arrays_are_looked_at(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MDI_CACHE", str(tmp_path))
    source = tmp_path / "m\udcff.arpa"  # a name that is not UTF-8
    shutil.copy(GOOD, source)
    model = read_arpa(source)
    (kept,) = tmp_path.glob("*.mdi")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert read_arpa(source) == model
    kept.chmod(0o666)
    assert cache.load(str(source), kept) is None
    assert "somebody else may have written it" in capsys.readouterr().err
    read_arpa(source)
    for name, change in (("word", 10**6), ("suffix", 10**6), ("begin", -1), ("back", 10**6), ("as_hist", 0)):
        hostile = read_arpa(GOOD)
        getattr(hostile.trie, name)[2][1 if name == "begin" else 0] = change
        if name == "as_hist":
            hostile.trie.as_hist[2][:] = 0
        cache.save(hostile, str(source), kept)
        assert cache.load(str(source), kept) is None, name
    hostile = read_arpa(GOOD)
    hostile.vocab.table[:] = 0  # a search for a word would never end
    cache.save(hostile, str(source), kept)
    assert cache.load(str(source), kept) is None
