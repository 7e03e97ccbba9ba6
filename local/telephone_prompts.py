"""The prompts of a telephone exchange, Asterisk: 23 minutes of recorded speech by one voice, with their texts.

CC BY-SA 3.0; Debian's packages (asterisk-core-sounds-en, asterisk-core-sounds-en-g722) need no root to be downloaded
and unpacked. Prompts belong together, as a scene, if they are of one program: vm-goodbye, vm-login.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from recorded_speech import RATE, Recordings, Utterance, download, unpack

from mdi.errors import MdiError

PACKAGES = {
    "asterisk-core-sounds-en": "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz",
    "asterisk-core-sounds-en-g722": "usr/share/asterisk/sounds/en_US_f_Allison",
}
SHA256 = "4a5c1fea255e06020acd67efe37d162d0f0458f685efe578d224449f8e7f0bb4"  # of the texts: the same sets for everyone


def find_prompts(given: str | None, downloads: Path) -> Path:
    """A folder with texts.txt and sounds/: made once from the two packages, which are in the folder that is given, or
    downloaded."""
    made = downloads / "telephone-prompts"
    if made.is_dir():
        return made
    if given and not Path(given).is_dir():
        raise MdiError(f"{given}: no such folder; expected one with Debian's packages {' and '.join(PACKAGES)}")
    downloads.mkdir(parents=True, exist_ok=True)
    by_hand = f"give a folder with Debian's packages {' and '.join(PACKAGES)}: --prompts DIR"
    with tempfile.TemporaryDirectory(dir=downloads, prefix=".deb.") as scratch:
        found = []
        for package, expected in PACKAGES.items():
            here = sorted(Path(given).glob(f"{package}_*.deb")) if given else []
            if given and not here:
                raise MdiError(f"{given}: no {package}_*.deb; {by_hand}")
            path = here[-1] if here else download(package, 5, downloads, by_hand)
            found.append(unpack(path, Path(scratch) / "unpacked", expected))
        texts = gzip.decompress(found[0].read_bytes())
        if hashlib.sha256(texts).hexdigest() != SHA256:
            raise MdiError(f"{PACKAGES['asterisk-core-sounds-en']}: another SHA-256 than expected, {SHA256}: another "
                           f"release has other prompts, and figures could not be compared")  # fmt: skip
        whole = Path(scratch) / "whole"
        whole.mkdir()
        (whole / "texts.txt").write_bytes(texts)
        shutil.move(found[1], whole / "sounds")
        whole.rename(made)
    return made


def read_utterances(folder: Path) -> list[Utterance]:
    """Lines are "name: text", noises in brackets; a name may have a folder."""
    found = []
    for line in (folder / "texts.txt").read_text("ascii", "replace").splitlines():
        named = re.fullmatch(r"([\w][\w/.-]*): (.*)", line)
        sound = folder / "sounds" / f"{named[1]}.g722" if named else None
        if named and sound and sound.is_file():
            text, name = re.sub(r"\[[^]]*\]", " ", named[2]), named[1].replace("/", "-")
            found.append(Utterance(re.split(r"[-/]", named[1])[0], "allison", name, text, partial(decoded, sound)))
    return found


def decoded(path: Path) -> tuple[np.ndarray, int]:
    """(samples, rate) of a file of ITU-T G.722, 64 kbit/s"""
    import G722

    samples = np.asarray(G722.G722(RATE, 64_000).decode(path.read_bytes()), np.float64)
    return samples / 32768, RATE


def recordings(given: str | None, downloads: Path) -> Recordings:
    folder = find_prompts(given, downloads)
    return Recordings(str(folder), read_utterances(folder), eval_share=0.3, dev_share=0.1)
