"""Word error rate of lattices over LM weights and word-insertion penalties, in Kaldi's files.

Choose the point on the development set, and score the evaluation set at that point:
  mdi score --words words.txt data/dev exp/decode_dev
  mdi score --words words.txt --tuned-on exp/decode_dev data/eval exp/decode_eval
--compare-with names another scored folder and tells whether the difference is significant.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="Kaldi data folder (text, utt2spk), or a text file")
    parser.add_argument("folder", metavar="DIR", help="decoding folder with lat.N.gz; the scores are written here")
    parser.add_argument("--words", required=True, metavar="words.txt", help="the symbol table of the lattices")
    parser.add_argument("--min-lmwt", type=int, default=7, metavar="N", help="smallest LM weight (7)")
    parser.add_argument("--max-lmwt", type=int, default=17, metavar="N", help="largest LM weight (17)")
    parser.add_argument("--word-ins-penalty", default="0.0,0.5,1.0", metavar="A,B,C", help="penalties (0.0,0.5,1.0)")
    parser.add_argument("--tuned-on", metavar="DIR", help="score only the point that was best in this folder")
    parser.add_argument("--compare-with", metavar="DIR", help="scored folder of another system on the same data")
    parser.add_argument("--mode", choices=("strict", "present", "all"), default="strict",
                        help="an utterance without a lattice: an error, left out, or all deleted (strict)")  # fmt: skip
    parser.add_argument("--ref-filter", metavar="PROGRAM", help="a recipe's local/wer_ref_filter")
    parser.add_argument("--hyp-filter", metavar="PROGRAM", help="a recipe's local/wer_hyp_filter")


def run(args: argparse.Namespace) -> None:
    from itertools import chain
    from pathlib import Path

    from mdi.errors import MdiError
    from mdi.fst.symbols import read_symbols
    from mdi.progress import say
    from mdi.speech.data import DataFolder, read_text
    from mdi.speech.lattice_files import archives, read_lattices
    from mdi.speech.score import best_point, compare, filtered, sweep, write_scores
    from mdi.speech.wer import confidence

    if not Path(args.folder).is_dir():
        raise MdiError(f"{args.folder}: no such folder; expected one with lat.1.gz. Run mdi decode")
    data = Path(args.data)
    references = filtered(DataFolder(data).text() if data.is_dir() else read_text(data), args.ref_filter)
    speakers = DataFolder(data).speakers() if data.is_dir() else {}
    if args.tuned_on:
        points = [best_point(args.tuned_on)]
    else:
        penalties = [p for p in args.word_ins_penalty.split(",") if p]
        try:
            [float(p) for p in penalties]
        except ValueError as error:
            raise MdiError(
                f"--word-ins-penalty {args.word_ins_penalty}: {error}; expected numbers with commas between"
            ) from error
        points = [(weight, p) for p in penalties for weight in range(args.min_lmwt, args.max_lmwt + 1)]
    if not points or min(weight for weight, _ in points) <= 0:
        raise MdiError(f"no LM weights from {args.min_lmwt} to {args.max_lmwt}; expected positive ones, smallest first")
    symbols = read_symbols(args.words)
    lattices = chain.from_iterable(read_lattices(path) for path in archives(args.folder))
    found = sweep(lattices, symbols, references, points)
    result = write_scores(args.folder, found, references, speakers, args.mode, args.hyp_filter)
    print((Path(args.folder) / "scoring_kaldi" / "best_wer").read_text(), end="")
    interval = confidence(result.errors)[0]
    say(
        f"mdi score: LM weight {result.point[0]}, penalty {result.point[1]}, 95% interval"
        f" [{interval.mean - interval.half:.2f}, {interval.mean + interval.half:.2f}], oracle WER "
        f"{found.oracle_rate:.2f},"
        f" depth {found.depth:.1f}"
    )
    weight, penalty = result.point
    inner = {args.min_lmwt: weight + 1, args.max_lmwt: weight - 1}.get(weight)
    if (inner, penalty) in result.by_point and result.by_point[inner, penalty].rate > result.errors.rate:
        say(f"mdi score: the best LM weight, {weight}, is at the edge of the range; widen --min-lmwt or --max-lmwt")
    if args.compare_with:
        print(compare(args.folder, args.compare_with, references, args.mode), end="")
