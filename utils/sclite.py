"""WER from the reports of NIST's sclite or asclite that a Kaldi recipe's local/score.sh leaves, in the files of
steps/score.sh.

    utils/score_reports.py [--compare-with OTHER] --points 7:0.0,8:0.0 NAME DIR

DIR/score_<LMWT>_<WIP>/NAME.ctm.filt.raw (ascore_<LMWT> where there is no penalty) has the errors of each speaker. The
point of the lowest WER goes to DIR/scoring_kaldi/best_wer and wer_details/{lmwt,wip}. A report knows no utterances:
the interval is a bootstrap over speakers, and two systems are compared speaker by speaker, which sees less than
utterances would.
"""

import re
from pathlib import Path

import numpy as np

from mdi.errors import MdiError, examples
from mdi.files import read_lines, write_file
from mdi.lm.vocabulary import to_str
from mdi.speech.score import Point, comparison, write_comparisons
from mdi.speech.wer import Errors, confidence

SCLITE, ASCLITE = "SPKR", "Speaker"  # heads of the first column
# asclite's name, in either case, for the words where nobody speaks; a row only if there are any
GAP = "inter_segment_gap"
HEADS = {"#Wrd", "Sub", "Del", "Ins", "Err", "S.Err"}


def read_report(path: Path) -> Errors:
    """The rows of a .raw report, one for each speaker; asclite's with a further one, GAP. They must add up to its
    Sum."""
    heads: list[str] = []
    gap = False
    speakers: list[str] = []
    rows: list[list[int]] = []
    total: list[int] | None = None
    for number, line in enumerate(read_lines(str(path)), 1):
        cells = [cell.strip() for cell in to_str(line).strip().strip("|").split("|")]
        if cells[0] in (SCLITE, ASCLITE):
            gap = cells[0] == ASCLITE
            # the NCE that confidences bring is in a cell of its own; sclite writes '# Snt', asclite '#Snt'
            heads = " ".join(cells[1:3]).replace("# ", "#").split()
            if lacking := HEADS - set(heads):
                raise MdiError(
                    f"{path}:{number}: no column {', '.join(sorted(lacking))}; expected a report of sclite (.raw)"
                )
        elif heads and total is None and len(cells) >= 3 and cells[0]:
            figures = " ".join(cells[1:3]).split()
            if len(figures) != len(heads) or not all(re.fullmatch("[0-9]{1,15}", figure) for figure in figures):
                raise MdiError(
                    f"{path}:{number}: {' '.join(figures)!r}; expected a whole number for each of {' '.join(heads)}"
                )
            if cells[0] == "Sum":
                total = [int(figure) for figure in figures]
            else:
                speakers.append(cells[0].lower())
                rows.append([int(figure) for figure in figures])
    if total is None or not rows:
        raise MdiError(f"{path}: no speakers with a Sum below; expected a report of sclite (.raw)")
    table = np.array(rows, np.int64)
    if table.sum(0).tolist() != total:
        raise MdiError(f"{path}: the speakers do not add up to the Sum; was the file cut? Score again")
    if gap and GAP not in speakers:  # to compare with another report, which may have words there
        speakers.append(GAP)
        table = np.vstack([table, np.zeros_like(table[:1])])
    column = dict(zip(heads, table.T, strict=True))
    substitutions = column["Sub"] + column.get("SpSub", 0)  # asclite may count words of another speaker apart
    errors = Errors(
        speakers, column["#Wrd"], column["Ins"], column["Del"], substitutions, int(column["S.Err"].sum()), 0
    )
    if not np.array_equal(errors.total, column["Err"]):
        raise MdiError(f"{path}: Sub, Del and Ins do not add up to Err; was the file changed? Score again")
    return errors


def find_report(folder: Path, name: str, point: Point) -> Path:
    """The report of one point; asclite's names say how many speakers may overlap (_o4)."""
    weight, penalty = point
    for where in (f"score_{weight}_{penalty}", f"ascore_{weight}", f"score_{weight}"):
        found = [
            p
            for p in (folder / where).glob(f"{name}*.ctm.filt.raw")
            if re.fullmatch(r"(_o\d+)?", p.name[len(name) : -13])
        ]
        if len(found) == 1:
            return found[0]
    raise MdiError(
        f"{folder}: no *score_{weight}*/{name}.ctm.filt.raw; the recipe's scoring has failed at this weight, see "
        f"the logs there"
    )


def _speakers(errors: Errors) -> str:
    return f"{sum(name != GAP for name in errors.utterances)} speakers"


def write_scores(folder: Path, name: str, points: list[Point]) -> Errors:
    """The best of the points, with an interval if there are speakers enough for one."""
    reports = {point: find_report(folder, name, point) for point in points}
    errors = {point: read_report(path) for point, path in reports.items()}
    best = min(points, key=lambda point: errors[point].rate)
    found, details = errors[best], folder / "scoring_kaldi" / "wer_details"
    write_file(details / "lmwt", f"{best[0]}\n")
    write_file(details / "wip", f"{best[1]}\n")
    if len(found.utterances) > 1:
        write_file(details / "wer_bootci", confidence(found).line("Set1").rstrip() + f" over {_speakers(found)}\n")
    # last: whoever finds it takes the folder for scored
    write_file(folder / "scoring_kaldi" / "best_wer", f"{found.summary()} {reports[best].with_suffix('.sys')}\n")
    return found


def best_report(folder: Path) -> Errors:
    """The report that an earlier scoring of this folder chose."""
    best = folder / "scoring_kaldi" / "best_wer"
    where = best.read_text(errors="surrogateescape").split("] ", 1)[-1].strip() if best.exists() else ""
    if not where.endswith(".ctm.filt.sys"):
        raise MdiError(
            f"{best}: not of sclite; to compare with it, remove {folder}/scoring_kaldi and score that directory again"
        )
    return read_report(Path(where).with_suffix(".raw"))


def compare(folder: Path, others: list[Path]) -> str:
    """Whether `folder` is better than each of the others, all at their own points; also in
    scoring_kaldi/wer_details/comparison."""
    return write_comparisons(str(folder), [_comparison(folder, other) for other in others])


def _comparison(folder: Path, other: Path) -> str:
    first, second = best_report(other), best_report(folder)
    if first.utterances != second.utterances:
        odd = sorted(set(first.utterances) ^ set(second.utterances))
        raise MdiError(
            f"{folder} and {other} were scored on different speakers: {examples(odd)}; score both on the same data"
        )
    return comparison(str(folder), str(other), first, second, f" over {_speakers(first)}")
