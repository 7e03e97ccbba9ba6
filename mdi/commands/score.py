"""Computes word error rates, of lattices over LM weights and word-insertion penalties, or of words, as Kaldi does.

Choose the point on the development set, and score the evaluation set at that point:
  mdi score --words words.txt data/dev exp/decode_dev
  mdi score --words words.txt --tuned-on exp/decode_dev data/eval exp/decode_eval
The one-best words of a recogniser, DIR/text or DIR/ctm, are scored as they are:
  mdi score --hyp text data/eval exp/decode_eval
--compare-with names another scored directory and tests whether the difference is significant.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mdi.commands.outputs import check_outputs
from mdi.errors import MdiError, UsageError
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.speech.score import BestPaths

OPTIONS = """
data DATA  Kaldi data directory (text, utt2spk), or a text file
folder DIR  decoding directory (lat.N.gz, text or ctm); the scores are written here
--hyp lattices|text|ctm = lattices  what to score
--words words.txt  the symbol table of the lattices
--min-lmwt N = 7  smallest LM weight
--max-lmwt N = 17  largest LM weight
--word-ins-penalty A,B,C = 0.0,0.5,1.0  word-insertion penalties
--tuned-on DIR  score only the point that was best in this directory
--compare-with DIR*  scored directory of another system on the same data; may be repeated
--mode strict|present|all = strict  an utterance without a lattice is an error, left out, or counted as deleted
--mbr true|false = false  take the words of least expected error from lattices, as Kaldi's lattice-mbr-decode does
--ref-filter PROGRAM  a recipe's local/wer_ref_filter
--hyp-filter PROGRAM  a recipe's local/wer_hyp_filter
"""


def run(args: argparse.Namespace) -> None:
    from mdi.speech.data import DataFolder, read_references
    from mdi.speech.score import compare, filtered, write_scores
    from mdi.speech.wer import confidence

    if not Path(args.folder).is_dir():
        raise MdiError(f"{args.folder}: no such directory; expected one with lat.1.gz, text or ctm. Decode first")
    kept = Path(args.folder) / "scoring_kaldi" / "test_filt.txt"  # the references as scored
    check_outputs(args, beside=[str(kept)] if kept.exists() else [], folder=args.folder)
    references = filtered(read_references(args.data), args.ref_filter)
    speakers = DataFolder(Path(args.data)).speakers()
    found = _lattices(args, references) if args.hyp == "lattices" else _words(args, references)
    point, by_point = write_scores(args.folder, found, references, speakers, args.mode, args.hyp_filter)
    print((Path(args.folder) / "scoring_kaldi" / "best_wer").read_text(), end="")
    interval = confidence(by_point[point])
    limits = f"95% interval [{interval.mean - interval.half:.2f}, {interval.mean + interval.half:.2f}]"
    weight, penalty = point
    if found.utterances:
        limits = f"LM weight {weight}, penalty {penalty}, {limits}, oracle WER {found.oracle_rate:.2f}"
        limits += f", depth {found.depth:.1f}"
    say(f"mdi score: {limits}")
    inner = {args.min_lmwt: weight + 1, args.max_lmwt: weight - 1}.get(weight, weight)
    if (inner, penalty) in by_point and by_point[inner, penalty].rate > by_point[point].rate:
        say(f"mdi score: the best LM weight, {weight}, is at the edge of the range; widen --min-lmwt or --max-lmwt")
    if args.compare_with:
        print(compare(args.folder, args.compare_with, references, args.mode), end="")


def _lattices(args: argparse.Namespace, references: dict[str, list[str]]) -> "BestPaths":
    """The words of every lattice at every LM weight and penalty."""
    from mdi.fst.symbols import read_symbols
    from mdi.speech.lattice_files import read_all_lattices
    from mdi.speech.score import best_paths, best_point

    if not args.words:
        raise UsageError("no --words; expected the symbol table of the lattices, words.txt")
    if args.tuned_on:
        points = [best_point(args.tuned_on)]
    else:
        penalties = [p for p in args.word_ins_penalty.split(",") if p]
        try:
            [float(p) for p in penalties]
        except ValueError as error:
            raise UsageError(
                f"--word-ins-penalty {args.word_ins_penalty}: {error}; expected numbers with commas between"
            ) from error
        points = [(weight, p) for p in penalties for weight in range(args.min_lmwt, args.max_lmwt + 1)]
    if not points or min(weight for weight, _ in points) <= 0:
        raise UsageError(
            f"no LM weights from {args.min_lmwt} to {args.max_lmwt}; expected positive ones, smallest first"
        )
    return best_paths(read_all_lattices(args.folder), read_symbols(args.words), references, points, args.mbr)


def _words(args: argparse.Namespace, references: dict[str, list[str]]) -> "BestPaths":
    """DIR/text or DIR/ctm, of which there is nothing to choose."""
    from mdi.speech.data import DataFolder, read_ctm, read_text
    from mdi.speech.score import AS_RECOGNISED, BestPaths

    if args.tuned_on:
        raise UsageError(f"--tuned-on is for lattices; {args.hyp} has no LM weight to choose. Leave it out")
    path = Path(args.folder) / args.hyp
    if args.hyp == "text":
        return BestPaths({AS_RECOGNISED: read_text(path)})
    data = DataFolder(Path(args.data))
    segments = data.segments() if data.has("segments") else None
    return BestPaths({AS_RECOGNISED: read_ctm(path, list(references), segments)})
