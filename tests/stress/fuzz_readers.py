"""The readers that tests/stress/fuzz.py feeds, each with small valid files of its kind."""

import gzip
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent.parent
SENTENCES = ["a b c", "b c a a", "c b", "a c b a", "b b", "é b"]
WORDS = ["<eps>", "a", "b", "c", "é", "<unk>", "#0", "<s>", "</s>"]
SETTINGS = {"nj": "2", "order": "3", "set_data": '""', "thresholds": "2-2-2", "cmd": "run.pl", "demo": "false"}
KALDI_FILES = {
    "text": b"u1 a b\nu2 c\n",
    "utt2spk": b"u1 s1\nu2 s1\n",
    "spk2utt": b"s1 u1 u2\n",
    "wav.scp": b"r1 /tmp/x.wav\nr2 cat y |\n",
    "segments": b"u1 r1 0 1.5\nu2 r2 0.5 -1\n",
}
LATTICE = b"u1 \n0 1 1 1.5,2.5,1_2\n0 2 2 1,3,3\n1 2 3 0.5,1,4_4\n2 0.25,0,5\n\nu2 \n0 1 4 1,1,1\n1 0,0,\n\n"
CTM = b"u1 1 0.0 0.5 a 0.9\nu1 1 0.5 0.5 b 1.0\n"


@dataclass(frozen=True)
class Reader:
    """`read` gets the name of a file; `seeds` are valid ones; `repair` makes what was changed look whole again. A slow
    one gets the `share` of the inputs. `starts_processes`: it is a shell's. `hostile`: more to change
    that is not valid."""

    read: Callable[[str], object]
    seeds: list[bytes]
    repair: Callable[[bytes], bytes] = bytes
    share: float = 1.0
    starts_processes: bool = False
    hostile: list[bytes] = field(default_factory=list)


def readers(folder: Path) -> dict[str, Reader]:
    """All of them, with seeds that are made here."""
    (folder / "text").write_text("".join(f"{s}\n" for s in SENTENCES))
    (folder / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(WORDS)))
    found = _models(folder) | _speech(folder) | _sound(folder) | _records(folder) | _recipe(folder) | _folders(folder)
    return found | _lexicons(folder) | _recogniser(folder)


def _seed(path: Path) -> list[bytes]:
    return [path.read_bytes()]


def _run(*arguments: object) -> None:
    from mdi.cli import main

    if main([str(a) for a in arguments]):
        raise SystemExit(f"fuzz: cannot make a seed: {arguments}")


def _at(place: Path, read: Callable[[], object]) -> Callable[[str], object]:
    """A reader that looks for its file in a place of its own, where a valid one is before and after."""
    valid = place.read_bytes()

    def moved(path: str) -> None:
        os.replace(path, place)
        try:
            read()
        finally:
            place.write_bytes(valid)

    return moved


# ---- models, counts, texts


