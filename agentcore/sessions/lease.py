"""The right to write a session: one process has it at a time, and another one may take it over.

A lease is a file of one generation (`lease`, then `lease.2`, `lease.3` …) under a lock of the kernel's, which lets go
when its process ends, however it ends. It begins with the generation that is in force; the owner reads that (1.5 µs)
and has lost the session when it is not its own, or cannot be read any more.

How a process becomes the owner, all of it behind the session's `door`, so one at a time:

1. The generation is the one that `segments.json` says. Its lease is free: take it, and write on in its file.
2. It is held, and the caller wants to take over: take the lease of the next generation, and make its empty file.
3. Write the next generation into the lease that is held. From now on its owner stops at its next look.
4. Read where the last whole line of the old file ends, make it durable, and fix that end in `segments.json`, by
   rename: this is the moment of the takeover.

The owner looks before and after each append. A line behind which it saw its own generation was whole before step 3,
so it counts; any other it neither publishes nor acknowledges. A process killed between these steps leaves a session
that can be loaded: before the rename the old generation is in force, and what was begun is begun anew.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcore.errors import SessionLocked
from agentcore.folders import open_regular, read_regular
from agentcore.ids import new_owner_id
from agentcore.sessions.segments import FIRST

DOOR_NAME = "lease.door"
_WIDTH = 20  # digits of a generation
_SIZE = 256  # of a lease, padded: nothing of an earlier owner stays
_HELD = "Another server process holds this session. Use that one, or stop it and try again, or take it over."


@dataclass(frozen=True, slots=True)
class Owner:
    """Who wrote a lease."""

    owner: str
    pid: int
    since: float
    """Unix time in seconds."""


class Lease:
    """The lease of the owner of one generation."""

    def __init__(self, path: Path, generation: int, file: int, owner: str) -> None:
        """`file` is the locked one; it is closed with the lease."""
        self.generation = generation
        self.owner = owner
        self._path = path
        self._file: int | None = file
        self._identity = _identity(os.fstat(file))
        self._mine = _digits(generation)
        self._was_lost = False

    @classmethod
    def take(cls, directory: Path, generation: int) -> "Lease":
        """Hold the session for this process. Raises: SessionLocked while another one holds it; OSError."""
        path, owner = lease_path(directory, generation), new_owner_id()
        lock = _lock(path, _HELD)
        try:
            said = {"owner": owner, "pid": os.getpid(), "since": round(time.time(), 3)}
            _write(lock, _digits(generation) + b"\n" + json.dumps(said).encode())
            return cls(path, generation, lock, owner)
        except BaseException:
            os.close(lock)
            raise

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken the session over; also when this one has let go since.

        A file that somebody cut counts as taken over: what the next owner writes into it could not be told from that.
        """
        if self._file is None:
            return self._was_lost
        try:
            return os.pread(self._file, _WIDTH, 0) != self._mine
        except OSError:
            return True

    def is_in_place(self) -> bool:
        """Whether the file is still there: without it a second process would believe the session free."""
        try:
            return _identity(self._path.stat()) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        if self._file is not None:
            self._was_lost = self.is_lost
            os.close(self._file)
            self._file = None


@contextmanager
def door(directory: Path) -> Iterator[None]:
    """Let one process at a time decide who owns a session. Raises: SessionLocked, OSError."""
    lock = _lock(directory / DOOR_NAME, "Another server process is just loading this session. Try again in a moment.")
    try:
        yield
    finally:
        os.close(lock)


def tell_loss(directory: Path, generation: int) -> None:
    """Let the owner of a generation see that it is over. Raises: SessionLocked for an owner that never looks."""
    lease = open_regular(lease_path(directory, generation), os.O_RDWR)
    try:
        if os.pread(lease, _WIDTH, 0) not in (_digits(generation), _digits(generation + 1)):
            raise SessionLocked("A server of an older version holds this session: stop that one and try again.")
        _write(lease, _digits(generation + 1), size=_WIDTH)
    finally:
        os.close(lease)


def owner_of(directory: Path, generation: int) -> Owner | None:
    """Who wrote the lease of a generation; None when it cannot be read."""
    try:
        said = json.loads(read_regular(lease_path(directory, generation), _SIZE)[_WIDTH:])
        return Owner(str(said["owner"]), int(said["pid"]), float(said["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_held(directory: Path, generation: int) -> bool:
    """Whether a process holds the lease right now; nobody holds one that cannot be read."""
    try:
        lock = open_regular(lease_path(directory, generation))
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def lease_path(directory: Path, generation: int) -> Path:
    return directory / ("lease" if generation == FIRST else f"lease.{generation}")


def _lock(path: Path, held: str) -> int:
    lock = open_regular(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise SessionLocked(held) from error
    except OSError:
        os.close(lock)
        raise
    return lock


def _write(lease: int, data: bytes, size: int = _SIZE) -> None:
    if os.pwrite(lease, data.ljust(size), 0) != size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _digits(generation: int) -> bytes:
    return b"%0*d" % (_WIDTH, generation)


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino
