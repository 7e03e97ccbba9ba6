"""Learns from a lexicon how words of its language are pronounced.

Letters and phones are aligned by expectation maximisation, and n-gram models of units of both are estimated, in both
directions. LEXICON is Kaldi's lexicon.txt or lexiconp.txt; words such as <unk> or !SIL are left out. MODEL is a text
file, gzipped if its name ends in .gz."""

import argparse

from mdi.progress import say

OPTIONS = """
lexicon LEXICON  Kaldi's lexicon.txt or lexiconp.txt
model MODEL  the model to write
"""


def run(args: argparse.Namespace) -> None:
    from mdi.commands.outputs import check_outputs
    from mdi.speech.g2p import train_g2p
    from mdi.speech.lexicon import read_lexicon

    check_outputs(args, args.model)
    lexicon = read_lexicon(args.lexicon)
    model = train_g2p(lexicon)
    model.save(args.model)
    n, aligned = sum(map(len, lexicon.values())), len(model.begin) - 1
    say(
        f"{aligned:,} of {n:,} pronunciations fit their words; {len(model.units):,} units of letters and phones "
        f"-> {args.model}"
    )
