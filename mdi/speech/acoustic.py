"""CMU Sphinx's English acoustic model, which the pocketsphinx package brings along: its phones, states and senone
scores.

A phone has three emitting states; a triphone in a word position (internal, begin, end, single) names its senones, the
distributions of those states. pocketsphinx scores all senones of every frame and writes them to a log, which is read
back here.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdi.errors import MdiError
from mdi.files import scratch_folder
from mdi.lm.trie import Array

SAMPLE_RATE = 16_000
FRAMES_A_SECOND = 100
POSITIONS = "IBES"  # mdef's word positions 0..3: internal, begin, end, single
# Senone scores are integers, -ln p / (1024 ln 1.0001).
_SCORE_UNIT = 1024.0 * math.log(1.0001)


def model_folder() -> Path:
    from pocketsphinx import get_model_path

    return Path(get_model_path()) / "en-us"


@dataclass(frozen=True)
class AcousticModel:
    """`triphones` maps (left, phone, right, position) to a row of `senones`; `context_free` has the row of each phone
    alone."""

    phones: list[str]
    silence: int
    triphones: dict[tuple[int, int, int, int], int]
    context_free: list[int]
    senones: Array
    n_senones: int
    transition: Array  # [phone, state, next state], the fourth state is the exit

    def row(self, left: int, phone: int, right: int, position: int) -> int:
        """The senones of a phone between two others. What was never seen falls back: other positions, then silence on
        the outer sides of a word, then the phone alone."""
        if phone == self.silence:
            return self.context_free[phone]
        outer_left, outer_right = position in (1, 3), position in (2, 3)
        for a, b in ((left, right), (self.silence if outer_left else left, self.silence if outer_right else right)):
            for p in (position, *(q for q in range(4) if q != position)):
                found = self.triphones.get((a, phone, b, p))
                if found is not None:
                    return found
        return self.context_free[phone]


def read_acoustic_model(folder: Path | None = None) -> AcousticModel:
    folder = (folder or model_folder()) / "en-us"
    data = (folder / "mdef").read_bytes()
    if data[:4] != b"BMDF":
        raise MdiError(
            f"{folder / 'mdef'}: not a binary model definition; expected the en-us model of the pocketsphinx package"
        )
    at = 12 + struct.unpack_from("<i", data, 8)[0]
    n_ci, n_phones, n_states, _, n_senones, _, n_rows, _, n_tree, silence = struct.unpack_from("<10i", data, at)
    at += 40
    phones = []
    for _ in range(n_ci):
        end = data.index(b"\0", at)
        phones.append(data[at:end].decode())
        at = end + 1
    at += -at % 4 + 8 * n_tree  # padding, then a tree that the table below makes redundant
    kind = np.dtype([("row", "<i4"), ("tmat", "<i4"), ("position", "u1"), ("context", "u1", 3)])
    table = np.frombuffer(data, kind, n_phones, at)
    at += n_phones * kind.itemsize + 4
    senones = np.frombuffer(data, "<i2", n_rows * n_states, at).reshape(n_rows, n_states)
    triphones = {
        (left, phone, right, position): row
        for row, position, (phone, left, right) in zip(
            table["row"][n_ci:].tolist(),
            table["position"][n_ci:].tolist(),
            table["context"][n_ci:].tolist(),
            strict=True,
        )
    }
    data = (folder / "transition_matrices").read_bytes()
    at = data.index(b"endhdr") + 7
    n_matrices, rows, columns, size = struct.unpack_from("<4i", data, at + 4)
    matrices = np.frombuffer(data, "<f4", size, at + 20).reshape(n_matrices, rows, columns)
    matrices = matrices / matrices.sum(axis=2, keepdims=True)
    return AcousticModel(
        phones, silence, triphones, table["row"][:n_ci].tolist(), senones, n_senones, matrices[table["tmat"][:n_ci]]
    )


# Of temporary folders.
SCRATCH = "mdi-senones-"


class Scorer:
    """Log-likelihoods of all senones of every frame of an utterance."""

    def __init__(self, n_senones: int) -> None:
        from pocketsphinx import Decoder

        self.n_senones = n_senones
        self.folder = scratch_folder(SCRATCH)
        log = Path(self.folder.name) / "log"
        log.mkdir()
        self.log = log
        words = Path(self.folder.name) / "words.dict"
        words.write_text("hello HH AH L OW\n")
        # A search for one keyword is the cheapest that scores every senone of every frame.
        self.decoder = Decoder(
            hmm=str(model_folder() / "en-us"), lm=None, dict=str(words), loglevel="FATAL", compallsen=True,
            senlogdir=str(log),
            keyphrase="hello", kws_threshold=1e-50, fwdflat=False, bestpath=False,
        )  # fmt: skip

    def __call__(self, samples: Array, utterance: str) -> Array:
        if len(samples) < SAMPLE_RATE // 10:
            raise MdiError(
                f"utterance {utterance}: {len(samples):,} samples; expected at least a tenth of a second of speech"
            )
        self.decoder.reinit_feat()  # forgets the noise of the utterance before: scores must not depend on the order
        self.decoder.start_utt()
        self.decoder.process_raw(np.ascontiguousarray(samples, "<i2").tobytes(), full_utt=True)
        self.decoder.end_utt()
        data = b""
        for file in self.log.iterdir():
            data = file.read_bytes()
            file.unlink()
        width = self.n_senones + 1  # a frame is the number of its scores and the scores
        begin = data.find(b"endhdr\n") + 11
        body = np.frombuffer(data, "<i2", max(0, len(data) - begin) // 2, min(begin, len(data)))
        frames = body[: len(body) // width * width].reshape(-1, width)
        if len(frames) < self.decoder.n_frames() - 1:  # it writes without looking
            raise MdiError(
                f"utterance {utterance}: {len(frames):,} of {self.decoder.n_frames() - 1:,} frames have scores in "
                f"{self.log}; is the disk full? TMPDIR names another place"
            )
        if not len(frames) or not (frames[:, 0] == self.n_senones).all():
            raise MdiError(
                f"utterance {utterance}: the senone log is not what pocketsphinx 5 writes; install pocketsphinx>=5.0"
            )
        return frames[:, 1:].astype(np.float32) * np.float32(-_SCORE_UNIT)
