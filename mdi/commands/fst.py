"""G.fst from a model: the same as mdi convert --format fst, under another name."""

from __future__ import annotations

import argparse

from mdi.commands import convert
from mdi.commands.convert import run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{__doc__}\n\n{convert.__doc__}"
    convert.add_arguments(parser, form="fst")
