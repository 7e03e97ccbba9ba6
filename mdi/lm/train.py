"""Text to a back-off model: counting and estimation in one call."""

from mdi.errors import OptionError, check_whole
from mdi.lm.counts import MEMORY, Counts, VocabularyLike, as_vocabulary, stream_text
from mdi.lm.estimate import estimate
from mdi.lm.model import NgramModel
from mdi.lm.text import TextLike
from mdi.lm.thresholds import Thresholds, parse_thresholds
from mdi.lm.trie import MAX_ORDER


def train(
    text: TextLike | Counts,
    order: int = 3,
    *,
    vocab: VocabularyLike = None,
    smoothing: str = "kn",
    min_counts: Thresholds | None = None,
    oov: str = "map",
    memory: int = MEMORY,
) -> NgramModel:
    """A model of a text, as SRILM's ngram-count and KenLM's lmplz estimate it.

    Parameters
    ----------
    text
        A file, sentences (a list or column of strings), a list of paths, or counts.
    order
        Of the model; counts have their own.
    vocab
        A model, whose words are taken, or its `.vocab`; a word list or its file; None takes every word.
    smoothing
        "kn" (modified Kneser-Ney, back-off form), "kn-interpolated" or "wb" (Witten-Bell).
    min_counts
        N-grams seen less often keep no probability of their own (1-1-2).
    oov
        Words outside `vocab` become <unk> ("map"), break n-grams and leave a model without <unk> ("drop"), or are an
        error ("error").
    memory
        Bytes for counting; what does not fit goes to disk meanwhile.

    Returns
    -------
    NgramModel
    """
    if isinstance(text, Counts):
        if vocab is not None:
            raise OptionError("vocab", vocab, "none, as counts have their vocabulary")
        order = text.order
    check_whole("order", order, 1, MAX_ORDER)
    least = None if min_counts is None else parse_thresholds(min_counts, order)
    if isinstance(text, Counts):
        return estimate(text, smoothing, least).model
    with stream_text(text, as_vocabulary(vocab, oov), order, oov, memory) as counts:
        return estimate(counts, smoothing, least).model
