#!/usr/bin/env python3
"""A corpus given as files, or as the folders of a Kaldi recipe, in the form that the recipe works on.

`utils/validate_data.sh --help` says what that form is. Models and lattices are linked, texts are written anew.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mdi.errors import MdiError, examples, exit_code
from mdi.files import read_lines, writing
from mdi.lm.vocabulary import BOS, EOS, read_words, to_bytes, to_str
from mdi.progress import say

sys.path.insert(0, str(Path(__file__).parent.parent / "utils"))
NOT_WORDS = {BOS, EOS, "<eps>", "#0"}


def sentences(path: str, named: bool = False) -> Iterator[list[str]]:
    """The words of each line that has any; `named` lines begin with an utterance, as in Kaldi's text."""
    for line in read_lines(path):
        words = to_str(line).split()[named:]
        if words := [word for word in words if word not in (BOS, EOS)]:
            yield words


def write_text(path: Path, lines: Iterator[list[str]]) -> Counter:
    """Writes sentences; how often each word occurs."""
    found: Counter = Counter()
    with writing(str(path)) as stream:
        for words in lines:
            found.update(words)
            stream.write(to_bytes(" ".join(words) + "\n"))
    return found


def write_lines(path: Path, lines: list[str]) -> None:
    with writing(str(path)) as stream:
        stream.write(to_bytes("".join(f"{line}\n" for line in lines)))


def words_of_model(path: str) -> list[str]:
    """The unigrams of an ARPA file, which is read no further."""
    words, inside = [], False
    for line in read_lines(path):
        text = to_str(line).strip()
        if inside and text.startswith("\\"):
            break
        if inside and text:
            words.append(text.split()[1] if len(text.split()) > 1 else text)
        inside |= text == "\\1-grams:"
    if not words:
        raise MdiError(f"{path}: no \\1-grams: section with words; expected an ARPA model, plain or gzipped")
    return words


def link(source: str | Path, target: Path) -> None:
    """A link that stays right wherever one stands; replaces an older one at once."""
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.abspath(source))
    os.replace(temporary, target)


def pairs(items: list[str]) -> dict[str, str]:
    return dict(item.split("=", 1) for item in items)


def prepare_background(args: argparse.Namespace, folder: Path) -> Counter | None:
    """Links or writes the background; the counts of its words if it is text."""
    if args.background_lm:
        (folder / "background.txt.gz").unlink(missing_ok=True)
        link(args.background_lm, folder / "background.arpa.gz")
        return None
    (folder / "background.arpa.gz").unlink(missing_ok=True)
    if args.case:
        from normalize_text import normalize_files

        text = Path(args.background_text)
        files = [str(path) for path in sorted(text.glob("*"))] if text.is_dir() else [str(text)]
        total = normalize_files(files, str(folder / "background.txt.gz"), args.case, nj=args.nj)
        say(f"background: {total:,} words, {args.case} case")
        return Counter() if args.vocab or args.words else count_words(folder / "background.txt.gz")
    return write_text(folder / "background.txt.gz", sentences(args.background_text))


def count_words(path: Path) -> Counter:
    found: Counter = Counter()
    for words in sentences(str(path)):
        found.update(words)
    return found


def choose_vocabulary(args: argparse.Namespace, in_domain: Counter, background: Counter | None) -> list[str]:
    if args.vocab or args.words:
        words = read_words(args.vocab or args.words)
        how = f"of {args.vocab or args.words}"
    elif background is None:
        words, how = words_of_model(args.background_lm), f"of {args.background_lm}"
    else:
        strange = [word for word in in_domain if word not in background]
        if sum(in_domain[word] for word in strange) > 0.5 * sum(in_domain.values()):
            raise MdiError(
                f"most of the in-domain words do not occur in the background text, such as {examples(strange)}; "
                f"expected the same letter case and normalisation in both"
            )
        more = [word for word, _ in background.most_common(args.vocab_size)]
        words, how = [*in_domain, *more], f"of the in-domain text and the {len(more):,} commonest of the background"
    words = sorted(set(words) - NOT_WORDS)
    total = sum(in_domain.values())
    unknown = [word for word in in_domain if word not in set(words)]
    say(
        f"vocabulary: {len(words):,} words, {how}; outside it {sum(in_domain[w] for w in unknown):,} of {total:,} "
        f"in-domain words"
    )
    if sum(in_domain[word] for word in unknown) > 0.5 * total:
        raise MdiError(
            f"most of the in-domain words are not in the vocabulary {how}, such as {examples(unknown)}; expected "
            f"the same letter "
            f"case and normalisation in texts, models and word lists"
        )
    return words


