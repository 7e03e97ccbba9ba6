"""Shows in a minute, without a network, what adaptation does: a model of speeches is adapted to calls to a shop.

DIR gets the texts and the models. The commands are printed as they run; type them with files of your own.
"""

import argparse
import gzip
import os
import shlex
from importlib.resources import files

TEXTS = {
    "general.txt.gz": "five addresses on the State of the Union, in the public domain",
    "domain.txt": "calls to a garden centre",
    "test.txt": "other calls, which no model sees",
}

OPTIONS = "folder DIR? = mdi-demo  where the files go"


def run(args: argparse.Namespace) -> int:
    from mdi.cli import main
    from mdi.files import make_folder, write_file
    from mdi.from_files import perplexity

    folder = make_folder(args.folder)
    for name, what in TEXTS.items():
        data = files("mdi").joinpath("demo_texts", name).read_bytes()
        write_file(folder / name, gzip.decompress(data) if name.endswith(".gz") else data)  # packs what ends in .gz
        print(f"{args.folder}/{name:15} {what}")
    os.chdir(folder)
    for command in ("train general.txt.gz general.arpa.gz", "adapt general.arpa.gz domain.txt adapted.arpa.gz"):
        print(f"\n$ mdi {command}", flush=True)
        if code := main(shlex.split(command)):
            return code
    before, after = (perplexity(f"{name}.arpa.gz", "test.txt") for name in ("general", "adapted"))
    print(
        f"\nPerplexity of test.txt: among how many equally likely words the model would have to guess, on average:\n"
        f"  general.arpa.gz  {before.ppl:6.1f}   {before.oov} of {before.words} words unknown, scored as <unk>\n"
        f"  adapted.arpa.gz  {after.ppl:6.1f}   {after.oov} unknown\n\n"
        f"Next: look at {args.folder}/adapted.arpa.gz.json, the certificate. Then adapt a model of your own:\n"
        f"  mdi adapt YOUR.arpa.gz YOUR.txt adapted.arpa.gz\n"
        f"  mdi vosk adapt vosk-model-small-en-us-0.15 YOUR.txt adapted-model"
    )
    return 0
