"""The language models of a Vosk folder that others take the place of."""

from dataclasses import dataclass
from pathlib import Path

from mdi.adaptation.delta import read_delta
from mdi.errors import MdiError, UsageError, examples
from mdi.fst.formats import load
from mdi.lm.identity import identity
from mdi.lm.model import NgramModel
from mdi.lm.new_words import may_be_added, with_words
from mdi.speech.vosk.folder import VoskFolder


@dataclass(frozen=True)
class Exchange:
    """Places in the folder: of models that are adapted, with what is adapted for each; and of those that go there as
    they are, or that are the adapted model of another place."""

    source: VoskFolder
    adapted: dict[str, Path]
    unchanged: dict[str, Path | str]

    def read(self, path: Path) -> NgramModel:
        """A model of the folder, or one from outside of it, whose numbers, if it has no words, are the folder's."""
        if self.source.path in path.parents:
            return self.source.read(path)
        return load(str(path), str(self.source.words))

    def completed(self, models: dict[str, NgramModel]) -> dict[str, NgramModel]:
        """Those that are adapted, and with them those that are not."""
        found = dict(models)
        for place, other in self.unchanged.items():
            if isinstance(other, Path):
                found[place] = self.read(other)
            elif other in models:  # lattices have the scores of what decodes
                found[place] = models[other]
        return found

    def adapted_by(self, paths: list[str]) -> dict[str, NgramModel]:
        """The folder's models that these deltas belong to, adapted."""
        deltas = {path: read_delta(path) for path in paths}
        models, used = {}, set()
        for place, path in self.adapted.items():
            own = self.read(path)
            for name, delta in deltas.items():
                if delta.background == identity(own):
                    models[place] = delta.apply(own)
                    used.add(name)
        if lost := [name for name in deltas if name not in used]:
            raise MdiError(
                f"{lost[0]}: is for the background {deltas[lost[0]].background}, which is none of "
                f"{', '.join(map(str, self.adapted.values()))}; adapt one of these (mdi adapt --delta)"
            )
        return self.completed(models)


def exchange_of(source: VoskFolder, large_lm: str | None = None, first_pass: str | None = None) -> Exchange:
    """`large_lm`: to rescore with, as it is; `first_pass`: what a static graph was made with."""
    paths = (source.first_pass, source.first_pass_in_lattices, source.rescoring)
    decoding, in_lattices, large = (str(path.relative_to(source.path)) for path in paths)
    adapted: dict[str, Path] = {}
    unchanged: dict[str, Path | str] = {}
    if source.dynamic:
        if first_pass:
            raise UsageError(
                f"--first-pass is for static graphs; {source.path} decodes with {decoding}, which is adapted"
            )
        adapted[decoding] = source.first_pass
        if source.rescores or large_lm:  # lattices have the scores of what decodes
            unchanged[in_lattices] = decoding
    elif first_pass:
        unchanged[in_lattices] = Path(first_pass)
    elif not source.rescores:
        raise MdiError(
            f"{source.path}: a static graph (HCLG.fst), and no rescore/G.carpa; its language model is within it. "
            f"Give the model that the graph was made with, --first-pass LM (ARPA, G.fst): lattices will be rescored"
        )
    if large_lm:
        unchanged[large] = Path(large_lm)
    elif source.rescores:
        adapted[large] = source.rescoring
    elif first_pass:
        adapted[large] = Path(first_pass)
    return Exchange(source, adapted, unchanged)


def lacking_words(source: VoskFolder, models: dict[str, NgramModel]) -> list[str]:
    """Words of the models that the folder lacks."""
    known = source.symbols.ids
    words = dict.fromkeys(word for model in models.values() for word in model.vocab.words if word not in known)
    return [word for word in words if may_be_added(word)]


def refuse_new_words(source: VoskFolder, lacking: list[str]) -> None:
    """Where they cannot be recognised: their n-grams would be missing in what decodes."""
    if lacking:
        raise MdiError(
            f"{source.path}: lacks {len(lacking):,} words of the delta, such as {examples(lacking)}, which need a "
            f"graph that knows them. Make a directory with one: mdi vosk replace-lm --delta A.delta MODEL_DIR OUT_DIR"
        )


def with_new_words(models: dict[str, NgramModel], added: list[str]) -> dict[str, NgramModel]:
    """All models with all of these words: where one lacks some, they are as likely as in one that has them."""
    made = {}
    for place, model in models.items():
        lacking = [word for word in added if word not in model]
        other = next((one for one in models.values() if all(word in one for word in lacking)), model)
        made[place] = with_words(model, lacking, other.p[1][other.vocab.ids(lacking)]) if lacking else model
    return made
