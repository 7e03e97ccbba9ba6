"""A Vosk model's folder: where its language models are, and a copy of it with others.

dynamic   HCLr.fst and Gr.fst, composed while decoding: another Gr.fst is another first-pass model
static    HCLG.fst, which cannot be changed
rescore/  if it is there: lattices get the scores of G.carpa instead of those of G.fst, the model that decoded

What decodes lies in graph/, in folders of an older kind at the top.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mdi.errors import MdiError
from mdi.files import exchange_folder, scratch_folder
from mdi.fst.formats import read_lm, write_lm
from mdi.fst.symbols import SymbolTable, read_symbols
from mdi.lm.model import NgramModel
from mdi.progress import shown_as

CERTIFICATE = "mdi.json"
_BEAM = re.compile(r"^--lattice-beam=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class VoskFolder:
    path: Path

    @property
    def graph(self) -> Path:
        return self.path / "graph" if (self.path / "am" / "final.mdl").exists() else self.path

    @property
    def dynamic(self) -> bool:
        return (self.graph / "HCLr.fst").exists()

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
        return self.path / ("conf/model.conf" if (self.path / "am" / "final.mdl").exists() else "mfcc.conf")

    @property
    def lattice_beam(self) -> float | None:
        """As its settings have it."""
        found = _BEAM.search(self.conf.read_text(errors="surrogateescape")) if self.conf.exists() else None
        if not found:
            return None
        try:
            return float(found[1])
        except ValueError:
            raise MdiError(f"{self.conf}: {found[0]!r}; expected a number, such as --lattice-beam=6.0") from None

    def symbols(self) -> SymbolTable:
        return read_symbols(str(self.words))

    def read(self, lm: Path) -> NgramModel:
        return read_lm(str(lm), None if lm == self.first_pass else str(self.words))

    def identity(self) -> dict[str, list]:
        """What a decoding depends on: size and time of the files that a run of this program may have exchanged."""
        files = [self.graph / name for name in ("Gr.fst", "HCLr.fst", "HCLG.fst")] + [self.rescoring, self.conf]
        times = {path: path.stat() for path in files if path.exists()}
        return {str(path.resolve()): [s.st_size, s.st_mtime_ns] for path, s in times.items()}


def find_vosk_folder(path: str) -> VoskFolder:
    """The folder, with what libvosk needs to decode."""
    folder = VoskFolder(Path(path))
    if not folder.path.is_dir():
        raise MdiError(f"{path}: no such folder; expected a Vosk model, such as vosk-model-small-en-us-0.15, unpacked")
    if not any((folder.path / name).exists() for name in ("am/final.mdl", "final.mdl")):
        raise MdiError(f"{path}: no am/final.mdl; expected a Vosk model. Is the model in a folder within this one?")
    if folder.dynamic and not folder.first_pass.exists():
        raise MdiError(f"{folder.first_pass}: not there, though HCLr.fst is; unpack the model again")
    if not folder.dynamic and not (folder.graph / "HCLG.fst").exists():
        raise MdiError(f"{folder.graph}: neither HCLr.fst and Gr.fst nor HCLG.fst; unpack the model again")
    return folder


@contextmanager
def new_folder(source: VoskFolder, out: Path, lattice_beam: float | None = None) -> Iterator[VoskFolder]:
    """A folder under a temporary name with the files of `source`, as links where the file system has them, into which
    others are written; it gets the name `out` when all is done. What was made here before is replaced, nothing else."""
    check_new_folder(out, source)
    with scratch_folder(f".{out.name}.", str(out.parent)) as scratch:
        made = VoskFolder(Path(scratch) / "model")
        shutil.copytree(source.path, made.path, copy_function=_link_or_copy)
        if lattice_beam is not None:
            exchange_beam(made, lattice_beam)
        with shown_as(str(made.path), str(out)):
            yield made
        exchange_folder(str(made.path), str(out))


def check_new_folder(out: Path, source: VoskFolder) -> None:
    """Refuses, before any work is done, a folder that cannot be made or is somebody else's."""
    if not out.parent.is_dir():
        raise MdiError(f"{out}: the folder {out.parent} does not exist; make it first")
    if out.exists() and out.resolve() == source.path.resolve():
        raise MdiError(f"{out}: is also the model that is adapted; name another folder")
    if out.exists() and not (out / CERTIFICATE).exists():
        raise MdiError(f"{out}: exists, and was not made by mdi vosk; remove it, or name another folder")


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)  # no links to links: what is written later would go through them
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def exchange_lm(folder: VoskFolder, path: Path, model: NgramModel) -> None:
    """Writes a model to its place in the folder, in the form that libvosk reads there. Words keep their numbers."""
    form = {"Gr.fst": "ngram", "G.fst": "fst", "G.carpa": "carpa"}[path.name]
    path.parent.mkdir(exist_ok=True)
    # the file may be a link to that of the source, which also has the numbers: it is replaced, never written into
    words = folder.words.resolve()
    if path.is_symlink():
        path.unlink()
    write_lm(model, str(path), form, str(words))


def exchange_beam(folder: VoskFolder, beam: float) -> None:
    """Lattices of this beam, whatever the model's settings say."""
    text = folder.conf.read_text(errors="surrogateescape") if folder.conf.exists() else ""
    line = f"--lattice-beam={beam:g}"
    text = _BEAM.sub(line, text) if _BEAM.search(text) else f"{text.rstrip()}\n{line}\n"
    folder.conf.unlink(missing_ok=True)  # a link to that of the source
    folder.conf.parent.mkdir(exist_ok=True)
    folder.conf.write_text(text, errors="surrogateescape")


@contextmanager
def changed(
    folder: VoskFolder, beam: float | None = None, models: Mapping[str, NgramModel] | None = None
) -> Iterator[VoskFolder]:
    """The model with another lattice beam and other language models in these places, for as long as it is needed."""
    if beam is None and not models:
        yield folder
        return
    with scratch_folder("mdi-vosk-") as scratch:
        made = VoskFolder(Path(scratch) / "model")
        shutil.copytree(folder.path.resolve(), made.path, copy_function=os.symlink)
        if beam is not None:
            exchange_beam(made, beam)
        for place, model in (models or {}).items():
            exchange_lm(made, made.path / place, model)
        yield made
