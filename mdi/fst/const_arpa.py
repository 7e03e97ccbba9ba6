"""Kaldi's G.carpa (ConstArpaLm), which rescores lattices: byte for byte what arpa-to-const-arpa makes of a model.

A file of Kaldi's binary kind: tokens end in a blank, integers have their size in bytes before them.

    "\\0B<ConstArpaLm> <LmInfo> "  int32 labels of <s>, </s> and the unknown word (-1: none), int32 order  "</LmInfo> "
    "<LmStates> "    int64 number of words of 4 bytes, and these  "</LmStates> "
    "<LmUnigram> "   int32 number of labels (the largest + 1), for each an int64: 1 + address of its entry, or 0
    "</LmUnigram> <LmOverflow> "  int32 number, and so many int64: 1 + address  "</LmOverflow> </ConstArpaLm> "

An entry is an n-gram: float32 ln p, float32 ln bow, int32 number of n-grams that go on from it, and for each of these
its last word's label, ascending, and an int32: where it has an entry, 2 x how far behind this one + 1, or, if that is
over 2^30 - 1, -(2 x its place in the overflow list + 1); where it has none, the bits of its ln p with the last one 0.
Words have entries; n-grams of the highest order have none, nor those that nothing follows and whose weight is 1.
Entries are sorted as words are in a dictionary: "a", "a b", "a b c", "a c", "b".

There are no words in it, only labels: whoever reads it needs the words.txt that it was made with.
"""

import math
import struct
from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError
from mdi.files import writing
from mdi.fst.backoff_fst import LEAST_BACK_COST, LEAST_COST, MAX_ORDER
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight
from mdi.fst.kaldi_binary import KaldiReader
from mdi.fst.symbols import SymbolTable, by_label
from mdi.kernels import const_arpa as kernels
from mdi.kernels.backoff_fst import exponentials
from mdi.lm.model import NgramModel, without
from mdi.lm.trie import NONE, Array, add_order, padded, scattered, unigram_trie, with_histories
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN, vocabulary
from mdi.progress import get_logger

logger = get_logger(__name__)

MAGIC = b"\0B<ConstArpaLm> "
# The file of Kaldi before 2015 has neither tokens nor the right size of large models.
_OLD_MAGIC = b"\0B\4"
_MOST_OFFSET = (1 << 30) - 1
_WRONG = {
    kernels.BAD_ADDRESS: "an n-gram's entry is not in the file",
    kernels.BAD_WORD: "the words after a history are out of order or unknown",
    kernels.TOO_MANY: "more n-grams than it has room for",
    kernels.TOO_DEEP: "n-grams go on beyond the highest order",
}


def begins_const_arpa(data: bytes) -> bool:
    return data.startswith((MAGIC, _OLD_MAGIC))


def _log(values: Array) -> Array:
    """ln as Kaldi has it: the log10 of an ARPA file in 32 bits, times ln 10, in 32 bits again."""
    with np.errstate(divide="ignore"):
        log10 = np.maximum(np.log10(values), -99.0).astype(np.float32)
    return (log10.astype(np.float64) * math.log(10.0)).astype(np.float32)


@dataclass(frozen=True)
class ConstArpa:
    """What is in a file; see the module. `address` counts words of 4 bytes from the first."""

    bos: int
    eos: int
    unknown: int
    order: int
    states: Array  # int32: the entries
    unigrams: Array  # int64, by label: 1 + address of its entry, 0 without one
    overflow: Array  # int64: 1 + address
    dropped: int = 0  # n-grams that a model has and this has not, because a word is not in the table


