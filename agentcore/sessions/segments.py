"""The files that one journal consists of: one for each process that took the session over, in the order of writing.

`journal.jsonl` is the first; `journal.<generation>.jsonl` begins with that takeover. Beside them `segments.json` says
where each file but the last one ends: what a stale owner still appends behind that is no part of the journal. A
journal that nobody took over is one file, and has no `segments.json`. Places in a journal are bytes from its
beginning, over all its files.
"""

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentcore.errors import JournalDamaged
from agentcore.folders import open_regular, read_regular, sync_folder

FILE_NAME = "journal.jsonl"
FIRST = 1
"""The generation of a session that nobody took over."""
_FIXED_NAME = "segments.json"
_NEW_NAME = "segments.new"
_MAX_BYTES = 1024 * 1024  # of segments.json: tens of thousands of takeovers


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a journal."""

    path: Path
    start: int
    """Bytes of the journal before it."""
    size: int | None
    """Bytes that count; None for the last file: as far as its lines are whole."""


def segments_of(journal: Path) -> tuple[Segment, ...]:
    """The files of a journal, by the path of the first.

    Raises: JournalDamaged when one of them does not hold what counts of it, or there is one that nothing tells of.
    """
    fixed = fixed_sizes(journal.parent)
    while _has_more(journal.parent, fixed):
        before, fixed = fixed, fixed_sizes(journal.parent)
        if fixed == before:  # else it was taken over just now
            raise JournalDamaged(f"{_FIXED_NAME} of the session is missing or too old: restore it from a backup.")
    segments = _segments(journal.parent, fixed)
    for segment in segments[:-1]:
        if (damage := damage_of(segment.path, segment.size or 0)) is not None:
            raise JournalDamaged(damage)
    return segments


def damage_of(path: Path, size: int) -> str | None:
    """What is wrong with a file of which `size` bytes count, in a sentence; None when it holds them, in whole lines."""
    what = f"{path.name} of the session's journal"
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return f"{what} is missing or cut: {size} bytes of it count. Restore the file from a backup."
    except OSError as error:
        return f"{what} cannot be read: {error.strerror}."
    try:
        if os.fstat(file).st_size < size:
            return f"{what} is missing or cut: {size} bytes of it count. Restore the file from a backup."
        if size and os.pread(file, 1, size - 1) != b"\n":
            return f"{what} has no line that ends at byte {size}. Restore it and {_FIXED_NAME} from a backup."
    finally:
        os.close(file)
    return None


def _segments(directory: Path, fixed: tuple[int, ...]) -> tuple[Segment, ...]:
    segments, start = [], 0
    for generation, size in enumerate(fixed, FIRST):
        segments.append(Segment(path_of(directory, generation), start, size))
        start += size
    return (*segments, Segment(path_of(directory, FIRST + len(segments)), start, None))


def _has_more(directory: Path, fixed: tuple[int, ...]) -> bool:
    """Whether there are lines in a file behind the last one; a takeover that was cut leaves none."""
    try:
        status = path_of(directory, FIRST + len(fixed) + 1).stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def path_of(directory: Path, generation: int) -> Path:
    return directory / (FILE_NAME if generation == FIRST else f"journal.{generation}.jsonl")


def pattern_of(directory: Path) -> str:
    """How a journal's files are named to who searches them."""
    return f"{directory}/journal*.jsonl"


def fixed_sizes(directory: Path) -> tuple[int, ...]:
    """Where each file but the last one ends, in bytes. Raises: JournalDamaged."""
    try:
        sizes = json.loads(read_regular(directory / _FIXED_NAME, _MAX_BYTES))["sizes"]
        if isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes):
            return tuple(sizes)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise JournalDamaged(f"{_FIXED_NAME} of the session cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError, KeyError, TypeError):
        pass
    raise JournalDamaged(f"{_FIXED_NAME} of the session cannot be read: restore it from a backup.")


def fix_sizes(directory: Path, sizes: Sequence[int]) -> None:
    """Put the ends in force, durably, in one step: all readers see the old ones or these. Raises: OSError."""
    new = directory / _NEW_NAME
    with suppress(FileNotFoundError):
        new.unlink()
    with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(json.dumps({"generation": FIRST + len(sizes), "sizes": list(sizes)}).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(directory / _FIXED_NAME)
    sync_folder(directory)


@dataclass(frozen=True, slots=True)
class State:
    """Of a journal's files, without reading them."""

    identity: int
    """Changes when the journal is replaced or taken over."""
    size: int
    """Bytes, those of a line that is being written included."""
    modified_ns: int


def state_of(journal: Path) -> State:
    """Look at a journal's last file. Raises: JournalDamaged, OSError."""
    last = _segments(journal.parent, fixed_sizes(journal.parent))[-1]
    status = last.path.stat()
    return State(status.st_ino, last.start + status.st_size, status.st_mtime_ns)
