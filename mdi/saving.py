"""Saves a model in any form: checked, and with a certificate of what it is.

What is refused would be no model to those who read it: probabilities that do not sum to one, after the rounding of the
file, or marginals of an adaptation that rounding has left without digits. mdi/fst/formats.py knows the forms.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from mdi.certificate import write_certificate
from mdi.errors import MdiError
from mdi.files import together
from mdi.fst.formats import format_of, reader_of, write_lm
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.normalise import MAX_OUTPUT_GAP, worst_sum
from mdi.lm.trie import Array

if TYPE_CHECKING:
    from mdi.adaptation.adapted import Adapted
    from mdi.adaptation.tune import Tuned
    from mdi.lm.sharded import ShardedModel

logger = logging.getLogger(__name__)

# What can be saved.
Saved: TypeAlias = "NgramModel | Adapted | Tuned | ShardedModel"


def save(
    model: Saved,
    path: str | os.PathLike,
    *,
    words: str | os.PathLike | None = None,
    format: str | None = None,
    about: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    keep: list[Array] | None = None,
    started: float | None = None,
) -> dict[str, Any]:
    """Checks a model, writes it in the form that the name says, and a certificate, PATH.json, beside it.

    Both files appear at once and whole, or neither does, and what was there before stays until then.

    Parameters
    ----------
    model
        A model, or what `adapt`, `match` or `tune` gives: then the certificate says how well marginals are met.
    path
        *.carpa, Gr.fst or *.ngram.fst, *.fst, *.mod or *.opengrm.fst, and ARPA otherwise; .gz packs any of them. "-" is
        standard output, which has no certificate.
    words
        Kaldi's words.txt, or an FST that holds its table: the numbers of words. G.carpa needs it; FSTs hold a table of
        their own where it is not given.
    format
        "arpa", "fst", "opengrm", "ngram" or "carpa" instead of what the name says.
    about, more
        What else the certificate is to say: at its beginning, such as where the model comes from, and at its end.
    keep
        Flags by order of the rows to be written, where not all are; the others must be what backing off gives.
    started
        When the work on the model began (`time.monotonic`): the certificate says how long it took.

    Returns
    -------
    dict
        What the certificate says of the model.

    Raises
    ------
    MdiError
        Where the file would hold no model, or cannot be written. Nothing is written then.

    See Also
    --------
    load : reads what was written.
    write_arpa : writes ARPA alone, as it is, without a check or a certificate.
    """
    from mdi.lm.sharded import ShardedModel

    path, started = os.fspath(path), time.monotonic() if started is None else started
    form = format or format_of(path)
    fields, adapted = _result_fields(model, path)
    about = {"command": "mdi.save"} if about is None else dict(about)
    why = f": {adapted.solution.message}" if adapted is model else ""
    if isinstance(sharded := getattr(model, "sharded", model), ShardedModel):
        if form != "arpa":
            raise MdiError(f"{path}: a model in shards is written as ARPA; expected that, then mdi convert")
        worst = adapted.worst_sum() if adapted is not None else sharded.worst_sum()
        return save_checked(path, form, worst, sharded.write, {**about, **fields}, more, started, why)
    found: Any = model
    whole = model if isinstance(model, NgramModel) else found.whole if adapted is model else found.model
    sums = worst_sum(with_suffixes(whole), reader_of(form), keep)
    kept = adapted.problem.keep if adapted is model else keep

    def write(path: str) -> list[int]:
        write_lm(whole, path, form, words, keep=kept)
        return whole.trie.counts if kept is None else [int(part.sum()) for part in kept[1:]]

    return save_checked(path, form, sums, write, {**about, **fields}, more, started, why)


def _result_fields(model: Saved, path: str) -> tuple[dict[str, Any], Adapted | None]:
    """What there is to say of an adaptation, and the adaptation, if it is one or holds one."""
    if isinstance(model, NgramModel):
        return {}, None
    from mdi.adaptation.adapted import Adapted

    adapted = model if isinstance(model, Adapted) else getattr(model, "adapted", None)
    if isinstance(adapted, Adapted):
        return checked_fields(adapted, path), adapted
    if not isinstance(getattr(model, "model", None), NgramModel) and not hasattr(model, "write"):
        raise MdiError(f"{model!r} is to be saved as {path}; expected a model, or what adapt, match or tune gives")
    return {}, None


def save_checked(
    path: str,
    form: str,
    worst: tuple[float, str],
    write: Callable[[str], list[int]],
    fields: dict[str, Any],
    more: Mapping[str, Any] | None,
    started: float,
    why: str = "",
) -> dict[str, Any]:
    """What `save` does once it is known how far from one the file would sum to, and after which history. `write`
    returns the number of n-grams by order."""
    fields = {**fields, "ngrams": None, **gap_fields(worst, form, why), **(more or {})}
    with together():
        fields["ngrams"] = write(path)
        write_certificate(path, fields, time.monotonic() - started)
    return fields


def sum_fields(
    model: NgramModel, out: str, form: str | None = None, why: str = "", keep: list[Array] | None = None
) -> dict[str, Any]:
    """How far from one the probabilities sum to in the file that will be written, after its digits are rounded; an
    error where that is no model. `keep`: what is written of a model whose trie is closed."""
    form = form or format_of(out)
    return gap_fields(worst_sum(with_suffixes(model), reader_of(form), keep), form, why)


def gap_fields(worst: tuple[float, str], form: str, why: str = "") -> dict[str, Any]:
    """The same where the largest gap, and the history that has it, are known."""
    gap, where = worst
    if not gap <= MAX_OUTPUT_GAP[form == "arpa"]:
        other = "raise --min-counts, use --targets smoothed or --sigma2, or " if why else ""
        raise MdiError(
            f"the model would sum to one only within {gap:.2g} (after {where}){why}. Nothing was written; {other}look "
            f"the input over with mdi check"
        )
    return {"worst_sum_gap": gap, "worst_sum_history": where}


def checked_fields(adapted: Adapted, out: str) -> dict[str, Any]:
    """The certificate's fields of an adaptation; an error where they could not be computed."""
    from mdi.adaptation.problem import MAX_ROUNDING
    from mdi.adaptation.table import certificate

    for reason, number in adapted.problem.dropped.reasons.items():
        logger.info(f"{out}: dropped {number:,} constraints, {reason}")
    fields = certificate(adapted)
    if not fields["rounding_error"] <= MAX_ROUNDING:
        raise MdiError(
            f"the marginals are known only within {fields['rounding_error']:.2g}: back-off weights, or the scales that "
            f"such targets ask for, are so large that rounding leaves no digits ({adapted.solution.message}). Nothing "
            f"was written; use --sigma2, raise --min-counts, or prune the background (mdi prune)"
        )
    return fields
