"""What was written, as OpenFst itself finds it, where its Python module is installed (pywrapfst, which pynini brings).

Not for a process that recognises speech: libvosk has an OpenFst inside, and hangs beside another one.
"""

from importlib.util import find_spec
from typing import Any

from mdi.errors import MdiError
from mdi.files import is_stream, read_bytes


def verify(path: str, size: tuple[int, int]) -> bool:
    """Reads the file with OpenFst and refuses it unless that finds a sound automaton of `size`, as many states and arcs
    as were to be written. False where it cannot be asked."""
    if is_stream(path) or find_spec("pywrapfst") is None:
        return False
    import pywrapfst

    try:
        with open(path, "rb") as stream:  # by its number: OpenFst takes no name that is not UTF-8
            fst: Any = (
                pywrapfst.Fst.read_from_string(read_bytes(path))
                if path.endswith(".gz")
                else pywrapfst.Fst.read(f"/dev/fd/{stream.fileno()}")
            )
    except pywrapfst.FstIOError as error:
        raise MdiError(f"{path}: OpenFst cannot read what was written ({error}); is the disk full?") from error
    sound, found = fst.verify(), (fst.num_states(), sum(fst.num_arcs(state) for state in fst.states()))
    if found != size or not sound:
        raise MdiError(
            f"{path}: OpenFst finds {found[0]:,} states and {found[1]:,} arcs{'' if sound else ', damaged'}; expected "
            f"{size[0]:,} and {size[1]:,}. Write it again"
        )
    return True
