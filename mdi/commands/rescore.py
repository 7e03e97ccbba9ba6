"""Replaces the language model scores in lattices: takes the old model's out and puts the new one's in, exactly.

IN and OUT are archives (text or binary, plain or gzipped) or directories of lat.1.gz, lat.2.gz and so on. --old-scores
says how the old scores were computed: 'cheapest' for lattices of a decoder, whose graph may back off from any n-gram;
'exact' for lattices that were rescored with the model itself. Without --old-lm the new scores are added to the present
ones. --mbr true also finds the words of least Bayes risk, as Kaldi's lattice-mbr-decode does: for each utterance of OUT
those whose expected edit distance to all paths is smallest, where paths have the weight exp(-(graph + P words +
acoustic / W)).
"""

import argparse
import os

from mdi.commands import options
from mdi.commands.inputs import read_adapted, read_model
from mdi.commands.outputs import check_outputs
from mdi.errors import UsageError, check_positive
from mdi.progress import say

OPTIONS = f"""
source IN  lattices, or a directory of lat.N.gz
out OUT  file, or directory where IN is one
--words words.txt!  the symbol table of the lattices
--old-lm LM  the model whose scores are in the lattices
--new-lm LM  the model whose scores go in
{options.delta("--new-lm")}
--old-scores cheapest|exact = cheapest  see above
--text true|false = false  write text, not binary
--mbr TEXT  also write the words of least expected error to this file
--lmwt W = 10  LM weight for --mbr
--word-ins-penalty P = 0  penalty for --mbr
--nj N = 1  archives worked on at a time (1); the models are shared
"""


def run(args: argparse.Namespace) -> None:
    from mdi.speech.lattice_files import archives
    from mdi.speech.rescore import rescore

    if args.mbr:
        check_positive("lmwt", args.lmwt)
        check_outputs(args, args.mbr)
    if os.path.isdir(args.source):
        made = [os.path.join(args.out, os.path.basename(archive)) for archive in archives(args.source)]
        check_outputs(args, beside=filter(os.path.exists, made), folder=args.out)
    else:
        check_outputs(args, args.out)
    if args.delta and not args.new_lm:
        raise UsageError("--delta adapts the new model; expected --new-lm")
    old_lm = new_lm = read_model(args.old_lm, args) if args.old_lm else None
    if args.new_lm != args.old_lm or args.delta:
        new_lm = read_adapted(args.new_lm, args) if args.new_lm else None
    done = rescore(
        args.source,
        args.out,
        words=args.words,
        old_lm=old_lm,
        new_lm=new_lm,
        old_scores=args.old_scores,
        text=args.text,
        nj=args.nj,
    )
    say(
        f"mdi rescore: {done.lattices:,} lattices, {done.arcs_before:,} arcs to {done.arcs_after:,}, "
        f"{1000 * done.seconds / done.lattices:.1f} ms per lattice"
    )
    if args.mbr:
        _write_mbr(args)


def _write_mbr(args: argparse.Namespace) -> None:
    from mdi.files import writing
    from mdi.fst.symbols import read_symbols
    from mdi.lm.vocabulary import to_bytes
    from mdi.speech.lattice_files import read_all_lattices
    from mdi.speech.mbr import minimum_risk

    symbols, risk, n = read_symbols(args.words), 0.0, 0
    with writing(args.mbr) as stream:
        for lattice in read_all_lattices(args.out):
            found = minimum_risk(lattice, args.lmwt, args.word_ins_penalty)
            stream.write(to_bytes(f"{' '.join([lattice.utterance, *symbols.spell(found.words)])}\n"))
            risk, n = risk + found.risk, n + 1
    say(f"{args.mbr}: words of {n:,} utterances; {risk:.1f} errors expected")
