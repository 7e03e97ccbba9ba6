"""New words for a Vosk folder: how they are said, the graph that knows them, and the larger table of words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mdi.errors import MdiError, examples
from mdi.files import write_file
from mdi.fst.lookahead import write_lookahead
from mdi.fst.symbols import SymbolTable
from mdi.progress import get_logger
from mdi.speech.g2p import train_g2p
from mdi.speech.given import GivenLines, read_given, write_new_words
from mdi.speech.lexicon import Lexicon
from mdi.speech.pronounce import UNCERTAIN, Pronounced, Speaker
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.graft import Grafted, add_words, by_sound
from mdi.speech.vosk.recogniser_graph import RecogniserGraph, read_graph
from mdi.spoken.speller import uncased

logger = get_logger(__name__)

_APOSTROPHE = re.compile("['’]")


@dataclass(frozen=True)
class NewWordsOfFolder:
    """`said`: all words that were asked for; those without pronunciations cannot be added. `count`: in the text."""

    said: list[Pronounced]
    count: Mapping[str, int]
    symbols: SymbolTable
    grafted: Grafted | None = None  # None: nothing is added

    @property
    def added(self) -> dict[str, int]:
        """The words and their numbers."""
        return self.grafted.labels if self.grafted else {}

    @property
    def uncertain(self) -> list[Pronounced]:
        return [one for one in self.said if one.pronunciations and one.certainty < UNCERTAIN]

    @property
    def not_said(self) -> list[Pronounced]:
        return [one for one in self.said if not one.pronunciations]

    def places(self, source: VoskFolder) -> list[str]:
        """Files of the folder that are written anew."""
        if not self.added:
            return []
        table = source.graph / "words.txt"
        paths = [source.graph / "HCLr.fst", *([table] if table.exists() else [])]
        return [str(path.relative_to(source.path)) for path in paths]

    def write(self, folder: VoskFolder, source: VoskFolder) -> None:
        """The graph, words.txt where the source has one, and new_words.tsv."""
        for place in self.places(source):
            if place.endswith("words.txt"):
                write_file(folder.path / place, "".join(f"{word} {i}\n" for word, i in self.symbols.ids.items()))
            elif self.grafted:
                write_lookahead(self.grafted.fst, str(folder.path / place))
        write_new_words(str(folder.path / "new_words.tsv"), self.said, self.count)

    def as_dict(self) -> dict[str, Any]:
        """For the certificate."""
        return {
            "added": self.added,
            "uncertain": [one.word for one in self.uncertain],
            "not_said": {one.word: one.how for one in self.not_said},
            "pronunciations": sum(len(one.pronunciations) for one in self.said),
            "guessed_contexts": sum(self.grafted.guessed.values()) if self.grafted else 0,
        }


def not_added(source: VoskFolder, count: Mapping[str, int], why: str) -> NewWordsOfFolder:
    """The same where no word can be, or is to be, added."""
    return NewWordsOfFolder([Pronounced(word, (), why, 0.0) for word in count], count, source.symbols)


@dataclass(frozen=True)
class OwnWords:
    """What a folder's graph says of the words that it has, and who says new ones by it."""

    graph: RecogniserGraph
    lexicon: Lexicon
    speaker: Speaker


def read_own_words(source: VoskFolder) -> OwnWords:
    """MdiError where the graph is one to which words cannot be added."""
    graph = read_graph(source)
    lexicon = Lexicon(graph.lexicon())
    return OwnWords(graph, lexicon, Speaker(lexicon, train_g2p(lexicon), {}))


def learn_words(
    source: VoskFolder,
    own: OwnWords,
    count: Mapping[str, int],
    given_lines: GivenLines,
    probability: Mapping[str, float],
) -> NewWordsOfFolder:
    """The words, all of which the folder lacks, by what its own lexicon says of spelling; `given_lines`: what the user
    says of them; `probability`: of known words."""
    graph, lexicon = own.graph, own.lexicon
    given = read_given(given_lines, lexicon)
    spelt = {uncased(word): word for word in reversed(list(count))}  # before a text is normalised it may differ
    given = {spelt.get(uncased(w), w): ways for w, ways in given.items()} | {w: given[w] for w in count if w in given}
    if known := [word for word in given if word in lexicon]:
        logger.warning(
            f"{given_lines.path}: {len(known):,} words are in the model, such as {examples(known)}; they are "
            f"said as they were"
        )
    speaker = own.speaker.told(given, probability)
    # whole words first: of a new name its forms are then known too (floda, floda's), as surely as itself
    said = {one.word: one for one in speaker.say([word for word in count if not _APOSTROPHE.search(word)])}
    lexicon.update({word: list(one.pronunciations) for word, one in said.items() if one.pronunciations})
    for one in speaker.say([word for word in count if word not in said]):
        parts = [said[part] for part in one.how.split()[1:] if part in said]
        said[one.word] = replace(one, certainty=min([one.certainty, *(part.certainty for part in parts)]))
    ways = by_sound({word: said[word].pronunciations for word in count if said[word].pronunciations})
    symbols = source.symbols
    if known := [word for word in ways if word in symbols.ids]:
        raise MdiError(f"the word '{known[0]}' is in {source.words}; expected words that the model lacks")
    larger = symbols.extended(ways)
    first = max(symbols.ids.values()) + 1
    grafted = add_words(graph, ways, first) if ways else None
    if grafted and any(larger.ids[word] != label for word, label in grafted.labels.items()):
        raise AssertionError("labels and table disagree")
    return NewWordsOfFolder([said[word] for word in count], count, larger, grafted)
