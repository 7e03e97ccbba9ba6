"""What is wrong with a model, or will be once Kaldi reads it. The reader has refused what no tool should accept."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mdi.errors import examples
from mdi.lm.model import NgramModel, with_suffixes
from mdi.lm.normalise import SUM_ERROR, SUM_WARNING, sum_gaps
from mdi.lm.trie import Array, scattered
from mdi.lm.vocabulary import UNKNOWN

# A back-off weight beyond this shows that hardly anything was left to back off for.
LARGE_BOW = 1e3


@dataclass(frozen=True)
class Finding:
    level: str  # ok, warning or error
    text: str


def check(model: NgramModel, words: Iterable[str] | None = None) -> list[Finding]:
    """What is right and wrong with a model: see `mdi.check`, which takes files too."""
    found = [*_symbols(model), *_rows(model), *_sums(with_suffixes(model))]
    return found if words is None else [*found, *_against_words(model, list(words))]


def _spelled(model: NgramModel, k: int, rows: Array) -> str:
    shown = [model.vocab.spell(ids) for ids in model.trie.ngrams(k, rows[:5])]
    return examples(shown) + (f" and {len(rows) - 5:,} more" if len(rows) > 5 else "")


def _symbols(model: NgramModel) -> Iterator[Finding]:
    vocab = model.vocab
    has = [name for name in UNKNOWN if vocab.id(name) >= 0]
    if len(has) == 2:
        yield Finding("warning", "both <unk> and <UNK> are words: only <unk> is taken for unknown words; rename one")
    elif not has:
        yield Finding("ok", "no <unk>: a closed vocabulary, words outside it have no probability")
    else:
        yield Finding("ok", f"<s>, </s> and {has[0]} are there")
    for word in ("<eps>", "#0"):
        if vocab.id(word) >= 0:
            text = f"'{word}' is a word of the model: arpa2fst and const-arpa reserve it; rename the word"
            yield Finding("error", text)


def _rows(model: NgramModel) -> Iterator[Finding]:
    trie, vocab = model.trie, model.vocab
    lost = [(k, rows) for k in range(3, trie.order + 1) if len(rows := np.flatnonzero(trie.suffix[k] < 0))]
    if lost:
        total, shown = sum(len(rows) for _, rows in lost), _spelled(model, *lost[0])
        text = f"{total:,} n-grams lack their suffix, such as {shown}: a pruned model, read rightly here"
        yield Finding("ok", text)

    def any_of(level: str, k: int, rows: Array, what: str, then: str = "") -> Iterator[Finding]:
        if len(rows):
            yield Finding(level, f"{len(rows):,} {what}: {_spelled(model, k, rows)}{then}")

    for k in range(1, trie.order + 1):
        zero = model.p[k] == 0
        if k == 1:
            zero[vocab.bos] = False
        yield from any_of("warning", k, np.flatnonzero(zero), f"{k}-grams have probability 0")
        if k > 1:
            rows = np.flatnonzero(trie.word[k] == vocab.bos)
            yield from any_of("error", k, rows, f"{k}-grams predict <s>", "; arpa2fst skips them")
            rows = np.arange(*trie.begin[k][list(trie.hists_ending_in(k - 1, (vocab.eos, vocab.eos + 1)))])
            yield from any_of("error", k, rows, f"{k}-grams have </s> in their history", "; Kaldi cannot follow them")
        if k < trie.order:
            heavy = trie.row_of_hist[k][model.bow[k] > LARGE_BOW]
            yield from any_of("warning", k, heavy, f"back-off weights over {LARGE_BOW:g}")


def _sums(model: NgramModel) -> Iterator[Finding]:
    worst, where, off = sum_gaps(model)
    histories = sum(model.trie.n_hist(j) for j in range(model.order))
    level = "ok" if worst <= SUM_WARNING else "warning" if worst <= SUM_ERROR else "error"
    text = f"worst |sum of p - 1| over all {histories:,} histories: {worst:.2g} (after {where})"
    if off:
        text += f"; {off:,} are off by more than {SUM_ERROR:g}: not a probability model. "
        text += "Build it again, or adapt with --allow-unnormalized"
    yield Finding(level, text)


def _against_words(model: NgramModel, words: list[str]) -> Iterator[Finding]:
    trie, vocab = model.trie, model.vocab
    table = set(words)
    if "#0" not in table:
        yield Finding("error", "words.txt has no '#0': arpa2fst --disambig-symbol=#0 needs it; add it")
    unlisted = np.array([word not in table for word in vocab.words])
    unlisted[[vocab.bos, vocab.eos]] = False  # arpa2fst needs no symbol for them
    missing = [word for word in ("<s>", "</s>") if word not in table]
    if missing:
        text = f"words.txt has no {' and no '.join(missing)}: arpa-to-const-arpa needs both, arpa2fst does not"
        yield Finding("warning", text)
    total = int(unlisted.sum())
    dropped = 0
    bad = np.zeros(1, bool)
    for k in range(1, trie.order + 1):
        here = unlisted[trie.word[k]] | np.repeat(bad, np.diff(trie.begin[k]))
        dropped += int(here.sum())
        if k < trie.order:
            bad = scattered(here, trie.as_hist[k])
    if total:
        share = 100.0 * dropped / sum(trie.counts)
        names = examples([vocab.words[w] for w in np.flatnonzero(unlisted)])
        level = "warning" if share < 50 else "error"
        yield Finding(
            level, f"{total:,} words are not in words.txt: {names}; arpa2fst drops {dropped:,} n-grams ({share:.2g}%)"
        )
    else:
        yield Finding("ok", "every word is in words.txt")
    known = {*vocab.words, "<eps>", "<s>", "</s>"}
    strange = [word for word in words if word not in known and not word.startswith("#")]
    if strange:
        shown = f"{len(strange):,} words of words.txt are not in the model ({examples(strange)})"
        yield Finding("warning", f"{shown}: they cannot be recognised")
