"""Synthetic speech for the demo's test sets: SVOX Pico's voices at several pitches and rates, with some noise."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np

from mdi.files import writing
from mdi.progress import Progress

RATE = 16_000
# Pitch and rate in percent: each pair is a "speaker".
SPEAKERS = ((100, 100), (85, 95), (115, 105), (75, 100), (125, 95), (92, 110), (108, 90), (80, 108))


def speak(engine, words: list[str], speaker: tuple[int, int], noise_db: float, seed: int) -> bytes:
    """A WAV file: 16 kHz, one channel, 16 bits, white noise so many decibels below the speech."""
    engine.pitch, engine.rate = speaker
    samples = np.frombuffer(engine.speak(" ".join(words)), np.int16).astype(np.float64)
    # silence around it, as in a recording: the acoustic model expects some
    quiet = np.zeros(RATE // 5)
    samples = np.concatenate([quiet, samples, quiet])
    loudness = np.sqrt(np.mean(samples**2)) * 10.0 ** (-noise_db / 20.0)
    samples += np.random.default_rng(seed).normal(0.0, loudness, len(samples))
    stream = io.BytesIO()
    with wave.open(stream, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(np.clip(np.rint(samples), -32768, 32767).astype(np.int16).tobytes())
    return stream.getvalue()


def make_data_folder(folder: Path, sentences: list[list[str]], voice: str, noise_db: float, seed: int) -> None:
    """text, utt2spk, spk2utt, wav.scp and wav/ of the sentences; the same sentences and seed give the same sound."""
    from ttspico import TtsEngine

    engine = TtsEngine(voice)
    (folder / "wav").mkdir(parents=True, exist_ok=True)
    tables: dict[str, list[str]] = {"text": [], "utt2spk": [], "wav.scp": []}
    utterances_of: dict[str, list[str]] = {}
    progress = Progress(f"speaking {folder.name}", len(sentences), "sentences")
    for i, words in enumerate(sentences):
        speaker = f"synthetic{i % len(SPEAKERS)}"
        utterance = f"{speaker}-{folder.parent.parent.name}-{folder.name}-{i:04d}"
        path = folder / "wav" / f"{utterance}.wav"
        with writing(str(path)) as stream:
            stream.write(speak(engine, words, SPEAKERS[i % len(SPEAKERS)], noise_db, seed + i))
        tables["text"].append(f"{utterance} {' '.join(words)}")
        tables["utt2spk"].append(f"{utterance} {speaker}")
        tables["wav.scp"].append(f"{utterance} {path.resolve()}")
        utterances_of.setdefault(speaker, []).append(utterance)
        progress.update(i + 1)
    progress.close()
    tables["spk2utt"] = [f"{speaker} {' '.join(sorted(names))}" for speaker, names in utterances_of.items()]
    tables["README"] = ["SYNTHETIC speech: text to speech (SVOX Pico) with white noise; no person has spoken it."]
    for name, lines in tables.items():
        with writing(str(folder / name)) as stream:
            stream.write("".join(f"{line}\n" for line in (lines if name == "README" else sorted(lines))).encode())
