"""The transports over HTTP: streamable, and the older one of events. The SDK speaks; here are the bounds.

An answer has a largest size, also before it is read, and is not sent compressed: a small one could be a large one in
memory. Redirects are followed within the server's origin alone (the SDK's own rule), so headers go nowhere else.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from agentcore.mcp.reading import Mending
from agentcore.mcp.stdio import MAX_MESSAGE_BYTES
from agentcore.mcp.targets import Target
from agentcore.mcp.watched import Watch

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

CONNECT_S = 10.0


@asynccontextmanager
async def http_transport(
    target: Target, watch: Watch, auth: "httpx2.Auth | None" = None
) -> "AsyncIterator[TransportStreams]":
    """Speak with a server at an address. Raises: what httpx2 raises, as part of a group."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    client = await to_thread.run_sync(partial(_client, target, watch, auth))  # reading certificates takes its time
    if target.transport == "sse":
        # its `read` bound would end a connection on which nothing happens; calls have bounds of their own
        async with sse_client(
            target.url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: client
        ) as streams:
            yield streams
    else:
        async with (
            client,
            streamable_http_client(target.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams


def _client(target: Target, watch: Watch, auth: "httpx2.Auth | None") -> "httpx2.AsyncClient":
    import httpx2

    address = httpx2.URL(target.url)

    async def look(response: httpx2.Response) -> None:
        if target.transport == "sse" or response.request.url == address:  # else it is where a token is renewed
            watch.needs_login = response.status_code in (401, 403)  # the last one counts
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise httpx2.DecodingError("The server sends its answers compressed.", request=response.request)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _bounded(response.stream)  # of events each has a bound
        response.stream = _mended(response.stream)

    headers = {"User-Agent": "agentcore", **target.headers, "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(CONNECT_S, read=None)  # an answer may wait for a person; calls have bounds of their own
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [look]})


def _bounded(inner: Any) -> Any:
    """A body of which no more is read than a message may be."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in inner:
                size += len(chunk)
                if size > MAX_MESSAGE_BYTES:
                    raise httpx2.StreamError(f"more than {MAX_MESSAGE_BYTES // 1024 // 1024} MiB")
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()

    return Bounded()


def _mended(inner: Any) -> Any:
    """A body without half a surrogate pair, which the SDK's parser refuses."""
    import httpx2

    class Mended(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            mending = Mending()
            async for chunk in inner:
                yield mending.feed(chunk)
            yield mending.end()

        async def aclose(self) -> None:
            await inner.aclose()

    return Mended()
