"""Language models in the forms that recognisers load: read by what is in the file, written by the name of the file.

    arpa      text, plain or gzipped; any tool reads it
    fst       Kaldi's G.fst: #0 on back-off arcs, numbers of words.txt; without words.txt its own table inside
    opengrm   a VectorFst as OpenGrm has it: nothing on back-off arcs, the table of words inside
    ngram     OpenFst's ngram FST, such as Vosk's Gr.fst; the table of words inside
    carpa     Kaldi's G.carpa, for rescoring; only numbers of words.txt
    k2        G.fst as text, for k2 and icefall; only numbers of words.txt, and only written

All but ARPA hold 32-bit floats. The automata have no state for a history that nothing follows, so its back-off weight
is part of other weights; where that matters it is said.
"""

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mdi.certificate import discard_certificate
from mdi.errors import MdiError, UsageError, examples
from mdi.files import first_bytes, read_bytes, together, writing
from mdi.fst.backoff_fst import read_backoff_fst
from mdi.fst.const_arpa import begins_const_arpa, const_arpa, read_const_arpa, write_const_arpa
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight, split_name, with_weight
from mdi.fst.ngram_fst import read_ngram_fst, write_ngram_fst
from mdi.fst.openfst import Header, begins_fst, parse_header, read_whole_header, symbols_name, to_text
from mdi.fst.symbols import DISAMBIGUATION, EPSILON, SymbolTable, by_label, read_symbols, symbols_inside, write_symbols
from mdi.fst.vector_fst import VectorFst, history_tree, vector_fst
from mdi.kernels.arpa_write import as_written
from mdi.lm.arpa import HasModel, close, read_arpa, write_arpa
from mdi.lm.model import NgramModel, without
from mdi.lm.normalise import Reader
from mdi.lm.trie import Array
from mdi.progress import get_logger

logger = get_logger(__name__)

FORMATS = ("arpa", "fst", "opengrm", "ngram", "carpa")
ONLY_WRITTEN = "k2"
OWN_WORDS = "the model's own words"  # whose table an FST holds where there is no other


def format_of(path: str) -> str:
    """The form of a model that is to be written under this name."""
    name = Path(path).name.removesuffix(".gz")
    if name.endswith(".carpa"):
        return "carpa"
    if name.endswith(".ngram.fst") or (name.startswith("Gr.") and name.endswith(".fst")):
        return "ngram"
    if name.endswith((".opengrm.fst", ".mod")):
        return "opengrm"
    return "fst" if name.endswith(".fst") else "arpa"


def load(
    path: str | os.PathLike[str],
    words: str | os.PathLike[str] | None = None,
    *,
    closed: bool = True,
    quiet: bool = False,
    weight: GraphWeight | None = None,
) -> NgramModel:
    """Reads a model in any form: ARPA, Kaldi's G.fst and G.carpa, Vosk's Gr.fst, OpenGrm's FSTs, plain or gzipped.

    Parameters
    ----------
    path
        The file; what it holds is recognised by its content. "-" is standard input.
    words
        Kaldi's words.txt, or an FST that holds its table, for files that have only numbers: G.carpa, and FSTs without
        a table inside.
    closed
        Whether suffixes that were pruned away are added with their backed-off probabilities, which changes none.
        Otherwise the n-grams are the file's own.
    quiet
        Whether nothing is said of these.
    weight
        LM weight and word penalty that are in the costs, and are taken out (those that the file says it has).

    Returns
    -------
    NgramModel

    Raises
    ------
    MdiError
        Where the file is damaged or is no model; it names file and line.

    See Also
    --------
    save : writes what was read, or made from it.
    read_arpa : the same for ARPA alone.
    """
    path, words = os.fspath(path), None if words is None else os.fspath(words)
    head = first_bytes(path)
    if begins_fst(head):
        data = read_bytes(path)
        header = read_whole_header(data, path)
        symbols = symbols_inside(header, path) or _table(path, words, "the FST holds no table of words")
        read = read_ngram_fst if header.kind == "ngram" else read_backoff_fst
        model = read(data, header, symbols, path, _weight(path, header, quiet) if weight is None else weight)
    elif begins_const_arpa(head):
        model = read_const_arpa(
            read_bytes(path), _table(path, words, "G.carpa has numbers for words"), path, weight or UNWEIGHTED
        )
    else:
        return read_arpa(path, closed=closed, quiet=quiet)
    if closed:
        close(model, path, quiet)
    return model


def weight_of(path: str) -> GraphWeight:
    """What an FST says of the weight in its costs."""
    header = _fst_header(path)
    if header is None or not header.has_symbols:
        return UNWEIGHTED
    try:
        name = symbols_name(first_bytes(path, 4096), header)
    except (struct.error, ValueError):  # a long name, or a damaged file
        symbols = read_whole_header(read_bytes(path), path).symbols
        name = symbols.name if symbols else ""
    return split_name(name)[1]


