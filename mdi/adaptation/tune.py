"""The best model that background, in-domain text and development text allow.

An adapted background mixed with the in-domain model, and with the background itself so that plain interpolation is
among the choices:

    p = w1 p_ad + w2 p_in + w3 p_bg

What is searched on development text: thresholds and the variance of the prior on lambda, both by order. The weights are
EM's for each choice. The in-domain model may be one order longer than the background.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mdi.adaptation.adapted import Adapted
from mdi.adaptation.adapter import Adapter
from mdi.adaptation.problem import Variances, onto
from mdi.adaptation.solver import USUAL, SolverSettings
from mdi.adaptation.tuner import GRID_SETS, PAPER_SETS, Setting, Trial, Tuner, check_choices, fitting, mixture_ppl
from mdi.errors import MdiError, check_positive, check_whole
from mdi.fst.given import ModelLike, as_model
from mdi.lm.counts import Counts, count_text
from mdi.lm.estimate import estimate
from mdi.lm.mix import em_weights, mix, predicted_probs
from mdi.lm.model import NgramModel
from mdi.lm.new_words import NewWordsLike
from mdi.lm.perplexity import Perplexity, perplexity_of
from mdi.lm.text import Text, TextLike, TextStats, rereadable
from mdi.lm.thresholds import Thresholds, listed
from mdi.lm.trie import MAX_ORDER, Array

if TYPE_CHECKING:
    import pandas

# Static mixtures differ from what EM sees by less than this: alternatives this close are made and compared.
STATIC_MARGIN = 0.02


@dataclass(frozen=True, repr=False, eq=False)
class Tuned:
    """The best model, and how it was found."""

    model: NgramModel
    adapted: Adapted  # the adapted component
    setting: Setting
    weights: dict[str, float]  # by component: adapted, the in-domain models, the background
    development: Perplexity  # of `model`
    interpolation: float  # development perplexity of plain interpolation, by the same in-domain model
    in_domain: dict[str, float]  # development perplexity of each in-domain model alone
    background: float  # the background's
    trials: list[Trial] = field(default_factory=list)
    ended: str = ""

    def __repr__(self) -> str:
        return f"<Tuned: {self.setting}; development perplexity {self.development.ppl:.5g}>"

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False)

    def table(self) -> "pandas.DataFrame":
        """What was tried, in the order in which it was."""
        import pandas

        rows = [
            {
                "min_counts": t.setting.min_counts,
                "sigma2": t.setting.prior,
                "constraints": t.constraints,
                "iterations": t.iterations,
                "seconds": round(t.seconds, 2),
                "ppl_alone": t.ppl_alone,
                "ppl_mixed": t.ppl_mixed,
                "weights": " ".join(f"{w:.3f}" for w in t.weights),
                "chosen": t.setting == self.setting,
            }
            for t in self.trials
        ]
        return pandas.DataFrame(rows)

    def references(self) -> dict[str, float]:
        """Development perplexities to compare with, by name."""
        names = [name.rsplit("/", 1)[-1] for name in self.in_domain] if len(self.in_domain) > 1 else ["in-domain"]
        alone = {f"{name} alone": ppl for name, ppl in zip(names, self.in_domain.values(), strict=True)}
        return alone | {"interpolation": self.interpolation, "background alone": self.background}


def in_domain_models(
    counts: Counts, text: TextLike | None, order: int, development: Array, oov: str
) -> dict[str, NgramModel]:
    """The interpolated Kneser-Ney model of the text, of the order of `counts` or, where it predicts the development
    text better, of up to `order`."""
    found = {counts.order: estimate(counts, "kn-interpolated", [1] * counts.order).model}
    if text is not None and order > counts.order:
        longer = count_text(text, counts.vocab, order, oov)
        if all(longer.trie.counts):
            found[order] = estimate(longer, "kn-interpolated", [1] * order).model
    ppl = {k: mixture_ppl(np.ones(1), predicted_probs([model], development)) for k, model in found.items()}
    best = min(ppl, key=lambda k: ppl[k])
    return {f"interpolated Kneser-Ney of the in-domain text, order {best}": found[best]}


def tune(
    background: ModelLike,
    text: TextLike | Counts,
    development: TextLike,
    *,
    mix_with: Mapping[str, ModelLike] | None = None,
    max_order: int | None = None,
    min_counts: Thresholds | Sequence[Thresholds] | None = None,
    sigma2: Variances | Sequence[Variances] = None,
    sets: Thresholds | Sequence[Thresholds] | None = None,
    max_settings: int = 32,
    targets: ModelLike = "ml",
    history: ModelLike | None = None,
    new_words: NewWordsLike = "add",
    settings: SolverSettings | None = USUAL,
    threads: int = 2,
    allow_unnormalized: bool = False,
    report: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Searches for the best model on development text: an adapted background, mixed with in-domain models and itself.

    The result is never worse on the development text than what it is made of: in-domain models alone, plain
    interpolation, the adapted models of `sets`.

    Parameters
    ----------
    background, text, targets, history, new_words, settings, threads, allow_unnormalized
        As of `adapt`.
    development
        Text to choose by, none of which is in `text`.
    mix_with
        In-domain models, or their files, by name (an interpolated Kneser-Ney model of the text, which may be one order
        longer than the background where that helps).
    max_order
        Limits the order of that model.
    min_counts, sigma2
        Try just these thresholds and variances ("none": no prior) instead of searching. A tuple or list is several.
    sets
        Thresholds that are tried in any case, with and without a prior (the paper's).
    max_settings
        End the search after so many.
    report
        Called with every `Trial`.

    Returns
    -------
    Tuned
        The best model (`.model`) and how it was found (`.table()`). `mdi.save` writes it.
    """
    check_positive("max_settings", max_settings)
    check_choices(min_counts, sigma2, sets)
    text = text if isinstance(text, Counts) else rereadable(text)
    how: dict[str, Any] = {"targets": targets, "history": history, "new_words": new_words, "threads": threads}
    adapter = Adapter(background, text, allow_unnormalized=allow_unnormalized, **how)
    background = adapter.background
    check_choices(min_counts, sigma2, sets, adapter.order)
    max_order = adapter.order + 1 if max_order is None else max_order
    check_whole("max_order", max_order, adapter.order, MAX_ORDER, " (the background's order)")
    source = Text(development, background.vocab)
    ids = np.concatenate(list(source))
    if source.stats.oov == source.stats.words:
        raise MdiError(f"{source.sources[0]}: none of its words is in the background; check its case and normalisation")
    if mix_with:
        models = {name: onto(as_model(model, name), background.vocab, name) for name, model in mix_with.items()}
    else:
        again = None if isinstance(text, Counts) else text
        models = in_domain_models(adapter.counts, again, max_order, ids, "drop" if new_words == "drop" else "map")
    components = {**models, "background": background}
    tuner = Tuner(adapter, ids, list(components.values()), settings=settings, report=report)
    least, priors = ([] if given is None else listed(given) for given in (min_counts, sigma2))
    if least or priors:
        tuner.grid(least or fitting(GRID_SETS, adapter.order), priors or [1.0])
    else:
        tuner.search(max_settings, fitting(PAPER_SETS, adapter.order) if sets is None else listed(sets))
    return _finished(tuner, components, source.stats)