def prepare_speech(name: str, source: Path, lattices: str | None, folder: Path) -> None:
    """A data folder in sorted order, with absolute paths where it names files; lattices by links."""
    target = folder / "speech" / name
    target.mkdir(parents=True, exist_ok=True)
    if not (source / "text").exists():
        raise MdiError(f"{source}/text: missing; expected a Kaldi data folder")
    link(source / "text", target / "text")
    for file in ("utt2spk", "spk2utt", "segments", "feats.scp", "cmvn.scp", "stm", "glm", "reco2file_and_channel"):
        if (source / file).exists():
            link(source / file, target / file)
        else:
            (target / file).unlink(missing_ok=True)
    if (source / "wav.scp").exists():
        rows = []
        for line in read_lines(str(source / "wav.scp")):
            utterance, _, where = to_str(line).strip().partition(" ")
            plain = where.strip()
            rows.append(f"{utterance} {plain if plain.endswith('|') else os.path.abspath(plain)}")
        write_lines(target / "wav.scp", rows)
    if lattices:
        (folder / "lattices" / name).mkdir(parents=True, exist_ok=True)
        jobs = Path(lattices) / "num_jobs"
        number = int(jobs.read_text()) if jobs.exists() else len(list(Path(lattices).glob("lat.*.gz")))
        for n in range(1, number + 1):
            archive = Path(lattices) / f"lat.{n}.gz"
            if not archive.exists():
                raise MdiError(f"{archive}: missing, but {jobs} says {number} archives; decode again")
            link(archive, folder / "lattices" / name / archive.name)
        if not number:
            raise MdiError(f"{lattices}: no lat.N.gz; expected a decoding folder of Kaldi's")
        write_lines(folder / "lattices" / name / "num_jobs", [str(number)])


def prepare_lexicon(path: str | None, vocabulary: list[str], folder: Path) -> None:
    """Pronunciations of the vocabulary for the built-in acoustic model, and words.txt of the words that have one."""
    from mdi.fst.symbols import make_symbols
    from mdi.speech.acoustic import read_acoustic_model
    from mdi.speech.lexicon import dictionary, read_lexicon

    acoustic = read_acoustic_model()
    lexicon = read_lexicon(path, acoustic) if path else dictionary(acoustic)
    known = set(vocabulary)
    entries = [(word, phones) for word, phones in lexicon.entries if word in known]
    spoken = {word for word, _ in entries}
    mute = [word for word in vocabulary if word not in spoken and not word.startswith("<")]
    if not entries:
        raise MdiError(f"{lexicon.path}: no pronunciation of any word, such as {examples(mute)}; is the case the same?")
    if mute:
        say(f"{len(mute):,} words have no pronunciation in {lexicon.path} and cannot be recognised: {examples(mute)}")
    write_lines(folder / "lexicon.txt", [f"{word} {' '.join(phones)}" for word, phones in entries])
    write_lines(folder / "words.txt", [f"{word} {i}" for word, i in make_symbols(sorted(spoken)).ids.items()])


def prepare(args: argparse.Namespace) -> None:
    folder = Path(args.out)
    if bool(args.background_text) == bool(args.background_lm):
        raise MdiError("--background-text and --background-lm; expected one of them")
    if bool(args.in_text) == bool(args.in_data):
        raise MdiError("--in-text and --in-data; expected one of them")
    texts, speech, lattices = pairs(args.text), pairs(args.speech), pairs(args.lattices)
    sets = list(dict.fromkeys([*texts, *speech]))
    if lattices and not (args.words and args.default_lm):
        raise MdiError(
            "lattices need --words, their symbol table, and --default-lm, the model that they were made with"
        )
    folder.mkdir(parents=True, exist_ok=True)
    in_text = args.in_text or f"{args.in_data}/text"
    in_domain = write_text(folder / "train.txt.gz", sentences(in_text, named=bool(args.in_data)))
    if not in_domain:
        raise MdiError(f"{in_text}: no words in it; expected one sentence a line")
    say(f"in-domain: {sum(in_domain.values()):,} words, {len(in_domain):,} different ones")
    for name in sets:
        named = name not in texts
        write_text(folder / f"{name}.txt.gz", sentences(texts.get(name) or f"{speech[name]}/text", named))
    vocabulary = choose_vocabulary(args, in_domain, prepare_background(args, folder))
    write_lines(folder / "vocab.txt", vocabulary)
    write_lines(folder / "sets", [" ".join(sets)])
    # a set of a recipe that is not decoded has its text, but no WER
    scored = {name: path for name, path in speech.items() if name in lattices or not args.in_data}
    for name, source in scored.items():
        prepare_speech(name, Path(source), lattices.get(name), folder)
    if args.words:
        link(args.words, folder / "words.txt")
    if args.default_lm:
        link(args.default_lm, folder / "default.arpa.gz")
    if any(name not in lattices for name in scored):
        prepare_lexicon(args.lexicon, vocabulary, folder)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", metavar="DIR")
    add("--in-text", metavar="TEXT", help="in-domain text, one sentence a line")
    add("--in-data", metavar="DIR", help="in-domain text of a Kaldi data folder, instead")
    add("--background-text", metavar="TEXT", help="with --case also a folder of texts")
    add("--background-lm", metavar="ARPA")
    add(
        "--case",
        choices=("upper", "lower"),
        help="normalise the background text: numbers in words, no punctuation, this case",
    )
    add("--text", metavar="SET=TEXT", action="append", default=[], help="a test set; the development set first")
    add("--speech", metavar="SET=DIR", action="append", default=[], help="Kaldi data folder of a test set")
    add("--lattices", metavar="SET=DIR", action="append", default=[], help="lat.N.gz of that data folder")
    add("--vocab", metavar="WORDS", help="one word a line, or words.txt")
    add(
        "--vocab-size",
        type=int,
        default=100_000,
        metavar="N",
        help="most words to take from the background text (100000)",
    )
    add("--words", metavar="words.txt", help="symbol table of the lattices")
    add("--lexicon", metavar="FILE", help="pronunciations for the built-in acoustic model (CMU's dictionary)")
    add("--default-lm", metavar="ARPA", help="first-pass model")
    add("--nj", type=int, default=1, metavar="N")
    args = parser.parse_args(argv)
    return exit_code("local/prepare_data.sh", lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
