"""Adapts the language models of a Vosk model's directory to text, or to what it recognises itself.

A model with a dynamic graph (graph/Gr.fst) gets a new Gr.fst, and its model in rescore/ is adapted too. A static graph
(HCLG.fst) cannot be changed: rescore/G.carpa is adapted instead, or made if --first-pass names the model that the graph
was made with. With --dev, thresholds, prior and mixture weights are searched as by mdi tune; without it they are
--min-counts 1 --sigma2 1. OUT_DIR has a certificate, mdi.json, and those files of MODEL_DIR that libvosk reads: large
ones as links, small ones as copies.

Words of the text that a model with a dynamic graph does not know are added to its graph and its language models
(--new-words). Their pronunciations are worked out from the model's own lexicon and listed in OUT_DIR/new_words.tsv. To
correct them, edit that file and pass it with --lexicon.

--recordings needs no transcripts. DATA_DIR is decoded, the model is adapted to expected counts of what was recognised
(words with their confidences, or --n-best) and to TEXT if there is some, and DATA_DIR is decoded again.
OUT_DIR.decoded/ has both decodings, before/ and after/; if DATA_DIR has references, they are scored and compared.

--lm-weight and --word-penalty go into the costs of the graph, because libvosk's LM weight cannot be changed.
--dev-recordings chooses both on recordings with transcripts: from n-best lists first, then by decoding with the weight
that these suggest and with one half-way to it.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdi.commands import options, vosk_decode, vosk_weight
from mdi.commands import vosk_folders as folders
from mdi.commands.inputs import spoken_texts
from mdi.commands.outputs import report_result
from mdi.errors import UsageError
from mdi.progress import say
from mdi.record import source_of

if TYPE_CHECKING:
    from mdi.adaptation.adapted import Adapted
    from mdi.lm.counts import Counts
    from mdi.lm.model import NgramModel
    from mdi.lm.text import Sentences
    from mdi.lm.word_counts import WordCounts
    from mdi.speech.vosk.adapt import Texts
    from mdi.speech.vosk.models import Exchange
    from mdi.speech.vosk.new_words import NewWordsOfFolder, OwnWords
    from mdi.speech.vosk.results import Recognised

# What the certificate says beside what was read.
CHOICES = "min_counts sigma2 max_settings count_weight n_best normalise language new_words lexicon"

OPTIONS = f"""
model MODEL_DIR  directory of a Vosk model
texts TEXT*  text of the domain, plain or gzipped
out OUT_DIR  the new directory
--dev TEXT  development text: search for the best model on it, as mdi tune does
--max-settings N = 32  stop that search after this many settings
--recordings DATA_DIR  adapt to what is recognised in this Kaldi data directory
--count-weight W = 1  multiply the counts of recognised words by this
--min-counts N-N-N  without --dev: constrain n-grams seen so often (1; with --recordings 0.5)
--sigma2 V[-V-V] = 1  without --dev: variance of the prior, or none
{options.text("auto")}
{folders.MODELS}
[new words]
--new-words HOW = add  words that the model does not know: add, none, a number (add those seen so often), or a file with
  the words to add
{folders.LEXICON}
{folders.WEIGHT}
{folders.DEV_RECORDINGS}
--ppl TEXT*  print this text's perplexity before and after; may be repeated (--dev, or the text)
--threads N = 2  results do not depend on it
{folders.DECODING}
{folders.BEAM}
"""


def run(args: argparse.Namespace) -> int:
    for name in ("dev", "dev_recordings"):
        if args.recordings and getattr(args, name):
            raise UsageError(f"--recordings and --{name.replace('_', '-')}; expected either")
    if not args.texts and not args.recordings:
        raise UsageError("expected MODEL_DIR TEXT... OUT_DIR, or --recordings DATA_DIR MODEL_DIR [TEXT...] OUT_DIR")
    args.min_counts = args.min_counts or ("0.5" if args.recordings else "1")
    exchange = folders.begin(args)
    chosen = {name: getattr(args, name) for name in CHOICES.split()}
    content = {"in_domain": args.texts, "development": args.dev, "recordings": args.recordings, "options": chosen}
    if args.recordings:
        return _adapt_to_itself(args, exchange, content)
    code = _adapt_folder(args, exchange, [], content)
    if args.dev_recordings:
        vosk_weight.choose_weight(args)
    return code


def _adapt_to_itself(args: argparse.Namespace, exchange: "Exchange", content: dict[str, Any]) -> int:
    """Decodes, adapts to that, unless it was done before, and decodes again."""
    from mdi.certificate import plain
    from mdi.files import read_json
    from mdi.lm.new_words import as_new_words
    from mdi.speech.data import DataFolder
    from mdi.speech.vosk.adapt import NEW_WORDS, compare_decodings
    from mdi.speech.vosk.folder import CERTIFICATE
    from mdi.speech.vosk.results import read_results

    out, folder = Path(args.out), Path(f"{args.out.rstrip('/')}.decoded")
    how = args.n_best, folders.RESCORING_BEAM if args.n_best else None
    before = vosk_decode.decoded(args, args.model, args.recordings, folder / "before", *how, restart=False)
    listed = args.new_words if isinstance(as_new_words(args.new_words, NEW_WORDS), list) else None
    read = [*args.texts, *filter(None, [args.lexicon, args.large, args.first_pass, listed])]
    content |= {"decoded": read_json(before / vosk_decode.RECORD).get("model"), "ppl": args.ppl}
    content |= {"sources": [source_of(path) for path in read], "asked": [args.lm_weight, args.word_penalty]}
    known = read_json(out / CERTIFICATE) if (out / CERTIFICATE).exists() else {}
    code = 0
    if any(known.get(name) != value for name, value in plain(content).items()):
        code = _adapt_folder(args, exchange, list(read_results(before).values()), content)
    after = vosk_decode.decoded(args, str(out), args.recordings, folder / "after", *how)
    if (data := DataFolder(Path(args.recordings))).has("text"):
        compare_decodings(data, before, after)
    return code


def _adapt_folder(
    args: argparse.Namespace, exchange: "Exchange", recognised: "list[Recognised]", content: dict[str, Any]
) -> int:
    """OUT_DIR with models adapted to the texts and to what was recognised."""
    from mdi.lm.normalise import scaled_to_one
    from mdi.lm.perplexity import perplexity
    from mdi.lm.word_counts import count_words
    from mdi.speech.vosk.adapt import recognised_counts, words_of_graph, words_of_texts
    from mdi.speech.vosk.new_words import read_own_words
    from mdi.threads import meanwhile

    reported = args.ppl or ([args.dev or args.texts[0]] if args.texts else [])
    models: dict[str, NgramModel] = {}
    fields: dict[str, Any] = {}
    counts: WordCounts | None = None
    new_words: NewWordsOfFolder | None = None
    said: dict[str, Path | Sentences] = {}
    converged = True
    own_words: Callable[[], OwnWords] = partial(read_own_words, exchange.source)
    if args.texts and args.new_words != "none":  # most texts have new words, and the model is read meanwhile
        own_words = meanwhile(own_words)
    for place, path in exchange.adapted.items():
        own = exchange.read(path)
        say(f"{path}: {' / '.join(f'{n:,}' for n in own.trie.counts)} n-grams")
        own = scaled_to_one(str(path), own)
        said = said or spoken_texts(args, [*args.texts, *reported, *filter(None, [args.dev])], own)
        texts = [said[text] for text in args.texts]
        added: list[str] = []
        if texts:
            counts = counts or count_words(texts)
            new_words = new_words or words_of_texts(
                exchange.source, own_words, counts, own, args.new_words, args.lexicon
            )
            added += new_words.added
            if exchange.source.dynamic and args.new_words != "none":
                added += words_of_graph(exchange.source, counts, own)
        sources: Texts | Counts = texts
        if recognised:
            sources = recognised_counts(args.recordings, recognised, own, added, texts, args.count_weight)
        adapted, models[place], fields[place] = _adapted(
            args, f"{args.out}/{place}", own, sources, said.get(args.dev), added or "map"
        )
        converged &= report_result(adapted, f"{args.out}/{place}")
        if adapted.new_words is not None:  # perplexities compare over one vocabulary
            own = adapted.new_words.added_to(own)
        fields[place]["perplexity"] = {}
        for text in reported:
            before, after = (perplexity(model, said[text]) for model in (own, models[place]))
            note = " (which it was adapted to)" if text in args.texts else ""
            say(
                f"{place}: perplexity of {text}{note}: before {before.ppl:.2f}, after {after.ppl:.2f} "
                f"({100 * (after.ppl / before.ppl - 1):+.1f}%); {after.oov:,} of {after.words:,} words are unknown and "
                f"left out"
            )
            print(f"{place}\t{text}\t{before.ppl:.7g}\t{after.ppl:.7g}")
            fields[place]["perplexity"][text] = {"before": before.as_dict(), "after": after.as_dict()}
    content["adapted"] = fields
    folders.write_folder(args, "adapt", exchange.source, exchange.completed(models), content, new_words)
    return 0 if converged else 1


def _adapted(
    args: argparse.Namespace,
    out: str,
    own: "NgramModel",
    sources: "Texts | Counts",
    dev: "Path | Sentences | None",
    new_words: list[str] | str,
) -> "tuple[Adapted, NgramModel, dict[str, Any]]":
    """(the adaptation, the model, fields for the certificate)"""
    from mdi.adaptation.adapter import adapt
    from mdi.adaptation.tune import tune
    from mdi.saving import checked_fields, sum_fields

    how: dict[str, Any] = {"new_words": new_words, "threads": args.threads}
    if dev is None:
        adapted = adapt(own, sources, args.min_counts, sigma2=args.sigma2, **how)
        return adapted, adapted.model, checked_fields(adapted, out) | sum_fields(adapted.model, out, "ngram")
    tuned = tune(own, sources, dev, max_order=own.order, max_settings=args.max_settings, **how)
    fields = checked_fields(tuned.adapted, out) | sum_fields(tuned.model, out, "ngram")
    fields |= {"ngrams": tuned.model.trie.counts, "setting": str(tuned.setting), "weights": tuned.weights}
    fields |= {"development_ppl": tuned.development.ppl, "interpolation_ppl": tuned.interpolation, "ended": tuned.ended}
    parts = ", ".join(f"{weight:.3f} {name}" for name, weight in tuned.weights.items())
    say(
        f"chosen of {len(tuned.trials)} settings: {tuned.setting}; mixed: {parts}; plain interpolation would have "
        f"development perplexity {tuned.interpolation:.2f}, this one {tuned.development.ppl:.2f}"
    )
    return tuned.adapted, tuned.model, fields
