"""Copies a Vosk model's directory and gives the copy another language model, which may be in any format.

A model with a dynamic graph (graph/Gr.fst) gets LM as its Gr.fst, and in rescore/ if it rescores. --delta, which takes
files of mdi adapt --delta, adapts LM first, or without LM the model in the directory that the file belongs to. Words
that the directory lacks are added to its graph if a delta brings them (see mdi vosk adapt), or with --new-words add;
otherwise n-grams of LM with such words are dropped.
"""

import argparse
from functools import partial

from mdi.commands import vosk_folders as folders
from mdi.commands import vosk_weight
from mdi.errors import UsageError

OPTIONS = f"""
model MODEL_DIR  directory of a Vosk model
lm LM?  in any form; with --delta it may be left out
out OUT_DIR  the new directory
{folders.MODELS}
[new words]
{folders.LEXICON}
[]
--new-words add|none  words that the directory lacks (add those of a delta, none of LM's)
{folders.WEIGHT}
{folders.DEV_RECORDINGS}
{folders.DECODING}
{folders.DELTA}
{folders.BEAM}
"""


def run(args: argparse.Namespace) -> None:
    from mdi.adaptation.delta import apply_delta
    from mdi.fst.formats import load
    from mdi.speech.vosk.adapt import learned, worth_adding
    from mdi.speech.vosk.models import lacking_words, refuse_new_words
    from mdi.speech.vosk.new_words import read_own_words

    if args.lm is None and not args.delta:
        raise UsageError("expected MODEL_DIR LM OUT_DIR, or --delta A.delta MODEL_DIR OUT_DIR")
    exchange = folders.begin(args)
    source, adapted = exchange.source, exchange.adapted
    if args.lm is None:
        models = exchange.adapted_by(args.delta)
    else:
        lm = load(args.lm, str(source.words))
        if len(args.delta) > 1:
            raise UsageError(f"{len(args.delta)} deltas for {args.lm}; expected one")
        for delta in args.delta:
            lm = apply_delta(lm, delta, args.lm)
        models = exchange.completed(dict.fromkeys(adapted, lm))
    content = {"lm": [] if args.lm is None else [args.lm], "deltas": args.delta}
    lacking = lacking_words(source, models)
    new_words = None
    if args.new_words == "add" or (args.new_words is None and args.delta):
        count = dict.fromkeys(lacking, 0)
        if args.delta:
            count = worth_adding(count, args.lexicon)
        if lacking:
            own = next(iter(models.values()))
            new_words = learned(source, partial(read_own_words, source), count, args.lexicon, True, own)
            for place, path in adapted.items():  # a model that rescores must know them too
                models.setdefault(place, source.read(path))
    elif args.delta:
        refuse_new_words(source, lacking)
    folders.write_folder(args, "replace-lm", source, models, content, new_words)
    if args.dev_recordings:
        vosk_weight.choose_weight(args)
