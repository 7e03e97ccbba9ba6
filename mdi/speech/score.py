"""Lattices or words, and references, to word error rates, in the files that Kaldi's scoring leaves behind.

wer_<LMWT>_<WIP>                         what compute-wer prints
scoring_kaldi/test_filt.txt              the references as scored
scoring_kaldi/penalty_<WIP>/<LMWT>.txt   the hypotheses
scoring_kaldi/best_wer                   the lowest WER's line and file
scoring_kaldi/wer_details/               lmwt, wip, per_utt, per_spk, ops, wer_bootci; of lattices also
                                         oracle_wer and depth
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mdi.errors import MdiError
from mdi.files import write_file
from mdi.fst.symbols import SymbolTable
from mdi.lm.vocabulary import UNKNOWN, to_bytes, to_str
from mdi.progress import Progress
from mdi.speech.data import Words, fields, read_text
from mdi.speech.lattice import Lattice, best_path, depth, n_frames, oracle
from mdi.speech.mbr import minimum_risk
from mdi.speech.wer import Errors, align, compute_wer, confidence, improvement, sign_flip_p

Point = tuple[int, str]  # LM weight and word-insertion penalty, as they are in file names
AS_RECOGNISED: Point = (1, "0.0")  # of words that come without lattices: nothing was weighed


@dataclass
class BestPaths:
    """The hypotheses of all lattices at each point, and what the lattices are like; `utterances` are those that have
    one."""

    hypotheses: dict[Point, dict[str, Words]]
    oracle_errors: int = 0
    oracle_words: int = 0
    frames: int = 0
    arc_frames: float = 0.0
    utterances: list[str] = field(default_factory=list)

    @property
    def oracle_rate(self) -> float:
        return 100.0 * self.oracle_errors / max(1, self.oracle_words)

    @property
    def depth(self) -> float:
        """Kaldi's density: arcs that cross a frame."""
        return self.arc_frames / max(1, self.frames)


def best_paths(
    lattices: Iterable[Lattice],
    symbols: SymbolTable,
    references: dict[str, Words],
    points: list[Point],
    mbr: bool = False,
) -> BestPaths:
    """`mbr`: the words of least expected error at each point, not those of the best path."""
    result = BestPaths({point: {} for point in points})
    unknown = next((symbols.ids[word] for word in UNKNOWN if word in symbols.ids), -1)
    progress = Progress("scoring", None, "lattices")
    for lattice in lattices:
        if lattice.utterance in result.hypotheses[points[0]]:
            raise MdiError(
                f"two lattices of utterance {lattice.utterance}; expected one. Are there archives of an older decoding?"
            )
        for point in points:
            path = (minimum_risk if mbr else best_path)(lattice, float(point[0]), float(point[1]))
            result.hypotheses[point][lattice.utterance] = symbols.spell(path.words)
        reference = references.get(lattice.utterance)
        if reference is not None:
            labels = np.array([symbols.ids.get(word, unknown) for word in reference], np.int32)
            result.oracle_errors += oracle(lattice, labels)
            result.oracle_words += len(reference)
        frames = n_frames(lattice)
        result.frames += frames
        result.arc_frames += depth(lattice) * frames
        result.utterances.append(lattice.utterance)
        progress.update(len(result.utterances))
    progress.close()
    if not result.utterances:
        raise MdiError("no lattices; expected at least one. Decode first")
    return result


def filtered(texts: dict[str, Words], program: str | None) -> dict[str, Words]:
    """The texts after a recipe's local/wer_hyp_filter or wer_ref_filter, which reads and writes 'utterance words'
    lines."""
    if not program:
        return texts
    done = subprocess.run([program], input=to_bytes(_lines(texts)), capture_output=True)  # noqa: S603 - a list of arguments, no shell
    if done.returncode:
        raise MdiError(f"{program}: failed with code {done.returncode}: {to_str(done.stderr).strip()[:200]}")
    return {words[0]: words[1:] for words in map(fields, done.stdout.split(b"\n")) if words}


def _lines(texts: dict[str, Words]) -> str:
    return "".join(f"{utterance} {' '.join(words)}\n" for utterance, words in texts.items())


def _operation(reference: str, hypothesis: str) -> str:
    if hypothesis == "***":
        return "deletion"
    return "insertion" if reference == "***" else "correct" if reference == hypothesis else "substitution"


