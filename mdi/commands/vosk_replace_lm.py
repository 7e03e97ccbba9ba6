"""Makes a copy of a Vosk model's folder with another language model, in any form.

A model with a dynamic graph (graph/Gr.fst) gets LM as its Gr.fst, and in rescore/ where it rescores. With --delta,
which takes files of mdi adapt --delta, LM is adapted first; without LM the model of the folder that the file is for.
Words that the folder lacks are added to its graph where a delta brings them (see mdi vosk adapt), or with --new-words
add; otherwise the n-grams of LM that have them are dropped.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mdi.commands import vosk_folders as folders
from mdi.commands import vosk_weight
from mdi.errors import MdiError

if TYPE_CHECKING:
    from mdi.lm.model import NgramModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_DIR", help="folder of a Vosk model")
    parser.add_argument("lm", metavar="LM", nargs="?", help="in any form; with --delta it may be left out")
    parser.add_argument("out", metavar="OUT_DIR", help="the new folder")
    folders.add_model_arguments(parser)
    folders.add_new_word_arguments(parser)
    parser.add_argument(
        "--new-words", choices=("add", "none"), help="words that the folder lacks (add those of a delta, none of LM's)"
    )
    folders.add_weight_arguments(parser)
    vosk_weight.add_argument(parser)
    folders.add_decoding_arguments(parser)
    folders.add_delta_argument(parser)
    folders.add_beam_argument(parser)


def run(args: argparse.Namespace) -> None:
    from mdi.speech.vosk.folder import check_new_folder, find_vosk_folder

    started = time.monotonic()
    folders.check_options(args)
    if args.lm is None and not args.delta:
        raise MdiError("expected MODEL_DIR LM OUT_DIR, or --delta A.delta MODEL_DIR OUT_DIR")
    source = find_vosk_folder(args.model, args.lattice_beam)
    folders.weight_for(args, source)
    vosk_weight.check(args, source)
    check_new_folder(Path(args.out), source)
    plan = adapted, unchanged = folders.plan_of(source, args.large, args.first_pass)
    if args.lm is None:
        models = folders.own_adapted(args, source, plan)
    else:
        models = dict.fromkeys(adapted, _with_delta(args, folders.read_for(args.lm, source)))
        for place, path in unchanged.items():
            models[place] = models[str(path)] if str(path) in models else folders.read_for(str(path), source)
    lms = [] if args.lm is None else [args.lm]
    content = {"lm": lms, "deltas": args.delta}
    lacking = folders.lacking_words(source, models)
    new_words = None
    if args.new_words == "add" or (args.new_words is None and args.delta):
        new_words = folders.learned(source, dict.fromkeys(lacking, 0), args.lexicon, required=True) if lacking else None
        for place, path in adapted.items() if lacking else ():  # a model that rescores must know them too
            models.setdefault(place, source.read(path))
    elif args.delta:
        folders.refuse_new_words(source, lacking)
    folders.write_folder(args, "replace-lm", source, models, content, started, new_words)
    if args.dev_recordings:
        vosk_weight.choose_weight(args)


def _with_delta(args: argparse.Namespace, model: NgramModel) -> NgramModel:
    from mdi.adaptation.delta import apply_delta

    if len(args.delta) > 1:
        raise MdiError(f"{len(args.delta)} deltas for {args.lm}; expected one")
    return apply_delta(model, args.delta[0], args.lm) if args.delta else model
