"""Letters to phones (G2P): how a word is said that no lexicon has, learnt from any lexicon of its language.

A word and its pronunciation are cut together into units of a letter and up to two phones ("f" F, "x" K S, a silent
"e"); units of two letters were tried, and are no better. Which cuts are likely, expectation-maximisation finds. The
words of the lexicon are then sentences of units, of which two n-gram models are estimated (Kneser-Ney), one of them
from right to left. A new word is said as

    p(phones, letters) = sum over its cuts into units u_1 .. u_m of  prod_i p(u_i | u_i-7 .. u_i-1),

searched with a beam; the best pronunciations are scored by both models, and their probabilities are normalised.
"""

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np

from mdi.errors import MdiError, OtherKindError, examples
from mdi.files import read_bytes, writing
from mdi.kernels import g2p as kernels
from mdi.kernels.g2p import Found, Pairs, Spelt, Table, Units
from mdi.kernels.model import ModelArrays
from mdi.lm.counts import MEMORY, CountStream
from mdi.lm.estimate import estimate
from mdi.lm.external import ExternalCounter
from mdi.lm.model import NgramModel
from mdi.lm.text import TextStats
from mdi.lm.trie import Array
from mdi.lm.vocabulary import BOS, EOS, vocabulary
from mdi.speech.lexicon import Pronunciation
from mdi.spoken.sayable import is_of
from mdi.threads import each_in_threads, in_threads

HEADER = "mdi-g2p 1"
ORDER = 8
# unit 0 as a word of the models, after <s> and </s>
FIRST = 2
# the weight of a unit with no phone, one and two before anything is known
PRIOR = np.array([0.02, 1.0, 0.0005])
# how words begin that are none: <unk>, [noise], !SIL
NO_WORDS = tuple("<[({!#")
ROUNDS = 6
# of expectation-maximisation: so many words tell what is likely, and more of those with a letter that so few have
SAMPLE, RARE = 10_000, 20
# units that are expected less often in these are none
LEAST = 0.02
BEAM, WIDTH, CANDIDATES = 24, 8.0, 12
LONGEST_WORD = 100
# words that are said at a time
BLOCK = 64
# a syllable of Korean is written as one sign, of up to three letters
_SYLLABLES = re.compile("[\uac00-\ud7a3]+")
Unit = tuple[str, Pronunciation]


def _letters(word: str) -> str:
    return _SYLLABLES.sub(lambda found: unicodedata.normalize("NFD", found[0]), unicodedata.normalize("NFC", word))


def _numbered(items: Sequence[Sequence[str]]) -> tuple[list[str], Array, Array]:
    """(all symbols, from 1 on; their numbers in the items, one after the other; where each item begins)"""
    names = sorted(set(itertools.chain.from_iterable(items)))
    number = {name: i for i, name in enumerate(names, 1)}
    flat = np.fromiter(map(number.__getitem__, itertools.chain.from_iterable(items)), np.int32)
    return names, flat, np.cumsum([0, *map(len, items)], dtype=np.int64)


def _some(pairs: Pairs, chosen: Array) -> Pairs:
    """A part of the pairs."""

    def part(flat: Array, begin: Array) -> tuple[Array, Array]:
        pieces = [flat[begin[i] : begin[i + 1]] for i in chosen.tolist()]
        return np.concatenate(pieces), np.cumsum([0, *map(len, pieces)], dtype=np.int64)

    return Pairs(*part(pairs.letter, pairs.letter_begin), *part(pairs.phone, pairs.phone_begin))


def _sample(pairs: Pairs) -> Pairs:
    """Pairs that tell what is likely: some, evenly, and all with a letter that is rare in these."""
    n = len(pairs.letter_begin) - 1
    if n <= SAMPLE:
        return pairs
    chosen = np.zeros(n, bool)
    chosen[np.linspace(0, n - 1, SAMPLE).astype(np.int64)] = True
    word_of = np.repeat(np.arange(n), np.diff(pairs.letter_begin))
    seen = np.bincount(pairs.letter[chosen[word_of]], minlength=int(pairs.letter.max()) + 1)
    chosen[word_of[seen[pairs.letter] < RARE]] = True
    return _some(pairs, np.flatnonzero(chosen))


