"""Files opened with care: no symbolic link is followed and nothing but a regular file is read or replaced.

Paths come resolved from `Workspace`. Between that check and the use, any part of the path may be swapped for a link:
so a folder is opened part by part without following links, and everything else happens relative to it.
All functions block: call them in a worker thread.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agentcore.ports.tools import ToolError

MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Files up to here are held in memory, compared by content, and can be edited."""

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # NONBLOCK: a FIFO cannot hang us
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A regular file as it was found."""

    data: bytes | None
    """None above `MAX_WHOLE_BYTES`."""
    version: str
    """Equal for equal content; for files without `data`, equal while the file system reports no change."""
    status: os.stat_result


@contextmanager
def opened_folder(folder: Path, *, create: bool = False, made: list[Path] | None = None) -> Iterator[int]:
    """Open a resolved folder, link-free from the root of the file system on; yield its descriptor.

    `create` makes the folders that are missing; they are added to `made`, outermost first. Raises: OSError.
    """
    descriptor = os.open("/", _FOLDER)
    try:
        for depth, name in enumerate(folder.parts[1:], 2):
            below, is_new = _step(descriptor, name, create)
            if is_new and made is not None:
                made.append(Path(*folder.parts[:depth]))
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _step(folder: int, name: str, create: bool) -> tuple[int, bool]:
    """Open a folder in an opened one; also whether it was made for that."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder), False
    except FileNotFoundError:
        if not create:
            raise
    is_new = False
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
        is_new = True
    return os.open(name, _FOLDER, dir_fd=folder), is_new


def path_of_opened(folder: int, otherwise: Path) -> Path:
    """Where an opened folder is by now; `otherwise` where the system does not tell."""
    try:
        return Path(f"/proc/self/fd/{folder}").readlink()
    except OSError:
        return otherwise


@contextmanager
def entries_of(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of an opened folder, in no order. Raises: OSError."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(readable) as entries:
            yield entries
    finally:
        os.close(readable)


def sync_opened(folder: int) -> None:
    """Make the names in an opened folder durable, where its file system can do that. Raises: OSError."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(readable)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(readable)


def open_regular(folder: int, name: str) -> BinaryIO:
    """Open a regular file for reading. Raises: ToolError for anything else, IsADirectoryError, OSError."""
    file = os.fdopen(os.open(name, _READ, dir_fd=folder), "rb")
    try:
        _demand_regular(os.fstat(file.fileno()), name)
    except BaseException:
        file.close()
        raise
    return file


def _demand_regular(status: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{name} is not a regular file (a link, pipe, socket or device)")


def take_snapshot(file: BinaryIO) -> Snapshot:
    """Read a file whole where it is small enough, and name its version. Leaves the position undefined."""
    status = os.fstat(file.fileno())
    data = file.read(MAX_WHOLE_BYTES + 1) if status.st_size <= MAX_WHOLE_BYTES else None
    if data is None or len(data) > MAX_WHOLE_BYTES:
        return Snapshot(None, "-".join(map(str, _identity(status))), status)
    return Snapshot(data, version_of(data), status)


def find_snapshot(folder: int, name: str) -> Snapshot | None:
    """The snapshot of a file, None where there is none. Raises: as `open_regular`."""
    try:
        file = open_regular(folder, name)
    except FileNotFoundError:
        return None
    with file:
        return take_snapshot(file)


def version_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def replace_file(folder: int, name: str, data: bytes, before: Snapshot | None, mode: int | None = None) -> None:
    """Put `data` in the place of a file in one step, keeping its mode; `before` is what the caller found there.

    `mode` are permission bits to give it instead. Raises: ToolError when something else is there by now, or the file
    is write-protected; OSError.
    """
    if before is not None and not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{name} is write-protected")
    temporary = f".agentcore-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _CREATE, 0o666 if before is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _keep_owner_and_mode(descriptor, before.status)
            if mode is not None:
                os.fchmod(descriptor, mode)
        _demand_unchanged(folder, name, before)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def remove_file(folder: int, name: str, before: Snapshot) -> None:
    """Remove the file that the caller found. Raises: ToolError when something else is there by now; OSError."""
    _demand_unchanged(folder, name, before)
    os.unlink(name, dir_fd=folder)


def _keep_owner_and_mode(descriptor: int, status: os.stat_result) -> None:
    with suppress(PermissionError):  # only root may give files away
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _demand_unchanged(folder: int, name: str, before: Snapshot | None) -> None:
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if (now and _identity(now)) != (before and _identity(before.status)):
        raise ToolError(f"{name} changed while it was being written: read it again")
