"""Not a verb: models and in-domain text as verbs read them, and what there is to say of them."""

import argparse
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from mdi.errors import MdiError, UsageError, examples
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.lm.counts import Counts
    from mdi.lm.model import NgramModel
    from mdi.lm.text import Sentences, TextStats
    from mdi.lm.vocabulary import Vocabulary

# A higher share of words outside the vocabulary than this makes perplexities look better than they are.
MUCH_UNKNOWN = 0.05


def check_inputs(*paths: str | None) -> None:
    """Refuses, before any work is done, files that are not there, and standard input in two places."""
    named = [path for path in paths if path]
    if named.count("-") > 1:
        raise UsageError(f"'-' stands for {named.count('-')} inputs; expected standard input once, or files")
    for path in named:
        if path != "-" and stat.S_ISDIR(os.stat(path).st_mode):
            raise MdiError(f"{path}: is a directory; expected a file")


def read_model(path: str, args: argparse.Namespace, closed: bool = True) -> "NgramModel":
    """A model in any form: see `mdi convert`."""
    from mdi.fst.formats import load

    return load(path, args.words, closed=closed)


def read_history(args: argparse.Namespace) -> "NgramModel | None":
    return None if args.history == "ml" else read_model(args.history, args)


def spoken_texts(args: argparse.Namespace, texts: list[str], model: "NgramModel") -> "dict[str, Path | Sentences]":
    """Each text, with --normalise auto in the words of the model; and lines about what was changed."""
    from mdi.lm.new_words import as_new_words
    from mdi.spoken import Speller, kept, spoken_text

    found = {text: kept(text) for text in dict.fromkeys(texts)}
    if args.normalise != "none":
        how = getattr(args, "new_words", "none")
        new = "none" if how == "none" else as_new_words(how)
        speller = Speller(model, args.language, new if isinstance(new, list) else ())
        for text, source in found.items():
            spoken = spoken_text(source, speller)
            for line in spoken.report():
                say(line)
            found[text] = spoken.text
    return {text: Path(source) if isinstance(source, str) else source for text, source in found.items()}


def read_in_domain(
    args: argparse.Namespace, texts: "list[Path | Sentences]", vocab: "Vocabulary", order: int
) -> "Counts":
    """Counts of the texts and of --counts or --lattices, over the vocabulary and what --new-words adds to it, and a
    line about them."""
    from mdi.lm.counts import add_counts, count_text, over_words, read_counts, scaled_counts
    from mdi.lm.new_words import as_new_words, may_be_added, over_new_words
    from mdi.lm.text import OOV
    from mdi.lm.vocabulary import GrowingVocabulary
    from mdi.spoken import sayable

    new_words, weight = as_new_words(args.new_words), getattr(args, "count_weight", 1.0)
    oov = new_words if new_words in OOV else None
    parts = [count_text(texts, vocab if oov else GrowingVocabulary(vocab), order, oov or "map")] if texts else []
    expected = None  # of a file, or over lattices and their like
    if args.counts:
        expected = read_counts(args.counts, vocab if oov else GrowingVocabulary(vocab), order, oov or "map")
    elif getattr(args, "lattices", None):
        expected = read_lattices(args, args.lattices, vocab if oov else None, order, oov or "map")
    if expected is not None:
        parts.append(expected if weight == 1.0 else scaled_counts(expected, weight))
    if len(parts) > 1 and not oov:
        more = [word for part in parts for word in part.vocab.words if vocab.id(word) < 0 and may_be_added(word)]
        every = vocab.extended(dict.fromkeys(more))
        parts = [over_words(part, every) for part in parts]
    counts = add_counts(parts[0], parts[1]) if len(parts) > 1 else parts[0]
    if not oov:  # what normalisation could not make words of is none
        may = sayable if getattr(args, "normalise", "none") == "auto" else may_be_added
        counts = over_new_words(counts, vocab, new_words, may)
    _report_in_domain(counts, vocab, oov, listed=isinstance(new_words, list))
    return counts


def _report_in_domain(counts: "Counts", vocab: "Vocabulary", oov: str | None, listed: bool) -> None:
    """Says how much text there is and what becomes of words that the model lacks; refuses it if that is most of it."""
    stats = counts.stats
    added = counts.vocab.words[len(vocab) :]
    tokens = round(float(counts.count[1][len(vocab) :].sum()))
    if stats.oov + (0 if listed else tokens) > 0.5 * stats.words:
        unknown = [*added, *stats.oov_examples]
        why = "Are text and model in the same letter case, and are there no utterance names in the text?"
        if any(0xDC80 <= ord(letter) <= 0xDCFF for word in unknown for letter in word):
            why = "The text is not UTF-8; convert it: iconv -f latin1 -t utf-8 TEXT > TEXT.utf8"
        raise MdiError(
            f"{stats.oov + tokens:,} of {stats.words:,} in-domain words are outside the vocabulary, such as "
            f"{examples(unknown[:5])}; expected most of them in it. {why}"
        )
    note = f"; adds {len(added):,} new words ({tokens:,} tokens): {examples(added)}" if added else ""
    mapped = oov != "drop" and vocab.unk >= 0
    if stats.oov:
        done = "mapped to <unk>" if mapped else "left out with the n-grams around them"
        note += f"; {stats.oov:,} words outside the vocabulary, such as {examples(stats.oov_examples)}: {done}"
    say(f"in-domain: {stats.sentences:,} sentences, {stats.words:,} words{note}")
    warn_of_unknown("in-domain", stats.oov, stats.words, mapped)


def read_lattices(
    args: argparse.Namespace, sources: list[str], vocab: "Vocabulary | None", order: int, oov: str
) -> "Counts":
    """Expected counts over lattices and their like."""
    from mdi.speech.expected_counts import expected_counts

    scales = {"acoustic_scale": args.acoustic_scale, "lm_scale": args.lm_scale, "penalty": args.word_penalty}
    return expected_counts(sources, vocab, order, words=args.words, kind=args.lattice_format, oov=oov, **scales)


def read_adapted(path: str, args: argparse.Namespace, closed: bool = True) -> "NgramModel":
    """The model, adapted where there is a --delta to it."""
    if args.delta is None:
        return read_model(path, args, closed)
    from mdi.adaptation.delta import apply_delta

    return apply_delta(read_model(path, args), args.delta, path)


def warn_of_unknown(name: str, oov: int, words: int, scored: bool = True) -> None:
    """Perplexities over vocabularies that leave much out are no good for comparisons: <unk> is easy to predict, and
    what is not `scored` as <unk> costs nothing."""
    if oov > MUCH_UNKNOWN * words:
        why = "<unk> is easy to predict" if scored else "They are skipped"
        say(
            f"WARNING: {name}: {100 * oov / words:.1f}% of the words are outside the vocabulary. {why}, so "
            f"perplexities look better than they are; do not compare them with those over another "
            f"vocabulary. Add these words (mdi adapt --new-words add), or build models over a vocabulary that has "
            f"them (mdi vocab, mdi train --vocab)"
        )


def text_fields(stats: "TextStats") -> dict[str, int]:
    return {"sentences": stats.sentences, "words": stats.words, "oov": stats.oov}
