"""All MCP servers of one process, each once, whatever number of sessions uses it.

The App owns one. A server is there from the first session that wants it until nobody has wanted it for a while;
`close` ends all. Knows no sessions, only how many hold a server.
"""

import logging
from collections.abc import Sequence
from contextlib import nullcontext

import anyio
from anyio.abc import TaskGroup

from agentcore.mcp.server import Loading, Login, Server, no_login
from agentcore.mcp.states import TIMING, State, Timing
from agentcore.mcp.targets import Target
from agentcore.serving import ServerState

log = logging.getLogger(__name__)

CLOSE_S = 8.0
"""For all of them together, side by side: what the end of the slowest process takes."""


class McpServers:
    def __init__(self, *, timing: Timing = TIMING, login: Login = no_login, loading: Loading = nullcontext) -> None:
        """`login` gives what servers over HTTP are shown; `loading` is entered around the loading of the SDK."""
        self._timing = timing
        self._loading = loading
        self._login = login
        self._tasks: TaskGroup | None = None
        self._servers: dict[str, Server] = {}
        self._is_closed = False

    def adopt(self, tasks: TaskGroup) -> None:
        """Run the servers in this group."""
        self._tasks = tasks

    def use(self, target: Target) -> Server:
        """The server of this configuration, started where it is not there yet. Give it back with `let_go`."""
        server = self._servers.get(target.key)
        if server is None or server.is_over:
            server = Server(target, timing=self._timing, login=self._login, loading=self._loading)
            if self._tasks is None or self._is_closed:
                log.warning("the MCP server %s is not started: no task group was adopted", target.name)
                server.state, server.error = State.STOPPED, "This process starts no servers."
            else:
                self._servers[target.key] = server
                self._tasks.start_soon(self._own, server)
        server.use()
        return server

    async def _own(self, server: Server) -> None:
        """The barrier of servers: one that fails in a way that nobody thought of ends alone."""
        try:
            await server.run()
        except Exception:
            log.exception("the MCP server %s has failed", server.target.name)
        finally:
            if self._servers.get(server.target.key) is server:
                del self._servers[server.target.key]

    def describe(self) -> Sequence[ServerState]:
        """The servers that are there, by name."""
        states = [server.described() for server in self._servers.values()]
        return sorted(states, key=lambda one: (one.name, one.source))

    async def close(self) -> None:
        """End all of them; afterwards none is started any more."""
        self._is_closed = True
        servers = tuple(self._servers.values())
        for server in servers:
            server.stop()
        with anyio.move_on_after(CLOSE_S, shield=True):
            for server in servers:
                if server.has_begun:  # another ends before it has done anything, if it ever begins
                    await server.ended.wait()
