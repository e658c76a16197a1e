"""Finding the running server of a folder by the files that servers leave in the state directory.

Each server keeps `<state dir>/servers/<pid>.json` while it runs, readable by its owner only: that is where the token
comes from. A file whose process is gone is passed over, never removed: sweeping is the servers' work.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentcore_client.errors import NoServer


class ServerFile(BaseModel):
    """One running server, as it announced itself."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    token: str = Field(repr=False)
    pid: int
    version: str = ""
    cwd: Path
    roots: tuple[Path, ...] = ()
    started: str | None = None
    """Tells the process from a later one with the same number, where the system can."""

    def depth_of_root(self, folder: Path) -> int:
        """How close the nearest root is that holds `folder`: the number of its parts, 0 when none does."""
        return max((len(root.parts) for root in self.roots or (self.cwd,) if folder.is_relative_to(root)), default=0)


def state_dir() -> Path:
    """`$AGENTCORE_STATE_DIR`, or the platform's place for state."""
    chosen = os.environ.get("AGENTCORE_STATE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_state_dir("agentcore"))


def find_server(folder: str | Path = ".", *, state: Path | None = None) -> ServerFile:
    """Pick the live server whose root holds `folder`: the nearest root first, then the youngest server.

    Raises: NoServer.
    """
    wanted = Path(folder).resolve()
    best: tuple[int, float] = (0, 0.0)
    found: ServerFile | None = None
    for server, started in live_servers(state or state_dir()):
        rank = (server.depth_of_root(wanted), started)
        if rank[0] and rank > best:
            best, found = rank, server
    if found is None:
        raise NoServer(f"no running server has {wanted} under one of its roots; start one with: agentcore serve")
    return found


def live_servers(state: Path) -> Iterator[tuple[ServerFile, float]]:
    """Each announced server whose process exists, with the time its file was written."""
    for path in sorted((state / "servers").glob("*.json")):
        try:
            server = ServerFile.model_validate_json(path.read_bytes())
            status = path.stat()
        except (OSError, ValidationError):
            continue  # not one of ours, or removed in this moment by a server that stops
        if is_own(status) and is_alive(server):
            yield server, status.st_mtime


def is_own(status: os.stat_result) -> bool:
    """Whether this user wrote the file: anybody else's could send our prompts to a server of theirs."""
    return sys.platform == "win32" or status.st_uid == os.geteuid()


def is_alive(server: ServerFile) -> bool:
    """Whether the server's process exists and is still the same one, as far as can be told without touching it."""
    if sys.platform == "win32":
        return True  # signal 0 means Ctrl-C there: asking would end the server
    try:
        os.kill(server.pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        return False  # gone, or the number went to somebody else's process
    if _facts_of(server.pid)[:1] in (["Z"], ["X"]):
        return False  # it has ended, and nobody has taken note of it yet
    now = start_of(server.pid)
    return server.started is None or now is None or server.started == now


def start_of(pid: int) -> str | None:
    """When the process began, as `<boot id>:<ticks>`; None where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    facts = _facts_of(pid)
    return f"{boot}:{facts[19]}" if facts else None  # field 22 of proc(5); these begin with field 3


def _facts_of(pid: int) -> list[str]:
    """The fields of proc(5) from the third on; none where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()  # the name, in brackets, may hold anything
