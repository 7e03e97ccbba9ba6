"""Adapts a model to each recording's own first pass, without transcripts, and rescores its lattices.

    mdi adapt-recordings --words words.txt --data DATA [options] LM LATTICES OUT

For every recording of DATA/segments (or else every speaker of DATA/utt2spk, or every group of --groups), LM is adapted
to the expected counts over its lattices, and to --text if there is some; its lattices then get the adapted scores. LM
is read once and never copied to disk, and lattices are read in one pass. OUT is a decoding directory like LATTICES,
with one lat.N.gz per recording, in the order of the file that names them, and deltas/RECORDING.delta (see mdi adapt
--delta, mdi list-deltas). A run that was stopped continues with the recordings that are missing. --old-lm is the model
whose scores are in the lattices, by default LM itself.

An utterance that contributes to its own model confirms its own errors. So, unless --leave-out is false, its lattice
gets the scores of a model that is adapted to all other utterances of the recording. That takes one adaptation per
utterance, a fraction of a second each. The delta is that of the whole recording.
"""

import argparse
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from mdi.commands import options
from mdi.commands.inputs import read_model
from mdi.commands.outputs import check_outputs
from mdi.errors import UsageError, check_positive
from mdi.progress import Progress, say
from mdi.record import go_on, source_of
from mdi.threads import in_threads

if TYPE_CHECKING:
    from mdi.adaptation.delta import Delta
    from mdi.lm.counts import Counts
    from mdi.lm.model import NgramModel
    from mdi.lm.trie import Array
    from mdi.speech.lattice import Lattice
    from mdi.speech.rescore import LatticeModel

OPTIONS = f"""
lm LM  the model that is adapted to each recording, in any form
source LATTICES  directory of lat.N.gz, or one archive
out OUT  directory
--data DATA  Kaldi data directory: segments or utt2spk
--groups recording|speaker|FILE  what makes a group; FILE: an utterance and its group per line (recording, or speaker)
--text TEXT*  in-domain text as well; may be repeated
--count-weight W = 1  factor of the expected counts
--min-counts N-N-N = 0.5  constrain n-grams expected so often, by order
--sigma2 V[-V-V] = 1  variance of the prior, or none
--leave-out true|false = true  rescore each utterance with a model of the others
--old-lm LM  the model whose scores are in the lattices (LM)
--old-scores cheapest|exact = cheapest  as in mdi rescore
--oov map|drop = map  words that LM lacks: as <unk>, or left out
--nj N = 1  recordings worked on at a time (1); the models are shared
{options.SYMBOLS}
{options.SCALES}
"""


@dataclass(frozen=True)
class _Work:
    """What all recordings share."""

    args: argparse.Namespace
    background: "NgramModel"
    old: "LatticeModel"  # whose scores are in the lattices
    plain: "LatticeModel"  # the background
    word_of: "Array"  # of the lattices' numbers, for counting
    text: "Counts | None"
    start: "Delta | None"  # the adaptation to the text alone
    out: Path

    def expected(self, lattices: "list[Lattice]") -> "Counts":
        from mdi.speech.expected_counts import graph_counts
        from mdi.speech.word_graph import from_lattice

        scales = self.args.acoustic_scale, self.args.lm_scale, self.args.word_penalty
        graphs = (from_lattice(lattice, *scales) for lattice in lattices)
        return graph_counts(graphs, self.word_of, self.background.vocab, self.background.order)

    def adapted(self, expected: "Counts", start: "Delta | None") -> "Delta | None":
        """The adaptation to these counts and the text; None where no n-gram is expected often enough."""
        from mdi.adaptation.adapter import Adapter
        from mdi.adaptation.constraints import select
        from mdi.lm.counts import add_counts, scaled_counts
        from mdi.lm.thresholds import parse_thresholds

        counts = scaled_counts(expected, self.args.count_weight)
        if self.text is not None:
            counts = add_counts(self.text, counts)
        if not select(counts, parse_thresholds(self.args.min_counts, self.background.order)).total:
            return None
        adapter = Adapter(self.background, counts, threads=1, allow_unnormalized=True)  # it has been checked
        return adapter.delta(self.args.min_counts, sigma2=self.args.sigma2, start=start)

    def model(self, delta: "Delta | None") -> "LatticeModel":
        if delta is None:
            return self.plain
        model = delta.apply(self.background)
        return replace(self.plain, model=model, arrays=model.arrays())  # the same words

    def rescored(self, lattices: "list[Lattice]", counts: "Counts", delta: "Delta | None") -> "Iterator[Lattice]":
        """With the model of the delta, or each with a model of all others."""
        from mdi.lm.counts import less
        from mdi.speech.rescore import rescored

        whole = None if self.args.leave_out else self.model(delta)
        for lattice in lattices:
            others = whole or self.model(self.adapted(less(counts, self.expected([lattice])), delta))
            yield rescored(lattice, self.old, others, self.args.old_scores)

    def recording(self, name: str, number: int, lattices: "list[Lattice]") -> bool:
        """Adapts and rescores; the archive is written last, it says that the recording is done. Whether the solver
        converged."""
        from mdi.adaptation.delta import write_delta
        from mdi.speech.lattice_files import lattice_writer

        counts = self.expected(lattices)
        delta = self.adapted(counts, self.start) if lattices else None
        if delta is not None:
            args, stats = self.args, counts.stats
            made = {"recording": name, "background": args.lm, "in_domain": [*args.text, args.source]}
            made |= {"words": stats.words, "sentences": stats.sentences}
            made |= {"sigma2": args.sigma2, "count_weight": args.count_weight}
            write_delta(replace(delta, made=made), self.out / "deltas" / f"{name}.delta")
        with lattice_writer(str(self.out / f"lat.{number}.gz")) as write:
            for lattice in self.rescored(lattices, counts, delta):
                write(lattice)
        return delta is None or bool(delta.certificate["converged"])