def _operations(alignments: dict[str, list[tuple[str, str]]]) -> str:
    """Kaldi's wer_ops_details.pl: what became of which word how often."""
    times = Counter(pair for pairs in alignments.values() for pair in pairs)
    rows = sorted((_operation(*pair), -n, *pair) for pair, n in times.items())
    width = min(16, max((len(word) for pair in times for word in pair), default=0))
    digits = len(str(max(times.values(), default=0)))
    return "".join(f"{name:<12}  {r:>{width}}    {h:>{width}}    {-n:>{digits}}\n" for name, n, r, h in rows)


def _per_utterance(alignments: dict[str, list[tuple[str, str]]]) -> str:
    """Kaldi's wer_per_utt_details.pl: words one above the other, and the counts of correct, sub, ins, del."""
    out = []
    for utterance, pairs in alignments.items():
        operations = [_operation(*pair)[0].upper() for pair in pairs]
        widths = [max(len(r), len(h), 1) for r, h in pairs]
        for name, column in (("ref ", [r for r, _ in pairs]), ("hyp ", [h for _, h in pairs]), ("op  ", operations)):
            # in the middle; a blank that is over stands on the left
            cells = (
                x.rjust(width - (width - len(x)) // 2).ljust(width) for x, width in zip(column, widths, strict=True)
            )
            out.append(f"{utterance} {name} {'  '.join(cells)}")
        out.append(f"{utterance} #csid {' '.join(str(operations.count(x)) for x in 'CSID')}")
    return "\n".join(out) + "\n"


def _per_speaker(errors: Errors, speaker_of: dict[str, str]) -> str:
    """Kaldi's wer_per_spk_details.pl: a raw line and one in percent a speaker."""
    width = max([15, *(len(s) for s in speaker_of.values())])
    head = ("#SENT", "#WORD", "Corr", "Sub", "Ins", "Del", "Err", "S.Err")
    out = [f"{'SPEAKER':<{width}} id  " + " ".join(f"{x:>10}" for x in head)]
    speakers = np.array([speaker_of[u] for u in errors.utterances])
    for speaker in [*sorted(set(speakers.tolist())), None]:
        here = speakers == speaker if speaker is not None else np.ones(len(speakers), bool)
        n, words, total = int(here.sum()), int(errors.words[here].sum()), errors.total[here]
        s, i, d = (int(x[here].sum()) for x in (errors.substitutions, errors.insertions, errors.deletions))
        row = (words - s - d, s, i, d, s + i + d, int((total > 0).sum()))
        name = f"{speaker or 'SUM':<{width}}"
        out.append(f"{name} raw {n:>10} {words:>10} " + " ".join(f"{x:>10}" for x in row))
        if words:
            rates = [100.0 * x / words for x in row[:-1]] + [100.0 * row[-1] / n]
            out.append(f"{name} sys {n:>10} {words:>10} " + " ".join(f"{x:>10.2f}" for x in rates))
    return "\n".join(out) + "\n"


def write_scores(
    folder: str,
    found: BestPaths,
    references: dict[str, Words],
    speaker_of: dict[str, str],
    mode: str,
    hyp_filter: str | None = None,
) -> tuple[Point, dict[Point, Errors]]:
    """(the best point, the errors of every point), in Kaldi's files too. The best point is that of the lowest WER, the
    first one among equals."""
    root = Path(folder)
    scoring = root / "scoring_kaldi"
    write_file(scoring / "test_filt.txt", _lines(references))
    for old in root.glob("wer_*_*"):  # of an earlier scoring: whoever looks for the lowest would find them
        if re.fullmatch(r"wer_\d+_[\d.]+", old.name):
            old.unlink()
    by_point: dict[Point, Errors] = {}
    hypotheses: dict[Point, dict[str, Words]] = {}
    for point, texts in found.hypotheses.items():
        hypotheses[point] = filtered(texts, hyp_filter)
        by_point[point] = compute_wer(references, hypotheses[point], mode)
        write_file(scoring / f"penalty_{point[1]}" / f"{point[0]}.txt", _lines(hypotheses[point]))
        write_file(root / f"wer_{point[0]}_{point[1]}", by_point[point].report())
    point = min(by_point, key=lambda p: by_point[p].rate)
    errors = by_point[point]
    details = scoring / "wer_details"
    write_file(details / "lmwt", f"{point[0]}\n")
    write_file(details / "wip", f"{point[1]}\n")
    alignments = {u: align(references[u], hypotheses[point].get(u, [])) for u in errors.utterances}
    write_file(details / "per_utt", _per_utterance(alignments))
    write_file(details / "ops", _operations(alignments))
    if all(utterance in speaker_of for utterance in errors.utterances):
        write_file(details / "per_spk", _per_speaker(errors, speaker_of))
    write_file(details / "wer_bootci", confidence(errors).line("Set1"))
    for name in ("oracle_wer", "depth"):  # of an earlier scoring of lattices
        (details / name).unlink(missing_ok=True)
    if found.utterances:
        oracle_errors = f"[ {found.oracle_errors} / {found.oracle_words} ]"
        write_file(details / "oracle_wer", f"%WER {found.oracle_rate:.2f} {oracle_errors}\n")
        write_file(details / "depth", f"Overall density is {found.depth:.6g} over {found.frames} frames.\n")
    _sclite(root, point, references, hypotheses[point], speaker_of)
    write_file(scoring / "best_wer", f"{errors.summary()} {root / f'wer_{point[0]}_{point[1]}'}\n")
    return point, by_point


def _sclite(
    root: Path, point: Point, references: dict[str, Words], hypotheses: dict[str, Words], speaker_of: dict[str, str]
) -> None:
    """NIST's report beside ours, where SCTK is installed: score_<LMWT>_<WIP>/hyp.trn.sys."""
    found, wrapper = shutil.which("sclite"), shutil.which("sctk")  # Debian's wrapper
    if not found and not wrapper:
        return
    program = [found] if found else [str(wrapper), "sclite"]
    folder = root / f"score_{point[0]}_{point[1]}"
    for name, texts in (("ref", references), ("hyp", hypotheses)):
        # sclite takes what comes before the last '-' or '_' for the speaker
        rows = (f"{' '.join(texts[u])} ({speaker_of.get(u, 'all')}-{u})\n" for u in references if u in hypotheses)
        write_file(folder / f"{name}.trn", "".join(rows))
    command = [*program, "-r", "ref.trn", "trn", "-h", "hyp.trn", "trn", "-i", "rm", "-o", "sum", "dtl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)  # noqa: S603 - a list of arguments, no shell
    if done.returncode or not (folder / "hyp.trn.sys").exists():
        raise MdiError(f"sclite failed with code {done.returncode}: {(done.stderr or done.stdout).strip()[:200]}")


def best_point(folder: str) -> Point:
    """The point that an earlier scoring of this folder chose."""
    details = Path(folder) / "scoring_kaldi" / "wer_details"
    try:
        weight, penalty = (details / "lmwt").read_text().strip(), (details / "wip").read_text().strip()
        return int(weight), penalty
    except (OSError, ValueError) as error:
        raise MdiError(
            f"{details}: no lmwt and wip; expected the directory of a scored development set. Run mdi score on it"
        ) from error


def compare(folder: str, others: list[str], references: dict[str, Words], mode: str) -> str:
    """Whether `folder` is better than each of the others, all at their own best points; also in
    scoring_kaldi/wer_details/comparison."""
    errors = {}
    for path in (folder, *others):
        weight, penalty = best_point(path)
        hypotheses = read_text(str(Path(path) / "scoring_kaldi" / f"penalty_{penalty}" / f"{weight}.txt"))
        errors[path] = compute_wer(references, hypotheses, mode)
    return write_comparisons(folder, [comparison(folder, other, errors[other], errors[folder]) for other in others])


def comparison(folder: str, other: str, first: Errors, second: Errors, over: str = "") -> str:
    """`second` is of `folder`; `over` says what was drawn and paired where that is not the utterance."""
    one, two, improved = improvement(first, second)
    return (
        f"WERs as scored: {second.rate:.2f}, against {first.rate:.2f} of {other}. Below, as Kaldi's compute-wer-bootci "
        f"has it, the means of a bootstrap, which differ a little\n"
        f"{one.line('Set1')}{two.line('Set2')}Probability of Set2 improving Set1: {improved:.2f}\n"
        f"Difference of the WERs: {second.rate - first.rate:+.2f}, p = {sign_flip_p(first, second):.4f} (paired "
        f"permutation test"
        f"{over}, two-sided)\nSet1 is {other}, Set2 is {folder}\n"
    )


def write_comparisons(folder: str, texts: list[str]) -> str:
    """One after the other."""
    write_file(Path(folder) / "scoring_kaldi" / "wer_details" / "comparison", "".join(texts))
    return "".join(texts)
