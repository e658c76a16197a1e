"""The files that one journal consists of: one for each process that took the session over, in the order of writing.

`journal.jsonl` is the first; `journal.<generation>.jsonl` begins with that takeover. Beside them `segments.json` says
where each file but the last one ends: what a stale owner still appends behind that is no part of the journal. A
journal that nobody took over is one file, and has no `segments.json`. Places in a journal are bytes from its
beginning, over all its files.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentcore.errors import JournalDamaged
from agentcore.folders import sync_folder

FILE_NAME = "journal.jsonl"
FIRST = 1
"""The generation of a session that nobody took over."""
_FIXED_NAME = "segments.json"
_NEW_NAME = "segments.new"


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a journal."""

    path: Path
    start: int
    """Bytes of the journal before it."""
    size: int | None
    """Bytes that count; None for the last file: as far as its lines are whole."""


def segments_of(journal: Path) -> tuple[Segment, ...]:
    """The files of a journal, by the path of the first. Raises: JournalDamaged, OSError."""
    segments, start = [], 0
    for generation, size in enumerate(fixed_sizes(journal.parent), FIRST):
        segments.append(Segment(path_of(journal.parent, generation), start, size))
        start += size
    return (*segments, Segment(path_of(journal.parent, FIRST + len(segments)), start, None))


def path_of(directory: Path, generation: int) -> Path:
    return directory / (FILE_NAME if generation == FIRST else f"journal.{generation}.jsonl")


def fixed_sizes(directory: Path) -> tuple[int, ...]:
    """Where each file but the last one ends, in bytes. Raises: JournalDamaged, OSError."""
    try:
        text = (directory / _FIXED_NAME).read_bytes()
    except FileNotFoundError:
        return ()
    try:
        sizes = json.loads(text)["sizes"]
        if isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes):
            return tuple(sizes)
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
    last = segments_of(journal)[-1]
    stat = last.path.stat()
    return State(stat.st_ino, last.start + stat.st_size, stat.st_mtime_ns)
