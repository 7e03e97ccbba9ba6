"""A back-off model as the weighted acceptor G.fst, arc for arc what Kaldi's `arpa2fst --disambig-symbol=#0` makes.

A state is a history that something follows. One from which the model predicts nothing would only back off, so the arcs
into it go on to the history it backs off to and carry its weight. `<s>` is the start state, an n-gram that ends in
`</s>` is the final weight of its history, and backing off reads #0 and writes nothing. Weights are -ln p and -ln bow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdi.errors import MdiError, examples
from mdi.files import writing
from mdi.fst.openfst import Arcs, from_unsorted, to_bytes
from mdi.fst.symbols import DISAMBIGUATION, SymbolTable
from mdi.kernels.arpa import COST_ZERO
from mdi.lm.model import NgramModel
from mdi.lm.trie import Array, Trie


@dataclass(frozen=True)
class Grammar:
    """The acceptor and what became of the model on the way: n-grams dropped because a word is not in the table."""

    arcs: Arcs
    dropped: int
    total: int
    mass_dropped: float
    missing: list[str]


def _cost(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log(values), COST_ZERO)


def _kept(trie: Trie, known: Array, bos: int, eos: int) -> list[Array]:
    """Which rows have only words of the table, with <s> only first and </s> only last."""
    kept = [np.ones(1, bool), known.copy()]
    for k in range(2, trie.order + 1):
        before = trie.row_of_hist[k - 1]
        history = kept[k - 1][before] & (trie.word[k - 1][before] != eos)
        kept.append(np.repeat(history, np.diff(trie.begin[k])) & known[trie.word[k]] & (trie.word[k] != bos))
    return kept


def _longest_suffix(trie: Trie, ids: Array, resolved: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """State and cost of the longest proper suffix that the model has: for n-grams whose next shorter suffix was pruned
    away."""
    state, cost = np.full(len(ids), -1, np.int32), np.zeros(len(ids))
    for size in range(ids.shape[1] - 1, 0, -1):
        left = np.flatnonzero(state < 0)
        rows = trie.find(ids[left][:, ids.shape[1] - size :])
        left, rows = left[rows >= 0], rows[rows >= 0]
        hist = trie.as_hist[size][rows]
        state[left], cost[left] = resolved[size][0][hist], resolved[size][1][hist]
    state[state < 0] = resolved[0][0][0]
    return state, cost


def _resolve(trie: Trie, bow: list[Array], state: list[Array]) -> list[tuple[Array, Array]]:
    """For every history the state that stands for it and the cost of getting there."""
    resolved = [(state[0], np.zeros(1))]
    for j in range(1, trie.order):
        own, back = state[j], trie.back[j]
        lower = resolved[j - 1]
        to, cost = lower[0][back].copy(), lower[1][back].copy()
        lost = np.flatnonzero(back < 0)
        if len(lost):
            to[lost], cost[lost] = _longest_suffix(trie, trie.ngrams(j, trie.row_of_hist[j][lost]), resolved)
        cost += _cost(bow[j])
        there = own >= 0
        to[there], cost[there] = own[there], 0.0
        resolved.append((to, cost))
    return resolved


def _number_states(trie: Trie, kept: list[Array], bos: int) -> tuple[list[Array], int]:
    """state[j][h]: the number of history h as a state, -1 where nothing follows it (and it is not the start)."""
    state, n = [], 0
    for j in range(trie.order):
        longer = np.concatenate([[0], np.cumsum(kept[j + 1])])
        follows = longer[trie.begin[j + 1][1:]] > longer[trie.begin[j + 1][:-1]]
        if j == 0:
            follows[:] = True
        else:
            follows &= kept[j][trie.row_of_hist[j]]
            if j == 1:
                follows[trie.as_hist[1][bos]] = True
        numbers = np.full(len(follows), -1, np.int32)
        numbers[follows] = np.arange(n, n + int(follows.sum()))
        state.append(numbers)
        n += int(follows.sum())
    return state, n


def grammar(model: NgramModel, symbols: SymbolTable) -> Grammar:
    trie, vocab = model.trie, model.vocab
    label = symbols.labels_of(vocab)
    disambiguation = symbols.require(DISAMBIGUATION)
    known = label > 0
    known[[vocab.bos, vocab.eos]] = True  # they become the start and the final weights: no label is needed
    if (label[known] == disambiguation).any() or (label == 0).any():
        raise MdiError(
            f"the model has {DISAMBIGUATION} or <eps> as a word; expected neither, they are the table's own symbols"
        )
    kept = _kept(trie, known, vocab.bos, vocab.eos)
    state, n_states = _number_states(trie, kept, vocab.bos)
    resolved = _resolve(trie, model.bow, state)
    final = np.full(n_states, np.inf)
    pieces: list[tuple[Array, Array, Array, Array]] = []
    for k in range(1, trie.order + 1):
        source = np.repeat(state[k - 1], np.diff(trie.begin[k]))
        cost = _cost(model.p[k])
        ends = kept[k] & (trie.word[k] == vocab.eos)
        final[source[ends]] = cost[ends]
        rows = np.flatnonzero(kept[k] & ~ends & (trie.word[k] != vocab.bos))
        if k < trie.order:
            hist = trie.as_hist[k][rows]
            dest, extra = resolved[k][0][hist], resolved[k][1][hist]
        elif k == 1:
            dest, extra = np.zeros(len(rows), np.int32), np.zeros(len(rows))
        else:
            dest, extra = _after_top(trie, rows, resolved)
        pieces.append((source[rows], label[trie.word[k][rows]], cost[rows] + extra, dest))
        if k < trie.order:
            here = np.flatnonzero(state[k] >= 0)
            dest, extra = _back_off(trie, k, here, resolved)
            pieces.append((state[k][here], np.full(len(here), disambiguation), _cost(model.bow[k][here]) + extra, dest))
    source, ilabel, weight, dest = (np.concatenate(column) for column in zip(*pieces, strict=True))
    olabel = np.where(ilabel == disambiguation, 0, ilabel)
    start = int(state[1][trie.as_hist[1][vocab.bos]]) if trie.order > 1 else 0
    ilabel = np.where(
        (ilabel == disambiguation) & (source == start) & ~_has_others(source, final, n_states)[source], 0, ilabel
    )
    total = sum(trie.counts)
    return Grammar(
        from_unsorted(start, n_states, source, ilabel, olabel, weight, dest, final),
        total - sum(int(rows.sum()) for rows in kept[1:]),
        total,
        float(model.p[1][~known].sum()),
        [vocab.word(int(i)) for i in np.flatnonzero(~known)],
    )


def _has_others(source: Array, final: Array, n_states: int) -> Array:
    """Whether a state has more than its back-off arc: the start state may be one that nothing follows."""
    return (np.bincount(source, minlength=n_states) > 1) | np.isfinite(final)


def _after_top(trie: Trie, rows: Array, resolved: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Where an n-gram of the highest order leads: its last n-1 words."""
    k = trie.order
    suffix = trie.suffix[k][rows]
    hist = trie.as_hist[k - 1][suffix]
    dest, extra = resolved[k - 1][0][hist].copy(), resolved[k - 1][1][hist].copy()
    lost = np.flatnonzero(suffix < 0)
    if len(lost):
        dest[lost], extra[lost] = _longest_suffix(trie, trie.ngrams(k, rows[lost]), resolved)
    return dest, extra


