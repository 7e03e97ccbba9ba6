"""Finds pronunciations for a list of words.

OUT is a lexicon as Kaldi reads it. If its name ends in .tsv it is a table with certainties and words that sound alike,
which can be edited and used as a lexicon.

With --lexicon, known words are pronounced as there, and words made of them (dog's, well-known) from their parts; all
others are spelt out. WORDS has one word per line, which a count may follow, as in a list of new words."""

import argparse

from mdi.progress import say

OPTIONS = """
model MODEL  of mdi g2p train
words WORDS  a word per line, - for standard input
out OUT? = -  lexicon, or table if it is named *.tsv
--lexicon FILE  known words: Kaldi's lexicon.txt or lexiconp.txt
--given FILE  pronunciations that you know: 'word phone ...' or 'word = known words'
--n-best N = 3  at most this many pronunciations from spelling
"""


def run(args: argparse.Namespace) -> None:
    from mdi.commands.outputs import check_outputs
    from mdi.errors import OptionError, UsageError, examples
    from mdi.speech.g2p import load_g2p
    from mdi.speech.given import given_lines, read_given, write_new_words
    from mdi.speech.lexicon import Lexicon, listed_words, read_lexicon, write_lexicon
    from mdi.speech.pronounce import Pronounced, Speaker

    if args.n_best < 1:
        raise OptionError("n_best", args.n_best, "1 or more")
    if args.given and not args.lexicon:
        raise UsageError("--given without --lexicon; expected the lexicon that has the phones and the known words")
    check_outputs(args, args.out)
    counts = listed_words(args.words)
    model = load_g2p(args.model)
    if args.lexicon:
        lexicon = read_lexicon(args.lexicon)
        given = read_given(given_lines(args.given), lexicon)
        said = Speaker(lexicon, model, given).say(list(counts))
    else:
        ways = model.pronounce(list(counts), args.n_best)
        said = [
            Pronounced(word, tuple(phones for phones, _ in found), "g2p", found[0][1] if found else 0.0)
            for word, found in zip(counts, ways, strict=True)
        ]
    silent = [one for one in said if not one.pronunciations]
    if args.out.endswith((".tsv", ".tsv.gz")):
        write_new_words(args.out, said, counts)
    else:
        found_ways = {one.word: list(one.pronunciations[: args.n_best]) for one in said if one.pronunciations}
        write_lexicon(Lexicon(found_ways), args.out)
    if silent:
        why = "" if not args.lexicon else f" ({silent[0].how})"
        say(f"{len(silent):,} words cannot be said, such as {examples([one.word for one in silent])}{why}")
