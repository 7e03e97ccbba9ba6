"""Adapts the language models in a Vosk model's folder to text, and decodes Kaldi data folders with libvosk.

    mdi vosk adapt [options] MODEL_DIR TEXT[.gz]... OUT_DIR     a folder for vosk.Model(), adapted to the text
    mdi vosk adapt --recordings DATA_DIR MODEL_DIR OUT_DIR      adapted to what it recognises itself
    mdi vosk put [options] MODEL_DIR LM OUT_DIR                 the same with a model that is ready, in any form
    mdi vosk put --delta A.delta MODEL_DIR OUT_DIR              or with its own, as mdi adapt --delta has adapted it
    mdi vosk decode [options] MODEL_DIR DATA_DIR DIR            text, ctm and with --n-best also lattices of the data

adapt: a model with a dynamic graph (graph/Gr.fst) gets another Gr.fst, and what it has in rescore/ is adapted too. A
static graph (HCLG.fst) cannot be changed: rescore/G.carpa is adapted, or made if --first-pass gives the model that the
graph was made with. With --dev thresholds, prior and mixture weights are searched as by mdi tune; without it they are
--min-counts 1 --sigma2 1. OUT_DIR has a certificate, mdi.json, and the words of the text that the model cannot
recognise, unknown_words.txt. Of MODEL_DIR it has what libvosk reads: large files as links, small ones as
copies.

adapt --recordings: no transcripts are needed. DATA_DIR is decoded, the model is adapted to expected counts of what was
recognised (words with their confidences, or --n-best), beside TEXT if there is some, and DATA_DIR is decoded again.
OUT_DIR.decoded/ has both decodings, before/ and after/; where DATA_DIR has references, they are scored and compared.

--delta takes files of mdi adapt --delta whose background is a language model of MODEL_DIR (or LM): put writes a folder
with the adapted model, decode uses it for the while.

decode: 16 kHz, one channel. A decoding that was stopped goes on with the utterances that are missing. A line of wav.scp
that ends in '|' is a command, as in Kaldi; with --allow-pipes true, for data that you trust, it is run in a shell.
With --n-best the words are those of the best path, otherwise those of least expected error (both
are libvosk's); lat.1.gz is for mdi rescore and mdi score, an LM weight of 10 being the one that decoded.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.cli import boolean
from mdi.commands import options as shared
from mdi.errors import MdiError, OptionError, check_positive, examples
from mdi.progress import say, set_verbose

if TYPE_CHECKING:
    from mdi.lm.counts import Counts
    from mdi.lm.model import NgramModel
    from mdi.speech.vosk import VoskFolder
    from mdi.speech.vosk_decode import Recognised

_Plan = tuple[dict[str, Path], dict[str, Path | str]]
# Lattices of a smaller beam hold too few sequences for rescoring to choose from.
RESCORING_BEAM = 6.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("adapt", "put", "decode"))
    parser.add_argument("files", metavar="FILE", nargs="+", help="see above")
    add = parser.add_argument_group("adapt").add_argument
    add("--dev", metavar="TEXT", help="development text: search for the best model on it, as mdi tune does")
    add("--max-settings", type=int, default=32, metavar="N", help="end that search after so many settings (32)")
    add("--recordings", metavar="DATA_DIR", help="adapt to what is recognised of this Kaldi data folder")
    add("--count-weight", type=float, default=1.0, metavar="W", help="factor of counts of what was recognised (1)")
    add("--min-counts", metavar="N-N-N",
        help="without --dev: constrain n-grams seen so often (1; with --recordings 0.5)")  # fmt: skip
    add("--sigma2", default="1", metavar="V[-V-V]", help="without --dev: variance of the prior, or none (1)")
    add("--large", metavar="LM", help="rescore with this model, as it is, whatever its form")
    add("--first-pass", metavar="LM", help="the model that a static graph (HCLG.fst) was made with")
    add("--ppl", metavar="TEXT", action="append", default=[],
        help="print this text's perplexity before and after; may be repeated (--dev, or the text)")  # fmt: skip
    add("--threads", type=int, default=2, metavar="N", help="results do not depend on it (2)")
    add = parser.add_argument_group("put, decode").add_argument
    add("--delta", metavar="A.delta", action="append", default=[],
        help="adapt a model of the folder, or LM, with this file; may be repeated")  # fmt: skip
    add = parser.add_argument_group("decode, adapt --recordings").add_argument
    add("--nj", type=int, default=1, metavar="N", help="threads (1)")
    add("--allow-pipes", type=boolean, default=False, metavar="true|false",
        help="run the commands that wav.scp has for recordings, in a shell; false: refuse them (false)")  # fmt: skip
    add("--n-best", type=int, default=0, metavar="N",
        help="also the N best sequences of each utterance, with scores, as a list and as lattices (0)")  # fmt: skip
    add("--lattice-beam", type=float, metavar="B",
        help="of the lattices (the model's; adapt: at least 6 where lattices are rescored)")  # fmt: skip


def run(args: argparse.Namespace) -> int | None:
    if args.lattice_beam is not None:
        check_positive("lattice_beam", args.lattice_beam)
    for name in ("nj", "threads", "max_settings", "count_weight"):
        check_positive(name, getattr(args, name))
    if args.n_best < 0:
        raise OptionError("n_best", args.n_best, "a number of sequences, or 0")
    if args.delta and args.action == "adapt":
        raise MdiError(
            "--delta is for put and decode; mdi adapt --delta OUT.delta MODEL_DIR/graph/Gr.fst TEXT writes one"
        )
    if args.recordings and (args.action != "adapt" or args.dev):
        raise MdiError("--recordings is for adapt, and without --dev; expected either")
    return {"adapt": _adapt, "put": _put, "decode": _decode}[args.action](args)


def _adapt(args: argparse.Namespace) -> int:
    from mdi.speech.vosk import check_new_folder, find_vosk_folder

    started = time.monotonic()
    set_verbose(False)
    if len(args.files) < (2 if args.recordings else 3):
        raise MdiError("expected MODEL_DIR TEXT... OUT_DIR, or --recordings DATA_DIR MODEL_DIR [TEXT...] OUT_DIR")
    model_dir, *texts, out = args.files
    args.min_counts = args.min_counts or ("0.5" if args.recordings else "1")
    source = find_vosk_folder(model_dir)
    check_new_folder(Path(out), source)
    for path in [*texts, *args.ppl, *([args.dev] if args.dev else [])]:
        if path != "-" and not Path(path).is_file():
            raise MdiError(f"{path}: no such file; expected text, one sentence per line")
    plan = _plan(args, source)
    options = {name: getattr(args, name) for name in ("min_counts", "sigma2", "max_settings", "count_weight", "n_best")}
    content = {"in_domain": texts, "development": args.dev, "recordings": args.recordings, "options": options}
    if not args.recordings:
        return _adapt_folder(args, source, plan, texts, [], content, started)
    _decoded(args, model_dir, "before")
    return _adapt_to_itself(args, source, plan, texts, content, started)


def _adapt_to_itself(
    args: argparse.Namespace, source: VoskFolder, plan: _Plan, texts: list[str], content: dict[str, Any], started: float
) -> int:
    """Adapts to the first decoding, unless that was done before, and decodes again."""
    import shutil

    from mdi.certificate import plain
    from mdi.files import read_json
    from mdi.speech.vosk import CERTIFICATE
    from mdi.speech.vosk_decode import read_results

    out, (before, after) = Path(args.files[-1]), _decodings(args)
    content |= {"decoded": read_json(before / "decode.json").get("model"), "ppl": args.ppl}
    known = read_json(out / CERTIFICATE) if (out / CERTIFICATE).exists() else {}
    code = 0
    if any(known.get(name) != value for name, value in plain(content).items()):
        shutil.rmtree(after, ignore_errors=True)  # of another model
        code = _adapt_folder(args, source, plan, texts, list(read_results(before).values()), content, started)
    _decoded(args, str(out), "after")
    _compare(args)
    return code


def _adapt_folder(
    args: argparse.Namespace, source: VoskFolder, plan: _Plan, texts: list[str], heard: list[Recognised],
    content: dict[str, Any], started: float,
) -> int:  # fmt: skip
    """OUT_DIR with models adapted to the texts and to what was recognised."""
    from mdi.lm.perplexity import perplexity

    adapted_from, unchanged = plan
    reported = args.ppl or ([args.dev or texts[0]] if texts else [])
    models: dict[str, NgramModel] = {}
    fields: dict[str, Any] = {}
    unknown: list[tuple[str, int]] = []
    converged = True
    for place, path in adapted_from.items():
        own = source.read(path) if source.path in path.parents else _read(str(path), source)
        say(f"{path}: {' / '.join(f'{n:,}' for n in own.trie.counts)} n-grams")
        unknown = unknown or (_unknown_words(texts, own) if texts else [])
        made, model_fields, good = _adapted(args, str(path), f"{args.files[-1]}/{place}", own, texts, heard)
        converged &= good
        before = {text: perplexity(own, text) for text in reported}
        after = {text: perplexity(made, text) for text in reported}
        for text in reported:
            note = " (which it was adapted to)" if text in texts else ""
            change = 100 * (after[text].ppl / before[text].ppl - 1)
            say(
                f"{place}: perplexity of {text}{note}: before {before[text].ppl:.2f}, after {after[text].ppl:.2f} "
                f"({change:+.1f}%); {after[text].oov:,} of {after[text].words:,} words are unknown and left out"
            )
            print(f"{place}\t{text}\t{before[text].ppl:.7g}\t{after[text].ppl:.7g}")
        model_fields["perplexity"] = {
            text: {"before": before[text].as_dict(), "after": after[text].as_dict()} for text in reported
        }
        models[place], fields[place] = made, model_fields
    for place, other in unchanged.items():
        models[place] = models[str(other)] if str(other) in models else _read(str(other), source)
    content |= {
        "adapted": fields, "unknown_words": len(unknown), "unknown_tokens": sum(n for _, n in unknown),
    }  # fmt: skip
    _write(args, source, models, content, started, unknown)
    return 0 if converged else 1


def _decodings(args: argparse.Namespace) -> tuple[Path, Path]:
    folder = Path(f"{args.files[-1].rstrip('/')}.decoded")
    return folder / "before", folder / "after"


def _decoded(args: argparse.Namespace, model: str, name: str) -> None:
    """Decodes the recordings, with all of the options."""
    out = _decodings(args)[name == "after"]
    out.parent.mkdir(exist_ok=True)
    asked = argparse.Namespace(**{**vars(args), "action": "decode", "files": [model, args.recordings, str(out)]})
    if asked.lattice_beam is None and asked.n_best:
        asked.lattice_beam = RESCORING_BEAM
    _decode(asked)


def _compare(args: argparse.Namespace) -> None:
    """WER of both decodings, and whether they differ, where there are references."""
    from mdi.speech.data import DataFolder, read_text
    from mdi.speech.score import AS_RECOGNISED, BestPaths, compare, write_scores

    data = DataFolder(Path(args.recordings))
    if not data.has("text"):
        return
    before, after = _decodings(args)
    for folder in (before, after):
        found = BestPaths({AS_RECOGNISED: read_text(folder / "text")})
        write_scores(str(folder), found, data.text(), data.speakers(), "strict")
        print((folder / "scoring_kaldi" / "best_wer").read_text(), end="")
    print(compare(str(after), [str(before)], data.text(), "strict"), end="")


def _put(args: argparse.Namespace) -> None:
    from mdi.speech.vosk import check_new_folder, find_vosk_folder

    started = time.monotonic()
    if len(args.files) != 3 and not (args.delta and len(args.files) == 2):
        raise MdiError("expected MODEL_DIR LM OUT_DIR, or --delta A.delta MODEL_DIR OUT_DIR")
    source = find_vosk_folder(args.files[0])
    check_new_folder(Path(args.files[-1]), source)
    adapted, unchanged = _plan(args, source)
    if len(args.files) == 2:
        models = _own_adapted(args, source)
    else:
        ready = _read(args.files[1], source)
        models = dict.fromkeys(adapted, _with_deltas(args, ready, args.files[1]))
        for place, path in unchanged.items():
            models[place] = models[str(path)] if str(path) in models else _read(str(path), source)
    _write(args, source, models, {"lm": args.files[1:-1], "deltas": args.delta}, started)


def _with_deltas(args: argparse.Namespace, model: NgramModel, name: str) -> NgramModel:
    from mdi.adaptation.delta import apply_delta

    if len(args.delta) > 1:
        raise MdiError(f"{len(args.delta)} deltas for {name}; expected one")
    return apply_delta(model, args.delta[0], name) if args.delta else model


def _own_adapted(args: argparse.Namespace, source: VoskFolder) -> dict[str, NgramModel]:
    """The folder's models that the deltas belong to, adapted, by their places."""
    from mdi.adaptation.delta import read_delta
    from mdi.lm.identity import identity

    adapted, unchanged = _plan(args, source)
    deltas = {path: read_delta(path) for path in args.delta}
    models, used = {}, set()
    for place, path in adapted.items():
        own = source.read(path) if source.path in path.parents else _read(str(path), source)
        for name, delta in deltas.items():
            if delta.background == identity(own):
                models[place] = delta.apply(own)
                used.add(name)
    if lost := [name for name in deltas if name not in used]:
        raise MdiError(
            f"{lost[0]}: is for the background {deltas[lost[0]].background}, which is none of "
            f"{', '.join(map(str, adapted.values()))}; adapt one of these (mdi adapt --delta)"
        )
    for place, other in unchanged.items():
        if isinstance(other, Path):
            models[place] = _read(str(other), source)
        elif other in models:  # lattices have the scores of what decodes
            models[place] = models[other]
    return models


