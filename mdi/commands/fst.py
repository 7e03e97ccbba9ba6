"""Makes G.fst from a model: the same as mdi convert --format fst."""

from mdi.commands import convert
from mdi.commands.convert import run as run

__doc__ = f"{__doc__}\n\n{convert.__doc__}"
OPTIONS = convert.options_for("fst")
