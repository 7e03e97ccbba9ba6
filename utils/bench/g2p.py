#!/usr/bin/env python3
"""Words said by their letters: how many are wrong, of words of a lexicon that are held out, with all of the same stem
unless --relatives is true.

    utils/bench/g2p.py [--words 2000] [--part test|dev] [--relatives true|false] [--among LEXICON] [--peer PYTHON]
        LEXICON

LEXICON is CMUdict's file or Kaldi's lexicon.txt, whose stress is left out, or a Vosk model's directory, whose graph has
one. With --among, words that another lexicon has too are held out: in a Vosk model's, machines have made many
pronunciations, in CMUdict people have. A word is wrong if it is said in none of the lexicon's ways: in the first guess,
and in the best three. Choices are made on --part dev, which has other stems and is held out as well. With --peer,
phonetisaurus is trained on the same words; PYTHON is that of a virtual environment which has it. Seconds are those of
the processor.
"""

import argparse
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Container
from pathlib import Path

from mdi.arguments import boolean
from mdi.files import read_lines
from mdi.speech.g2p import train_g2p
from mdi.speech.lexicon import Pronunciation
from mdi.speech.vosk.folder import VoskFolder
from mdi.speech.vosk.recogniser_graph import read_graph

Ways = dict[str, list[Pronunciation]]
# Endings that words of one stem differ in; the longest that leaves four letters comes off, again and again.
ENDING = re.compile(
    "(?<=....)(?:s|es|e?d|ie[ds]|ings?|y|ly|e?rs?|ier|i?est|ens?|al|ally|[ai]bl[ey]|ful|ic|ions?|ians?|ism|ists?|ity|ities"
    "|ive|ization|iz(?:e[ds]?|ing)|less|ments?|ness|ous|ously|ship|at(?:e[ds]?|ing|ions?|or)|e)$"
)


def without_endings(word: str) -> str:
    """What is left of a word without its endings; a letter that stands there twice is one."""
    word = word.replace("'", "")
    while ending := ENDING.search(word):
        word = word[: ending.start()]
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word


def read_ways(path: str) -> Ways:
    if Path(path).is_dir():
        lexicon = read_graph(VoskFolder(Path(path))).lexicon()
        return {word: list(said) for word, said in lexicon.items() if word.isalpha()}
    found: Ways = {}
    for line in read_lines(path):
        word, *phones = line.decode("utf-8", "replace").split(" #")[0].split()
        if phones and re.fullmatch(r"[a-z']+", name := re.sub(r"\(\d+\)$", "", word).lower()):
            said = tuple(re.sub(r"\d$", "", phone) for phone in phones)
            found.setdefault(name, [])
            found[name] += [said] if said not in found[name] else []
    return found


def parts(ways: Ways, among: Container[str], size: int, relatives: bool) -> dict[str, Ways]:
    """test, dev: so many of these words each; train: all words of other stems, or all others."""
    stem = str if relatives else without_endings
    words = (word for word in ways if word.isalpha() and len(word) > 1 and word in among)
    drawn = sorted(words, key=lambda word: hashlib.sha256(word.encode()).digest())
    test = drawn[:size]
    held = {stem(word) for word in test}
    dev = [word for word in drawn[size:] if stem(word) not in held][:size]
    held |= {stem(word) for word in dev}
    train = [word for word in ways if stem(word) not in held]
    return {
        name: {word: ways[word] for word in words} for name, words in (("train", train), ("dev", dev), ("test", test))
    }


def score(name: str, wanted: Ways, said: dict[str, list[Pronunciation]], trained: float, applied: float | None) -> None:
    first = sum(not set(said.get(word, [])[:1]) & set(ways) for word, ways in wanted.items())
    three = sum(not set(said.get(word, [])[:3]) & set(ways) for word, ways in wanted.items())
    n = len(wanted)
    speed = f"{n / applied:,.0f}" if applied else ""
    print(f"| {name} | {100 * first / n:.1f} | {100 * three / n:.1f} | {trained:.0f} | {speed} |", flush=True)


def ours(sets: dict[str, Ways], part: str) -> None:
    words = list(sets[part])
    train_g2p({word: sets["train"][word] for word in list(sets["train"])[:500]}).pronounce(words[:20])  # compiled
    start = time.process_time()
    model = train_g2p(sets["train"])
    model.pronounce(words[:1])
    trained, start = time.process_time() - start, time.process_time()
    said = model.pronounce(words, 3)
    applied = time.process_time() - start
    score("mdi g2p", sets[part], {w: [p for p, _ in s] for w, s in zip(words, said, strict=True)}, trained, applied)


def phonetisaurus(sets: dict[str, Ways], part: str, folder: Path, python: str) -> None:
    """Its processes are not all waited for, so how fast it says words is not known."""
    lexicon, model, words = folder / "lexicon.txt", folder / "model.fst", list(sets[part])
    rows = [f"{word} {' '.join(phones)}\n" for word, said in sets["train"].items() for phones in said]
    lexicon.write_text("".join(rows))
    command = [os.path.abspath(python), "-m", "phonetisaurus"]
    before = os.times()
    _run([*command, "train", "--model", str(model), str(lexicon)], folder)
    trained = sum(os.times()[:4]) - sum(before[:4])
    printed = _run([*command, "predict", "--model", str(model), "--nbest", "3"], folder, "\n".join(words))
    said: dict[str, list[Pronunciation]] = {}
    for line in printed.splitlines():
        word, *phones = line.split()
        said.setdefault(word, []).append(tuple(phones))
    score("phonetisaurus", sets[part], said, trained, None)


def _run(command: list[str], folder: Path, text: str = "") -> str:
    done = subprocess.run(command, input=text, text=True, capture_output=True, cwd=folder, check=False)
    if done.returncode:
        raise SystemExit(f"utils/bench/g2p.py: {' '.join(command[:4])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lexicon", metavar="LEXICON")
    parser.add_argument("--words", type=int, default=2000, metavar="N", help="held out in each part (2000)")
    parser.add_argument("--part", choices=("test", "dev"), default="test", help="what is said (test)")
    parser.add_argument("--among", metavar="LEXICON", help="hold out words that this one has, too (any)")
    parser.add_argument("--peer", metavar="PYTHON", help="one that has phonetisaurus")
    parser.add_argument("--relatives", type=boolean, default=False, metavar="true|false", help="stay (false)")
    args = parser.parse_args()
    ways = read_ways(args.lexicon)
    sets = parts(ways, read_ways(args.among) if args.among else ways, args.words, args.relatives)
    print(", ".join(f"{name}: {len(words):,} words" for name, words in sets.items()))
    print("| | wrong in the first guess, % | in the best three | training, s | words a second |\n|---|---|---|---|---|")
    ours(sets, args.part)
    if args.peer:
        with tempfile.TemporaryDirectory(prefix="bench_g2p.") as folder:
            phonetisaurus(sets, args.part, Path(folder), args.peer)


if __name__ == "__main__":
    main()
