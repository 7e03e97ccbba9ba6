"""Prints a table of deltas, the small files of mdi adapt --delta: what each was made from and how, tab-separated.

KL is the divergence from the background, in nats per word. Deltas with the same background id fit the same model.
"""

import argparse
from pathlib import Path

COLUMNS = "delta bytes constraints min_counts sigma2 words KL converged background id text"

OPTIONS = "sources DIR|DELTA+  deltas, or directories of *.delta"


def run(args: argparse.Namespace) -> None:
    from mdi.adaptation.delta import read_head
    from mdi.errors import MdiError
    from mdi.files import read_bytes

    paths: list[str] = []
    for source in args.sources:
        found = sorted(map(str, Path(source).glob("*.delta"))) if Path(source).is_dir() else [source]
        if not found:
            raise MdiError(f"{source}: no *.delta in this directory; expected files of mdi adapt --delta")
        paths += found
    print(*COLUMNS.split(), sep="\t")
    for path in paths:
        data = read_bytes(path)
        head = read_head(data, path)
        made, certificate = head["made"], head["certificate"]
        kl = certificate.get("kl_to_background")
        row = [path, len(data), sum(head["ngrams"]), head["min_counts"], made.get("sigma2") or "none"]
        row += [made.get("words", ""), "" if kl is None else f"{kl:.4f}"]
        row += [str(certificate.get("converged", "")).lower(), made.get("background", ""), head["background"][:8]]
        print(*row, " ".join(map(str, made.get("in_domain", []))), sep="\t")
