"""Saves a model in any form: checked, and with a certificate of what it is.

What is refused would be no model to those who read it: probabilities that do not sum to one, after the rounding of the
file, or marginals of an adaptation that rounding has left without digits. mdi/fst/formats.py knows the forms.
"""

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from mdi.certificate import write_certificate
from mdi.errors import MdiError
from mdi.files import together
from mdi.fst.formats import format_of, reader_of, write_lm
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.normalise import MAX_OUTPUT_GAP, worst_sum
from mdi.lm.trie import Array
from mdi.progress import get_logger

if TYPE_CHECKING:
    from mdi.adaptation.adapted import Adapted
    from mdi.adaptation.tune import Tuned

logger = get_logger(__name__)

# What can be saved.
Saved: TypeAlias = "NgramModel | Adapted | Tuned"


def save(
    model: Saved,
    path: str | os.PathLike[str],
    *,
    words: str | os.PathLike[str] | None = None,
    words_out: str | os.PathLike[str] | None = None,
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
        their own where it is not given. It must have all words of the model.
    words_out
        Where that table is written with the words of the model that it lacks behind its own, such as new words. A table
        inside a file has them in any case.
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
    from mdi.adaptation.adapted import Adapted

    path, started = os.fspath(path), time.monotonic() if started is None else started
    about = {"command": "mdi.save"} if about is None else about
    fields: dict[str, Any] = {}
    if isinstance(model, NgramModel):
        whole, why, kept = model, "", keep
    elif isinstance(model, Adapted):
        fields = checked_fields(model, path)
        whole, why, kept = model.whole, f": {model.solution.message}", model.problem.keep
    elif isinstance(getattr(model, "model", None), NgramModel):
        fields = checked_fields(model.adapted, path)
        whole, why, kept = model.model, "", keep
    else:
        raise MdiError(f"{model!r} is to be saved as {path}; expected a model, or what adapt, match or tune gives")
    fields["ngrams"] = whole.trie.counts if kept is None else [int(part.sum()) for part in kept[1:]]
    fields |= sum_fields(whole, path, format, why, keep)
    fields = {**about, **fields, **(more or {})}
    own = [] if words is None else whole.vocab.unmarked
    with together():
        write_lm(whole, path, format, words, keep=kept, new_words=own, words_out=words_out)
        write_certificate(path, fields, time.monotonic() - started)
    return fields


def sum_fields(
    model: NgramModel, out: str, form: str | None = None, why: str = "", keep: list[Array] | None = None
) -> dict[str, Any]:
    """How far from one the probabilities sum to in the file that will be written, after its digits are rounded; an
    error where that is no model. `keep`: what is written of a model whose trie is closed."""
    form = form or format_of(out)
    gap, where = worst_sum(with_suffixes(model), reader_of(form), keep)
    if not gap <= MAX_OUTPUT_GAP[form == "arpa"]:
        other = "raise --min-counts, use --targets smoothed or --sigma2, or " if why else ""
        raise MdiError(
            f"the model would sum to one only within {gap:.2g} (after {where}){why}. Nothing was written; {other}check "
            f"the input with mdi check"
        )
    return {"worst_sum_gap": gap, "worst_sum_history": where}


def checked_fields(adapted: "Adapted", out: str) -> dict[str, Any]:
    """The certificate's fields of an adaptation; an error where they could not be computed."""
    from mdi.adaptation.problem import MAX_ROUNDING
    from mdi.adaptation.table import certificate

    for reason, number in adapted.problem.dropped.reasons.items():
        logger.info(f"{out}: left out {number:,} constraints, {reason}")
    fields = certificate(adapted)
    if not fields["rounding_error"] <= MAX_ROUNDING:
        raise MdiError(
            f"the marginals are known only within {fields['rounding_error']:.2g}: back-off weights, or the scales that "
            f"such targets ask for, are so large that rounding leaves no digits ({adapted.solution.message}). Nothing "
            f"was written; use --sigma2, raise --min-counts, or prune the background (mdi prune)"
        )
    return fields
