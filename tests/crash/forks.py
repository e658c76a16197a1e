"""Forks a session again and again, each time in a process that SIGKILLs itself one step later; a program of its own.

    python -m tests.crash.forks SESSIONS ROOT SESSION

Prints how each process ended, until one comes to its end: the steps are the system calls that leave something on disk.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from agentcore.clock import SystemClock
from agentcore.sessions.store import SessionStore

STEPS = ("mkdir", "open", "link", "write", "fsync", "rename")


def die_at(step: int) -> None:
    """Let the process kill itself before its next `step`th call (from 0)."""
    left = [step]

    def stand_before(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*args, **options)

        setattr(os, name, call)

    for name in STEPS:
        stand_before(name)


def main(sessions: str, root: str, session: str) -> None:
    store = SessionStore(Path(sessions), (Path(root),), SystemClock())
    status, step = -1, 0
    while status != 0:
        child = os.fork()
        if child == 0:
            die_at(step)
            store.fork(session, None, None, {})
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)
        step += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
