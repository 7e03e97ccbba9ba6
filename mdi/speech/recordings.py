"""Lattices by what they have in common: those of a recording, a speaker, a scene, in one pass over all archives."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from mdi.errors import MdiError, examples
from mdi.lm.vocabulary import to_bytes
from mdi.progress import get_logger
from mdi.speech.data import DataFolder, read_groups, read_rows
from mdi.speech.lattice import Lattice

logger = get_logger(__name__)

RECORDING, SPEAKER = "recording", "speaker"
LONGEST = 200  # bytes of a name to which something is added


def utterance_groups(by: str | None, data: DataFolder | None) -> dict[str, str]:
    """The group of every utterance: its recording (of segments), its speaker (of utt2spk), or what the file `by` says.
    Without `by`: recordings where there are segments, speakers where there are none."""
    if by is not None and by not in (RECORDING, SPEAKER):
        return read_groups(by, "group")
    if data is None:
        raise MdiError("no utterance is known to belong to another; give --data DATA or --groups FILE (like utt2spk)")
    if by is None:
        by = RECORDING if data.has("segments") else SPEAKER
    path = data.path / ("segments" if by == RECORDING else "utt2spk")
    if not path.exists():
        raise MdiError(f"{path}: not there; expected the {by} of every utterance. Or give --groups FILE")
    if by == SPEAKER:
        return read_groups(path)
    return {name: row.fields[0] for name, row in read_rows(path).items() if row.fields}


def file_names(groups: Iterable[str]) -> dict[str, int]:
    """The groups in their order, numbered from 1; refused where they cannot be names of files."""
    found = {group: number for number, group in enumerate(dict.fromkeys(groups), 1)}
    bad = [group for group in found if Path(group).name != group or "\0" in group or len(to_bytes(group)) > LONGEST]
    if bad:
        raise MdiError(
            f"groups {examples([name[:40] for name in bad])}; expected names that files can have, without '/'"
        )
    return found


def grouped(lattices: Iterable[Lattice], group_of: dict[str, str]) -> Iterator[tuple[str, list[Lattice]]]:
    """Each group with its lattices as soon as all of them have come; at the end those of which some are missing.
    Archives in the order of the groups, as Kaldi sorts them, are never held in memory as a whole."""
    missing = Counter(group_of.values())
    waiting: dict[str, list[Lattice]] = {}
    seen: set[str] = set()
    for lattice in lattices:
        group = group_of.get(lattice.utterance)
        if group is None:
            raise MdiError(f"lattice of utterance {lattice.utterance}: in no group; expected every utterance in one")
        if lattice.utterance in seen:
            raise MdiError(
                f"two lattices of utterance {lattice.utterance}; expected one. Are there archives of an older decoding?"
            )
        seen.add(lattice.utterance)
        waiting.setdefault(group, []).append(lattice)
        missing[group] -= 1
        if not missing[group]:
            yield group, waiting.pop(group)
    if lost := sum(missing.values()):
        names = [name for name in group_of if name not in seen]
        logger.warning(
            f"WARNING: no lattices of {lost:,} utterances, such as {examples(names)}; the others go without them"
        )
    yield from waiting.items()
