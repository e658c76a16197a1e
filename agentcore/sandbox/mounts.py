"""What a confined command sees of the disk, as a list of mounts. Pure: of places that were found to be there.

Each mount covers what lies below it until a deeper one, so they are laid from the root of the file system down. A
folder above a covered place is laid over itself: a mount point cannot be renamed, so that nothing protected or hidden
is moved away together with its folder and stands in the open for the next command.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

ROOT = Path("/")
PRIVATE = (Path("/run"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - they become the command's own
"""Empty, and gone with the command: sockets of the machine's services lie there, and files of all its users."""


class Kind(Enum):
    WRITABLE = auto()
    READ_ONLY = auto()
    PRIVATE = auto()
    """An empty folder that lives as long as the command."""
    NO_FOLDER = auto()
    """An empty folder, not meant to be written."""
    NO_FILE = auto()
    """An empty file, read-only."""


@dataclass(frozen=True, slots=True)
class Places:
    """What is there now, resolved, of the places that a profile names."""

    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    hidden_folders: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    """Sockets too."""
    readable: tuple[Path, ...] = ()
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    path: Path
    kind: Kind


def arrange(places: Places) -> tuple[Mount, ...]:
    """The mounts in the order in which they are made."""
    project = Kind.READ_ONLY if places.is_read_only else Kind.WRITABLE
    laid = dict.fromkeys(PRIVATE, Kind.PRIVATE)
    laid[ROOT] = Kind.READ_ONLY
    laid |= dict.fromkeys((root for root in places.writable if not _is_below(root, places.hidden_folders)), project)
    seen = dict.fromkeys(places.readable, Kind.READ_ONLY)
    folders = dict.fromkeys(places.hidden_folders, Kind.NO_FOLDER)
    covered = {path: Kind.READ_ONLY for path in places.protected if path not in places.writable}
    covered |= folders | dict.fromkeys(places.hidden_files, Kind.NO_FILE)
    around = laid | folders | seen
    covered = {path: kind for path, kind in covered.items() if _is_seen(path, around)}
    between = {pin for path in covered for pin in _between(path, places.writable) if not _is_below(pin, seen)}
    standing = laid | covered
    pins = {pin: project for pin in between if standing[_nearest(pin, standing)] is project}  # others cannot be moved
    laid = pins | laid | covered | seen
    return tuple(Mount(path, laid[path]) for path in sorted(laid, key=lambda path: (len(path.parts), path)))


def _is_seen(path: Path, around: Mapping[Path, Kind]) -> bool:
    """Whether there would be anything at a place if nothing covered it."""
    return around[_nearest(path, around)] not in (Kind.PRIVATE, Kind.NO_FOLDER)


def _nearest(path: Path, places: Mapping[Path, Kind]) -> Path:
    """The nearest of the places above a path."""
    return next((parent for parent in path.parents if parent in places), ROOT)


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _between(path: Path, roots: Iterable[Path]) -> Iterator[Path]:
    """The folders above a place, as far as they lie inside of a root."""
    for parent in path.parents:
        if any(parent != root and parent.is_relative_to(root) for root in roots):
            yield parent
