"""A Kaldi data folder through libvosk, which is Kaldi's decoder: what it says of every utterance, and Kaldi's files.

results.1.jsonl   libvosk's own answers, one utterance per line, as they come: a stopped decoding goes on after them
text, ctm         the words, and when they were said with what confidence (seconds from the utterance's beginning)
nbest, lat.N.gz   the best sequences with their scores, and the same as lattices, for `mdi rescore` and `mdi score`
"""

import itertools
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mdi.errors import MdiError
from mdi.process import call_apart, in_copies
from mdi.progress import Progress
from mdi.speech.audio_file import SAMPLE_RATE
from mdi.speech.data import DataFolder
from mdi.speech.sound import NoSoundError, Sound
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.results import read_results

# Seconds. An utterance that is longer is cut at pauses: libvosk keeps all of what it has heard since the last one.
LONG = 60
_STEP = SAMPLE_RATE // 5  # samples between two looks for a pause
_WARM_UP = 0.25  # seconds


class _Recogniser:
    """libvosk's, before it has heard anything of the data.

    One that goes on from utterance to utterance numbers the states of its graph in the order in which it comes to them,
    and prunes by these numbers; a new one takes longer to build the part of the graph in which every utterance begins
    than most utterances take. So there is one that has heard a little silence, and a copy of it for each utterance
    (`in_copies`)."""

    def __init__(self, model: Any, shown: str, n_best: int) -> None:
        from vosk import KaldiRecognizer

        try:
            self.libvosk = KaldiRecognizer(model, SAMPLE_RATE)
        except Exception as error:  # its own class of exceptions is Exception
            raise MdiError(f"{shown}: libvosk cannot decode with this model: {error}; see above") from error
        self.libvosk.SetWords(True)
        if n_best:
            self.libvosk.SetMaxAlternatives(n_best)
        self.libvosk.AcceptWaveform(bytes(2 * int(_WARM_UP * SAMPLE_RATE)))
        self.libvosk.FinalResult()

    def whole(self, samples: np.ndarray) -> dict[str, Any]:
        """All sound at once: libvosk would otherwise look for an end of the utterance in it, and cut there."""
        if not len(samples):
            return {}
        self._hears(samples)
        return _timed(self.libvosk.FinalResult())

    def pieces(self, blocks: Iterable[np.ndarray]) -> Iterator[tuple[float, dict[str, Any]]]:
        """(seconds heard so far, the answer or nothing) at every look for a pause."""
        heard = 0
        for step in _steps(blocks):
            heard += len(step)
            paused = self._hears(step)
            yield heard / SAMPLE_RATE, _timed(self.libvosk.Result()) if paused else {}
        yield heard / SAMPLE_RATE, _timed(self.libvosk.FinalResult())

    def _hears(self, samples: np.ndarray) -> bool:
        return bool(self.libvosk.AcceptWaveform(np.ascontiguousarray(samples, "<i2").tobytes()))


