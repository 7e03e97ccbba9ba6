"""Word error rate: Kaldi's counts, its bootstrap, and whether two systems differ. kaldialign does the alignment."""

from collections.abc import Mapping
from dataclasses import dataclass

import kaldialign
import numpy as np

from mdi.errors import MdiError, examples
from mdi.kernels.wer import bootstrap
from mdi.speech.data import Words

REPLICATIONS = 10_000


@dataclass(frozen=True)
class Errors:
    """Of each utterance that was scored: its words, and its insertions, deletions and substitutions."""

    utterances: list[str]
    words: np.ndarray
    insertions: np.ndarray
    deletions: np.ndarray
    substitutions: np.ndarray
    wrong: int  # sentences with at least one error
    absent: int

    @property
    def total(self) -> np.ndarray:
        return np.asarray(self.insertions + self.deletions + self.substitutions)

    @property
    def rate(self) -> float:
        """WER in percent; an empty reference makes every inserted word an error without a rate."""
        return 100.0 * float(self.total.sum()) / max(1, int(self.words.sum()))

    def summary(self) -> str:
        """The line that Kaldi's scripts look for."""
        return (
            f"%WER {self.rate:.2f} [ {self.total.sum()} / {self.words.sum()}, {self.insertions.sum()} ins,"
            f" {self.deletions.sum()} del, {self.substitutions.sum()} sub ]{' [PARTIAL]' if self.absent else ''}"
        )

    def report(self) -> str:
        """What compute-wer prints."""
        n = len(self.utterances)
        return (
            f"{self.summary()}\n%SER {100.0 * self.wrong / max(1, n):.2f} [ {self.wrong} / {n} ]\n"
            f"Scored {n} sentences, {self.absent} not present in hyp.\n"
        )


def compute_wer(references: Mapping[str, Words], hypotheses: Mapping[str, Words], mode: str = "strict") -> Errors:
    """Kaldi's compute-wer: utterances without a hypothesis are an error, left out (present) or taken as empty (all)."""
    absent = [utterance for utterance in references if utterance not in hypotheses]
    if absent and mode == "strict":
        raise MdiError(
            f"no hypothesis for {len(absent):,} utterances: {examples(absent)}; decode them, or use --mode all"
        )
    scored = [utterance for utterance in references if mode == "all" or utterance in hypotheses]
    if not scored:
        raise MdiError("no utterance has both a reference and a hypothesis; are these the texts of the same data?")
    counts, wrong = np.zeros((4, len(scored)), np.int64), 0
    for i, utterance in enumerate(scored):
        reference, hypothesis = references[utterance], hypotheses.get(utterance, [])
        found = kaldialign.edit_distance(reference, hypothesis)
        counts[:, i] = len(reference), found["ins"], found["del"], found["sub"]
        wrong += reference != hypothesis
    return Errors(scored, counts[0], counts[1], counts[2], counts[3], wrong, len(absent))


@dataclass(frozen=True)
class Interval:
    """WER in percent, as compute-wer-bootci gives it: the mean over the replications and where 95% of them lie."""

    mean: float
    half: float

    def line(self, name: str) -> str:
        low, high = self.mean - self.half, self.mean + self.half
        return f"{name}: %WER {self.mean:.2f} 95% Conf Interval [ {low:.2f}, {high:.2f} ]\n"


def confidence(errors: Errors) -> Interval:
    return Interval(*_bootstrap(errors, np.zeros(0, np.int64))[:2])


def improvement(errors: Errors, other: Errors) -> tuple[Interval, Interval, float]:
    """(interval, the other system's, share of the replications in percent in which the other one makes fewer
    errors)."""
    if errors.utterances != other.utterances:
        raise MdiError("the two systems were scored on different utterances; score both on the same text")
    result = _bootstrap(errors, other.total)
    return Interval(*result[:2]), Interval(*result[2:4]), result[4]


def _bootstrap(errors: Errors, second: np.ndarray) -> list[float]:
    result = np.zeros(5)
    bootstrap(errors.total, errors.words, second, REPLICATIONS, result)
    return [100.0 * float(value) for value in result.astype(np.float32)]


def sign_flip_p(errors: Errors, other: Errors) -> float:
    """Two-sided p of the paired permutation test: had the two systems' results been exchanged at random, utterance by
    utterance, how often would the totals be at least as far apart?"""
    gain = (errors.total - other.total).astype(np.int32)
    gain = gain[gain != 0]
    if not len(gain):
        return 1.0
    random = np.random.default_rng(1)
    far, batch = 0, 500  # so many replications at a time: a matrix of signs for all of them would be large
    for _ in range(REPLICATIONS // batch):
        signs = 2 * random.integers(0, 2, (batch, len(gain)), dtype=np.int8).astype(np.int32) - 1
        far += int((np.abs(signs @ gain) >= abs(int(gain.sum()))).sum())
    return (1 + far) / (1 + REPLICATIONS)


def align(reference: Words, hypothesis: Words) -> list[tuple[str, str]]:
    """Pairs of words; '***' where one has none."""
    return list(kaldialign.align(reference, hypothesis, "***"))
