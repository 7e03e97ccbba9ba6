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

from mdi.commands import options
from mdi.commands.inputs import read_lattices
from mdi.commands.outputs import check_outputs
from mdi.progress import say

OPTIONS = f"""
sources IN+  lattices, n-best lists, ctm, Vosk's JSON, text; plain or gzipped
out OUT  count file (.gz by suffix, - for standard output)
--order N = 3  longest n-grams
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
