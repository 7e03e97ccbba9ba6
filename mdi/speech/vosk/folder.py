"""A Vosk model's folder: where its language models are, and a copy of it with others.

dynamic   HCLr.fst and Gr.fst, composed while decoding: another Gr.fst is another first-pass model
static    HCLG.fst, which cannot be changed
rescore/  if it is there: lattices get the scores of G.carpa instead of those of G.fst, the model that decoded

What decodes lies in graph/, in folders of an older kind at the top.

A folder may come from anybody. Of its files only those that libvosk reads are looked at or taken over. Each must be a
regular file, or a link to one, which for a new folder must lie in the same folder.
"""

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mdi.errors import MdiError
from mdi.files import (
    check_regular,
    check_replaced,
    check_sum,
    copy_file,
    exchange_folder,
    read_plain,
    scratch_folder,
    write_file,
)
from mdi.fst.formats import load, weight_of, words_for, write_lm
from mdi.fst.graph_weight import UNWEIGHTED, GraphWeight
from mdi.fst.symbols import DISAMBIGUATION, EPSILON, SymbolTable, read_symbols
from mdi.lm.model import NgramModel
from mdi.lm.vocabulary import BOS, EOS, to_str
from mdi.progress import shown_as

CERTIFICATE = "mdi.json"
LATTICE_BEAM = "--lattice-beam"
BEAM_OF_OLDER = 6.0  # libvosk's own for folders of the older kind; it takes no other
# What libvosk adds to the sound by chance, from one generator for all threads: what a process has decoded before would
# change what it hears now.
_NOISE = {"mfcc.conf": "--dither", "fbank.conf": "--dither", "pitch.conf": "--delta-pitch-noise-stddev"}
# What libvosk reads (its model.cc), in folders of both kinds.
_IN_BOTH = """
    ivector/final.ie ivector/final.dubm ivector/final.mat ivector/global_cmvn.stats ivector/online_cmvn.conf
    ivector/splice.conf rescore/G.carpa rescore/G.fst rnnlm/word_feats.txt rnnlm/feat_embedding.final.mat
    rnnlm/special_symbol_opts.conf rnnlm/final.raw
"""
_AM, _CONF = ["final.mdl", "global_cmvn.stats"], ["mfcc.conf", "fbank.conf", "pitch.conf"]
_GRAPH = ["HCLG.fst", "HCLr.fst", "Gr.fst", "disambig_tid.int", "words.txt", "phones.txt"]  # the last is for us
_PLACES = {"am": _AM, "conf": ["model.conf", *_CONF], "graph": [*_GRAPH, "phones/word_boundary.int"]}
NEWER = (*_IN_BOTH.split(), *(f"{place}/{name}" for place, names in _PLACES.items() for name in names))
OLDER = (*_IN_BOTH.split(), *_AM, *_CONF, *_GRAPH, "word_boundary.int")
# A file of at most so many bytes is copied: whoever edits the new folder's settings must not edit the old one's.
SMALL = 1 << 20


