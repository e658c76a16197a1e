"""Calls of one session that a tool deferred: found by their token, closed when their time is over."""

from agentcore.agent import Agent
from agentcore.ports.clock import Clock
from agentcore.session import DeferredCall
from server.problems import Problem

EXPIRED = "expired: nobody gave this call its result in time"


class DeferredCalls:
    def __init__(self, agent: Agent, clock: Clock) -> None:
        self._agent = agent
        self._deferrals = agent.history.deferrals
        self._clock = clock

    def __len__(self) -> int:
        return len(self._deferrals)

    @property
    def open(self) -> tuple[DeferredCall, ...]:
        """Those that wait for their result, oldest first."""
        return self._deferrals.open

    def answer(self, token: str, output: str, *, is_error: bool) -> None:
        """Give a call its result. Raises: Problem `not_found` or `already_resolved`, StorageUnavailable."""
        call = self._deferrals.find(token)
        if call is None and self._deferrals.was_used(token):
            raise Problem("already_resolved", "The call has its result already, or was cancelled.")
        if call is None:
            raise Problem("not_found", f"No call of this session was deferred as {token[:40]!r}.")
        self._agent.answer_deferred(call, output, is_error=is_error)

    def expire(self) -> int:
        """Close the calls whose time is over; how many. Raises: StorageUnavailable."""
        now = self._clock.now()
        overdue = [call for call in self.open if call.expires_at is not None and call.expires_at <= now]
        for call in overdue:
            self._agent.answer_deferred(call, EXPIRED, is_error=True)
        return len(overdue)
