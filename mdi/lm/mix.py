"""Static linear interpolation of models, and the weights that suit a development text best.

    p_mix(w|h) = sum_i weight_i p_i(w|h)      for every n-gram hw of any of the models (backed off where one lacks it)

and back-off weights that make every history sum to one, as SRILM's `ngram -mix-lm` does. Models of lower order back
off. A word that a model does not know has probability 0 in it: the mixture then sums to one, which spreading the
model's <unk> over the others' words would spoil.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from mdi.errors import MdiError, OptionError, UsageError
from mdi.kernels import mix as kernels
from mdi.kernels.mix import KnownRows
from mdi.lm.model import NgramModel, copied, extend, over_vocabulary, with_suffixes, without
from mdi.lm.normalise import weighted
from mdi.lm.perplexity import token_probs
from mdi.lm.trie import NONE, Array, Trie, is_closed, linked, locate, scattered
from mdi.lm.vocabulary import Vocabulary, join_vocabularies

# No weight moves by more than this in the last iteration.
PRECISION = 1e-7


def em_steps(probs: list[Array]) -> Iterator[tuple[Array, float]]:
    """Expectation maximisation, (weights, perplexity) before each iteration and at last the weights it converged to.

        weight_i <- mean over the tokens of  weight_i p_i / sum_j weight_j p_j

    `probs` are the probabilities that each model gives to the same tokens. Tokens that no model allows are passed over.
    """
    table = np.array(probs, float)
    table = table[:, (table > 0).any(axis=0)]
    if not table.shape[1]:
        raise MdiError("every token has probability 0 in all models; expected development text of the models' language")
    weights = np.full(len(probs), 1.0 / len(probs))
    move = math.inf
    while True:
        mixture = weights @ table
        yield weights, float(np.exp(-np.log(mixture).mean()))
        if move <= PRECISION:
            return
        last, weights = weights, weights * (table @ (1.0 / mixture)) / len(mixture)
        move = float(np.abs(weights - last).max())


def predicted_probs(models: list[NgramModel], ids: Array) -> list[Array]:
    """By each of the models (over one vocabulary), the probability of every token that is predicted."""
    predicted = (ids >= 0) & (ids != models[0].vocab.bos)
    return [token_probs(with_suffixes(model), ids)[0][predicted] for model in models]


def impossible_tokens(vocab: Vocabulary, ids: Array, probs: list[Array]) -> int:
    """How many of the tokens that are predicted no model allows; an error where they are all of the words: ends of
    sentences alone say nothing."""
    zero = np.max(probs, axis=0) <= 0
    word = ids[(ids >= 0) & (ids != vocab.bos)] != vocab.eos
    if word.any() and zero[word].all():
        raise MdiError(
            f"all {int(word.sum()):,} words of the development text have probability 0 in every model; expected text "
            f"that the models allow. Check them with mdi check"
        )
    return int(zero.sum())


def em_weights(probs: list[Array]) -> Array:
    """The weights of the mixture under which the tokens are most likely: the last of `em_steps`."""
    *_, (weights, _) = em_steps(probs)
    return weights


def check_weights(weights: Sequence[float] | Array, models: int) -> Array:
    """The weights as an array that sums to one exactly, or an error."""
    try:
        array = np.array([float(weight) for weight in weights])
    except (TypeError, ValueError):
        raise OptionError("weights", weights, "a number for each model, such as [0.7, 0.3]") from None
    shown = ",".join(f"{w:g}" for w in array)
    if len(array) != models:
        raise UsageError(f"{len(array)} weights ({shown}) for {models} models; expected one for each, in their order")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise UsageError(f"weights {shown}; expected numbers from 0 to 1")
    if abs(array.sum() - 1.0) > 1e-5:
        raise UsageError(f"weights {shown} sum to {array.sum():g}; expected 1")
    array /= array.sum()
    return array


def over_one_vocabulary(models: list[NgramModel]) -> list[NgramModel]:
    """The models over the union of their vocabularies."""
    vocab, ids = join_vocabularies([model.vocab for model in models])
    return [over_vocabulary(model, vocab, labels) for model, labels in zip(models, ids, strict=True)]


def mix(models: Sequence[NgramModel], weights: Sequence[float] | Array) -> NgramModel:
    """The interpolated model: see `mdi.mix`, which takes files too."""
    check_weights(weights, len(models))
    models = over_one_vocabulary(list(models))
    largest = _larger(models)
    models[largest] = copied(models[largest])
    return mix_in_place(models, weights)


def _larger(models: Sequence[NgramModel]) -> int:
    """Of the first two. a + b + c = b + a + c to the last bit, but not c + a + b: whichever of these two is larger,
    sums are the same as in the order of the models."""
    size = [sum(model.trie.counts) for model in models[:2]]
    return size.index(max(size))


def mix_in_place(models: Sequence[NgramModel], weights: Sequence[float] | Array) -> NgramModel:
    """The same; the larger of the first two models becomes it, if the tries of all are closed."""
    weights = check_weights(weights, len(models))
    models = over_one_vocabulary(list(models))
    largest = _larger(models)
    base, others = models[largest], [(i, model) for i, model in enumerate(models) if i != largest]
    own = None if all(is_closed(model.trie) for model in models) else [model.trie for model in models]
    wide = with_suffixes(base)
    wide = copied(base) if wide is base and own is not None else wide
    for _, model in others:
        extend(wide, model.trie)
    trie, p = wide.trie, wide.p
    p[1] = weights @ [wide.p[1] if i == largest else model.p[1] for i, model in enumerate(models)]
    for part in p[2:]:
        part *= weights[largest]
    for i, model in others:
        _add(model, weights[i], trie, p)
    if own is None:
        return weighted(wide.vocab, trie, p)
    keep = trie.flags([NONE] * (trie.order + 1))
    for trie_i in own:
        for flags, rows in zip(keep[1:], locate(trie_i, trie)[1:], strict=False):
            flags[rows] = True
    return without(weighted(wide.vocab, trie, p, keep), keep)


def _add(model: NgramModel, weight: float, trie: Trie, p: list[Array]) -> None:
    """p[k] += weight p(w|h) by the model for every n-gram hw, k >= 2, of a larger trie."""
    own, lower = model.trie, model.p[1]
    where = own.word[1]
    for k in range(2, trie.order + 1):
        known = KnownRows(NONE, np.zeros(0), NONE, np.zeros(0))
        if k <= model.order:
            hist = scattered(trie.as_hist[k - 1][where], own.as_hist[k - 1])
            where = linked(own.branches(k), hist, trie.branches(k))
            known = KnownRows(hist, model.bow[k - 1], where, model.p[k])
        lower = kernels.add_mixed(trie.level(k), lower, known, weight, p[k], k < trie.order)
