"""The two things this package does on the network, each once without and once with `await`: make a call, read a stream.

A stream outlives its connections: it comes back with the cursor after every cut, however the connection ended, and
drops what was handled before. All decisions are made elsewhere (`retry`, `cursor`, `frames`); here they are obeyed.

httpx-sse splits lines as the SSE standard says (not at U+2028, U+2029 or U+0085, and a CR LF cut in two is one line
end). Two of its habits are worked around: it reports a block without data as an event, which `read_frame` drops, and
its `id` is the last one seen rather than the frame's own, so numbers are read from the data. A block that is nothing
but an `id` says how far the stream has come.
"""

import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Any, TypeVar

import anyio
import httpx
from httpx_sse import aconnect_sse, connect_sse

from agentcore_client.call import (
    IDEMPOTENCY,
    LIMITS,
    STREAM_READ_S,
    Call,
    Feed,
    answer_of,
    http_options,
    is_stream,
    may_have_arrived,
    no_stream,
    request_of,
    socket_of,
    timeout,
)
from agentcore_client.cursor import Position, ends_connection
from agentcore_client.endpoints import info
from agentcore_client.errors import ApiError, ConnectionLost
from agentcore_client.frames import StreamEvent, read_frame, seq_of
from agentcore_client.retry import Backoff, RetryPolicy

T = TypeVar("T")


class Transport:
    """A connection pool to one server, for threads that may wait."""

    def __init__(self, url: str, token: str, call_retry: RetryPolicy, stream_retry: RetryPolicy) -> None:
        socket = socket_of(url)
        transport = None if socket is None else httpx.HTTPTransport(uds=socket, limits=LIMITS)
        self._http = httpx.Client(**http_options(url, token), transport=transport)
        self._call_retry = call_retry
        self._stream_retry = stream_retry

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call[T], *, is_patient: bool = False) -> T:
        """Make a call; again after a broken connection, where that is safe. A patient one tries as long as a stream.

        Raises: ApiError, ConnectionLost.
        """
        backoff = Backoff(self._stream_retry if is_patient else self._call_retry)
        is_second = False
        while True:
            try:
                response = self._http.send(request_of(call, self._http))
            except httpx.TransportError as error:
                if not (call.is_repeatable(error) or (call.key and self._knows_keys())):
                    raise outcome_unknown(call) from error
                is_second |= may_have_arrived(error)
                pause_s = backoff.lost(error)
            else:
                return answer_of(call, response, is_second=is_second)
            time.sleep(pause_s)

    def _knows_keys(self) -> bool:
        """Whether the server tells a repeated submission from a second one."""
        return IDEMPOTENCY in self.send(info()).features

    def events(self, feed: Feed, cursor: Position) -> Generator[StreamEvent, None, None]:
        """Yield the events after the cursor until nothing more can come. Raises: ApiError, ConnectionLost."""
        backoff = Backoff(self._stream_retry)
        while not cursor.is_closed:
            lost: httpx.TransportError | ApiError | None = None
            try:
                yield from self._one_connection(feed, cursor, backoff)
            except (httpx.TransportError, ApiError) as error:
                lost = error
            if not cursor.is_closed:
                time.sleep(backoff.lost(lost))

    def _one_connection(self, feed: Feed, cursor: Position, backoff: Backoff) -> Generator[StreamEvent, None, None]:
        with connect_sse(self._http, "GET", feed.path, **stream_options(feed, cursor)) as source:
            if not is_stream(source.response):
                source.response.read()
                raise no_stream(source.response)
            backoff.answered()
            cursor.connected()
            for frame in source.iter_sse():
                event = read_frame(frame.event, frame.data)
                if event is None:
                    cursor.passed(frame.id)
                if event is None or not cursor.arrived(event):
                    continue
                yield event
                if is_over(event, cursor, backoff):
                    return


class AsyncTransport:
    """A connection pool to one server, for tasks."""

    def __init__(self, url: str, token: str, call_retry: RetryPolicy, stream_retry: RetryPolicy) -> None:
        socket = socket_of(url)
        transport = None if socket is None else httpx.AsyncHTTPTransport(uds=socket, limits=LIMITS)
        self._http = httpx.AsyncClient(**http_options(url, token), transport=transport)
        self._call_retry = call_retry
        self._stream_retry = stream_retry

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call[T], *, is_patient: bool = False) -> T:
        """Make a call; again after a broken connection, where that is safe. A patient one tries as long as a stream.

        Raises: ApiError, ConnectionLost.
        """
        backoff = Backoff(self._stream_retry if is_patient else self._call_retry)
        is_second = False
        while True:
            try:
                response = await self._http.send(request_of(call, self._http))
            except httpx.TransportError as error:
                if not (call.is_repeatable(error) or (call.key and await self._knows_keys())):
                    raise outcome_unknown(call) from error
                is_second |= may_have_arrived(error)
                pause_s = backoff.lost(error)
            else:
                return answer_of(call, response, is_second=is_second)
            await anyio.sleep(pause_s)

    async def _knows_keys(self) -> bool:
        """Whether the server tells a repeated submission from a second one."""
        return IDEMPOTENCY in (await self.send(info())).features

    async def events(self, feed: Feed, cursor: Position) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events after the cursor until nothing more can come. Raises: ApiError, ConnectionLost."""
        backoff = Backoff(self._stream_retry)
        while not cursor.is_closed:
            lost: httpx.TransportError | ApiError | None = None
            try:
                async with aclosing(self._one_connection(feed, cursor, backoff)) as connection:
                    async for event in connection:
                        yield event
            except (httpx.TransportError, ApiError) as error:
                lost = error
            if not cursor.is_closed:
                await anyio.sleep(backoff.lost(lost))

    async def _one_connection(
        self, feed: Feed, cursor: Position, backoff: Backoff
    ) -> AsyncGenerator[StreamEvent, None]:
        async with aconnect_sse(self._http, "GET", feed.path, **stream_options(feed, cursor)) as source:
            if not is_stream(source.response):
                await source.response.aread()
                raise no_stream(source.response)
            backoff.answered()
            cursor.connected()
            async with aclosing(source.aiter_sse()) as frames:
                async for frame in frames:
                    event = read_frame(frame.event, frame.data)
                    if event is None:
                        cursor.passed(frame.id)
                    if event is None or not cursor.arrived(event):
                        continue
                    yield event
                    if is_over(event, cursor, backoff):
                        return


def stream_options(feed: Feed, cursor: Position) -> dict[str, Any]:
    """How a stream is asked for."""
    return {"params": feed.query, "headers": cursor.headers(), "timeout": timeout(STREAM_READ_S)}


def is_over(event: StreamEvent, cursor: Position, backoff: Backoff) -> bool:
    """Settle an event that its reader has handled; True when nothing more comes on this connection."""
    cursor.handled(event)
    if seq_of(event):
        backoff.progressed()
    return cursor.is_closed or ends_connection(event)


def outcome_unknown(call: Call[T]) -> ConnectionLost:
    """The error of a call that must not be sent again."""
    return ConnectionLost(f"the connection broke during {call.method} {call.path}; whether it took effect is not known")
