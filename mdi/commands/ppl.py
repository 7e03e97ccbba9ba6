"""Prints the perplexity of each text under a model, as SRILM and KenLM count it.

ppl counts </s>, ppl1 does not. Words outside the vocabulary are scored as <unk> if the model has it. Otherwise they are
skipped; only then are they called OOVs, as in SRILM, whose two lines come first. The third line says how many words
were scored as <unk>, and gives the perplexity of all other tokens. Compare only models over the same words: to a model
with fewer words more of the text is <unk>, which is easy to predict. --of-words adds the perplexity of the words of a
list, such as new ones, each after its own history.
"""

import argparse
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mdi.commands import options
from mdi.commands.inputs import read_adapted, warn_of_unknown
from mdi.errors import UsageError, examples
from mdi.progress import say

if TYPE_CHECKING:
    from mdi.lm.model import NgramModel
    from mdi.lm.perplexity import Sentence

OPTIONS = f"""
lm LM  model in any form, plain or gzipped
texts TEXT+  one sentence per line, plain or gzipped
--oov map|drop|error = map  words outside the vocabulary: score them as <unk> (if the model has it), skip them, or stop
--of-words LIST  also print the perplexity of the words of this list alone
--json true|false = false  one JSON object per text
{options.WORDS}
{options.delta("LM")}
{options.IN_SHARDS}
--debug 0|1|2 = 0  1: each sentence, 2: each word, in SRILM's layout
"""


def run(args: argparse.Namespace) -> None:
    if args.debug and args.json:
        raise UsageError("--debug shows sentences as text; expected no --json")
    if isinstance(sys.stdout, io.TextIOWrapper):  # words are bytes, whatever their encoding
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    with options.sharding(args, args.lm, [args.lm, *filter(None, [args.delta])], args.memory):
        _score(args, read_adapted(args.lm, args))


def _score(args: argparse.Namespace, model: "NgramModel") -> None:
    from mdi.files import read_chunks
    from mdi.lm.perplexity import perplexity
    from mdi.lm.text import Sentences
    from mdi.lm.vocabulary import read_words

    words = read_words(args.of_words) if args.of_words else None
    if lacking := [word for word in words or () if word not in model]:
        say(
            f"{args.lm}: lacks {len(lacking):,} words of {args.of_words}, which are left out of their "
            f"perplexity: {examples(lacking)}"
        )
    for path in args.texts:
        if args.debug:  # sentences are shown as they are in the text, which may be a pipe: it is read once
            text = Sentences(b"".join(read_chunks(path)), path)
            result = perplexity(model, text, oov=args.oov, words=words, each=_printer(model, text.data, args.debug))
        else:
            result = perplexity(model, path, oov=args.oov, words=words)
        if args.json:
            print(json.dumps({"text": path, **result.as_dict()}))
            continue
        first, second = result.srilm_lines()
        print(f"file {path}: {first}\n{second}")
        scored = f"{result.oov} words scored as {model.vocab.word(model.vocab.unk)}"
        unknown = scored if result.unk_scored else "OOVs skipped"
        print(f"{unknown}; ppl without them= {result.ppl_without_oov:.7g}")
        if result.listed is not None:
            print(f"{result.listed} words of {args.of_words}; ppl of these= {result.ppl_listed:.7g}")
        warn_of_unknown(path, result.oov, result.words, result.unk_scored)


def _printer(model: "NgramModel", text: bytes, debug: int) -> "Callable[[Sentence], None]":
    """Prints a sentence as it is in the text, its words' probabilities, its perplexity and a blank line."""
    lines = _sentences(text)

    def show(sentence: "Sentence") -> None:
        print(next(lines))
        if debug == 2:
            for line in sentence.srilm_words(model):
                print(line)
        print(*sentence.perplexity(model).srilm_lines(), "", sep="\n")

    return show


def _sentences(text: bytes) -> Iterator[str]:
    """The lines that are not blank, their words separated by single blanks, without <s> and </s>."""
    from mdi.lm.vocabulary import BOS, EOS, to_str

    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        words = [word for word in re.split(r"[ \t]+", to_str(line.rstrip(b"\r \t"))) if word]
        if words:
            yield " ".join(word for word in words if word not in (BOS, EOS))
