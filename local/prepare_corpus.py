#!/usr/bin/env python3
"""A corpus given as files, or as the folders of a Kaldi recipe, in the form that the recipe works on.

`utils/validate_data.sh --help` says what that form is. Models and lattices are linked, texts are copied.
"""

import argparse
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from isal import igzip

from mdi.arguments import boolean
from mdi.errors import MdiError, examples, exit_code
from mdi.files import GZIP_LEVEL, not_utf8, read_ahead, read_chunks, read_lines, replacing, write_file, writing
from mdi.files import whole_lines as lines_of
from mdi.fst.symbols import read_symbols
from mdi.lm.new_words import may_be_added
from mdi.lm.text import SPECIAL, Sentences, Text
from mdi.lm.vocabulary import BOS, EOS, GrowingVocabulary, read_words, to_bytes
from mdi.progress import Progress, say
from mdi.speech.data import DataFolder, fields, read_text
from mdi.speech.given import write_new_words
from mdi.speech.pronounce import Pronounced
from mdi.spoken import Speller, Spoken, spoken_text
from mdi.threads import in_threads

sys.path.insert(0, str(Path(__file__).parent.parent / "utils"))
NOT_WORDS = {BOS, EOS, "<eps>", "#0"}
CHUNK = 1 << 22
_MARKS = re.compile(rb"(?<![^ \t\n])</?s>(?![^ \t\r\n])")
_NAME = re.compile(rb"^[ \t]*[^ \t\r\n]+[ \t]*", re.MULTILINE)


def whole_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """(number of the first one, lines): a file in blocks of whole lines, in UTF-8, without a byte-order mark."""
    number = 1
    for block in lines_of(path, read_ahead(read_chunks(path, CHUNK)), "text, one sentence per line"):
        check_utf8(path, block, number)
        yield number, block
        number += block.count(b"\n")


def check_utf8(path: str, block: bytes, number: int) -> None:
    if what := not_utf8(path, block, number):
        raise MdiError(f"{what}; or leave out what is broken: iconv -f utf-8 -t utf-8 -c")


def copy_text(source: str, target: Path, named: bool = False) -> None:
    """A text without <s> and </s>; `named` lines begin with an utterance, as in Kaldi's text."""

    def work(lines: tuple[int, bytes]) -> tuple[int, bool, bytes]:
        """(number of the first line, whether there are words, what is written: one gzip member a block)"""
        number, block = lines
        block = _NAME.sub(b"", block) if named else block
        block = _MARKS.sub(b"", block) if b"s>" in block else block
        packed = igzip.compress(block, GZIP_LEVEL, mtime=0) if target.suffix == ".gz" else block
        return number, bool(block.strip()), packed

    some = False
    with replacing(str(target)) as stream, Progress(f"copying {source}", None, "lines") as progress:
        for number, words, packed in in_threads(work, whole_lines(source)):
            stream.write(packed)
            some = some or words
            progress.update(number)
        if not some:
            raise MdiError(f"{source}: no words in it; expected one sentence per line")


def spell_as(path: Path, speller: Speller | None) -> None:
    """A text in the words of the recogniser, in place of what it was; block by block, as it may be larger than memory.
    Lines about what was changed."""
    if speller is None:
        return
    whole = Spoken(str(path), known=speller)
    with writing(str(path)) as stream, Progress("normalising", None, "lines") as progress:
        for number, block in whole_lines(str(path)):
            made = spoken_text(Sentences(block, str(path)), speller)
            whole.before.update(made.before)
            whole.after.update(made.after)
            whole.changed.update(made.changed)
            stream.write(made.text.data if isinstance(made.text, Sentences) else block)
            progress.update(number)
    for line in whole.report():
        say(line)