def _likely_units(pairs: Pairs, n_letters: int, n_phones: int) -> Table:
    """Log weights of all units by expectation-maximisation. Units that are hardly ever used get none: words that need
    them are abbreviations and the like, which say nothing about letters."""
    if (n_letters + 1) * (n_phones + 1) ** 2 >= 2**62:
        raise OtherKindError(f"{n_letters:,} letters and {n_phones:,} phones; expected those of one language")
    sample = _sample(pairs)
    bits, done = 14, False
    while not done:
        bits += 2
        table = Table(np.full(1 << bits, kernels.EMPTY), np.zeros(1 << bits), n_phones + 1)
        done = kernels.add_units(sample, PRIOR, table)
    for _ in range(ROUNDS):
        table.weight[:] /= max(table.weight.sum(), 1e-300)
        expected = np.zeros(len(table.key))
        kernels.expect(sample, table, expected)
        table.weight[:] = np.where(expected < LEAST, 0.0, expected) / max(expected.sum(), 1.0)
    with np.errstate(divide="ignore"):
        return table._replace(weight=np.log(table.weight))


@dataclass(frozen=True, eq=False)
class G2p:
    """Units, sorted by their letters, and the words of a lexicon cut into them: cut[begin[i] .. begin[i + 1]] are the
    units of word i."""

    units: list[Unit]
    cut: Array
    begin: Array

    @cached_property
    def letters(self) -> dict[str, int]:
        """Numbers of the letters, from 1 on."""
        return {letter: i for i, letter in enumerate(sorted({letter for letter, _ in self.units}), 1)}

    @cached_property
    def phones(self) -> list[str]:
        """Those that words are said with; [0] is none."""
        return ["", *sorted({phone for _, phones in self.units for phone in phones})]

    def units_model(self, backward: bool) -> NgramModel:
        cut, begin = (self.cut[::-1], len(self.cut) - self.begin[::-1]) if backward else (self.cut, self.begin)
        vocab = vocabulary([BOS, EOS, *map(str, range(len(self.units)))])
        markers = np.tile([vocab.bos, vocab.eos], len(begin) - 1)
        words = np.insert(cut + FIRST, np.repeat(begin, 2)[1:-1], markers)
        with ExternalCounter(ORDER, vocab.bos, MEMORY) as counter:
            counter.add(words, len(vocab))
            found = counter.merge()
            counts = CountStream(vocab, ORDER, found.trie, found.count, found.top, TextStats())
            return estimate(counts, "kn-interpolated", [1] * ORDER).model

    @cached_property
    def costs(self) -> tuple[ModelArrays, ModelArrays]:
        """Of both models, in place of probabilities and weights: kernels only add."""
        forward, backward = in_threads(lambda backward: _costs(self.units_model(backward)), (False, True))
        return forward, backward

    @cached_property
    def by_letters(self) -> Units:
        phone = {name: i for i, name in enumerate(self.phones)}
        letter = np.array([self.letters[letter] for letter, _ in self.units])
        phones = np.zeros((FIRST + len(self.units), 2), np.int32)
        for i, (_, said) in enumerate(self.units, FIRST):
            phones[i, : len(said)] = [phone[x] for x in said]
        return Units(FIRST + np.searchsorted(letter, np.arange(len(self.letters) + 2)), phones)

    def spell(self, word: str) -> Array | None:
        """The numbers of its letters; those that no word of the lexicon has in another case or without an accent, or
        left out, if they are marks. None where that does not help."""
        numbers = []
        for letter in _letters(word):
            known = letter
            if letter not in self.letters:
                forms = (letter.lower(), letter.upper(), _plain(letter.lower()))
                known = next((form for form in forms if form in self.letters), "")
            if known:
                numbers.append(self.letters[known])
            elif not is_of("M", letter):
                return None
        return np.array(numbers, np.int32) if 0 < len(numbers) <= LONGEST_WORD else None

    def pronounce(self, words: Sequence[str], n: int = 3) -> list[list[tuple[Pronunciation, float]]]:
        """The `n` best pronunciations of each word and their probabilities; none for a word that cannot be said."""
        units, (forward, backward) = self.by_letters, self.costs
        said: list[list[tuple[Pronunciation, float]]] = [[] for _ in words]
        none = np.empty(0, np.int32)

        def say(block: range) -> None:
            spelt = [none if (known := self.spell(words[i])) is None else known for i in block]
            begin = np.cumsum([0, *map(len, spelt)], dtype=np.int64)
            size = len(block), CANDIDATES
            found = Found(
                np.empty(len(block), np.int32), np.empty((*size, max(map(len, spelt))), np.int32), np.empty(size)
            )
            kernels.say(Spelt(np.concatenate(spelt), begin), units, forward, backward, BEAM, WIDTH, found)
            for i, letters, count, unit, both in zip(block, spelt, *found, strict=True):
                score = 0.5 * both[:count]  # the geometric mean of both models
                p = np.exp(score - score.max(initial=-np.inf))
                p /= p.sum()
                for k in np.argsort(-p)[:n].tolist():
                    numbers = units.phone[unit[k, : len(letters)]].ravel()
                    phones = tuple(self.phones[x] for x in numbers.tolist() if x)
                    if phones:
                        said[i].append((phones, float(p[k])))

        blocks = [range(first, min(first + BLOCK, len(words))) for first in range(0, len(words), BLOCK)]
        each_in_threads(say, blocks)
        return said

    def save(self, path: str) -> None:
        """A text: the units, then the words of the lexicon as their numbers."""
        with writing(path) as stream:
            stream.write(f"{HEADER}\nunits {len(self.units)}\n".encode())
            stream.writelines(f"{' '.join([letter, *phones])}\n".encode() for letter, phones in self.units)
            stream.write(f"words {len(self.begin) - 1}\n".encode())
            names = np.array([str(i) for i in range(len(self.units))], object)[self.cut]
            for a, b in itertools.pairwise(self.begin.tolist()):
                stream.write(f"{' '.join(names[a:b])}\n".encode())