def _models(folder: Path) -> dict[str, Reader]:
    import numpy as np
    import pywrapfst

    from mdi.adaptation import delta
    from mdi.fst.formats import load
    from mdi.fst.symbols import read_symbols
    from mdi.lm.arpa import read_arpa
    from mdi.lm.counts import count_text, read_counts
    from mdi.lm.perplexity import perplexity
    from mdi.lm.vocabulary import read_words

    text, lm, words = folder / "text", folder / "lm", str(folder / "words.txt")
    _run("train", "--min-counts", "1", "--counts-out", folder / "counts", text, lm)
    for form in ("G.fst", "Gr.fst", "G.carpa", "x.mod"):
        _run("convert", "--words", words, lm, folder / form)
    pywrapfst.convert(pywrapfst.Fst.read(str(folder / "G.fst")), "const").write(str(folder / "G.const.fst"))
    settings = ("--min-counts", "1", "--sigma2", "1")
    _run("adapt", *settings, "--delta", folder / "d.delta", lm, text)
    (folder / "more").write_text(text.read_text() + "yak gnu\nyak\n")
    _run("adapt", *settings, "--delta", folder / "n.delta", lm, folder / "more")  # with new words
    deltas = [_unpacked_delta(part) for name in ("d.delta", "n.delta") for part in _seed(folder / name)]
    model = read_arpa(str(lm))

    def any_form(path: str) -> None:
        """What was read is used."""
        found = load(path, words)
        for p, bow in zip(found.p[1:], found.bow, strict=True):
            if not ((p >= 0).all() and np.isfinite(p).all() and np.isfinite(bow).all()):
                raise AssertionError("probabilities that are none")
        perplexity(found, SENTENCES)

    packed = [gzip.compress(lm.read_bytes(), mtime=0)]
    inside = _seed(folder / "x.mod") + _seed(folder / "Gr.fst")
    return {
        "arpa": Reader(any_form, _seed(lm)),
        "arpa.gz": Reader(any_form, packed),
        "counts": Reader(lambda path: read_counts(path, model.vocab, 3), _seed(folder / "counts")),
        "train-counts": Reader(_trained, _seed(folder / "counts")),
        "text": Reader(lambda path: count_text(Path(path), model.vocab, 3), _seed(text)),
        "words": Reader(read_symbols, _seed(folder / "words.txt")),
        "words-fst": Reader(read_symbols, inside),
        "vocab": Reader(read_words, [b"a\nb\n\xc3\xa9\n", *_seed(folder / "words.txt")]),
        "G.fst": Reader(any_form, _seed(folder / "G.fst") + _seed(folder / "x.mod") + _seed(folder / "G.const.fst")),
        "Gr.fst": Reader(any_form, _seed(folder / "Gr.fst")),
        "G.carpa": Reader(any_form, _seed(folder / "G.carpa")),
        "delta": Reader(lambda path: delta.read_delta(path).apply(model), deltas, _packed_delta),
        "deltas": Reader(_listed, deltas, _packed_delta),
    }


def _trained(path: str) -> None:
    """Counts to a model, which is not written."""
    from mdi.lm.counts import read_counts
    from mdi.lm.estimate import checked, estimate
    from mdi.lm.text import SPECIAL
    from mdi.lm.vocabulary import GrowingVocabulary

    estimate(checked(read_counts(path, GrowingVocabulary(SPECIAL), 3), path, "wb"), "wb")


def _listed(path: str) -> None:
    from mdi.cli import main
    from mdi.errors import MdiError

    if main(["list-deltas", path]):
        raise MdiError("refused")


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
    except (ValueError, TypeError, OverflowError, RecursionError):
        return data


# ---- lattices, data folders, graphs


def _lexicons(folder: Path) -> dict[str, Reader]:
    """What says how words are said: lexicons, new_words.tsv, models of letters and phones, Kaldi's L.fst."""
    from mdi.fst.lexicon_fst import Entry, Silence, lexicon_fst, read_entries
    from mdi.fst.openfst import from_bytes, to_bytes
    from mdi.speech.g2p import load_g2p, train_g2p
    from mdi.speech.given import given_lines, read_given
    from mdi.speech.lexicon import Lexicon, read_lexicon

    known = Lexicon({"bad": [("B", "AA", "D")], "bed": [("B", "EH", "D")], "dab": [("D", "AA", "B")]})
    train_g2p(known).save(str(folder / "model.g2p"))
    table = b"word\tcount\tpronunciations\tcertainty\thow\nbab\t3\tB AA B | = bad bed\t0.5\tg2p\nada\t1\t\t0\tno\n"
    fst = to_bytes(lexicon_fst([Entry(1, (2, 3)), Entry(2, (2,), 0.5), Entry(1, (3,))], Silence(1, 0.693147, 0.693147)))
    return {
        "lexicon": Reader(read_lexicon, [b"bad B AA D\nbed B_B EH_I D_E\n", b"bad 1.0 B AA D\nbad 0.5 D\n"]),
        "given": Reader(lambda path: read_given(given_lines(path), known), [b"bab B AA B\ndabed = dab bed\n", table]),
        "g2p": Reader(load_g2p, _seed(folder / "model.g2p")),
        "L.fst": Reader(lambda path: read_entries(from_bytes(Path(path).read_bytes(), path), path), [fst]),
    }


