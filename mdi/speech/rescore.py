"""Another language model for a lattice, exactly: the old model's score is taken out and the new one's put in along
every path.

A lattice state that is reached with several histories becomes several states, one for each that the model tells apart.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mdi.errors import MdiError, check_choice, check_positive, examples
from mdi.files import check_output, make_folder, write_file
from mdi.fst.given import ModelLike, as_model
from mdi.fst.symbols import DISAMBIGUATION, EPSILON, SymbolTable, read_symbols, words_of
from mdi.kernels.model import ModelArrays
from mdi.kernels.rescore import compose
from mdi.lm.model import NgramModel
from mdi.lm.vocabulary import BOS, EOS, UNKNOWN
from mdi.progress import Progress, get_logger
from mdi.speech.lattice import Lattice, taken, tidy
from mdi.speech.lattice_files import archives, lattice_writer, read_lattices

logger = get_logger(__name__)

# How a model's score is in a lattice: as the model says, or that of the cheapest path through the back-off arcs of its
# graph, where an n-gram may be backed off from though the model has it. The latter is what a decoder leaves behind.
EXACT, CHEAPEST = "exact", "cheapest"


@dataclass(frozen=True)
class LatticeModel:
    """A model as the kernels walk it, with the word of each number in the lattices."""

    model: NgramModel
    symbols: SymbolTable
    word_of: np.ndarray
    arrays: ModelArrays


def lattice_model(model: NgramModel, symbols: SymbolTable) -> LatticeModel:
    return LatticeModel(model, symbols, words_of(symbols.ids, model.vocab), model.arrays())


def add_model(lattice: Lattice, lm: LatticeModel, scale: float = 1.0, scores: str = EXACT) -> Lattice:
    """The lattice with scale * (-ln p) of every path's words, `</s>` included, added to its graph costs."""
    last = int(lattice.arcs.label.max(initial=0))
    if last >= len(lm.word_of):
        raise MdiError(
            f"lattice of utterance {lattice.utterance}: word number {last} is not in {lm.symbols.path};"
            " expected the table that the lattices were made with"
        )
    room, cheapest = 4, scores == CHEAPEST
    while True:  # how many states and arcs there will be shows only when they are made
        found = compose(
            lattice.arrays, lm.word_of, lm.arrays, cheapest, room * lattice.n_states, room * (lattice.n_arcs + 1)
        )
        if found.dropped >= 0:
            break
        room *= 4
    arcs, finals = taken(lattice.arcs, found.arc), taken(lattice.finals, found.state)
    final_graph = np.full(len(found.state), np.inf)
    ends = np.isfinite(finals.graph)
    final_graph[ends] = finals.graph[ends] + scale * found.final[ends]
    made = replace(
        lattice,
        begin=found.begin,
        arcs=arcs._replace(dest=found.dest, graph=arcs.graph + scale * found.cost),
        finals=finals._replace(graph=final_graph),
    )
    if not found.dropped:
        return made
    try:
        return tidy(made)
    except MdiError as error:
        raise MdiError(
            f"lattice of utterance {lattice.utterance} is empty after rescoring: on every path is a word that the model"
            " lacks, and it has no <unk>; give the model <unk> or the words"
        ) from error


def rescored(lattice: Lattice, old: LatticeModel | None, new: LatticeModel | None, old_scores: str = EXACT) -> Lattice:
    """The old model's scores (as they are in the lattice: exact or cheapest) out, the new one's in."""
    if old is not None:
        lattice = add_model(lattice, old, -1.0, old_scores)
    if new is not None:
        lattice = add_model(lattice, new)
    return lattice


@dataclass(frozen=True)
class Rescoring:
    """What `rescore` did."""

    lattices: int
    arcs_before: int
    arcs_after: int
    seconds: float


def rescore(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    words: str | os.PathLike[str],
    old_lm: ModelLike | None = None,
    new_lm: ModelLike | None = None,
    old_scores: str = CHEAPEST,
    text: bool = False,
    nj: int = 1,
) -> Rescoring:
    """Exchanges the language model in lattices, exactly.

    Parameters
    ----------
    source, out
        Archives, or directories of lat.1.gz, lat.2.gz and so on.
    words
        The symbol table of the lattices.
    old_lm
        The model whose scores come out; None leaves them in.
    new_lm
        The model whose scores go in.
    old_scores
        "cheapest" for lattices of a decoder, whose graph lets every n-gram be backed off from; "exact" for lattices
        that were rescored with the model itself.
    text
        Write text, not binary.
    nj
        Archives worked on at a time.

    Returns
    -------
    Rescoring
        Lattices, arcs before and after, seconds.

    Raises
    ------
    MdiError
        Where a lattice is damaged, or empty afterwards; it names file and utterance.
    """
    check_choice("old_scores", old_scores, (CHEAPEST, EXACT))
    check_positive("nj", nj)
    if old_lm is None and new_lm is None:
        raise MdiError("neither an old model nor a new one; expected at least one of them")
    source, out = os.fspath(source), os.fspath(out)
    sources = archives(source)
    folder = Path(source).is_dir()
    if folder:
        make_folder(out)
    pairs = [(one, str(Path(out) / Path(one).name)) for one in sources] if folder else [(source, out)]
    given = [os.fspath(path) for path in (words, old_lm, new_lm) if isinstance(path, str | os.PathLike)]
    for one, target in pairs:
        check_output(target, [one, *given])
    symbols = read_symbols(os.fspath(words))
    old = _known("old_lm", old_lm, symbols) if old_lm is not None else None
    new = old if new_lm is old_lm else _known("new_lm", new_lm, symbols) if new_lm is not None else None
    progress = Progress("rescoring", None, "lattices")

    def one_archive(pair: tuple[str, str]) -> tuple[int, int, int, float]:
        n = before = after = 0
        seconds = 0.0
        with lattice_writer(pair[1], text) as write:
            for lattice in read_lattices(pair[0]):
                start = time.perf_counter()
                made = rescored(lattice, old, new, old_scores)
                seconds += time.perf_counter() - start
                write(made)
                n, before, after = n + 1, before + lattice.n_arcs, after + made.n_arcs
                progress.update(n)
            if n == 0:
                raise MdiError(f"{pair[0]}: no lattice in it; expected at least one. Decode again")
        return n, before, after, seconds

    with ThreadPoolExecutor(nj) as pool:
        found = Rescoring(*(sum(column) for column in zip(*pool.map(one_archive, pairs), strict=True)))
    progress.close()
    if folder:  # last: whoever finds it may take the folder for finished
        write_file(Path(out) / "num_jobs", f"{len(sources)}\n")
    return found


def _known(role: str, lm: ModelLike, symbols: SymbolTable) -> LatticeModel:
    """The model, and a line about words of the lattices that it lacks."""
    name = os.fspath(lm) if isinstance(lm, str | os.PathLike) else "the model"
    ready = lattice_model(as_model(lm, role, symbols.path), symbols)
    unk, no_words = ready.model.vocab.unk, (EPSILON, DISAMBIGUATION, BOS, EOS, *UNKNOWN)
    if unknown := [word for word, i in symbols.ids.items() if word not in no_words and ready.word_of[i] in (unk, -1)]:
        how = "which are scored as <unk>" if unk >= 0 else "and no <unk>: arcs with them are dropped"
        logger.warning(f"{name} lacks {len(unknown):,} words of {symbols.path}: {examples(unknown)}, {how}")
    return ready
