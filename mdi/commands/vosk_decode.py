"""Decodes a Kaldi data folder with libvosk: text, ctm and with --n-best also lattices.

16 kHz, one channel. Words, times and scores are the same each time, for any --nj and any order of the utterances,
unless --dither true lets libvosk add noise to the sound. A decoding that was stopped goes on with the utterances that
are missing. A line of wav.scp that ends in '|' is a command, as in Kaldi; with --allow-pipes true, for data that you
trust, it is run in a shell. With --n-best the words are those of the best path, otherwise those of least expected error
(both are libvosk's); lat.1.gz is for mdi rescore and mdi score, an LM weight of 10 being the one that decoded.

--delta takes files of mdi adapt --delta whose background is a language model of MODEL_DIR.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from mdi.commands import vosk_folders as folders
from mdi.commands.jobs import same_settings
from mdi.errors import MdiError
from mdi.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_DIR", help="folder of a Vosk model")
    parser.add_argument("data", metavar="DATA_DIR", help="Kaldi data folder")
    parser.add_argument("out", metavar="DIR", help="folder for the results; made if need be")
    folders.add_delta_argument(parser)
    folders.add_decoding_arguments(parser)
    folders.add_beam_argument(parser)


def run(args: argparse.Namespace) -> None:
    import zlib

    from mdi.files import make_folder, read_bytes, same_file
    from mdi.speech.data import DataFolder
    from mdi.speech.vosk.decode import decode_missing
    from mdi.speech.vosk.folder import changed, find_vosk_folder
    from mdi.speech.vosk.outputs import write_outputs
    from mdi.speech.vosk.results import read_results

    folders.check_options(args)
    source, data = find_vosk_folder(args.model), DataFolder(Path(args.data))
    if not data.has("wav.scp"):
        raise MdiError(f"{args.data}/wav.scp: not there; expected a Kaldi data folder")
    if not args.allow_pipes:
        data.check_no_pipes()
    utterances = data.utterances()
    if same_file(args.data, args.out):
        raise MdiError(f"{args.out}: is also the data folder, whose text would be replaced; name another folder")
    out = make_folder(args.out)
    for entry in os.scandir(out):
        if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
            raise MdiError(f"{entry.path}: is a link, a pipe or a device; expected files of a decoding. Remove it")
    settings = {
        "model": source.identity(), "utterances": utterances, "n_best": args.n_best, "lattice_beam": args.lattice_beam,
        "dither": args.dither,
    }  # fmt: skip
    if args.delta:
        settings["deltas"] = sorted(zlib.crc32(read_bytes(path)) for path in args.delta)
    if not read_results(out):  # nothing was decoded: there is nothing that other settings could spoil
        (out / "decode.json").unlink(missing_ok=True)
    same_settings(
        out / "decode.json",
        settings,
        "a decoding with another model, data, --n-best, --lattice-beam, --dither or --delta",
    )
    models = folders.own_adapted(args, source, folders.plan_of(source)) if args.delta else {}
    with changed(source, args.lattice_beam, models, args.dither) as folder:
        factor = decode_missing(folder, source.path, data, utterances, out, args.n_best, args.nj, args.allow_pipes)
        found = read_results(out)
        results = [found[utterance] for utterance in utterances]
        write_outputs(folder, results, out, args.n_best)
    seconds = sum(one.seconds for one in results)
    note = f", {factor:.2f} times real time in each of {args.nj} threads" if factor else ""
    say(f"mdi vosk decode: {len(results):,} utterances, {seconds / 60:.1f} minutes of speech{note} -> {out}")
