"""What adapting a Vosk folder takes beside its models: counts of what it recognises itself, words that it lacks, and
whether it decodes better than before."""

from collections.abc import Callable, Iterable
from pathlib import Path

from mdi.errors import MdiError, OtherKindError, examples
from mdi.fst.symbols import words_of
from mdi.lm.counts import Counts, add_counts, count_text, scaled_counts
from mdi.lm.model import NgramModel
from mdi.lm.new_words import may_be_added
from mdi.lm.text import Sentences
from mdi.lm.word_counts import WordCounts
from mdi.progress import say
from mdi.speech.data import DataFolder, read_text
from mdi.speech.expected_counts import graph_counts
from mdi.speech.given import GivenLines
from mdi.speech.score import AS_RECOGNISED, BestPaths, compare, write_scores
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.new_words import NewWordsOfFolder, OwnWords, learn_words, not_added
from mdi.speech.vosk.results import Recognised, word_graphs
from mdi.speech.word_graph import Labels
from mdi.spoken import sayable
from mdi.spoken.speller import uncased

# What --new-words may be beside a number and a list: a graph has no <unk> that words could be mapped to.
NEW_WORDS = ("add", "none")
Texts = list[Path | Sentences]


def recognised_counts(
    data: str, recognised: Iterable[Recognised], own: NgramModel, new_words: list[str], texts: Texts, weight: float
) -> Counts:
    """Expected counts of what was recognised of the data, by their weight, and those of the texts, over the words of
    the model and new ones."""
    labels = Labels()
    graphs = list(word_graphs(recognised, labels))
    if not graphs:
        raise MdiError(f"{data}: not a word was recognised; is there speech in it?")
    vocab = own.vocab.extended([word for word in new_words if word not in own])
    expected = graph_counts(graphs, words_of(labels.of, vocab), vocab, own.order)
    say(f"recognised: {expected.stats.sentences:,} utterances, {expected.stats.words:,} words expected")
    own_counts = scaled_counts(expected, weight)
    return add_counts(count_text(texts, vocab, own.order), own_counts) if texts else own_counts


def words_of_texts(
    source: VoskFolder,
    own_words: Callable[[], OwnWords],
    counts: WordCounts,
    own: NgramModel,
    how: str | int | list[str],
    lexicon: GivenLines,
) -> NewWordsOfFolder:
    """Words of the texts that the folder lacks, as many as --new-words says, or of its list, with the graph that knows
    them."""
    known = source.symbols.ids
    unknown = {w: int(n) for w, n in zip(counts.words, counts.count, strict=True) if w not in known and may_be_added(w)}
    unknown = dict(sorted(unknown.items(), key=lambda item: (-item[1], item[0])))
    tokens = sum(unknown.values())
    if 2 * tokens > counts.total:
        raise MdiError(
            f"{tokens:,} of {counts.total:,} words of the text are unknown to the model, such as "
            f"{examples(list(unknown))}; expected most of them in it. Are text and model in the same "
            f"language and letter case, without punctuation, and are there no utterance names in the text?"
        )
    if unknown:
        say(f"{len(unknown):,} words of the text, {tokens:,} of {counts.total:,}, are unknown to the model")
    if how == "none":
        return not_added(source, unknown, "not added: --new-words none")
    if isinstance(how, list):
        wanted = {w: unknown.get(w, 0) for w in dict.fromkeys(how) if w not in known and may_be_added(w)}
        if there := [w for w in how if w in known]:
            say(f"--new-words: {len(there):,} words are known already, such as {examples(there)}")
    else:
        wanted = worth_adding(unknown, lexicon, how if isinstance(how, int) else 1)
    return learned(source, own_words, wanted, lexicon, how != "add" or bool(lexicon.path), own)


def worth_adding(count: dict[str, int], lexicon: GivenLines, least: int = 0) -> dict[str, int]:
    """The words to add where nobody has listed them: those seen so often that can be words, or that the lexicon has in
    some spelling. A line names the others."""
    given = set(map(uncased, lexicon.words))
    worth = {w: n for w, n in count.items() if n >= least and (uncased(w) in given or sayable(w))}
    if left := [word for word in count if word not in worth]:
        seldom = f" or are seen less than {least} times" if least > 1 else ""
        say(f"{len(left):,} words are left out, as they cannot be said{seldom}: {examples(left)}")
    return worth


def words_of_graph(source: VoskFolder, counts: WordCounts, own: NgramModel) -> list[str]:
    """Words of the texts that the graph knows and the model lacks, as one of a small domain does: nothing else keeps
    them from being recognised."""
    known = source.symbols.ids
    found = [word for word in counts.words if word in known and word not in own and may_be_added(word)]
    if found:
        say(f"{len(found):,} words of the text are in the graph but not in the model: added, such as {examples(found)}")
    return found


def learned(
    source: VoskFolder,
    own_words: Callable[[], OwnWords],
    count: dict[str, int],
    lexicon: GivenLines,
    required: bool,
    own: NgramModel,
) -> NewWordsOfFolder:
    """How the words are said, and the graph with them. A graph of a kind to which none can be added is an error only
    where they are `required`, a damaged one always. `own`: the folder's model, which tells frequent
    words from rare ones."""
    new, known = set(map(uncased, count)), source.symbols.ids
    if strange := [word for word in lexicon.words if word not in known and uncased(word) not in new]:
        say(f"{lexicon.path}: {len(strange):,} words are not among the new words, such as {examples(strange)}")
    if not count:
        return not_added(source, {}, "")
    try:
        probability = dict(zip(own.vocab.words, own.p[1].tolist(), strict=True))
        found = learn_words(source, own_words(), count, lexicon, probability)
    except OtherKindError as error:
        if required:
            raise
        say(f"{error}. New words are left out")
        return not_added(source, count, "not added: the graph cannot take words")
    listed = ", ".join(
        f"{one.word} {count[one.word]} ({one.sounds_like[0] or ' '.join(one.pronunciations[0])}"
        f"{'?' if one in found.uncertain else ''})"
        for one in found.said[:20]
        if one.pronunciations
    )
    say(
        f"{len(found.added):,} new words, with their counts and what they sound like: {listed}"
        f"{' ...' if len(found.added) > 20 else ''}"
    )
    if found.uncertain:
        say(
            f"{len(found.uncertain):,} of them are uncertain (?), such as "
            f"{examples([one.word for one in found.uncertain])}: correct them in new_words.tsv, and give it back with "
            f"--lexicon"
        )
    if found.not_said:
        say(
            f"{len(found.not_said):,} words are left out, such as "
            f"{', '.join(f'{one.word} ({one.how})' for one in found.not_said[:3])}"
        )
    return found


def compare_decodings(data: DataFolder, before: Path, after: Path) -> None:
    """WER of both decodings, and whether they differ."""
    for folder in (before, after):
        found = BestPaths({AS_RECOGNISED: read_text(folder / "text")})
        write_scores(str(folder), found, data.text(), data.speakers(), "strict")
        print((folder / "scoring_kaldi" / "best_wer").read_text(), end="")
    print(compare(str(after), [str(before)], data.text(), "strict"), end="")
