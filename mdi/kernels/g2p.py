"""Letters and phones: alignment by expectation-maximisation, and the search for the pronunciations of a word. What a
unit is, mdi/speech/g2p.py explains."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.memory import pick
from mdi.kernels.trie import bisect, find_row
from mdi.kernels.types import Array

EMPTY = np.int64(-1)
# Hypotheses of one position of a word: a power of two.
ROOM = 2048


class Pairs(NamedTuple):
    """Words and their pronunciations, one after the other."""

    letter: Array  # int32: those of pair i are letter[letter_begin[i] .. letter_begin[i + 1]], from 1 on
    letter_begin: Array  # int64
    phone: Array  # int32, from 1 on
    phone_begin: Array  # int64


class Table(NamedTuple):
    """A weight for each unit, found by its key: open addressing in a power of two of places."""

    key: Array  # int64: (letter * n_phones + phone) * n_phones + second phone, EMPTY where there is none
    weight: Array  # float64
    n_phones: int


class Units(NamedTuple):
    """The units of a model by their letters; their numbers are those of words of the models."""

    begin: Array  # int64: those of letter x are begin[x] .. begin[x + 1]
    phone: Array  # int32[unit, 2]: 0 where there is none


class Spelt(NamedTuple):
    """Words w to be said: letter[begin[w] .. begin[w + 1]]."""

    letter: Array  # int32
    begin: Array  # int64


class Found(NamedTuple):
    """Room for pronunciations i of words w, the best first."""

    count: Array  # int32[w]: how many pronunciations there are
    unit: Array  # int32[w, i, k]: the unit of letter k in the best way to cut the word
    score: Array  # float64[w, i]: log of the sum over the ways to cut the word


class Agenda(NamedTuple):
    """Hypotheses x of a search by how many letters i they have used."""

    score: Array  # float64[i, x]: log of the sum over the ways to cut the letters that led here
    best: Array  # float64[i, x]: log probability of the best of these
    length: Array  # int64[i, x], and
    history: Array  # int64[i, x]: of the language model
    phones: Array  # uint64[i, x]: a hash of them
    parent: Array  # int64[i, x]: of the best way: the hypothesis that its last unit extends, and
    last: Array  # int64[i, x]: that unit
    slot: Array  # int16[i, s]: a hypothesis by a hash of what tells it from the others, -1 where there is none
    count: Array  # int64[i]
    top: Array  # float64[i]: the highest score


@njit(cache=True, nogil=True)
def place(key, wanted):
    """Where a key is, or would be."""
    mask = np.uint64(key.shape[0] - 1)
    at = (np.uint64(wanted) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20) & mask
    while key[at] != EMPTY and key[at] != wanted:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@njit(cache=True, nogil=True, inline="always")
def _key_at(pairs, n_phones, size, at_letter, at_phone):
    """Of the unit of a letter and `size` phones, 0 to 2."""
    first = np.int64(pairs.phone[at_phone]) if size > 0 else np.int64(0)
    second = np.int64(pairs.phone[at_phone + 1]) if size == 2 else np.int64(0)
    return (np.int64(pairs.letter[at_letter]) * n_phones + first) * n_phones + second


@njit(cache=True, nogil=True)
def add_units(pairs, prior, table):
    """Gives every unit that some pair can be cut into its prior weight, prior[k] if it has k phones. False where the
    table is getting full."""
    room = table.key.shape[0] // 2
    for i in range(pairs.letter_begin.shape[0] - 1):
        end = pairs.phone_begin[i + 1]
        for a in range(pairs.letter_begin[i], pairs.letter_begin[i + 1]):
            for b in range(pairs.phone_begin[i], end + 1):
                for size in range(min(3, end - b + 1)):
                    key = _key_at(pairs, table.n_phones, size, a, b)
                    at = place(table.key, key)
                    if table.key[at] == EMPTY:
                        table.key[at] = key
                        table.weight[at] = prior[size]
                        room -= 1
                        if room == 0:
                            return False
    return True


@njit(cache=True, nogil=True)
def expect(pairs, table, expected):
    """Adds to expected[place of a unit] how often the pairs use it, by forward and backward sums over all ways to cut
    them. Returns the log-likelihood of those that can be cut."""
    total = 0.0
    for i in range(pairs.letter_begin.shape[0] - 1):
        first, n = pairs.letter_begin[i], pairs.letter_begin[i + 1] - pairs.letter_begin[i]
        begin, m = pairs.phone_begin[i], pairs.phone_begin[i + 1] - pairs.phone_begin[i]
        where = np.full((n, m + 1, 3), -1, np.int64)
        forward = np.zeros((n + 1, m + 1))
        backward = np.zeros((n + 1, m + 1))
        forward[0, 0] = 1.0
        for a in range(n):
            for b in range(max(0, m - 2 * (n - a)), m + 1):  # the letters that are left must do for the phones
                if forward[a, b] == 0.0:
                    continue
                for size in range(min(3, m - b + 1)):
                    at = place(table.key, _key_at(pairs, table.n_phones, size, first + a, begin + b))
                    if table.key[at] != EMPTY:
                        where[a, b, size] = at
                        forward[a + 1, b + size] += forward[a, b] * table.weight[at]
        z = forward[n, m]
        if z <= 0.0:
            continue
        total += math.log(z)
        backward[n, m] = 1.0
        for a in range(n - 1, -1, -1):
            for b in range(m, -1, -1):
                for size in range(3):
                    at = where[a, b, size]
                    if at >= 0:
                        after = table.weight[at] * backward[a + 1, b + size]
                        backward[a, b] += after
                        expected[at] += forward[a, b] * after / z
    return total


@njit(cache=True, nogil=True)
def align(pairs, table, cut, cut_begin):
    """The best way to cut each pair: cut[cut_begin[i] .. cut_begin[i + 1]] are the keys of its units, none where it
    cannot be cut. The weights of the table are logarithms."""
    n_cut = 0
    for i in range(pairs.letter_begin.shape[0] - 1):
        first, n = pairs.letter_begin[i], pairs.letter_begin[i + 1] - pairs.letter_begin[i]
        begin, m = pairs.phone_begin[i], pairs.phone_begin[i + 1] - pairs.phone_begin[i]
        best = np.full((n + 1, m + 1), -np.inf)
        came = np.empty((n + 1, m + 1), np.int8)  # the phones of the last unit
        best[0, 0] = 0.0
        for a in range(n):
            for b in range(max(0, m - 2 * (n - a)), m + 1):
                if best[a, b] == -np.inf:
                    continue
                for size in range(min(3, m - b + 1)):
                    at = place(table.key, _key_at(pairs, table.n_phones, size, first + a, begin + b))
                    if table.key[at] != EMPTY and best[a, b] + table.weight[at] > best[a + 1, b + size]:
                        best[a + 1, b + size] = best[a, b] + table.weight[at]
                        came[a + 1, b + size] = size
        if best[n, m] > -np.inf:
            b = m
            for a in range(n - 1, -1, -1):
                size = came[a + 1, b]
                b -= size
                cut[n_cut + a] = _key_at(pairs, table.n_phones, size, first + a, begin + b)
            n_cut += n
        cut_begin[i + 1] = n_cut
    return n_cut


@njit(cache=True, nogil=True, inline="always")
def _hashed(phones, phone):
    return (phones ^ np.uint64(phone)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)


@njit(cache=True, nogil=True, inline="always")
def _add(a, b):
    """log(exp a + exp b)"""
    high, low = max(a, b), min(a, b)
    return high + math.log1p(math.exp(low - high)) if low > -np.inf else high


@njit(cache=True, nogil=True)
def _step(model, length, history, word, most):
    """(cost of a word, length and history after it). The model has costs in place of p and bow, none below 0; what
    costs more than `most` is infinite."""
    trie, cost = model.trie, 0.0
    row = find_row(pick(trie.begin, length + 1), pick(trie.word, length + 1), history, word)
    while row < 0 and length > 0:
        cost += pick(model.bow, length)[history]
        history = np.int64(pick(trie.back, length)[history])
        length -= 1
        if cost > most:
            return np.inf, np.int64(0), np.int64(0)
        row = find_row(pick(trie.begin, length + 1), pick(trie.word, length + 1), history, word)
    if row < 0:
        return np.inf, np.int64(0), np.int64(0)
    more, after, history = _after(model, length + 1, row)
    return cost + pick(model.p, length + 1)[row] + more, after, history


@njit(cache=True, nogil=True)
def _after(model, length, row):
    """(cost, length and history) after a row of an order. A history that nothing follows only backs off."""
    trie, cost = model.trie, 0.0
    if length == model.order:
        row = np.int64(pick(trie.suffix, length)[row])
        length -= 1
    history = np.int64(pick(trie.as_hist, length)[row])
    while length > 0 and pick(trie.begin, length + 1)[history] == pick(trie.begin, length + 1)[history + 1]:
        cost += pick(model.bow, length)[history]
        history = np.int64(pick(trie.back, length)[history])
        length -= 1
    return cost, np.int64(length), history


@njit(cache=True, nogil=True)
def _best_first(score, least, most):
    """The highest scores of those that are high enough."""
    enough = np.flatnonzero(score >= least)
    return enough[np.argsort(-score[enough])[:most]]


@njit(cache=True, nogil=True)
def _empty_agenda(n):
    return Agenda(
        np.empty((n + 1, ROOM)),
        np.empty((n + 1, ROOM)),
        np.empty((n + 1, ROOM), np.int64),
        np.empty((n + 1, ROOM), np.int64),
        np.empty((n + 1, ROOM), np.uint64),
        np.empty((n + 1, ROOM), np.int64),
        np.empty((n + 1, ROOM), np.int64),
        np.empty((n + 1, 2 * ROOM), np.int16),
        np.empty(n + 1, np.int64),
        np.empty(n + 1),
    )


@njit(cache=True, nogil=True)
def _hypothesis(agenda, to, length, history, phones):
    """The hypothesis with these at a position, which is made if there is none; -1 where there is no room."""
    mask = np.uint64(agenda.slot.shape[1] - 1)
    at = (phones ^ (np.uint64(history) * np.uint64(0xD1342543DE82EF95))) >> np.uint64(7) & mask
    x = np.int64(agenda.slot[to, at])
    while x >= 0 and not (
        agenda.phones[to, x] == phones and agenda.history[to, x] == history and agenda.length[to, x] == length
    ):
        at = (at + np.uint64(1)) & mask
        x = np.int64(agenda.slot[to, at])
    if x < 0 and agenda.count[to] < ROOM:
        x = agenda.count[to]
        agenda.count[to] += 1
        agenda.slot[to, at] = x
        agenda.phones[to, x], agenda.history[to, x], agenda.length[to, x] = phones, history, length
        agenda.score[to, x] = agenda.best[to, x] = -np.inf
    return x


@njit(cache=True, nogil=True)
def say(spelt, units, forward, backward, beam, width, found):
    """Fills `found` with the best pronunciations of words by both models."""
    begin = spelt.begin
    agenda = _empty_agenda(np.max(begin[1:] - begin[:-1]))
    for w in range(begin.shape[0] - 1):
        word = spelt.letter[begin[w] : begin[w + 1]]
        found.count[w] = 0
        if word.shape[0]:
            _search(word, units, forward, beam, width, agenda)
            _pronunciations(agenda, word.shape[0], forward, found, w)
            _add_backward(found, w, word.shape[0], backward)


@njit(cache=True, nogil=True)
def _search(letters, units, model, beam, width, agenda):
    """Hypotheses for a word. At each position the `beam` best are extended, of those within `width` of the best one.
    Hypotheses with the same phones and the same history are one: their probabilities are added."""
    n = letters.shape[0]
    done = np.zeros(units.phone.shape[0], np.bool_)
    agenda.slot[: n + 1] = -1
    agenda.count[: n + 1] = 0
    agenda.top[: n + 1] = -np.inf
    start = _hypothesis(agenda, 0, np.int64(1), np.int64(model.trie.as_hist[1][model.bos]), np.uint64(0))
    agenda.score[0, start] = agenda.best[0, start] = agenda.top[0] = 0.0
    for i in range(n):
        for t in _best_first(agenda.score[i, : agenda.count[i]], agenda.top[i] - width, beam):
            # units by the longest history that has them: of most there are few, and what is left is too dear to look at
            least, end = units.begin[letters[i]], units.begin[letters[i] + 1]
            length, history, backed_off = agenda.length[i, t], agenda.history[i, t], 0.0
            done[least:end] = False
            while length >= 0 and backed_off <= agenda.score[i, t] - agenda.top[i + 1] + width:
                words, begin = pick(model.trie.word, length + 1), pick(model.trie.begin, length + 1)
                row, last = np.int64(begin[history]), np.int64(begin[history + 1])
                row = bisect(words, row, last, least)
                while row < last and words[row] < end:
                    u = words[row]
                    if not done[u]:
                        done[u] = True
                        cost = backed_off + pick(model.p, length + 1)[row]
                        if cost <= agenda.score[i, t] - agenda.top[i + 1] + width:
                            more, after, next_history = _after(model, length + 1, row)
                            _extend(agenda, i, t, u, units.phone[u], cost + more, (after, next_history))
                    row += 1
                if length > 0:
                    backed_off += pick(model.bow, length)[history]
                    history = np.int64(pick(model.trie.back, length)[history])
                length -= 1


@njit(cache=True, nogil=True)
def _extend(agenda, i, t, u, phone, cost, state):
    """Adds to the hypotheses what hypothesis t becomes with unit u, in a state of the model: (length, history)."""
    length, history = state
    phones = agenda.phones[i, t]
    for q in range(2):
        if phone[q]:
            phones = _hashed(phones, phone[q])
    x = _hypothesis(agenda, i + 1, length, history, phones)
    if x < 0:
        return
    agenda.score[i + 1, x] = _add(agenda.score[i + 1, x], agenda.score[i, t] - cost)
    agenda.top[i + 1] = max(agenda.top[i + 1], agenda.score[i + 1, x])
    if agenda.best[i, t] - cost > agenda.best[i + 1, x]:
        agenda.best[i + 1, x] = agenda.best[i, t] - cost
        agenda.parent[i + 1, x], agenda.last[i + 1, x] = t, u


@njit(cache=True, nogil=True)
def _pronunciations(agenda, n, model, out, w):
    """Whole words: hypotheses of the last position with the same phones are one, whatever their history."""
    count = agenda.count[n]
    total = np.empty(count)
    whole = np.empty(count, np.int64)  # the best hypothesis of each pronunciation
    best = np.empty(count)
    found = 0
    for x in range(count):
        cost, _, _ = _step(model, agenda.length[n, x], agenda.history[n, x], model.eos, np.inf)
        y = 0
        while y < found and agenda.phones[n, whole[y]] != agenda.phones[n, x]:
            y += 1
        if y == found:
            total[y] = best[y] = -np.inf
            found += 1
        total[y] = _add(total[y], agenda.score[n, x] - cost)
        if (y == found - 1 and best[y] == -np.inf) or agenda.best[n, x] - cost > best[y]:
            best[y] = agenda.best[n, x] - cost
            whole[y] = x
    kept = 0
    for y in _best_first(total[:found], -np.inf, out.score.shape[1]):
        x = whole[y]
        for i in range(n, 0, -1):
            out.unit[w, kept, i - 1] = agenda.last[i, x]
            x = agenda.parent[i, x]
        out.score[w, kept] = total[y]
        kept += 1
    out.count[w] = kept


@njit(cache=True, nogil=True)
def _add_backward(found, w, n, model):
    """Adds to the scores the log probability of the units from right to left."""
    for i in range(found.count[w]):
        length, history = np.int64(1), np.int64(model.trie.as_hist[1][model.bos])
        for k in range(n - 1, -1, -1):
            cost, length, history = _step(model, length, history, found.unit[w, i, k], np.inf)
            found.score[w, i] -= cost
        cost, length, history = _step(model, length, history, model.eos, np.inf)
        found.score[w, i] -= cost
