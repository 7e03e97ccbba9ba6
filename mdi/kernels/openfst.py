"""Where things lie in OpenFst's files: states of a VectorFst, names of a symbol table."""

import numpy as np
from numba import njit

from mdi.kernels.memory import eight_bytes
from mdi.kernels.text import last_bytes

CUT_OFF, DAMAGED = -1, -2


@njit(cache=True, nogil=True)
def vector_arcs(body, floats, begin):
    """begin[s] .. begin[s + 1] = the arcs of state s, for as many states as `begin` has room for. `body` is the file
    after its header in words of 4 bytes. Returns the words used, CUT_OFF or DAMAGED: a state is found only by the one
    before it."""
    begin[0] = 0
    at = np.int64(0)
    for s in range(begin.shape[0] - 1):
        if at + floats + 2 > body.shape[0]:
            return CUT_OFF
        n = np.int64(body[at + floats])
        if n < 0 or body[at + floats + 1] != 0:  # over 2^31 arcs
            return DAMAGED
        at += floats + 2 + n * (floats + 3)
        if at > body.shape[0]:
            return CUT_OFF
        begin[s + 1] = begin[s] + n
    return at


@njit(cache=True, nogil=True)
def symbol_places(data, at, n, first, size, key):
    """Where the n names of a binary symbol table lie (first, size) and their keys: each is a 4-byte length, the bytes
    and an 8-byte key. Returns where the table ends, or CUT_OFF."""
    for i in range(n):
        if at + 12 > data.shape[0]:
            return CUT_OFF
        first[i] = at + 4
        size[i] = last_bytes(data, at, 4)
        at = first[i] + size[i]
        if size[i] >= 1 << 31 or at + 8 > data.shape[0]:
            return CUT_OFF
        key[i] = eight_bytes(data, at)
        at += 8
    return at
