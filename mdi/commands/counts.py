"""Writes expected counts of n-grams over what a recogniser believes, to adapt without transcripts (mdi adapt --counts).

    mdi counts --words words.txt exp/decode/dev OUT.counts
    mdi counts hyp.ctm OUT.counts

IN may be lattices (lat*, or directories of lat.N.gz), which need --words; n-best lists (.nbest, with lines 'utterance
score words' and scores as natural logs); Kaldi's ctm (.ctm) or Vosk's JSON (.json) with confidences; or plain text
(.txt). OUT is in SRILM's format, with fractional counts of all orders up to --order. It includes <s> and </s>; without
these, the 1-grams sum to the expected number of words. A path of a lattice has the weight exp(-lm-scale * graph -
acoustic-scale * acoustic), as in Kaldi's lattice-arc-post.
"""

import argparse

from mdi.commands import options
from mdi.commands.inputs import read_lattices
from mdi.commands.outputs import check_outputs
from mdi.progress import say

OPTIONS = f"""
sources IN+  lattices, n-best lists, ctm, Vosk's JSON, text; plain or gzipped
out OUT  count file (.gz by suffix, - for standard output)
--order N = 3  length of the longest n-grams
--vocab WORDS  count these words only, a list or words.txt; others are <unk> (all words)
--oov map|drop|error = map  words outside --vocab
{options.LATTICES}
"""


def run(args: argparse.Namespace) -> None:
    from mdi.lm.counts import as_vocabulary, write_counts

    check_outputs(args, args.out)
    vocab = as_vocabulary(args.vocab, args.oov).freeze() if args.vocab else None
    counts = read_lattices(args, args.sources, vocab, args.order, args.oov)
    write_counts(counts, args.out)
    seen = [int((part > 0).sum()) for part in counts.count[1:]]
    say(
        f"mdi counts: {counts.stats.sentences:,} utterances, {counts.stats.words:,} words expected; "
        f"{' / '.join(f'{n:,}' for n in seen)} n-grams -> {args.out}"
    )
