"""How often each n-gram was said, in expectation over what a recogniser believes: counts to adapt to without any
transcript.

Forward and backward over a graph of words whose states are told apart by their last n - 1 words. Sentences begin with
one <s> and end with one </s>, as in counts of text, so 1-grams without these sum to the expected number of words. From
lattices, n-best lists, words with confidences (Kaldi's ctm, Vosk's JSON), or plain hypotheses.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mdi.errors import MdiError, check_choice, check_positive, check_whole
from mdi.fst.symbols import SymbolTable, read_symbols, words_of
from mdi.kernels.expected_counts import SILENT, UNKNOWN, Events, GraphArrays, backward, expected_events
from mdi.lm.counts import Counts, VocabularyLike, add_counts, as_vocabulary, count_text, counts_of
from mdi.lm.text import OOV, SPECIAL, TextStats
from mdi.lm.trie import PADDED, Array
from mdi.lm.vocabulary import GrowingVocabulary, Vocabulary, model_vocabulary, read_words
from mdi.progress import Progress
from mdi.speech.lattice_files import read_all_lattices
from mdi.speech.word_graph import FORMATS, NO_WORD, Labels, WordGraph, from_lattice, guess_format, read_graphs

# Events that are held before they are added up.
_WAITING = 1 << 20


def events_of(graph: WordGraph, word_of: Array, order: int, bos: int, eos: int) -> tuple[Array, Array]:
    """(n-grams, a line each, their expected numbers). A line has `order` words, the last of which is the event; -1 for
    words before <s> or before a word that is unknown. word_of[label] is a word's id, or -1."""
    if graph.n_arcs and int(graph.label.max()) >= len(word_of):
        raise MdiError(
            f"{graph.name}: word number {int(graph.label.max())} is not in the table of words; expected the words.txt "
            f"that the lattices were made with"
        )
    word = np.where(graph.label == NO_WORD, SILENT, np.where(graph.label < 0, UNKNOWN, word_of[graph.label]))
    arrays = GraphArrays(graph.begin, word.astype(np.int32), graph.dest, graph.weight, graph.final)
    beta = backward(arrays)
    if not np.isfinite(beta[0]):
        raise MdiError(f"{graph.name}: no path with a finite weight leads to an end; decode it again")
    room = 4
    while True:  # how many histories there will be shows only when they are made
        events, count = expected_events(
            arrays, beta, Events(order, bos, eos), room * graph.n_states, room * (graph.n_arcs + graph.n_states)
        )
        if not len(count) or count[0] >= 0:
            return events, count
        room *= 4


class Tally:
    """Adds up the expected counts of graphs."""

    def __init__(self, vocab: Vocabulary, order: int) -> None:
        self.vocab, self.order = vocab, order
        self.ngrams: list[list[Array]] = [[np.zeros((0, k), np.int32)] for k in range(1, order + 1)]
        self.number: list[list[Array]] = [[np.zeros(0)] for _ in range(order)]
        self.graphs = self.waiting = 0
        self.words = self.unknown = 0.0

    def add(self, graph: WordGraph, word_of: Array) -> None:
        events, count = events_of(graph, word_of, self.order, self.vocab.bos, self.vocab.eos)
        for k in range(1, self.order + 1):
            has = events[:, self.order - k] >= 0
            self.ngrams[k - 1].append(events[has, self.order - k :])
            self.number[k - 1].append(count[has])
        self.graphs += 1
        spoken = events[:, -1] != self.vocab.eos
        self.words += float(count[spoken].sum())
        self.unknown += float(count[events[:, -1] == self.vocab.unk].sum()) if self.vocab.unk >= 0 else 0.0
        self.waiting += len(count)
        if self.waiting > _WAITING:
            self._add_up()
            self.waiting = 0

    def _add_up(self) -> Counts:
        found = counts_of(self.vocab, [np.concatenate(part) for part in self.ngrams], map(np.concatenate, self.number))
        for k in range(1, self.order + 1):
            rows = np.flatnonzero(found.count[k] > 0).astype(np.int32)
            self.ngrams[k - 1], self.number[k - 1] = [found.trie.ngrams(k, rows)], [found.count[k][rows]]
        return found

    def counts(self) -> Counts:
        found = self._add_up()
        found.count[1][self.vocab.bos] = self.graphs
        return Counts(
            found.vocab, found.trie, found.count, TextStats(self.graphs, round(self.words), round(self.unknown))
        )