def run(args: argparse.Namespace) -> int:
    from mdi.adaptation.adapter import Adapter
    from mdi.adaptation.problem import variances
    from mdi.files import make_folder, write_file
    from mdi.fst.symbols import read_symbols, words_of
    from mdi.lm.counts import count_text
    from mdi.lm.identity import identity
    from mdi.lm.normalise import check_normalised
    from mdi.speech.data import DataFolder
    from mdi.speech.lattice_files import archives, read_lattices
    from mdi.speech.recordings import file_names, grouped, utterance_groups
    from mdi.speech.rescore import lattice_model

    if args.words is None:
        raise UsageError("words of lattices are numbers; give their words.txt (--words)")
    for name in ("count_weight", "acoustic_scale", "lm_scale", "nj"):
        check_positive(name, getattr(args, name))
    variances(args.sigma2)
    sources = archives(args.source)
    group_of = utterance_groups(args.groups, DataFolder(Path(args.data)) if args.data else None)
    number_of = file_names(group_of.values())
    made = [f"lat.{number}.gz" for number in number_of.values()] + [f"deltas/{name}.delta" for name in number_of]
    paths = [Path(args.out) / name for name in ("recordings.json", "num_jobs", *made)]
    check_outputs(args, beside=[str(path) for path in paths if path.exists()], folder=args.out)
    background = read_model(args.lm, args)
    check_normalised(args.lm, background)
    out = make_folder(args.out)
    free = ("started", "nj", "out", "source", "lm", "data")
    settings = {
        "background": identity(background),
        "inputs": [source_of(path) for path in (*sources, *args.text, args.words, *filter(None, [args.old_lm]))],
        "groups": zlib.crc32(json.dumps(group_of).encode()),
        "options": {name: value for name, value in vars(args).items() if name not in free},
    }
    go_on(out / "recordings.json", settings, "adaptations of another model, to other lattices or with other options")
    (out / "deltas").mkdir(exist_ok=True)
    symbols = read_symbols(args.words)
    plain = lattice_model(background, symbols)
    old = lattice_model(read_model(args.old_lm, args), symbols) if args.old_lm else plain
    text = count_text(list(map(Path, args.text)), background.vocab, background.order, args.oov) if args.text else None
    start = None
    if text is not None:
        start = Adapter(background, text, allow_unnormalized=True).delta(args.min_counts, sigma2=args.sigma2)
    word_of = words_of(symbols.ids, background.vocab, args.oov, symbols.path)
    work = _Work(args, background, old, plain, word_of, text, start, out)

    done = {name for name, number in number_of.items() if (out / f"lat.{number}.gz").exists()}
    if done:
        say(f"{out}: {len(done):,} of {len(number_of):,} recordings are there already")
    lattices = chain.from_iterable(map(read_lattices, sources))
    groups = (one for one in grouped(lattices, group_of) if one[0] not in done) if set(number_of) - done else ()
    failed, seen = 0, set(done)

    def adapted(one: "tuple[str, list[Lattice]]") -> bool:
        seen.add(one[0])
        return work.recording(one[0], number_of[one[0]], one[1])

    with Progress("adapting", len(number_of) - len(done), "recordings") as bar:
        for finished, converged in enumerate(in_threads(adapted, groups, args.nj), 1):
            failed += not converged
            bar.update(finished)
    for name in set(number_of) - seen:
        say(f"WARNING: no lattices of {name}; its archive is empty")
        work.recording(name, number_of[name], [])
    write_file(out / "num_jobs", f"{len(number_of)}\n")  # last: whoever finds it may take the folder for finished
    size = sum(path.stat().st_size for path in (out / "deltas").iterdir())
    say(f"mdi adapt-recordings: {len(number_of):,} recordings, {size / 1e3:,.0f} kB of deltas -> {out}")
    if failed:
        say(f"{out}: for {failed:,} recordings the solver did not converge; see mdi list-deltas {out / 'deltas'}")
    return 1 if failed else 0
