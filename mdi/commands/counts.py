"""Expected counts of n-grams over what a recogniser believes, for adapting without transcripts (mdi adapt --counts).

    mdi counts --words words.txt exp/decode/dev OUT.counts
    mdi counts hyp.ctm OUT.counts

IN: lattices (lat*, or folders of lat.N.gz), which need --words; n-best lists (.nbest, lines 'utterance score words',
scores as natural logs); Kaldi's ctm (.ctm) and Vosk's JSON (.json) with confidences; plain hypotheses (.txt). The file
is SRILM's, with fractional counts: all orders up to --order, <s> and </s> included, so that 1-grams without these sum
to the expected number of words. Paths of lattices weigh exp(-lm-scale * graph - acoustic-scale * acoustic), as in
Kaldi's lattice-arc-post.
"""

from __future__ import annotations

import argparse

from mdi.progress import get_logger

logger = get_logger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sources", metavar="IN", nargs="+", help="lattices, n-best lists, ctm, Vosk's JSON, text; plain or gzipped")
    add("out", metavar="OUT", help="count file (.gz by suffix, - for standard output)")
    add("--order", type=int, default=3, metavar="N", help="longest n-grams (3)")
    add("--vocab", metavar="WORDS", help="count these words only, a list or words.txt; others are <unk> (all words)")
    add("--oov", choices=("map", "drop", "error"), default="map", help="words outside --vocab (map)")
    add_lattice_arguments(parser)


def add_lattice_arguments(parser: argparse.ArgumentParser, formats: bool = True) -> None:
    """What says how lattices and, with `formats`, their like are read; `mdi adapt --lattices` has them too."""
    add = parser.add_argument
    add("--words", metavar="words.txt", help="the symbol table of lattices, and of models with numbers for words")
    if formats:
        add(
            "--lattice-format",
            choices=("lattice", "nbest", "ctm", "vosk", "text"),
            help="of all inputs (by their names)",
        )
    add("--acoustic-scale", type=float, default=0.1, metavar="A", help="factor of acoustic costs: 1 / LM weight (0.1)")
    add("--lm-scale", type=float, default=1.0, metavar="L", help="factor of graph costs and n-best scores (1)")
    add("--word-penalty", type=float, default=0.0, metavar="P", help="cost of a word (0)")


def run(args: argparse.Namespace) -> None:
    from mdi.commands.outputs import check_outputs
    from mdi.lm.counts import as_vocabulary, write_counts
    from mdi.speech.expected_counts import expected_counts

    check_outputs(args, args.out)
    vocab = as_vocabulary(args.vocab, args.oov).freeze() if args.vocab else None
    counts = expected_counts(
        args.sources,
        vocab,
        args.order,
        words=args.words,
        kind=args.lattice_format,
        oov=args.oov,
        acoustic_scale=args.acoustic_scale,
        lm_scale=args.lm_scale,
        penalty=args.word_penalty,
    )
    write_counts(counts, args.out)
    seen = [int((part > 0).sum()) for part in counts.count[1:]]
    logger.info(
        f"mdi counts: {counts.stats.sentences:,} utterances, {counts.stats.words:,} words expected; "
        f"{' / '.join(f'{n:,}' for n in seen)} n-grams -> {args.out}"
    )