def _weight(path: str, header: Header, quiet: bool) -> GraphWeight:
    weight = split_name(header.symbols.name)[1] if header.symbols else UNWEIGHTED
    if weight and not quiet:
        logger.info(f"{path}: a graph to decode with, {weight}; both are taken out")
    return weight


def _table(path: str, words: str | None, why: str) -> SymbolTable:
    if words is None:
        raise MdiError(f"{path}: {why}; give the words.txt that it was made with: --words words.txt")
    return read_symbols(words)


def words_for(words: str | None, *models: str) -> str | None:
    """Where the numbers of words come from for a model that is written: `words`, or else the first of the models that
    it is made from that holds a table of its own, such as Vosk's Gr.fst."""
    if words is not None:
        return words
    return next((path for path in models if (header := _fst_header(path)) and header.has_symbols), None)


def _fst_header(path: str) -> Header | None:
    """The header of an FST that is not on standard input; whoever reads it says what is wrong with it."""
    head = first_bytes(path)
    try:
        return parse_header(head, path) if path != "-" and begins_fst(head) else None
    except (struct.error, ValueError):
        return None


def check_form(
    path: str,
    format: str | None,
    words: str | SymbolTable | None,
    words_out: str | os.PathLike[str] | None = None,
    back_off: str = DISAMBIGUATION,
) -> None:
    """Refuses, before any work is done, a form that cannot be written with these words, and a table that grows from
    none."""
    form = format or format_of(path)
    if words_out is not None and words is None:
        raise UsageError(f"--words-out {words_out}: no table to put words into; give Kaldi's words.txt, too: --words")
    if form in ("carpa", ONLY_WRITTEN) and words is None:
        name = "G.carpa" if form == "carpa" else "k2's text"
        raise UsageError(f"{path}: {name} has numbers for words; give Kaldi's table: --words words.txt")
    if form != "arpa" and words is not None:
        symbols = read_symbols(words)
        if form in ("fst", ONLY_WRITTEN):
            symbols.require(back_off)


def reader_of(form: str) -> Reader:
    """What is found in a file of this form for the probabilities and weights that were written."""
    return as_written if form == "arpa" else _single_precision


