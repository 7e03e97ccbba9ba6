#!/usr/bin/env python3
"""Recorded speech for one of Vosk's small models (vosk_model.py): a game's dialogue (game_dialogue.py) or the prompts
of a telephone exchange (telephone_prompts.py).

DIR gets the texts and data folders (recorded_speech.py), the recogniser (vosk_model.use_model), and its language model
and words as background.arpa.gz and vocab.txt.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import game_dialogue
import telephone_prompts
import vosk_model
from prepare_corpus import add_new_word_arguments, count_words, link, write_lines
from recorded_speech import speech_parser, write_sets

from mdi.arguments import boolean
from mdi.errors import MdiError, exit_code


def prepare(args: argparse.Namespace) -> None:
    folder, downloads = Path(args.out), Path(args.downloads)
    if args.source == "dialogue":
        if args.language != "en":
            raise MdiError(f"--language {args.language}: the game speaks English; expected en, or --source prompts")
        read, given = game_dialogue.recordings, args.game
    else:
        read, given = partial(telephone_prompts.recordings, language=args.language), args.prompts
    model = vosk_model.find_model(args.vosk_model, downloads, args.language)
    if args.only_downloads:
        read(given, downloads)
        return
    folder.mkdir(parents=True, exist_ok=True)
    words = vosk_model.use_model(model, folder)
    link(folder / "own.arpa.gz", folder / "background.arpa.gz")
    # by the words that the recogniser knew before: the same sets whether new ones are added or not
    write_sets(folder, read(given, downloads), str(folder / "words.txt"), args.spoken, args.train_spoken, args.seed)
    (folder / "new_words.tsv").unlink(missing_ok=True)
    if args.new_words == "add":
        counts = count_words(folder / "train.txt.gz")
        larger = vosk_model.with_new_words(model, folder, counts, counts.total(), args.lexicon)
        words = vosk_model.use_model(larger, folder)
    write_lines(folder / "vocab.txt", words)


def main(argv: list[str] | None = None) -> int:
    parser = speech_parser(__doc__)
    add = parser.add_argument
    add("--source", choices=("dialogue", "prompts"), default="dialogue", help="(dialogue)")
    add("--language", choices=telephone_prompts.RELEASES, default="en", help="of the prompts (en)")
    add("--prompts", metavar="DIR", help="directory with Debian's packages of them (downloaded with apt-get)")
    add("--only-downloads", type=boolean, default=False, metavar="true|false", help="and nothing else (false)")
    add("--spoken", type=int, default=0, metavar="N", help="utterances of the evaluation set (0: all; half of dev)")
    add("--train-spoken", type=int, default=0, metavar="N", help="utterances of the training text, as sound (0: none)")
    add_new_word_arguments(parser)
    args = parser.parse_args(argv)
    return exit_code("local/prepare_data.sh", lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