def _write(
    args: argparse.Namespace, source: VoskFolder, models: dict[str, NgramModel], content: dict[str, Any],
    started: float, unknown: list[tuple[str, int]] | None = None,
) -> None:  # fmt: skip
    """The folder with these models in their places, and its certificate."""
    from mdi.certificate import write_certificate
    from mdi.files import writing
    from mdi.lm.vocabulary import to_bytes
    from mdi.speech.vosk import exchange_lm, new_folder

    out = Path(args.files[-1])
    beam = args.lattice_beam
    if beam is None and any(place.endswith("G.carpa") for place in models):
        beam = max(source.lattice_beam or 0.0, RESCORING_BEAM)
    with new_folder(source, out, models, beam) as folder:
        for place, model in models.items():
            exchange_lm(source, folder.path / place, model)
        if unknown is not None:
            with writing(str(folder.path / "unknown_words.txt")) as stream:
                stream.write(to_bytes("".join(f"{word} {n}\n" for word, n in unknown)))
        content |= {
            "command": f"vosk {args.action}", "model": args.files[0], "exchanged": sorted(models),
            "large": args.large, "first_pass": args.first_pass, "lattice_beam": beam,
        }  # fmt: skip
        write_certificate(str(folder.path / "mdi"), content, time.monotonic() - started)
    if beam is not None:
        say(f"{out}: lattice beam {beam:g} instead of {source.lattice_beam or 'the default'}")
    say(f"{out}: a Vosk model with another {', '.join(sorted(models))}; load it as any other: vosk.Model('{out}')")


