"""Not a verb: where the language models of a Vosk directory go, and the directory that is written with them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.errors import MdiError, OptionError, check_positive, examples
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.fst.graph_weight import GraphWeight
    from mdi.lm.model import NgramModel
    from mdi.speech.vosk.folder import VoskFolder
    from mdi.speech.vosk.new_words import NewWordsOfFolder

Plan = tuple[dict[str, Path], dict[str, Path | str]]
# Lattices of a smaller beam hold too few sequences for rescoring to choose from.
RESCORING_BEAM = 6.0

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


def weight_for(args: argparse.Namespace, source: VoskFolder) -> GraphWeight:
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


def learned(
    source: VoskFolder, count: dict[str, int], lexicon: str | None, required: bool, own: NgramModel
) -> NewWordsOfFolder:
    """How the words are said, and the graph with them. A graph to which none can be added is an error only where they
    are `required`. `own`: the folder's model, which tells frequent words from rare ones."""
    from mdi.speech.vosk.new_words import learn_words, not_added

    if not count:
        return not_added(source, {}, "")
    try:
        probability = dict(zip(own.vocab.words, own.p[1].tolist(), strict=True))
        found = learn_words(source, count, lexicon, probability)
    except MdiError as error:
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


def lacking_words(source: VoskFolder, models: dict[str, NgramModel]) -> list[str]:
    """Words of the models that the folder lacks."""
    from mdi.lm.new_words import may_be_added

    known = source.symbols().ids
    words = dict.fromkeys(word for model in models.values() for word in model.vocab.words if word not in known)
    return [word for word in words if may_be_added(word)]


def refuse_new_words(source: VoskFolder, lacking: list[str]) -> None:
    """Where they cannot be recognised: their n-grams would be missing in what decodes."""
    if lacking:
        raise MdiError(
            f"{source.path}: lacks {len(lacking):,} words of the delta, such as {examples(lacking)}, which need a "
            f"graph that knows them. Make a directory with one: mdi vosk replace-lm --delta A.delta MODEL_DIR OUT_DIR"
        )


def _with_new_words(models: dict[str, NgramModel], added: list[str]) -> dict[str, NgramModel]:
    """All models with all of these words: where one lacks some, they are as likely as in one that has them."""
    from mdi.lm.new_words import with_words

    made = {}
    for place, model in models.items():
        lacking = [word for word in added if word not in model]
        other = next((one for one in models.values() if all(word in one for word in lacking)), model)
        made[place] = with_words(model, lacking, other.p[1][other.vocab.ids(lacking)]) if lacking else model
    return made


def check_options(args: argparse.Namespace) -> None:
    if args.lattice_beam is not None:
        check_positive("lattice_beam", args.lattice_beam)
    for name in ("nj", "threads", "max_settings", "count_weight"):
        if hasattr(args, name):
            check_positive(name, getattr(args, name))
    if getattr(args, "channel", None) is not None:
        check_positive("channel", args.channel)
    if not 0 <= getattr(args, "max_overshoot", 0) < float("inf"):
        raise OptionError("max_overshoot", args.max_overshoot, "seconds")
    if getattr(args, "n_best", 0) < 0:
        raise OptionError("n_best", args.n_best, "a number of sequences, or 0")


def plan_of(source: VoskFolder, large_lm: str | None = None, first_pass: str | None = None) -> Plan:
    """(place in the folder: the model that is adapted for it; place: the model that goes there as it is, or the place
    whose adapted model it is)"""

    def place(path: Path) -> str:
        return str(path.relative_to(source.path))

    adapted: dict[str, Path] = {}
    unchanged: dict[str, Path | str] = {}
    decoding, in_lattices, large = (
        place(source.first_pass),
        place(source.first_pass_in_lattices),
        place(source.rescoring),
    )
    if source.dynamic:
        if first_pass:
            raise MdiError(
                f"--first-pass is for static graphs; {source.path} decodes with {decoding}, which is adapted"
            )
        adapted[decoding] = source.first_pass
        if source.rescores or large_lm:  # lattices have the scores of what decodes
            unchanged[in_lattices] = decoding
        if source.rescores and not large_lm:
            adapted[large] = source.rescoring
    elif first_pass:
        unchanged[in_lattices] = Path(first_pass)
        if not large_lm:
            adapted[large] = source.rescoring if source.rescores else Path(first_pass)
    elif source.rescores:
        if not large_lm:
            adapted[large] = source.rescoring
    else:
        raise MdiError(
            f"{source.path}: a static graph (HCLG.fst), and no rescore/G.carpa; its language model is within it. "
            f"Give the model that the graph was made with, --first-pass LM (ARPA, G.fst): lattices will be rescored"
        )
    if large_lm:
        unchanged[large] = Path(large_lm)
    return adapted, unchanged


def read_for(path: str, source: VoskFolder) -> NgramModel:
    """A model from outside of the folder, whose numbers, if it has no words, are the folder's."""
    from mdi.fst.formats import read_lm

    return read_lm(path, str(source.words))


def own_adapted(args: argparse.Namespace, source: VoskFolder, plan: Plan) -> dict[str, NgramModel]:
    """The folder's models that the deltas belong to, adapted, by their places."""
    from mdi.adaptation.delta import read_delta
    from mdi.lm.identity import identity

    adapted, unchanged = plan
    deltas = {path: read_delta(path) for path in args.delta}
    models, used = {}, set()
    for place, path in adapted.items():
        own = source.read(path) if source.path in path.parents else read_for(str(path), source)
        for name, delta in deltas.items():
            if delta.background == identity(own):
                models[place] = delta.apply(own)
                used.add(name)
    if lost := [name for name in deltas if name not in used]:
        raise MdiError(
            f"{lost[0]}: is for the background {deltas[lost[0]].background}, which is none of "
            f"{', '.join(map(str, adapted.values()))}; adapt one of these (mdi adapt --delta)"
        )
    for place, other in unchanged.items():
        if isinstance(other, Path):
            models[place] = read_for(str(other), source)
        elif other in models:  # lattices have the scores of what decodes
            models[place] = models[other]
    return models


def write_folder(
    args: argparse.Namespace,
    command: str,
    source: VoskFolder,
    models: dict[str, NgramModel],
    content: dict[str, Any],
    started: float,
    new_words: NewWordsOfFolder | None = None,
) -> None:
    """The folder with these models in their places, a graph with new words if there are some, and its certificate."""
    from mdi.certificate import write_certificate
    from mdi.speech.vosk.folder import exchange_lm, new_folder

    weight = weight_for(args, source)
    out = Path(args.out)
    beam = args.lattice_beam
    if beam is None and any(place.endswith("G.carpa") for place in models):
        beam = max(source.lattice_beam or 0.0, RESCORING_BEAM)
    if new_words and new_words.added:
        models = _with_new_words(models, list(new_words.added))
    symbols = new_words.symbols if new_words else source.symbols()
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
        write_certificate(str(folder.path / "mdi"), content, time.monotonic() - started)
    if beam is not None and beam != source.lattice_beam:
        say(f"{out}: lattice beam {beam:g} instead of {source.lattice_beam or 'the default'}")
    if weight:
        say(f"{out}: {weight} are in the graph's costs, which are to decode with and no probabilities")
    exchanged = ", ".join(content["exchanged"])
    say(f"{out}: a Vosk model with another {exchanged}; load it as any other: vosk.Model('{out}')")
