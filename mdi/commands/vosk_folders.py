"""Not a verb: what those of Vosk directories share, options, checks, new words, and the directory that is written."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.commands.inputs import check_inputs
from mdi.errors import MdiError, OptionError, UsageError, check_positive
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.fst.graph_weight import GraphWeight
    from mdi.lm.model import NgramModel
    from mdi.speech.vosk.folder import VoskFolder
    from mdi.speech.vosk.models import Exchange
    from mdi.speech.vosk.new_words import NewWordsOfFolder

# Lattices of a smaller beam hold too few sequences for rescoring to choose from.
RESCORING_BEAM = 6.0

# Files that may be among the arguments.
_INPUTS = ("texts", "dev", "ppl", "list", "lm", "large", "first_pass", "lexicon", "delta")

# Options of actions that write a folder.
MODELS = """
--large LM  rescore with this model, as it is, whatever its form
--first-pass LM  the model that a static graph (HCLG.fst) was made with
"""
LEXICON = """
--lexicon FILE  how words are said: 'word phone phone ...', or 'word = known words that it sounds like', or an edited
  new_words.tsv (the words' letters, by what the model's own lexicon says of spelling)
"""
WEIGHT = """
[weight in the graph]
--lm-weight W  factor of the language model's costs (MODEL_DIR's, usually 1)
--word-penalty P  cost of a word beside them (MODEL_DIR's, usually 0)
[]
"""
DEV_RECORDINGS = "--dev-recordings DATA_DIR  choose LM weight and penalty on this Kaldi data directory with transcripts"
DELTA = "--delta A.delta*  adapt a model of the directory, or LM, with this file; may be repeated"
BEAM = "--lattice-beam B  of the lattices (the model's; at least 6 where a directory rescores them)"
DECODING = """
[decoding]
--nj N = 1  threads
--allow-pipes true|false = false  run the commands that wav.scp has for recordings, in a shell; false: refuse them
--dither true|false = false  let libvosk add random noise to the sound, as it does by itself
--channel N  of recordings with several, where neither reco2file_and_channel nor the fifth field of segments says which;
  counted from 1 (refused)
--max-overshoot S = 0.5  cut segments that end less than S seconds after their recording; others have no words
--n-best N = 0  also the N best sequences of each utterance, with scores, as a list and as lattices
[]
"""


def begin(args: argparse.Namespace) -> "Exchange":
    """Which models of MODEL_DIR are exchanged; whether inputs are there and OUT_DIR can be made, before any work is
    done."""
    from mdi.lm.new_words import as_new_words
    from mdi.speech.data import DataFolder
    from mdi.speech.vosk.adapt import NEW_WORDS
    from mdi.speech.vosk.folder import check_new_folder, find_vosk_folder
    from mdi.speech.vosk.models import exchange_of
    from mdi.spoken.numbers import code_of

    check_options(args)
    given = (getattr(args, name, None) for name in _INPUTS)
    check_inputs(*(path for one in given for path in (one if isinstance(one, list) else [one])))
    if getattr(args, "new_words", None) is not None:
        as_new_words(args.new_words, NEW_WORDS)
    if getattr(args, "language", None):
        code_of(args.language)
    source = find_vosk_folder(args.model, args.lattice_beam)
    weight_for(args, source)
    if getattr(args, "dev_recordings", None) is not None:
        if args.lm_weight is not None or args.word_penalty is not None:
            raise UsageError("--dev-recordings chooses --lm-weight and --word-penalty; expected it alone, or these")
        if not source.dynamic:
            raise MdiError(
                f"{source.path}: a static graph (HCLG.fst), whose weights cannot be changed; --dev-recordings "
                f"is for directories with Gr.fst"
            )
        data = DataFolder(Path(args.dev_recordings))
        for name in ("wav.scp", "text"):
            if not data.has(name):
                raise MdiError(f"{data.path}/{name}: not there; expected recordings with transcripts")
    check_new_folder(Path(args.out), source)
    return exchange_of(source, args.large, args.first_pass)


def weight_for(args: argparse.Namespace, source: "VoskFolder") -> "GraphWeight":
    """What is asked for; otherwise what the folder has."""
    from mdi.fst.graph_weight import GraphWeight

    own = source.weight
    weight = GraphWeight(
        own.lm_weight if args.lm_weight is None else args.lm_weight,
        own.word_penalty if args.word_penalty is None else args.word_penalty,
    )
    if weight and not source.dynamic:
        raise MdiError(
            f"{source.path}: a static graph (HCLG.fst), whose weights cannot be changed; --lm-weight and "
            f"--word-penalty are for directories with Gr.fst"
        )
    return weight


def check_options(args: argparse.Namespace) -> None:
    for name in ("lattice_beam", "nj", "threads", "max_settings", "count_weight", "channel"):
        if getattr(args, name, None) is not None:
            check_positive(name, getattr(args, name))
    if not 0 <= getattr(args, "max_overshoot", 0) < float("inf"):
        raise OptionError("max_overshoot", args.max_overshoot, "seconds")
    if getattr(args, "n_best", 0) < 0:
        raise OptionError("n_best", args.n_best, "a number of sequences, or 0")


def write_folder(
    args: argparse.Namespace,
    command: str,
    source: "VoskFolder",
    models: "dict[str, NgramModel]",
    content: dict[str, Any],
    new_words: "NewWordsOfFolder | None" = None,
) -> None:
    """The folder with these models in their places, a graph with new words if there are some, and its certificate."""
    from mdi.certificate import write_certificate
    from mdi.speech.vosk.folder import exchange_lm, new_folder
    from mdi.speech.vosk.models import with_new_words

    weight = weight_for(args, source)
    out = Path(args.out)
    beam = args.lattice_beam
    if beam is None and any(place.endswith("G.carpa") for place in models):
        beam = max(source.lattice_beam or 0.0, RESCORING_BEAM)
    if new_words and new_words.added:
        models = with_new_words(models, list(new_words.added))
    symbols = new_words.symbols if new_words else source.symbols
    graph = new_words.places(source) if new_words else []
    with new_folder(source, out, [*models, *graph], beam) as folder:
        for place, model in models.items():
            exchange_lm(symbols, folder.path / place, model, weight)
        if new_words:
            new_words.write(folder, source)
            content["new_words"] = new_words.as_dict()
        content |= {
            "command": f"vosk {command}",
            "model": args.model,
            "exchanged": sorted([*models, *graph]),
            "large": args.large,
            "first_pass": args.first_pass,
            "lattice_beam": beam,
            "lm_weight": weight.lm_weight,
            "word_penalty": weight.word_penalty,
        }
        write_certificate(str(folder.path / "mdi"), content, time.monotonic() - args.started)
    if beam is not None and beam != source.lattice_beam:
        say(f"{out}: lattice beam {beam:g} instead of {source.lattice_beam or 'the default'}")
    if weight:
        say(f"{out}: {weight} are in the graph's costs, which are to decode with and no probabilities")
    exchanged = ", ".join(content["exchanged"])
    what = f"a Vosk model with another {exchanged}" if exchanged else f"the same Vosk model as {args.model}"
    say(f"{out}: {what}; load it as any other: vosk.Model('{out}')")
