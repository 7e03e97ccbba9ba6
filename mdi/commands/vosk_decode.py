"""Decodes a Kaldi data directory with libvosk and writes text, ctm and, with --n-best, lattices.

Recordings may be WAV, FLAC, MP3, Ogg, SPHERE or anything else that libsndfile reads, at any rate. If a recording has
several channels, one is used (--channel, reco2file_and_channel, segments). Utterances of more than a minute are cut at
pauses but remain one line of text. Words, times and scores are the same each time, for any --nj and any order of the
utterances. A decoding that was stopped continues with the utterances that are missing, or whose recording or segment
has changed. A line of wav.scp that ends in '|' is a command, as in Kaldi; it is run in a shell only with --allow-pipes
true, which is for data that you trust. With --n-best the words are those of the best path, otherwise those of least
expected error (both are libvosk's). lat.1.gz is for mdi rescore and mdi score, where an LM weight of 10 is the one that
decoded.

--delta takes files of mdi adapt --delta whose background is a language model of MODEL_DIR.
"""

import argparse
import os
from pathlib import Path

from mdi.commands import vosk_folders as folders
from mdi.errors import MdiError, examples
from mdi.files import check_sum, make_folder, same_file
from mdi.progress import say
from mdi.record import go_on, restart

RECORD = "decode.json"
MADE = ("results.*.jsonl", "lat.*", "num_jobs", "wer_*", "scoring_kaldi")

OPTIONS = f"""
model MODEL_DIR  directory of a Vosk model
data DATA_DIR  Kaldi data directory
out DIR  directory for the results; made if it does not exist
{folders.DELTA}
--restart true|false = false  begin anew where DIR holds a decoding with another model or other settings, which is an
  error otherwise
{folders.DECODING}
{folders.BEAM}
"""


def decoded(
    args: argparse.Namespace, model: str, data: str, out: Path, n_best: int, beam: float | None, restart: bool = True
) -> Path:
    """Decodes with the options of another verb, and with this lattice beam unless they name one. What an earlier run
    has decoded stays, with `restart` unless it was another model's."""
    out.parent.mkdir(parents=True, exist_ok=True)
    asked = {"model": model, "data": data, "out": str(out), "n_best": n_best, "delta": [], "restart": restart}
    asked["lattice_beam"] = beam if args.lattice_beam is None else args.lattice_beam
    run(argparse.Namespace(**{**vars(args), **asked}))
    return out


def run(args: argparse.Namespace) -> None:
    from mdi.speech.data import DataFolder
    from mdi.speech.vosk.decode import HOW, decode_missing
    from mdi.speech.vosk.folder import changed, find_vosk_folder
    from mdi.speech.vosk.models import exchange_of, lacking_words, refuse_new_words
    from mdi.speech.vosk.outputs import write_outputs
    from mdi.speech.vosk.results import Alternative, Recognised, read_results

    folders.check_options(args)
    source, data = find_vosk_folder(args.model, args.lattice_beam), DataFolder(Path(args.data))
    if not data.has("wav.scp"):
        raise MdiError(f"{args.data}/wav.scp: not there; expected a Kaldi data directory")
    if not args.allow_pipes:
        data.check_no_pipes()
    utterances = data.utterances()
    if same_file(args.data, args.out):
        raise MdiError(f"{args.out}: is also the data directory, whose text would be replaced; name another directory")
    out = make_folder(args.out)
    for entry in os.scandir(out):
        if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
            raise MdiError(f"{entry.path}: is a link, a pipe or a device; expected files of a decoding. Remove it")
    # what a decoding that goes on must have been begun with
    settings = {"n_best": args.n_best, "lattice_beam": args.lattice_beam, "dither": args.dither}
    settings["model"] = source.identity()
    if args.delta:
        settings["deltas"] = sorted(map(check_sum, args.delta))
    if args.restart:
        restart(out / RECORD, settings, MADE)
    if not read_results(out):  # nothing was decoded: there is nothing that other settings could spoil
        (out / RECORD).unlink(missing_ok=True)
    go_on(out / RECORD, settings, "a decoding with another model, --n-best, --lattice-beam, --dither or --delta")
    models = exchange_of(source).adapted_by(args.delta) if args.delta else {}
    if models:
        refuse_new_words(source, lacking_words(source, models))
    with changed(source, args.lattice_beam, models, args.dither) as folder:
        how = {name: getattr(args, name) for name in HOW.split()}
        factor, silent = decode_missing(folder, source.path, data, utterances, out, how)
        found = read_results(out) | {name: Recognised(name, 0.0, [Alternative([])]) for name in silent}
        results = [found[utterance] for utterance in utterances]
        write_outputs(folder, results, out, args.n_best)
    for reason in dict.fromkeys(silent.values()):
        names = [name for name, why in silent.items() if why == reason]
        say(f"{args.data}/segments: {len(names):,} utterances have {reason}, and no words: {examples(names)}")
    if cut := [one.utterance for one in results if one.overshoot]:
        say(f"{args.data}/segments: {len(cut):,} utterances end after their recording, and were cut: {examples(cut)}")
    seconds = sum(one.seconds for one in results)
    note = f", {factor:.2f} times real time in each of {args.nj} jobs" if factor else ""
    say(f"mdi vosk decode: {len(results):,} utterances, {seconds / 60:.1f} minutes of speech{note} -> {out}")