def _plan(args: argparse.Namespace, source: VoskFolder) -> _Plan:
    """(place in the folder: the model that is adapted for it; place: the model that goes there as it is, or the place
    whose adapted model it is)"""

    def place(path: Path) -> str:
        return str(path.relative_to(source.path))

    adapted: dict[str, Path] = {}
    unchanged: dict[str, Path | str] = {}
    decoding, in_lattices, large = (
        place(source.first_pass),
        place(source.first_pass_in_lattices),
        place(source.rescoring),
    )
    if source.dynamic:
        if args.first_pass:
            raise MdiError(
                f"--first-pass is for static graphs; {source.path} decodes with {decoding}, which is adapted"
            )
        adapted[decoding] = source.first_pass
        if source.rescores or args.large:  # lattices have the scores of what decodes
            unchanged[in_lattices] = decoding
        if source.rescores and not args.large:
            adapted[large] = source.rescoring
    elif args.first_pass:
        unchanged[in_lattices] = Path(args.first_pass)
        if not args.large:
            adapted[large] = source.rescoring if source.rescores else Path(args.first_pass)
    elif source.rescores:
        if not args.large:
            adapted[large] = source.rescoring
    else:
        raise MdiError(
            f"{source.path}: a static graph (HCLG.fst), and no rescore/G.carpa; its language model is within it. "
            f"Give the model that the graph was made with, --first-pass LM (ARPA, G.fst): lattices will be rescored"
        )
    if args.large:
        unchanged[large] = Path(args.large)
    return adapted, unchanged


