"""MDI adaptation of n-gram language models.

from mdi import read_arpa, adapt, write_arpa
adapted = adapt(read_arpa("bg.arpa.gz"), "in-domain.txt", min_counts="5-3-2")
write_arpa(adapted.model, "adapted.arpa.gz")
"""

from __future__ import annotations

import importlib

_HOME = {
    "read_arpa": "mdi.lm.arpa",
    "write_arpa": "mdi.lm.arpa",
    "adapt": "mdi.adaptation.adapter",
    "perplexity": "mdi.lm.perplexity",
    "MdiError": "mdi.errors",
}
__all__ = list(_HOME)


def __getattr__(name: str):
    """Imports on first use: `mdi --help` need not wait for the compiler."""
    if name not in _HOME:
        raise AttributeError(f"module 'mdi' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