def const_arpa(
    model: NgramModel, symbols: SymbolTable, unknown: int | None = None, most_offset: int = _MOST_OFFSET
) -> ConstArpa:
    """A model as Kaldi has it; n-grams with a word outside the table are left out. `unknown` is the label that scores
    words which the model lacks; without it that of the model's own unknown word."""
    label, bos, eos = _labels(model, symbols)
    model, label, dropped = _of_the_table(*by_label(model, label))
    if unknown is None:
        unknown = int(label[model.vocab.unk]) if model.vocab.unk >= 0 else -1
    trie, order, there = model.trie, model.order, label >= 0
    log_p, log_bow = [_log(p) for p in model.p], [_log(bow) for bow in model.bow]
    n_entries = int(there.sum())
    for k in range(2, order):
        n_entries += int(((np.diff(trie.begin[k + 1]) > 0) | (log_bow[k] != 0)).sum())
    states = np.empty(3 * n_entries + 2 * sum(trie.counts[1:]), np.int32)
    address = np.zeros(trie.n_words, np.int64)
    written = kernels.Written(order, trie.arrays(), padded(log_p), padded(log_bow), label)
    place, far = kernels.put_entries(written, most_offset, states, address)
    in_file = np.argsort(place)
    states[place[in_file]] = -(2 * np.arange(len(place), dtype=np.int32) + 1)
    unigrams = np.zeros(int(label.max(initial=0)) + 1, np.int64)
    unigrams[label[there]] = address[there] + 1
    return ConstArpa(bos, eos, unknown, order, states, unigrams, far[in_file] + 1, dropped)


def _labels(model: NgramModel, symbols: SymbolTable) -> tuple[Array, int, int]:
    """(label of each word, that of <s>, that of </s>). Where the table lacks these two, or has one number for both,
    they get the next free ones: nothing else refers to them."""
    vocab = model.vocab
    label = symbols.labels_of(vocab)
    bos, eos = int(label[vocab.bos]), int(label[vocab.eos])
    if min(bos, eos) < 0 or bos == eos:
        bos = max(symbols.ids.values(), default=0) + 1
        eos = bos + 1
        logger.info(f"{symbols.path}: no numbers of their own for {BOS} and {EOS}; {bos} and {eos} are taken")
        label[vocab.bos], label[vocab.eos] = bos, eos
    return label, bos, eos


def _of_the_table(model: NgramModel, label: Array) -> tuple[NgramModel, Array, int]:
    """The model without n-grams that have a word outside the table, and how many that were. The words themselves stay,
    without a label."""
    known = label >= 0
    if known.all():
        return model, label, 0
    trie = model.trie
    keep = [np.ones(1, bool), np.ones(trie.n_words, bool)]
    dropped, here = int((~known).sum()), known
    for k in range(2, trie.order + 1):
        here = np.repeat(here[trie.row_of_hist[k - 1]], np.diff(trie.begin[k])) & known[trie.word[k]]
        keep.append(here)
        dropped += int((~here).sum())
    return without(model, keep), label, dropped


def write_const_arpa(lm: ConstArpa, path: str) -> None:
    info = (lm.bos, lm.eos, lm.unknown, lm.order)
    with writing(path) as stream:
        stream.write(MAGIC + b"<LmInfo> " + b"".join(struct.pack("<bi", 4, value) for value in info) + b"</LmInfo> ")
        stream.write(b"<LmStates> " + struct.pack("<bq", 8, len(lm.states)))
        stream.write(lm.states.data)
        stream.write(b"</LmStates> <LmUnigram> " + struct.pack("<bi", 4, len(lm.unigrams)))
        stream.write(lm.unigrams.data)
        stream.write(b"</LmUnigram> <LmOverflow> " + struct.pack("<bi", 4, len(lm.overflow)))
        stream.write(lm.overflow.data)
        stream.write(b"</LmOverflow> </ConstArpaLm> ")


def read_const_arpa(data: bytes, symbols: SymbolTable, where: str, weight: GraphWeight = UNWEIGHTED) -> NgramModel:
    if not data.startswith(MAGIC):
        raise MdiError(f"{where}: a G.carpa of Kaldi before 2015; make it again with utils/build_const_arpa_lm.sh")
    try:
        return _model(_parse(data), symbols, where, weight)
    except (struct.error, ValueError) as error:
        raise MdiError(
            f"{where}: cut off or damaged ({error}); expected the output of arpa-to-const-arpa. Make it again"
        ) from error


