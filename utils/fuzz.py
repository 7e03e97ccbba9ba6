#!/usr/bin/env python3
"""Feeds damaged files to the readers, with bounds checks in the compiled loops and little memory.

    utils/fuzz.py [--seconds N] [--inputs N] [--first N] [--keep DIR] [--report FILE] [READER...]

Small valid files of every kind are changed at random: bytes, numbers, fields and lines, checksums made good again. A
reader may accept one or refuse it with a message. Everything else is wrong: another exception, a warning, a crash, more
than MEMORY bytes or TIME seconds, a file that is left behind. Inputs are a function of the reader and a number: --first
tries the same ones again, --keep saves those that went wrong. Prints a table; exit code 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEMORY, TIME, BATCH = 512 << 20, 20, 500
SENTENCES = ["a b c", "b c a a", "c b", "a c b a", "b b", "é b"]
WORDS = ["<eps>", "a", "b", "c", "é", "<unk>", "#0", "<s>", "</s>"]
NUMBERS = [-1, 0, 1, 2, 3, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**30, 2**31 - 1, -(2**31), 2**32, 2**32 + 5, 2**62]
NUMBERS += [-(2**63), 2**63 - 1]
TOKENS = (
    b"-1 0 1 -0 +1 1e308 -1e308 1e-320 1e999 nan inf -inf -99 -99.5 0.5 2147483647 2147483648 4294967301 1_1 1,1, ,"
)
TOKENS += b" 18446744073709551616 999999999999999999999999999999 1.5 1e5 0x10 <s> </s> <unk> <eps> #0 a b \xc3\xa9 \xff"
TOKENS += b' \xc2\xb2 \\data\\ \\end\\ \\2-grams: ngram | ;; \xef\xbb\xbf \x00 { } [ ] " null'
SETTINGS = {"nj": "2", "order": "3", "set_data": '""', "thresholds": "2-2-2", "cmd": "run.pl", "demo": "false"}
PIECES = [*TOKENS.split(b" "), b" ", b"\t", b"\n", b"\r\n", b"\n\n", b"", b"a" * 300, b"9" * 5000]


@dataclass(frozen=True)
class Reader:
    """`read` gets the name of a file; `seeds` are valid ones; `repair` makes what was changed look whole again."""

    read: Callable[[str], object]
    seeds: list[bytes]
    repair: Callable[[bytes], bytes] = bytes


@dataclass
class Outcome:
    accepted: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        return self.accepted + self.refused + len(self.wrong)


def changed(chance: random.Random, seeds: list[bytes]) -> bytes:
    """A seed after one to four changes."""
    data = chance.choice(seeds)
    text = b"\0" not in data
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        kind = chance.random()
        at = chance.randrange(len(data) + 1) if chance.random() < 0.7 else chance.randrange(min(200, len(data)) + 1)
        if kind < 0.15:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif kind < 0.25:
            data = data[:at] + data[at + chance.choice((1, 1, 2, 4, 8, 40)) :]
        elif kind < 0.3:
            data = data[:at]
        elif kind < 0.4:
            other = chance.choice(seeds)
            begin = chance.randrange(len(other) + 1)
            data = data[:at] + other[begin : begin + chance.choice((1, 4, 8, 30, 200))] + data[at:]
        elif text and kind < 0.75:  # a field becomes another
            fields = data.split(chance.choice((b" ", b"\t", b"\n", b",")))
            i = chance.randrange(len(fields))
            data = data.replace(fields[i], chance.choice(PIECES), 1) if fields[i] else data
        elif text:  # lines that are repeated, missing, exchanged
            lines = data.split(b"\n")
            i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[i : i + 1] = chance.choice(([lines[i], lines[i]], [], [lines[j]], [lines[i], lines[j]]))
            data = b"\n".join(lines)
        elif kind < 0.9:  # a number of a binary file
            form = chance.choice(["<i", "<i", "<q", "<f", "<h"])
            at -= at % struct.calcsize(form) if chance.random() < 0.5 else 0
            number: float = chance.choice(NUMBERS)
            if form == "<f":
                number = chance.choice((float("nan"), float("inf"), -1.0, 1e38, 0.0))
            elif not -(2 ** (8 * struct.calcsize(form) - 1)) <= number < 2 ** (8 * struct.calcsize(form) - 1):
                number = -2
            piece = struct.pack(form, number)
            data = data[:at] + piece + data[at + len(piece) :]
        else:
            data = data[:at] + chance.choice(PIECES) + data[at:]
    return data


# ---- readers


def readers(folder: Path) -> dict[str, Reader]:
    """All of them, with seeds that are made here."""
    from pathlib import Path as P

    import numpy as np
    import pywrapfst

    from mdi.adaptation import delta
    from mdi.adaptation.table import read_lambda
    from mdi.cli import main
    from mdi.fst.formats import read_lm
    from mdi.fst.symbols import read_symbols
    from mdi.lm import cache
    from mdi.lm.arpa import read_arpa
    from mdi.lm.counts import count_text, read_counts
    from mdi.lm.perplexity import perplexity
    from mdi.speech.acoustic import read_acoustic_model
    from mdi.speech.data import DataFolder, read_ctm, read_rows, read_text
    from mdi.speech.expected_counts import expected_counts
    from mdi.speech.lattice_files import read_lattices, to_binary
    from mdi.speech.lexicon import read_lexicon
    from mdi.speech.sclite import read_report

    def run(*arguments: str) -> None:
        if main([str(folder / a) if a in made or a.startswith("+") else a for a in arguments]):
            raise SystemExit(f"fuzz: cannot make a seed: {arguments}")

    made = {"text", "words.txt", "lm", "counts", "G.fst", "G.const.fst", "Gr.fst", "G.carpa", "x.mod", "d.delta", "tsv"}
    (folder / "text").write_text("".join(f"{s}\n" for s in SENTENCES))
    (folder / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(WORDS)))
    run("train", "--min-counts", "1", "--counts-out", "counts", "text", "lm")
    for form in ("G.fst", "Gr.fst", "G.carpa", "x.mod"):
        run("convert", "--words", "words.txt", "lm", form)
    pywrapfst.convert(pywrapfst.Fst.read(str(folder / "G.fst")), "const").write(str(folder / "G.const.fst"))
    run("adapt", "--min-counts", "1", "--sigma2", "1", "--delta", "d.delta", "--constraints-out", "tsv", "lm", "text")
    words, lm = str(folder / "words.txt"), read_arpa(str(folder / "lm"))
    kept = folder / "kept.mdi"
    cache.save(lm, str(folder / "lm"), kept)
    lattice = b"u1 \n0 1 1 1.5,2.5,1_2\n0 2 2 1,3,3\n1 2 3 0.5,1,4_4\n2 0.25,0,5\n\nu2 \n0 1 4 1,1,1\n1 0,0,\n\n"
    (folder / "lat").write_bytes(lattice)
    binary = b"".join(to_binary(one) for one in read_lattices(str(folder / "lat")))
    vosk = [{"result": [{"word": "a", "start": 0, "end": 1, "conf": 0.5}], "text": "a"}]
    vosk.append({"alternatives": [{"text": "a b", "confidence": 3.5}, {"text": "b", "confidence": 1}]})

    def seed(name: str) -> list[bytes]:
        return [(folder / name).read_bytes()]

    def model(path: str) -> None:
        """Any form; what was read is used."""
        found = read_lm(path, words)
        for p, bow in zip(found.p[1:], found.bow, strict=True):
            if not ((p >= 0).all() and np.isfinite(p).all() and np.isfinite(bow).all()):
                raise AssertionError("probabilities that are none")
        perplexity(found, SENTENCES)

    def lattices(path: str) -> None:
        from mdi.speech.lattice import best_path, n_best

        for one in read_lattices(path):
            best_path(one, 10.0)
            n_best(one, 2, 10.0)
            to_binary(one)

    def expected(kind: str) -> Callable[[str], object]:
        table = words if kind == "lattice" else None
        return lambda path: expected_counts([path], None, 2, words=table, kind=kind)

    def in_folder(name: str) -> Callable[[str], object]:
        def read(path: str) -> None:
            data = P(path).parent / "data"
            os.replace(path, data / name)
            kaldi = DataFolder(data)
            try:
                kaldi.text(), kaldi.speakers(), kaldi.utterances_of_speakers(), kaldi.segments()
            finally:
                (data / name).write_bytes(kaldi_files[name])

        return read

    kaldi_files = {
        "text": b"u1 a b\nu2 c\n", "utt2spk": b"u1 s1\nu2 s1\n", "spk2utt": b"s1 u1 u2\n",
        "wav.scp": b"r1 /tmp/x.wav\nr2 cat y |\n", "segments": b"u1 r1 0 1.5\nu2 r2 0.5 -1\n",
    }  # fmt: skip
    (folder / "data").mkdir()
    for name, content in kaldi_files.items():
        (folder / "data" / name).write_bytes(content)
    found = {
        "arpa": Reader(model, seed("lm")),
        "counts": Reader(lambda path: read_counts(path, lm.vocab, 3), seed("counts")),
        "train-counts": Reader(_trained, seed("counts")),
        "text": Reader(lambda path: count_text(P(path), lm.vocab, 3), seed("text")),
        "words": Reader(read_symbols, seed("words.txt")),
        "G.fst": Reader(model, seed("G.fst") + seed("x.mod") + seed("G.const.fst")),
        "Gr.fst": Reader(model, seed("Gr.fst")),
        "G.carpa": Reader(model, seed("G.carpa")),
        "delta": Reader(
            lambda path: delta.read_delta(path).apply(lm),
            [_unpacked_delta(part) for part in seed("d.delta")],
            _packed_delta,
        ),
        "cache": Reader(_cached, seed("kept.mdi"), _cache_checksum),
        "constraints": Reader(read_lambda, seed("tsv")),
        "lattice-text": Reader(lattices, [lattice]),
        "lattice-binary": Reader(lattices, [binary]),
        "lattice-counts": Reader(expected("lattice"), [lattice, binary]),
        "nbest": Reader(expected("nbest"), [b"u1 -1.5 a b\nu1 -2 b\nu2 0 c\n"]),
        "ctm-counts": Reader(expected("ctm"), [b"u1 1 0.0 0.5 a 0.9\nu1 1 0.5 0.5 b 1.0\n"]),
        "vosk": Reader(expected("vosk"), ["\n".join(map(json.dumps, vosk)).encode(), json.dumps(vosk).encode()]),
        "ctm": Reader(lambda path: read_ctm(path, ["u1", "u2"]), [b"u1 1 0.0 0.5 a 0.9\n;; x\nu2 1 0.5 0.5 b 1.0\n"]),
        "kaldi-text": Reader(read_text, [kaldi_files["text"]]),
        "rows": Reader(read_rows, list(kaldi_files.values())),
        "sclite": Reader(lambda path: read_report(P(path)), [_sclite()]),
        "conf": Reader(_settings, [b'# mine\nnj=2 order=3\nset_data="dev=a eval=b"\n', b"thresholds=2-2-2\ncmd+=x\n"]),
    }
    found |= {name: Reader(in_folder(name), [content]) for name, content in kaldi_files.items() if name != "text"}
    acoustic = read_acoustic_model()
    found["lexicon"] = Reader(lambda path: read_lexicon(path, acoustic), [b"a AH\nb B IY\nb B\nc S IY\n"])
    return found


def _trained(path: str) -> None:
    """Counts to a model, which is not written."""
    from mdi.lm.counts import read_counts
    from mdi.lm.estimate import checked, estimate
    from mdi.lm.text import SPECIAL
    from mdi.lm.vocabulary import GrowingVocabulary

    estimate(checked(read_counts(path, GrowingVocabulary(SPECIAL), 3), path, "wb"), "wb")


def _cached(path: str) -> None:
    """Whoever may write there: the model is read, and used if it counts."""
    from mdi.errors import MdiError
    from mdi.lm import cache
    from mdi.lm.perplexity import perplexity

    os.chmod(path, 0o600)
    try:
        model, _ = cache._read(Path(path))
    except (OSError, ValueError, KeyError, TypeError) as error:  # what `load` says and passes over
        raise MdiError(str(error)) from error
    perplexity(model, ["a b c", "b a"])


def _unpacked_delta(data: bytes) -> bytes:
    size = 16 + int.from_bytes(data[8:16], "little")
    return data[:size] + zlib.decompress(data[size:])


def _packed_delta(data: bytes) -> bytes:
    """The body packed and its checksum put into the head, where head and body can be told apart."""
    try:
        size = int.from_bytes(data[8:16], "little")
        head, body = json.loads(data[16 : 16 + size]), zlib.compress(data[16 + size :], 1)
        head["crc32"] = zlib.crc32(body)
        text = json.dumps(head).encode()
        return data[:8] + len(text).to_bytes(8, "little") + text + body
    except (ValueError, TypeError, OverflowError):
        return data


def _cache_checksum(data: bytes) -> bytes:
    try:
        size = int.from_bytes(data[8:16], "little")
        head = json.loads(data[16 : 16 + size])
        head |= {"crc32": zlib.crc32(data[16 + size :]), "bytes": len(data) - 16 - size}
        text = json.dumps(head).encode()
        text += b" " * (-(16 + len(text)) % 64)
        return data[:8] + len(text).to_bytes(8, "little") + text + data[16 + size :]
    except (ValueError, TypeError, OverflowError):
        return data


def _settings(path: str) -> None:
    """A .conf of run.sh: the shell that reads it must do nothing else."""
    from mdi.errors import MdiError

    script = Path(path).parent / "settings.sh"
    options = "".join(f"{name}={value}  # x\n" for name, value in SETTINGS.items())
    script.write_text(f'. "{ROOT}/utils/script_common.sh"\n{options}parse_options\nread_settings "$1"\n')
    done = subprocess.run(
        ["bash", "-euo", "pipefail", str(script), path],
        cwd=script.parent,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    script.unlink()
    if done.returncode and b"expected" not in done.stderr and b"no option" not in done.stderr:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr[-300:]!r}")
    if done.returncode:
        raise MdiError("refused")


def _sclite() -> bytes:
    rows = [("s1", 2, 9, 7, 1, 1, 0, 2, 1), ("s2", 1, 5, 5, 0, 0, 1, 1, 1)]
    total = tuple(sum(row[i] for row in rows) for i in range(1, 9))
    lines = [
        f"| {name} | {a} {b} | {c} {d} {e} {f} {g} {h} |" for name, a, b, c, d, e, f, g, h in [*rows, ("Sum", *total)]
    ]
    return "\n".join(["| SPKR | # Snt # Wrd | Corr Sub Del Ins Err S.Err |", *lines]).encode()


# ---- one batch in a process of its own


@contextmanager
def _limits() -> Iterator[None]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    warnings.simplefilter("error")
    yield


def batch(name: str, reader: Reader, numbers: range, folder: Path) -> Outcome:
    """Reads inputs in a child process; a child that dies names the input that killed it, and another goes on."""
    outcome, at = Outcome(), numbers.start
    while at < numbers.stop:
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.close(out)
            with os.fdopen(into, "w", buffering=1) as said, _limits():
                _read_all(name, reader, range(at, numbers.stop), folder, said)
            os._exit(0)
        os.close(into)
        with os.fdopen(out) as said:
            for line in said:
                kind, text = line.rstrip("\n").split(" ", 1)
                if kind == "begin":
                    at = int(text)
                elif kind == "wrong":
                    outcome.wrong.append(f"{at}: {text}")
                else:
                    setattr(outcome, kind, getattr(outcome, kind) + 1)
        _, status = os.waitpid(child, 0)
        at += 1
        if os.WIFSIGNALED(status):
            what = "hangs" if os.WTERMSIG(status) == signal.SIGALRM else f"killed by signal {os.WTERMSIG(status)}"
            outcome.wrong.append(f"{at - 1}: {what}")
        elif status:
            outcome.wrong.append(f"{at - 1}: exit status {status}")
        elif at == numbers.stop:
            break
    return outcome


def input_of(name: str, reader: Reader, number: int) -> bytes:
    return reader.repair(changed(random.Random(f"{name} {number}"), reader.seeds))


def _read_all(name: str, reader: Reader, numbers: range, folder: Path, said) -> None:
    from mdi.errors import MdiError

    path = folder / "input"
    there = set(os.listdir(folder)) | {"input"}
    for number in numbers:
        path.write_bytes(input_of(name, reader, number))
        said.write(f"begin {number}\n")
        signal.alarm(TIME)
        try:
            reader.read(str(path))
            said.write("accepted \n")
        except MdiError:
            said.write("refused \n")
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            said.write(f"wrong {' '.join(text.split())[:300]}\n")
        if left := set(os.listdir(folder)) - there:
            there |= left
            said.write(f"wrong leaves {sorted(left)}\n")
    signal.alarm(0)


def table(done: dict[str, Outcome]) -> str:
    rows = [("reader", "inputs", "accepted", "refused", "wrong")]
    rows += [(name, *map(str, (o.inputs, o.accepted, o.refused, len(o.wrong)))) for name, o in done.items()]
    return "".join("\t".join(row) + "\n" for row in rows)


def fuzz(
    chosen: list[str], seconds: float, inputs: int, first: int, keep: Path | None, report: Path | None
) -> dict[str, Outcome]:
    """Batches of all readers in turn until the time is over, or each has had its inputs."""
    with tempfile.TemporaryDirectory(prefix="mdi-fuzz-") as scratch:
        folder = Path(scratch)
        known = readers(folder)
        if strange := set(chosen) - set(known):
            raise SystemExit(f"fuzz: no reader {', '.join(sorted(strange))}; there are {', '.join(known)}")
        names = chosen or list(known)
        for name in names:  # compiles what the children then have
            for seed in known[name].seeds:
                (folder / "input").write_bytes(known[name].repair(seed))
                known[name].read(str(folder / "input"))
        done, at = {name: Outcome() for name in names}, dict.fromkeys(names, first)
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(at[name] < first + inputs for name in names):
            for name in names:
                size = min(BATCH // 20 if name == "conf" else BATCH, first + inputs - at[name])
                if size <= 0 or time.monotonic() >= end:
                    continue
                found = batch(name, known[name], range(at[name], at[name] + size), folder)
                at[name] += size
                done[name].accepted += found.accepted
                done[name].refused += found.refused
                done[name].wrong += found.wrong
                for text in found.wrong:
                    print(f"{name} {text}", file=sys.stderr, flush=True)
                    if keep:
                        number = int(text.split(":", 1)[0])
                        (keep / f"{name}.{number}").write_bytes(input_of(name, known[name], number))
            if report:
                report.write_text(table(done))
        return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", metavar="READER", nargs="*", help="(all)")
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="end after so long (60)")
    parser.add_argument("--inputs", type=int, default=10**9, metavar="N", help="of each reader, at most")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first input (0)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="save inputs that went wrong in this folder")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the table so far, written again and again")
    args = parser.parse_args()
    done = fuzz(args.readers, args.seconds, args.inputs, args.first, args.keep, args.report)
    print(table(done), end="")
    return 1 if any(outcome.wrong for outcome in done.values()) else 0


if __name__ == "__main__":
    if os.environ.get("NUMBA_BOUNDSCHECK") != "1":  # numba looks when it is imported
        with tempfile.TemporaryDirectory(prefix="mdi-fuzz-cache-") as compiled:
            checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": compiled, "PYTHONPATH": str(ROOT)}
            if os.environ.get("NUMBA_CACHE_DIR"):
                checked["NUMBA_CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"]
            sys.exit(subprocess.call([sys.executable, *sys.argv], env=checked))
    sys.exit(main())
