"""Work in a session that is no run: it has no prompt and no `done`, and whoever asked for it waits for its outcome."""

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from agentcore.errors import AgentError, RunFailed
from agentcore.replies import Reply

logger = logging.getLogger(__name__)

T = TypeVar("T")


class SideJob(Generic[T]):
    """One compaction or undo that somebody asked for."""

    def __init__(self, name: str, work: Callable[[], Awaitable[T | None]], *, is_cancellable: bool) -> None:
        """`work` gives None where it ended because the server stops."""
        self.name = name
        self._work = work
        self.is_cancellable = is_cancellable
        """Whether cancelling the session ends it; else it goes on to its end."""
        self.outcome: Reply[T | AgentError | None] = Reply()
        """What it came to, or why it came to nothing; None when the server stops before its end."""

    async def run(self, session_id: str) -> None:
        """The barrier of such work: whatever happens in it, who asked has an answer."""
        outcome: T | AgentError | None
        try:
            outcome = await self._work()
        except AgentError as error:
            outcome = error
        except Exception:
            logger.exception("the %s of session %s failed", self.name, session_id)
            outcome = RunFailed("internal", f"The {self.name} failed; the server's log has the details.")
        self.outcome.resolve(outcome)

    def leave(self) -> None:
        """The server stops: nobody waits any longer."""
        self.outcome.resolve(None)
