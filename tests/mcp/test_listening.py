"""Words of change from a server over HTTP, when the stream that they come on is cut, as by a proxy."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import SocketStream

from agentcore.mcp.states import State
from agentcore.mcp.targets import Target
from tests.mcp.serving import WITHIN_S, http_server, pool, reached, ready
from tests.mcp.test_servers import say

pytestmark = pytest.mark.anyio


@dataclass
class Proxy:
    """Passes on what is said to another port, until its connections are cut."""

    to: int
    port: int = 0
    held: list[SocketStream] = field(default_factory=list)

    async def pass_on(self, client: SocketStream) -> None:
        with suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            async with client, await anyio.connect_tcp("127.0.0.1", self.to) as server:
                self.held += [client, server]
                async with anyio.create_task_group() as group:
                    group.start_soon(self._copy, client, server)
                    await self._copy(server, client)
                    group.cancel_scope.cancel()

    async def _copy(self, source: SocketStream, sink: SocketStream) -> None:
        with suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            while True:
                await sink.send(await source.receive())

    async def cut(self) -> None:
        held, self.held = self.held, []
        for stream in held:
            await stream.aclose()


@asynccontextmanager
async def proxy(to: int) -> AsyncIterator[Proxy]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        made = Proxy(to, listener.extra(anyio.abc.SocketAttribute.local_port))
        group.start_soon(listener.serve, made.pass_on)
        try:
            yield made
        finally:
            group.cancel_scope.cancel()


async def test_changes_are_heard_of_also_when_their_stream_was_cut_meanwhile() -> None:
    with http_server() as (port, _):
        async with proxy(port) as between, pool() as servers:
            server = await ready(servers, Target("web", "http", "test", url=f"http://127.0.0.1:{between.port}/mcp"))
            connection, tools = await server.connection(WITHIN_S), len(server.offer.tools)
            for number in range(1, 5):
                await say(connection, "grow", number=number)
                await reached(server, State.READY, tools=tools + number)
                await between.cut()
            assert await server.connection(WITHIN_S) is connection
