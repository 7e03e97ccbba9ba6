"""Decodes a Kaldi data folder (wav.scp, text or utt2spk, segments if there are) to lattices lat.1.gz ... lat.N.gz.

The speech is 16 kHz, one channel. A decoding that was stopped goes on with the utterances that are missing. As in
Kaldi, a line of wav.scp that ends in "|" is a command; for data that you trust it is run in a shell
with --allow-pipes true.
"""

from __future__ import annotations

import argparse

from mdi.cli import boolean
from mdi.commands.options import check_outputs, same_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help="folder of mdi graph (HCLG.fst, words.txt)")
    parser.add_argument("data", metavar="DATA", help="Kaldi data folder")
    parser.add_argument("out", metavar="DIR", help="folder for the lattices; made if need be")
    parser.add_argument("--nj", type=int, default=1, metavar="N", help="processes, one archive each (1)")
    parser.add_argument("--beam", type=float, default=12.0, help="search beam (12)")
    parser.add_argument(
        "--lattice-beam", type=float, default=6.0, help="paths worse than the best by more are left out (6)"
    )
    parser.add_argument(
        "--text", type=boolean, default=False, metavar="true|false", help="write text, not binary (false)"
    )
    parser.add_argument(
        "--allow-pipes", type=boolean, default=False, metavar="true|false",
        help="run the commands that wav.scp has for recordings, in a shell; false: refuse them (false)",
    )  # fmt: skip
    parser.add_argument(
        "--job",
        type=int,
        metavar="N",
        help="only this one of the --nj jobs; when all are done, a call without it ends the decoding",
    )
    parser.add_argument("--acwt", type=float, default=0.1, help="scale of the acoustic scores in the search (0.1)")


def run(args: argparse.Namespace) -> None:
    from pathlib import Path

    from mdi.errors import MdiError, examples
    from mdi.files import make_folder, remove_abandoned, writing
    from mdi.progress import say
    from mdi.speech.acoustic import SCRATCH, read_acoustic_model
    from mdi.speech.data import DataFolder
    from mdi.speech.decode import Job, Options, Times, decode_jobs

    graph, data, folder = Path(args.graph) / "HCLG.fst", Path(args.data), Path(args.out)
    for path in (graph, data / "wav.scp"):
        if not path.exists():
            raise MdiError(
                f"{path}: not there; expected {'the output of mdi graph' if path == graph else 'a Kaldi data folder'}"
            )
    if not args.allow_pipes:
        DataFolder(data).check_no_pipes()
    utterances = DataFolder(data).utterances()
    if args.nj < 1 or args.beam <= 0 or args.lattice_beam <= 0 or args.acwt <= 0:
        raise MdiError("--nj, --beam, --lattice-beam and --acwt; expected positive numbers")
    nj = min(args.nj, len(utterances))
    made = [folder / name for name in ("decode.json", "num_jobs", *(f"lat.{i + 1}.gz" for i in range(nj)))]
    check_outputs(args, beside=[str(path) for path in made if path.exists()], folder=args.out)
    make_folder(args.out)
    settings = {"graph": [str(graph.resolve()), graph.stat().st_size], "utterances": utterances, "beam": args.beam,
                "lattice_beam": args.lattice_beam, "acwt": args.acwt, "nj": nj}  # fmt: skip
    same_settings(folder / "decode.json", settings, "a decoding with another graph, data, beam or --nj")
    options = Options(args.beam, args.lattice_beam, args.acwt)
    n_senones = read_acoustic_model().n_senones
    jobs = [
        Job(i + 1, str(data), str(graph), n_senones, str(folder), utterances[i::nj], options, args.text)
        for i in range(nj)
    ]
    if args.job is not None:
        jobs = [job for job in jobs if job.number == args.job]
    remove_abandoned(SCRATCH)  # also where nothing is left to be decoded
    total: Times = decode_jobs(jobs) if jobs else Times()
    if args.job is None:  # last: whoever finds it may take the folder for finished
        with writing(str(folder / "num_jobs")) as stream:
            stream.write(f"{nj}\n".encode())
    if total.unfinished:
        say(f"mdi decode: {len(total.unfinished)} utterances ended inside a word: {examples(total.unfinished)}")
    if total.utterances:
        say(
            f"mdi decode: {total.utterances:,} utterances, {total.speech:,.0f} s of speech, "
            f"{total.real_time_factor:.3f} times"
            f" real time (senones {total.senones / total.speech:.3f}, search {total.search / total.speech:.3f}, "
            f"determinisation"
            f" {1000 * total.determinization / total.utterances:.1f} ms an utterance)"
        )
    decoded = sum(len(job.utterances) for job in jobs)
    say(f"mdi decode: lattices of {decoded:,} utterances in {folder}")