def _speech(folder: Path) -> dict[str, Reader]:
    sys.path.insert(0, str(ROOT / "utils"))
    from sclite import read_report

    from mdi.fst.openfst import from_bytes
    from mdi.speech.data import DataFolder, read_ctm, read_rows, read_text
    from mdi.speech.expected_counts import expected_counts
    from mdi.speech.lattice import best_path, n_best
    from mdi.speech.lattice_files import read_lattices, to_binary

    words, data = str(folder / "words.txt"), folder / "data"
    (folder / "lat").write_bytes(LATTICE)
    binary = b"".join(to_binary(one) for one in read_lattices(str(folder / "lat")))
    vosk = [{"result": [{"word": "a", "start": 0, "end": 1, "conf": 0.5}], "text": "a"}]
    vosk.append({"alternatives": [{"text": "a b", "confidence": 3.5}, {"text": "b", "confidence": 1}]})
    data.mkdir()
    for name, content in KALDI_FILES.items():
        (data / name).write_bytes(content)

    def lattices(path: str) -> None:
        for one in read_lattices(path):
            best_path(one, 10.0)
            n_best(one, 2, 10.0)
            to_binary(one)

    def expected(kind: str) -> Callable[[str], object]:
        table = words if kind == "lattice" else None
        return lambda path: expected_counts([path], None, 2, words=table, kind=kind)

    def kaldi() -> None:
        found = DataFolder(data)
        found.text(), found.speakers(), found.utterances_of_speakers(), found.segments()

    found = {
        "lattice-text": Reader(lattices, [LATTICE]),
        "lattice-binary": Reader(lattices, [binary]),
        "lattice.gz": Reader(lattices, [gzip.compress(LATTICE, mtime=0), gzip.compress(binary, mtime=0)]),
        "lattice-counts": Reader(expected("lattice"), [LATTICE, binary]),
        "nbest": Reader(expected("nbest"), [b"u1 -1.5 a b\nu1 -2 b\nu2 0 c\n"]),
        "ctm-counts": Reader(expected("ctm"), [CTM]),
        "vosk": Reader(expected("vosk"), ["\n".join(map(json.dumps, vosk)).encode(), json.dumps(vosk).encode()]),
        "ctm": Reader(lambda path: read_ctm(path, ["u1", "u2"]), [CTM.replace(b"\nu1", b"\n;; x\nu2")]),
        "kaldi-text": Reader(read_text, [KALDI_FILES["text"]]),
        "rows": Reader(read_rows, list(KALDI_FILES.values())),
        "sclite": Reader(lambda path: read_report(Path(path)), [_sclite()]),
        "fst": Reader(
            lambda path: from_bytes(Path(path).read_bytes(), path),
            _seed(folder / "G.fst") + _seed(folder / "G.const.fst"),
        ),
    }
    for name, content in KALDI_FILES.items():
        if name != "text":
            found[name] = Reader(_at(data / name, kaldi), [content])
    return found


class _Evil:
    def __reduce__(self) -> tuple:
        return os.system, ("touch ran",)


def _sound(folder: Path) -> dict[str, Reader]:
    """Recordings of every format that can be written here, bytes that are a pickle, archives, and tables that name
    them."""
    import io
    import pickle

    import numpy as np
    import soundfile

    from mdi.speech.audio_file import promised_seconds, read_audio
    from mdi.speech.data import DataFolder
    from mdi.speech.rxfilename import Source
    from mdi.speech.sound import Sound

    samples = (1000 * np.sin(np.arange(400))).astype(np.int16)
    evil = [head + pickle.dumps(_Evil()) for head in (b"PKL", b"u1 PKL", b"")]
    found = {}
    formats = {"AIFF", "AU", "CAF", "FLAC", "MP3", "NIST", "OGG", "RF64", "W64", "WAV"}
    for name in sorted(formats & set(soundfile.available_formats())):
        soundfile.write(stream := io.BytesIO(), samples, 16000, format=name)
        found[f"sound-{name.lower()}"] = Reader(
            lambda path: (promised_seconds(Source(path)), read_audio(Source(path), channel=0)),
            [stream.getvalue()],
            hostile=evil,
        )
    for subtype in ("PCM_U8", "PCM_24", "FLOAT", "ULAW"):
        soundfile.write(stream := io.BytesIO(), samples, 16000, format="WAV", subtype=subtype)
        found["sound-wav"].seeds.append(stream.getvalue())
    for rate, channels, subtype in ((8000, 2, "ULAW"), (44100, 1, "PCM_16"), (192000, 64, "PCM_U8")):
        many = np.stack([samples] * channels, 1)
        soundfile.write(stream := io.BytesIO(), many, rate, format="WAV", subtype=subtype)
        found["sound-wav"].seeds.append(stream.getvalue())
    soundfile.write(stream := io.BytesIO(), samples, 16000, format="WAV")
    wav = stream.getvalue()
    archive = b"u1 " + wav
    evil = [b"u1 " + one for one in evil]
    found["sound-ark"] = Reader(lambda path: read_audio(Source(path, 3), channel=0), [archive], hostile=evil)

    data = folder / "sound"
    data.mkdir()
    (data / "a.wav").write_bytes(wav)
    (data / "a.ark").write_bytes(archive)
    (data / "evil").write_bytes(evil[0])
    here = os.fsencode(data)
    (data / "wav.scp").write_bytes(b"r1 %b/a.wav\nr2 %b/a.ark:3\n" % (here, here))

    def table() -> None:
        sound = Sound(DataFolder(data))
        for utterance in sound.segments:
            sound.samples(utterance)

    lines = [b"r1 touch ran |\n", b"r1 | touch ran\n", b"r1 touch ran |:10\n", b"r1 touch ran |[0:3]\n"]
    lines += [b"r1 %b/evil\n" % here, b"r1 %b/evil:0\n" % here, b"r1 /dev/zero\n", b"r1 -\n"]
    (data / "reco2file_and_channel").write_bytes(b"r1 a A\nr2 a 2\n")
    found["sound-channels"] = Reader(
        _at(data / "reco2file_and_channel", table), _seed(data / "reco2file_and_channel"), hostile=[b"r1 a \xff\n"]
    )
    found["sound-scp"] = Reader(_at(data / "wav.scp", table), _seed(data / "wav.scp"), hostile=lines)
    return found