def _read(path: str, source: VoskFolder) -> NgramModel:
    """A model from outside of the folder, whose numbers, if it has no words, are the folder's."""
    from mdi.fst.formats import read_lm

    return read_lm(path, str(source.words))


def _counts(args: argparse.Namespace, own: NgramModel, texts: list[str], heard: list[Recognised]) -> Counts:
    """Of the texts, and expected ones of what was recognised."""
    from mdi.lm.counts import add_counts, count_text, scaled_counts
    from mdi.speech.expected_counts import graph_counts
    from mdi.speech.vosk_decode import word_graphs
    from mdi.speech.word_graph import Labels

    labels = Labels()
    graphs = list(word_graphs(heard, labels))
    if not graphs:
        raise MdiError(f"{args.recordings}: not a word was recognised; is there speech in it?")
    believed = graph_counts(graphs, labels, own.vocab, own.order)
    say(f"recognised: {believed.stats.sentences:,} utterances, {believed.stats.words:,} words expected")
    own_counts = scaled_counts(believed, args.count_weight)
    return add_counts(count_text(list(map(Path, texts)), own.vocab, own.order), own_counts) if texts else own_counts


def _adapted(
    args: argparse.Namespace, path: str, out: str, own: NgramModel, texts: list[str], heard: list[Recognised]
) -> tuple[NgramModel, dict[str, Any], bool]:
    """(the model, fields for the certificate, whether it converged)"""
    from mdi.adaptation.adapter import adapt
    from mdi.adaptation.tune import tune
    from mdi.lm.normalise import check_normalised

    check_normalised(path, own)
    sources = _counts(args, own, texts, heard) if heard else list(map(Path, texts))
    if args.dev:
        tuned = tune(own, sources, args.dev, max_order=own.order, max_settings=args.max_settings, threads=args.threads)
        fields = shared.checked_fields(tuned.adapted, out)
        fields |= {
            **shared.sum_fields(tuned.model, out, "ngram"), "ngrams": tuned.model.trie.counts,
            "setting": str(tuned.setting),
            "weights": tuned.weights, "development_ppl": tuned.development.ppl,
            "interpolation_ppl": tuned.interpolation, "ended": tuned.ended,
        }  # fmt: skip
        parts = ", ".join(f"{weight:.3f} {name}" for name, weight in tuned.weights.items())
        say(f"chosen of {len(tuned.trials)} settings: {tuned.setting}; mixed: {parts}; plain interpolation would have "
            f"development perplexity {tuned.interpolation:.2f}, this one {tuned.development.ppl:.2f}")  # fmt: skip
        return tuned.model, fields, shared.say_result(tuned.adapted, out)
    sigma2 = shared.parse_variances(args.sigma2)
    adapted = adapt(own, sources, args.min_counts, sigma2=sigma2, threads=args.threads)
    fields = shared.checked_fields(adapted, out) | shared.sum_fields(adapted.model, out, "ngram")
    return adapted.model, fields, shared.say_result(adapted, out)


