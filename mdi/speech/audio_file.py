"""A recording as people have it, whatever its format, rate and channels: 16 kHz, one channel, 16 bits, block by block.

Recordings come from anybody. libsndfile tells a format by a file's content and decodes it, nothing more. In an
archive nothing is opened that does not begin as WAV does.
"""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from mdi.errors import MdiError
from mdi.speech.resample import resampled
from mdi.speech.rxfilename import Source, open_source

if TYPE_CHECKING:
    import soundfile

SAMPLE_RATE = 16_000
# Seconds: a header may promise any length, and a few bytes may unpack to hours of silence.
LONGEST = 4 * 3600
RATES = 4_000, 192_000
MOST_CHANNELS = 64
_BLOCK = 1 << 16  # samples of each channel
_LOUDEST = 32768


def read_audio(source: Source, allow_pipes: bool = False, channel: int | None = None) -> np.ndarray:
    """All samples of a recording."""
    return np.concatenate([np.zeros(0, np.int16), *audio_blocks(source, allow_pipes, channel)])


def audio_blocks(source: Source, allow_pipes: bool = False, channel: int | None = None) -> Iterator[np.ndarray]:
    """The samples of a recording, or of one `channel` of it, counted from 0, some seconds at a time."""
    import soundfile

    try:
        opened = open_source(source, allow_pipes)
    except (OSError, ValueError, OverflowError) as error:  # no such file, no such byte of it
        raise MdiError(f"{source.path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from error
    with opened as stream:
        try:
            sound = soundfile.SoundFile(_Within(stream, source.offset is not None))
        except MdiError:
            raise
        except Exception as error:  # what is no sound shows in a dozen ways
            raise _unreadable(source, stream, error) from error
        with sound:
            rate, taken = sound.samplerate, _channel(sound.channels, channel)
            if not RATES[0] <= rate <= RATES[1]:
                raise MdiError(f"{rate} Hz; expected {RATES[0]} to {RATES[1]} Hz. {_conversion(source)}")
            blocks = _blocks(source, stream, sound, taken)
            for block in blocks if rate == SAMPLE_RATE else resampled(blocks, rate, SAMPLE_RATE):
                yield np.clip(np.rint(block * _LOUDEST), -_LOUDEST, _LOUDEST - 1).astype(np.int16)


def _blocks(source: Source, stream: BinaryIO, sound: "soundfile.SoundFile", channel: int) -> Iterator[np.ndarray]:
    """As they are in the file; between -1 and 1."""
    total = 0
    while True:
        try:
            block = sound.read(_BLOCK, dtype="float32", always_2d=True)[:, channel]
        except Exception as error:
            raise _unreadable(source, stream, error) from error
        if not len(block):
            return
        total += len(block)
        if total > LONGEST * sound.samplerate:
            raise MdiError(f"is longer than {LONGEST / 3600:g} hours; cut it into several recordings")
        yield np.clip(np.nan_to_num(block, posinf=1, neginf=-1), -1, 1)


def promised_seconds(source: Source) -> float:
    """What the header of a file says of its length, 0 where it says nothing."""
    import soundfile

    try:
        with open_source(source, False) as stream, soundfile.SoundFile(_Within(stream, False)) as sound:
            return float(min(sound.frames / sound.samplerate, LONGEST))
    except Exception:  # whoever reads it will tell
        return 0.0


def _channel(there: int, wanted: int | None) -> int:
    """A recording of one channel is that channel, whatever tables of the whole telephone call say."""
    if there == 1:
        return 0
    if there > MOST_CHANNELS:
        raise MdiError(f"{there} channels; expected at most {MOST_CHANNELS}")
    if wanted is None:
        raise MdiError(
            f"{there} channels; expected one, or to be told which: --channel N (from 1 on) for all recordings, or a "
            f"line 'RECORDING FILE A' (the first; B the second) in reco2file_and_channel"
        )
    if wanted >= there:
        raise MdiError(f"{there} channels; expected a channel {wanted + 1}, which is asked for")
    return wanted


def _unreadable(source: Source, stream: BinaryIO, error: Exception) -> MdiError:
    what = " ".join(str(getattr(error, "error_string", error)).split()) or "no data"
    stream.seek(source.offset or 0)
    head = stream.read(1024)
    shortened = head.startswith(b"NIST_1A") and b"shorten" in head
    how = _conversion(source, "sph2pipe -f wav" if shortened else "ffmpeg -i")
    return MdiError(f"{source.path or source.command}: no sound that can be read: {what}{'. ' if how else ''}{how}")


def _conversion(source: Source, program: str = "ffmpeg -i") -> str:
    """The command that makes something readable of a file; none of what is in an archive or a command's."""
    if source.command is not None or source.offset is not None:
        return ""
    name = source.path.rpartition("/")[2]
    new = f"{name.rpartition('.')[0] or name}.converted.wav"
    options = f" -ar {SAMPLE_RATE}" if program.startswith("ffmpeg") else ""
    return f"If it is sound, convert it: {program} {shlex.quote(source.path)}{options} {shlex.quote(new)}"


class _Within:
    """A file, or the WAV that begins here in an archive, for libsndfile: a damaged one makes it look for bytes that no
    file can have, which is not to be shouted about."""

    def __init__(self, stream: BinaryIO, archived: bool) -> None:
        self.stream, self.begin = stream, stream.tell()
        head = stream.read(12)
        if archived and (head[:4] != b"RIFF" or head[8:] != b"WAVE"):
            raise MdiError(f"no WAV at byte {self.begin} of the archive; expected 'RIFF' there")
        self.end = stream.seek(0, 2)
        if archived:
            self.end = min(self.begin + 8 + int.from_bytes(head[4:8], "little"), self.end)
        stream.seek(self.begin)

    def tell(self) -> int:
        return self.stream.tell() - self.begin

    def seek(self, offset: int, whence: int = 0) -> int:
        place = (self.begin, self.stream.tell(), self.end)[whence] + offset
        return self.stream.seek(min(max(place, self.begin), self.end)) - self.begin

    def read(self, size: int = -1) -> bytes:
        left = max(0, self.end - self.stream.tell())
        return self.stream.read(left if size < 0 else min(size, left))
