"""words.txt: Kaldi's table of words and their integers. Files of OpenFst may hold one too."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdi.errors import MdiError, examples
from mdi.files import first_bytes, read_bytes, writing
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight, split_name
from mdi.fst.openfst import Header, Symbols, begins_fst, read_whole_header
from mdi.lm.model import NgramModel, over_vocabulary
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, Vocabulary, read_word_file, to_bytes, vocabulary

EPSILON, DISAMBIGUATION = "<eps>", "#0"
# That a word of a small table may have.
LARGEST_NUMBER = 10_000_000


@dataclass(frozen=True)
class SymbolTable:
    path: str
    ids: dict[str, int]
    name: str = ""  # of a table that lies inside an FST

    @cached_property
    def words(self) -> dict[int, str]:
        return {i: word for word, i in self.ids.items()}

    def spell(self, labels: list[int] | np.ndarray) -> list[str]:
        try:
            return [self.words[int(i)] for i in labels]
        except KeyError as error:
            raise MdiError(
                f"{self.path}: no word has the number {error}; expected the table that the file was made with"
            ) from None

    def require(self, word: str) -> int:
        if word not in self.ids:
            raise MdiError(
                f"{self.path}: no symbol {word}; expected it in Kaldi's words.txt. Make the table with "
                f"utils/prepare_lang.sh"
            )
        return self.ids[word]

    def extended(self, words: Iterable[str]) -> "SymbolTable":
        """The table with the words that it lacks behind its largest number, as Kaldi's utils/lang/extend_lang.sh has
        it: the numbers of old words, of #0, <s> and </s> stay."""
        more = [word for word in dict.fromkeys(words) if word not in self.ids]
        if not more:
            return self
        first = 1 + max(self.ids.values())
        return SymbolTable(self.path, {**self.ids, **{word: first + i for i, word in enumerate(more)}}, self.name)

    def inside(self, weight: GraphWeight = UNWEIGHTED) -> Symbols:
        """The table as it lies in an FST whose costs have this weight."""
        return Symbols(weight.named(self.name), self.ids)

    def lacking(self, words: Collection[str]) -> list[str]:
        """Those without a number."""
        return [word for word, i in zip(words, self._numbers(words), strict=True) if i < 0]

    def labels_of(self, vocab: Vocabulary) -> np.ndarray:
        """The number of each word of a model, -1 where the table lacks it."""
        return np.array(self._numbers(vocab.words), np.int32)

    def _numbers(self, words: Collection[str]) -> list[int]:
        """Whatever two tables call the unknown word, <unk> or <UNK>, it is the same unless one has both."""
        own, other = ([name for name in UNKNOWN if name in named] for named in (self.ids, words))
        same = dict(zip(other, own, strict=True)) if len(own) == len(other) == 1 else {}
        return [self.ids.get(same.get(word, word), -1) for word in words]


def words_of(ids: Mapping[str, int], vocab: Vocabulary, oov: str = "map", where: str = "") -> np.ndarray:
    """The vocabulary's word of each label; <unk> or -1 for others, as `oov` says (map, drop, error)."""
    known = {i: vocab.id(word) for word, i in ids.items()}
    if oov == "error":
        lost = [word for word, i in ids.items() if i and known[i] < 0 and not re.fullmatch(r"#\d+", word)]
        if lost:
            raise MdiError(f"{where}: words outside the vocabulary, such as {examples(lost)}; add, map or drop them")
    word_of = np.full(1 + max(known, default=0), vocab.unk if oov == "map" else -1, np.int32)
    for i, word in known.items():
        if word >= 0:
            word_of[i] = word
    return word_of


def by_label(model: NgramModel, label: np.ndarray, markers_first: bool = False) -> tuple[NgramModel, np.ndarray]:
    """(the model with its words sorted by these labels, their labels): those outside the table (-1) come last, with
    `markers_first` <s> and </s> before all words."""
    key = np.where(label < 0, np.iinfo(np.int64).max, label.astype(np.int64))
    if markers_first:
        key[model.vocab.bos], key[model.vocab.eos] = -2, -1
    order = np.argsort(key, kind="stable")
    if np.array_equal(order, np.arange(len(order))):
        return model, label
    ids = np.empty(len(order), np.int32)
    ids[order] = np.arange(len(order), dtype=np.int32)
    words = model.vocab.words
    return over_vocabulary(model, vocabulary(words[i] for i in order.tolist()), ids), label[order]


def symbols_inside(header: Header, path: str) -> SymbolTable | None:
    """The table that an FST holds, if it does."""
    if header.symbols is None:
        return None
    _check_numbers(header.symbols.keys, path)
    return SymbolTable(path, header.symbols.keys, split_name(header.symbols.name)[0])


def read_symbols(path: str | SymbolTable) -> SymbolTable:
    """Kaldi's words.txt, or the table inside an FST such as Vosk's Gr.fst; a table that is ready is itself."""
    if isinstance(path, SymbolTable):
        return path
    if path != "-" and begins_fst(first_bytes(path)):
        table = symbols_inside(read_whole_header(read_bytes(path), path), path)
        if table is None:
            raise MdiError(f"{path}: the FST holds no symbol table; expected words.txt or an FST with its words")
        return table
    words, numbers = read_word_file(path)
    if numbers is None:
        raise MdiError(
            f"{path}: a list of words without numbers; expected Kaldi's words.txt, a word and its number per line"
        )
    ids = dict(zip(words, numbers, strict=True))
    _check_numbers(ids, path)
    if ids.get(EPSILON) != 0:
        raise MdiError(f"{path}: {EPSILON} is not 0; expected Kaldi's words.txt, which begins with '{EPSILON} 0'")
    return SymbolTable(path, ids)


def write_symbols(symbols: SymbolTable, path: str) -> None:
    """Kaldi's words.txt: a word and its number per line, by number."""
    lines = sorted(symbols.ids.items(), key=lambda item: item[1])
    with writing(path) as stream:
        stream.write(b"".join(to_bytes(f"{word} {i}\n") for word, i in lines))


def _check_numbers(ids: dict[str, int], path: str) -> None:
    """Refuses numbers that no table of so many words has: arrays are as long as the largest."""
    for word, i in ids.items():
        if not 0 <= i <= LARGEST_NUMBER + 100 * len(ids):
            raise MdiError(
                f"{path}: the word '{word}' has the number {i}, in a table of {len(ids):,} words; expected "
                f"numbers from 0 on, with few gaps"
            )


def make_symbols(words: list[str], path: str = "words.txt") -> SymbolTable:
    """A table of words in Kaldi's order, with the symbols that its tools expect."""
    special = {EPSILON, DISAMBIGUATION, BOS, EOS, UNKNOWN[0]}
    names = [EPSILON, *sorted(set(words) - special), UNKNOWN[0], DISAMBIGUATION, BOS, EOS]
    return SymbolTable(path, {word: i for i, word in enumerate(names)})
