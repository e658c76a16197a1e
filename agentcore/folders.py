"""Folders of the user's that nobody else may look into, and names in them that survive a power cut."""

import errno
import os
import stat
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder of the user's with every level that is missing above it, private and durable. Raises: OSError."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where its file system can do that. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, made private where `flags` make it, and return its descriptor.

    Raises: OSError, also for a folder, a pipe or a device, and without waiting for the other end of a pipe.
    """
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "no regular file", str(path))


def read_regular(path: Path, limit_bytes: int | None = None) -> bytes:
    """The whole of a regular file. Raises: OSError, also for anything else; ValueError for what is too large."""
    with os.fdopen(open_regular(path), "rb") as opened:
        data = opened.read(-1 if limit_bytes is None else limit_bytes + 1)
    if limit_bytes is not None and len(data) > limit_bytes:
        raise ValueError(f"larger than {limit_bytes} bytes")
    return data