@dataclass(frozen=True)
class VoskFolder:
    path: Path

    @property
    def newer(self) -> bool:
        return (self.path / "am" / "final.mdl").exists()

    @property
    def files(self) -> list[str]:
        """What there is of all that libvosk reads."""
        return [name for name in (NEWER if self.newer else OLDER) if os.path.lexists(self.path / name)]

    @property
    def graph(self) -> Path:
        return self.path / "graph" if self.newer else self.path

    @property
    def dynamic(self) -> bool:
        return (self.graph / "HCLr.fst").exists()

    @property
    def acoustic(self) -> Path:
        return self.path / "am" / "final.mdl" if self.newer else self.path / "final.mdl"

    @property
    def word_boundary(self) -> Path:
        return self.graph / "phones" / "word_boundary.int" if self.newer else self.graph / "word_boundary.int"

    @property
    def first_pass(self) -> Path:
        """The model that decodes; only a dynamic graph has it as a file of its own."""
        return self.graph / "Gr.fst"

    @property
    def first_pass_in_lattices(self) -> Path:
        """The same for rescoring, as Kaldi's G.fst."""
        return self.path / "rescore" / "G.fst"

    @property
    def rescoring(self) -> Path:
        return self.path / "rescore" / "G.carpa"

    @property
    def rescores(self) -> bool:
        return self.rescoring.exists()

    @property
    def words(self) -> Path:
        """Kaldi's words.txt, or the FST that holds the table where there is none."""
        table = self.graph / "words.txt"
        return table if table.exists() else self.first_pass

    @property
    def own_lm(self) -> Path | None:
        """The model whose scores are in the results; None where it is only within HCLG.fst."""
        if self.rescores:
            return self.rescoring
        return self.first_pass if self.dynamic else None

    @property
    def conf(self) -> Path:
        """Settings of decoding; the older kind has none."""
        return self.path / "conf" / "model.conf"

    def settings(self) -> str:
        return to_str(read_plain(str(self.conf))) if self.newer and self.conf.exists() else ""

    @property
    def lattice_beam(self) -> float | None:
        """As its settings have it."""
        if not self.newer:
            return BEAM_OF_OLDER
        found = _option(LATTICE_BEAM).search(self.settings())
        if not found:
            return None
        try:
            return float(found[1])
        except ValueError:
            raise MdiError(f"{self.conf}: {found[0]!r}; expected a number, such as --lattice-beam=6.0") from None

    def quiet_settings(self) -> dict[str, str]:
        """The files that say what noise is added to the sound, saying that none is."""
        found = {}
        for file, option in _NOISE.items():
            name = f"conf/{file}" if self.newer else file
            if name in self.files:
                found[name] = with_option(to_str(read_plain(str(self.path / name))), option, 0.0)
        return found

    @cached_property
    def symbols(self) -> SymbolTable:
        return read_symbols(str(self.words))

    @cached_property
    def weight(self) -> GraphWeight:
        """What its models' costs have been multiplied with; it is in the first pass and in rescore/ alike."""
        return weight_of(str(self.first_pass)) if self.dynamic else UNWEIGHTED

    def read(self, lm: Path) -> NgramModel:
        """One of its models, by the table inside it or else that of the folder, without the weight."""
        return load(str(lm), str(self.words), weight=self.weight)

    def identity(self) -> dict[str, int]:
        """What a decoding depends on, wherever it lies: check sums of all that libvosk reads."""
        return {name: check_sum(str(self.path / name)) for name in self.files}


def find_vosk_folder(path: str, lattice_beam: float | None = None) -> VoskFolder:
    """The folder, with what libvosk needs to decode; with this beam, if one is asked for."""
    folder = VoskFolder(Path(path))
    if not folder.path.is_dir():
        raise MdiError(f"{path}: no such directory; expected an unpacked Vosk model, as vosk-model-small-en-us-0.15")
    for name in folder.files:
        check_regular(str(folder.path / name))
    if not any((folder.path / name).exists() for name in ("am/final.mdl", "final.mdl")):
        raise MdiError(f"{path}: no am/final.mdl; expected a Vosk model. Is the model in a directory within this one?")
    if folder.dynamic and not folder.first_pass.exists():
        raise MdiError(f"{folder.first_pass}: not there, though HCLr.fst is; unpack the model again")
    if not folder.dynamic and not (folder.graph / "HCLG.fst").exists():
        raise MdiError(f"{folder.graph}: neither HCLr.fst and Gr.fst nor HCLG.fst; unpack the model again")
    _check_tables(folder)
    if not folder.newer and lattice_beam not in (None, BEAM_OF_OLDER):
        raise MdiError(
            f"{path}: a directory of the older kind (final.mdl at its top), whose lattice beam libvosk sets to "
            f"{BEAM_OF_OLDER:g}; leave out --lattice-beam"
        )
    return folder


def _check_tables(folder: VoskFolder) -> None:
    """Refuses two tables of words that disagree: libvosk would print other words than those that it has decoded."""
    if folder.words == folder.first_pass or not folder.dynamic or words_for(None, str(folder.first_pass)) is None:
        return
    outside, inside = read_symbols(str(folder.words)), read_symbols(str(folder.first_pass))
    for number, word in sorted(inside.words.items()):
        if word not in (BOS, EOS, EPSILON, DISAMBIGUATION) and outside.words.get(number) != word:
            other = f"'{outside.words[number]}'" if number in outside.words else "nothing"
            raise MdiError(
                f"{folder.words}: the number {number} means {other} here and '{word}' in {folder.first_pass}; expected "
                f"one table. Unpack the model again, or remove words.txt"
            )


