"""The samples of a data folder's utterances: 16 kHz, one channel, 16 bits.

Recordings come from anybody. libsndfile tells a format by a file's content and decodes it, nothing more; kaldiio reads
WAV at an offset of an archive, and is given nothing that does not begin as WAV does: its `load_mat` would unpickle.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from mdi.errors import MdiError
from mdi.speech.data import DataFolder
from mdi.speech.rxfilename import Source, open_source

SAMPLE_RATE = 16_000
# A segment may end so many seconds after its recording, as in Kaldi's extract-segments.
OVERSHOOT = 0.5
# Seconds: a header may promise any length, and a few bytes may unpack to hours of silence.
LONGEST = 4 * 3600
_BLOCK = 1 << 20  # samples


def read_sound(source: Source, allow_pipes: bool = False) -> np.ndarray:
    """The samples of a recording."""
    try:
        with open_source(source, allow_pipes) as stream:
            return _read_archived(stream) if source.offset is not None else _read_file(stream)
    except MdiError:
        raise
    except Exception as error:  # what is no sound shows in a dozen ways
        what = " ".join(str(getattr(error, "error_string", error)).split()) or "no data"
        raise MdiError(f"{source.path or source.command}: no sound that can be read: {what}") from error


def _check_kind(rate: int, channels: int) -> None:
    if (rate, channels) != (SAMPLE_RATE, 1):
        raise MdiError(
            f"{rate} Hz, {channels} channels; expected 16000 Hz, one channel (run: sox IN -r 16000 -c 1 OUT)"
        )


def _read_file(stream: BinaryIO) -> np.ndarray:
    """Any format that libsndfile knows. Samples of other sizes are scaled to 16 bits; those in floating point, which
    libsndfile would not scale, are between -1 and 1."""
    import soundfile

    with soundfile.SoundFile(stream) as sound:
        floating = sound.subtype in ("FLOAT", "DOUBLE")
        _check_kind(sound.samplerate, sound.channels)
        blocks: list[np.ndarray] = [np.zeros(0, np.int16)]
        most, total = LONGEST * SAMPLE_RATE, 0
        while len(block := sound.read(_BLOCK, dtype="float32" if floating else "int16")):
            if floating:
                block = np.minimum(np.rint(np.clip(np.nan_to_num(block), -1, 1) * 32768), 32767).astype(np.int16)
            blocks.append(block)
            total += len(block)
            if total > most:
                raise MdiError(f"is longer than {LONGEST // 3600} hours; cut it into several recordings")
        return np.concatenate(blocks)


def _read_archived(stream: BinaryIO) -> np.ndarray:
    from kaldiio.wavio import read_wav

    begin = stream.tell()
    head = stream.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise MdiError(f"no WAV at byte {begin} of the archive; expected 'RIFF' there")
    stream.seek(begin)
    rate, samples = read_wav(stream)
    _check_kind(rate, 1 if samples.ndim == 1 else samples.shape[1])
    return samples if samples.dtype == np.int16 else (samples.astype(np.int16) - 128) * 256  # 8 bits, unsigned


class Sound:
    """A recording is read once for the utterances that follow each other in it. Commands in wav.scp are run, in a
    shell, only if `allow_pipes` says so."""

    def __init__(self, folder: DataFolder, allow_pipes: bool = False) -> None:
        self.folder, self.allow_pipes = folder, allow_pipes
        if not allow_pipes:
            folder.check_no_pipes()
        self.recordings, self.segments = folder.recordings(), folder.segments()
        self.last: tuple[str, np.ndarray] = ("", np.zeros(0, np.int16))

    def samples(self, utterance: str) -> np.ndarray:
        where = self.folder.path / "wav.scp"
        if utterance not in self.segments:
            raise MdiError(f"{where}: no utterance {utterance}; expected every utterance of text or utt2spk")
        segment = self.segments[utterance]
        if self.last[0] != segment.recording:
            self.last = segment.recording, self._read(segment.recording, utterance)
        seconds = len(self.last[1]) / SAMPLE_RATE
        if segment.begin >= seconds or segment.end > seconds + OVERSHOOT:
            raise MdiError(
                f"{self.folder.path / 'segments'}: utterance {utterance} is from {segment.begin:g} to {segment.end:g} "
                f"s of recording {segment.recording}, which has {seconds:.2f} s; mend the line, or give the whole "
                f"recording"
            )
        begin = int(segment.begin * SAMPLE_RATE)
        return self.last[1][begin : None if segment.end == -1 else int(segment.end * SAMPLE_RATE)]

    def _read(self, recording: str, utterance: str) -> np.ndarray:
        try:
            return read_sound(self.recordings[recording], self.allow_pipes)
        except MdiError as error:
            raise MdiError(f"{self.folder.path / 'wav.scp'}: utterance {utterance} cannot be read: {error}") from error
