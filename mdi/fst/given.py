"""What may be given as a model."""

import os
from typing import Any, TypeAlias

from mdi.errors import OptionError
from mdi.fst.formats import load
from mdi.lm.arpa_write import HasModel
from mdi.lm.model import NgramModel

# A model, what adapt, match or tune gives, or the file of one in any form that load reads.
ModelLike: TypeAlias = NgramModel | HasModel | str | os.PathLike[str]


def as_model(model: Any, role: str = "model", words: str | None = None, *, closed: bool = True) -> NgramModel:
    """What is given as one. `role`: of the argument, for errors; `words`, `closed`: as of `load`."""
    if isinstance(model, str | os.PathLike):
        return load(model, words, closed=closed)
    found = getattr(model, "model", model)
    if not isinstance(found, NgramModel):
        raise OptionError(role, model, "a model, what adapt, match or tune gives, or the file of one")
    return found