def _back_off(trie: Trie, j: int, hist: Array, resolved: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Where histories of length j back off to, and what else that costs beside their own weight."""
    back = trie.back[j][hist]
    dest, extra = resolved[j - 1][0][back].copy(), resolved[j - 1][1][back].copy()
    lost = np.flatnonzero(back < 0)
    if len(lost):
        dest[lost], extra[lost] = _longest_suffix(trie, trie.ngrams(j, trie.row_of_hist[j][hist[lost]]), resolved)
    return dest, extra


def check_dropped(result: Grammar, lm: str, symbols: SymbolTable, most: float) -> str:
    """What to tell about the n-grams that were dropped; refuses a model that lost more than the share `most` of
    them."""
    share = result.dropped / result.total
    text = (
        f"{result.dropped:,} of {result.total:,} n-grams ({100 * share:.2f}%, {100 * result.mass_dropped:.2f}% of "
        f"the 1-gram"
        f" mass) have a word outside {symbols.path}: {examples(result.missing)}"
    )
    if share > most:
        raise MdiError(
            f"{lm}: {text}; at most {100 * most:g}% may be dropped. Is it the right words.txt, and in the same "
            f"letter case?"
            " Otherwise raise --max-dropped"
        )
    return text


def write_fst(fst: Arcs, path: str, sort: str = "ilabel", kind: str = "vector") -> None:
    """Hands the arcs to OpenFst, which trims and sorts them and writes its own file: vector, or const, which is read
    faster."""
    import pywrapfst

    made: Any = pywrapfst.Fst.read_from_string(to_bytes(fst))
    made.connect()
    made.arcsort(sort)
    if made.num_states() == 0 or fst.n_arcs == 0:
        raise MdiError(
            f"{path}: the acceptor is empty, no sentence has a probability; expected a model with </s> and words of "
            f"the table"
        )
    if kind != "vector":
        made = pywrapfst.convert(made, kind)
    with writing(path) as stream:
        stream.write(made.write_to_string())
