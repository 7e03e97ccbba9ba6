"""Chooses a vocabulary: the in-domain words, then the commonest of the background, up to a size.

    mdi vocab [options] IN_DOMAIN_TEXT[.gz]... OUT

This is the first step of any comparison: perplexities are comparable over one vocabulary only, and words outside it
become <unk>, which is easy to predict. OUT has one word per line, or is Kaldi's words.txt (--format kaldi, or a name
that ends in words.txt). Pass it to mdi train --vocab.
"""

import argparse
from pathlib import Path

from mdi.progress import say

OPTIONS = """
texts TEXT+  in-domain text(s)
out OUT  word list to write; - is standard output
--background TEXT*  general text to fill up from; may be repeated
--base WORDS  words to begin with: a list, or a words.txt, whose numbers are kept
--size N  words at most (all of the in-domain text, none of the background)
--min-count N = 1  take in-domain words seen at least so often
--dev TEXT*  print how much of this text is covered
--format list|kaldi  format of OUT (by its name)
"""


def run(args: argparse.Namespace) -> None:
    from mdi.commands.outputs import check_outputs
    from mdi.errors import OptionError, examples
    from mdi.files import write_file
    from mdi.fst.symbols import make_symbols, read_symbols, write_symbols
    from mdi.lm.vocabulary import read_word_file, read_words, vocabulary
    from mdi.lm.word_counts import choose_words, count_words, coverage

    check_outputs(args, args.out)
    if args.background and args.size is None:
        raise OptionError("size", args.size, "a number of words, as --background has many")
    in_domain = count_words(list(map(Path, args.texts)))
    background = count_words(list(map(Path, args.background))) if args.background else None
    base = read_words(args.base) if args.base else []
    words = choose_words(in_domain, background, base=base, size=args.size, min_count=args.min_count)
    if args.format == "kaldi" or (args.format is None and args.out.endswith("words.txt")):
        grows = args.base and read_word_file(args.base)[1] is not None
        write_symbols(read_symbols(args.base).extended(words) if grows else make_symbols(words), args.out)
    else:
        write_file(args.out, "".join(f"{word}\n" for word in words))
    known = vocabulary(words)
    say(f"{len(words):,} words -> {args.out}")
    counted = {"in-domain": in_domain, "background": background}
    counted |= {path: count_words(Path(path)) for path in args.dev}
    for name, counts in counted.items():
        if counts is not None:
            found = coverage(counts, known)
            missing = f"; missing: {examples(found.missing)}" if found.missing else ""
            say(f"{name}: {found.words:,} words, {100 * found.share:.2f}% covered{missing}")
