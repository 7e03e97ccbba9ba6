"""An adaptation as a small file: what it changes in a background, without the background.

    8 bytes "MDIDELTA", 8 bytes size of the head (little-endian), the head (JSON in UTF-8), the body (a zlib stream)

The head has `version`, `background` (see mdi/lm/identity.py), `words` (of its vocabulary, the new ones being the last),
`ngrams` (how many are constraints, by order), `step` (an exponent of 2), `crc32` of the body, `new_words` (their
number, the bytes of their spellings, the probability of <unk> beside them), and for people `min_counts`, `made`,
`certificate`. Of each list of numbers the body has first all lowest bytes, then all second ones and so on, which packs
well:

    for each order k: the constraints, sorted as in mdi/lm/trie.py: the first word of each, then the second of each ...;
                      numbers of words of four bytes
    mu of the constraints, whole numbers of 6 bytes each, in steps of 2^step
    the new words, each with a line feed behind it, and their probabilities, 8 bytes each

mu is a fixed-point number of 48 bits, as fine as the largest of them allows (2^-43 for |mu| < 16). `rounded` makes it
so before an adaptation makes its model, so a model made from a file is the same to the last bit.
"""

import json
import math
import os
import zlib
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from mdi.adaptation.adapted import Adapted
from mdi.adaptation.constraints import Constraints
from mdi.certificate import plain
from mdi.errors import MdiError, OptionError
from mdi.files import read_plain, writing
from mdi.fst.given import ModelLike, as_model
from mdi.lm.identity import identity
from mdi.lm.model import NgramModel, extended, rescale
from mdi.lm.new_words import NewWords, may_be_added
from mdi.lm.trie import NONE, PADDED, Array, Trie, from_ngrams, locate
from mdi.lm.vocabulary import Vocabulary, to_bytes, to_str

VERSION = 3
_MAGIC = b"MDIDELTA"
_BITS = 48
_MOST = 709.78  # of mu: exp(mu) is a finite number
_LONGEST_HEAD = 1 << 20
_DEFLATE_MOST = 1040


def rounded(mu: Array) -> Array:
    """mu in the precision of a delta."""
    if not np.isfinite(mu).all():
        return mu
    return np.ldexp(*_steps(mu))


def _steps(mu: Array) -> tuple[Array, int]:
    """mu as whole numbers that fit into 48 bits with their sign, and the exponent of their unit."""
    exponent = math.frexp(float(np.abs(mu).max(initial=0.0)))[1] + 1 - _BITS
    whole = np.rint(np.ldexp(mu, -exponent))
    if np.abs(whole).max(initial=0.0) >= 2.0 ** (_BITS - 1):  # rounded up to the next power of 2
        exponent += 1
        whole = np.rint(np.ldexp(mu, -exponent))
    return whole, exponent


@dataclass(frozen=True, eq=False)
class Delta:
    """`constraints` are rows of `ngrams`, which is closed; `background` is the identity of what they belong to."""

    background: str
    ngrams: Trie
    constraints: Constraints
    mu: Array
    min_counts: str
    new_words: NewWords | None = None
    certificate: dict[str, Any] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)
    name: str = "the delta"  # for errors: its file

    def __repr__(self) -> str:
        return f"<Delta with {self.min_counts}: {self.constraints.total:,} constraints on background {self.background}>"

    def check(self, background: NgramModel, background_name: str = "the background") -> None:
        """Refuses another background than the one that this was made for."""
        if identity(background) != self.background:
            told = f", made as {self.made['background']}" if "background" in self.made else ""
            raise MdiError(
                f"{self.name}: is for the background {self.background}{told}; {background_name} is "
                f"{identity(background)}. Give the model that it was adapted from, or adapt again"
            )
        new = 0 if self.new_words is None else len(self.new_words.words)
        if self.ngrams.n_words != background.trie.n_words + new or self.ngrams.order > background.order:
            raise MdiError(
                f"{self.name}: damaged, its n-grams are not over the words of {background_name}; copy it again"
            )

    def apply(self, background: NgramModel, background_name: str = "the background") -> NgramModel:
        """The adapted model. `background_name`: for errors."""
        self.check(background, background_name)
        if self.new_words is not None:
            background = self.new_words.added_to(background)
        wide = extended(background, self.ngrams)
        where = locate(self.ngrams, wide.trie)
        rows = [NONE, *(where[k][self.constraints.row[k]] for k in range(1, self.constraints.order + 1))]
        rescale(wide, rows, self.constraints.by_order(np.exp(self.mu)))
        return wide

    def mu_at(self, vocab: Vocabulary, ngrams: list[Array]) -> Array:
        """mu of the cell that each n-gram (by order, a line of ids each) belongs to here; 0 where it is none's. The ids
        are those of a vocabulary of the background's words and maybe others behind them."""
        new = [] if self.new_words is None else self.new_words.words
        known = self.ngrams.n_words - len(new)
        number = {word: known + i for i, word in enumerate(new)}
        more = (number.get(vocab.word(i), -1) for i in range(known, len(vocab)))
        id_here = np.array([*range(known), *more], np.int32)  # -1: none
        parts = []
        for k, ids in enumerate((id_here[part] for part in ngrams), 1):
            found, left = np.zeros(len(ids)), np.arange(len(ids))
            for below in range(min(k, self.constraints.order), 0, -1):
                rows, own = self.ngrams.find(ids[left][:, k - below :]), self.constraints.row[below]
                at = np.searchsorted(own, rows)
                here = (at < len(own)) & (rows >= 0)
                here[here] = own[at[here]] == rows[here]
                found[left[here]] = self.mu[self.constraints.first[below] + at[here]]
                left = left[~here]
            parts.append(found)
        return np.concatenate(parts)


