"""A Kaldi data folder through libvosk, which is Kaldi's decoder: what it says of every utterance, and Kaldi's files.

results.N.jsonl   libvosk's own answers, one utterance per line, as they come: a stopped decoding goes on after them
text, ctm         the words, and when they were said with what confidence (seconds from the utterance's beginning)
nbest, lat.N.gz   the best sequences with their scores, and the same as lattices, for `mdi rescore` and `mdi score`
"""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from mdi.errors import MdiError
from mdi.process import call_apart
from mdi.progress import Progress
from mdi.speech.data import DataFolder
from mdi.speech.sound import SAMPLE_RATE, Sound
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.results import read_results


def recognise(model: Any, shown: str, n_best: int, samples: np.ndarray) -> dict[str, Any]:
    """libvosk's answer. Each utterance has a recogniser of its own: one that goes on counts its frames from its first
    utterance, and numbers the states of its graph, by which it prunes, in the order in which it came to them. All sound
    at once: libvosk would otherwise look for an end of the utterance in it, and cut there."""
    from vosk import KaldiRecognizer

    try:
        recognizer = KaldiRecognizer(model, SAMPLE_RATE)
    except Exception as error:  # its own class of exceptions is Exception
        raise MdiError(f"{shown}: libvosk cannot decode with this model: {error}; see above") from error
    recognizer.SetWords(True)
    if n_best:
        recognizer.SetMaxAlternatives(n_best)
    recognizer.AcceptWaveform(np.ascontiguousarray(samples, "<i2").tobytes())
    return json.loads(recognizer.FinalResult())


def load_model(folder: str, shown: str) -> Any:
    import vosk

    vosk.SetLogLevel(-1)
    try:
        return vosk.Model(folder)
    except Exception as error:  # its own class of exceptions is Exception
        raise MdiError(f"{shown}: libvosk cannot load this model: {error}. Try it with vosk-transcriber") from error


def decode_missing(
    folder: VoskFolder, shown: Path, data: DataFolder, utterances: list[str], out: Path, n_best: int, nj: int,
    allow_pipes: bool,
) -> float:  # fmt: skip
    """Recognises what is missing; seconds per second of speech, of one thread. `shown`: the folder as people know it.
    libvosk has a process of its own: it trusts its models, and hangs beside another OpenFst, which writing models may
    have loaded."""
    there = read_results(out)
    missing = [u for u in utterances if u not in there]
    if not missing:
        return 0.0
    return call_apart(
        "mdi.speech.vosk.decode:decode", f"decoding with {shown}",
        folder=str(folder.path.resolve()), shown=str(shown), data=str(data.path), utterances=missing, out=str(out),
        n_best=n_best, nj=nj, allow_pipes=allow_pipes,
    )  # fmt: skip


def decode(
    folder: str, shown: str, data: str, utterances: list[str], out: str, n_best: int, nj: int, allow_pipes: bool
) -> float:
    """Recognises utterances in `nj` threads (libvosk computes outside of Python)."""
    model, recordings = load_model(folder, shown), DataFolder(Path(data))
    lock, done, stop = threading.Lock(), [0, 0.0, 0.0], threading.Event()

    def work(number: int, progress: Progress) -> None:
        sound = Sound(recordings, allow_pipes)
        with open(Path(out) / f"results.{number}.jsonl", "ab") as stream:
            for utterance in utterances[number - 1 :: nj]:
                if stop.is_set():
                    return
                samples = sound.samples(utterance)
                begun = time.monotonic()
                answer = recognise(model, shown, n_best, samples)
                row = {"utterance": utterance, "seconds": round(len(samples) / SAMPLE_RATE, 4), "answer": answer}
                stream.write(json.dumps(row).encode() + b"\n")
                stream.flush()
                with lock:
                    done[0] += 1
                    done[1] += len(samples) / SAMPLE_RATE
                    done[2] += time.monotonic() - begun
                    progress.update(int(done[0]), f"{done[2] / done[1]:.2f} times real time")

    with Progress("recognising", len(utterances), "utterances") as progress, ThreadPoolExecutor(nj) as pool:
        try:
            for job in [pool.submit(work, number, progress) for number in range(1, nj + 1)]:
                job.result()
        finally:
            stop.set()
    return done[2] / max(done[1], 1e-9)
