"""The prompts of a telephone exchange, Asterisk: some 25 minutes of recorded speech by one voice, with their texts, in
each of several languages.

CC BY-SA 3.0; Debian's packages (asterisk-core-sounds-en, asterisk-core-sounds-en-g722) need no root to be downloaded
and unpacked. Prompts belong together, as a scene, if they are of one program: vm-goodbye, vm-login.
"""

import gzip
import hashlib
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from recorded_speech import RATE, Recordings, Utterance, download, unpack

from mdi.errors import MdiError


@dataclass(frozen=True)
class Release:
    """The prompts in one language."""

    language: str
    voice: str  # folder of its sounds
    sha256: str  # of the texts: the same sets for everyone
    misspelt: tuple[tuple[str, str], ...] = ()  # words of the texts, with what is said

    @property
    def packages(self) -> dict[str, str]:
        """Debian's packages, and what is wanted of each."""
        name = f"asterisk-core-sounds-{self.language}"
        texts = f"usr/share/doc/{name}/core-sounds-{self.language}.txt.gz"
        return {name: texts, f"{name}-g722": f"usr/share/asterisk/sounds/{self.voice}"}

    @property
    def folder(self) -> str:
        return "telephone-prompts" + ("" if self.language == "en" else f"-{self.language}")


RELEASES = {
    "en": Release("en", "en_US_f_Allison", "4a5c1fea255e06020acd67efe37d162d0f0458f685efe578d224449f8e7f0bb4"),
    "fr": Release("fr", "fr_CA_f_June", "37cd33323ad139b0c739102f36c42c1e68ebdd92231f664c355d85c49b07772c"),
    # "in order to" is written as two words, and learning that would count as fewer errors
    "ru": Release(
        "ru",
        "ru_RU_f_IvrvoiceRU",
        "2398d652926d39c1dd75260fb36dcef907c4590031ebfd89df761a4e5efa46f0",
        (("что бы", "чтобы"), ("чтобы бы", "чтобы")),
    ),
}


def find_prompts(given: str | None, downloads: Path, release: Release) -> Path:
    """A folder with texts.txt and sounds/: made once from the two packages, which are in the folder that is given, or
    downloaded."""
    made, packages = downloads / release.folder, release.packages
    if made.is_dir():
        return made
    if given and not Path(given).is_dir():
        raise MdiError(f"{given}: no such directory; expected one with Debian's packages {' and '.join(packages)}")
    downloads.mkdir(parents=True, exist_ok=True)
    by_hand = f"give a directory with Debian's packages {' and '.join(packages)}: --prompts DIR"
    with tempfile.TemporaryDirectory(dir=downloads, prefix=".deb.") as scratch:
        found = []
        for package, expected in packages.items():
            here = sorted(Path(given).glob(f"{package}_*.deb")) if given else []
            if given and not here:
                raise MdiError(f"{given}: no {package}_*.deb; {by_hand}")
            path = here[-1] if here else download(package, 5, downloads, by_hand)
            found.append(unpack(path, Path(scratch) / "unpacked", expected))
        texts = gzip.decompress(found[0].read_bytes())
        if hashlib.sha256(texts).hexdigest() != release.sha256:
            raise MdiError(
                f"{next(iter(packages.values()))}: another SHA-256 than expected, {release.sha256}: another "
                f"release has other prompts, and figures could not be compared"
            )
        whole = Path(scratch) / "whole"
        whole.mkdir()
        (whole / "texts.txt").write_bytes(texts)
        shutil.move(found[1], whole / "sounds")
        whole.rename(made)
    return made


def read_utterances(folder: Path, release: Release) -> list[Utterance]:
    """Lines are "name: text", noises in brackets; a name may have a folder."""
    found, speaker = [], release.voice.split("_")[-1].lower()
    for line in (folder / "texts.txt").read_text("utf-8", "replace").splitlines():
        named = re.fullmatch(r"([\w][\w/.-]*): (.*)", line)
        sound = folder / "sounds" / f"{named[1]}.g722" if named else None
        if named and sound and sound.is_file():
            text, name = re.sub(r"\[[^]]*\]", " ", named[2]), named[1].replace("/", "-")
            for wrong, right in release.misspelt:
                text = re.sub(rf"\b{wrong}\b", right, text, flags=re.IGNORECASE)
            found.append(Utterance(re.split(r"[-/]", named[1])[0], speaker, name, text, partial(decoded, sound)))
    return found


def decoded(path: Path) -> tuple[np.ndarray, int]:
    """(samples, rate) of a file of ITU-T G.722, 64 kbit/s"""
    import G722

    samples = np.asarray(G722.G722(RATE, 64_000).decode(path.read_bytes()), np.float64)
    return samples / 32768, RATE


def recordings(given: str | None, downloads: Path, language: str = "en") -> Recordings:
    release = RELEASES[language]
    folder = find_prompts(given, downloads, release)
    utterances = read_utterances(folder, release)
    return Recordings(str(folder), utterances, eval_share=0.3, dev_share=0.1, language=language)
