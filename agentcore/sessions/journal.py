"""An append-only file of lines and its one owner, who writes it; `reading` is for everybody.

Knows bytes, not events. A line is in the page cache when `append` returns, so it survives SIGKILL; `sync` makes it
survive a power cut. Another process may take the journal over (`lease`): it writes on in a file of its own, and this
one raises TakenOver from then on. Promise: what was appended is never changed; a torn last line is set aside, and any
other damage refuses the load and names the line.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from agentcore.errors import JournalDamaged, SessionLocked, StorageUnavailable, TakenOver
from agentcore.folders import make_private, open_regular, sync_folder
from agentcore.sessions.lease import Lease, door, tell_loss
from agentcore.sessions.reading import whole_end, whole_size
from agentcore.sessions.segments import FILE_NAME, FIRST, fix_sizes, fixed_sizes, path_of, segments_of

NEW_NAME = "journal.new"
"""Of a first file that is being made."""
_PIECE_BYTES = 1024 * 1024  # a fork begins with a whole history, which need not be in memory at once
_TAKEN_OVER = "Another server process has taken this session over. Go on there, or take it over again."


class Journal:
    """The open journal of the process that owns the session."""

    def __init__(self, directory: Path, file: int, lease: Lease, tail: "Tail") -> None:
        self.directory = directory
        self.lease = lease
        self._file = file
        self._identity = _identity(os.fstat(file))
        self._start = tail.start
        self.size = tail.size
        """Bytes of whole lines so far, over all files: how far a reader may read."""
        self.waits_for_disk = True
        """Whether `sync` makes lines survive a power failure, and not the end of this process alone."""
        self._synced = tail.size
        self._broken: str | None = None

    @classmethod
    def create(
        cls, directory: Path, lines: Iterable[bytes] = (), furnish: Callable[[], None] = lambda: None
    ) -> "Journal":
        """Make the session's directory and in it a journal that appears with its first lines, or not at all.

        `furnish` puts beside it what these lines refer to. Raises: StorageUnavailable, and then nothing is left
        behind.
        """
        new, path = directory / NEW_NAME, directory / FILE_NAME
        with _opening() as undo:
            make_private(directory.parent)
            directory.mkdir(mode=0o700)
            undo.callback(shutil.rmtree, directory, ignore_errors=True)
            lease = Lease.take(directory, FIRST)
            undo.callback(lease.close)
            file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
            undo.callback(os.close, file)
            furnish()
            size = sum(_write(file, piece) for piece in _pieces(lines))
            os.fsync(file)
            new.rename(path)
            sync_folder(directory)
            sync_folder(directory.parent)
            undo.pop_all()
        return cls(directory, file, lease, Tail(0, size))

    @classmethod
    def open(cls, directory: Path, *, takeover: bool = False) -> tuple["Journal", "Tail"]:
        """Open the journal for writing; a torn last line is moved into a file of its own first.

        With `takeover` it is taken from a process that holds it. Raises: SessionLocked while another process holds
        it, JournalDamaged when a file of it does not hold what counts, StorageUnavailable.
        """
        with _opening() as undo, door(directory):
            lease = _own(directory, takeover=takeover)
            undo.callback(lease.close)
            start = segments_of(directory / FILE_NAME)[-1].start
            file = open_regular(path_of(directory, lease.generation), os.O_RDWR | os.O_APPEND)
            undo.callback(os.close, file)
            tail = _set_torn_line_aside(directory, file, start)
            undo.pop_all()
        return cls(directory, file, lease, tail), tail

    def append(self, line: bytes) -> None:
        """Append one line in one write. Raises: StorageUnavailable; nothing of the line stays in the file then.

        Raises: TakenOver when it cannot be known whether the new owner has seen the line.
        """
        self.check_writable()
        try:
            self.size += _write(self._file, line + b"\n")
        except OSError as error:
            self._break(error)
        self.check_owner()

    def check_writable(self) -> None:
        """Raises: StorageUnavailable once a write has failed, TakenOver as `check_owner`."""
        if self._broken is not None:
            raise StorageUnavailable(self._broken)
        self.check_owner()

    def check_owner(self) -> None:
        """Raises: TakenOver once another process owns the session. Costs one read (1.5 µs)."""
        if self.lease.is_lost:
            raise TakenOver(_TAKEN_OVER)

    def sync(self, file: int | None = None) -> None:
        """Make everything appended so far durable. Blocking: call it in a worker, with a `descriptor` of its own.

        Raises: StorageUnavailable.
        """
        if self._broken is not None:
            raise StorageUnavailable(self._broken)
        size = self.size
        if size == self._synced:
            return
        self._check_in_place()
        try:
            if self.waits_for_disk:
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
        self.lease.close()

    def _check_in_place(self) -> None:
        """Notice that the files were deleted, moved or replaced: what is written would be found by nobody."""
        try:
            is_there = _identity(path_of(self.directory, self.lease.generation).stat()) == self._identity
        except OSError:
            is_there = False
        if not (is_there and self.lease.is_in_place()):
            self._broken = "The session's journal was deleted, moved or replaced while it was open. Load it again."
            raise StorageUnavailable(self._broken)

    def _break(self, error: OSError) -> NoReturn:
        """Take back the partial line; from now on the journal refuses everything."""
        self._broken = _sentence(error)
        try:
            os.ftruncate(self._file, self.size - self._start)
        except OSError:
            self._broken += " The partial last line could not be taken back; it is set aside at the next load."
        raise StorageUnavailable(self._broken) from error


@dataclass(frozen=True, slots=True)
class Tail:
    """How the journal ended when it was opened."""

    start: int
    """Bytes in the files before the one that is written."""
    size: int
    """Bytes of whole lines, over all files."""
    torn: bytes = b""
    """What was set aside, empty when the last line was whole."""

    @property
    def is_fresh(self) -> bool:
        """Nothing is in the last file yet: it begins with this owner."""
        return self.size == self.start


def damaged(number: int, at: tuple[str, int] | None = None) -> JournalDamaged:
    """The error that names an unreadable line, counted from 1; `at` is its file and its number there, if known."""
    file, line = at or ("the session's journal", number)
    return JournalDamaged(
        f"Line {line} of {file} cannot be read, so the session is not loaded: nothing of its"
        " history is to be dropped silently. Restore the file from a backup or remove that line by hand.",
        number,
    )


@contextmanager
def _opening() -> Iterator[ExitStack]:
    """Undo what was begun when it fails half way. Raises: StorageUnavailable for any OSError."""
    with ExitStack() as undo:
        try:
            yield undo
        except OSError as error:
            raise StorageUnavailable(_sentence(error)) from error


def _own(directory: Path, *, takeover: bool) -> Lease:
    """Become the owner; to be called behind the door. Raises: SessionLocked, JournalDamaged, OSError."""
    fixed = fixed_sizes(directory)
    try:
        return Lease.take(directory, FIRST + len(fixed))
    except SessionLocked:
        if not takeover:
            raise
    with ExitStack() as undo:
        lease = _take_over(directory, fixed, undo)
        undo.pop_all()
    return lease


def _take_over(directory: Path, fixed: tuple[int, ...], undo: ExitStack) -> Lease:
    """Take the session from its owner, in the order that `lease` explains. Raises: SessionLocked, OSError."""
    generation = FIRST + len(fixed)
    lease = Lease.take(directory, generation + 1)
    undo.callback(lease.close)
    os.close(open_regular(path_of(directory, generation + 1), os.O_CREAT | os.O_TRUNC | os.O_WRONLY))
    sync_folder(directory)
    tell_loss(directory, generation)
    size = whole_size(directory / FILE_NAME) - sum(fixed)
    old = open_regular(path_of(directory, generation))
    try:
        os.fsync(old)
    finally:
        os.close(old)
    fix_sizes(directory, (*fixed, size))
    return lease


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines joined to about _PIECE_BYTES."""
    piece = bytearray()
    for line in lines:
        piece += line + b"\n"
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _write(file: int, data: bytes) -> int:
    """Write all of it at once, and return how much that was. Raises: OSError, also for a part that did not fit."""
    if os.write(file, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return len(data)


def _set_torn_line_aside(directory: Path, file: int, start: int) -> Tail:
    """Keep what a torn last line left in a file of its own, durably, before it is cut off.

    `start` is where the file begins in the journal.
    """
    size = os.fstat(file).st_size
    end = whole_end(file, size, begins_session=start == 0)
    torn = os.pread(file, size - end, end)
    if torn:
        _keep(directory / f"torn-{start + end}", torn)
        os.ftruncate(file, end)
    return Tail(start, start + end, torn)


def _keep(path: Path, data: bytes) -> None:
    file = open_regular(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with os.fdopen(file, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(file)
    sync_folder(path.parent)


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _sentence(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"The session's journal cannot be written: {reason}. Free some space or mend the folder, then load it again."