def _finished(tuner: Tuner, components: dict[str, NgramModel], stats: TextStats) -> Tuned:
    """The static mixture of the best trial, unless something simpler turns out better than it."""
    trial, adapted, weights = tuner.finish()
    named = {"adapted": adapted.model, **components}
    alone = {name: mixture_ppl(np.ones(1), [p]) for name, p in zip(components, tuner.others, strict=True)}
    background = alone.pop("background")
    plain = em_weights(tuner.others)
    interpolation = mixture_ppl(plain, tuner.others)
    model = mix(list(named.values()), weights)
    result = perplexity_of(model, [tuner.ids], stats)
    # what EM saw is not quite what a static mixture gives: close rivals are made and compared
    rivals: list[tuple[float, list[float]]] = [(interpolation, [0.0, *plain.tolist()])]
    rivals += [(ppl, [float(name == one) for one in named]) for name, ppl in alone.items()]
    rivals.append((trial.ppl_alone, [float(name == "adapted") for name in named]))
    for ppl, other in rivals:
        if ppl < result.ppl * (1 + STATIC_MARGIN):
            rival = mix(list(named.values()), other)
            found = perplexity_of(rival, [tuner.ids], stats)
            if found.ppl < result.ppl:
                model, result, weights = rival, found, other
    return Tuned(
        model,
        adapted,
        trial.setting,
        dict(zip(named, weights, strict=True)),
        result,
        interpolation,
        alone,
        background,
        list(tuner.trials.values()),
        tuner.ended,
    )