def delta_of(
    adapted: Adapted, background: str, certificate: dict[str, Any] | None = None, made: dict[str, Any] | None = None
) -> Delta:
    """The delta of an adaptation of the background with this identity."""
    problem, trie = adapted.problem, adapted.problem.background.trie
    ngrams = from_ngrams(trie.n_words, problem.constraints.ngrams(trie))
    rows, mu = problem.constraints.relocated(trie, ngrams), adapted.solution.mu
    return Delta(background, ngrams, rows, mu, problem.min_counts, adapted.new_words, certificate or {}, made or {})


def _planes(values: Array, size: int = 4) -> bytes:
    """Whole numbers as bytes: all lowest ones, then all second ones ..."""
    return values.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :size].T.tobytes()


def encode(delta: Delta) -> bytes:
    ngrams = delta.constraints.ngrams(delta.ngrams)
    parts = [_planes(ids.T.ravel()) for ids in ngrams]
    whole, exponent = _steps(delta.mu)
    parts.append(_planes(whole, _BITS // 8))
    new = delta.new_words or NewWords([], np.zeros(0))
    spelled = b"".join(to_bytes(word) + b"\n" for word in new.words)
    parts += [spelled, new.p.astype("<f8").tobytes()]
    body = zlib.compress(b"".join(parts), 6)
    head = {
        "version": VERSION,
        "background": delta.background,
        "words": delta.ngrams.n_words,
        "ngrams": [len(ids) for ids in ngrams],
        "step": exponent,
        "crc32": zlib.crc32(body),
        "new_words": [len(new.words), len(spelled), new.unk],
        "min_counts": delta.min_counts,
        "made": delta.made,
        "certificate": delta.certificate,
    }
    text = json.dumps(plain(head), ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogateescape")
    return _MAGIC + len(text).to_bytes(8, "little") + text + body


def write_delta(delta: Delta, path: str | os.PathLike[str]) -> None:
    """Writes a delta to a file of a few kilobytes and more.

    Parameters
    ----------
    delta
        What `Adapter.delta` gives.
    path
        The file.
    """
    delta = as_delta("delta", delta)
    if not (np.isfinite(delta.mu) & (delta.mu < _MOST)).all():
        raise MdiError(
            f"{path}: a parameter is not finite, or its exponential would not be; expected a solution. Raise "
            f"--min-counts or use --sigma2"
        )
    with writing(os.fspath(path)) as stream:
        stream.write(encode(delta))


class _Damaged(Exception):
    """What is wrong with a file."""


class _Body:
    """Takes lists from the unpacked body."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = np.frombuffer(data, np.uint8), 0

    def bytes(self, n: int) -> Array:
        self.at += n
        if self.at > len(self.data):
            raise _Damaged("it ends too early")
        return self.data[self.at - n : self.at]

    def numbers(self, n: int, size: int = 4) -> Array:
        wide = np.zeros((n, 8), np.uint8)
        wide[:, :size] = self.bytes(n * size).reshape(size, n).T
        return wide.view("<i8").ravel()


def decode(data: bytes, name: str = "the delta") -> Delta:
    head = read_head(data, name)
    body = data[16 + int.from_bytes(data[8:16], "little") :]
    try:
        return _decoded(head, body, name)
    except _Damaged as error:
        raise MdiError(f"{name}: damaged, {error}; copy it again") from None


def read_head(data: bytes, name: str) -> dict[str, Any]:
    """The head, checked for what is needed; enough to say what a delta is."""
    if data[:8] != _MAGIC:
        raise MdiError(f"{name}: not a delta; expected a file of mdi adapt --delta")
    size = int.from_bytes(data[8:16], "little")
    try:
        if size > _LONGEST_HEAD or len(data) < 16 + size:
            raise ValueError("cut off")
        head = json.loads(data[16 : 16 + size].decode("utf-8", "surrogateescape"))
        if not isinstance(head, dict):
            raise ValueError("no object in the head")
        if head["version"] != VERSION:
            raise MdiError(
                f"{name}: version {head['version']} of deltas; expected {VERSION}. Use the mdi that wrote it, or adapt "
                f"again"
            )
        *added, unk = head["new_words"]
        numbers = [*head["ngrams"], head["words"], *added]
        kinds = {"background": str, "min_counts": str, "made": dict, "certificate": dict, "crc32": int}
        good = {
            "new words": len(added) == 2 and (unk is None or (type(unk) in (int, float) and 0 <= unk < 1)),
            "numbers": all(type(number) is int and 0 <= number < 2**31 - 1 for number in numbers),
            "step": type(head["step"]) is int and abs(head["step"]) <= 1100,
            "orders": 1 <= len(head["ngrams"]) <= PADDED,
            **{key: isinstance(head[key], kind) for key, kind in kinds.items()},
        }
        if wrong := next((what for what, is_good in good.items() if not is_good), ""):
            raise ValueError(f"{wrong} in the head")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MdiError(f"{name}: damaged ({type(error).__name__} {error}); copy it again") from None
    return head


def _decoded(head: dict[str, Any], packed: bytes, name: str) -> Delta:
    counts, n_words, n_mu = head["ngrams"], head["words"], sum(head["ngrams"])
    n_new, spelled, unk = head["new_words"]
    numbers = sum(k * n for k, n in enumerate(counts, 1))
    size = 4 * numbers + n_mu * _BITS // 8 + spelled + 8 * n_new
    if zlib.crc32(packed) != head["crc32"]:
        raise _Damaged("its checksum is another")
    if size > len(packed) * _DEFLATE_MOST or n_words > 1 << 28:
        raise _Damaged("it cannot hold so much")
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(packed, size + 1)
    except zlib.error as error:
        raise _Damaged(str(error)) from None
    if len(data) != size or not unpack.eof or unpack.unused_data:
        raise _Damaged("its size is another")
    body = _Body(data)
    ngrams = [body.numbers(k * n).reshape(k, n).T for k, n in enumerate(counts, 1)]
    if any((ids >= n_words).any() for ids in ngrams):
        raise _Damaged("a word that the background lacks")
    trie = from_ngrams(n_words, ngrams)
    rows = Constraints([NONE, *map(trie.find, ngrams)])
    if any((np.diff(part) < 1).any() for part in rows.row[1:]):
        raise _Damaged("n-grams are not in order")
    whole = body.numbers(n_mu, _BITS // 8)
    whole = np.where(whole >= 1 << (_BITS - 1), whole - (1 << _BITS), whole)
    mu = np.ldexp(whole.astype(float), head["step"])
    if not (mu < _MOST).all():
        raise _Damaged("a parameter is out of range")
    new = _new_words(body, n_new, spelled, unk) if n_new else None
    return Delta(head["background"], trie, rows, mu, head["min_counts"], new, head["certificate"], head["made"], name)


def _new_words(body: _Body, n: int, spelled: int, unk: float | None) -> NewWords:
    words = to_str(body.bytes(spelled).tobytes()).split("\n")[:-1]
    p = body.bytes(8 * n).copy().view("<f8").astype(float)
    if len(words) != n or not all(map(may_be_added, words)) or len(set(words)) < n:
        raise _Damaged("its new words are no words")
    if not ((p > 0) & (p < 1)).all() or not p.sum() < 1:
        raise _Damaged("its new words have no probabilities")
    return NewWords(words, p, unk)


def read_delta(path: str | os.PathLike[str]) -> Delta:
    """Reads what `write_delta` or `mdi adapt --delta` has written.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Delta

    Raises
    ------
    MdiError
        Where the file is damaged, or no delta.
    """
    return decode(read_plain(os.fspath(path)), os.fspath(path))


# A delta, or the file of one.
DeltaLike: TypeAlias = Delta | str | os.PathLike[str]


def as_delta(name: str, delta: Any) -> Delta:
    """What is given as one, or by its file. `name`: of the argument, for errors."""
    if isinstance(delta, str | os.PathLike):
        return read_delta(delta)
    if not isinstance(delta, Delta):
        raise OptionError(name, delta, "a delta, as Adapter.delta makes it, or the file of one")
    return delta


def apply_delta(background: ModelLike, delta: DeltaLike, background_name: str = "the background") -> NgramModel:
    """The model that the delta's adaptation gives.

    Parameters
    ----------
    background
        The model that was adapted, or its file; another one is refused.
    delta
        A delta, or the file of one.
    background_name
        What errors call the background.

    Returns
    -------
    NgramModel
    """
    return as_delta("delta", delta).apply(as_model(background, "background"), background_name)
