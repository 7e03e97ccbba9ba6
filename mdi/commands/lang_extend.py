"""Makes a lang directory with more words, as Kaldi's utils/lang/extend_lang.sh does.

It has a words.txt with the new words after the old ones, L.fst, L_disambig.fst and the files that belong to them. Kaldi
is not needed. G.fst is not copied: make it again.

LEXICON is Kaldi's lexicon.txt or lexiconp.txt, a file with lines `word = known words that it sounds like`, or
new_words.tsv. It need only have the new words. If it has words of LANG, it overrides their pronunciations. With
--words, words of that list that neither has are spelt out (G2P, learnt from the words of LANG)."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mdi.errors import UsageError, examples
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.speech.lexicon import Lexicon, Pronunciation

OPTIONS = """
lang LANG  lang directory of Kaldi's utils/prepare_lang.sh
lexicon LEXICON?  the new words; with --words it may be left out
out OUT  the new lang directory, which may replace one that this has made; with --words
  OUT.new_words.tsv lists pronunciations
--words FILE  words to add if they are new, one per line, which a count may follow
"""


def run(args: argparse.Namespace) -> None:
    from mdi.speech.lang import check_new_lang, extend_lang, read_lang

    if args.lexicon is None and args.words is None:
        raise UsageError("expected LANG LEXICON OUT, or --words FILE LANG OUT")
    args.out = args.out.rstrip("/") or "/"  # what is beside it is named after it
    check_new_lang(args.out, args.lang)
    lang = read_lang(args.lang)
    known = lang.lexicon()
    more: Mapping[str, Sequence[Pronunciation]] = {}
    if args.lexicon:
        more = _lexicon(args.lexicon, known, {name for name in lang.phones.ids if not name.startswith(("#", "<"))})
    if args.words:
        more = _with_guesses(args, known, more)
    new = extend_lang(lang, more, args.out)
    say(f"{len(new):,} new words, {sum(map(bool, more.values())) - len(new):,} said in another way -> {args.out}")


def _lexicon(path: str, known: "Lexicon", phones: set[str]) -> "Mapping[str, Sequence[Pronunciation]]":
    """Kaldi's lexicons with their probabilities, or what a user has written."""
    from mdi.speech.given import given_lines, read_given
    from mdi.speech.lexicon import POSITION, read_lexicon

    is_table, lines = given_lines(path)
    if not is_table and not any(text.split()[1:2] == ["="] for _, text in lines):
        return read_lexicon(path)
    given = read_given(path, known, {POSITION.sub("", name) for name in phones})
    return {word: [one.phones for one in ways] for word, ways in given.items()}


def _with_guesses(
    args: argparse.Namespace, known: "Lexicon", more: "Mapping[str, Sequence[Pronunciation]]"
) -> "Mapping[str, Sequence[Pronunciation]]":
    """The lexicon, and the words of the list that nobody has said yet."""
    from mdi.speech.g2p import train_g2p
    from mdi.speech.given import Given, write_new_words
    from mdi.speech.lexicon import listed_words
    from mdi.speech.pronounce import UNCERTAIN, pronounce

    counts = {word: n for word, n in listed_words(args.words).items() if word not in known}
    given = {word: [Given(phones) for phones in more[word]] for word in counts if word in more}
    said = pronounce(counts, known, train_g2p(known), given) if counts else []
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    write_new_words(f"{args.out}.new_words.tsv", said, counts)
    guessed = [one for one in said if one.pronunciations and one.word not in given]
    unsure = [one.word for one in guessed if one.certainty < UNCERTAIN]
    silent = [one for one in said if not one.pronunciations]
    say(
        f"{len(guessed):,} words said by rule or by letters, {len(unsure):,} of them uncertain: "
        f"see {args.out}.new_words.tsv"
    )
    if silent:
        say(f"{len(silent):,} words are left out: {examples([f'{one.word}: {one.how}' for one in silent])}")
    return {**more, **{one.word: list(one.pronunciations) for one in said if one.pronunciations}}
