"""What a subagent has of its session's servers: looked at anew each time, as the session does itself.

One that works in a copy of the project (a git worktree) must not change the project: servers that are run as commands
it has a second time, started there with the first call of a tool of theirs, and ended with it.
"""

from collections.abc import Callable, Mapping, Sequence

import anyio

from agentcore.mcp.pool import CLOSE_S, McpServers
from agentcore.mcp.server import Server
from agentcore.mcp.targets import moved
from agentcore.mcp.tool import Reach, Scene, itself
from agentcore.mcp.toolset import Making, Offering, Toolset
from agentcore.ports.models import ToolDefinition
from agentcore.ports.servers import Elsewhere
from agentcore.ports.tools import Tool, ToolSpec


class LentServers:
    """Satisfies the Lent port."""

    def __init__(
        self,
        offerings: Callable[[], tuple[Offering, ...]],
        making: Making,
        scene: Scene,
        has: Callable[[ToolSpec], bool],
        servers: Sequence[str],
        apart: "ServersApart | None",
    ) -> None:
        self._offerings = offerings
        self._making = making
        self._scene = scene
        self._has = has
        self._apart = apart
        self._reach: Reach = itself if apart is None else apart.reach
        self._toolset = Toolset(servers)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._followed().tools

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return self._followed().definitions

    def _followed(self) -> Toolset:
        offerings = self._offerings()
        self._toolset.follow(offerings, lambda: self._making.tools(offerings, self._scene, self._reach, self._has))
        return self._toolset

    async def close(self) -> None:
        if self._apart is not None:
            await self._apart.close()


class ServersApart:
    """The servers of one subagent in its copy of the project."""

    def __init__(self, pool: McpServers, elsewhere: Elsewhere) -> None:
        self._pool = pool
        self._elsewhere = elsewhere
        self._used: dict[str, Server] = {}
        """By the key of the session's."""

    async def reach(self, server: Server) -> Server:
        """The one in the place of a server of the session, when it was tried; one at an address knows no folder, and
        stays what it is."""
        if server.target.folder is None:
            return server
        key = server.target.key
        if key not in self._used or self._used[key].is_over:
            self._used[key] = self._pool.use(moved(server.target, self._elsewhere))
        await self._used[key].wait_started()
        return self._used[key]

    async def close(self) -> None:
        """End them: nobody else can have used them, and the folder may be removed."""
        used = tuple(self._used.values())
        self._used.clear()
        for server in used:
            server.let_go()
            server.stop()
        with anyio.move_on_after(CLOSE_S, shield=True):
            for server in used:
                if server.has_begun:
                    await server.ended.wait()
