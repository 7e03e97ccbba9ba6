"""Interpolates models linearly, as SRILM's ngram -mix-lm does.

The result has the n-grams of all models, with probabilities that are weighted sums of theirs, and is normalised. --tune
finds the weights under which development text is most likely, by expectation maximisation over its tokens, as SRILM's
compute-best-mix does. Models may differ in order (shorter ones back off) and in words (a word that a model lacks has
probability 0 there).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.commands import options
from mdi.commands.inputs import read_model, warn_of_unknown
from mdi.commands.outputs import check_model_output, check_numbered, save_model
from mdi.errors import MdiError, UsageError, examples
from mdi.progress import Progress, detail, say, set_verbose

if TYPE_CHECKING:
    from mdi.lm.model import NgramModel
    from mdi.lm.text import TextStats
    from mdi.lm.trie import Array
    from mdi.lm.vocabulary import Vocabulary

OPTIONS = f"""
[one of]
--tune TEXT*  development text to tune the weights on; may be repeated
--weights A,B,...  weights of the models, which sum to 1
[]
--verbose true|false = false  print every iteration
--delta A.delta*  one model more: the first LM as this file of mdi adapt --delta adapts it; may be repeated
lms LM+  two or more models in any form, plain or gzipped
out OUT  the mixture (.gz by suffix, - for standard output); OUT.json says how it was made
{options.MODELS}
{options.IN_SHARDS}
"""


def run(args: argparse.Namespace) -> None:
    import numpy as np

    from mdi.lm.mix import check_weights

    set_verbose(args.verbose)
    names = [*args.lms, *(f"{args.lms[0]} + {delta}" for delta in args.delta)]
    if len(names) < 2:
        raise UsageError(
            f"one model only ({args.lms[0]}) and the output {args.out}; expected two models or more, then the output"
        )
    check_model_output(args.out, args, args.lms)
    weights = np.zeros(0) if args.tune else check_weights(_numbers(args.weights), len(names))
    with options.sharding(args, args.out, [*args.lms, *args.delta, *args.tune], args.memory):
        _mix(args, names, weights)


def _mix(args: argparse.Namespace, names: list[str], weights: "Array") -> None:
    """`weights`: none where development text is to choose them."""
    from mdi.adaptation.delta import apply_delta
    from mdi.lm.mix import mix_in_place, over_one_vocabulary
    from mdi.lm.model import with_suffixes
    from mdi.lm.normalise import warn_unless_normalised
    from mdi.lm.perplexity import perplexity_of

    models = []
    for path in args.lms:
        models.append(read_model(path, args, closed=False))
        warn_unless_normalised(path, models[-1])
    if args.delta:
        first = with_suffixes(models[0])
        models += [apply_delta(first, delta, args.lms[0]) for delta in args.delta]
    _describe(names, [model.order for model in models], [model.vocab for model in models])
    models = over_one_vocabulary(models)
    check_numbered(args.out, args, args.lms, models[0].vocab)
    about: dict[str, Any] = {"command": "mix", "models": names}
    if args.tune:
        ids, stats = _read_development(args.tune, models[0].vocab)
        weights, tuning = _tune(models, ids)
        about["tuning"] = {"texts": args.tune, **tuning}
    model = mix_in_place(models, weights)
    del models
    if args.tune:
        result = perplexity_of(with_suffixes(model), [ids], stats)
        about["development"] = result.as_dict()
        say(f"perplexity of the mixture on the development text: {result.ppl:.7g}")
    fields = save_model(model, args.out, args, args.lms, {**about, "weights": weights})
    parts = ", ".join(f"{weight:.6f} {path}" for weight, path in zip(weights, names, strict=True))
    say(f"{args.out}: {' / '.join(f'{n:,}' for n in fields['ngrams'])} n-grams = {parts}")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--weights {text}; expected numbers separated by commas, such as 0.7,0.3") from None


def _describe(paths: list[str], orders: list[int], vocabs: "list[Vocabulary]") -> None:
    """Says what the models do not have in common."""
    if len(set(orders)) > 1:
        say(f"models of order {', '.join(map(str, orders))}: mixed at order {max(orders)}, the lower ones back off")
    names = [vocab.word(vocab.unk) if vocab.unk >= 0 else None for vocab in vocabs]
    first = next((name for name in names if name), None)
    for path, name in zip(paths, names, strict=True):
        if first and name is None:
            say(f"{path}: no unknown word; {first} has probability 0 in it")
        elif name != first:
            say(f"{path}: its unknown word {name} is taken as {first}")
    words = [set(vocab.words) - {name} for vocab, name in zip(vocabs, names, strict=True)]
    union = set().union(*words)
    for path, known in zip(paths, words, strict=True):
        if missing := sorted(union - known):
            say(
                f"WARNING: {path}: lacks {len(missing):,} of {len(union):,} words, with probability 0 in it: "
                f"{examples(missing)}. Build the models over one vocabulary (mdi vocab, mdi train --vocab)"
            )


def _read_development(texts: list[str], vocab: "Vocabulary") -> "tuple[Array, TextStats]":
    """The tokens, and what there is to say about their words."""
    import numpy as np

    from mdi.lm.text import Text

    text = Text(list(map(Path, texts)), vocab)
    ids = np.concatenate(list(text))
    stats = text.stats
    if stats.oov == stats.words:
        raise MdiError(
            f"{', '.join(texts)}: none of its {stats.words:,} words is in a model ({examples(stats.oov_examples)}); "
            f"expected development text in the models' words. Check its case and normalisation"
        )
    if stats.oov:
        how = "taken as the unknown word" if vocab.unk >= 0 else "passed over"
        say(
            f"development text: {stats.oov:,} of {stats.words:,} words are in no model, {how}: "
            f"{examples(stats.oov_examples)}"
        )
    warn_of_unknown("development", stats.oov, stats.words, vocab.unk >= 0)
    return ids, stats


def _tune(models: "Sequence[NgramModel]", ids: "Array") -> "tuple[Array, dict[str, float]]":
    """(weights, what the certificate says of them)"""
    from mdi.lm.mix import em_steps, impossible_tokens, predicted_probs

    probs = predicted_probs(list(models), ids)
    tokens, impossible = len(probs[0]), impossible_tokens(models[0].vocab, ids, probs)
    if impossible:
        say(
            f"WARNING: {impossible:,} of {tokens:,} tokens of the development text have probability 0 in every model; "
            f"weights and perplexities are those of the rest"
        )
    with Progress("tuning the weights", unit="iterations") as progress:
        for iteration, (weights, ppl) in enumerate(em_steps(probs), 1):
            shown = f"weights {' '.join(f'{w:.6f}' for w in weights)}, ppl {ppl:.6g}"
            progress.update(iteration, shown)
            detail(f"iteration {iteration}, {shown}")
    say(f"tuned in {iteration} iterations: {shown}")
    counts = {"iterations": iteration, "tokens": tokens - impossible, "zeroprobs": impossible}
    return weights, {**counts, "dynamic_ppl": ppl}
