"""Adds words to the graph and the language models of a Vosk model, without any text of the domain.

LIST has one word per line. Pronunciations are worked out from the model's own lexicon, or given with --lexicon.
OUT_DIR/new_words.tsv lists them; to correct them, edit that file and pass it with --lexicon. If you have text in which
the words occur, use mdi vosk adapt instead: it learns how likely they are, and after which words.
"""

import argparse
import re
from functools import partial

from mdi.commands import vosk_folders as folders
from mdi.errors import MdiError, OptionError, examples
from mdi.progress import say

# What a word gets without text that says how likely it is; all together at most MOST.
PROBABILITY, MOST = 1e-4, 0.1

OPTIONS = f"""
model MODEL_DIR  directory of a Vosk model with a dynamic graph (HCLr.fst)
list LIST  the words, one on each line, or an edited new_words.tsv
out OUT_DIR  the new directory
--probability P = {PROBABILITY:g}  probability of each word after any other; together they get at most {MOST:g}
{folders.MODELS}
[new words]
{folders.LEXICON}
{folders.WEIGHT}
{folders.BEAM}
"""


def run(args: argparse.Namespace) -> None:
    from mdi.lm.new_words import may_be_added, with_words
    from mdi.lm.normalise import scaled_to_one
    from mdi.speech.given import given_lines
    from mdi.speech.vosk.adapt import learned
    from mdi.speech.vosk.new_words import read_own_words
    from mdi.threads import meanwhile

    if not 0.0 < args.probability < 1.0:
        raise OptionError("probability", args.probability, "a probability, between 0 and 1")
    exchange = folders.begin(args)
    source = exchange.source
    listed = given_lines(args.list)
    if not (words := listed.words):
        raise MdiError(f"{args.list}: no words; expected one per line, or new_words.tsv")
    if listed.is_table and not args.lexicon:  # new_words.tsv: it also says how they are said
        args.lexicon, args.given = args.list, listed
    for number, line in () if listed.is_table else listed.lines:
        if not re.fullmatch(r"\S+(\s+\d+)?", line.strip()):
            raise MdiError(f"{args.list}:{number}: '{line.strip()[:80]}'; expected one word per line, or new_words.tsv")
    known = source.symbols.ids
    if there := [word for word in words if word in known]:
        say(f"{args.list}: {len(there):,} of {len(words):,} words are known already, such as {examples(there)}")
    own_words = meanwhile(partial(read_own_words, source))
    wanted = {word: 0 for word in words if word not in known and may_be_added(word)}
    owns = {place: scaled_to_one(str(path), exchange.read(path)) for place, path in exchange.adapted.items()}
    new_words = learned(source, own_words, wanted, args.given, True, next(iter(owns.values())))
    added = list(new_words.added)
    if wanted and not added:
        raise MdiError(f"{args.list}: none of its words can be said; expected some that can. Say how: --lexicon")
    p = min(args.probability, MOST / max(1, len(added)))
    models = {}
    for place, own in owns.items():
        lacking = [word for word in added if word not in own]
        models[place] = with_words(own, lacking, [p] * len(lacking)) if lacking else own
    content = {"list": args.list, "lexicon": args.lexicon, "probability": p}
    models = exchange.completed(models) if added else {}  # nothing is changed, and so nothing is written anew
    folders.write_folder(args, "add-words", source, models, content, new_words)
