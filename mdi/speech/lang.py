"""Kaldi's lang directories with more words, as its utils/lang/extend_lang.sh makes them: old words and phones keep
their numbers, new words and disambiguation symbols come after the largest."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mdi.certificate import write_certificate
from mdi.errors import MdiError, examples
from mdi.files import check_replaced, copy_file, exchange_folder, read_bytes, read_lines, scratch_folder, write_file
from mdi.fst.lexicon_fst import Entry, Silence, disambiguated, lexicon_fst, read_entries
from mdi.fst.openfst import from_bytes, to_bytes
from mdi.fst.symbols import SymbolTable, read_symbols
from mdi.progress import shown_as
from mdi.speech.lexicon import POSITION, Lexicon, Pronunciation

CERTIFICATE = "mdi_lang.json"  # no Vosk folder's: each verb replaces what it has made itself
COPIED = ("oov.int", "oov.txt", "topo")
NEEDED = (
    *COPIED,
    "phones.txt",
    "words.txt",
    "L.fst",
    "phones/optional_silence.txt",
    "phones/disambig.txt",
    "phones/wdisambig_phones.int",
    "phones/wdisambig_words.int",
)


@dataclass(frozen=True)
class Lang:
    """A lang directory: its symbols, and its lexicon in their numbers."""

    path: Path
    words: SymbolTable
    phones: SymbolTable
    entries: list[Entry]
    silence: Silence | None

    @property
    def has_positions(self) -> bool:
        return (self.path / "phones" / "word_boundary.txt").exists()

    def lexicon(self) -> Lexicon:
        """Its words and how they are said; without those that are no words, said by a silence phone."""
        silent = set(self._list("phones/silence.txt")) if (self.path / "phones/silence.txt").is_file() else set()
        said: dict[str, list[Pronunciation]] = {}
        names = self.phones.words
        for entry in self.entries:
            phones = [names[phone] for phone in entry.phones]
            if not silent.issuperset(phones):
                plain = tuple(POSITION.sub("", phone) for phone in phones) if self.has_positions else tuple(phones)
                said.setdefault(self.words.words[entry.word], []).append(plain)
        return Lexicon(said)

    def _list(self, name: str) -> list[str]:
        return [line.decode("utf-8", "surrogateescape").strip() for line in read_lines(str(self.path / name)) if line]

    def numbers(self, name: str) -> list[int]:
        try:
            return [int(line) for line in self._list(name)]
        except ValueError as error:
            raise MdiError(f"{self.path / name}: {error}; expected a number on each line") from error


def read_lang(path: str) -> Lang:
    folder = Path(path)
    if missing := [name for name in NEEDED if not (folder / name).is_file()]:
        raise MdiError(f"{path}: no {examples(missing)}; expected a lang directory of Kaldi's utils/prepare_lang.sh")
    if (folder / "phones" / "nonterminals.txt").exists():
        raise MdiError(f"{path}: a lang directory for grammars (phones/nonterminals.txt); use Kaldi's extend_lang.sh")
    words, phones = read_symbols(str(folder / "words.txt")), read_symbols(str(folder / "phones.txt"))
    entries, silence = read_entries(from_bytes(read_bytes(str(folder / "L.fst")), f"{path}/L.fst"), f"{path}/L.fst")
    for entry in entries:
        if entry.word not in words.words or not phones.words.keys() >= set(entry.phones):
            raise MdiError(f"{path}: L.fst has numbers that words.txt or phones.txt lack; expected files of one run")
    return Lang(folder, words, phones, entries, silence)


def check_new_lang(out: str, lang: str) -> None:
    """Refuses a directory that cannot be made, or is somebody else's."""
    check_replaced(Path(out), Path(lang), os.path.exists(f"{out}/{CERTIFICATE}"), "mdi lang extend")