def put_references(source: Path, target: Path, speller: Speller | None) -> None:
    """What was said, in the words of the recogniser, which hypotheses are in. One that is so already is linked."""
    link(source, target)
    if speller is not None:
        said = {name: " ".join(words) for name, words in read_text(source).items()}
        lines = Sentences(to_bytes("".join(f"{line}\n" for line in said.values())), str(source))
        made = spoken_text(lines, speller)
        for line in made.report():
            say(line)
        if known := made.known:
            spelt = {name: [w for part in known.line(line, split=False) for w in part] for name, line in said.items()}
            target.unlink()
            write_lines(target, [" ".join([name, *words]) for name, words in spelt.items()])


def count_words(path: Path) -> Counter[str]:
    """How often each word of a text occurs, in the order in which they are met."""
    vocab, count = GrowingVocabulary(SPECIAL), np.zeros(0, np.int64)
    for ids in Text(path, vocab):
        found = np.bincount(ids, minlength=max(len(count), len(vocab)))
        found[: len(count)] += count
        count = found
    words = vocab.freeze().words
    return Counter({word: n for word, n in zip(words, count.tolist(), strict=True) if n and word not in (BOS, EOS)})


def write_lines(path: Path, lines: list[str]) -> None:
    write_file(path, "".join(f"{line}\n" for line in lines))


def words_of_model(path: str) -> list[str]:
    """The unigrams of an ARPA file, which is read no further."""
    words, inside = [], False
    for line in read_lines(path):
        found = fields(line)
        if inside and found and found[0].startswith("\\"):
            break
        if inside and found:
            words.append(found[1] if len(found) > 1 else found[0])
        inside |= found == ["\\1-grams:"]
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


def prepare_background(args: argparse.Namespace, folder: Path, speller: Speller | None) -> None:
    """Links or writes the background: the recogniser's own model where no other one is given."""
    text, model = folder / "background.txt.gz", folder / "background.arpa.gz"
    (model if args.background_text else text).unlink(missing_ok=True)
    if not args.background_text:
        link(args.background_lm or folder / "own.arpa.gz", model)
    elif args.case:
        from normalize_text import normalize_files

        given = Path(args.background_text)
        files = [str(path) for path in sorted(given.glob("*"))] if given.is_dir() else [str(given)]
        total = normalize_files(files, str(text), args.case, nj=args.nj)
        say(f"background: {total:,} words, {args.case} case")
    else:
        if Path(args.background_text).is_dir():
            raise MdiError(f"{args.background_text}: is a directory; expected a file, or give --case for a directory")
        copy_text(args.background_text, text)
        spell_as(text, speller)


def choose_vocabulary(
    args: argparse.Namespace, in_domain: Counter[str], folder: Path, recognised: list[str] | None
) -> list[str]:
    """The words of a list, of a recogniser or of a model, or those of the texts: what is in-domain and the most
    frequent others."""
    listed = args.vocab or args.words
    if recognised and not args.vocab:
        words, how = recognised, f"of {(folder / 'vosk-model').resolve()}"
    elif listed:
        words, how = read_words(listed), f"of {listed}"
    elif args.background_lm:
        words, how = words_of_model(args.background_lm), f"of {args.background_lm}"
    else:
        say("counting the words of the background text")
        background = count_words(folder / "background.txt.gz")
        say(f"background: {background.total():,} words, {len(background):,} different ones")
        strange = [word for word in in_domain if word not in background]
        if sum(in_domain[word] for word in strange) > 0.5 * in_domain.total():
            raise MdiError(
                f"most of the in-domain words do not occur in the background text, such as {examples(strange)}; "
                f"expected the same letter case and normalisation in both"
            )
        more = [word for word, _ in background.most_common(args.vocab_size)]
        words = [*in_domain, *more]
        how = f"of the in-domain text and the {len(more):,} most frequent of the background"
    if args.new_words == "add":
        words = [*words, *in_domain]
        how += ", and of the in-domain text"
    chosen = set(words) - NOT_WORDS
    unknown = [word for word in in_domain if word not in chosen]
    lost = sum(in_domain[word] for word in unknown)
    say(f"vocabulary: {len(chosen):,} words, {how}; outside it {lost:,} of {in_domain.total():,} in-domain words")
    if lost > 0.5 * in_domain.total():
        raise MdiError(
            f"most of the in-domain words are not in the vocabulary {how}, such as {examples(unknown)}; expected the "
            f"same letter case and normalisation in texts, models and word lists"
        )
    return sorted(chosen)


