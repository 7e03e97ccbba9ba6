"""Synthetic speech of the demo's test sets: espeak-ng, where it is installed, at several pitches and rates.

No person has spoken it: WERs of it compare language models, and say nothing about a recogniser.
"""

import io
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
from recorded_speech import Line, Utterance, write_data_folder

from mdi.errors import MdiError

PROGRAM = "espeak-ng"
# Pitch (0 to 99) and words a minute: each pair is a "speaker".
SPEAKERS = ((50, 160), (40, 150), (60, 170), (30, 160), (70, 150), (45, 175), (55, 145), (35, 170))


def spoken(text: str, pitch: int, rate: int) -> tuple[np.ndarray, int]:
    """(samples, their rate)"""
    import soundfile

    command = [PROGRAM, "-v", "en-us", "-p", str(pitch), "-s", str(rate), "--stdin", "--stdout"]
    done = subprocess.run(command, input=text.encode(), capture_output=True)  # noqa: S603 - a list of arguments, no shell
    if done.returncode or not done.stdout:
        raise MdiError(f"{PROGRAM} cannot say '{text}': {done.stderr.decode(errors='replace').strip()[-300:]}")
    # it does not know how long the sound will be when it writes the header: soundfile takes what is there
    return soundfile.read(io.BytesIO(done.stdout), dtype="float64")


def make_data_folder(folder: Path, sentences: list[list[str]]) -> None:
    """text, utt2spk, spk2utt, wav.scp and wav/ of the sentences; the same sentences give the same sound."""
    lines: list[Line] = []
    for i, words in enumerate(sentences):
        pitch, rate = SPEAKERS[i % len(SPEAKERS)]
        said = partial(spoken, " ".join(words), pitch, rate)
        name = f"{folder.parent.parent.name}-{folder.name}-{i:04d}"
        lines.append((Utterance(folder.name, f"synthetic{i % len(SPEAKERS)}", name, " ".join(words), said), words))
    write_data_folder(folder, lines)
    (folder / "README").write_text(
        f"SYNTHETIC speech: text to speech ({PROGRAM}, formant synthesis); no person has spoken it.\n"
    )
