"""L.fst: a lexicon as Kaldi's recipes make it, phones in, words out, and silence between words if there is any.

With silence, state 0 is the start, 1 the loop that words leave and come back to, 2 a silence before it (with
disambiguation followed by 3); every word has a chain of states, and its last phone leads to 1 and to 2. Without
silence words leave and come back to the start.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdi.errors import MdiError
from mdi.fst.openfst import Arcs


@dataclass(frozen=True)
class Entry:
    """A word's pronunciation in numbers of words.txt and phones.txt."""

    word: int
    phones: tuple[int, ...]
    p: float = 1.0


@dataclass(frozen=True)
class Silence:
    """The phone that may be said between words, what it costs to say it or not, and its disambiguation symbol, 0 if it
    has none."""

    phone: int
    cost: float
    cost_without: float
    disambiguation: int = 0


def disambiguated(entries: Sequence[Entry]) -> tuple[list[int], int]:
    """(for each entry the number n of #n at its end, 0 if it needs none; the largest of them). Kaldi's rule: a
    pronunciation that several entries have, or that another one begins with, is told apart by #1, #2, ..."""
    times = Counter(entry.phones for entry in entries)
    prefixes = {phones[:i] for phones in times for i in range(len(phones))}
    used: Counter[tuple[int, ...]] = Counter()
    numbers = []
    for entry in entries:
        if times[entry.phones] > 1 or entry.phones in prefixes:
            used[entry.phones] += 1
            numbers.append(used[entry.phones])
        else:
            numbers.append(0)
    return numbers, max(numbers, default=0)


def lexicon_fst(entries: Sequence[Entry], silence: Silence | None, loops: Sequence[tuple[int, int]] = ()) -> Arcs:
    """The FST, its arcs sorted by word. `loops`: (phone, word) of symbols that pass through it between words."""
    length = np.array([len(entry.phones) for entry in entries], np.int64)
    ends = np.cumsum(length)
    phone = np.array([phone for entry in entries for phone in entry.phones], np.int32)
    is_first, is_last = np.zeros(len(phone), bool), np.zeros(len(phone), bool)
    is_first[ends - length], is_last[ends - 1] = True, True
    owner = np.repeat(np.arange(len(entries)), length)
    loop, first_free = (0, 1) if silence is None else (1, 4 if silence.disambiguation else 3)
    # phones but the last of each entry lead to a state of their own, one after the other
    own = first_free - 1 + np.cumsum(~is_last)
    source = np.where(is_first, loop, np.append(0, own[:-1]))
    word = np.where(is_first, np.array([entry.word for entry in entries])[owner], 0)
    cost = np.where(is_first, -np.log([entry.p for entry in entries])[owner], 0.0)
    rows = [(source, np.where(is_last, loop, own), phone, word, cost)]
    n_states = int(first_free + (~is_last).sum())
    if silence is not None:
        without, with_silence = silence.cost_without, silence.cost
        rows[0] = (*rows[0][:4], cost + np.where(is_last, without, 0.0))
        rows.append(
            (source[is_last], np.full(len(entries), 2), phone[is_last], word[is_last], (cost + with_silence)[is_last])
        )
        between = [(0, 1, 0, 0, without), (0, 2, 0, 0, with_silence), (2, 1, silence.phone, 0, 0.0)]
        if silence.disambiguation:
            between[2:] = [(2, 3, silence.phone, 0, 0.0), (3, 1, silence.disambiguation, 0, 0.0)]
        rows.append(tuple(map(np.array, zip(*between, strict=True))))  # type: ignore[arg-type]
    with_words = np.unique(np.append(np.concatenate([row[0][np.asarray(row[3]) > 0] for row in rows]), loop))
    for of_phones, of_words in loops:
        n = len(with_words)
        rows.append((with_words, with_words, np.full(n, of_phones), np.full(n, of_words), np.zeros(n)))
    source, dest, ilabel, olabel, weight = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.lexsort((ilabel, olabel, source))
    begin = np.searchsorted(source[order], np.arange(n_states + 1))
    final = np.full((n_states, 1), np.inf, np.float32)
    final[loop] = 0.0
    ilabel, olabel, dest = (column[order].astype(np.int32) for column in (ilabel, olabel, dest))
    return Arcs(0, begin, ilabel, olabel, weight[order].astype(np.float32)[:, None], dest, final)


def read_entries(fst: Arcs, where: str) -> tuple[list[Entry], Silence | None]:
    """What `lexicon_fst` has made, without disambiguation symbols. Refuses a lexicon of another form, such as one with
    probabilities of silence for each word."""
    try:
        silence = _silence(fst)
        loop = 0 if silence is None else 1
        without = 0.0 if silence is None else silence.cost_without
        entries = []
        for first in range(int(fst.begin[loop]), int(fst.begin[loop + 1])):
            arc, phones, word = first, [], int(fst.olabel[first])
            if silence is not None and fst.dest[arc] == 2:
                continue  # the same word with silence after it
            while True:
                phones.append(int(fst.ilabel[arc]))
                if fst.dest[arc] == loop:
                    break
                state = int(fst.dest[arc])
                if len(phones) > 1000 or fst.begin[state + 1] - fst.begin[state] not in (1, 2):
                    raise ValueError(f"state {state}")
                after = range(int(fst.begin[state]), int(fst.begin[state + 1]))
                if len(after) == 2 and {int(fst.dest[a]) for a in after} != {loop, 2}:
                    raise ValueError(f"state {state}")
                arc = next((a for a in after if fst.dest[a] == loop), after[0])
            cost = float(fst.weight[first, 0]) - (without if len(phones) == 1 else 0.0)
            if word <= 0 or min(phones) <= 0 or not -1e-3 < cost < 100.0:
                raise ValueError(f"a word with the number {word} and the cost {cost:.3g}")
            entries.append((int(fst.dest[first]), Entry(word, tuple(phones), math.exp(-max(0.0, cost)))))
    except (ValueError, IndexError) as error:
        raise MdiError(
            f"{where}: not in the form of Kaldi's make_lexicon_fst.py ({error}); expected a lexicon without "
            f"probabilities of silence of its own, grammars or a model of unknown words. Use Kaldi's extend_lang.sh"
        ) from error
    return [entry for _, entry in sorted(entries, key=lambda item: item[0])], silence


def _silence(fst: Arcs) -> Silence | None:
    """Read off the first states."""
    if fst.start != 0 or not fst.n_states:
        raise ValueError("it begins elsewhere")
    if np.isfinite(fst.final[0, 0]):
        return None
    arcs = range(int(fst.begin[0]), int(fst.begin[1]))
    costs = {int(fst.dest[a]): float(fst.weight[a, 0]) for a in arcs if not fst.ilabel[a] and not fst.olabel[a]}
    to_loop = range(int(fst.begin[2]), int(fst.begin[3]))
    if set(costs) != {1, 2} or len(arcs) != 2 or len(to_loop) != 1 or fst.dest[to_loop[0]] != 1:
        raise ValueError("it has no optional silence where it should be")
    if min(costs.values()) < 0.0 or not abs(math.exp(-costs[1]) + math.exp(-costs[2]) - 1.0) < 1e-3:
        raise ValueError(f"silence and none have the costs {costs[2]:.3g} and {costs[1]:.3g}")
    return Silence(int(fst.ilabel[to_loop[0]]), costs[2], costs[1])
