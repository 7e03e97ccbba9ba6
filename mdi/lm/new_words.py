"""A model over a larger vocabulary, and how much of it belongs to words that it has never seen.

New words become 1-grams; what they get is taken from <unk>, where the model has one, and from all other words in
proportion. p(w|h) of longer n-grams stays, and back-off weights are computed again so that every history sums to one.
So after h a new word is the likelier, the more mass h leaves to words that were not seen after it.

How likely are they? Of N tokens of the domain's text n are new words, of T types, type i seen c_i times. By Witten and
Bell's estimate over the text's own new words, T / (n + T) of them are still to come, which <unk> keeps if it has more:

    q_i = c_i / (n + T) n / N

is what the domain expects of word i, on average over its histories. A word without longer n-grams has the probability
B(h) p(w) there, B(h) being the product of the back-off weights on the way, so

    p(w_i) = q_i / sum_h p~(h) B(h).

The prior on lambda is centred there: no word is held back for being new.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mdi import room
from mdi.errors import MdiError, OptionError, examples
from mdi.kernels import new_words as kernels
from mdi.lm.counts import Counts, count_text, over_words, unextended
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.shards import Shard, over_shards
from mdi.lm.text import OOV, TextLike
from mdi.lm.trie import NONE, Array, blocks, locate, scattered, with_more_words
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, GrowingVocabulary, Vocabulary, WordsLike, given_words, is_word
from mdi.threads import each_in_threads

# What becomes of words that a background lacks. A number: add those that are seen so often. A list or its file: add
# these. Words that are not added are mapped to <unk>, or dropped where there is none.
CHOICES = ("add", *OOV)
NewWordsLike = int | WordsLike
# An expected count from which on a word counts as seen: what a recogniser hardly believes is not added.
SEEN = 0.5
# New words get at most this mass in all: a text of nothing but new words says nothing about the others.
MOST_MASS = 0.5
# Without an estimate <unk> keeps at least this share of its mass, for words that nobody has seen yet.
KEPT_BY_UNK = 0.5


@dataclass(frozen=True, eq=False)
class NewWords:
    """Words that a model lacks, their probabilities as 1-grams, and that of <unk> beside them (None: see
    `with_words`)."""

    words: list[str]
    p: Array
    unk: float | None = None

    @property
    def mass(self) -> float:
        return float(self.p.sum())

    def added_to(self, model: NgramModel) -> NgramModel:
        return with_words(model, self.words, self.p, self.unk)


def with_words(
    model: NgramModel, words: Sequence[str], probabilities: Sequence[float] | Array, unk: float | None = None
) -> NgramModel:
    """The model over a larger vocabulary: the old words with their ids, then these, with these probabilities as
    1-grams. Every history sums to what it did, one, and none makes a new word impossible.

    The mass comes from <unk>, which keeps the probability `unk` (None: what is left of it, but half at least), and from
    all other words in proportion. After longer histories <unk> loses the same share.
    """
    words, q = list(words), np.array(probabilities, float)
    _check_words(words, q, model.vocab)
    if not words:
        return model
    model = with_suffixes(model)
    vocab, trie, old, mass = model.vocab, model.trie, model.p[1], float(q.sum())
    total, has = float(old.sum()), float(old[model.vocab.unk]) if vocab.unk >= 0 else 0.0
    keeps = max(has - mass, KEPT_BY_UNK * has) if unk is None else min(unk, has)
    rest = total - mass - keeps
    if not rest > 0.0:
        raise MdiError(f"new words have the probability {mass:.3g} in all; expected less than one. Give each less")
    lower = np.concatenate([old * (rest / (total - has)), q])
    if vocab.unk >= 0:
        lower[vocab.unk] = keeps
    p = [NONE, lower, *(room.empty(trie.rows(k), float, 1) for k in range(2, model.order + 1))]
    bow = [model.bow[0], *(room.empty(trie.n_hist(j), float, 1) for j in range(1, model.order))]
    kept = keeps / has if has > 0.0 else 1.0
    over_shards(_make_room, trie, model, kept, mass, p, bow, label="new words")
    if model.order > 1:
        bow[1] = room.shared(np.concatenate([bow[1], np.ones(len(words))]))
    return NgramModel(vocab.extended(words), with_more_words(trie, len(words)), p, bow)


def _make_room(shard: Shard, model: NgramModel, kept: float, mass: float, p: list[Array], bow: list[Array]) -> None:
    trie = model.trie

    def work(k: int, block: tuple[int, int]) -> None:
        rows, level = model.level_block(k, *block)
        kernels.make_room(level, p[k - 1], model.vocab.unk, kept, mass, p[k][rows], bow[k - 1][slice(*block)])

    for k in range(2, trie.order + 1):
        each_in_threads(partial(work, k), blocks(trie.begin[k], *trie.hists_ending_in(k - 1, shard)))


def _check_words(words: list[str], q: Array, vocab: Vocabulary) -> None:
    if len(words) != len(q):
        raise MdiError(f"{len(words):,} new words and {len(q):,} probabilities; expected one for each")
    if odd := [word for word in words if not may_be_added(word)]:
        raise MdiError(f"new words {examples(odd)}; expected words, without blanks in them, and no symbols like <s>")
    if known := [word for word in words if vocab.id(word) >= 0]:
        raise MdiError(f"new words that the model has: {examples(known)}; expected words that it lacks")
    if not ((q > 0.0) & (q < 1.0)).all():
        raise MdiError("probabilities of new words; expected numbers between 0 and 1")


def may_be_added(word: str) -> bool:
    """Symbols are no words: whatever a text calls <s>, <unk> or #0."""
    return is_word(word) and word not in (BOS, EOS, *UNKNOWN) and not re.search(r"^<eps>$|^#\d+$", word)