@contextmanager
def new_folder(
    source: VoskFolder, out: Path, places: Collection[str], lattice_beam: float | None = None
) -> Iterator[VoskFolder]:
    """A folder under a temporary name with the files of `source` but for `places`, into which models are to be written;
    large files are links where the file system has them. It gets the name `out` when all is done. What was made here
    before, or the source itself, is replaced, nothing else."""
    if out.resolve() != source.path.resolve():
        check_new_folder(out, source)
    with scratch_folder(f".{out.name}.", str(out.parent)) as scratch:
        made = VoskFolder(Path(scratch) / "model")
        settings = _beam_settings(source, lattice_beam)
        with shown_as(str(made.path), str(out)):
            _take_over(VoskFolder(source.path.resolve()), made, places, settings, _link_or_copy)
            yield made
        exchange_folder(str(made.path), str(out))


def check_new_folder(out: Path, source: VoskFolder) -> None:
    """Refuses, before any work is done, a folder that cannot be made or is somebody else's."""
    if not out.parent.is_dir():
        raise MdiError(f"{out}: the directory {out.parent} does not exist; make it first")
    check_replaced(out, source.path, (out / CERTIFICATE).exists(), "mdi vosk")
    inside = source.path.resolve()
    for name in source.files:
        if inside not in (found := (source.path / name).resolve()).parents:
            raise MdiError(
                f"{source.path / name}: is a link out of the directory, to {found}; expected files. "
                f"If you trust whoever made it: cp -rL {source.path} COPY, and use the copy"
            )


def _take_over(
    source: VoskFolder,
    made: VoskFolder,
    places: Collection[str],
    settings: dict[str, str],
    put: Callable[[Path, Path], None],
) -> None:
    """The files of `source`, as `put` puts them there, but for those that are written anew: nothing that is written is
    ever a link. `settings`: what is in files of settings."""
    made.path.mkdir()
    for name in source.files:
        (made.path / name).parent.mkdir(parents=True, exist_ok=True)
        if name not in places and name not in settings:
            put(source.path / name, made.path / name)
    for name, content in settings.items():
        write_file(made.path / name, content)


def _link_or_copy(source: Path, target: Path) -> None:
    """A link only to large files of ours: what is another's may change under us, and has another's modes."""
    status = source.stat()
    if os.path.realpath(source) == str(source) and status.st_size > SMALL and status.st_uid == os.geteuid():
        with contextlib.suppress(OSError):  # another file system, one without links, another's file
            os.link(source, target)
            return
    copy_file(source, target)


def exchange_lm(symbols: SymbolTable, path: Path, model: NgramModel, weight: GraphWeight = UNWEIGHTED) -> None:
    """Writes a model to its place in a new folder, in the form that libvosk reads there. Words keep the numbers that
    they have in the folder that it is made from: `symbols`, which may have more."""
    form = {"Gr.fst": "ngram", "G.fst": "fst", "G.carpa": "carpa"}[path.name]
    path.parent.mkdir(exist_ok=True)
    write_lm(model, str(path), form, symbols, weight=weight)


def _option(name: str) -> re.Pattern[str]:
    """A line of settings."""
    return re.compile(rf"^{name}=(.*)$", re.MULTILINE)


def with_option(settings: str, name: str, value: float) -> str:
    """Settings with this value, whatever they say."""
    line, old = f"{name}={value:g}", _option(name)
    return old.sub(line, settings) if old.search(settings) else f"{settings.rstrip()}\n{line}\n".lstrip()


def _beam_settings(source: VoskFolder, beam: float | None) -> dict[str, str]:
    if beam is None or beam == source.lattice_beam:
        return {}
    return {str(source.conf.relative_to(source.path)): with_option(source.settings(), LATTICE_BEAM, beam)}


@contextmanager
def changed(
    folder: VoskFolder, beam: float | None = None, models: Mapping[str, NgramModel] | None = None, dither: bool = True
) -> Iterator[VoskFolder]:
    """The model with another lattice beam, other language models in these places and no noise added to what it hears,
    for as long as it is needed."""
    source = VoskFolder(folder.path.resolve())
    settings = ({} if dither else source.quiet_settings()) | _beam_settings(source, beam)
    if not settings and not models:
        yield folder
        return
    with scratch_folder("mdi-vosk-") as scratch:
        made = VoskFolder(Path(scratch) / "model")
        _take_over(source, made, models or (), settings, lambda path, target: target.symlink_to(path))
        for place, model in (models or {}).items():
            exchange_lm(source.symbols, made.path / place, model, source.weight)
        yield made
