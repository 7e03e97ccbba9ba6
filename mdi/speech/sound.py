"""The samples of a data folder's utterances: 16 kHz, one channel, 16 bits.

Segments are cut out of their recordings as Kaldi's extract-segments does it.
"""

from collections.abc import Generator

import numpy as np

from mdi.errors import MdiError
from mdi.speech.audio_file import SAMPLE_RATE, audio_blocks, promised_seconds, read_audio
from mdi.speech.data import DataFolder

# A segment may end less than so many seconds after its recording: it is cut. As in Kaldi's extract-segments.
MAX_OVERSHOOT = 0.5


class NoSoundError(MdiError):
    """Of an utterance whose segment lies outside of its recording, or is empty."""


class Sound:
    """A recording is read once for the utterances that follow each other in it. Commands in wav.scp are run, in a
    shell, only if `allow_pipes` says so. `channel`, counted from 1, is that of recordings of which no table says it."""

    def __init__(
        self,
        folder: DataFolder,
        allow_pipes: bool = False,
        channel: int | None = None,
        max_overshoot: float = MAX_OVERSHOOT,
    ) -> None:
        self.folder, self.allow_pipes, self.max_overshoot = folder, allow_pipes, max_overshoot
        if not allow_pipes:
            folder.check_no_pipes()
        self.recordings, self.segments, self.channels = folder.recordings(), folder.segments(), folder.channels()
        self.default_channel = None if channel is None else channel - 1
        self.last: tuple[tuple[str, int | None] | None, np.ndarray] = (None, np.zeros(0, np.int16))

    def identity(self, utterance: str) -> list[str | float | None]:
        """What an utterance is, and its recording was when this was asked for: another one has another sound."""
        if utterance not in self.segments:
            raise MdiError(
                f"{self.folder.path / 'wav.scp'}: no utterance {utterance}; expected every utterance of text or utt2spk"
            )
        segment = self.segments[utterance]
        source = self.recordings[segment.recording]
        return [*source.version(), segment.begin, segment.end, self._channel(utterance)]

    def overshoot(self, utterance: str, seconds: float) -> float:
        """How far a segment goes beyond its recording, which has so many seconds from the segment's beginning on."""
        segment = self.segments[utterance]
        return 0.0 if segment.end == -1 else max(0.0, round(segment.end - segment.begin - seconds, 3))

    def seconds(self, utterance: str) -> float:
        """About, 0 where nobody knows before all of it is read."""
        segment = self.segments[utterance]
        if segment.end != -1:
            return segment.end - segment.begin
        return max(0.0, promised_seconds(self.recordings[segment.recording]) - segment.begin)

    def samples(self, utterance: str) -> np.ndarray:
        """All at once."""
        return np.concatenate([np.zeros(0, np.int16), *self.blocks(utterance)])

    def blocks(self, utterance: str) -> Generator[np.ndarray, None, None]:
        """Some seconds at a time where the utterance is a whole recording, which may be long."""
        self.identity(utterance)
        segment = self.segments[utterance]
        try:
            if (segment.begin, segment.end) == (0.0, -1.0):
                source = self.recordings[segment.recording]
                yield from audio_blocks(source, self.allow_pipes, self._channel(utterance))
            else:
                yield self._cut(utterance)
        except NoSoundError:
            raise
        except MdiError as error:
            raise MdiError(f"{self.folder.path / 'wav.scp'}: utterance {utterance} cannot be read: {error}") from error

    def _cut(self, utterance: str) -> np.ndarray:
        segment, channel = self.segments[utterance], self._channel(utterance)
        if segment.begin < 0 or (segment.end != -1 and segment.end <= segment.begin):
            raise NoSoundError("an empty segment")
        if self.last[0] != (segment.recording, channel):
            found = read_audio(self.recordings[segment.recording], self.allow_pipes, channel)
            self.last = (segment.recording, channel), found
        recording = self.last[1]
        begin = int(segment.begin * SAMPLE_RATE)
        end = len(recording) if segment.end == -1 else int(segment.end * SAMPLE_RATE)
        if begin >= len(recording):
            raise NoSoundError("a segment after the end of its recording")
        if end > len(recording) and end >= len(recording) + int(self.max_overshoot * SAMPLE_RATE):
            raise NoSoundError(f"a segment that ends {self.max_overshoot:g} s or more after its recording")
        return recording[begin:end]

    def _channel(self, utterance: str) -> int | None:
        segment = self.segments[utterance]
        if segment.channel is not None:
            return segment.channel
        return self.channels.get(segment.recording, self.default_channel)
