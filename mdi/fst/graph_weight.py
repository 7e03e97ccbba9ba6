"""The weight of a language model and a penalty per word, written into the costs of the graph that decodes with it.

    cost'(w|h) = W (-ln p(w|h)) + P        cost'(</s>|h) = W (-ln p(</s>|h))        back-off'(h) = W (-ln bow(h))

A decoder whose LM weight cannot be chosen, as libvosk's, then decodes at the weight W. Such a graph is no distribution.
What says so travels with the file: the name of the symbol table inside ends in '(mdi: lm-weight W, word-penalty P)'.
Whoever reads the file here gets the model without both. Costs have 32 bits, with the weight and without: of two that
the weight has made one, either may come back. Put in again, the weight gives the same file, bit for bit.
"""

import re
from dataclasses import dataclass

import numpy as np

from mdi.errors import OptionError, check_positive
from mdi.kernels.backoff_fst import Machine
from mdi.lm.model import NgramModel
from mdi.lm.trie import Array

_MARK = re.compile(r" ?\(mdi: lm-weight ([0-9.e+-]+), word-penalty ([0-9.e+-]+)\)$")
# Beyond these nothing can be decoded, and 32 bits would not do.
_MOST_WEIGHT, _MOST_PENALTY = 100.0, 50.0


@dataclass(frozen=True)
class GraphWeight:
    lm_weight: float = 1.0
    word_penalty: float = 0.0

    def __post_init__(self) -> None:
        check_positive("lm_weight", self.lm_weight)
        if not self.lm_weight <= _MOST_WEIGHT:
            raise OptionError("lm_weight", self.lm_weight, f"a factor of the model's costs, at most {_MOST_WEIGHT:g}")
        if not abs(self.word_penalty) <= _MOST_PENALTY:
            raise OptionError("word_penalty", self.word_penalty, f"a cost per word, at most {_MOST_PENALTY:g}")

    def __bool__(self) -> bool:
        return self != UNWEIGHTED

    def __str__(self) -> str:
        return f"LM weight {self.lm_weight:g}, word penalty {self.word_penalty:g}"

    def named(self, name: str) -> str:
        """The name of a symbol table with the weight in it."""
        mark = f"(mdi: lm-weight {self.lm_weight!r}, word-penalty {self.word_penalty!r})"
        return f"{name} {mark}".lstrip() if self else name

    def put_into(self, cost: Array, words: bool) -> Array:
        """Costs with the weight, and those of `words` with the penalty."""
        return (self.lm_weight * cost.astype(float) + (self.word_penalty if words else 0.0)).astype(np.float32)

    def taken_from(self, cost: Array, words: bool) -> Array:
        """The inverse. A cost that is no number stays none: whoever reads the file refuses it."""
        with np.errstate(invalid="ignore"):
            return ((cost.astype(float) - (self.word_penalty if words else 0.0)) / self.lm_weight).astype(np.float32)


UNWEIGHTED = GraphWeight()


def split_name(name: str) -> tuple[str, GraphWeight]:
    """(the name of a symbol table as it was, the weight in it)"""
    if not (found := _MARK.search(name)):
        return name, UNWEIGHTED
    try:
        return name[: found.start()], GraphWeight(float(found[1]), float(found[2]))
    except (ValueError, OptionError):  # somebody else's name
        return name, UNWEIGHTED


def with_weight(model: NgramModel, weight: GraphWeight) -> NgramModel:
    """p^W exp(-P), and p^W for </s>; bow^W: a back-off model in form, whose costs are those above."""
    if not weight:
        return model
    factor = np.full(len(model.vocab), np.exp(-weight.word_penalty))
    factor[model.vocab.eos] = 1.0
    p = [model.p[0]]
    p += [model.p[k] ** weight.lm_weight * factor[model.trie.word[k]] for k in range(1, model.order + 1)]
    return NgramModel(model.vocab, model.trie, p, [bow**weight.lm_weight for bow in model.bow])


def without_weight(machine: Machine, weight: GraphWeight) -> Machine:
    """The model's own automaton, from one to decode with."""
    if not weight:
        return machine
    return machine._replace(
        cost=weight.taken_from(machine.cost, True),
        final=weight.taken_from(machine.final, False),
        back_cost=weight.taken_from(machine.back_cost, False),
    )
