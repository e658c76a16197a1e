"""A transport's streams as this server lets the SDK see them: what nobody needs is left out, and the end is noticed.

Whatever the transport. A flood of messages costs time in turns with everybody else, never memory: what is not for
anybody is dropped before a task is made of it, and who asks more than he reads is let go.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio import to_thread

from agentcore.mcp.listed import MAX_LISTED, LeftOut, leave_out
from agentcore.mcp.reading import read_again

if TYPE_CHECKING:
    import contextvars

    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage

MAX_QUESTIONS = 32
"""Requests of the server that wait for our answer; a real one asks a few at a time."""
BURST = 100
"""Messages that nobody waits for, before the others have their turn."""
REST_S = 0.02
_HEARD = (
    "notifications/cancelled",
    "notifications/progress",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/subscriptions/acknowledged",
)


class Watch:
    """What is known of a connection from outside."""

    def __init__(self) -> None:
        self.lost = anyio.Event()
        """Set when nothing more will come of it."""
        self.why = ""
        """Of its end, where this server ended it."""
        self.last_words = ""
        """The last line of its stderr, where it has one."""
        self.needs_login = False
        """It was refused for want of a login."""
        self.questions: set[str | int] = set()
        """Ids of requests of the server that are not answered yet."""
        self.version: str | None = None
        """Of the protocol, once it is agreed on."""
        self.left_out: list[LeftOut] = []
        """Of the lists that came since somebody emptied this; `MAX_LISTED` at most."""

    def lose(self, why: str = "") -> None:
        self.why = self.why or why
        self.lost.set()


@asynccontextmanager
async def watched(streams: "TransportStreams", watch: Watch) -> AsyncIterator["TransportStreams"]:
    read, write = streams
    yield _Read(read, watch), _Write(write, watch)


class _Read:
    def __init__(self, inner: "ReadStream[SessionMessage | Exception]", watch: Watch) -> None:
        self._inner = inner
        self._watch = watch
        self._count = 0

    @property
    def last_context(self) -> "contextvars.Context | None":
        """Of the task that the last message belongs to, where the transport knows it."""
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> "SessionMessage | Exception":
        """Raises: EndOfStream."""
        while True:
            try:
                item = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._watch.lose()
                raise
            if isinstance(item, Exception):
                await self._take_turns()
                read = await _read_again(item)
                if read is None:
                    continue
                item = read
            if await self._is_wanted(item.message):
                return item

    async def _is_wanted(self, message: Any) -> bool:
        """Raises: EndOfStream when the server is let go."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

        if isinstance(message, JSONRPCResponse):
            known = self._watch.left_out
            known += leave_out(message.result, self._watch.version)[: MAX_LISTED - len(known)]
            return True
        if isinstance(message, JSONRPCRequest):
            self._watch.questions.add(message.id)
            if len(self._watch.questions) > MAX_QUESTIONS:
                self._watch.lose("It asks more than it hears answers to.")
                raise anyio.EndOfStream
            await self._take_turns()
            return True
        if isinstance(message, JSONRPCNotification):
            if message.method == "notifications/cancelled":
                self._watch.questions.discard((message.params or {}).get("requestId", ""))
            await self._take_turns()
            return message.method in _HEARD
        return True

    async def _take_turns(self) -> None:
        self._count += 1
        if self._count % BURST == 0:
            await anyio.sleep(REST_S)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _Write:
    def __init__(self, inner: "WriteStream[SessionMessage]", watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def send(self, item: "SessionMessage", /) -> None:
        from mcp_types import JSONRPCError, JSONRPCResponse

        await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._watch.questions.discard(item.message.id)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


async def _read_again(error: Exception) -> "SessionMessage | None":
    """The message that a transport could not read, where the error holds it."""
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    found = error.errors(include_url=False)[0]["input"]
    text = found if isinstance(found, str) else json.dumps(found) if isinstance(found, dict) else ""
    message = await to_thread.run_sync(read_again, text.encode(errors="replace")) if text else None
    return None if message is None else SessionMessage(message)