def _recogniser(folder: Path) -> dict[str, Reader]:
    """A Vosk model's graph, transition model and phones, as far as they are read to add words."""
    sys.path.append(str(ROOT / "tests"))
    from toy_graph import Toy

    from mdi.fst.lookahead import parse_lookahead, to_bytes
    from mdi.speech.vosk.folder import VoskFolder
    from mdi.speech.vosk.graft import add_words
    from mdi.speech.vosk.recogniser_graph import read_graph

    older = Toy(epsilons=True, pushed=True)
    root = Toy().write(folder / "recogniser")

    def read() -> None:
        graph = read_graph(VoskFolder(root))
        known = [ways[0] for ways in list(graph.lexicon().values())[:3]]
        new = {f"new{i}": [way + known[0], way[:1], known[-1] + way] for i, way in enumerate(known)}
        made = add_words(graph, new, max(graph.words) + 1)
        parse_lookahead(to_bytes(made.fst), "what was made")  # whatever is taken for a graph, what comes out is one

    def reader(name: str, *more: bytes) -> Reader:
        place = root / name
        return Reader(_at(place, read), [place.read_bytes(), *more])

    return {
        "HCLr.fst": reader("graph/HCLr.fst", older.graph()),
        "final.mdl": reader("am/final.mdl"),
        "word_boundary.int": reader("graph/phones/word_boundary.int"),
        "phones.txt": reader("graph/phones.txt"),
        "disambig_tid.int": reader("graph/disambig_tid.int"),
    }


