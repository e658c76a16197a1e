"""The bytes of one session's images and documents: files beside its journal, named by the SHA-256 of what they hold.

Knows bytes and names, not what they mean. Everything blocks: call it in a worker. Promise: a name that `put`
returned stands for exactly these bytes or, where the disk damaged them, for none, and survives a power cut; a name
that is none never reaches the file system.
"""

import hashlib
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from agentcore.errors import StorageUnavailable
from agentcore.folders import read_regular, sync_folder

FOLDER_NAME = "blobs"
_NAME = re.compile(r"[0-9a-f]{64}")
_HALF_MADE = ".tmp"


class BlobStore:
    """Satisfies the Blobs port over the folder of a session."""

    def __init__(self, session_directory: Path) -> None:
        self._folder = session_directory / FOLDER_NAME

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        path = self._folder / name
        try:
            if not self._folder.is_dir():
                self._folder.mkdir(mode=0o700, exist_ok=True)
                sync_folder(self._folder.parent)
            if not self._holds(path, data):
                _write(path, data)
            sync_folder(self._folder)  # also for a file that another call has put there but not synced yet
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StorageUnavailable(f"The session's files cannot be written: {reason}. Free some space.") from error
        return name

    def get(self, blob: str) -> bytes:
        """The bytes again. Raises: KeyError where they are gone, or are not what the name says."""
        try:
            data = read_regular(self._path(blob))
        except OSError as error:
            raise KeyError(blob) from error
        if hashlib.sha256(data).hexdigest() != blob:
            raise KeyError(blob)
        return data

    def adopt(self, other: "BlobStore") -> None:
        """Hold what another session holds: the same files, as they never change, or copies where that cannot be.

        Raises: OSError.
        """
        names = other._names()
        if not names:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            try:
                os.link(other._folder / name, self._folder / name)
            except OSError:
                _write(self._folder / name, read_regular(other._folder / name))
        sync_folder(self._folder)

    def sweep(self) -> None:
        """Remove what a killed `put` left half made; for the owner of the session, before the first `put`."""
        with suppress(OSError):
            for path in self._folder.glob(f"*{_HALF_MADE}"):
                path.unlink()

    def _names(self) -> list[str]:
        """Of all blobs; what else lies among them is none. Raises: OSError."""
        try:
            return [path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name) and path.is_file()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _holds(self, path: Path, data: bytes) -> bool:
        """Whether a file is there and holds these bytes: one that the disk damaged is made anew."""
        try:
            return read_regular(path) == data
        except OSError:
            return False

    def _path(self, blob: str) -> Path:
        if not _NAME.fullmatch(blob):
            raise KeyError(blob)
        return self._folder / blob


def is_own(name: str) -> bool:
    """Whether a file of that name among the blobs is one, or one that is being made."""
    return _NAME.fullmatch(name) is not None or Path(name).suffix == _HALF_MADE


def _write(path: Path, data: bytes) -> None:
    """Make a file that is there whole or not at all."""
    half_made = path.with_name(secrets.token_hex(8) + _HALF_MADE)
    try:
        with os.fdopen(os.open(half_made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        half_made.replace(path)
    except BaseException:
        with suppress(OSError):
            half_made.unlink()
        raise
