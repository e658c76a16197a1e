"""What a creation leaves that was killed half way, and its removal.

Knows the few names that a creation makes before its journal appears. Promise: a folder with anything else in it stays
as it is, and so does one that somebody is working in.
"""

import stat
from pathlib import Path

from agentcore.errors import SessionLocked
from agentcore.sessions.blobs import FOLDER_NAME, is_own
from agentcore.sessions.journal import NEW_NAME
from agentcore.sessions.lease import DOOR_NAME, Lease, door, lease_path
from agentcore.sessions.segments import FIRST

_NAMES = (NEW_NAME, lease_path(Path(), FIRST).name, DOOR_NAME)
"""In the order in which they are removed: what a cut removal leaves is half made as well."""


def remove_half_made(directory: Path) -> None:
    """Remove a folder that holds what a cut creation left, and nothing else. Raises: OSError."""
    if not _is_half_made(directory):
        return
    try:
        with door(directory):
            lease = Lease.take(directory, FIRST)
            try:
                if _is_half_made(directory):  # asked again: now nobody else is in it
                    _remove(directory)
            finally:
                lease.close()
    except SessionLocked:
        return  # it is just being made


def _is_half_made(directory: Path) -> bool:
    found = {path.name: path for path in directory.iterdir()}
    blobs = found.pop(FOLDER_NAME, None)
    if not found.keys() <= set(_NAMES) or not all(map(_is_file, found.values())):
        return False
    return blobs is None or (NEW_NAME in found and _holds_only_blobs(blobs))


def _holds_only_blobs(folder: Path) -> bool:
    return stat.S_ISDIR(folder.lstat().st_mode) and all(
        is_own(path.name) and _is_file(path) for path in folder.iterdir()
    )


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _remove(directory: Path) -> None:
    blobs = directory / FOLDER_NAME
    if blobs.is_dir():
        for path in blobs.iterdir():
            path.unlink()
        blobs.rmdir()
    for name in _NAMES:
        (directory / name).unlink(missing_ok=True)
    directory.rmdir()