def _costs(model: NgramModel) -> ModelArrays:
    arrays = model.arrays()
    with np.errstate(divide="ignore"):
        p, bow = (tuple(np.maximum(-np.log(part), 0.0) for part in parts) for parts in (arrays.p, arrays.bow))
    return arrays._replace(p=p, bow=bow)


def _plain(letter: str) -> str:
    """Without accents."""
    return "".join(x for x in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(x))[:1]


def train_g2p(lexicon: Mapping[str, Sequence[Pronunciation]]) -> G2p:
    """Learns how the words of a language are said from those of a lexicon."""
    entries = [
        (word, said)
        for word, all_said in lexicon.items()
        for said in all_said
        if word and said and not word.startswith(NO_WORDS)
    ]
    if not entries:
        raise OtherKindError("no words to learn pronunciations from; expected a lexicon with words of the language")
    letters, letter, letter_begin = _numbered([_letters(word) for word, _ in entries])
    phones, phone, phone_begin = _numbered([said for _, said in entries])
    pairs = Pairs(letter, letter_begin, phone, phone_begin)
    table = _likely_units(pairs, len(letters), len(phones))
    cut, begin = np.empty(len(letter), np.int64), np.zeros(len(entries) + 1, np.int64)
    cut = cut[: kernels.align(pairs, table, cut, begin)]
    if not len(cut):
        some = examples([" ".join((word, *said)) for word, said in entries])
        raise OtherKindError(
            f"none of the pronunciations fits its word: {some}; expected up to two phones for a letter"
        )
    keys, number = np.unique(cut, return_inverse=True)
    units = []
    for key in keys.tolist():
        first, second = divmod(key, table.n_phones)
        of, first = divmod(first, table.n_phones)
        units.append((letters[of - 1], tuple(phones[i - 1] for i in (first, second) if i)))
    begin = np.append(0, begin[1:][np.diff(begin) > 0])
    return G2p(units, number.astype(np.int32), begin)


def load_g2p(path: str) -> G2p:
    """What `G2p.save` has written."""
    data = read_bytes(path)
    if not data.startswith(f"{HEADER}\n".encode()):
        raise MdiError(f"{path}: does not begin with '{HEADER}'; expected a model of mdi g2p train")
    try:
        _, counted, *lines = data.decode().split("\n")
        n = int(counted.removeprefix("units "))
        units = [(letter, tuple(phones)) for letter, *phones in (line.split(" ") for line in lines[:n])]
        rows = lines[n + 1 : -1]
        flat = np.array([int(number) for number in " ".join(rows).split(" ")], np.int64)
        whole = lines[n] == f"words {len(rows)}" and len(set(units)) == n and units == sorted(units, key=itemgetter(0))
        right = all(len(letter) == 1 and len(phones) < 3 and all(phones) for letter, phones in units)
        if not (whole and right and flat.min() >= 0 and flat.max() < len(units)):
            raise ValueError
    except (ValueError, OverflowError, IndexError) as error:
        raise MdiError(f"{path}: is cut off or damaged; make it again: mdi g2p train") from error
    return G2p(units, flat.astype(np.int32), np.cumsum([0, *(row.count(" ") + 1 for row in rows)], dtype=np.int64))