def count_with_new_words(text: TextLike | Counts, vocab: Vocabulary, order: int, new_words: NewWordsLike) -> Counts:
    """Counts of a text over a vocabulary and, behind its words, those that are to be added to it."""
    new_words = as_new_words(new_words)
    if isinstance(new_words, str) and new_words != "add" and not isinstance(text, Counts):
        return count_text(text, vocab, order, new_words)
    counts = text if isinstance(text, Counts) else count_text(text, GrowingVocabulary(vocab), order)
    return over_new_words(counts, vocab, new_words)


def as_new_words(new_words: NewWordsLike, choices: Sequence[str] = CHOICES) -> str | int | list[str]:
    """One of the choices, a least count, or a list of words."""
    if isinstance(new_words, str) and new_words.isdecimal() and len(new_words) < 10:
        new_words = int(new_words)
    if isinstance(new_words, int):
        if new_words < 1:
            raise OptionError("new_words", new_words, "1 or more: how often a word must be seen to be added")
        return new_words
    if isinstance(new_words, str) and new_words in choices:
        return new_words
    if not (os.path.exists(new_words) if isinstance(new_words, str | os.PathLike) else isinstance(new_words, Iterable)):
        raise OptionError("new_words", new_words, f"{', '.join(choices)}, a number, or a file with words to add")
    return given_words("new_words", new_words)


def over_new_words(
    counts: Counts, vocab: Vocabulary, new_words: NewWordsLike, may: Callable[[str], bool] = may_be_added
) -> Counts:
    """The counts over the words of `vocab` and those of their own that `may` be added, or of the list, that `new_words`
    adds to them."""
    new_words = as_new_words(new_words)
    if counts.vocab.same_words(vocab) and isinstance(new_words, str | int):
        return counts
    if isinstance(new_words, str) and new_words != "add":
        return over_words(counts, vocab, new_words)
    wanted = new_words
    if not isinstance(wanted, list):
        seen = counts.count[1] >= (wanted if isinstance(wanted, int) else SEEN)
        wanted = [word for word, enough in zip(counts.vocab.words, seen.tolist(), strict=True) if enough and may(word)]
    chosen = [word for word in dict.fromkeys(wanted) if may_be_added(word) and vocab.id(word) < 0]
    return over_words(counts, vocab.extended(chosen) if chosen else vocab, "map")


def estimated(counts: Counts, model: NgramModel) -> NewWords | None:
    """The words that the counts (see `over_new_words`) have beyond the model's, and how likely they are: see the
    module. Words of a list that the text lacks share what is left for new words, but get no more than one that was seen
    once."""
    first = len(model.vocab)
    if len(counts.vocab) == first:
        return None
    count, unk = counts.count[1][first:], model.vocab.unk
    events = max(1.0, float(counts.count[1].sum()) - float(counts.count[1][counts.vocab.bos]))
    seen = count > 0
    n, types = max(1.0, float(count.sum())), max(1, int(seen.sum()))
    to_come = types / (n + types)
    q = count / (n + types)
    if rest := int((~seen).sum()):
        q[~seen] = min(1.0 / (n + types), to_come / rest)
    q *= n / events / _backing_off(counts, model)
    q *= min(1.0, MOST_MASS / q.sum())
    mapped = float(counts.count[1][unk]) if unk >= 0 else 0.0
    return NewWords(counts.vocab.words[first:], q, (to_come * n + mapped) / events)


def _backing_off(counts: Counts, model: NgramModel) -> float:
    """sum_h p~(h) B(h): what p(w|h) is of p(w), on average over the histories of the counts, where no n-gram ends in
    w."""
    trie, wide = counts.trie, with_more_words(model.trie, len(counts.vocab) - len(model.vocab))
    where, left = locate(trie, wide), unextended(counts)
    factor, total, events = np.ones(1), 0.0, 0.0
    for k in range(1, counts.order + 1):
        j = k - 1
        if j:
            factor = factor[trie.back[j]]
        if 0 < j < model.order:
            row = scattered(where[j], trie.as_hist[j])
            known = np.flatnonzero(row >= 0)
            hist = wide.as_hist[j][row[known]]
            own = hist < len(model.bow[j])  # not those of new words
            factor[known[own]] *= model.bow[j][hist[own]]
        weight = np.maximum(left[k], 0.0)
        total += float(weight @ factor[trie.hist_of_rows(k)])
        events += float(weight.sum())
    return total / events if total > 0.0 else 1.0
