"""Functions of the Python API that take a model or the file of one, where the package below them knows models alone."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from mdi.errors import MdiError
from mdi.files import read_bytes
from mdi.fst.formats import load
from mdi.lm import perplexity as of_models
from mdi.lm.model import NgramModel
from mdi.lm.perplexity import Perplexity, Sentence
from mdi.lm.text import Sentences, TextLike, rereadable, text_sources
from mdi.lm.vocabulary import UNKNOWN, WordsLike, to_str

if TYPE_CHECKING:
    import pandas


def perplexity(
    model: NgramModel | str | os.PathLike[str],
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
        A model, or the file of one in any form that `load` reads.
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
    return of_models.perplexity(_loaded(model), text, oov=oov, words=words, each=each)


def word_table(
    model: NgramModel | str | os.PathLike[str] | Mapping[str, NgramModel | str | os.PathLike[str]],
    text: TextLike,
    *,
    oov: str = "map",
) -> "pandas.DataFrame":
    """Every predicted word of a text, with its probability under one model or under several, side by side.

    Parameters
    ----------
    model
        A model, the file of one, or several by name: `{"own": a, "adapted": b}`.
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
        return of_models.word_table(_loaded(model), text, oov=oov)
    if not model:
        raise MdiError("no models; expected some by name: {'own': a, 'adapted': b}")
    text = rereadable(text)
    tables = {name: of_models.word_table(_loaded(one), text, oov=oov) for name, one in model.items()}
    first, *_, last = [*tables, *tables]
    side_by_side = tables[first][["sentence", "position", "word"]].copy()
    for name, table in tables.items():  # a word that one model lacks is <unk> there, and itself elsewhere
        unknown = side_by_side["word"].isin(UNKNOWN)
        side_by_side.loc[unknown, "word"] = table.loc[unknown, "word"]
        side_by_side[name] = table["p"]
    side_by_side["gain"] = tables[last]["log10_p"] - tables[first]["log10_p"]
    return side_by_side


def as_spoken(
    text: TextLike, known: NgramModel | str | os.PathLike[str] | Iterable[str], *, language: str | None = None
) -> list[str]:
    """Written text as sentences in the words of a model, as `mdi vosk adapt` does it.

    Parameters
    ----------
    text
        A file, sentences or lines of prose (a list or column of strings), or a list of paths.
    known
        A model, the file of one, or a list of words. Text is spelt as these are, as far as they are there.
    language
        A code such as "en": numbers are read out in it. Otherwise in that of the words.

    Returns
    -------
    list of str
        One sentence each. What was there already is left as it is, and so is what cannot be read out.
    """
    from mdi.spoken import Speller, spoken_text

    speller = Speller(load(known) if isinstance(known, str | os.PathLike) else known, language)
    made = [spoken_text(source, speller).text for source in text_sources(text)]
    data = [part.data if isinstance(part, Sentences) else read_bytes(part) for part in made]
    lines = (line for part in data for line in to_str(part.removeprefix(b"\xef\xbb\xbf")).splitlines())
    return [line for line in lines if line.strip()]


def _loaded(model: NgramModel | str | os.PathLike[str]) -> NgramModel:
    return load(model) if isinstance(model, str | os.PathLike) else model
