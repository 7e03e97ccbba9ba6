"""Not a verb: the LM weight and the word penalty that suit a Vosk directory, chosen on recordings with transcripts."""

import argparse
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.certificate import write_certificate
from mdi.commands import vosk_decode
from mdi.commands import vosk_folders as folders
from mdi.files import copy_file, read_json
from mdi.progress import say

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
    from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight
    from mdi.speech.data import DataFolder
    from mdi.speech.n_best import read_lists
    from mdi.speech.vosk.folder import VoskFolder

    started, folder = time.monotonic(), VoskFolder(Path(args.out))
    if folder.weight:
        _write(folder, folder.path, UNWEIGHTED, {}, started)
        say(f"{args.out}: {UNWEIGHTED}")
        folder = VoskFolder(Path(args.out))
    data = DataFolder(Path(args.dev_recordings))
    dev = Path(f"{args.out.rstrip('/')}.decoded") / "dev"
    decoded = vosk_decode.decoded(args, args.out, args.dev_recordings, dev / "1", N_BEST, folders.RESCORING_BEAM)
    assert folder.own_lm is not None  # noqa: S101 - for the type checker
    own = folder.read(folder.own_lm)
    lists = read_lists(decoded, folder.symbols, own, data.text(), N_BEST)
    costs = lists.lm_costs(own)
    plain, free = lists.choose(costs), lists.choose(costs, PENALTIES)
    best = free if free.expected < (1 - WORTHWHILE) * plain.expected else plain
    say(
        f"n-best lists: LM weight {best.lm_weight:g}, word penalty {best.word_penalty:g}; {best.errors:,} errors in "
        f"{int(lists.reference_words.sum()):,} words"
    )
    half = GraphWeight(round((1 + best.lm_weight) / 2, 3), best.word_penalty / 2)
    errors, used, trial = {UNWEIGHTED: _errors(data, decoded)}, {decoded}, dev / "model"
    for weight in (half, GraphWeight(best.lm_weight, best.word_penalty)):
        if weight not in errors:
            _write(folder, trial, weight, {}, started)
            place = dev / f"{weight.lm_weight:g},{weight.word_penalty:g}"
            decoded = vosk_decode.decoded(args, str(trial), args.dev_recordings, place, 1, None)
            errors[weight] = _errors(data, decoded)
            used.add(decoded)
    for old in {trial, *dev.glob("*,*")} - used:  # other weights, which an earlier run has tried
        shutil.rmtree(old, ignore_errors=True)
    chosen = min(errors, key=lambda weight: errors[weight])
    tried = {f"{weight.lm_weight:g} {weight.word_penalty:g}": n for weight, n in errors.items()}
    say("decoded: " + ", ".join(f"{weight}: {n:,} errors" for weight, n in errors.items()))
    more = {"dev_recordings": args.dev_recordings, "errors_by_weight": tried}
    _write(folder, folder.path, chosen, more, started)
    say(f"{args.out}: {chosen}")


def _errors(data: Any, decoded: Path) -> int:
    from mdi.speech.data import read_text
    from mdi.speech.wer import compute_wer

    return int(compute_wer(data.text(), read_text(decoded / "text")).total.sum())


def _write(folder: "VoskFolder", out: Path, weight: "GraphWeight", more: dict[str, Any], started: float) -> None:
    """A copy of the folder, or the folder itself, with this weight in its graph, and in what it rescores with."""
    from mdi.speech.vosk.folder import CERTIFICATE, exchange_lm, new_folder

    places = [path for path in (folder.first_pass, folder.first_pass_in_lattices, folder.rescoring) if path.exists()]
    models = {str(path.relative_to(folder.path)): folder.read(path) for path in places}
    symbols = folder.symbols
    with new_folder(folder, out, models) as made:
        for place, model in models.items():
            exchange_lm(symbols, made.path / place, model, weight)
        if (words := folder.path / "new_words.tsv").exists():
            copy_file(words, made.path / words.name)
        known = read_json(folder.path / CERTIFICATE)
        known |= {"lm_weight": weight.lm_weight, "word_penalty": weight.word_penalty, **more}
        write_certificate(str(made.path / "mdi"), known, known.get("seconds", 0.0) + time.monotonic() - started)
