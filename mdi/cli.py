"""`mdi <verb> [--option value] inputs output`: the only place that exits, and the only one that catches MdiError."""

import argparse
import atexit
import contextlib
import gc
import importlib
import os
import re
import signal
import sys
import time
import warnings

from mdi import __version__
from mdi.arguments import Parser, declare
from mdi.errors import ConvergenceWarning, MdiError, OptionError, UsageError
from mdi.memory import let_go_of_compiler, tame_allocator
from mdi.progress import messages_shown

# One module of mdi.commands per verb, imported when its verb is called: `mdi --help` is instant.
VERBS = {
    "demo": "show an adaptation in a minute: two small texts, perplexity before and after",
    "vocab": "choose the words that models are built over",
    "train": "estimate a back-off model from text (Kneser-Ney, Witten-Bell)",
    "counts": "write expected counts of n-grams from lattices, n-best lists and confidences",
    "adapt": "adapt a background model to in-domain text (MDI)",
    "apply": "make the model of an adaptation from its background and its delta",
    "list-deltas": "print a table of deltas, which are adaptations as small files",
    "tune": "search thresholds, prior and mixture weights for the best model on development text",
    "match": "give a small model the marginals of a large one, at the same size",
    "mix": "interpolate models linearly, weights tuned on development text",
    "prune": "drop the n-grams that matter least (relative entropy)",
    "ppl": "print the perplexity of texts under a model",
    "convert": "convert a model to another format: ARPA, G.fst, Gr.fst (ngram FST), G.carpa, k2",
    "fst": "make G.fst from a model, as Kaldi's arpa2fst does: convert --format fst",
    "rescore": "replace the language model in lattices, exactly",
    "adapt-recordings": "adapt to each recording's own lattices, without transcripts, and rescore them",
    "vosk adapt": "adapt the language models of a Vosk directory to text, or to recordings",
    "vosk add-words": "add words to a Vosk directory, without any text",
    "vosk replace-lm": "replace the language model of a Vosk directory",
    "vosk decode": "decode a Kaldi data directory with libvosk: text, ctm, lattices",
    "g2p train": "learn letters and phones from a lexicon, to pronounce words that it lacks",
    "g2p apply": "find pronunciations for the words of a list",
    "lang extend": "add words to a lang directory of Kaldi",
    "score": "compute WER over LM weights and insertion penalties, with significance",
    "check": "check a model: format, closure, sums, what Kaldi would stumble on",
}
MOST_WANTED = ("adapt", "tune", "ppl", "vosk adapt", "demo")

# Modules of the optional dependencies and who brings them: decoding and scoring need them, language models not.
EXTRA_OF = {"kaldialign": "speech", "num2words": "text", "soundfile": "vosk", "vosk": "vosk"}
EXTRA_OF |= dict.fromkeys(("dask", "distributed", "dask_jobqueue"), "cluster")


def _verb(argv: list[str]) -> str:
    """The verb that the arguments begin with, of one word or, as `vosk adapt`, of two."""
    group = next((f"{argv[0]} " for verb in VERBS if argv and verb.startswith(f"{argv[0]} ")), "")
    verbs = {verb.removeprefix(group): text for verb, text in VERBS.items() if verb.startswith(group)}
    prog, words = f"mdi {group}".rstrip(), argv[bool(group) :][:1]
    width = max(map(len, verbs)) + 2
    listed = [f"  {verb:{width}}{text}" for verb, text in verbs.items()]
    if most := [line for verb, line in zip(verbs, listed, strict=True) if verb in MOST_WANTED]:
        rest = [line for line in listed if line not in most]
        listed = ["what most people want:", *most, "", "all the rest:", *rest]
    parser = Parser(
        prog=prog,
        description=None if group else "MDI adaptation of n-gram language models.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join([*listed, "", f"{prog} verb --help lists the options of a verb."]),
    )
    parser.add_argument("--version", action="version", version=f"mdi {__version__}")
    first = dict.fromkeys(verb.split()[0] for verb in verbs)
    parser.add_argument("verb", metavar="verb", choices=list(first), help="one of those below")
    if not words:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    return group + str(parser.parse_args(words).verb)


def main(argv: list[str] | None = None, *, own_process: bool = False) -> int:
    """Runs one command. Returns 0 when done, 1 for the user's data or a model that did not converge, 2 for options and
    arguments that make no sense; of those that do not exist argparse exits with 2. In a process of its own it starts
    sooner."""
    argv = sys.argv[1:] if argv is None else argv
    verb = _verb(argv)
    command = importlib.import_module(f"mdi.commands.{re.sub('[ -]', '_', verb)}")
    parser = Parser(
        prog=f"mdi {verb}", description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    declare(parser, command.OPTIONS)
    args = parser.parse_intermixed_args(argv[len(verb.split()) :], argparse.Namespace(started=time.monotonic()))
    tame_allocator()
    if own_process:
        from mdi.kernels import start_lightly

        start_lightly()
        let_go_of_compiler()
    code = 1
    try:
        with messages_shown(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # commands say it in their own words
            done: int = command.run(args) or 0
        sys.stdout.flush()  # what does not fit shows here, and not when nobody can say it any more
        return done
    except OptionError as error:
        code, what = 2, f"--{error.name.replace('_', '-')} {error.value}; expected {error.expected}"
    except MdiError as error:
        code, what = 1 + isinstance(error, UsageError), str(error)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_OF:
            raise
        extra = EXTRA_OF[error.name]
        what = f"the package {error.name} is not installed; run: pip install 'mdi-lm[{extra}]'"
    except BrokenPipeError:  # the reader of our standard output has gone
        what = ""
    except OSError as error:  # of the machine: no file that was read or written, of which files.py speaks
        what = f"{error.filename or 'standard output'}: {error.strerror or error}"
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        what = "cannot start a thread: too many processes or too little memory (ulimit -u, ulimit -v)"
    except MemoryError as error:
        what = f"not enough memory: {error}" if str(error) else "not enough memory"
    if what:
        print(f"mdi {verb}: {what}", file=sys.stderr)
    return code


def _open_standard_streams() -> None:
    """Whoever closed one must not have its number given to the next file that is opened. What is printed is lost
    silently on standard error, and an error on standard output."""
    for number, how in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, how)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C in a callback of a library that is being loaded would be printed and forgotten."""
    if lost.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)  # when the callback is over, or else once more
    else:
        sys.__unraisablehook__(lost)


def entry_point() -> None:
    gc.set_threshold(100_000)  # starting makes many objects and leaves no garbage: a tenth of the time
    sys.unraisablehook = _interrupt_again
    # the few products of vectors here need no help, but BLAS's threads would spin, waiting for more, and take a core
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _open_standard_streams()
    try:
        code = main(own_process=True)
    except KeyboardInterrupt:  # outputs have been taken back on the way here; die as the shell expects it
        print(f"mdi {' '.join(sys.argv[1:2])}: interrupted; nothing is left half-written", file=sys.stderr)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        code = 130
    if code:  # what could not be printed must not be tried again at the end
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.exit(code)
        os._exit(code)
    # all is written: what is left to do, such as removing temporary folders, is done, but no object is taken apart
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(0)