def extend_lang(lang: Lang, lexicon: Mapping[str, Sequence[Pronunciation]], out: str) -> list[str]:
    """Writes a lang directory in which the words of the lexicon are said as it says, and the others as they were; new
    ones without pronunciations are left out. Returns the new words."""
    started = time.monotonic()
    check_new_lang(out, str(lang.path))
    said = [word for word, ways in lexicon.items() if ways]
    new = [word for word in said if word not in lang.words.ids]
    words = lang.words.extended(new).ids
    given = {words[word] for word in said}
    entries = [entry for entry in lang.entries if entry.word not in given] + _entries(lang, lexicon, words)
    numbers, largest = disambiguated(entries)
    phones = dict(lang.phones.ids)
    for n in range(largest + 2):  # one more tells silence apart
        phones.setdefault(f"#{n}", max(phones.values()) + 1)
    target = Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(f".{target.name}.", str(target.parent)) as scratch, shown_as(f"{scratch}/lang", out):
        made = Path(scratch) / "lang"
        shutil.copytree(lang.path / "phones", made / "phones", copy_function=copy_file)
        for name in COPIED:
            copy_file(lang.path / name, made / name)
        _extend_table(lang.path / "words.txt", made / "words.txt", words, lang.words)
        _extend_table(lang.path / "phones.txt", made / "phones.txt", phones, lang.phones)
        symbols = [name for name in lang._list("phones/disambig.txt") if name]
        symbols += [name for name in phones if name not in lang.phones.ids]
        _write_disambiguation(made / "phones", symbols, phones)
        _write_alignment(made / "phones", entries, words, phones, lang)
        silence = lang.silence
        write_file(made / "L.fst", to_bytes(lexicon_fst(entries, silence)))
        told_apart = [
            Entry(entry.word, (*entry.phones, phones[f"#{n}"]), entry.p) if n else entry
            for entry, n in zip(entries, numbers, strict=True)
        ]
        if silence is not None:
            silence = replace(silence, disambiguation=phones[f"#{largest + 1}"])
        loops = list(
            zip(lang.numbers("phones/wdisambig_phones.int"), lang.numbers("phones/wdisambig_words.int"), strict=True)
        )
        write_file(made / "L_disambig.fst", to_bytes(lexicon_fst(told_apart, silence, loops)))
        about = {"command": "lang extend", "lang": str(lang.path), "new_words": new}
        write_certificate(str(made / "mdi_lang"), about, time.monotonic() - started)
        exchange_folder(str(made), str(target))
    return new


def _entries(lang: Lang, lexicon: Mapping[str, Sequence[Pronunciation]], words: dict[str, int]) -> list[Entry]:
    """The lexicon in numbers. Refuses phones that the directory lacks."""
    known, entries = lang.phones.ids, []
    p = lexicon.probability if isinstance(lexicon, Lexicon) else {}
    for word, ways in lexicon.items():
        for i, said in enumerate(ways):
            marked = _with_positions(said) if lang.has_positions else said
            if lost := [phone for phone, name in zip(said, marked, strict=True) if name not in known]:
                raise MdiError(
                    f"'{word}' is said with {examples(sorted(set(lost)))}, which {lang.path}/phones.txt lacks; "
                    f"expected phones of the acoustic model, as no others can be recognised"
                )
            entries.append(Entry(words[word], tuple(known[name] for name in marked), p[word][i] if word in p else 1.0))
    return entries


def _with_positions(said: Sequence[str]) -> list[str]:
    """Kaldi's marks of the position in the word."""
    if len(said) == 1:
        return [f"{said[0]}_S"]
    return [f"{said[0]}_B", *(f"{phone}_I" for phone in said[1:-1]), f"{said[-1]}_E"]


def _extend_table(old: Path, path: Path, ids: dict[str, int], before: SymbolTable) -> None:
    """The old file as it is, and the new symbols after it."""
    text = old.read_bytes()
    text += b"" if not text or text.endswith(b"\n") else b"\n"
    more = (f"{name} {i}\n" for name, i in ids.items() if name not in before.ids)
    write_file(path, text + "".join(more).encode("utf-8", "surrogateescape"))


def _write_disambiguation(folder: Path, symbols: list[str], phones: dict[str, int]) -> None:
    numbers = [str(phones[name]) for name in symbols]
    write_file(folder / "disambig.txt", "".join(f"{name}\n" for name in symbols))
    write_file(folder / "disambig.int", "".join(f"{i}\n" for i in numbers))
    write_file(folder / "disambig.csl", ":".join(numbers) + "\n")


def _write_alignment(
    folder: Path, entries: list[Entry], words: dict[str, int], phones: dict[str, int], lang: Lang
) -> None:
    """align_lexicon: word, word and phones, for words in lattices; optional silence is <eps>."""
    word_of, phone_of = {i: word for word, i in words.items()}, {i: phone for phone, i in phones.items()}
    rows = {(word_of[entry.word], *(phone_of[phone] for phone in entry.phones)) for entry in entries}
    rows |= {("<eps>", *silent.split()) for silent in lang._list("phones/optional_silence.txt")}
    lines = sorted(os.fsencode(" ".join((row[0], *row))) for row in rows)
    write_file(folder / "align_lexicon.txt", b"".join(line + b"\n" for line in lines))
    named = (os.fsdecode(line).split(" ") for line in lines)
    numbers = ([words[w], words[v], *(phones[phone] for phone in said)] for w, v, *said in named)
    write_file(folder / "align_lexicon.int", "".join(f"{' '.join(map(str, row))}\n" for row in numbers))