def _folders(folder: Path) -> dict[str, Reader]:
    """A Vosk model's folder with links, pipes and folders in the place of its files. An input says what to put where:
    'link PLACE TARGET', 'pipe PLACE', 'folder PLACE', 'file PLACE CONTENT'."""
    import shutil

    from mdi.errors import MdiError
    from mdi.lm.vocabulary import to_str
    from mdi.speech.vosk.folder import changed, find_vosk_folder, new_folder

    root, diary = folder / "vosk-model", folder / "diary"
    diary.write_text("secret")
    names = ("am/final.mdl", "conf/model.conf", "conf/mfcc.conf", "graph/HCLr.fst", "ivector/final.ie")

    def build(data: bytes) -> Path:
        model = root / "model"
        for name in names:
            (model / name).parent.mkdir(parents=True, exist_ok=True)
            (model / name).write_text("--lattice-beam=2\n")
        shutil.copyfile(folder / "Gr.fst", model / "graph" / "Gr.fst")
        for line in data.split(b"\n"):
            kind, _, rest = line.partition(b" ")
            place, _, what = to_str(rest).partition(" ")
            path = model / place.replace("\0", "")
            if root not in Path(os.path.normpath(path)).parents or model not in (path, *path.parents):
                continue  # where an attacker cannot put anything
            try:
                if path.is_symlink() or not path.is_dir():
                    path.unlink(missing_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                if kind == b"link":
                    path.symlink_to(what.replace("DIARY", str(diary)))
                elif kind == b"pipe":
                    os.mkfifo(path)
                elif kind == b"folder":
                    path.mkdir(exist_ok=True)
                else:
                    path.write_text(what, errors="surrogateescape")
            except (OSError, ValueError):
                pass  # no such place
        return model

    def read(path: str) -> None:
        data = Path(path).read_bytes()
        try:
            source = find_vosk_folder(str(build(data)))
            with new_folder(source, root / "out", ["graph/Gr.fst"], 4.0) as made:
                (made.path / "mdi.json").write_text("{}")
            if any(path.is_symlink() for path in (root / "out").rglob("*")):
                raise AssertionError("a link was taken over")
            with changed(source, 3.0):
                pass
        finally:
            shutil.rmtree(root, ignore_errors=True)
            if diary.read_text() != "secret" or diary.stat().st_nlink != 1:
                raise AssertionError("a link was followed")

    seeds = [b"link a .\nlink b .\n", b"link conf/mfcc.conf model.conf\nlink mdi.json DIARY\nlink am/more ..\n"]
    hostile = [
        b"link conf/model.conf DIARY\n",
        b"link graph/Gr.fst DIARY\n",
        b"pipe graph/words.txt\n",
        b"link am/final.mdl loop\n",
        b"link conf ..\n",
        b"folder rescore\nlink rescore/G.carpa ../am/final.mdl\n",
        b"file graph/words.txt <eps> 0\n",
    ]

    def refused(path: str) -> None:
        try:
            read(path)
        except MdiError as error:
            if len(str(error)) > 2000:
                raise AssertionError("a long story") from error
            raise

    return {"vosk-folder": Reader(refused, seeds, share=0.5, hostile=hostile)}


def _sclite() -> bytes:
    rows = [("s1", 2, 9, 7, 1, 1, 0, 2, 1), ("s2", 1, 5, 5, 0, 0, 1, 1, 1)]
    total = tuple(sum(row[i] for row in rows) for i in range(1, 9))
    lines = [
        f"| {name} | {a} {b} | {c} {d} {e} {f} {g} {h} |" for name, a, b, c, d, e, f, g, h in [*rows, ("Sum", *total)]
    ]
    return "\n".join(["| SPKR | # Snt # Wrd | Corr Sub Del Ins Err S.Err |", *lines]).encode()


# ---- what mdi has written itself: records of jobs, parts of decodings, certificates, scores


def _records(folder: Path) -> dict[str, Reader]:
    from mdi.commands.check import _certificate
    from mdi.lm.shards import job_folder
    from mdi.record import go_on, write_record
    from mdi.speech.score import best_point
    from mdi.speech.vosk.folder import LATTICE_BEAM, VoskFolder, with_option
    from mdi.speech.vosk.results import read_results

    sys.path.insert(0, str(ROOT / "utils"))
    import report
    import results

    part = folder / "exp" / "mdi"
    part.mkdir(parents=True)
    model = part / "prior.arpa.gz"
    _run("adapt", "--min-counts", "1", "--sigma2", "1", folder / "lm", folder / "text", model)
    _run("train", "--min-counts", "1", folder / "text", folder / "trained")

    def certificate() -> None:
        results.read_ngrams(model)
        report.certificate_table(part.parent, folder)
        report.read_steps(part.parent, "prior")
        report._brief(Path(f"{model}.json"))
        list(_certificate(str(model)))

    scored = folder / "scored" / "scoring_kaldi"
    (scored / "wer_details").mkdir(parents=True)
    (scored / "best_wer").write_text("%WER 12.50 [ 1 / 8, 0 ins, 1 del, 0 sub ] wer_10_0.0\n")
    (scored / "wer_details" / "wer_bootci").write_text("Set1: %WER 12.50 95% Conf Interval [ 10.00, 15.00 ]\n")
    compared = "Set1: %WER 12.50 95% Conf Interval [ 1, 2 ]\nSet2: %WER 10.00 95% Conf Interval [ 1, 2 ]\n"
    compared += "Probability of Set2 improving Set1: 99.00\nDifference of the WERs: -2.50, p = 0.0100 (paired)\n"
    compared += "Set1 is exp/decode/default/eval, Set2 is exp/x/eval\n"
    (scored / "wer_details" / "comparison").write_text(compared)
    (scored / "wer_details" / "lmwt").write_text("10\n")
    (scored / "wer_details" / "wip").write_text("0.0\n")

    job = folder / "job" / "mdi-job"
    about = {"texts": ["a"], "order": 3}

    def begun() -> None:
        with job_folder(str(job.parent), about) as where:
            Path(where, "job.json").write_bytes(b"{}")
        job.mkdir(parents=True, exist_ok=True)
        (job / "job.json").write_text("{}")

    job.mkdir(parents=True)
    (job / "job.json").write_text(json.dumps(about, sort_keys=True))
    record = folder / "record.json"
    settings = {"model": {"am/final.mdl": [12, 34]}, "beam": 13.0, "n_best": 0}
    write_record(record, settings)
    decoded = folder / "decoded"
    decoded.mkdir()
    answers = [{"result": [{"word": "a", "start": 0.5, "end": 1, "conf": 0.5}], "text": "a"}]
    answers.append({"alternatives": [{"text": "a b", "confidence": 3.5, "result": answers[0]["result"]}]})
    rows = [
        {"utterance": f"u{i}", "seconds": 1.5, "sound": ["a.wav", 12, 34], "overshoot": 0.0, "answers": [one]}
        for i, one in enumerate(answers)
    ]
    (decoded / "results.1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (decoded / ".lat.1.part").write_bytes(b"")
    vosk = folder / "vosk"
    vosk.mkdir()
    (vosk / "mfcc.conf").write_text("--beam=13.0\n--lattice-beam=6.0\n")
    beams = VoskFolder(vosk)

    def beam() -> None:
        beams.lattice_beam  # noqa: B018  # read where it is asked for
        with_option(beams.settings(), LATTICE_BEAM, 4.0)

    def at(place: Path, read: Callable[[], object], *more: Path) -> Reader:
        return Reader(_at(place, read), _seed(place) + [seed for path in more for seed in _seed(path)])

    score = folder / "scored"
    return {
        "certificate": at(Path(f"{model}.json"), certificate, folder / "trained.json"),
        "record": at(record, lambda: go_on(record, settings, "others")),
        "job": at(job / "job.json", begun),
        "vosk-results": at(decoded / "results.1.jsonl", lambda: read_results(decoded)),
        "vosk-conf": at(vosk / "mfcc.conf", beam),
        "best_wer": at(scored / "best_wer", lambda: results.read_wer(score)),
        "wer_bootci": at(scored / "wer_details" / "wer_bootci", lambda: results.read_wer(score)),
        "comparison": at(scored / "wer_details" / "comparison", lambda: results.read_wer(score)),
        "lmwt": at(scored / "wer_details" / "lmwt", lambda: best_point(str(score))),
        "ppl": _perplexities(folder),
    }


def _perplexities(folder: Path) -> Reader:
    """The table of a recipe, from the perplexities of its models."""
    import results

    part = folder / "table" / "exp" / "x"
    (part / "ppl").mkdir(parents=True)
    rows = [{"text": "data/x/eval.txt.gz", "sentences": 2, "words": 7, "oov": 1, "ppl": 123.5, "ppl_unk": 100.25}]
    (part / "ppl" / "background.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    place = part / "ppl" / "background.jsonl"
    return Reader(_at(place, lambda: results.collect("x", [part])), _seed(place), share=0.3)


# ---- what the scripts of the recipe read


def _recipe(folder: Path) -> dict[str, Reader]:
    sys.path.insert(0, str(ROOT / "local"))
    sys.path.insert(0, str(ROOT / "utils"))
    import cost
    import estimate_cost
    import normalize_text
    import prepare_corpus
    import validate_data

    from mdi.cluster import queue_settings
    from mdi.errors import MdiError
    from mdi.fst.formats import _unknown
    from mdi.fst.symbols import read_symbols
    from mdi.spoken import Speller, spoken_text

    sets = folder / "sets"
    sets.mkdir()
    for name in ("train", "background", "eval"):
        (sets / f"{name}.txt.gz").write_bytes(gzip.compress((folder / "text").read_bytes(), mtime=0))
    (sets / "vocab.txt").write_text("a\nb\nc\né\n")
    (sets / "sets").write_text("eval\n")
    lang = folder / "lang"
    lang.mkdir()
    (lang / "words.txt").write_bytes((folder / "words.txt").read_bytes())
    (lang / "oov.int").write_text("5\n")
    symbols = read_symbols(str(lang / "words.txt"))

    def valid() -> None:
        if wrong := validate_data.check(sets):
            raise MdiError(wrong[0])

    def costs(path: str) -> None:
        cost.count_ngrams(Path(path)), cost.count_words(Path(path))

    def normalized(path: str) -> None:
        for block in normalize_text._blocks([path]):
            normalize_text._normalize((block, "upper", True))

    speller = Speller(["he", "paid", "it's", "café", "今天", "天气", "one", "thirty"], "en")
    prose = ["“He” paid $3.50, it’s 31°.\nCAFÉ-he http://x.org 今天天气 [unk]\n".encode(), "café\n".encode("latin1")]
    conf = [b'# mine\nnj=2 order=3\nset_data="dev=a eval=b"\n', b"thresholds=2-2-2\ncmd+=x\n"]
    packed = [gzip.compress(data, mtime=0) for data in (*_seed(folder / "text"), *_seed(folder / "lm"))]
    found = {
        "conf": Reader(Settings(folder), conf, share=0.1, starts_processes=True),
        "cost": Reader(costs, _seed(folder / "lm") + packed),
        "cost-segments": Reader(
            _at(folder / "data" / "segments", lambda: estimate_cost.seconds_of_speech(folder / "data")),
            [KALDI_FILES["segments"]],
        ),
        "normalize": Reader(normalized, [b"He paid $3.50 on 12/3/1999, didn't he?\nMr. Smith (aged 42) said: 1st!\n"]),
        "spoken": Reader(lambda path: spoken_text(path, speller), [*prose, gzip.compress(prose[0], mtime=0)]),
        "corpus-text": Reader(lambda path: list(prepare_corpus.whole_lines(path)), _seed(folder / "text")),
        "corpus-words": Reader(prepare_corpus.words_of_model, _seed(folder / "lm")),
        "sets": Reader(_at(sets / "sets", valid), _seed(sets / "sets")),
        "set-text": Reader(_at(sets / "eval.txt.gz", valid), _seed(folder / "text") + _seed(sets / "eval.txt.gz")),
        "set-vocab": Reader(_at(sets / "vocab.txt", valid), _seed(sets / "vocab.txt")),
        "oov.int": Reader(_at(lang / "oov.int", lambda: _unknown(symbols)), _seed(lang / "oov.int")),
    }
    if find_spec("yaml"):
        yaml = (ROOT / "local" / "conf" / "slurm.yaml").read_bytes()
        found["queue"] = Reader(lambda path: queue_settings(path, "slurm"), [yaml])
    return found


class Settings:
    """A .conf of run.sh: the shell that reads it must do nothing else. One shell reads many, each in a fork of its
    own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shell, self.owner = folder, None, 0
        options = "".join(f"{name}={value}  # x\n" for name, value in SETTINGS.items())
        (folder / "settings.sh").write_text(
            f'mdi_log=x\n. "{ROOT}/utils/script_common.sh"\n{options}parse_options\nset +e\n'
            f"while read -r file; do\n"
            f'  said=$( (set -e; read_settings "$file") 2>&1); code=$?\n'
            f'  printf \'%s %q\\n\' "$code" "$said"\ndone\n'
        )

    shell: subprocess.Popen[str] | None

    def __call__(self, path: str) -> None:
        from mdi.errors import MdiError

        if self.shell is None or self.owner != os.getpid():
            self.owner = os.getpid()
            self.shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", str(self.folder / "settings.sh")],
                cwd=self.folder,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                errors="replace",
            )
        asked: IO[str] | None = self.shell.stdin
        answers: IO[str] | None = self.shell.stdout
        assert asked
        assert answers
        asked.write(f"{path}\n")
        asked.flush()
        code, _, said = answers.readline().replace("\\ ", " ").partition(" ")
        if not code or (code != "0" and "expected" not in said and "no option" not in said):
            raise AssertionError(f"exit code {code}: {said[-300:]!r}")
        if code != "0":
            raise MdiError("refused")