def prepare_speech(name: str, source: Path, lattices: str | None, folder: Path, speller: Speller | None = None) -> None:
    """A data folder in sorted order, with absolute paths where it names files; lattices by links."""
    target = folder / "speech" / name
    target.mkdir(parents=True, exist_ok=True)
    if not (source / "text").exists():
        raise MdiError(f"{source}/text: missing; expected a Kaldi data directory")
    put_references(source / "text", target / "text", speller)
    for file in ("utt2spk", "spk2utt", "segments", "feats.scp", "cmvn.scp", "stm", "glm", "reco2file_and_channel"):
        if (source / file).exists():
            link(source / file, target / file)
        else:
            (target / file).unlink(missing_ok=True)
    if (source / "wav.scp").exists():
        recordings = DataFolder(source).recordings().items()
        write_lines(target / "wav.scp", [f"{name} {recording.absolute()}" for name, recording in recordings])
    if lattices:
        (folder / "lattices" / name).mkdir(parents=True, exist_ok=True)
        jobs = Path(lattices) / "num_jobs"
        number = len(list(Path(lattices).glob("lat.*.gz")))
        if jobs.exists():
            said = jobs.read_bytes().strip()
            if not re.fullmatch(rb"[0-9]{1,6}", said):
                raise MdiError(f"{jobs}: {said[:40]!r}; expected a whole number, how many lat.N.gz there are")
            number = int(said)
        for n in range(1, number + 1):
            archive = Path(lattices) / f"lat.{n}.gz"
            if not archive.exists():
                raise MdiError(f"{archive}: missing, but {jobs} says {number} archives; decode again")
            link(archive, folder / "lattices" / name / archive.name)
        if not number:
            raise MdiError(f"{lattices}: no lat.N.gz; expected a decoding directory of Kaldi's")
        write_lines(folder / "lattices" / name / "num_jobs", [str(number)])


def write_words(table: Path, in_domain: Counter[str], folder: Path) -> None:
    """words.txt with the words of the text that it lacks at its end: the numbers of the others, which lattices have,
    stay. Beside it new_words.tsv: that of a lang folder to which they were added, or words that no lattice has."""
    ids = read_symbols(str(table)).ids
    count = {word: n for word, n in in_domain.items() if may_be_added(word)}
    new = [word for word in count if word not in ids]
    numbered = [*ids.items(), *((word, i) for i, word in enumerate(new, max(ids.values()) + 1))]
    write_lines(folder / "words.txt", [f"{word} {i}" for word, i in numbered])
    said = Path(f"{table.parent}.new_words.tsv")
    if said.exists():
        link(said, folder / "new_words.tsv")
    else:
        unsaid = [
            Pronounced(word, (), "in the language models alone: the lattices were made without it", 0.0) for word in new
        ]
        write_new_words(str(folder / "new_words.tsv"), unsaid, count)


