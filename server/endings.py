"""The ends of a session's runs, as they come: that of a prompt, and of those that begin by themselves behind it.

A listener of the session's log; knows events alone. One that ends well has no `trouble`.
"""

from dataclasses import dataclass

import anyio

from agentcore.events import EVENTS, Done, Error, PermissionResolved, StopReason

_READ = frozenset({"done", "error", "permission_resolved"})
_MOVES = frozenset({"done", "status", "task_update", "session_closed"})


@dataclass(frozen=True, slots=True)
class Ending:
    text: str
    """The answer; empty where there is none."""
    stop_reason: StopReason
    trouble: str | None
    """What went wrong, as a sentence."""


class Endings:
    def __init__(self) -> None:
        self.denials = 0
        """Calls that were denied."""
        self._new: list[Ending] = []
        self._error: str | None = None
        """What the run that is ending says of its failure."""
        self._moved = anyio.Event()

    def take(self, _seq: int, kind: str, line: bytes) -> None:
        if kind in _READ:
            self._read(line)
        if kind in _MOVES:
            self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._moved.set()

    async def wait(self) -> list[Ending]:
        """Wait until something has begun or ended since the last look; the ends of runs that were not seen yet."""
        await self._moved.wait()
        self._moved = anyio.Event()
        new, self._new = self._new, []
        return new

    def _read(self, line: bytes) -> None:
        match EVENTS.validate_json(line):
            case PermissionResolved(resolution="denied"):
                self.denials += 1
            case Error(text=text):
                self._error = text
            case Done(text=text, stop_reason=reason):
                early = None if reason == "end_turn" else f"the run ended early: {reason}"
                self._new.append(Ending(text, reason, self._error or early))
                self._error = None
            case _:
                pass
