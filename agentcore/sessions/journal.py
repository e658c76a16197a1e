"""One append-only file of lines: written by one owner, read by anyone.

Knows bytes, not events. A line is in the page cache when `append` returns, so it survives SIGKILL; `sync` makes it
survive a power cut. Promise: what was appended is never changed; a torn last line is set aside, and any other
damage refuses the load and names the line.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from agentcore.errors import JournalDamaged, SessionLocked, StorageUnavailable

FILE_NAME = "journal.jsonl"
_LOCK_NAME = "lease"


class Journal:
    """The open journal of the process that owns the session."""

    def __init__(self, directory: Path, file: int, lock: int, size: int) -> None:
        self.directory = directory
        self._file = file
        self._lock = lock
        self.size = size
        """Bytes of whole lines so far: how far a reader may read."""
        self._synced = size
        self._broken: str | None = None

    @classmethod
    def create(cls, directory: Path) -> "Journal":
        """Make the session's directory and an empty journal in it, private to the user."""
        try:
            directory.mkdir(parents=True, mode=0o700)
            lock = _lock(directory)
            file = os.open(directory / FILE_NAME, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        except OSError as error:
            raise StorageUnavailable(_sentence(error)) from error
        return cls(directory, file, lock, 0)

    @classmethod
    def open(cls, directory: Path) -> tuple["Journal", "Tail"]:
        """Take over the journal for writing; a torn last line is moved into a file of its own first.

        Raises: SessionLocked while another process holds it; StorageUnavailable.
        """
        try:
            lock = _lock(directory)
        except OSError as error:
            raise StorageUnavailable(_sentence(error)) from error
        try:
            file = os.open(directory / FILE_NAME, os.O_RDWR | os.O_APPEND)
            tail = _set_torn_line_aside(directory, file)
        except OSError as error:
            os.close(lock)
            raise StorageUnavailable(_sentence(error)) from error
        return cls(directory, file, lock, tail.size), tail

    def append(self, line: bytes) -> None:
        """Append one line in one write. Raises: StorageUnavailable; nothing of the line stays in the file then."""
        if self._broken is not None:
            raise StorageUnavailable(self._broken)
        data = line + b"\n"
        try:
            written = os.write(self._file, data)
        except OSError as error:
            self._break(error)
        if written != len(data):
            self._break(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self.size += len(data)

    def sync(self, file: int | None = None) -> None:
        """Make everything appended so far durable. Blocking: call it in a worker, with a `descriptor` of its own.

        Raises: StorageUnavailable.
        """
        if self._broken is not None:
            raise StorageUnavailable(self._broken)
        size = self.size
        if size == self._synced:
            return
        try:
            os.fdatasync(self._file if file is None else file)
        except OSError as error:
            self._broken = _sentence(error)  # no line is partial, so none is taken back
            raise StorageUnavailable(self._broken) from error
        self._synced = max(self._synced, size)

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """A descriptor that stays open for a worker's `sync` though the session is closed meanwhile."""
        file = os.dup(self._file)
        try:
            yield file
        finally:
            os.close(file)

    @property
    def needs_sync(self) -> bool:
        return self._broken is not None or self.size != self._synced

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)

    def _break(self, error: OSError) -> NoReturn:
        """Take back the partial line; from now on the journal refuses everything."""
        self._broken = _sentence(error)
        try:
            os.ftruncate(self._file, self.size)
        except OSError:
            self._broken += " The partial last line could not be taken back; it is set aside at the next load."
        raise StorageUnavailable(self._broken) from error


@dataclass(frozen=True, slots=True)
class Tail:
    """How the file ended when it was opened."""

    size: int
    torn: bytes = b""
    """What was set aside, empty when the last line was whole."""


def read_lines(directory: Path, size: int | None = None, start: int = 0) -> list[bytes]:
    """Read whole lines from byte `start` up to byte `size` (default: all), without their newlines. Blocking."""
    with (directory / FILE_NAME).open("rb") as file:
        file.seek(start)
        data = file.read() if size is None else file.read(max(0, size - start))
    lines = data.split(b"\n")
    lines.pop()  # behind the last newline: nothing, or a line that is being written
    return lines


def damaged(number: int) -> JournalDamaged:
    """The error that names an unreadable line, counted from 1."""
    return JournalDamaged(
        f"Line {number} of the session's journal cannot be read, so the session is not loaded: nothing of its"
        " history is to be dropped silently. Restore the file from a backup or remove that line by hand."
    )


def _lock(directory: Path) -> int:
    """Hold the session for this process; the kernel lets go when the process ends, however it ends."""
    lock = os.open(directory / _LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise SessionLocked(
            "Another server process holds this session. Use that one, or stop it and try again."
        ) from error
    return lock


def _set_torn_line_aside(directory: Path, file: int) -> Tail:
    with os.fdopen(os.dup(file), "rb") as reader:
        data = reader.read()
    end = data.rfind(b"\n") + 1
    last = data.rfind(b"\n", 0, max(0, end - 1)) + 1
    if end and not _is_json(data[last:end]):
        end = last
    torn = data[end:]
    if torn:
        (directory / f"torn-{end}").write_bytes(torn)
        (directory / f"torn-{end}").chmod(0o600)
        os.ftruncate(file, end)
    return Tail(end, torn)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _sentence(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"The session's journal cannot be written: {reason}. Free some space or mend the folder, then load it again."