def _steps(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The same samples, _STEP at a time, however they were read."""
    left = np.zeros(0, np.int16)
    for block in blocks:
        left = np.concatenate([left, block])
        whole = len(left) - len(left) % _STEP
        yield from left[:whole].reshape(-1, _STEP)
        left = left[whole:]
    yield left


def _timed(answer: str) -> dict[str, Any]:
    """With times from the end of the silence on."""
    found: dict[str, Any] = json.loads(answer)
    for one in found.get("alternatives", [found]):
        for word in one.get("result", []):
            word |= {name: round(word[name] - _WARM_UP, 6) for name in ("start", "end")}
    return found


def load_model(folder: str, shown: str) -> Any:
    import vosk

    vosk.SetLogLevel(-1)
    try:
        return vosk.Model(folder)
    except Exception as error:  # its own class of exceptions is Exception
        raise MdiError(f"{shown}: libvosk cannot load this model: {error}. Try it with vosk-transcriber") from error


HOW = "n_best nj allow_pipes channel max_overshoot"


def _sound(data: DataFolder, how: dict[str, Any]) -> Sound:
    return Sound(data, how["allow_pipes"], how["channel"], how["max_overshoot"])


def decode_missing(
    folder: VoskFolder, shown: Path, data: DataFolder, utterances: list[str], out: Path, how: dict[str, Any]
) -> tuple[float, dict[str, str]]:
    """Recognises what is missing, or has another sound than it had. `shown`: the folder as people know it; `how`:
    options of mdi vosk decode, those of HOW. libvosk has a process of its own: it trusts its models, and hangs beside
    another OpenFst, which writing models may have loaded. Returns seconds per second of speech, of one job, and the
    utterances that have no sound, with the reason."""
    there, sound = read_results(out), _sound(data, how)
    missing = [
        u
        for u in utterances
        if u not in there
        or there[u].sound != sound.identity(u)
        or not there[u].overshoot < max(sound.max_overshoot, 1e-9)
    ]
    if not missing:
        return 0.0, {}
    where = {"folder": str(folder.path.resolve()), "shown": str(shown), "data": str(data.path), "out": str(out)}
    work = "mdi.speech.vosk.decode:decode"
    return tuple(call_apart(work, f"decoding with {shown}", utterances=missing, how=how, **where))


def decode(
    folder: str, shown: str, data: str, out: str, utterances: list[str], how: dict[str, Any]
) -> tuple[float, dict[str, str]]:
    """Recognises utterances."""
    recogniser = _Recogniser(load_model(folder, shown), shown, how["n_best"])
    sound, silent = _sound(DataFolder(Path(data)), how), {}

    def heard(task: tuple[str, np.ndarray, Iterator[np.ndarray]]) -> Iterator[dict[str, Any]]:
        utterance, first, rest = task
        begun, shown_at, answers, seconds = time.monotonic(), 0.0, [], len(first) / SAMPLE_RATE
        if seconds <= LONG:
            answers = [recogniser.whole(first)]
        else:
            whole = sound.seconds(utterance)
            for seconds, answer in recogniser.pieces(itertools.chain([first], rest)):
                answers += [answer] if answer else []
                if seconds > shown_at + LONG:
                    shown_at = seconds
                    yield {"share": min(1.0, seconds / whole) if whole else 0.0}
        row = {"utterance": utterance, "sound": sound.identity(utterance), "seconds": round(seconds, 4)}
        row |= {"overshoot": sound.overshoot(utterance, seconds), "answers": answers}
        yield {"row": row, "took": time.monotonic() - begun}

    def tasks() -> Iterator[tuple[str, tuple[str, np.ndarray, Iterator[np.ndarray]]]]:
        for utterance in utterances:
            blocks = sound.blocks(utterance)
            try:
                yield f"utterance {utterance}", (utterance, _beginning(blocks), blocks)
            except NoSoundError as error:
                silent[utterance] = str(error)
            finally:
                blocks.close()  # here; the copy goes on

    speech = took = 0.0
    done = 0
    under_way: dict[str, float] = {}  # shares of long ones
    with (
        open(Path(out) / "results.1.jsonl", "ab") as stream,
        Progress("recognising", len(utterances), "utterances") as progress,
    ):
        for name, found in in_copies(heard, tasks(), how["nj"]):
            if "row" in found:
                stream.write(json.dumps(found["row"]).encode() + b"\n")
                stream.flush()
                under_way.pop(name, None)
                speech, took, done = speech + found["row"]["seconds"], took + found["took"], done + 1
            else:
                under_way[name] = found["share"]
            note = f"{took / speech:.2f} times real time" if speech else ""
            progress.update(done + len(silent) + round(sum(under_way.values()), 2), note)
    return took / max(speech, 1e-9), silent


def _beginning(blocks: Iterator[np.ndarray]) -> np.ndarray:
    """A little more than LONG seconds, or all that there is."""
    found = [np.zeros(0, np.int16)]
    while sum(map(len, found)) <= LONG * SAMPLE_RATE and (block := next(blocks, None)) is not None:
        found.append(block)
    return np.concatenate(found)
