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


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """The whole of a small regular file. Raises: OSError; ValueError for a pipe, a device, or what is too large."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for its writer for ever
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("no regular file")
        data = opened.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise ValueError(f"larger than {limit_bytes} bytes")
    return data
