"""Exchanges the language model in lattices: the old model's scores out, the new one's in, exact along every path.

IN and OUT are archives (text or binary, plain or .gz) or folders with lat.1.gz, lat.2.gz and so on. --old-scores says
how the old scores got in: 'cheapest' for lattices of a decoder, whose graph lets every n-gram be backed off from;
'exact' for lattices that were rescored with the model itself. Without --old-lm the new scores are added to what is
there.
"""

from __future__ import annotations

import argparse

from mdi.cli import boolean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="lattices, or a folder of lat.N.gz")
    parser.add_argument("out", metavar="OUT", help="file, or folder where IN is one")
    parser.add_argument("--words", required=True, metavar="words.txt", help="the symbol table of the lattices")
    parser.add_argument("--old-lm", metavar="ARPA", help="the model whose scores are in the lattices")
    parser.add_argument("--new-lm", metavar="ARPA", help="the model whose scores go in")
    parser.add_argument("--old-scores", choices=("cheapest", "exact"), default="cheapest", help="see above (cheapest)")
    parser.add_argument(
        "--text", type=boolean, default=False, metavar="true|false", help="write text, not binary (false)"
    )
    parser.add_argument(
        "--nj", type=int, default=1, metavar="N", help="archives worked on at a time (1); the models are shared"
    )


def run(args: argparse.Namespace) -> None:
    import time
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from mdi.errors import MdiError
    from mdi.files import check_output, make_folder
    from mdi.fst.symbols import read_symbols
    from mdi.lm.arpa import read_arpa
    from mdi.progress import Progress, say
    from mdi.speech.lattice_files import archives, lattice_writer, read_lattices
    from mdi.speech.rescore import lattice_model, rescore

    if not args.old_lm and not args.new_lm:
        raise MdiError("neither --old-lm nor --new-lm; expected at least one of them")
    sources = archives(args.source)
    if Path(args.source).is_dir():
        make_folder(args.out)
        pairs = [(source, str(Path(args.out) / Path(source).name)) for source in sources]
    else:
        pairs = [(args.source, args.out)]
    for source, out in pairs:
        check_output(out, [source])
    symbols = read_symbols(args.words)
    models = []
    for path in (args.old_lm, args.new_lm):
        if path and path == args.old_lm and models:
            models.append(models[0])
        else:
            models.append(lattice_model(read_arpa(path), symbols) if path else None)
        if path and models[-1].unknown:
            how = "scored as <unk>" if models[-1].model.vocab.unk >= 0 else "it has no <unk>: their arcs are dropped"
            say(f"mdi rescore: {path} lacks {models[-1].unknown:,} words of {args.words}; {how}")
    progress = Progress("rescoring", None, "lattices")

    def one(pair: tuple[str, str]) -> tuple[int, int, int, float]:
        n = before = after = 0
        seconds = 0.0
        with lattice_writer(pair[1], args.text) as write:
            for lattice in read_lattices(pair[0]):
                start = time.perf_counter()
                made = rescore(lattice, models[0], models[1], args.old_scores)
                seconds += time.perf_counter() - start
                write(made)
                n, before, after = n + 1, before + lattice.n_arcs, after + made.n_arcs
                progress.update(n)
            if n == 0:
                raise MdiError(f"{pair[0]}: no lattice in it; expected at least one. Decode again")
        return n, before, after, seconds

    with ThreadPoolExecutor(args.nj) as pool:
        n, before, after, seconds = (sum(column) for column in zip(*pool.map(one, pairs), strict=True))
    progress.close()
    if Path(args.source).is_dir():  # last: whoever finds it may take the folder for finished
        (Path(args.out) / "num_jobs").write_text(f"{len(sources)}\n")
    say(f"mdi rescore: {n:,} lattices, {before:,} arcs to {after:,}, {1000 * seconds / n:.1f} ms a lattice")
