"""How other programs find a running server: one JSON line on stdout and one file per process.

`<state dir>/servers/<pid>.json` holds the token, so file and folder belong to this user alone. Imports nothing
heavy; knows nothing of HTTP. Promise: a file is whole or absent, a clean stop removes it, and a file whose process
is gone (also when its number went to another process) is swept by the next server that starts. What is no file
(a folder, a link, a pipe) is not ours: it is neither read nor removed.
"""

import json
import os
import secrets
import stat
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentcore.folders import make_private
from server.settings import CannotStart

MAX_FILE_BYTES = 1024 * 1024
# no waiting for the other end of a pipe, no following of links; Windows has neither flag
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Running:
    """One running server."""

    url: str
    token: str = field(repr=False)
    pid: int
    version: str
    cwd: str
    roots: tuple[str, ...]
    started: str | None = None
    """Tells this process from a later one with the same number; None where the system does not say."""

    def start_line(self) -> str:
        """The one line on stdout."""
        values = asdict(self)
        del values["started"]
        return json.dumps(values)


def publish(state_dir: Path, server: Running) -> Path:
    """Write the file of this process and sweep those of dead ones; return its path. Raises: CannotStart."""
    try:
        folder = _own_folder(state_dir)
        _sweep(folder)
        return _write(folder, server)
    except OSError as error:
        raise CannotStart(f"Cannot write the discovery file below {state_dir}: {error.strerror}.") from None


def withdraw(path: Path, server: Running) -> None:
    """Remove the file of this process, unless another one has taken its place."""
    if _read(path) == server:
        path.unlink(missing_ok=True)


def process_start(pid: int) -> str | None:
    """What tells a process from a later one with the same number; None where the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    fields = _facts_of(pid)
    return f"{boot}:{fields[19]}" if fields else None  # 19: field 22 of proc(5), ticks since boot


def _facts_of(pid: int) -> list[str]:
    """The fields of proc(5) behind pid and name; none where the system has no such file."""
    try:
        # the name of the program, in brackets, may hold spaces and brackets of its own
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _folder(state_dir: Path) -> Path:
    return state_dir / "servers"


def _own_folder(state_dir: Path) -> Path:
    """Make the folder, or make sure that nobody else can write or read in it."""
    folder = _folder(state_dir)
    make_private(folder)
    if folder.is_symlink() or not _is_ours(folder.stat()):
        raise CannotStart(f"{folder} belongs to somebody else or is a link; give another --state-dir.")
    folder.chmod(0o700)
    return folder


def _write(folder: Path, server: Running) -> Path:
    path = folder / f"{server.pid}.json"
    # the name begins with a dot and ends in .tmp, so no reader takes it for a server
    draft = folder / f".{server.pid}.{secrets.token_hex(4)}.tmp"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps(asdict(server)) + "\n")
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return path


def _sweep(folder: Path) -> None:
    for path in [*folder.glob("*.json"), *folder.glob(".*.tmp")]:
        if not _is_file(path):
            continue
        server = _read(path)
        # a file that cannot be read, or is only half made, belongs to the process in its name
        owner = (_pid_in_name(path), None) if server is None else (server.pid, server.started)
        if not _is_alive(*owner):
            path.unlink(missing_ok=True)


def _pid_in_name(path: Path) -> int:
    number = path.name.lstrip(".").split(".")[0]
    return int(number) if number.isdigit() and len(number) < 10 else 0


def _read(path: Path) -> Running | None:
    """What the file says; None when it is gone, not ours, or not what we write."""
    try:
        with os.fdopen(os.open(path, _READ_FLAGS), "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and _is_ours(found) and found.st_size <= MAX_FILE_BYTES:
                return _parse(json.loads(file.read(MAX_FILE_BYTES)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # gone meanwhile
        return False


def _parse(values: dict[str, Any]) -> Running:
    return Running(
        url=str(values["url"]),
        token=str(values["token"]),
        pid=int(values["pid"]),
        version=str(values["version"]),
        cwd=str(values["cwd"]),
        roots=tuple(str(root) for root in values["roots"]),
        started=None if values["started"] is None else str(values["started"]),
    )


def _is_ours(found: os.stat_result) -> bool:
    return sys.platform == "win32" or found.st_uid == os.geteuid()


def _is_alive(pid: int, started: str | None) -> bool:
    if pid <= 0:
        return False
    if sys.platform == "win32":  # there `os.kill` ends the process whatever the signal
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:  # no process has such a number
        return False
    except OSError:
        pass  # it lives, but belongs to somebody else
    if _facts_of(pid)[:1] in (["Z"], ["X"]):
        return False  # it has ended, and nobody has taken note of it yet
    now = process_start(pid)
    return started is None or now is None or now == started
