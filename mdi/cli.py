"""`mdi <verb> [--option value] inputs output`: the only place that exits, and the only one that catches MdiError."""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import warnings

from mdi import __version__
from mdi.errors import ConvergenceWarning, MdiError, OptionError
from mdi.memory import tame_allocator

# One module of mdi.commands per verb, imported when its verb is called: `mdi --help` is instant.
VERBS = {
    "vocab": "choose the words that models are built over",
    "train": "count text and estimate a back-off model (Kneser-Ney, Witten-Bell)",
    "counts": "expected counts of n-grams from lattices, n-best lists and hypotheses with confidences",
    "adapt": "adapt a background model to in-domain text (MDI)",
    "apply": "make the model of an adaptation from its background and its delta",
    "deltas": "a table of deltas: adaptations as small files",
    "tune": "search thresholds, prior and mixture weights for the best model on development text",
    "match": "give a small model the marginals of a large one, at the same size",
    "mix": "interpolate models linearly, weights tuned on development text",
    "prune": "drop the n-grams that matter least (relative entropy)",
    "ppl": "perplexity of texts under a model",
    "convert": "turn a model into another form: ARPA, G.fst, Gr.fst (ngram FST), G.carpa",
    "fst": "G.fst from a model, as Kaldi's arpa2fst makes it",
    "graph": "HCLG.fst for the built-in acoustic model, from a lexicon and a language model",
    "decode": "first-pass decoding of a Kaldi data folder to lattices",
    "rescore": "exchange the language model in lattices, exactly",
    "vosk": "adapt the models in a Vosk folder, decode with libvosk",
    "score": "WER over LM weights and insertion penalties, confidence, significance, oracle",
    "check": "look a model over: format, closure, sums, what Kaldi would stumble on",
}

# Modules of the optional dependencies and who brings them: graphs, decoding and scoring need them, language models not.
EXTRA_OF = dict.fromkeys(
    ("pywrapfst", "kaldifst", "kaldi_decoder", "pocketsphinx", "kaldialign", "kaldiio"), "speech"
) | {"vosk": "vosk"}  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mdi", description="MDI adaptation of n-gram language models.", add_help=True)
    parser.add_argument("--version", action="version", version=f"mdi {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="verb", required=True)
    for verb, text in VERBS.items():
        verbs.add_parser(verb, help=text, add_help=False)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs one command. Returns 0 when done, 1 for the user's data or a model that did not converge; argparse exits
    with 2."""
    argv = sys.argv[1:] if argv is None else argv
    verb = _parser().parse_args(argv[:1]).verb
    command = importlib.import_module(f"mdi.commands.{verb}")
    parser = argparse.ArgumentParser(
        prog=f"mdi {verb}", description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_arguments(parser)
    args = parser.parse_intermixed_args(argv[1:])
    tame_allocator()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # commands say it in their own words
            return command.run(args) or 0
    except OptionError as error:
        print(f"mdi {verb}: {error.on_command_line()}", file=sys.stderr)
        return 1
    except MdiError as error:
        print(f"mdi {verb}: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_OF:
            raise
        extra = EXTRA_OF[error.name]
        print(
            f"mdi {verb}: the package {error.name} is not installed; run: pip install 'mdi-lm[{extra}]'",
            file=sys.stderr,
        )
        return 1
    except BrokenPipeError:  # the reader of our standard output has gone
        sys.stderr.close()
        return 1


def boolean(text: str) -> bool:
    """An option's true or false."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}'; expected true or false")
    return text.lower() == "true"


def entry_point() -> None:
    gc.set_threshold(100_000)  # starting makes many objects and leaves no garbage: a tenth of the time
    sys.exit(main())
