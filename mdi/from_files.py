"""Functions of the Python API that take a model or the file of one, where the package below them knows models alone."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdi.errors import MdiError, OptionError, check_whole
from mdi.files import read_bytes
from mdi.fst.given import ModelLike, as_model
from mdi.fst.symbols import read_symbols
from mdi.lm import check as of_checks
from mdi.lm import mix as of_mixtures
from mdi.lm import perplexity as of_models
from mdi.lm.check import Finding
from mdi.lm.mix import em_weights, impossible_tokens, over_one_vocabulary, predicted_probs
from mdi.lm.model import NgramModel, without
from mdi.lm.perplexity import Perplexity, Sentence
from mdi.lm.prune import mark_pruned, needs, threshold_for
from mdi.lm.text import Sentences, Text, TextLike, rereadable, text_sources
from mdi.lm.trie import Array
from mdi.lm.vocabulary import UNKNOWN, WordsLike, given_words, to_str

if TYPE_CHECKING:
    import pandas


def perplexity(
    model: ModelLike,
    text: TextLike,
    *,
    oov: str = "map",
    words: WordsLike | None = None,
    each: Callable[[Sentence], None] | None = None,
) -> Perplexity:
    """Perplexity of a text under a model.

    Parameters
    ----------
    model
        A model, what `adapt`, `match` or `tune` gives, or the file of one in any form that `load` reads.
    text
        A file, sentences (a list or column of strings), or a list of paths.
    oov
        Words outside the vocabulary are scored as <unk> where the model has one ("map"), skipped ("drop"), or an error
        ("error").
    words
        Words, or the file of a list, whose perplexity is wanted by itself, too: `.ppl_listed` of `.listed` tokens.
    each
        Called with every sentence.

    Returns
    -------
    Perplexity
        `.ppl` and `.ppl1` as SRILM has them, `.ppl_without_oov` as KenLM has it, and what they were computed from.
    """
    return of_models.perplexity(as_model(model), text, oov=oov, words=words, each=each)


def word_table(model: ModelLike | Mapping[str, ModelLike], text: TextLike, *, oov: str = "map") -> "pandas.DataFrame":
    """Every predicted word of a text, with its probability under one model or under several, side by side.

    Parameters
    ----------
    model
        As of `perplexity`, or several by name: `{"own": a, "adapted": b}`.
    text, oov
        As of `perplexity`.

    Returns
    -------
    pandas.DataFrame
        Sentence (from 0), position in it, word, order of the n-gram that gave its probability (0: outside the
        vocabulary, and skipped), probability, log10 of it. Of several models: sentence, position, word, the probability
        under each model, and `gain`, log10 of the last one's over the first one's.
    """
    if not isinstance(model, Mapping):
        return of_models.word_table(as_model(model), text, oov=oov)
    if not model:
        raise MdiError("no models; expected some by name: {'own': a, 'adapted': b}")
    text = rereadable(text)
    tables = {name: of_models.word_table(as_model(one), text, oov=oov) for name, one in model.items()}
    first, *_, last = [*tables, *tables]
    side_by_side = tables[first][["sentence", "position", "word"]].copy()
    for name, table in tables.items():  # a word that one model lacks is <unk> there, and itself elsewhere
        unknown = side_by_side["word"].isin(UNKNOWN)
        side_by_side.loc[unknown, "word"] = table.loc[unknown, "word"]
        side_by_side[name] = table["p"]
    side_by_side["gain"] = tables[last]["log10_p"] - tables[first]["log10_p"]
    return side_by_side


def as_spoken(text: TextLike, known: ModelLike | Iterable[str], *, language: str | None = None) -> list[str]:
    """Written text as sentences in the words of a model, as `mdi vosk adapt` does it.

    Parameters
    ----------
    text
        A file, sentences or lines of prose (a list or column of strings), or a list of paths.
    known
        A model as of `perplexity`, or a list of words. Text is spelt as these are, as far as they are there.
    language
        A code such as "en": numbers are read out in it. Otherwise in that of the words.

    Returns
    -------
    list of str
        One sentence each. What was there already is left as it is, and so is what cannot be read out.
    """
    from mdi.spoken import Speller, spoken_text

    listed = isinstance(known, Iterable) and not isinstance(known, str)
    speller = Speller(given_words("known", known) if listed else as_model(known, "known"), language)
    made = [spoken_text(source, speller).text for source in text_sources(text)]
    data = [part.data if isinstance(part, Sentences) else read_bytes(part) for part in made]
    lines = (line for part in data for line in to_str(part.removeprefix(b"\xef\xbb\xbf")).splitlines())
    return [line for line in lines if line.strip()]


def check(model: ModelLike, words: WordsLike | None = None) -> list[Finding]:
    """What is right and wrong with a model.

    Parameters
    ----------
    model
        A model, best read with its own n-grams only (`load(path, closed=False)`), or its file, which is read so; what
        `adapt`, `match` or `tune` gives.
    words
        Kaldi's words.txt, or the words of it, to look for what its tools would stumble on.

    Returns
    -------
    list of Finding
        Each has a `level`, "ok", "warning" or "error", and a `text`.
    """
    if isinstance(words, str | os.PathLike):
        words = list(read_symbols(os.fspath(words)).ids)
    return of_checks.check(as_model(model, closed=False), words)


def mix(models: Sequence[ModelLike], weights: Sequence[float] | Array) -> NgramModel:
    """The interpolated model, with the n-grams of all: p = sum of weight_i p_i.

    Parameters
    ----------
    models
        Models, what `adapt`, `match` or `tune` gives, or files, over any vocabularies: a word that a model does not
        know has probability 0 in it.
    weights
        One for each, which sum to one: `best_weights` finds good ones.

    Returns
    -------
    NgramModel
        Its trie is closed if theirs are.
    """
    return of_mixtures.mix(_as_models(models), weights)


def best_weights(models: Sequence[ModelLike], text: TextLike) -> Array:
    """The weights under which a development text is most likely in the mixture of the models.

    Parameters
    ----------
    models
        Those to be mixed, as of `mix`.
    text
        A file, sentences (a list or column of strings), or a list of paths.

    Returns
    -------
    numpy.ndarray
        One weight for each model, for `mix`.
    """
    aligned = over_one_vocabulary(_as_models(models))
    ids = np.concatenate(list(Text(text, aligned[0].vocab)))
    probs = predicted_probs(aligned, ids)
    impossible_tokens(aligned[0].vocab, ids, probs)
    return em_weights(probs)


def prune(
    model: ModelLike, threshold: float = 1e-8, *, max_ngrams: int | None = None, need: list[Array] | None = None
) -> NgramModel:
    """The model without the n-grams that it needs least.

    Parameters
    ----------
    model
        A model, which stays as it is, what `adapt`, `match` or `tune` gives, or a file.
    threshold
        N-grams go whose loss raises the perplexity by a smaller share, as in SRILM's `ngram -prune`; 0 keeps all.
    max_ngrams
        The smallest threshold that leaves at most so many instead.
    need
        What `needs` gives, to save computing it again.

    Returns
    -------
    NgramModel
        Its trie holds just the n-grams that stay, and lacks suffixes in general.
    """
    model = as_model(model, closed=False)
    if max_ngrams is not None:
        check_whole("max_ngrams", max_ngrams, 1)
        need = needs(model) if need is None else need
        threshold = threshold_for(need, max_ngrams)
    own = NgramModel(model.vocab, model.trie, [part.copy() for part in model.p], list(model.bow))
    return without(*mark_pruned(own, threshold, need=need))


def _as_models(models: Sequence[ModelLike]) -> list[NgramModel]:
    given = list(models) if isinstance(models, Iterable) and not isinstance(models, str) else [models]
    if not given:
        raise OptionError("models", models, "at least one model")
    return [as_model(model, "models", closed=False) for model in given]
