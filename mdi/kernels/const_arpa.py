"""Kaldi's ConstArpaLm, order by order: the loops of mdi/fst/const_arpa.py, where the layout is explained."""

from typing import NamedTuple

import numpy as np
from numba import njit

from mdi.kernels.memory import pick
from mdi.kernels.trie import TrieArrays

OK, BAD_ADDRESS, BAD_WORD, TOO_MANY, TOO_DEEP = range(5)


class Rows(NamedTuple):
    """The n-grams of one order as they are read, r counting rows and h histories of one word less."""

    begin: np.ndarray  # int32[h + 1]: the rows of history h
    word: np.ndarray  # int32[r]: the last word
    log_p: np.ndarray  # float32[r]: ln p
    log_bow: np.ndarray  # float32[r]: ln bow, 0 without one
    address: np.ndarray  # int64[r]: where the row's entry begins, -1 without one


class Written(NamedTuple):
    """A model to be written: tuples by order, or by length of the history, as in TrieArrays."""

    order: int
    trie: TrieArrays
    log_p: tuple[np.ndarray, ...]  # float32: by row
    log_bow: tuple[np.ndarray, ...]  # float32: by history; 0 without a weight
    label: np.ndarray  # int32: by word, -1 for a word that is left out


@njit(cache=True, nogil=True)
def put_entries(model, most_offset, states, address):
    """Writes the entries of all n-grams that begin with each word, one word after the other, into `states`, and where
    they begin into `address`. Returns the children that are further away than `most_offset`: (where their addresses
    are wanted, the addresses)."""
    real = states.view(np.float32)
    # of the n-grams that lead to where we are, by order: entry, next child, the end of these, and where it is put
    at, child, end, place = np.zeros((4, model.order + 1), np.int64)
    wanted, far = [np.int64(0) for _ in range(0)], [np.int64(0) for _ in range(0)]
    n = np.int64(0)
    for w in range(model.label.shape[0]):
        if model.label[w] < 0:
            continue
        address[w] = n
        k, row, opens = 1, np.int64(w), True
        while k > 0:
            if opens:
                real[n] = pick(model.log_p, k)[row]
                real[n + 1] = 0.0
                child[k] = end[k] = 0
                if k < model.order:
                    h = pick(model.trie.as_hist, k)[row]
                    real[n + 1] = pick(model.log_bow, k)[h]
                    child[k], end[k] = pick(model.trie.begin, k + 1)[h], pick(model.trie.begin, k + 1)[h + 1]
                states[n + 2] = end[k] - child[k]
                at[k], place[k] = n, n + 3
                n += 3 + 2 * (end[k] - child[k])
                opens = False
                if k + 1 == model.order:  # whose n-grams have no entries
                    word, log_p = pick(model.trie.word, k + 1), pick(model.log_p, k + 1)
                    for row in range(child[k], end[k]):
                        states[place[k]] = model.label[word[row]]
                        real[place[k] + 1] = log_p[row]
                        states[place[k] + 1] &= ~np.int32(1)  # an odd number would be an address
                        place[k] += 2
                    child[k] = end[k]
            elif child[k] == end[k]:
                k -= 1
            else:
                row = child[k]
                states[place[k]] = model.label[pick(model.trie.word, k + 1)[row]]
                h = pick(model.trie.as_hist, k + 1)[row]
                begin = pick(model.trie.begin, k + 2)
                opens = begin[h] < begin[h + 1] or pick(model.log_bow, k + 1)[h] != 0
                if not opens:
                    real[place[k] + 1] = pick(model.log_p, k + 1)[row]
                    states[place[k] + 1] &= ~np.int32(1)
                elif n - at[k] <= most_offset:
                    states[place[k] + 1] = np.int32(2 * (n - at[k]) + 1)
                else:
                    wanted.append(place[k] + 1)
                    far.append(n)
                child[k] += 1
                place[k] += 2
                k += opens
    return np.array(wanted), np.array(far)


@njit(cache=True, nogil=True)
def read_children(address, states, overflow, id_of_label, top, most):
    """(the rows that follow each history, no more than `most`; OK or what is wrong)"""
    begin, why = np.zeros(address.shape[0] + 1, np.int32), OK
    for h in range(address.shape[0]):
        at, n = address[h], np.int64(0)
        if at >= 0:
            n = np.int64(states[at + 2]) if at <= states.shape[0] - 3 else np.int64(-1)
            if n < 0 or at + 3 + 2 * n > states.shape[0]:
                why = BAD_ADDRESS
                break
        if begin[h] + n > most:
            why = TOO_MANY
            break
        begin[h + 1] = begin[h] + n
    size = begin[-1] if why == OK else 0
    log_p, log_bow = np.empty(size, np.float32), np.zeros(size, np.float32)
    out = Rows(begin, np.empty(size, np.int32), log_p, log_bow, np.empty(size, np.int64))
    if why != OK:
        return out, why
    real = states.view(np.float32)
    for h in range(address.shape[0]):
        at = address[h]
        place = at + 3
        for i in range(begin[h], begin[h + 1]):
            label = states[place]
            if label < 0 or label >= id_of_label.shape[0] or id_of_label[label] < 0:
                return out, BAD_WORD
            out.word[i] = id_of_label[label]
            if i > begin[h] and out.word[i] <= out.word[i - 1]:
                return out, BAD_WORD
            info = states[place + 1]
            child = np.int64(-1)
            if info & 1:
                child = at + (info >> 1)
                if info < 0:
                    index = -np.int64(info) >> 1
                    child = overflow[index] - 1 if index < overflow.shape[0] else np.int64(-1)
                # entries lie behind their parents, which keeps hostile files from running in circles
                if child <= at or child > states.shape[0] - 3:
                    return out, BAD_ADDRESS
                if top:
                    return out, TOO_DEEP
                log_p[i], log_bow[i] = real[child], real[child + 1]
            else:
                log_p[i] = real[place + 1]
            out.address[i] = child
            place += 2
    return out, OK
