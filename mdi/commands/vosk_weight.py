"""Not a verb: the LM weight and the word penalty that suit a Vosk directory, chosen on recordings with transcripts."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.commands import vosk_decode
from mdi.commands import vosk_folders as folders
from mdi.progress import say, shown_as

if TYPE_CHECKING:
    from mdi.fst.graph_weight import GraphWeight
    from mdi.speech.vosk.folder import VoskFolder

N_BEST = 100
PENALTIES = (-0.5, -0.25, 0.0, 0.25, 0.5)
# A penalty must lower the expected errors by this share: it is easily chosen for a chance that does not come again.
WORTHWHILE = 0.01


def choose_weight(args: argparse.Namespace) -> None:
    """Gives the folder OUT_DIR, which is there, the weight under which it decodes the recordings with the fewest
    errors: the one that its n-best lists ask for, half-way to it, or none. At the same beam a graph loses more at a
    larger weight, which lists do not show."""
    import shutil

    from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight
    from mdi.speech.data import DataFolder
    from mdi.speech.n_best import read_lists
    from mdi.speech.vosk.folder import VoskFolder

    started, folder = time.monotonic(), VoskFolder(Path(args.out))
    if folder.weight:
        _give(args, folder, UNWEIGHTED, {}, started)
        folder = VoskFolder(Path(args.out))
    data = DataFolder(Path(args.dev_recordings))
    decoded = _decoded(args, args.out, "1", N_BEST)
    assert folder.own_lm is not None  # noqa: S101 - for the type checker
    own = folder.read(folder.own_lm)
    lists = read_lists(decoded, folder.symbols(), own, data.text(), N_BEST)
    costs = lists.lm_costs(own)
    plain, free = lists.choose(costs), lists.choose(costs, PENALTIES)
    best = free if free.expected < (1 - WORTHWHILE) * plain.expected else plain
    say(
        f"n-best lists: LM weight {best.lm_weight:g}, word penalty {best.word_penalty:g}; {best.errors:,} errors in "
        f"{int(lists.reference_words.sum()):,} words"
    )
    half = GraphWeight(round((1 + best.lm_weight) / 2, 3), best.word_penalty / 2)
    errors, trial = {UNWEIGHTED: _errors(data, decoded)}, decoded.parent / "model"
    for weight in (half, GraphWeight(best.lm_weight, best.word_penalty)):
        if weight not in errors:
            _write(folder, trial, weight, {}, started)
            name = f"{weight.lm_weight:g},{weight.word_penalty:g}"
            errors[weight] = _errors(data, _decoded(args, str(trial), name, 1))
    shutil.rmtree(trial, ignore_errors=True)
    chosen = min(errors, key=lambda weight: errors[weight])
    tried = {f"{weight.lm_weight:g} {weight.word_penalty:g}": n for weight, n in errors.items()}
    say("decoded: " + ", ".join(f"{weight}: {n:,} errors" for weight, n in errors.items()))
    _give(args, folder, chosen, {"dev_recordings": args.dev_recordings, "errors_by_weight": tried}, started)


def _decoded(args: argparse.Namespace, model: str, name: str, n_best: int) -> Path:
    """The recordings decoded with a folder, in OUT_DIR.decoded/dev/NAME: an earlier run's decoding goes on, unless it
    was another model's."""
    out = Path(f"{args.out.rstrip('/')}.decoded") / "dev" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    beam = folders.RESCORING_BEAM if n_best > 1 and args.lattice_beam is None else args.lattice_beam
    options = {"model": model, "data": args.dev_recordings, "out": str(out), "n_best": n_best, "lattice_beam": beam}
    vosk_decode.run(argparse.Namespace(**{**vars(args), **options, "delta": [], "restart": True}))
    return out


def _errors(data: Any, decoded: Path) -> int:
    from mdi.speech.data import read_text
    from mdi.speech.wer import compute_wer

    return int(compute_wer(data.text(), read_text(decoded / "text")).total.sum())


def _write(folder: VoskFolder, out: Path, weight: GraphWeight, more: dict[str, Any], started: float) -> None:
    """A copy of the folder with this weight in its graph, and in what it rescores with."""
    from mdi.certificate import write_certificate
    from mdi.files import read_json
    from mdi.speech.vosk.folder import CERTIFICATE, exchange_lm, new_folder

    places = [path for path in (folder.first_pass, folder.first_pass_in_lattices, folder.rescoring) if path.exists()]
    models = {str(path.relative_to(folder.path)): folder.read(path) for path in places}
    symbols = folder.symbols()
    with new_folder(folder, out, models, None) as made:
        for place, model in models.items():
            exchange_lm(symbols, made.path / place, model, weight)
        known = read_json(folder.path / CERTIFICATE)
        known |= {"lm_weight": weight.lm_weight, "word_penalty": weight.word_penalty, **more}
        write_certificate(str(made.path / "mdi"), known, known.get("seconds", 0.0) + time.monotonic() - started)


def _give(
    args: argparse.Namespace, folder: VoskFolder, weight: GraphWeight, more: dict[str, Any], started: float
) -> None:
    """OUT_DIR itself gets the weight, in one step."""
    from mdi.files import exchange_folder, scratch_folder

    with scratch_folder(f".{folder.path.name}.", str(folder.path.parent)) as scratch:
        made = Path(scratch) / "model"
        with shown_as(str(made), str(folder.path)):
            _write(folder, made, weight, more, started)
        if (words := folder.path / "new_words.tsv").exists():
            (made / words.name).write_bytes(words.read_bytes())
        exchange_folder(str(made), str(folder.path))
    say(f"{args.out}: {weight}")