def expected_counts(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    vocab: VocabularyLike = None,
    order: int = 3,
    *,
    words: str | os.PathLike[str] | None = None,
    kind: str | None = None,
    oov: str = "map",
    acoustic_scale: float = 0.1,
    lm_scale: float = 1.0,
    penalty: float = 0.0,
) -> Counts:
    """Expected counts of n-grams over what a recogniser believes, to adapt to without transcripts.

    Parameters
    ----------
    sources
        Archives of lattices or directories of lat.N.gz, n-best lists, ctm, Vosk's JSON, text; one or several.
    vocab
        The words that are counted, as of `train`; None takes all.
    order
        The longest n-grams.
    words
        Kaldi's words.txt, which lattices need.
    kind
        What all sources are: "lattice", "nbest", "ctm", "vosk" or "text". Otherwise each one's name says it.
    oov
        "map" counts words outside `vocab` as <unk>, "drop" breaks the n-grams around them, "error" refuses them.
    acoustic_scale, lm_scale, penalty
        Paths weigh exp(-lm_scale graph - acoustic_scale acoustic - penalty words), as Kaldi's lattice-arc-post has it;
        scores of n-best lists are multiplied by lm_scale.

    Returns
    -------
    Counts
        With fractions, for `adapt` and `train`.

    Raises
    ------
    MdiError
        Where a source is damaged or empty; it names file and line.
    """
    paths = [os.fspath(one) for one in ([sources] if isinstance(sources, str | os.PathLike) else sources)]
    if not paths:
        raise MdiError("nothing to count; expected lattices, n-best lists, ctm, Vosk's JSON or text")
    check_choice("oov", oov, OOV)
    if kind is not None:
        check_choice("kind", kind, FORMATS)
    check_whole("order", order, 1, PADDED)
    for name, value in (("acoustic_scale", acoustic_scale), ("lm_scale", lm_scale)):
        check_positive(name, value)
    kinds = [kind or guess_format(path) for path in paths]
    symbols = None
    if "lattice" in kinds:
        if words is None:
            raise MdiError(
                f"{paths[kinds.index('lattice')]}: words of lattices are numbers; give their words.txt (--words)"
            )
        symbols = read_symbols(os.fspath(words))
    labels = Labels()
    spelled = {
        path: list(read_graphs(path, kind, labels, lm_scale))
        for path, kind in zip(paths, kinds, strict=True)
        if kind not in ("lattice", "text")
    }
    texts = [Path(path) for path, kind in zip(paths, kinds, strict=True) if kind == "text"]
    vocab = _all_words(symbols, labels, texts) if vocab is None else as_vocabulary(vocab, oov).freeze()
    tally = Tally(vocab, order)
    with Progress("counting", None, "utterances") as progress:
        if symbols is not None:
            word_of = words_of(symbols.ids, vocab, oov, symbols.path)
            for path in (path for path, kind in zip(paths, kinds, strict=True) if kind == "lattice"):
                for lattice in read_all_lattices(path):
                    tally.add(from_lattice(lattice, acoustic_scale, lm_scale, penalty), word_of)
                    progress.update(tally.graphs)
        for path, graphs in spelled.items():
            if not graphs:
                raise MdiError(f"{path}: no words in it; expected at least one")
            word_of = words_of(labels.of, vocab, oov, path)
            for graph in graphs:
                tally.add(graph, word_of)
                progress.update(tally.graphs)
    if not texts:
        return tally.counts()
    plain = count_text(texts, vocab, order, oov)
    return add_counts(plain, tally.counts()) if tally.graphs else plain


def graph_counts(graphs: Iterable[WordGraph], word_of: Array, vocab: Vocabulary, order: int) -> Counts:
    """Expected counts over graphs; word_of[label] is a word's id."""
    tally = Tally(vocab, order)
    for graph in graphs:
        tally.add(graph, word_of)
    return tally.counts()


def _all_words(symbols: SymbolTable | None, labels: Labels, texts: list[Path]) -> Vocabulary:
    own = read_words(symbols.path) if symbols is not None else []
    grown = GrowingVocabulary(SPECIAL)
    if texts:
        count_text(texts, grown, 1)
    listed = dict.fromkeys([*own, *labels.of, *grown.freeze().words[len(SPECIAL) :]])
    return model_vocabulary(list(listed), False)
