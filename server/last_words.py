"""What the user's hooks hear when a session ends, in bounded time: it holds up no end, and fails none."""

import anyio

from agentcore.ports.hooks import Hooks
from server.barrier import barrier

CLOSING_S = 60.0
"""The conventions' bound on what SessionEnd hooks may be given by settings. They have 1.5 s unless given more."""
STOPPING_S = 3.0
"""While the server stops: beside the 10 s of its runs it fits into the 15 s after which the process ends anyhow."""
OTHER = "other"
"""The conventions' reason for every end but `clear`: a session was closed or unloaded, or the server stops."""


class LastWords:
    """Of one loaded session."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._saying = anyio.Lock()
        self._are_said = False

    @property
    def has_listeners(self) -> bool:
        return self._hooks.has_end_hooks

    async def say(self, within_s: float) -> None:
        """Let hooks hear, once, that the session is let go of; who comes second waits for the first."""
        with anyio.move_on_after(within_s):
            async with self._saying:
                if not self._are_said:
                    self._are_said = True
                    await self._hear(OTHER)

    async def say_cleared(self) -> None:
        """Let hooks hear that the session begins anew."""
        with anyio.move_on_after(CLOSING_S):
            await self._hear("clear")

    async def _hear(self, reason: str) -> None:
        with barrier("letting hooks hear the end of a session"):
            await self._hooks.session_ended(reason)
