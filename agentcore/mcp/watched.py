"""A transport's streams as this server lets the SDK see them: what nobody needs is left out, and the end is noticed.

Whatever the transport. A flood of messages costs time in turns with everybody else, never memory: what is not for
anybody is dropped before a task is made of it, and who asks more than he reads is let go.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

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
            elif await self._is_wanted(item.message):
                return item

    async def _is_wanted(self, message: Any) -> bool:
        """Raises: EndOfStream when the server is let go."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

        if isinstance(message, JSONRPCResponse):
            _mend_list(message.result)
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


def _mend_list(result: Any) -> None:
    """Of a list of tools leave out what is none: one of them would make the SDK refuse all.

    And what results are to look like: the SDK would hold them to that right here, and a schema of a stranger may cost
    hours.
    """
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(tools, list):
        tools[:] = filter(_is_tool, tools)
        for tool in tools:
            tool.pop("outputSchema", None)


def _is_tool(tool: Any) -> bool:
    schema = tool.get("inputSchema") if isinstance(tool, dict) else None
    return isinstance(schema, dict) and schema.get("type") == "object" and isinstance(tool.get("name"), str)