def prepare(args: argparse.Namespace) -> None:
    folder = Path(args.out)
    texts, speech, lattices = pairs(args.text), pairs(args.speech), pairs(args.lattices)
    given = bool(args.background_text) + bool(args.background_lm)
    if given > 1 or not (given or args.vosk):
        raise MdiError("--background-text and --background-lm; expected one of them")
    if bool(args.in_text) == bool(args.in_data):
        raise MdiError("--in-text and --in-data; expected one of them")
    sets = list(dict.fromkeys([*texts, *speech]))
    if lattices and not (args.words and args.default_lm):
        raise MdiError(
            "lattices need --words, their symbol table, and --default-lm, the model that they were made with"
        )
    folder.mkdir(parents=True, exist_ok=True)
    speller: Speller | None = None  # of the recogniser; a recipe's texts are as it has prepared them
    if args.vosk:
        import vosk_model

        model = vosk_model.find_model(args.vosk_model, Path(args.downloads))
    if args.in_text and args.normalise == "auto":
        if args.vosk:
            speller = Speller(vosk_model.own_lm(model))
        elif args.words:
            speller = Speller(read_words(args.words))
    in_text = args.in_text or f"{args.in_data}/text"
    copy_text(in_text, folder / "train.txt.gz", named=bool(args.in_data))
    spell_as(folder / "train.txt.gz", speller)
    in_domain = count_words(folder / "train.txt.gz")
    say(f"in-domain: {in_domain.total():,} words, {len(in_domain):,} different ones")
    for name in sets:
        copy_text(texts.get(name) or f"{speech[name]}/text", folder / f"{name}.txt.gz", named=name not in texts)
        spell_as(folder / f"{name}.txt.gz", speller)
    shutil.rmtree(folder / "lattices", ignore_errors=True)  # of an earlier call: only links
    for name in ("vosk-model", "new_words.tsv"):
        (folder / name).unlink(missing_ok=True)
    recognised = None
    if args.vosk:
        if args.new_words == "add":
            model = vosk_model.with_new_words(model, folder, in_domain, in_domain.total(), args.lexicon)
        recognised = vosk_model.use_model(model, folder)
    prepare_background(args, folder, speller)
    vocabulary = choose_vocabulary(args, in_domain, folder, recognised)
    write_lines(folder / "vocab.txt", vocabulary)
    write_lines(folder / "sets", [" ".join(sets)])
    for name, source in speech.items():
        if args.in_data and name not in lattices and (lattices or not args.decodes):
            continue  # a set of a recipe that is not decoded, nor will be, has its text, but no WER
        prepare_speech(name, Path(source), lattices.get(name), folder, speller)
    if args.words and args.new_words == "add":
        write_words(Path(args.words), in_domain, folder)
    elif args.words:
        link(args.words, folder / "words.txt")
    if args.default_lm:
        link(args.default_lm, folder / "default.arpa.gz")


def add_new_word_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--new-words", choices=("map", "add"), default="map", help="add those of the in-domain text to all (map)")
    add("--lexicon", metavar="FILE", help="how new words of a Vosk model are said (by their letters)")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", metavar="DIR")
    add("--in-text", metavar="TEXT", help="in-domain text, one sentence per line")
    add("--in-data", metavar="DIR", help="in-domain text of a Kaldi data directory, instead")
    add("--background-text", metavar="TEXT", help="with --case also a directory of texts")
    add("--background-lm", metavar="ARPA")
    add(
        "--case",
        choices=("upper", "lower"),
        help="normalise the background text: numbers in words, no punctuation, this case",
    )
    add(
        "--normalise",
        choices=("auto", "none"),
        default="auto",
        help="auto: texts and references in the words of the recogniser, where there is one; none: as they are (auto)",
    )
    add("--text", metavar="SET=TEXT", action="append", default=[], help="a test set; the development set first")
    add("--speech", metavar="SET=DIR", action="append", default=[], help="Kaldi data directory of a test set")
    add("--lattices", metavar="SET=DIR", action="append", default=[], help="lat.N.gz of that data directory")
    add("--vocab", metavar="WORDS", help="one word per line, or words.txt")
    add(
        "--vocab-size",
        type=int,
        default=100_000,
        metavar="N",
        help="most words to take from the background text (100000)",
    )
    add("--words", metavar="words.txt", help="symbol table of the lattices")
    add("--vosk", type=boolean, default=False, metavar="true|false", help="a Vosk model decodes the speech (false)")
    add("--decodes", type=boolean, default=False, metavar="true|false", help="a recipe will be decoded (false)")
    add("--vosk-model", metavar="DIR", help="its directory (downloaded)")
    add("--downloads", default="data/downloads", metavar="DIR", help="where that is kept (data/downloads)")
    add("--default-lm", metavar="ARPA", help="first-pass model")
    add_new_word_arguments(parser)
    add("--nj", type=int, default=1, metavar="N")
    args = parser.parse_args(argv)
    return exit_code("local/prepare_data.sh", lambda: prepare(args))


if __name__ == "__main__":
    sys.exit(main())
