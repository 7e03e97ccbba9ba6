"""MDI adaptation of n-gram language models.

Adapt a background model to in-domain text, and save it with a certificate of what it is:

    import mdi
    adapted = mdi.adapt("background.arpa.gz", "in-domain.txt")
    mdi.save(adapted, "adapted.arpa.gz")

Everything below runs as it stands. A model of general text, made on the spot:

>>> import mdi
>>> general = ["the cat sat on the mat", "the dog sat on the cat", "a dog saw the cat", "the cat saw a dog"] * 20
>>> background = mdi.train(general, order=2)
>>> background
<NgramModel of order 2: 11 / 17 n-grams>
>>> "cat" in background, "zebra" in background
(True, False)

In the domain, dogs are what people talk about:

>>> in_domain = ["the dog sat on the mat", "the dog saw a dog", "a dog sat on the dog"] * 10
>>> adapted = mdi.adapt(background, in_domain)
>>> round(background.prob("dog", "the"), 2), round(adapted.model.prob("dog", "the"), 2)
(0.15, 0.7)
>>> print(adapted.moved(3)[["ngram", "before", "after"]].round(3).to_string(index=False))
  ngram  before  after
    dog   0.130  0.243
the dog   0.031  0.139
      a   0.061  0.095

Perplexity, per text and per word; mixing with weights from development text; the best of a search:

>>> dev = ["the dog sat on a dog", "a dog saw the mat"]
>>> [round(mdi.perplexity(model, dev).ppl, 2) for model in (background, adapted.model)]
[3.43, 3.19]
>>> in_domain_lm = mdi.train(in_domain, order=2, vocab=background.vocab)
>>> mixed = mdi.mix([in_domain_lm, background], mdi.best_weights([in_domain_lm, background], dev))
>>> tuned = mdi.tune(background, in_domain, dev, max_settings=6)
>>> tuned.development.ppl <= mdi.perplexity(mixed, dev).ppl
True

Models are saved in the form that the name says, and read back whatever it is. What is saved is checked: a model that is
none is refused, and a certificate beside the file says what it is.

>>> import json, pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> for name in ("adapted.arpa.gz", "Gr.fst"):
...     about = mdi.save(adapted, folder / name)
>>> json.loads((folder / "Gr.fst.json").read_text())["constraints"]
20
>>> round(mdi.perplexity(folder / "Gr.fst", dev).ppl, 2)
3.19
>>> round(mdi.load(folder / "adapted.arpa.gz").prob("dog", "the"), 2)
0.7

Choices that make no sense are refused:

>>> mdi.adapt(background, in_domain, targets="smothed")
Traceback (most recent call last):
mdi.errors.OptionError: targets='smothed'; expected ml or smoothed
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.6.0"

if TYPE_CHECKING:  # for type checkers and editors; at run time see __getattr__
    from mdi.adaptation.adapter import Adapter as Adapter
    from mdi.adaptation.adapter import adapt as adapt
    from mdi.adaptation.delta import Delta as Delta
    from mdi.adaptation.delta import apply_delta as apply_delta
    from mdi.adaptation.delta import read_delta as read_delta
    from mdi.adaptation.delta import write_delta as write_delta
    from mdi.adaptation.match import match as match
    from mdi.adaptation.solver import SolverSettings as SolverSettings
    from mdi.adaptation.table import sweep_table as sweep_table
    from mdi.adaptation.tune import tune as tune
    from mdi.errors import ConvergenceWarning as ConvergenceWarning
    from mdi.errors import MdiError as MdiError
    from mdi.from_files import as_spoken as as_spoken
    from mdi.from_files import best_weights as best_weights
    from mdi.from_files import check as check
    from mdi.from_files import mix as mix
    from mdi.from_files import perplexity as perplexity
    from mdi.from_files import prune as prune
    from mdi.from_files import word_table as word_table
    from mdi.fst.formats import load as load
    from mdi.lm.arpa import read_arpa as read_arpa
    from mdi.lm.arpa import write_arpa as write_arpa
    from mdi.lm.counts import Counts as Counts
    from mdi.lm.counts import count_text as count_text
    from mdi.lm.model import NgramModel as NgramModel
    from mdi.lm.train import train as train
    from mdi.plotting import plot as plot
    from mdi.saving import save as save
    from mdi.speech.expected_counts import expected_counts as expected_counts
    from mdi.speech.rescore import rescore as rescore

_NAMES_IN = {
    "adaptation.adapter": "Adapter adapt",
    "adaptation.delta": "Delta apply_delta read_delta write_delta",
    "adaptation.match": "match",
    "adaptation.solver": "SolverSettings",
    "adaptation.table": "sweep_table",
    "adaptation.tune": "tune",
    "errors": "ConvergenceWarning MdiError",
    "from_files": "as_spoken best_weights check mix perplexity prune word_table",
    "fst.formats": "load",
    "lm.arpa": "read_arpa write_arpa",
    "lm.counts": "Counts count_text",
    "lm.model": "NgramModel",
    "lm.train": "train",
    "plotting": "plot",
    "saving": "save",
    "speech.expected_counts": "expected_counts",
    "speech.rescore": "rescore",
}
_MODULE_OF = {name: f"mdi.{module}" for module, names in _NAMES_IN.items() for name in names.split()}
__all__ = [*_MODULE_OF, "__version__"]


def __getattr__(name: str) -> object:
    """Imports on first use: `mdi --help` need not wait for the compiler."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'mdi' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