def _unknown_words(texts: list[str], own: NgramModel) -> list[tuple[str, int]]:
    """Words of the texts that the model lacks, with counts, the commonest first; and a line about them."""
    from mdi.lm.word_counts import count_words

    counts = count_words(list(map(Path, texts)))
    found = [(word, int(n)) for word, n in zip(counts.words, counts.count, strict=True) if own.vocab.id(word) < 0]
    found.sort(key=lambda item: (-item[1], item[0]))
    tokens = sum(n for _, n in found)
    if 2 * tokens > counts.total:
        raise MdiError(
            f"{tokens:,} of {counts.total:,} words of the text are unknown to the model, such as "
            f"{examples([word for word, _ in found])}; expected most of them in it. Are text and model in the same "
            f"language and letter case, without punctuation, and are there no utterance names in the text?"
        )
    if found:
        listed = ", ".join(f"{word} {n}" for word, n in found[:20])
        say(
            f"{len(found):,} words of the text, {tokens:,} of {counts.total:,}, are unknown to the model, which cannot "
            f"recognise them: {listed}{' ...' if len(found) > 20 else ''}. All are in unknown_words.txt. Where one can "
            f"be spelt in words that it knows ('iron stein'), do so in the text; otherwise the graph must be made "
            f"again with pronunciations for them (Vosk's documentation: adding words). The n-grams around them are "
            f"left out"
        )
    return found


