"""One append-only file of lines and its one owner, who writes it; `reading` is for everybody.

Knows bytes, not events. A line is in the page cache when `append` returns, so it survives SIGKILL; `sync` makes it
survive a power cut. Promise: what was appended is never changed; a torn last line is set aside, and any other
damage refuses the load and names the line.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from agentcore.errors import JournalDamaged, SessionLocked, StorageUnavailable
from agentcore.folders import make_private, sync_folder
from agentcore.sessions.reading import line_start

FILE_NAME = "journal.jsonl"
_NEW_NAME = "journal.new"
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
    def create(cls, directory: Path, lines: Iterable[bytes] = ()) -> "Journal":
        """Make the session's directory and in it a journal that appears with its first lines, or not at all.

        Raises: StorageUnavailable, and then nothing is left behind.
        """
        new, path = directory / _NEW_NAME, directory / FILE_NAME
        with _opening() as undo:
            make_private(directory.parent)
            directory.mkdir(mode=0o700)
            undo.callback(shutil.rmtree, directory, ignore_errors=True)
            lock = _lock(directory)
            undo.callback(os.close, lock)
            file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
            undo.callback(os.close, file)
            size = _write(file, b"".join(line + b"\n" for line in lines))
            os.fsync(file)
            new.rename(path)
            sync_folder(directory)
            sync_folder(directory.parent)
            undo.pop_all()
        return cls(directory, file, lock, size)

    @classmethod
    def open(cls, directory: Path) -> tuple["Journal", "Tail"]:
        """Take over the journal for writing; a torn last line is moved into a file of its own first.

        Raises: SessionLocked while another process holds it; StorageUnavailable.
        """
        with _opening() as undo:
            lock = _lock(directory)
            undo.callback(os.close, lock)
            file = os.open(directory / FILE_NAME, os.O_RDWR | os.O_APPEND)
            undo.callback(os.close, file)
            tail = _set_torn_line_aside(directory, file)
            undo.pop_all()
        return cls(directory, file, lock, tail.size), tail

    def append(self, line: bytes) -> None:
        """Append one line in one write. Raises: StorageUnavailable; nothing of the line stays in the file then."""
        if self._broken is not None:
            raise StorageUnavailable(self._broken)
        try:
            self.size += _write(self._file, line + b"\n")
        except OSError as error:
            self._break(error)

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
        """A descriptor that stays open for a worker's `sync` though the session is closed meanwhile.

        Raises: StorageUnavailable when the process has no descriptor left.
        """
        try:
            file = os.dup(self._file)
        except OSError as error:
            raise StorageUnavailable(_sentence(error)) from error
        try:
            yield file
        finally:
            os.close(file)

    @property
    def is_broken(self) -> bool:
        return self._broken is not None

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


def remove_unowned(directory: Path) -> None:
    """Remove a directory that has no journal, unless somebody holds its lease or it cannot be removed."""
    try:
        lock = _lock(directory)
    except (OSError, SessionLocked):
        return
    try:
        if not (directory / FILE_NAME).exists():
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


def damaged(number: int) -> JournalDamaged:
    """The error that names an unreadable line, counted from 1."""
    return JournalDamaged(
        f"Line {number} of the session's journal cannot be read, so the session is not loaded: nothing of its"
        " history is to be dropped silently. Restore the file from a backup or remove that line by hand."
    )


@contextmanager
def _opening() -> Iterator[ExitStack]:
    """Undo what was begun when it fails half way. Raises: StorageUnavailable for any OSError."""
    with ExitStack() as undo:
        try:
            yield undo
        except OSError as error:
            raise StorageUnavailable(_sentence(error)) from error


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
    except OSError:
        os.close(lock)
        raise
    return lock


def _write(file: int, data: bytes) -> int:
    """Write all of it at once, and return how much that was. Raises: OSError, also for a part that did not fit."""
    if os.write(file, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return len(data)


def _set_torn_line_aside(directory: Path, file: int) -> Tail:
    """Keep what a torn last line left in a file of its own, durably, before it is cut off."""
    size = os.fstat(file).st_size
    end = line_start(file, size)
    last = line_start(file, end - 1)
    if last and not _is_json(os.pread(file, end - last, last)):
        end = last  # a power cut tore it before its newline; the first line is never torn: a session begins with it
    torn = os.pread(file, size - end, end)
    if torn:
        _keep(directory / f"torn-{end}", torn)
        os.ftruncate(file, end)
    return Tail(end, torn)


def _keep(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(file)
    sync_folder(path.parent)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _sentence(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"The session's journal cannot be written: {reason}. Free some space or mend the folder, then load it again."
