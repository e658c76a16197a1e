"""Who makes the calls that go on over a connection, so that what the server asks meanwhile reaches the right person.

Promise: a question is open no longer than the call that it was asked in.
"""

import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.client.session import ClientRequestContext

TAKE_BACK_S = 1.0
"""For a question to a person; it takes no time, unless somebody holds it."""


@dataclass(eq=False, slots=True)
class Caller:
    """Who makes a call, for what the server asks meanwhile."""

    session: str
    answer: "Callable[[types.ElicitRequestFormParams], Awaitable[types.ElicitResult]]"
    _questions: set[anyio.CancelScope] = field(default_factory=set)
    """Those that wait for an answer now."""
    _is_over: bool = False
    _answered: anyio.Event = field(default_factory=anyio.Event)
    """Set when none of them waits any more."""

    async def answered(self, params: "types.ElicitRequestFormParams") -> "types.ElicitResult":
        """As `answer`, and a cancel when the call ends before: a server may go on without what it has asked."""
        from mcp_types import ElicitResult

        with anyio.CancelScope() as scope:
            self._questions.add(scope)
            try:
                if not self._is_over:
                    return await self.answer(params)
            finally:
                self._questions.discard(scope)
                if not self._questions:
                    self._answered.set()
        return ElicitResult(action="cancel")

    async def end(self) -> None:
        """The call is over, and with it all that it has asked: that is taken back before anybody learns of its end."""
        self._is_over, self._answered = True, anyio.Event()
        for scope in self._questions:
            scope.cancel()
        if self._questions:
            with anyio.move_on_after(TAKE_BACK_S, shield=True):
                await self._answered.wait()


_caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("mcp_caller", default=None)


class Callers:
    """Of one connection."""

    def __init__(self) -> None:
        self._now: list[Caller] = []

    @asynccontextmanager
    async def calling(self, caller: Caller) -> AsyncIterator[None]:
        """Around a call."""
        token = _caller.set(caller)
        self._now.append(caller)
        try:
            yield
        finally:
            self._now.remove(caller)
            _caller.reset(token)
            await caller.end()

    async def asked(self, context: "ClientRequestContext", params: "types.ElicitRequestParams") -> "types.ElicitResult":
        """Answer a question of the server: whoever makes the call that it asks in does."""
        from mcp_types import ElicitRequestFormParams, ElicitResult

        caller = _caller.get() or self._only
        if caller is None or not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="decline")
        return await caller.answered(params)

    @property
    def _only(self) -> Caller | None:
        """Over the older protocol a question does not say which call it belongs to: it is put only where there is one
        session that may be meant."""
        return self._now[-1] if len({caller.session for caller in self._now}) == 1 else None