def _parse(data: bytes) -> ConstArpa:
    reader = KaldiReader(data)
    reader.tokens("<ConstArpaLm>", "<LmInfo>")
    bos, eos, unknown, order = reader.numbers(4).tolist()
    reader.tokens("</LmInfo>", "<LmStates>")
    states = reader.array(reader.number("q"), np.int32)
    reader.tokens("</LmStates>", "<LmUnigram>")
    unigrams = reader.array(reader.number(), np.int64)
    reader.tokens("</LmUnigram>", "<LmOverflow>")
    overflow = reader.array(reader.number(), np.int64)
    reader.tokens("</LmOverflow>", "</ConstArpaLm>")
    return ConstArpa(bos, eos, unknown, order, states, unigrams, overflow)


def _model(lm: ConstArpa, symbols: SymbolTable, where: str, weight: GraphWeight) -> NgramModel:
    states, unigrams, order = lm.states, lm.unigrams, lm.order
    if not 1 <= order <= MAX_ORDER:
        raise ValueError(f"order {order}")
    for name, i in ((BOS, lm.bos), (EOS, lm.eos)):
        if not 0 < i < len(unigrams) or unigrams[i] == 0:
            raise ValueError(f"no entry for {name}, number {i}")
    labels = np.flatnonzero(unigrams)
    address = unigrams[labels] - 1
    if not (address.min() >= 0 and address.max() <= len(states) - 3):
        raise ValueError("a word's entry is not in the file")
    vocab = vocabulary(_spelled(labels, lm, symbols, where))
    id_of_label = np.full(len(unigrams), -1, np.int32)
    id_of_label[labels] = np.arange(len(labels), dtype=np.int32)
    real = states.view(np.float32)

    def probabilities(word: Array, log_p: Array) -> Array:
        at_end = word == vocab.eos
        cost = np.where(at_end, weight.taken_from(-log_p, False), weight.taken_from(-log_p, True))
        return np.minimum(_exp(cost, LEAST_COST, "a log probability that"), 1.0)

    p, log_bow = [NONE, probabilities(np.arange(len(vocab)), real[address])], real[address + 1]
    p[1][vocab.bos] = 0.0  # <s> is never predicted
    trie, bow, left = unigram_trie(len(vocab)), [np.ones(1)], len(states) // 2
    for k in range(2, order + 1):
        trie = with_histories(trie)
        log_bow = weight.taken_from(scattered(log_bow, trie.as_hist[k - 1]), False)
        bow.append(_exp(-log_bow, LEAST_BACK_COST, "a back-off weight that"))
        address = scattered(address, trie.as_hist[k - 1])
        rows, why = kernels.read_children(address, states, lm.overflow, id_of_label, k == order, left)
        if why != kernels.OK:
            raise ValueError(_WRONG[int(why)])
        left -= len(rows.word)
        trie = add_order(trie, rows.begin, rows.word)
        p.append(probabilities(rows.word, rows.log_p))
        address, log_bow = rows.address, rows.log_bow
    return NgramModel(vocab, trie, p, bow)


def _spelled(labels: Array, lm: ConstArpa, symbols: SymbolTable, where: str) -> list[str]:
    """The words of these labels. Those of <s> and </s> the file knows itself, whatever the table calls them."""
    names = {**symbols.words, lm.bos: BOS, lm.eos: EOS}
    missing = [int(i) for i in labels if int(i) not in names]
    if missing:
        raise MdiError(
            f"{where}: {len(missing):,} of its {len(labels):,} words are not in {symbols.path}, such as number "
            f"{missing[0]}; expected the words.txt that it was made with"
        )
    words = [names[i] for i in labels.tolist()]
    if lm.unknown >= 0 and names.get(lm.unknown) not in UNKNOWN:
        logger.info(
            f"{where}: words that it lacks are scored as '{names.get(lm.unknown, lm.unknown)}' by Kaldi; here they are "
            f"unknown words, unless that is called {' or '.join(UNKNOWN)}"
        )
    return words


def _exp(cost: Array, least: float, what: str) -> Array:
    """e to minus these; `what` is no such thing where one is less than `least`."""
    if not cost.min(initial=0.0) >= least:  # NaN too
        raise ValueError(f"{what} is positive or no number")
    return np.asarray(exponentials(cost))
