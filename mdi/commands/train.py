"""Estimates a back-off model from text, as SRILM's ngram-count and KenLM's lmplz do.

    mdi train [options] TEXT[.gz]... OUT
    mdi train [options] --counts COUNTS[.gz] OUT

kn is SRILM's -kndiscount (modified Kneser-Ney, back-off form). kn-interpolated is its -kndiscount -interpolate; with
--min-counts 1 and no --vocab it is the model of lmplz. wb is -wbdiscount. The model sums to one over every history. A
certificate, OUT.json, records what was done.

With --cluster, workers of --memory each count blocks of the text, check the model and write it; the result is the same,
byte for byte. Meanwhile the text is in the directory of shards, four bytes a word. After a failure the same command
continues with what has been counted.
"""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mdi.commands import options
from mdi.commands.inputs import text_fields
from mdi.commands.outputs import check_model_output, check_numbered, save_model
from mdi.errors import UsageError, check_whole, examples
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.lm.estimate import Estimated
    from mdi.lm.shards import Job
    from mdi.lm.text import TextStats
    from mdi.lm.vocabulary import GrowingVocabulary, Vocabulary

# What Python, numba and the compiled kernels take before anything is counted.
PROGRAM = 200 << 20

OPTIONS = f"""
texts TEXT*  one sentence per line, plain or gzipped; - is standard input
out OUT  model to write (.gz by suffix; - is standard output)
--order N = 3  length of the longest n-grams
--vocab WORDS  one word per line, or Kaldi's words.txt; other words are <unk> (every word of the text)
--oov map|drop|error = map  words outside --vocab: map them to <unk>; drop them, for a model without <unk>; stop
--smoothing kn|kn-interpolated|wb = kn
--min-counts N-N-N  keep n-grams seen so often, by order; the last repeats (1-1-2)
--memory SIZE = 2G  for counting, such as 500M; what does not fit goes to disk. The counts of the orders below the
  highest, and the model itself, take what they take
--tmp DIR  directory for that (the system's)
--counts FILE  SRILM count file, instead of text
--counts-out FILE  write the counts too, in SRILM's format
{options.MODELS}
{options.CLUSTER}
{options.SHARDS}
"""


def run(args: argparse.Namespace) -> None:
    from mdi.lm.estimate import default_min_counts
    from mdi.lm.text import SPECIAL
    from mdi.lm.thresholds import parse_thresholds
    from mdi.lm.trie import MAX_ORDER
    from mdi.lm.vocabulary import GrowingVocabulary, model_vocabulary, read_words

    if bool(args.texts) == bool(args.counts):
        raise UsageError("expected TEXT OUT, or --counts COUNTS OUT")
    check_whole("order", args.order, 1, MAX_ORDER)
    asked = options.parse_size("memory", args.memory)
    min_counts = default_min_counts(args.order)
    if args.min_counts:  # those of orders beyond the model's have nothing to do, as with SRILM's -gt3min
        min_counts = parse_thresholds(args.min_counts, MAX_ORDER)[: args.order]
    memory = max(asked - PROGRAM, asked // 8)
    check_model_output(args.out, args, [], *filter(None, [args.counts_out]))
    vocab = model_vocabulary(read_words(args.vocab), args.oov != "drop") if args.vocab else GrowingVocabulary(SPECIAL)
    if args.vocab:
        check_numbered(args.out, args, [], vocab.freeze())
    with options.sharding(args, args.out, [*args.texts, *filter(None, [args.vocab])]) as job:
        stats, found = _train(args, job, vocab, min_counts, memory)
        about = {"command": "train", "inputs": args.texts or [args.counts], "vocabulary": args.vocab}
        about |= {"order": args.order, "smoothing": args.smoothing, "min_counts": min_counts, **text_fields(stats)}
        about |= {"oov_handling": args.oov if args.vocab else None, "ngrams": found.model.trie.counts}
        about["discounts"] = [discount.as_dict() for discount in found.discounts]
        about["left_over"] = {"probability": found.left_over, "words": found.sharing}
        fields = save_model(found.model, args.out, args, [], about)
    counts = ", ".join(f"{n:,}" for n in fields["ngrams"])
    say(f"mdi train: {counts} n-grams; sums to one within {fields['worst_sum_gap']:.1g} -> {args.out}")


def _train(
    args: argparse.Namespace,
    job: "Job | None",
    vocab: "Vocabulary | GrowingVocabulary",
    min_counts: list[float],
    memory: int,
) -> "tuple[TextStats, Estimated]":
    """(what was read, the model that it gives)"""
    from mdi.lm.counts import read_counts, stream_blocks, stream_text, writing_counts
    from mdi.lm.estimate import checked, estimate

    texts = list(map(Path, args.texts))
    with ExitStack() as stack:
        if args.counts:
            whole = read_counts(args.counts, vocab, args.order, args.oov)
            counts = checked(whole, args.counts, args.smoothing).stream()
        elif job is not None:
            counts = stack.enter_context(stream_blocks(texts, vocab, args.order, args.oov, memory, job))
        else:
            counts = stack.enter_context(stream_text(texts, vocab, args.order, args.oov, memory, args.tmp))
        if not args.vocab:
            check_numbered(args.out, args, [], counts.vocab)
        stats, note = counts.stats, ""
        if stats.oov:
            done = "mapped to <unk>" if args.oov == "map" else "left out with the n-grams around them"
            note = f"; {stats.oov:,} words outside it, such as {examples(stats.oov_examples)}: {done}"
        read = f"{stats.sentences:,} sentences, {stats.words:,} words, {len(counts.vocab):,} in the vocabulary"
        say(f"mdi train: {read}{note}")
        if args.counts_out:
            counts = stack.enter_context(writing_counts(counts, args.counts_out))
        found = estimate(counts, args.smoothing, min_counts)
    for k, discount in enumerate(found.discounts, 1):
        say(f"mdi train: {discount.describe(k)}")
    return stats, found