def _single_precision(values: Array) -> Array:
    """Costs, -ln p, have 32 bits."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.log(values).astype(np.float32).astype(float)))


def write_lm(
    model: NgramModel | HasModel,
    path: str | os.PathLike[str],
    format: str | None = None,
    words: str | os.PathLike[str] | SymbolTable | None = None,
    *,
    keep: list[Array] | None = None,
    max_dropped: float = 0.2,
    back_off: str = DISAMBIGUATION,
    weight: GraphWeight = UNWEIGHTED,
    new_words: Sequence[str] = (),
    words_out: str | os.PathLike[str] | None = None,
) -> VectorFst | None:
    """Writes a model in the form that `format` or the name of the file says (see format_of); `.gz` packs any of them.

    Labels are those of `words` (words.txt, an FST that holds its table, or a table); G.carpa needs it, the FSTs make a
    table and hold it where it is not given. n-grams with a word outside it are dropped, a model that loses more than
    the share `max_dropped` of them is refused. With `keep` only the rows whose flags are set are written: see
    write_arpa. As there, nothing is checked or certified: that is `mdi.save`. `back_off`: the symbol that back-off arcs
    of Kaldi's G.fst read. `weight`: goes into the costs, for a graph that decodes; ARPA cannot have it. `new_words`
    must not be lost: they get numbers behind those of the table, where that is inside. `words_out`: where the table is
    written with these, and whatever other words it lacks, so that nothing is dropped. Returns the automaton, where one
    was written.
    """
    model = model if isinstance(model, NgramModel) else model.model
    path = os.fspath(path)
    words = words if words is None or isinstance(words, SymbolTable) else os.fspath(words)
    form = format or format_of(path)
    if form not in (*FORMATS, ONLY_WRITTEN):
        raise MdiError(f"'{form}'; expected one of {', '.join(FORMATS)} and {ONLY_WRITTEN}")
    numbered = words is not None and (form != "arpa" or words_out is not None)
    symbols = read_symbols(words) if words is not None and numbered else None  # once
    check_form(path, form, symbols or words, words_out, back_off)
    check_words(path, form, symbols or words, new_words, words_out)
    if form == "arpa" and weight:
        raise MdiError(f"{path}: {weight}; expected an FST or G.carpa, as ARPA files are probabilities")
    own = model.vocab.unmarked if form != "arpa" or words_out is not None else []
    if symbols is not None:
        symbols = symbols.extended(symbols.lacking(new_words if words_out is None else own))
    with together():
        if symbols is not None and words_out is not None:
            write_symbols(symbols, os.fspath(words_out))
        if form == "arpa":
            write_arpa(model, path, keep)
            return None
        if keep is not None:
            model = without(model, keep)
        symbols = symbols or SymbolTable(OWN_WORDS, {w: i for i, w in enumerate([EPSILON, *own, DISAMBIGUATION])})
        written = _write_numbered(model, path, form, symbols, max_dropped, back_off, weight)
        discard_certificate(path)
        return written


def check_words(
    path: str,
    form: str,
    words: str | SymbolTable | None,
    needed: Sequence[str],
    words_out: str | os.PathLike[str] | None,
) -> None:
    """Refuses words whose numbers nobody would learn of."""
    if needed and words is not None and words_out is None and form in ("fst", "carpa", ONLY_WRITTEN):
        symbols = read_symbols(words)
        if missing := symbols.lacking(needed):
            raise MdiError(
                f"{path}: {symbols.path} has no numbers for {len(missing):,} words of the model: "
                f"{examples(missing)}; expected all, as it would not sum to one without them. Say where the table with "
                f"them is to be written (--words-out), or write ARPA and have mdi convert drop them"
            )


def _write_numbered(
    model: NgramModel,
    path: str,
    form: str,
    symbols: SymbolTable,
    max_dropped: float,
    back_off: str,
    weight: GraphWeight,
) -> VectorFst | None:
    """In a form that has numbers for words."""
    if form != "ngram":
        model = with_weight(model, weight)
    label = symbols.labels_of(model.vocab)
    if (label == 0).any() or model.vocab.id(back_off) >= 0:
        raise MdiError(f"the model has {back_off} or {EPSILON} as a word; expected neither. Rename the word")
    if form == "carpa":
        made = const_arpa(model, symbols, _unknown(symbols))
        _check(made.dropped, model, label, path, symbols, max_dropped)
        write_const_arpa(made, path)
        logger.info(f"{path}: numbers of {symbols.path}, which whoever reads it needs too; costs have 32 bits")
        return None
    fst = (history_tree if form == "ngram" else vector_fst)(*by_label(model, label, markers_first=form == "ngram"))
    _check(fst.dropped, model, label, path, symbols, max_dropped)
    if fst.merged:
        logger.info(
            f"{path}: {fst.merged:,} histories that nothing follows had a back-off weight, which is now part of the "
            f"weights of what leads to them"
        )
    if form == "ngram":
        write_ngram_fst(fst, path, symbols.inside(weight), weight)
    elif not fst.n_arcs:
        raise MdiError(
            f"{path}: the acceptor is empty, no sentence has a probability; expected a model with </s> and "
            f"words of the table"
        )
    else:
        reads = 0 if form == "opengrm" else symbols.require(back_off)
        inside = symbols.inside(weight) if symbols.path == OWN_WORDS or form == "opengrm" else None
        with writing(path) as stream:
            for block in to_text(fst.arcs(reads)) if form == ONLY_WRITTEN else fst.blocks(reads, inside):
                stream.write(block)
    logger.info(f"{path}: {fst.n_states:,} states, {fst.n_arcs:,} arcs with words; costs have 32 bits")
    return fst


def _unknown(symbols: SymbolTable) -> int | None:
    """The label of a lang folder's unknown word, oov.int beside words.txt, as utils/build_const_arpa_lm.sh has it."""
    path = Path(symbols.path).parent / "oov.int"
    try:
        return int(path.read_text()) if path.is_file() else None  # a pipe would wait
    except ValueError:
        return None


def _check(dropped: int, model: NgramModel, label: Array, path: str, symbols: SymbolTable, max_dropped: float) -> None:
    """Says how many n-grams are dropped because a word is not in the table; refuses a model that loses too many."""
    if not dropped:
        return
    outside = label < 0
    outside[[model.vocab.bos, model.vocab.eos]] = False
    missing = [model.vocab.word(int(i)) for i in np.flatnonzero(outside)]
    total, mass = sum(model.trie.counts), float(model.p[1][outside].sum())
    text = (
        f"{dropped:,} of {total:,} n-grams ({100 * dropped / total:.2f}%, {100 * mass:.2f}% of the 1-gram"
        f" mass) have a word outside {symbols.path}: {examples(missing)}"
    )
    if dropped / total > max_dropped:
        raise MdiError(
            f"{path}: {text}; at most {100 * max_dropped:g}% may be dropped. Is it the right words.txt, and in the "
            f"same letter case? Otherwise raise --max-dropped"
        )
    logger.warning(f"{text}; dropped")
