"""Finding the processes that a call left behind: each carries a mark in its environment, which names its server too.

With the mark of a call everything that the call started can be ended, also what made a session of its own. With the
marks of dead servers a new one ends what they left running when they were killed. Without /proc nothing is found.
"""

import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

MARK = "AGENTCORE_CALL"
SWEEPS = 20
"""Looks for survivors at most: a process may fork while it is being looked for."""
PROC = Path("/proc")


def new_mark() -> str:
    """A mark that no other call has: `<pid>.<start of the process>.<namespace of the pid>.<random>`."""
    return f"{os.getpid()}.{start_of(os.getpid())}.{_namespace()}.{secrets.token_hex(16)}"


def kill_marked(mark: str) -> None:
    """Kill every process of one call, and what it forks meanwhile. Blocking."""
    _kill_all(lambda pid: _mark_of(pid) == mark)


def terminate_marked(mark: str, spared: int) -> None:
    """Ask every process of one call but one to end. Blocking."""
    for pid in _process_ids():
        if pid != spared:
            _signal_if(pid, lambda found: _mark_of(found) == mark, signal.SIGTERM)


def kill_orphans() -> None:
    """Kill what servers that are no more left running, but not who asks: it may stem from such a call. Blocking.

    A call is a session of its own, so what has no mark and is in the session of a marked process goes with it.
    """
    spared = frozenset(_own_line())
    own = {_session_of(pid) for pid in spared}
    sessions = {_session_of(pid) for pid in _process_ids() if _is_orphan(_mark_of(pid))} - own - {0}
    _kill_all(lambda pid: _is_orphan(_mark_of(pid)), spared)
    if sessions:
        _kill_all(lambda pid: _session_of(pid) in sessions, spared)


def kill_group(leader: int, start: int) -> None:
    """Kill the process group of a process, if that is still the one that began then. Blocking."""
    if start and start_of(leader) == start:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _is_orphan(mark: str) -> bool:
    """Whether its server is no more. Of one in another container that cannot be told, nor is it ours to tell."""
    pid, start, namespace, *_ = *mark.split("."), "", ""
    is_ours = namespace == str(_namespace()) and pid.isdigit() and start.isdigit()
    return is_ours and start_of(int(pid)) != int(start)


def _namespace() -> int:
    """In which the ids of processes are meant; 0 where there is but one."""
    try:
        return os.stat(PROC / "self" / "ns" / "pid").st_ino  # noqa: PTH116 - beside `os.listdir`, and as short
    except OSError:
        return 0


def _own_line() -> Iterator[int]:
    """This process and its ancestors."""
    pid = os.getpid()
    while pid > 0:
        yield pid
        pid = int(next(iter(_stat_of(pid)[1:]), 0))


def _kill_all(is_wanted: Callable[[int], bool], spared: frozenset[int] = frozenset()) -> None:
    for sweep in range(1, SWEEPS + 1):
        if not sum(_signal_if(pid, is_wanted, signal.SIGKILL) for pid in _process_ids() if pid not in spared):
            return
        time.sleep(0.001 * sweep)  # in a worker thread; lets the killed ones go, so that the next look is at survivors
    log.error("processes of a call are still alive after %d sweeps", SWEEPS)


def _process_ids() -> Iterator[int]:
    with suppress(OSError):
        yield from (int(name) for name in os.listdir(PROC) if name.isdigit())  # noqa: PTH208 - half the time of iterdir


def _signal_if(pid: int, is_wanted: Callable[[int], bool], number: signal.Signals) -> bool:
    """Signal one process, held by its descriptor, so that a reused id cannot hit a stranger."""
    if not is_wanted(pid):
        return False
    with suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if is_wanted(pid):
                signal.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def _mark_of(pid: int) -> str:
    """The mark in a process's environment, "" for none. Zombies have an empty environment: they are not found."""
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    key = f"{MARK}=".encode()
    return next((entry[len(key) :].decode(errors="replace") for entry in entries if entry.startswith(key)), "")


def _session_of(pid: int) -> int:
    """The session (setsid(2)) of a process; 0 where that cannot be told, and for one that is only not yet reaped."""
    stat = _stat_of(pid)
    return int(stat[3]) if stat and stat[0] != "Z" else 0


def start_of(pid: int) -> int:
    """When a process began, in ticks since boot (field 22 of proc(5)); 0 where that cannot be told."""
    return int(next(iter(_stat_of(pid)[19:]), 0))


def _stat_of(pid: int) -> list[str]:
    """The fields of proc(5)'s stat from the third on; none where they cannot be told."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()  # the name, in brackets, may hold anything
