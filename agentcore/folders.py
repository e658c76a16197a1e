"""Folders of the user's that nobody else may look into, and names in them that survive a power cut."""

import errno
import os
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