def _decode(args: argparse.Namespace) -> None:
    import zlib

    from mdi.files import make_folder, read_bytes, same_file
    from mdi.speech.data import DataFolder
    from mdi.speech.vosk import changed, find_vosk_folder
    from mdi.speech.vosk_decode import decode_missing, read_results, write_outputs

    if len(args.files) != 3:
        raise MdiError("expected MODEL_DIR DATA_DIR DIR")
    model_dir, data_dir, out_dir = args.files
    source, data = find_vosk_folder(model_dir), DataFolder(Path(data_dir))
    if not data.has("wav.scp"):
        raise MdiError(f"{data_dir}/wav.scp: not there; expected a Kaldi data folder")
    if not args.allow_pipes:
        data.check_no_pipes()
    utterances = data.utterances()
    if same_file(data_dir, out_dir):
        raise MdiError(f"{out_dir}: is also the data folder, whose text would be replaced; name another folder")
    out = make_folder(out_dir)
    settings = {
        "model": source.identity(), "utterances": utterances, "n_best": args.n_best, "lattice_beam": args.lattice_beam
    }  # fmt: skip
    if args.delta:
        settings["deltas"] = sorted(zlib.crc32(read_bytes(path)) for path in args.delta)
    if not read_results(out):  # nothing was decoded: there is nothing that other settings could spoil
        (out / "decode.json").unlink(missing_ok=True)
    shared.same_settings(
        out / "decode.json", settings, "a decoding with another model, data, --n-best, --lattice-beam or --delta"
    )
    models = _own_adapted(args, source) if args.delta else {}
    with changed(source, args.lattice_beam, models) as folder:
        factor = decode_missing(folder, source.path, data, utterances, out, args.n_best, args.nj, args.allow_pipes)
        found = read_results(out)
        results = [found[utterance] for utterance in utterances]
        write_outputs(folder, results, out, args.n_best)
    seconds = sum(one.seconds for one in results)
    note = f", {factor:.2f} times real time in each of {args.nj} threads" if factor else ""
    say(f"mdi vosk decode: {len(results):,} utterances, {seconds / 60:.1f} minutes of speech{note} -> {out}")
