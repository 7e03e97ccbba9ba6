"""Which model is this? A fingerprint of its words, n-grams, probabilities and weights, in milliseconds.

It is there to tell apart what was mixed up, not to resist forgers: a CRC of every array, hashed together. Of a number
it takes the upper half, 20 bits of mantissa: a step of the last of seven digits shows, and the last bit, in which the
mathematical libraries of two machines may differ, does not.
"""

import hashlib
import json
import sys

import numpy as np
from isal import isal_zlib

from mdi.lm.model import NgramModel

_HIGH = 1 if sys.byteorder == "little" else 0


def identity(model: NgramModel) -> str:
    """32 hexadecimal digits."""
    known = model.__dict__.get("_identity")
    if known is None:
        trie, vocab = model.trie, model.vocab
        exact = [vocab.blob, vocab.offset, *trie.begin[2:], *trie.word[2:]]
        upper = [part.view(np.uint32)[_HIGH::2] for part in (*model.p[1:], *model.bow[1:])]
        sums = [(len(part), isal_zlib.crc32(np.ascontiguousarray(part).data)) for part in (*exact, *upper)]
        known = hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:32]
        object.__setattr__(model, "_identity", known)  # what changes a model forgets it
    return known
